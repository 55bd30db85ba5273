use std::{collections::BTreeSet, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Claim, SizeError, Spec, nearest, parse_duration,
    witness::{CutProgram, sequence::Sequence},
};

/// A plan: what to measure, from a plan file or the flags of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Short name, such as `card`.
    pub name: String,
    /// One sentence for the report's head.
    #[serde(default)]
    pub about: String,
    /// The study whose tables, charts and conclusions are added to the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<StudyId>,
    /// Layers in order. Empty: every layer this machine can set up.
    #[serde(default)]
    pub layers: Vec<Spec>,
    /// The layer that the others are compared with, as in `layers`, with or without its label. It is
    /// added to them if it is missing. Absent: `native`, which is added likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Spec>,
    /// Layers of these that stay, whatever the budget: without them the results answer nothing. A
    /// budget that is too small for them is refused. Empty: the first layer beside the baseline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<Spec>,
    /// How thorough the run is.
    #[serde(default)]
    pub profile: Profile,
    /// Time to spend on trials, such as `2m`. Absent: until the precision is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Time to spend on the trials of each layer, such as `10s`; the baseline counts as one. The budget is
    /// then no longer than this times the layers. Absent: the budget is the same for any number of layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer_budget: Option<String>,
    /// Half-width of a ratio's interval at which to stop, such as 0.05. Absent: the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// Make exactly this many blocks, whatever the precision. Absent: until the precision is
    /// reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// How many times the layers are set up afresh. Absent: the profile's number, and at least
    /// three if setting all of them up takes less than a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// Length of a turn, such as `5ms`. Absent: 2 ms, or 10 ms for large files in memory and where
    /// a guest is among the layers. In a fleet, of the work of one host alone: 0.2 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// Names of the points that get verdicts, as in `label`. The others have intervals but no
    /// verdict. Empty: all points get verdicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirm: Vec<String>,
    /// Differences smaller than this do not matter to the user.
    #[serde(default = "default_delta")]
    pub delta: f64,
    /// Measure the baseline twice and check that the ratio is 1.
    #[serde(default = "yes")]
    pub control: bool,
    /// Seed of order, data and offsets. Absent: drawn and recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Factor for file sizes and counts, for a small run of a large plan.
    #[serde(default = "one")]
    pub scale: f64,
    /// Cut the power of each layer after the measurement, as `layermark durability` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_cuts: Option<PlanCuts>,
    /// The work: each table is one workload's settings; lists make several points.
    pub work: Vec<Settings>,
    /// Claims that the report decides from the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claim: Vec<Claim>,
}

/// Power cuts after the measurement. All layers of the run are cut, and two whose answer is known:
/// `native` and `overlay:volatile`, which lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanCuts {
    /// Power cuts of each layer.
    pub cuts: u32,
    /// Records that each writer writes before the cuts.
    pub records: u64,
    /// Layers that are cut as well, and not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Spec>,
    /// Programs that are cut as well, each with its own check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<CutProgram>,
    /// Sequences of operations that are cut as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences: Option<PlanSequences>,
}

/// Sequences of operations on a few names, each followed by a call that makes it durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanSequences {
    /// 1: all of one operation; 2: a sample of two as well.
    #[serde(default = "one_operation")]
    pub operations: u32,
    /// Sequences of two that are drawn from the seed.
    #[serde(default = "default_sample")]
    pub sample: u32,
    /// Only these, such as `create a/g; fsync a`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
}

fn one_operation() -> u32 {
    1
}

fn default_sample() -> u32 {
    PlanSequences::SAMPLE
}

impl PlanSequences {
    /// Sequences of two that are drawn where nothing else is said.
    pub const SAMPLE: u32 = 200;
    /// Most sequences of two that are drawn.
    pub const MOST_SAMPLE: u32 = 10_000;

    fn check(&self) -> Result<(), PlanError> {
        let range = |key, value: String, must| Err(PlanError::Range { key, value, must });
        if !(1..=2).contains(&self.operations) {
            let value = self.operations.to_string();
            return range(
                "power_cuts.sequences.operations",
                value,
                "it must be 1 or 2",
            );
        }
        if self.sample > Self::MOST_SAMPLE {
            let value = self.sample.to_string();
            return range(
                "power_cuts.sequences.sample",
                value,
                "it must be at most 10000",
            );
        }
        if self.only.len() > Self::MOST_SAMPLE as usize {
            let value = format!("[{} of them]", self.only.len());
            let must = "name at most 10000 sequences";
            return range("power_cuts.sequences.only", value, must);
        }
        for text in &self.only {
            if let Err(why) = text.parse::<Sequence>() {
                let text = text.clone();
                return Err(PlanError::Sequence { text, why });
            }
        }
        Ok(())
    }
}

