//! The user's configuration file: what is usual for the commands that measure. Flags win over it.

use std::{
    env,
    fs::File,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use layermark_fd::{is_open_to_others, is_trusted};
use layermark_model::{MOST_TEXT, Spec, nearest, parse_duration};
use rustix::fs::{OFlags, fstat};
use serde::Deserialize;

use crate::failure::Failure;

/// Its name in the directory of configuration files.
const NAME: &str = "layermark.toml";
/// Its keys.
pub const KEYS: [&str; 3] = ["dir", "budget", "layers"];

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
}

/// Where it is, whether or not it is there. `None` without a home directory.
pub fn path() -> Option<PathBuf> {
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
    let text = match read(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Config::default()),
        Err(e) => {
            let owner = format!("sudo chown $USER {0}; chmod go-w {0}", quoted(&path));
            let hint = match e.kind() {
                io::ErrorKind::PermissionDenied => owner,
                _ => format!("leave it out: mv {0} {0}.old", quoted(&path)),
            };
            return Err(Failure::usage(format!("{}: {e}", path.display())).hint(hint));
        }
    };
    parse(&text)
        .map_err(|(why, hint)| Failure::usage(format!("{}: {why}", path.display())).hint(hint))
}

/// Reads a file that nobody else can change.
fn read(path: &Path) -> io::Result<String> {
    let mut options = File::options();
    // Nobody writes to a FIFO of this name.
    let file = options
        .read(true)
        .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed())
        .open(path)?;
    let stat = fstat(&file)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if !is_trusted(&stat) || is_open_to_others(&stat) {
        let why = "another user can change it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let mut text = String::new();
    file.take(MOST_TEXT).read_to_string(&mut text)?;
    Ok(text)
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
        let text = "dir = \"/mnt/x\"\nbudget = \"30s\"\nlayers = [\"overlay:upper\", \"fuse\"]\n";
        let config = parse(text).unwrap();
        assert_eq!(config.dir.as_deref(), Some(Path::new("/mnt/x")));
        assert_eq!(config.budget.as_deref(), Some("30s"));
        assert_eq!(config.layers.len(), 2);
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
                "dir, budget, layers",
            ),
            ("dir = \"work\"", "not an absolute path", "dir = "),
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
