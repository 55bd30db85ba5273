//! Which checks are made: the arguments of the program.

use std::ffi::OsString;

const EXACT: &str = "--exact";

/// The checks to make.
#[derive(Debug, Clone)]
pub enum Wanted {
    All,
    Containing(String),
    Exactly(String),
}

impl Wanted {
    /// `[--exact] [NAME]`, as libtest's tests are named. Its other options mean nothing here.
    pub fn of(args: &[OsString]) -> Self {
        const WITH_VALUES: [&str; 6] = [
            "-Z",
            "--color",
            "--format",
            "--logfile",
            "--skip",
            "--test-threads",
        ];
        let mut words = args.iter().map(|a| a.to_string_lossy().into_owned());
        let (mut exact, mut name) = (false, None);
        while let Some(word) = words.next() {
            match word.as_str() {
                EXACT => exact = true,
                option if WITH_VALUES.contains(&option) => drop(words.next()),
                option if option.starts_with('-') => {}
                _ => name = Some(word),
            }
        }
        match name {
            Some(name) if exact => Self::Exactly(name),
            Some(part) => Self::Containing(part),
            None => Self::All,
        }
    }

    pub fn args(&self) -> Vec<String> {
        match self {
            Self::All => Vec::new(),
            Self::Containing(part) => vec![part.clone()],
            Self::Exactly(name) => vec![EXACT.to_owned(), name.clone()],
        }
    }

    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Containing(part) => name.contains(part),
            Self::Exactly(whole) => name == whole,
        }
    }

    /// Whether checks of this user are wanted, whose names begin with the user. A part of a name has to begin so too:
    /// otherwise each part would be looked for among the checks of all users, for a minute.
    pub fn of_user(&self, who: &str) -> bool {
        match self {
            Self::All => true,
            Self::Containing(name) | Self::Exactly(name) => name.starts_with(who),
        }
    }
}
