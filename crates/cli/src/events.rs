//! `--events jsonl`: the events of a run for programs, one JSON object a line.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use layermark_lab::{self as lab, Event};
use layermark_model::RunStatus;
use layermark_report::{EarlyCell, SoFar};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    commands::target::{Destination, FileOption},
    failure::Failure,
    say::say,
};

/// Where events are written, as `--events` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventsTarget {
    /// Standard error, among the lines for people. Lines of events begin with `{`.
    Stderr,
    /// A new file.
    File(PathBuf),
}

/// Parses `--events`: `jsonl`, `jsonl:FILE`.
pub fn parse_target(text: &str) -> Result<EventsTarget, String> {
    match text.split_once(':') {
        None if text == "jsonl" => Ok(EventsTarget::Stderr),
        Some(("jsonl", path)) if !path.is_empty() => Ok(EventsTarget::File(path.into())),
        _ => Err("write jsonl for standard error, or jsonl:FILE".into()),
    }
}

/// One line: an event, and when it was written.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EventLine {
    /// Milliseconds since 1970 UTC.
    pub at_ms: i64,
    /// The event.
    #[serde(flatten)]
    pub event: RunEvent,
}

/// An event of a run. Programs skip those that they do not know.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum RunEvent {
    /// The run is in the store.
    Started {
        /// Name and version of these lines: `layermark.events/1`.
        schema: &'static str,
        /// The run's id.
        run: String,
        /// Name of the baseline.
        baseline: String,
        /// The layers that are compared with the baseline.
        layers: Vec<String>,
        /// The points.
        points: Vec<String>,
        /// Seed of order, data and offsets.
        seed: u64,
        /// It continues an earlier part.
        resumed: bool,
    },
    /// A layer is up.
    LayerReady {
        /// Its name.
        layer: String,
        /// Duration of its set-up, seconds.
        seconds: f64,
    },
    /// A layer could not be set up, or was lost. The other layers continue.
    LayerFailed {
        /// Its name.
        layer: String,
        /// The reason.
        reason: String,
        /// A command or an option that may help.
        hint: Option<String>,
    },
    /// All layers have been set up again.
    Session {
        /// From 1.
        session: u32,
        /// Number of planned sessions.
        sessions: u32,
    },
    /// A trial ended and is in the store.
    Trial {
        /// Trials so far.
        done: u64,
        /// Expected number of trials; never fewer than reported before.
        planned: u64,
        /// Expected time left, seconds; absent while nothing is known.
        left_s: Option<f64>,
        /// The block, from 1.
        block: u32,
        /// Least number of blocks of each point.
        blocks: u32,
        /// The layer.
        layer: String,
        /// The point.
        point: String,
        /// Nanoseconds an operation; absent when it failed.
        ns_per_op: Option<f64>,
        /// Why it failed.
        error: Option<String>,
        /// Names of the trial's flags.
        flags: Vec<String>,
    },
    /// All ratios so far, after a block.
    Matrix {
        /// The block that has ended, from 1.
        block: u32,
        /// A cell for each point in each layer that has a ratio.
        cells: Vec<MatrixCell>,
        /// Blocks after which the words were given; absent before the first look, which is after eight.
        #[serde(skip_serializing_if = "Option::is_none")]
        looked_after: Option<usize>,
    },
    /// A point is known precisely enough in a layer.
    Settled {
        /// The layer.
        layer: String,
        /// The point.
        point: String,
        /// Blocks it took.
        blocks: usize,
        /// Half-width of the ratio's interval: 0.02 is 2 %.
        half_width: f64,
    },
    /// A note for the user.
    Note {
        /// The note.
        text: String,
    },
    /// A problem that may make the result less reliable.
    Warning {
        /// The problem.
        text: String,
        /// A command or an option that may help.
        hint: Option<String>,
    },
    /// All layers are unwound and all trials stored. The report and the exit code follow.
    Done {
        /// The run's id.
        run: String,
        /// Its status.
        status: RunStatus,
        /// Trials in the store.
        trials: u64,
    },
}

/// A ratio so far.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MatrixCell {
    /// The layer.
    pub layer: String,
    /// The point.
    pub point: String,
    /// Time in the layer over the baseline's.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
    /// The word at the last look (`same`, `slower`, `faster`); absent where nothing is decided so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<&'static str>,
}

/// Name and version of the lines.
const SCHEMA: &str = "layermark.events/1";

/// JSON schema of a line.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(EventLine).to_value()
}

/// Writes the events of a run.
pub struct Events {
    out: RefCell<Box<dyn Write>>,
    /// Ratios so far, by point and layer.
    cells: RefCell<BTreeMap<(String, String), lab::Ratio>>,
    /// Words of the last look, in the same way.
    words: RefCell<BTreeMap<(String, String), &'static str>>,
    looked_after: Cell<Option<usize>>,
    block: Cell<u32>,
    /// The reader has gone: nothing more is written.
    broken: Cell<bool>,
}

