//! Records that were acknowledged, and what a reader finds of them after a power cut.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod check;
mod program;
pub mod sequence;
mod unseen;

pub use check::{Asked, check};
pub use program::{
    AckedItem, CutProgram, ItemCheck, ItemsLost, LONGEST_ITEM, LossExtent, LossOrder, LostItem,
    MOST_ITEMS, ProgramCut, Promise, acknowledges, judge_items,
};
pub use sequence::SequenceCut;
pub use unseen::UnseenCuts;

/// Why power cuts have no result that the run ended before.
pub const NOT_BEGUN: &str = "not done before the run ended";

/// What every unit of 512 bytes of a record says about the record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The run that wrote it.
    pub run: u64,
    /// Place in the file or directory, in records from 0.
    pub block: u64,
    /// Number of the write, from 1; 0 is what the blocks held before the first one.
    pub sequence: u64,
    /// How many times this block had been written, this write included.
    pub generation: u64,
}

/// A record whose fsync returned 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// Number of the write.
    pub sequence: u64,
    /// Where it is.
    pub block: u64,
    /// Generation of that block.
    pub generation: u64,
    /// When the acknowledgement arrived, nanoseconds of the monotonic clock after the first one was
    /// awaited.
    pub ns: u64,
}

/// What a reader found in a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// A record whose checksums are right.
    Whole(Stamp),
    /// Units of several records, or units whose checksum is wrong.
    Torn {
        /// Units of 512 bytes with a right checksum.
        sound: u64,
        /// Units of the record.
        units: u64,
    },
    /// Zeros, or nothing.
    Empty,
}

/// A block and what was found in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The block that was read.
    pub block: u64,
    /// What is in it.
    pub content: Content,
}

/// What a reader found in all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// Blocks that have a name, or lie within their file.
    pub found: Vec<Found>,
    /// The file or directory that holds all blocks is absent.
    #[serde(default)]
    pub absent: bool,
    /// Why the blocks cannot be read: an I/O error, or what a database says about itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// What became of an acknowledged record, or what else was found.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is there, or a later record of its block is.
    Kept,
    /// It was acknowledged and is absent.
    Lost,
    /// Its file or its name is absent.
    LostName,
    /// A block that was made and flushed before the first record is lost, by itself or with its name. Counts have it;
    /// findings have `Lost` or `LostName`.
    LostPrepared,
    /// Parts of it are those of another write.
    Torn,
    /// A whole record of another block is in its place.
    Misplaced,
    /// A record that this run never wrote.
    Phantom,
    /// A later record survived a lost one.
    OrderViolation,
    /// It cannot be read, or the database says that it is damaged.
    Damaged,
}

impl Outcome {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 9] = [
        Self::Kept,
        Self::Lost,
        Self::LostName,
        Self::LostPrepared,
        Self::Torn,
        Self::Misplaced,
        Self::Phantom,
        Self::OrderViolation,
        Self::Damaged,
    ];

    /// What the record is now, for a sentence.
    pub fn state(self) -> &'static str {
        match self {
            // What cannot be read is lost to its user.
            Self::Lost | Self::LostName | Self::LostPrepared | Self::Damaged => "lost",
            other => other.words(),
        }
    }

    /// As people read it, in the head of a column.
    pub fn words(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Lost => "lost",
            Self::LostName => "lost name",
            Self::LostPrepared => "lost prepared block",
            Self::Torn => "torn",
            Self::Misplaced => "misplaced",
            Self::Phantom => "phantom",
            Self::OrderViolation => "order violation",
            Self::Damaged => "damaged",
        }
    }
}

/// One thing that a check found beside records that were kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WitnessFinding {
    /// What it is.
    pub outcome: Outcome,
    /// The acknowledged record that should be there.
    pub sequence: u64,
    /// Its block.
    pub block: u64,
    /// What was found instead, in words.
    pub text: String,
    /// POSIX permits it, so the layer did not lie: a name that was never synced.
    pub permitted: bool,
}