impl PlanCuts {
    /// Cuts of each layer in a run of this scale. Two at least: with one nothing unflushed survives,
    /// with the other all of it.
    pub fn scaled(&self, scale: f64) -> u32 {
        let cuts = (f64::from(self.cuts) * scale).round();
        (cuts as u32).clamp(self.cuts.min(2), MOST_CUTS)
    }

    fn check(&self) -> Result<(), PlanError> {
        let range = |key, value: String, must| Err(PlanError::Range { key, value, must });
        let allowed = 1..=u64::from(MOST_CUTS);
        for (key, number) in [
            ("power_cuts.cuts", u64::from(self.cuts)),
            ("power_cuts.records", self.records),
        ] {
            if !allowed.contains(&number) {
                return range(key, number.to_string(), "it must be between 1 and 10000");
            }
        }
        if self.also.len() > MOST_LAYERS {
            let value = format!("[{} of them]", self.also.len());
            return range("power_cuts.also", value, "name at most 100 layers");
        }
        if self.programs.len() > MOST_PROGRAMS {
            let value = format!("[{} of them]", self.programs.len());
            return range("power_cuts.programs", value, "name at most 100 programs");
        }
        let names: BTreeSet<&str> = self.programs.iter().map(|p| p.name.as_str()).collect();
        if names.len() < self.programs.len() || names.contains("") {
            let value = format!("[{} of them]", self.programs.len());
            let must = "each needs a name of its own";
            return range("power_cuts.programs", value, must);
        }
        if let Some((key, value, must)) = self.programs.iter().find_map(CutProgram::wrong) {
            return Err(PlanError::Range { key, value, must });
        }
        self.sequences.as_ref().map_or(Ok(()), PlanSequences::check)
    }
}

fn default_delta() -> f64 {
    0.05
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

/// One `[[work]]` table: the workload, a label, and the workload's own parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// The workload's id, such as `file`.
    pub workload: String,
    /// Label in the report. Absent: derived from the parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Parameters by name, as a user writes them: text, numbers, switches or lists of these.
    #[serde(flatten)]
    pub params: Map<String, Value>,
}

/// Whether the parameter `like` has the options of fio. Those of iozone begin with one dash.
pub fn is_like_fio(like: &Value) -> bool {
    let text = like.as_str().unwrap_or_default().trim_start();
    text.starts_with("--") || text.starts_with("fio ")
}

/// A published study that can be repeated here. The report crate has a file for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StudyId {
    /// Application virtualisation: writing and reading a file, 2012.
    FileioAppvirt,
    /// Buffer size for read and write, 2008.
    BufferSize,
    /// File systems of development machines, 2014.
    IozoneVm,
    /// Launch time from a local disk and from shares, 2014.
    LaunchShare,
    /// Emulated against paravirtual I/O.
    VirtualIoStack,
}

impl StudyId {
    /// Every study.
    pub const ALL: [Self; 5] = [
        Self::FileioAppvirt,
        Self::BufferSize,
        Self::IozoneVm,
        Self::LaunchShare,
        Self::VirtualIoStack,
    ];

    /// Its id in a plan.
    pub fn id(self) -> &'static str {
        match self {
            Self::FileioAppvirt => "fileio-appvirt",
            Self::BufferSize => "buffer-size",
            Self::IozoneVm => "iozone-vm",
            Self::LaunchShare => "launch-share",
            Self::VirtualIoStack => "virtual-io-stack",
        }
    }
}

/// How thorough a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// One session, 5 % precision.
    #[default]
    Quick,
    /// Three sessions, 2 %.
    Standard,
    /// Five sessions, 2 %.
    Thorough,
}

impl Profile {
    /// How many times the layers are set up afresh.
    pub fn sessions(self) -> u32 {
        match self {
            Self::Quick => 1,
            Self::Standard => 3,
            Self::Thorough => 5,
        }
    }

    /// Half-width of a ratio's interval at which a point is done.
    pub fn precision(self) -> f64 {
        match self {
            Self::Quick => 0.05,
            Self::Standard | Self::Thorough => 0.02,
        }
    }
}

