//! Which checks are made: the arguments of the program.

use std::ffi::OsString;

const EXACT: &str = "--exact";

/// A part of the checks: a test, for a runner of tests that starts a process for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Every layer that boots no guest.
    Layers,
    /// Guests.
    Guests,
    /// All of them as a user without privilege.
    AsUser,
    /// The same where user namespaces are forbidden.
    AsNobody,
}

const PARTS: [(&str, Part); 4] = [
    ("layers", Part::Layers),
    ("guests", Part::Guests),
    ("as_user", Part::AsUser),
    ("as_nobody", Part::AsNobody),
];

/// Answers `--list`, with which a runner asks for the names of tests.
pub fn lists(args: &[OsString]) -> bool {
    let has = |option: &str| args.iter().any(|arg| arg == option);
    if has("--list") && !has("--ignored") {
        for (name, _) in PARTS {
            println!("{name}: test");
        }
    }
    has("--list")
}

/// The checks to make.
#[derive(Debug, Clone)]
pub enum Wanted {
    All,
    Containing(String),
    Exactly(String),
    Part(Part),
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
            Some(name) if exact => match PARTS.iter().find(|(part, _)| *part == name) {
                Some((_, part)) => Self::Part(*part),
                None => Self::Exactly(name),
            },
            Some(part) => Self::Containing(part),
            None => Self::All,
        }
    }

    pub fn args(&self) -> Vec<String> {
        match self {
            Self::All | Self::Part(_) => Vec::new(),
            Self::Containing(part) => vec![part.clone()],
            Self::Exactly(name) => vec![EXACT.to_owned(), name.clone()],
        }
    }

    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::All | Self::Part(_) => true,
            Self::Containing(part) => name.contains(part),
            Self::Exactly(whole) => name == whole,
        }
    }

    /// Whether checks of this user are wanted, whose names begin with the user. A part of a name has to begin so too:
    /// otherwise each part would be looked for among the checks of all users, for a minute.
    pub fn of_user(&self, who: &str) -> bool {
        match self {
            Self::All => true,
            Self::Part(Part::AsUser) => who == "user",
            Self::Part(Part::AsNobody) => who == "nobody",
            Self::Part(_) => false,
            Self::Containing(name) | Self::Exactly(name) => name.starts_with(who),
        }
    }

    /// Whether guests of every kind are booted: one that is named always is.
    pub fn all_guests(&self) -> bool {
        matches!(self, Self::Containing(_) | Self::Exactly(_))
            || std::env::var_os("LAYERMARK_GUESTS").is_some_and(|guests| guests == "all")
    }

    /// Whether checks of this part are wanted, of whoever makes them.
    pub fn has(&self, part: Part) -> bool {
        match self {
            Self::Part(one) => *one == part,
            _ => true,
        }
    }
}
