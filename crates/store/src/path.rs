use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use crate::StoreError;

/// Where a user's runs are kept: `$XDG_DATA_HOME/layermark/layermark.db`, else
/// `~/.local/share/layermark/layermark.db`. A relative `XDG_DATA_HOME` is ignored, as the XDG
/// base directory specification asks.
pub fn default_path() -> Result<PathBuf, StoreError> {
    under(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME")).ok_or(StoreError::NoHome)
}

fn under(data: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let data = data.map(PathBuf::from).filter(|p| p.is_absolute());
    let home = home.map(PathBuf::from).filter(|p| p.is_absolute());
    let base = data.or_else(|| home.map(|h| h.join(".local/share")))?;
    Some(base.join("layermark/layermark.db"))
}

/// A path as it is, or what follows `sqlite:` or `sqlite://`.
pub(crate) fn from_url(at: &OsStr) -> Result<PathBuf, StoreError> {
    let bytes = at.as_bytes();
    if let Some(rest) = bytes.strip_prefix(b"sqlite:") {
        let rest = rest.strip_prefix(b"//").unwrap_or(rest);
        return Ok(PathBuf::from(OsString::from_vec(rest.to_vec())));
    }
    let text = at.to_string_lossy();
    match text.split_once("://") {
        // A password in the address must not reach a log.
        Some((scheme, _)) => Err(StoreError::Unsupported {
            scheme: scheme.to_owned(),
        }),
        None => Ok(PathBuf::from(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn urls_and_paths_are_told_apart() {
        assert_eq!(
            from_url("sqlite:///a/b.db".as_ref()).unwrap(),
            PathBuf::from("/a/b.db")
        );
        assert_eq!(
            from_url("sqlite:b.db".as_ref()).unwrap(),
            PathBuf::from("b.db")
        );
        assert_eq!(
            from_url("/a/b.db".as_ref()).unwrap(),
            PathBuf::from("/a/b.db")
        );
        let e = from_url("postgres://me:secret@host/x".as_ref()).unwrap_err();
        assert!(matches!(&e, StoreError::Unsupported { scheme } if scheme == "postgres"));
        assert!(!format!("{e} {:?}", e.hint()).contains("secret"));
    }
}