impl Events {
    /// Checks that a file can be made, before anything is done.
    ///
    /// # Errors
    /// If not: others could exchange it, or it is something else.
    pub fn check(target: &EventsTarget) -> Result<(), Failure> {
        match target {
            EventsTarget::Stderr => Ok(()),
            EventsTarget::File(path) => place(path).map(drop),
        }
    }

    /// # Errors
    /// If the file cannot be made, or is there already.
    pub fn open(target: &EventsTarget) -> Result<Self, Failure> {
        let out: Box<dyn Write> = match target {
            EventsTarget::Stderr => Box::new(io::stderr()),
            EventsTarget::File(path) => Box::new(new_file(path)?),
        };
        Ok(Self {
            out: RefCell::new(out),
            cells: RefCell::default(),
            words: RefCell::default(),
            looked_after: Cell::new(None),
            block: Cell::new(0),
            broken: Cell::new(false),
        })
    }

    /// Writes an event of the lab, and the matrix after the last trial of a block.
    pub fn write(&self, event: &Event) {
        if let Event::TrialDone { block, .. } = event {
            self.matrix_before(*block);
        }
        if let Event::RunEnded { .. } = event {
            self.matrix_before(u32::MAX);
        }
        if let Event::TrialDone {
            layer,
            point,
            ratio: Some(ratio),
            ..
        } = event
        {
            let key = (point.clone(), layer.clone());
            self.cells.borrow_mut().insert(key, *ratio);
        }
        if let Some(event) = of(event) {
            self.line(event);
        }
    }

    /// Writes the matrix if the block that was at work is not this one.
    fn matrix_before(&self, block: u32) {
        let ended = self.block.replace(block);
        if ended == 0 || ended == block {
            return;
        }
        let (cells, words) = (self.cells.borrow(), self.words.borrow());
        let cells = cells.iter().map(|(at, ratio)| MatrixCell {
            point: at.0.clone(),
            layer: at.1.clone(),
            ratio: ratio.estimate,
            interval: ratio.interval,
            word: words.get(at).copied(),
        });
        self.line(RunEvent::Matrix {
            block: ended,
            cells: cells.collect(),
            looked_after: self.looked_after.get(),
        });
    }

    /// Takes the words of a look into the next matrix.
    pub fn look(&self, so_far: &SoFar) {
        let word = |c: &EarlyCell| ((c.point.clone(), c.layer.clone()), c.verdict.id());
        self.words
            .replace(so_far.cells().iter().map(word).collect());
        self.looked_after.set(so_far.blocks());
    }

    fn line(&self, event: RunEvent) {
        if self.broken.get() {
            return;
        }
        let line = EventLine {
            at_ms: Timestamp::now().as_millisecond(),
            event,
        };
        let text = serde_json::to_string(&line).map_err(io::Error::from);
        // In one write, so that other lines on standard error do not come between.
        let written =
            text.and_then(|text| self.out.borrow_mut().write_all((text + "\n").as_bytes()));
        if let Err(error) = written {
            self.broken.set(true);
            say(format!(
                "warning: --events: {error}: no further events are written"
            ));
        }
    }
}

/// Where another file is named.
const ELSEWHERE: &str =
    "name a new file in a directory that you may write to: --events jsonl:events.jsonl";

/// The place of a new file, which is as safe as that of a report.
fn place(path: &Path) -> Result<Destination, Failure> {
    const EVENTS: FileOption = FileOption {
        name: "--events",
        elsewhere: ELSEWHERE,
    };
    // Nothing replaces a file.
    Destination::find(&EVENTS, path, false).map_err(|failure| failure.hint(new_one(path)))
}

fn new_one(path: &Path) -> String {
    let shown = path.display();
    format!("events go to a new file: rm {shown}, or --events jsonl for standard error")
}

/// A file that is there is not written to.
fn new_file(path: &Path) -> Result<File, Failure> {
    place(path)?.open(false).map_err(|e| {
        let shown = path.display();
        let failure = Failure::usage(format!("--events: {shown}: {e}"));
        failure.hint(match e.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("events go to a new file: rm {shown}, or --events jsonl for standard error")
            }
            _ => ELSEWHERE.into(),
        })
    })
}