impl WitnessFinding {
    /// What it counts as. A prepared block is no record, so that no more records are lost than were acknowledged.
    fn counted(&self) -> Outcome {
        match (self.sequence, self.outcome) {
            (0, Outcome::Lost | Outcome::LostName) => Outcome::LostPrepared,
            (_, outcome) => outcome,
        }
    }

    /// `record 3 of x, fsync returned at 12:00`, where `of` is ` of x` or empty.
    pub fn promised(&self, of: &str, at: &str) -> String {
        match self.sequence {
            0 => format!("block {}{of}, flushed before the first record", self.block),
            n => format!("record {n}{of}, fsync returned at {at}"),
        }
    }
}

/// The result of a check after one power cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Checked {
    /// Records acknowledged before the cut.
    pub acknowledged: u64,
    /// Of these, how many are there or were overwritten by a later record that is there.
    pub kept: u64,
    /// Numbers of the others.
    pub missing: Vec<u64>,
    /// What was found beside records that were kept, by sequence.
    pub findings: Vec<WitnessFinding>,
}

impl Checked {
    /// Findings that a layer may not have after fsync returned 0.
    pub fn broken(&self) -> impl Iterator<Item = &WitnessFinding> {
        self.findings.iter().filter(|f| !f.permitted)
    }

    /// Whether the layer kept all that it acknowledged.
    pub fn is_kept(&self) -> bool {
        self.broken().next().is_none()
    }

    /// The broken record with the lowest number.
    pub fn first(&self) -> Option<&WitnessFinding> {
        self.broken().min_by_key(|f| f.sequence)
    }

    /// How many of each outcome.
    pub fn counts(&self) -> BTreeMap<Outcome, u64> {
        let mut counts = BTreeMap::new();
        if self.kept > 0 {
            counts.insert(Outcome::Kept, self.kept);
        }
        for finding in &self.findings {
            *counts.entry(finding.counted()).or_default() += 1;
        }
        counts
    }
}

/// What power cuts did to the records of one writer in one layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WitnessTrial {
    /// The layer, as the user wrote it, or the directory of a power cut made by hand.
    pub layer: String,
    /// The writer's name.
    pub writer: String,
    /// A layer that is measured with the others because it is known to lie, or to be honest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<WitnessControl>,
    /// The user named this control as a layer: it is convicted like any other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
    /// Records whose fsync returned 0, cuts or not.
    pub records: u64,
    /// Power cuts after which the records were looked for.
    pub cuts: u64,
    /// Of these, cuts after which something acknowledged was lost or damaged.
    pub losing: u64,
    /// Cuts of which nothing was seen.
    #[serde(flatten)]
    pub unseen: UnseenCuts,
    /// Why no power was cut; then there is one such trial for the layer, without a writer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncut: Option<String>,
    /// Flushes that the disk below counted while all writers of the layer wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes_below: Option<u64>,
    /// Findings of all cuts by outcome; with `kept` each record that was there after a cut.
    pub counts: BTreeMap<Outcome, u64>,
    /// The first record that was lost in the cut that lost the earliest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<LostRecord>,
    /// Why nothing, or no more, was written: what a write or fsync failed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// A call that the layer refuses, with its error. The records do not depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What was there after only the guest was killed; absent for layers that are not guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_killed: Option<GuestKilled>,
    /// Files that were closed before a clean unmount. Only the first trial of a layer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedFiles>,
    /// The layer's stack, and the flushes that each storey counted while all writers wrote. Only the first
    /// trial of a layer has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storeys: Vec<Storey>,
}

/// A guest was killed, and its host went on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GuestKilled {
    /// Acknowledged records of the writer that were missing or damaged afterwards. Absent if the guest
    /// could not be set up again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Why it could not be set up again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Files that were written and closed without a flush, at once before the layer was cleanly unmounted. No power was cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ClosedFiles {
    /// Number of files.
    pub files: u64,
    /// Of these, files that are not whole afterwards. Absent if nobody could look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// What was found of the first of them, and where; or why nobody could look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One part of the stack between an application and the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Storey {
    /// What it is: the records, a file system and its mount point, or a device.
    pub name: String,
    /// What is known of its cache: `write back`, `write through` or a mount option. Empty: unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cache: String,
    /// Flushes, or acknowledged records, while the records were written. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes: Option<u64>,
}