/// A plan that cannot be run: a usage error, exit code 2.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// Not TOML, or a value of the wrong type.
    #[error("{0}")]
    Syntax(String),
    /// An unknown key.
    #[error("unknown key `{key}`{}", nearest.as_ref().map(|n| format!(": did you mean `{n}`?")).unwrap_or_default())]
    UnknownKey {
        /// As written.
        key: String,
        /// The most similar known key.
        nearest: Option<String>,
    },
    /// A value out of range.
    #[error("`{key}` = {value}: {must}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        must: &'static str,
    },
    /// A sequence of operations that cannot be read or done.
    #[error("`power_cuts.sequences.only` = {text}: {why}")]
    Sequence {
        /// Its text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A duration that cannot be parsed.
    #[error("`{key}`: {source}")]
    Duration {
        /// The key.
        key: &'static str,
        /// What is wrong.
        source: SizeError,
    },
}

const KEYS: [&str; 21] = [
    "name",
    "about",
    "study",
    "layers",
    "baseline",
    "keep",
    "profile",
    "budget",
    "layer_budget",
    "precision",
    "blocks",
    "sessions",
    "turn",
    "confirm",
    "delta",
    "control",
    "seed",
    "scale",
    "power_cuts",
    "work",
    "claim",
];

/// Longest text of a plan, bytes.
pub const MOST_TEXT: u64 = 1 << 20;
/// Most tables `[[work]]` in a plan.
const MOST_WORK: usize = 1000;
/// Most tables `[[claim]]` in a plan.
const MOST_CLAIMS: usize = 100;
/// Most layers in a plan.
const MOST_LAYERS: usize = 100;
/// Most blocks of a plan.
const MOST_BLOCKS: u32 = 10_000;
/// Most programs that are cut.
const MOST_PROGRAMS: usize = 100;
/// Most power cuts of a layer, and most records of a writer before them.
const MOST_CUTS: u32 = 10_000;
/// Longest turn of a plan.
const LONGEST_TURN: Duration = Duration::from_secs(10);

