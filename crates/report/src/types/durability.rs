//! Whether the flushes of a result reached the device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the flushes of a point reached the device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Durability {
    /// The verdict.
    pub verdict: DurabilityVerdict,
    /// Level of the check: `L0` configuration, `L1` plausibility, `L2` flush accounting.
    pub level: Option<String>,
    /// Flushes that the devices counted, in the trials behind the verdict. Absent if they do not
    /// count.
    pub flushes: Option<u64>,
    /// Flushing calls of the point in these trials; 0 for a program, whose own are not counted.
    pub syncs: u64,
    /// Flushes that the device counted for each of `syncs`, without those of others, where they are clearly fewer
    /// than the calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_sync: Option<f64>,
    /// The evidence.
    pub because: Option<String>,
    /// A suspicion that is not a proof.
    pub suspicion: Option<String>,
    /// The setting with which the layer drops flushes, such as ``it is mounted `volatile` ``.
    /// Absent if its configuration has no such setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured: Option<String>,
    /// Whether the device counted a flush for each call although `configured` says that none is
    /// passed on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contradicted: bool,
    /// How many of `flushes` came from other programs, estimated from the pauses between the
    /// rounds. Absent if there were none, or no pause was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<f64>,
    /// Flushes that come after the layer's turns: it answers before the device is flushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<LateFlushes>,
    /// Layers on the same device whose late flushes are among `background`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed_by: Vec<String>,
    /// For a program: flushes that the device counted in the baseline in the same blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_flushes: Option<u64>,
}

impl Durability {
    /// Whether flushes do not reach the device, or only after the answer: the device counted none, or the
    /// configuration says so and no count contradicts it.
    pub fn skips(&self) -> bool {
        let as_configured = self.configured.is_some() && !self.contradicted;
        matches!(
            self.verdict,
            DurabilityVerdict::Absorbed | DurabilityVerdict::Late
        ) || self.verdict == DurabilityVerdict::CannotTell && as_configured
    }
}

/// Which sequences of operations the power was cut under: all of one operation, and a sample of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SequenceSample {
    /// Sequences of one operation: all that there are.
    pub of_one: u64,
    /// Sequences of two operations, drawn from the run's seed; 0 if none were asked for.
    pub of_two: u64,
    /// All sequences of two operations that there are.
    pub all_of_two: u64,
}

/// Flushes that follow a layer's turns and no other layer's, while all layers rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LateFlushes {
    /// Turns of the layer with a pause before and after them.
    pub turns: usize,
    /// Device flushes in these turns.
    pub in_turns: u64,
    /// Device flushes in the pauses after them.
    pub later: u64,
    /// Length of a pause, milliseconds.
    pub within_ms: u64,
    /// Such turns of other layers.
    pub other_turns: usize,
    /// Device flushes in the pauses after those.
    pub after_others: u64,
}

/// Whether a flush reached the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DurabilityVerdict {
    /// The device was flushed.
    #[serde(rename = "honoured")]
    Honoured,
    /// The device has a volatile cache and was not flushed.
    #[serde(rename = "absorbed")]
    Absorbed,
    /// The device was flushed, and only after the answer.
    #[serde(rename = "late")]
    Late,
    /// This level cannot decide.
    #[serde(rename = "cannot tell")]
    CannotTell,
    /// The point does not flush.
    #[serde(rename = "not asked")]
    #[default]
    NotAsked,
}

impl DurabilityVerdict {
    /// The label in tables; empty if nothing is flushed.
    pub fn words(self) -> &'static str {
        match self {
            Self::Honoured => "flushes reached the device",
            Self::Absorbed => "fsync skipped",
            Self::Late => "fsync answered early",
            Self::CannotTell => "fsync unknown",
            Self::NotAsked => "",
        }
    }

    /// The id for programs.
    pub fn id(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Absorbed => "absorbed",
            Self::Late => "late",
            Self::CannotTell => "cannot tell",
            Self::NotAsked => "not asked",
        }
    }
}
