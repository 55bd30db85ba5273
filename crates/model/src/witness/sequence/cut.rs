//! What power cuts did to sequences in one layer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Basis, LostThing};
use crate::witness::{UnseenCuts, WitnessControl};

/// What power cuts did to sequences of operations in one layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SequenceCut {
    /// The layer, as the user wrote it.
    pub layer: String,
    /// A layer that is cut because it is known to lie, or to be honest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<WitnessControl>,
    /// The user named this control as a layer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
    /// Why no power was cut under any, or, where `cuts` is not 0, why none was cut under the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncut: Option<String>,
    /// Sequences that were done, and whose cuts were all tried, or one of them took what was promised.
    pub sequences: u64,
    /// Sequences that the run ended before, or before all of their cuts; not in `sequences`.
    #[serde(default)]
    pub unfinished: u64,
    /// Sequences of which the layer refused a call, or did something else than on other file systems; not in
    /// `sequences`.
    #[serde(default)]
    pub left_out: u64,
    /// The first of them, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out_why: Option<String>,
    /// Power cuts after which the files were looked at.
    pub cuts: u64,
    /// Cuts of which nothing was seen.
    #[serde(flatten)]
    pub unseen: UnseenCuts,
    /// Time of all cuts with their recovery, ns.
    #[serde(default)]
    pub elapsed_ns: u64,
    /// Sequences that lost something, each with the first cut that took what was promised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostSequence>,
    /// The one with the fewest operations, made smaller as long as it lost something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest: Option<LostSequence>,
}

/// A sequence that lost something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostSequence {
    /// Its operations, as `--sequence` reads them.
    pub sequence: String,
    /// When the power was cut, and what survived.
    pub state: SequenceState,
    /// All that was lost.
    pub things: Vec<LostThing>,
}

/// One power cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SequenceState {
    /// Operations that had been acknowledged.
    pub acknowledged: u64,
    /// Which of the unflushed writes of the disk survived.
    pub survives: String,
}

impl LostSequence {
    /// The worst promise that was broken.
    pub fn basis(&self) -> Basis {
        let all = self.things.iter().map(|thing| thing.basis);
        all.min().unwrap_or(Basis::Linux)
    }
}

impl SequenceCut {
    /// Sequences that lost something that was promised so.
    pub fn losing(&self, basis: Basis) -> u64 {
        let of = self.lost.iter().filter(|lost| lost.basis() == basis);
        of.count() as u64
    }

    /// It lost what POSIX or fsync(2) promises.
    pub fn lied(&self) -> bool {
        self.losing(Basis::Posix) > 0
    }
}