impl WitnessTrial {
    /// It lost what it had acknowledged in a power cut.
    pub fn lied(&self) -> bool {
        self.losing > 0
    }

    /// Adds the result of one more cut. `log` is what was acknowledged before it, `started_ms` when the
    /// first acknowledgement was awaited, milliseconds since 1970 UTC.
    pub fn add(&mut self, checked: &Checked, log: &[Acknowledged], started_ms: i64) {
        self.cuts += 1;
        self.losing += u64::from(!checked.is_kept());
        for (outcome, n) in checked.counts() {
            *self.counts.entry(outcome).or_default() += n;
        }
        let Some(finding) = checked.first() else {
            return;
        };
        let known = self.first.as_ref();
        if known.is_none_or(|known| finding.sequence < known.finding.sequence) {
            self.first = Some(LostRecord::of(finding, checked, log, started_ms));
        }
    }
}

/// A layer that shows that the witness works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WitnessControl {
    /// It has to be caught.
    Liar,
    /// It has to be acquitted.
    Honest,
}

/// The first lost record and its history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LostRecord {
    /// What was found.
    pub finding: WitnessFinding,
    /// When it was acknowledged, milliseconds since 1970 UTC, by the monotonic clock since the start.
    pub at_ms: i64,
    /// Acknowledged records around it, in their order.
    pub timeline: Vec<TimelineRecord>,
}

/// An acknowledged record on the timeline of a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TimelineRecord {
    /// Its number.
    pub sequence: u64,
    /// Its block.
    pub block: u64,
    /// When it was acknowledged, milliseconds since 1970 UTC.
    pub at_ms: i64,
    /// Whether it was there after the cut.
    pub kept: bool,
}

/// Records of the timeline before the first lost one, and after it.
const AROUND: usize = 4;

impl LostRecord {
    fn of(
        finding: &WitnessFinding,
        checked: &Checked,
        log: &[Acknowledged],
        started_ms: i64,
    ) -> Self {
        let at_ms = |ns: u64| started_ms.saturating_add((ns / 1_000_000).cast_signed());
        let at = log.partition_point(|a| a.sequence < finding.sequence);
        let around = at.saturating_sub(AROUND)..(at + 1 + AROUND).min(log.len());
        let row = |ack: &Acknowledged| TimelineRecord {
            sequence: ack.sequence,
            block: ack.block,
            at_ms: at_ms(ack.ns),
            kept: checked.missing.binary_search(&ack.sequence).is_err(),
        };
        Self {
            finding: finding.clone(),
            at_ms: log.get(at).map_or(started_ms, |ack| at_ms(ack.ns)),
            timeline: log[around].iter().map(row).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times are those of the monotonic clock since the start. The time of day is read once.
    #[test]
    fn times_of_records_go_forward_whatever_becomes_of_the_clock() {
        let log: Vec<Acknowledged> = (1..=9)
            .map(|sequence| Acknowledged {
                sequence,
                block: sequence - 1,
                generation: 1,
                ns: sequence * 1_500_000,
            })
            .collect();
        let finding = WitnessFinding {
            outcome: Outcome::Lost,
            sequence: 5,
            block: 4,
            text: "it is absent".into(),
            permitted: false,
        };
        let checked = Checked {
            acknowledged: 9,
            kept: 8,
            missing: vec![5],
            findings: vec![finding],
        };
        for started_ms in [-5, 0, i64::MAX] {
            let mut trial = WitnessTrial::default();
            trial.add(&checked, &log, started_ms);
            let first = trial.first.unwrap();
            assert_eq!(first.at_ms, started_ms.saturating_add(7));
            assert!(first.timeline.is_sorted_by_key(|r| r.at_ms), "{first:?}");
            let missing: Vec<u64> = first
                .timeline
                .iter()
                .filter(|r| !r.kept)
                .map(|r| r.sequence)
                .collect();
            assert_eq!(missing, [5]);
        }
    }
}
