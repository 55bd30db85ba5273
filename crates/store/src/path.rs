use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use layermark_model::StoreOption;

use crate::{StoreError, server::Server};

/// The path of a user's store: `$XDG_DATA_HOME/layermark/layermark.db`, else
/// `~/.local/share/layermark/layermark.db`. A relative `XDG_DATA_HOME` is ignored, as required by
/// the XDG base directory specification.
pub fn default_path() -> Result<PathBuf, StoreError> {
    under(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME")).ok_or(StoreError::NoHome)
}

fn under(data: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let data = data.map(PathBuf::from).filter(|p| p.is_absolute());
    let home = home.map(PathBuf::from).filter(|p| p.is_absolute());
    let base = data.or_else(|| home.map(|h| h.join(".local/share")))?;
    Some(base.join("layermark/layermark.db"))
}

/// Location of a store.
pub(crate) enum Place {
    File(PathBuf),
    Server(Server),
}

/// Parses a location: a path, `sqlite:PATH` or `sqlite://PATH`, or the address of a `PostgreSQL`
/// server.
pub(crate) fn place(at: &OsStr) -> Result<Place, StoreError> {
    let bytes = at.as_bytes();
    if let Some(rest) = bytes.strip_prefix(b"sqlite:") {
        let rest = rest.strip_prefix(b"//").unwrap_or(rest);
        let path = OsString::from_vec(rest.to_vec());
        return Ok(Place::File(path.into()));
    }
    let text = at.to_string_lossy();
    match text.split_once("://") {
        Some(("postgres" | "postgresql", _)) => Server::at(&text).map(Place::Server),
        // The rest of the address may contain a password, which must not reach a log.
        Some((scheme, _)) => Err(StoreError::Unsupported {
            scheme: scheme.to_owned(),
        }),
        None => Ok(Place::File(PathBuf::from(at))),
    }
}

/// The location of a store, safe to show and store: without a server's password.
pub fn shown(at: impl AsRef<OsStr>) -> PathBuf {
    let at = at.as_ref();
    match at.to_string_lossy().split_once("://") {
        Some((scheme, rest)) if scheme != "sqlite" => {
            format!("{scheme}://{}", without_password(rest)).into()
        }
        _ => at.into(),
    }
}

/// How commands name a store. `path` is that of an open store, or as returned by [`shown`].
pub(crate) fn option(path: &Path) -> StoreOption {
    // An open store has the path without symbolic links.
    let is_default =
        |default: PathBuf| default == path || default.canonicalize().is_ok_and(|real| real == path);
    if default_path().is_ok_and(is_default) {
        return StoreOption::default();
    }
    StoreOption::new(&without_masks(path))
}

/// The location of a server without `***`, which a server would take for the password. The client asks for one, or
/// finds it as other clients of the server do.
fn without_masks(shown: &Path) -> PathBuf {
    if !is_server(shown) {
        return shown.into();
    }
    let text = shown.to_string_lossy().replacen(":***@", "@", 1);
    let Some((address, query)) = text.split_once('?') else {
        return text.into();
    };
    let known = query.split('&').filter(|pair| !pair.ends_with("=***"));
    let query = known.collect::<Vec<_>>().join("&");
    match query.as_str() {
        "" => address.into(),
        query => format!("{address}?{query}").into(),
    }
}

/// Whether a location, as returned by [`shown`], is on a server.
pub(crate) fn is_server(shown: &Path) -> bool {
    let text = shown.to_string_lossy();
    text.starts_with("postgres") && text.contains("://")
}

/// The text after `://` with `***` for the password. The password extends from the first colon to
/// the last `@`, even if it has characters that should have been percent-encoded.
fn without_password(rest: &str) -> String {
    let mut shown = rest.to_owned();
    if let (Some(colon), Some(at)) = (rest.find(':'), rest.rfind('@'))
        && colon < at
    {
        shown.replace_range(colon + 1..at, "***");
    }
    let Some((address, query)) = shown.split_once('?') else {
        return shown;
    };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        // A percent-encoded name may be `password`.
        Some((name, _)) if name.contains('%') || name.to_lowercase().contains("password") => {
            format!("{name}=***")
        }
        _ => pair.to_owned(),
    });
    format!("{address}?{}", pairs.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_a_server_without_its_password() {
        let named = |at: &str| without_masks(&shown(at)).display().to_string();
        assert_eq!(named("postgres://me:p@w@host/x"), "postgres://me@host/x");
        let query = named("postgres://host/x?password=pw&sslmode=disable");
        assert_eq!(query, "postgres://host/x?sslmode=disable");
        assert_eq!(named("postgres://host/x?password=pw"), "postgres://host/x");
        assert_eq!(named("/a:***@b/x.db"), "/a:***@b/x.db");
    }

    #[test]
    fn the_data_directory_comes_before_the_home_directory() {
        let path = |d: Option<&str>, h: Option<&str>| under(d.map(Into::into), h.map(Into::into));
        assert_eq!(
            path(Some("/d"), Some("/h")),
            Some("/d/layermark/layermark.db".into())
        );
        assert_eq!(
            path(None, Some("/h")),
            Some("/h/.local/share/layermark/layermark.db".into())
        );
        assert_eq!(
            path(Some("d"), Some("/h")),
            Some("/h/.local/share/layermark/layermark.db".into())
        );
        assert_eq!(path(None, None), None);
        assert_eq!(path(Some(""), Some("")), None);
    }

    fn file(at: &str) -> Option<PathBuf> {
        match place(at.as_ref()) {
            Ok(Place::File(path)) => Some(path),
            _ => None,
        }
    }

    #[test]
    fn urls_and_paths_are_told_apart() {
        assert_eq!(file("sqlite:///a/b.db"), Some("/a/b.db".into()));
        assert_eq!(file("sqlite:b.db"), Some("b.db".into()));
        assert_eq!(file("/a/b.db"), Some("/a/b.db".into()));
        for server in ["postgres://me@host/x", "postgresql:///x?host=/run/pg"] {
            assert!(matches!(place(server.as_ref()), Ok(Place::Server(_))));
        }
        let e = place("mysql://me:secret@host/x".as_ref()).err().unwrap();
        assert!(matches!(&e, StoreError::Unsupported { scheme } if scheme == "mysql"));
        assert!(!format!("{e} {:?}", e.hint()).contains("secret"));
    }

    #[test]
    fn a_password_is_never_shown() {
        for (at, expected) in [
            ("/a:b@c", "/a:b@c"),
            ("sqlite://a:b@c", "sqlite://a:b@c"),
            ("postgres://me@host:5432/x", "postgres://me@host:5432/x"),
            (
                "postgres://me:pw@host:5432/x",
                "postgres://me:***@host:5432/x",
            ),
            ("postgresql://me:p:w@h@host/x", "postgresql://me:***@host/x"),
            ("postgres://me:1?p/w#@host/x", "postgres://me:***@host/x"),
            ("postgres://:pw@host", "postgres://:***@host"),
            (
                "postgres://host/x?sslmode=require&password=pw&user=me",
                "postgres://host/x?sslmode=require&password=***&user=me",
            ),
            ("postgres://h/x?PassWord=pw", "postgres://h/x?PassWord=***"),
            (
                "postgres://h/x?pass%77ord=pw",
                "postgres://h/x?pass%77ord=***",
            ),
            ("mysql://me:pw@host/x", "mysql://me:***@host/x"),
        ] {
            assert_eq!(shown(at), PathBuf::from(expected));
        }
    }

    #[test]
    fn an_address_that_cannot_be_read_is_refused_without_its_password() {
        for at in [
            "postgres://me:secret@host:port/x",
            "postgres://me:12?secret@host/x",
            "postgres://me:secret@ho st/x",
            "postgres://host/x?sslmode=secret&password=secret",
            "postgres://host/x?port=secret",
        ] {
            let Err(e) = place(at.as_ref()) else {
                // The part before the `?` may be a valid address, and is shown without the rest.
                assert!(!shown(at).display().to_string().contains("secret"), "{at}");
                continue;
            };
            assert!(matches!(e, StoreError::Address { .. }), "{e:?}");
            let said = format!("{e} {e:?} {:?}", e.hint());
            assert!(
                !said.contains(":secret") && !said.contains("=secret&password=secret"),
                "{said}"
            );
        }
    }
}
