use std::{fmt, path::Path};

/// How commands name a run's store: ` --store FILE`, with the space in front, or nothing for the
/// default store and for a run that is not stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreOption(Option<String>);

impl StoreOption {
    /// The option for a store that is not the default one. `shown` must not contain a password.
    pub fn new(shown: &Path) -> Self {
        Self(Some(shown.to_string_lossy().into_owned()))
    }
}

impl fmt::Display for StoreOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(store) => write!(f, " --store {}", shell_words::quote(&crate::plain(store))),
            None => Ok(()),
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
}