fn of(event: &Event) -> Option<RunEvent> {
    Some(match event.clone() {
        Event::RunStarted {
            id,
            baseline,
            layers,
            points,
            seed,
            resumed,
        } => RunEvent::Started {
            schema: SCHEMA,
            run: id,
            baseline,
            layers,
            points,
            seed,
            resumed,
        },
        // For the watcher that cleans up.
        Event::WorkDir { .. } | Event::Looked { .. } => return None,
        Event::LayerReady { name, seconds } => RunEvent::LayerReady {
            layer: name,
            seconds,
        },
        Event::LayerFailed { name, reason, hint } => RunEvent::LayerFailed {
            layer: name,
            reason,
            hint,
        },
        Event::SessionStarted { session, sessions } => RunEvent::Session { session, sessions },
        Event::TrialDone {
            done,
            planned,
            left,
            block,
            blocks,
            ratio: _,
            layer,
            point,
            ns_per_op,
            error,
            flags,
        } => RunEvent::Trial {
            done,
            planned,
            left_s: left.map(|left| left.as_secs_f64()),
            block,
            blocks,
            layer,
            point,
            ns_per_op,
            error,
            flags,
        },
        Event::PointSettled {
            layer,
            point,
            blocks,
            half_width,
        } => RunEvent::Settled {
            layer,
            point,
            blocks,
            half_width,
        },
        Event::Note(text) => RunEvent::Note { text },
        Event::Warning { text, hint } => RunEvent::Warning { text, hint },
        Event::RunEnded { id, status, trials } => RunEvent::Done {
            run: id,
            status,
            trials,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(block: u32, ratio: Option<f64>) -> Event {
        Event::TrialDone {
            done: 1,
            planned: 9,
            left: None,
            block,
            blocks: 3,
            ratio: ratio.map(|estimate| lab::Ratio {
                estimate,
                interval: [1.0, 3.0],
            }),
            layer: "fuse".into(),
            point: "read".into(),
            ns_per_op: Some(1.0),
            error: None,
            flags: Vec::new(),
        }
    }

    #[test]
    fn the_matrix_is_written_once_after_each_block() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("events.jsonl");
        let events = Events::open(&EventsTarget::File(path.clone())).unwrap();
        for event in [trial(1, None), trial(1, Some(1.5)), trial(2, Some(2.0))] {
            events.write(&event);
        }
        events.write(&Event::RunEnded {
            id: "x".into(),
            status: RunStatus::Done,
            trials: 3,
        });
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        let names: Vec<&str> = lines.iter().filter_map(|l| l["event"].as_str()).collect();
        assert_eq!(
            names,
            ["trial", "trial", "matrix", "trial", "matrix", "done"]
        );
        assert_eq!(
            (&lines[2]["block"], &lines[2]["cells"][0]["ratio"]),
            (&1.into(), &1.5.into())
        );
        assert_eq!(
            (&lines[4]["block"], &lines[4]["cells"][0]["ratio"]),
            (&2.into(), &2.0.into())
        );
        let validator = jsonschema::validator_for(&schema()).unwrap();
        for line in &lines {
            assert!(validator.is_valid(line), "{line}");
        }
        let again = Events::open(&EventsTarget::File(path)).err().unwrap();
        assert!(again.message.contains("--events") && again.hint.is_some());
    }

    #[test]
    fn the_matrix_has_the_words_of_the_last_look() {
        let (run, trials) = layermark_testkit::sample::Sample::default().build();
        let mut so_far = SoFar::default();
        so_far.look(&run, &trials, 8);
        let cell = so_far.cells().first().expect("the sample has words");
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("events.jsonl");
        let events = Events::open(&EventsTarget::File(path.clone())).unwrap();
        let here = |block| {
            let mut event = trial(block, Some(1.5));
            if let Event::TrialDone { layer, point, .. } = &mut event {
                (*layer, *point) = (cell.layer.clone(), cell.point.clone());
            }
            event
        };
        events.write(&here(8));
        events.write(&trial(8, Some(2.0)));
        events.look(&so_far);
        events.write(&here(9));
        let text = std::fs::read_to_string(&path).unwrap();
        let line = text.lines().nth(2).unwrap();
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["event"], &line["looked_after"]),
            (&"matrix".into(), &8.into())
        );
        let words: Vec<_> = line["cells"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["word"].as_str())
            .collect();
        // What is not decided has none.
        assert!(
            words.contains(&Some(cell.verdict.id())) && words.contains(&None),
            "{line}"
        );
        let validator = jsonschema::validator_for(&schema()).unwrap();
        assert!(validator.is_valid(&line), "{line}");
    }

    #[test]
    fn targets_are_standard_error_or_a_file() {
        assert_eq!(parse_target("jsonl"), Ok(EventsTarget::Stderr));
        assert_eq!(
            parse_target("jsonl:a:b"),
            Ok(EventsTarget::File("a:b".into()))
        );
        for bad in ["", "json", "jsonl:", "csv:x"] {
            assert!(parse_target(bad).is_err(), "{bad}");
        }
    }
}
