//! The user's configuration file: what is usual for the commands that measure. Flags win over it.

use std::{
    env, fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use layermark_fd::{Refused, open_own};
use layermark_model::{MOST_TEXT, Spec, nearest, parse_duration};
use serde::Deserialize;

use crate::{common_args, failure::Failure};

/// Its name in the directory of configuration files.
const NAME: &str = "layermark.toml";
/// Its keys.
pub const KEYS: [&str; 4] = ["dir", "budget", "layers", "label"];

/// What it says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Config {
    /// The directory to work in, for `--dir`.
    pub dir: Option<PathBuf>,
    /// For `--budget`, of commands for one workload and of plans that come with layermark.
    pub budget: Option<String>,
    /// For `-l`, of commands for one workload and of plans without layers of their own.
    #[serde(default)]
    pub layers: Vec<Spec>,
    /// For `--label`: the user's name for this machine.
    pub label: Option<String>,
}

/// Where it is, whether or not it is there. `None` without a home directory.
pub fn path() -> Option<PathBuf> {
    // The developer's own file decides no unit test.
    if cfg!(test) {
        return None;
    }
    let var = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    // A relative path is to be ignored, says the specification.
    let own = var("XDG_CONFIG_HOME").map(PathBuf::from);
    let own = own.filter(|dir| dir.is_absolute());
    let dir = own.or_else(|| Some(PathBuf::from(var("HOME")?).join(".config")))?;
    Some(dir.join(NAME))
}

/// Reads it; the default where it is not there.
pub fn load() -> Result<Config, Failure> {
    let Some(path) = path() else {
        return Ok(Config::default());
    };
    let refused = |(why, hint): (String, String)| {
        Failure::usage(format!("{}: {why}", path.display())).hint(hint)
    };
    let text = match read(&path) {
        Ok(text) => text,
        // Also below what is no directory, and where this user may not look.
        Err(_) if fs::metadata(&path).is_err() => return Ok(Config::default()),
        Err(e) => return Err(refused(unreadable(e, &path))),
    };
    parse(&text).map_err(refused)
}

/// Reads a file that nobody else can change, on a path that nobody else can lead elsewhere.
fn read(path: &Path) -> Result<String, Refused> {
    let mut text = String::new();
    let file = open_own(path)?;
    file.take(MOST_TEXT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_TEXT {
        let why = format!("it is larger than {} KiB", MOST_TEXT >> 10);
        return Err(io::Error::other(why).into());
    }
    Ok(text)
}

/// The error and its hint.
fn unreadable(e: Refused, path: &Path) -> (String, String) {
    let owned = |path: &Path, mode: &str| {
        let path = quoted(path);
        format!("sudo chown -h $(id -un) {path}; chmod {mode} {path}")
    };
    match e {
        Refused::At(by) => {
            let what = if by == path {
                "it".to_owned()
            } else {
                by.display().to_string()
            };
            let hint = if by == path {
                owned(&by, "go-w")
            } else {
                let dir = quoted(&by);
                format!("chmod go-w {dir}, or keep it elsewhere: XDG_CONFIG_HOME=DIR")
            };
            (format!("another user can change {what}"), hint)
        }
        Refused::Io(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            (e.to_string(), owned(path, "u+r"))
        }
        Refused::Io(e) => {
            let path = quoted(path);
            (e.to_string(), format!("leave it out: mv {path} {path}.old"))
        }
    }
}

/// The error and its hint.
fn parse(text: &str) -> Result<Config, (String, String)> {
    let known = || format!("its keys are {}: layermark docs reference", KEYS.join(", "));
    let table: toml::Table = toml::from_str(text).map_err(|e| (e.message().to_owned(), known()))?;
    let unknown = table.keys().find(|key| !KEYS.contains(&key.as_str()));
    if let Some(key) = unknown {
        let near = nearest(key, KEYS).map(|near| format!("did you mean `{near}`? "));
        let hint = near.unwrap_or_default() + &known();
        return Err((format!("unknown key `{key}`"), hint));
    }
    let config: Config = table
        .try_into()
        .map_err(|e: toml::de::Error| (e.message().to_owned(), known()))?;
    if let Some(dir) = config.dir.as_ref().filter(|dir| !dir.is_absolute()) {
        let why = format!("`dir` = {}: it is not an absolute path", dir.display());
        return Err((why, "dir = \"/var/tmp\"".into()));
    }
    if let Some(budget) = &config.budget {
        parse_duration(budget)
            .map_err(|e| (format!("`budget`: {e}"), "budget = \"60s\"".into()))?;
    }
    if let Some(label) = &config.label {
        common_args::label(label)
            .map_err(|e| (format!("`label`: {e}"), "label = \"build-7\"".into()))?;
    }
    for layer in &config.layers {
        if layermark_layers::find(&layer.layer).is_none() && !layer.is_native() {
            let why = format!("`layers`: there is no layer `{layer}`");
            return Err((why, "see what there is: layermark layers".into()));
        }
    }
    Ok(config)
}

fn quoted(path: &Path) -> String {
    shell_words::quote(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_it_is_read() {
        let text = "dir = \"/mnt/x\"\nbudget = \"30s\"\nlayers = [\"overlay:upper\", \"fuse\"]\nlabel = \"build-7\"\n";
        let config = parse(text).unwrap();
        assert_eq!(config.dir.as_deref(), Some(Path::new("/mnt/x")));
        assert_eq!(config.budget.as_deref(), Some("30s"));
        assert_eq!(config.layers.len(), 2);
        assert_eq!(config.label.as_deref(), Some("build-7"));
        assert_eq!(parse(""), Ok(Config::default()));
    }

    #[test]
    fn what_is_wrong_in_it_is_named_with_what_is_right() {
        for (text, why, hint) in [
            (
                "layer = [\"fuse\"]",
                "unknown key `layer`",
                "did you mean `layers`?",
            ),
            (
                "verbose = true",
                "unknown key `verbose`",
                "dir, budget, layers, label",
            ),
            ("dir = \"work\"", "not an absolute path", "dir = "),
            ("label = \"a\\nb\"", "`label`", "build-7"),
            ("budget = \"soon\"", "`budget`", "60s"),
            (
                "layers = [\"no-such\"]",
                "no layer `no-such`",
                "layermark layers",
            ),
            ("layers = \"fuse\"", "", "its keys are"),
            ("dir = [", "", "its keys are"),
        ] {
            let (said, hinted) = parse(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
            assert!(hinted.contains(hint), "{text}: {hinted}");
        }
    }
}
