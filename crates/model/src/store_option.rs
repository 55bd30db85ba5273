use std::{fmt, path::Path};

/// How commands name a run: by its store, unless that is the default one, or by its archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StoreOption {
    /// The default store, or none.
    #[default]
    Usual,
    /// Another store.
    Store(String),
    /// The run is in a file of its own, and in no store.
    Archive(String),
}

impl StoreOption {
    /// The option for a store that is not the default one. `shown` must not contain a password.
    pub fn new(shown: &Path) -> Self {
        Self::Store(shown.to_string_lossy().into_owned())
    }

    /// A run in the file at `path`.
    pub fn archive(path: &Path) -> Self {
        Self::Archive(path.to_string_lossy().into_owned())
    }

    /// The words by which a command finds the run of this id, such as `01AB --store FILE` or `x.lm`.
    pub fn find(&self, id: &str) -> String {
        match self {
            Self::Usual | Self::Store(_) => format!("{id}{self}"),
            Self::Archive(path) => shell_words::quote(&crate::plain(path)).into_owned(),
        }
    }
}

/// ` --store FILE`, with the space in front; nothing for the default store.
impl fmt::Display for StoreOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(store) => {
                write!(f, " --store {}", shell_words::quote(&crate::plain(store)))
            }
            Self::Usual | Self::Archive(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_path_as_one_word() {
        assert_eq!(StoreOption::default().to_string(), "");
        let of = |path: &str| StoreOption::new(Path::new(path)).to_string();
        assert_eq!(of("/data/runs.db"), " --store /data/runs.db");
        assert_eq!(of("/my data/runs.db"), " --store '/my data/runs.db'");
    }

    #[test]
    fn a_run_is_found_by_its_store_or_by_its_file() {
        assert_eq!(StoreOption::default().find("01AB"), "01AB");
        let store = StoreOption::new(Path::new("/data/runs.db"));
        assert_eq!(store.find("01AB"), "01AB --store /data/runs.db");
        let file = StoreOption::archive(Path::new("my run.lm"));
        assert_eq!(file.find("01AB"), "'my run.lm'");
    }
}
