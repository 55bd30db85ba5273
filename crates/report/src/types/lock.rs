//! Whether locks exclude two clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a lock that is taken on one side of a layer's directory is refused to the other side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockRow {
    /// The layer.
    pub layer: String,
    /// The kind of lock: `flock`, `fcntl`, `ofd`.
    pub kind: String,
    /// The answer.
    pub verdict: LockVerdict,
    /// What it rests on, or what is missing.
    pub because: String,
    /// The same as data.
    #[serde(skip)]
    pub why: LockReason,
    /// Locks that were taken on one side and tried on the other.
    pub tried: u64,
    /// Those of them that were refused to the other side.
    pub excluded: u64,
    /// The longest time from when a lock was taken until the other side was refused, microseconds.
    pub longest_us: Option<f64>,
    /// Ids of the results behind it.
    pub evidence: Vec<String>,
}

/// What an answer rests on, or what is missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum LockReason {
    /// The other side took locks that this side held.
    Took {
        /// How many it took.
        taken: u64,
        /// How many it tried.
        tried: u64,
    },
    /// The other side was refused each.
    Refused {
        /// How many it tried.
        tried: u64,
        /// The longest time until it was refused, microseconds.
        longest_us: Option<f64>,
    },
    /// Why it did not try: the stored error, or the stored reason for leaving the points out.
    Stored(String),
    /// It did not try, and no reason is stored.
    #[default]
    OneClient,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LockVerdict {
    /// Each lock was refused to the other side.
    Excludes,
    /// The other side took a lock that was held.
    DoesNotExclude,
    /// The other side did not try.
    NotProved,
}

impl LockVerdict {
    /// The word of the tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Excludes => "excludes",
            Self::DoesNotExclude => "does not exclude",
            Self::NotProved => "not proved",
        }
    }
}