impl Plan {
    /// Parses the text of a plan file.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        let syntax = |e: toml::de::Error| PlanError::Syntax(e.to_string().trim_end().to_owned());
        if text.len() as u64 > MOST_TEXT {
            let text = "it is longer than 1 MiB: write several plans";
            return Err(PlanError::Syntax(text.into()));
        }
        let table: toml::Table = toml::from_str(text).map_err(syntax)?;
        for key in table.keys() {
            if !KEYS.contains(&key.as_str()) {
                return Err(PlanError::UnknownKey {
                    key: key.clone(),
                    nearest: nearest(key, KEYS).map(str::to_owned),
                });
            }
        }
        // The text is parsed a second time, so that an error about a value shows its line.
        let plan: Self = toml::from_str(text).map_err(syntax)?;
        plan.check()?;
        Ok(plan)
    }

    /// Checks every value that can be checked without the lists of layers and workloads.
    pub fn check(&self) -> Result<(), PlanError> {
        let range = |key, value: String, must| Err(PlanError::Range { key, value, must });
        if self.work.is_empty() {
            return range(
                "work",
                "[]".into(),
                "a plan needs at least one [[work]] table",
            );
        }
        for (key, number, most, must) in [
            (
                "work",
                self.work.len(),
                MOST_WORK,
                "write at most 1000 [[work]] tables",
            ),
            (
                "claim",
                self.claim.len(),
                MOST_CLAIMS,
                "write at most 100 [[claim]] tables",
            ),
            (
                "layers",
                self.layers.len(),
                MOST_LAYERS,
                "name at most 100 layers",
            ),
        ] {
            if number > most {
                return range(key, format!("[{number} of them]"), must);
            }
        }
        let unknown = |kept: &&Spec| !self.layers.is_empty() && !self.layers.contains(kept);
        if let Some(kept) = self.keep.iter().find(unknown) {
            return range("keep", kept.to_string(), "name layers of `layers`");
        }
        if let Some(p) = self.precision
            && !(p > 0.0 && p < 1.0)
        {
            return range(
                "precision",
                p.to_string(),
                "write a share between 0 and 1, such as 0.05",
            );
        }
        if let Some(blocks) = self.blocks
            && !(1..=MOST_BLOCKS).contains(&blocks)
        {
            return range(
                "blocks",
                blocks.to_string(),
                "it must be between 1 and 10000",
            );
        }
        if let Some(sessions) = self.sessions
            && !(1..=MOST_BLOCKS).contains(&sessions)
        {
            return range(
                "sessions",
                sessions.to_string(),
                "it must be between 1 and 10000",
            );
        }
        if !(self.delta > 0.0 && self.delta < 1.0) {
            return range(
                "delta",
                self.delta.to_string(),
                "write a share between 0 and 1, such as 0.05",
            );
        }
        if !(self.scale > 0.0 && self.scale <= 1000.0) {
            return range(
                "scale",
                self.scale.to_string(),
                "write a factor above 0 and up to 1000",
            );
        }
        if let Some(cuts) = &self.power_cuts {
            cuts.check()?;
        }
        if self
            .work
            .iter()
            .any(|w| w.label.as_deref().is_some_and(|l| l.trim().is_empty()))
        {
            return range(
                "label",
                "\"\"".into(),
                "write a name, or leave it out for one made from the settings",
            );
        }
        self.budget()?;
        self.layer_budget()?;
        self.turn()?;
        Ok(())
    }

    /// Every layer that it names to be measured.
    pub fn named_layers(&self) -> impl Iterator<Item = &Spec> {
        self.layers.iter().chain(&self.baseline)
    }

    /// The time budget for trials, if there is one.
    pub fn budget(&self) -> Result<Option<Duration>, PlanError> {
        above_zero("budget", self.budget.as_deref())
    }

    fn layer_budget(&self) -> Result<Option<Duration>, PlanError> {
        above_zero("layer_budget", self.layer_budget.as_deref())
    }

    /// Limits the budget to `layer_budget` for each of this many layers, the baseline among them.
    pub fn limit_budget(&mut self, layers: usize) -> Result<(), PlanError> {
        let Some(each) = self.layer_budget()? else {
            return Ok(());
        };
        let limit = each.saturating_mul(u32::try_from(layers).unwrap_or(u32::MAX));
        if self.budget()?.is_none_or(|budget| budget > limit) {
            self.budget = Some(format!("{:.1}s", limit.as_secs_f64()));
        }
        self.layer_budget = None;
        Ok(())
    }

    /// The length of a turn, if the user has set it.
    pub fn turn(&self) -> Result<Option<Duration>, PlanError> {
        let turn = above_zero("turn", self.turn.as_deref())?;
        if turn.is_some_and(|turn| turn > LONGEST_TURN) {
            return Err(PlanError::Range {
                key: "turn",
                value: self.turn.clone().unwrap_or_default(),
                must: "a turn lasts up to 10s",
            });
        }
        Ok(turn)
    }

    /// Whether the point of this name gets a verdict. Each further comparison makes all others
    /// harder to decide. The name of a `[[work]]` table stands for all its points.
    pub fn confirms(&self, label: &str) -> bool {
        self.confirm.is_empty() || self.confirm.iter().any(|name| names(name, label))
    }

    /// A name in `confirm` that none of these points has.
    pub fn unknown_in_confirm<'a>(&'a self, labels: &[&str]) -> Option<&'a str> {
        let unknown = |name: &&String| !labels.iter().any(|label| names(name, label));
        self.confirm.iter().find(unknown).map(String::as_str)
    }

    /// Half-width at which to stop: the plan's own, else the profile's.
    pub fn precision(&self) -> f64 {
        self.precision.unwrap_or_else(|| self.profile.precision())
    }
}

/// Parses a duration that must be above zero.
fn above_zero(key: &'static str, text: Option<&str>) -> Result<Option<Duration>, PlanError> {
    let Some(text) = text else {
        return Ok(None);
    };
    let duration = parse_duration(text).map_err(|source| PlanError::Duration { key, source })?;
    if duration.is_zero() {
        return Err(PlanError::Range {
            key,
            value: text.to_owned(),
            must: "it must be above 0",
        });
    }
    Ok(Some(duration))
}

