//! Parameters of the workload `replay`.

use std::path::Path;

use layermark_model::{AddedTime, Divided, Meaning, PointError, Reach, Target, TurnCost, Unit};
use layermark_recording::{Call, CallKind, Recording};
use serde::{Deserialize, Serialize};

use super::{example, figures, read};
use crate::param::{Means, Params, Row, Values, words};

/// Characters of a command that name its points.
const NAME: usize = 40;

words! {
    /// What the clock shows.
    pub enum ReplayTime {
        /// The calls, and the time that the program spends between them.
        Application = "application",
        /// The calls alone.
        Io = "io",
    }
}

/// The parameters of one point. Those after `time` are the recording's, and set when settings are expanded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayParams {
    /// Path on this host; empty: the example.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recording: String,
    pub time: ReplayTime,
    /// The command of a step.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub check: String,
    /// Hash of the recording.
    #[serde(default)]
    pub id: String,
    /// Its command, or the name of its file.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub calls: u64,
    #[serde(default)]
    pub tasks: u64,
    /// Entries of its tree.
    #[serde(default)]
    pub entries: u64,
    /// Time that the program spends between its calls, ns.
    #[serde(default)]
    pub think_ns: u64,
    /// Half of the range in which that time was when it was measured, ns.
    #[serde(default)]
    pub think_spread_ns: u64,
    /// Whether it changes its tree.
    #[serde(default)]
    pub changes: bool,
    /// Whether it flushes.
    #[serde(default)]
    pub flushes: bool,
    /// Files that an execution makes, with those of the tree if that is made again.
    #[serde(default)]
    pub files: u64,
    /// The most bytes that it needs on disk.
    #[serde(default)]
    pub space: u64,
    /// What is not in the recording.
    #[serde(default)]
    pub left_out: String,
}

impl Params for ReplayParams {
    const ID: &'static str = "replay";
    const TABLE: &'static [Row<Self>] = &[
        Row::text("recording", "")
            .reaches(Reach::Path)
            .help("a file that `layermark record` has written; without one, a search through 100 files")
            .label(|p: &Self| Some(p.name.clone()))
            .part(|p: &Self| {
                let tasks = if p.tasks == 1 { String::new() } else { format!(" of {} tasks", p.tasks) };
                Some(format!("{}, {} calls{tasks}, {} entries", p.name, p.calls, p.entries))
            }),
        Row::word("time", ReplayTime::WORDS, "application,io")
            .list()
            .help("what the clock shows: the calls and the time that the program spends between them, an estimate; or the calls alone")
            .says(|p: &Self| Some(match p.time {
                ReplayTime::Application => "as the application".into(),
                ReplayTime::Io => "I/O alone".into(),
            })),
        Row::text("check", "")
            .help("the command that was recorded, where it can be run as well: the estimate is compared with its time. In a plan it is the `run` of a step"),
    ];

    fn derive(mut self, values: &Values) -> Result<Vec<Self>, PointError> {
        let recording = self.load()?;
        let known = recording.head.think_ns;
        if self.time == ReplayTime::Application && known.is_none() {
            if values.given("time") && values.all("time").len() == 1 {
                let what = " = application: the recording does not say how long the program spends between its calls";
                return Err(
                    PointError::of("replay", "time", what).hint("measure the calls: time = \"io\"")
                );
            }
            return Ok(Vec::new());
        }
        if self.time == ReplayTime::Application {
            self.think_ns = known.unwrap_or(0);
            self.think_spread_ns = recording.head.think_spread_ns.unwrap_or(0);
        }
        self.describe(&recording);
        Ok(vec![self])
    }
}

impl ReplayParams {
    /// Reads the recording, and sets its absolute path, id and name.
    fn load(&mut self) -> Result<Recording, PointError> {
        if self.recording.is_empty() {
            "search".clone_into(&mut self.name);
            return Ok(example::example());
        }
        let wrong =
            |e: &dyn std::fmt::Display| PointError::of("replay", "recording", format!(": {e}"));
        let path = std::path::absolute(&self.recording).map_err(|e| wrong(&e))?;
        let (recording, id) = read(&path).map_err(|e| {
            let hint = e.hint.clone();
            wrong(&e)
                .hint(hint.unwrap_or_else(|| "layermark record -o app.lmrec -- PROGRAM".into()))
        })?;
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        let command = layermark_model::plain(&recording.head.command).into_owned();
        let name = if command.trim().is_empty() {
            stem.unwrap_or_default()
        } else {
            command
        };
        self.name = name.chars().take(NAME).collect();
        self.recording = path.to_string_lossy().into_owned();
        self.id = id;
        Ok(recording)
    }

    fn describe(&mut self, recording: &Recording) {
        let head = &recording.head;
        self.calls = recording.calls.len() as u64;
        self.tasks = head.tasks.into();
        self.entries = recording.tree.len() as u64;
        self.changes = changes(recording);
        let flushes = |kind| matches!(kind, CallKind::Fsync | CallKind::Fdatasync);
        self.flushes = recording.calls.iter().any(|call| flushes(call.kind));
        let made = recording.made();
        self.files = if self.changes { self.entries + made } else { 0 };
        self.space = recording.tree_bytes().saturating_add(recording.written());
        let left = head
            .left_out
            .iter()
            .map(|(what, count)| format!("{count} x {what}"));
        self.left_out = layermark_model::plain(&left.collect::<Vec<_>>().join("; ")).into_owned();
    }

    /// What it is stored under. For messages.
    pub fn shown(&self) -> &Path {
        Path::new(if self.recording.is_empty() {
            "the example"
        } else {
            &self.recording
        })
    }
}

/// Whether the tree has to be made again after an execution.
pub fn changes(recording: &Recording) -> bool {
    recording.calls.iter().any(Call::changes)
}

impl Means for ReplayParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let said = Meaning {
            operation: self.name.clone(),
            target: Target::Step,
            // Its tree is made in the layer.
            changes: true,
            unit: Unit::Operation,
            flushes: self.flushes,
            same_outcome: true,
            added: (self.time == ReplayTime::Application).then_some(AddedTime {
                ns: self.think_ns,
                spread_ns: self.think_spread_ns,
                between: true,
            }),
            estimates: Some(self.check.clone())
                .filter(|command| !command.is_empty() && self.time == ReplayTime::Application),
            divided: Some(Divided {
                in_memory: false,
                uses_up: false,
                working_set: 0,
                cost: TurnCost::Execution,
                under_way: 0,
            }),
            ..Meaning::default()
        };
        Ok(self
            .described(said)
            .figures(figures::table(&figures::About {
                with_think: self.time == ReplayTime::Application,
                think_spread_ns: self.think_spread_ns,
                tasks: self.tasks,
                left_out: &self.left_out,
            })))
    }
}
