//! Whether a directory can be relied on: the answers of `layermark safe`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a directory can be relied on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Safety {
    /// [`Safety::SCHEMA`].
    pub schema: String,
    /// The run with the measurements.
    pub run: String,
    /// The directory.
    pub dir: String,
    /// Type of its file system.
    pub file_system: String,
    /// One for each question.
    pub answers: Vec<SafeAnswer>,
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SafeAnswer {
    /// The question.
    pub question: SafeQuestion,
    /// The answer.
    pub answer: SafeVerdict,
    /// What it rests on, or what is missing.
    pub because: String,
    /// What to do, if it is not *yes*.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Ids of the results behind it.
    pub evidence: Vec<String>,
}

/// What can be asked.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SafeTopic {
    /// Do locks exclude?
    Locks,
    /// Do two processes see what the other one writes into a shared mapping?
    Mappings,
    /// Does fsync reach the device?
    Fsync,
    /// Are names there after a power cut?
    Names,
    /// Does the other side see changes?
    Coherence,
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SafeQuestion {
    /// Locks of flock(2).
    Flock,
    /// Record locks of a process.
    Fcntl,
    /// Record locks of an open file.
    Ofd,
    /// Shared mappings of two processes.
    SharedMappings,
    /// Whether fsync reaches the device.
    Fsync,
    /// Names after a power cut.
    Names,
    /// Changes seen by the other side.
    Coherence,
}

impl SafeQuestion {
    /// The words before the answer.
    pub fn title(self) -> &'static str {
        match self {
            Self::Flock => "flock locks",
            Self::Fcntl => "fcntl locks",
            Self::Ofd => "OFD locks",
            Self::SharedMappings => "shared mappings",
            Self::Fsync => "fsync",
            Self::Names => "names after a cut",
            Self::Coherence => "coherence",
        }
    }
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SafeVerdict {
    /// It was shown.
    Yes,
    /// The contrary was shown.
    No,
    /// Neither was shown.
    NotProved,
}

impl SafeVerdict {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::NotProved => "not proved",
        }
    }
}

impl Safety {
    /// Name and version of the JSON contract.
    pub const SCHEMA: &'static str = "layermark.safe/1";

    /// The worst answer: *no* before *not proved*.
    pub fn worst(&self) -> SafeVerdict {
        let has = |verdict| self.answers.iter().any(|a| a.answer == verdict);
        let worse = [SafeVerdict::No, SafeVerdict::NotProved];
        let found = worse.into_iter().find(|verdict| has(*verdict));
        found.unwrap_or(SafeVerdict::Yes)
    }
}
