use std::fmt;

/// What an option of a layer, or a parameter of a workload, reaches beyond the directory of the run. A plan or
/// store that other users can change uses it only with `--allow-programs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// A program of its choice runs on this host, or where it leads.
    Program,
    /// A kernel of its choice is booted.
    Kernel,
    /// Files outside the run's directory are read or written.
    Path,
    /// An address of its choice is connected to.
    Network,
    /// Passwords and keys of this host, or values of the user's environment, are used.
    Secrets,
}

impl Reach {
    /// All of them, in the order of the docs.
    pub const ALL: [Self; 5] = [
        Self::Program,
        Self::Kernel,
        Self::Path,
        Self::Network,
        Self::Secrets,
    ];
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "program",
            Self::Kernel => "kernel",
            Self::Path => "path",
            Self::Network => "network",
            Self::Secrets => "secrets",
        })
    }
}

/// A value that a plan gives to such an option or parameter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reached {
    /// What it reaches.
    pub what: Reach,
    /// The option and its value, as a plan has them.
    pub by: String,
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({})", self.by, self.what)
    }
}