/// Whether a name matches a label: `small files` matches `small files` and `small files (4K)`.
pub(crate) fn names(name: &str, label: &str) -> bool {
    label
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "name = 'x'\n[[work]]\nworkload = 'file'\nop = 'read'\n";

    #[test]
    fn a_budget_for_each_layer_limits_that_of_all() {
        let limited = |keys: &str, layers| {
            let text = format!("name = 'x'\n{keys}\n[[work]]\nworkload = 'file'");
            let mut plan = Plan::from_toml(&text).unwrap();
            plan.limit_budget(layers).unwrap();
            plan.budget
        };
        let both = "budget = '138s'\nlayer_budget = '10.6s'";
        assert_eq!(limited(both, 3).as_deref(), Some("31.8s"));
        assert_eq!(limited(both, 20).as_deref(), Some("138s"));
        assert_eq!(limited("layer_budget = '1m'", 2).as_deref(), Some("120.0s"));
        assert_eq!(limited("budget = '138s'", 3).as_deref(), Some("138s"));
    }

    #[test]
    fn fills_in_defaults() {
        let plan = Plan::from_toml(SMALL).unwrap();
        assert_eq!(
            (plan.profile, plan.control, plan.precision()),
            (Profile::Quick, true, 0.05)
        );
        assert_eq!(plan.work[0].params["op"], "read");
    }

    #[test]
    fn refuses_unknown_keys_with_the_nearest_known_one() {
        let e = Plan::from_toml(&format!("budgte = '2m'\n{SMALL}")).unwrap_err();
        assert_eq!(
            e.to_string(),
            "unknown key `budgte`: did you mean `budget`?"
        );
    }

    #[test]
    fn only_layers_of_the_plan_can_be_kept() {
        let keep = |layer: &str| {
            Plan::from_toml(&format!(
                "layers = ['tmpfs', 'fuse']\nkeep = ['{layer}']\n{SMALL}"
            ))
        };
        assert_eq!(keep("fuse").unwrap().keep.len(), 1);
        let e = keep("overlay:upper").unwrap_err();
        assert!(e.to_string().starts_with("`keep` = overlay:upper"), "{e}");
    }

    #[test]
    fn refuses_a_point_without_a_name() {
        for label in ["''", "'  '"] {
            let e = Plan::from_toml(&format!("{SMALL}label = {label}\n")).unwrap_err();
            assert!(e.to_string().starts_with("`label` = \"\""), "{e}");
        }
        assert!(Plan::from_toml(&format!("{SMALL}label = 'x'\n")).is_ok());
    }

    #[test]
    fn a_study_is_one_of_those_there_are() {
        for id in StudyId::ALL {
            let plan = Plan::from_toml(&format!("study = '{}'\n{SMALL}", id.id())).unwrap();
            assert_eq!(plan.study, Some(id));
        }
        let e = Plan::from_toml(&format!("study = 'bufer-size'\n{SMALL}")).unwrap_err();
        assert!(e.to_string().contains("`buffer-size`"), "{e}");
    }

    #[test]
    fn a_name_in_confirm_stands_for_the_points_of_its_table() {
        let all = Plan::from_toml(SMALL).unwrap();
        assert!(all.confirms("anything") && all.unknown_in_confirm(&[]).is_none());
        let plan = Plan::from_toml(&format!("confirm = ['small', 'x (4K)']\n{SMALL}")).unwrap();
        for (label, asked) in [
            ("small", true),
            ("small (4K)", true),
            ("small (2)", true),
            ("smaller", false),
            ("x", false),
            ("x (4K)", true),
        ] {
            assert_eq!(plan.confirms(label), asked, "{label}");
        }
        assert_eq!(plan.unknown_in_confirm(&["small (4K)"]), Some("x (4K)"));
        assert!(Plan::from_toml(&format!("confirm = 'x'\n{SMALL}")).is_err());
    }

    #[test]
    fn refuses_values_out_of_range() {
        for line in [
            "precision = 0.0",
            "precision = 7.0",
            "blocks = 0",
            "blocks = 10001",
            "delta = -1.0",
            "scale = 0.0",
            "budget = '0s'",
            "sessions = 0",
            "turn = '0ms'",
            "turn = '1h'",
            "budget = 'x'",
            "layer_budget = '0s'",
            "power_cuts = { cuts = 0, records = 8 }",
            "power_cuts = { cuts = 4, records = 10001 }",
            "power_cuts = { cuts = 4 }",
            "power_cuts = { cuts = 4, records = 8, programs = [{ name = 'x', run = '', check = 'x' }] }",
            "power_cuts = { cuts = 4, records = 8, programs = [{ name = 'x', run = 'x', check = 'x', time_ms = 0 }] }",
            "power_cuts = { cuts = 4, records = 8, programs = [{ name = '', run = 'x', check = 'x' }] }",
        ] {
            assert!(
                Plan::from_toml(&format!("{line}\n{SMALL}")).is_err(),
                "{line}"
            );
        }
        assert!(Plan::from_toml("name = 'x'\nwork = []\n").is_err());
        assert!(Plan::from_toml("name = ").is_err());
        let cut = format!("power_cuts = {{ cuts = 4, records = 8 }}\n{SMALL}");
        let cuts = Plan::from_toml(&cut).unwrap().power_cuts.unwrap();
        assert_eq!(
            [0.1, 1.0, 2.0, 1000.0].map(|s| cuts.scaled(s)),
            [2, 4, 8, 4000]
        );
    }

    #[test]
    fn survives_a_round_trip_through_json() {
        let plan = Plan::from_toml(SMALL).unwrap();
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }
}
