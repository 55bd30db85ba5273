//! Parameters of the workload `steps`.

use std::{collections::BTreeSet, path::Path};

use layermark_model::{
    CacheState, Divided, Meaning, ParamKind, Part, Point, PointError, Reach, Settings, Target,
    TurnCost, Unit,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{expect::Expect, figures, material::Material, presets};
use crate::{
    param::{self, Means, Params, Values, words},
    workloads::launch::params::{
        LaunchCache, LaunchParams, check_names, check_times, shorter, words as split, words_alone,
    },
};

/// Id of the workload.
pub const ID: &str = "steps";
/// The key of a plan with a table for each step.
const STEPS: &str = "steps";
/// The key of a plan with names of presets.
const PRESET: &str = "preset";
/// Fewest files of a material.
const LEAST_FILES: u64 = 10;
/// Parameters that are command lines. In a plan, a list is an argument vector.
pub const COMMANDS: [&str; 5] = ["run", "setup", "prepare", "check", "cleanup"];
/// Most steps of one table.
const MOST_STEPS: usize = 1000;

words! {
    /// State of the caches before each execution.
    pub enum StepCache {
        /// As `prepare` and the execution before left them.
        AsIs = "as-is",
        /// Dropped by the lab.
        Cold = "cold",
    }
}

words! {
    /// Where steps with a tree work.
    #[derive(Default)]
    pub enum TreeCopy {
        /// In the tree, as it was put into the layer.
        #[default]
        None = "none",
        /// In a copy that is made in the layer, once.
        Once = "once",
        /// In a copy that is made anew before each execution.
        Each = "each",
    }
}

type Row = param::Row<StepParams>;

/// The parameters of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepParams {
    pub run: String,
    pub name: String,
    pub setup: String,
    pub prepare: String,
    pub check: String,
    pub cleanup: String,
    pub expect: Vec<String>,
    pub tree: String,
    #[serde(default, skip_serializing_if = "TreeCopy::is_none")]
    pub copy: TreeCopy,
    pub cache: StepCache,
    pub count: u64,
    pub unit: String,
    #[serde(default)]
    pub needs: Vec<String>,
    #[serde(default)]
    pub material: Material,
    /// Only with a material.
    #[serde(default)]
    pub files: u64,
    /// Names of variables. Their values are kept separately, since they may be secrets.
    pub env: Vec<String>,
    pub timeout: String,
    pub grace: String,
    /// Whether its system calls are counted natively. Absent if not, as `rest` of `meta`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trace: bool,
    /// Whether this is the extra execution that is traced. Set by the workload, never by a user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tracing: bool,
    /// Whether this is the first execution after the tree was put back. Set by the workload, never by a
    /// user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
}

impl Params for StepParams {
    const ID: &'static str = ID;

    fn points(settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        points(settings, scale)
    }

    const TABLE: &'static [Row] = &[
        Row::text("run", "true")
            .reaches(Reach::Program)
            .kind(ParamKind::Command)
            .help("the command of the step; split into words as a shell does, without a shell")
            .label(|p| Some(if p.name.is_empty() { shorter(&p.run) } else { p.name.clone() }))
            .part(|p| Some(p.run.clone())),
        Row::text("name", "").help("name of the step in the report; its command when absent"),
        Row::text("setup", "")
            .reaches(Reach::Program)
            .help("a command to run once in each layer and session; steps with the same one share a directory"),
        Row::text("prepare", "")
            .reaches(Reach::Program)
            .help("a command to run before each execution, outside the clock")
            .part(|p| (!p.prepare.is_empty()).then(|| format!("after {}", p.prepare))),
        Row::text("check", "")
            .reaches(Reach::Program)
            .help("a command to run after each execution, outside the clock; its exit code must be 0"),
        Row::text("cleanup", "")
            .reaches(Reach::Program)
            .help("a command to run at the end of each execution, outside the clock"),
        Row::texts("expect")
            .reaches(Reach::Path)
            .help("an outcome that every execution must have: exit=CODE (0 when absent), line=REGEX in what it prints, tree=DIRECTORY (the same before and after it each time, and the same as natively)"),
        Row::text("tree", "")
            .reaches(Reach::Path)
            .help("a directory of this machine that is put into each layer, and in which the steps work"),
        Row::word("copy", TreeCopy::WORDS, "none")
            .only("`tree`", |p| !p.tree.is_empty())
            .help("work in a copy of `tree` that is made in the layer, outside the clock: once, or before each execution. It has no first execution of its own")
            .says(|p| (p.copy != TreeCopy::None).then(|| format!("copy {}", p.copy.id()))),
        Row::word("cache", StepCache::WORDS, "as-is")
            .list()
            .help("state of the caches before each execution, proved by faults and blocks read")
            .says(|p| (p.cache != StepCache::AsIs).then(|| p.cache.id().into())),
        Row::count("count", "1")
            .range(1, 1_000_000_000)
            .help("how many things a step does, for a rate")
            .part(|p| (p.count > 1).then(|| format!("{} x {}", p.count, p.unit()))),
        Row::text("unit", "").help("what it does so many of, such as commit"),
        Row::texts("needs").help("a program that must be there; repeatable"),
        Row::word("material", Material::WORDS, "none")
            .help("files that are made in the directory before `setup`, the same each time: `history` for git fast-import, small.tar, the Python package `storm`, the C program `src`"),
        Row::count("files", "1000")
            .range(LEAST_FILES, 100_000)
            .only("`material`", |p| p.material != Material::None)
            .help("how many files the material has"),
        Row::texts("env")
            .reaches(Reach::Secrets)
            .kind(ParamKind::Env)
            .help("NAME=VALUE: a variable of the step's environment, which is empty except for PATH, HOME and the language; NAME alone takes the value from layermark's own environment. Values are never stored"),
        Row::text("timeout", "60s").help("a command that has not ended after this time has failed"),
        Row::text("grace", "5s").help("time between SIGTERM and SIGKILL for processes that a step leaves behind"),
        Row::switch("trace", "false")
            .help("count the step's system calls in one extra execution, natively, for the forecast (needs strace)"),
    ];

    fn scale(&mut self, scale: f64, _: &Values) {
        if self.material != Material::None {
            self.files = param::scaled(self.files, scale).max(LEAST_FILES);
        }
    }

    fn check(&self) -> Result<(), PointError> {
        for (key, text) in COMMANDS.iter().zip(self.commands()) {
            if *key == "run" || !text.is_empty() {
                words_alone(ID, key, text)?;
            }
        }
        let made = [
            ("setup", !self.setup.is_empty()),
            ("material", self.material != Material::None),
        ];
        let made = made.iter().find(|(_, given)| *given);
        if let Some((key, _)) = made.filter(|_| self.copy == TreeCopy::Each) {
            let what =
                " with `copy` = each: the copy before each execution removes what it has made";
            return Err(
                PointError::of(ID, key, what).hint("use `prepare` instead, or copy = \"once\"")
            );
        }
        self.expected()?;
        check_names(ID, &self.env)?;
        check_times(ID, &self.timeout, &self.grace)
    }
}

impl Means for StepParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let cold = self.cache == StepCache::Cold;
        let said = Meaning {
            operation: self.run.clone(),
            target: Target::Step,
            // Its files are made in the layer, whatever it does with them.
            changes: self.material != Material::None || self.copy != TreeCopy::None,
            unit: Unit::Operation,
            cache: cold.then_some(CacheState::Cold),
            // The caches are dropped, and the tree is put back, once a block.
            divided: (!cold && !self.first).then_some(Divided {
                in_memory: false,
                uses_up: false,
                working_set: 0,
                cost: TurnCost::Execution,
                under_way: 0,
            }),
            same_outcome: self.expect.iter().any(|text| text.starts_with("tree=")),
            ..Meaning::default()
        };
        let mut said = self.described(said);
        if self.first {
            let at = said.parts.iter().position(|part| part.key == "count");
            let part = Part {
                key: "first".into(),
                text: "first time".into(),
            };
            said.parts.insert(at.unwrap_or(said.parts.len()), part);
        }
        Ok(said.figures(figures::table(self.count, self.unit())))
    }
}

impl TreeCopy {
    /// For serde.
    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl StepParams {
    /// In the order of [`COMMANDS`].
    fn commands(&self) -> [&String; 5] {
        [
            &self.run,
            &self.setup,
            &self.prepare,
            &self.check,
            &self.cleanup,
        ]
    }

    /// Whether its files are restored: by a command, or by a copy that is made anew.
    pub fn changes(&self) -> bool {
        !self.prepare.is_empty() || !self.cleanup.is_empty() || self.copy == TreeCopy::Each
    }

    /// The programs of all its commands.
    pub fn programs(&self) -> impl Iterator<Item = String> {
        let all = self.commands().into_iter();
        all.filter_map(|text| split(ID, "run", text).ok()?.into_iter().next())
    }

    /// Whether programs are looked for in a `PATH` of the user's.
    pub fn has_path(&self) -> bool {
        self.env.iter().any(|name| name == "PATH")
    }

    /// Whether its outcome is more than an exit code and lines.
    pub fn is_checked(&self) -> bool {
        !self.check.is_empty() || self.expect.iter().any(|text| text.starts_with("tree="))
    }

    /// Its expected outcomes.
    pub fn expected(&self) -> Result<Vec<Expect>, PointError> {
        self.expect.iter().map(|text| Expect::parse(text)).collect()
    }

    /// What it does `count` of.
    pub fn unit(&self) -> &str {
        if self.unit.is_empty() {
            "operation"
        } else {
            &self.unit
        }
    }

    /// The start of its command, as the workload `launch` has it. What the exit code must be is
    /// checked afterwards.
    pub fn launched(&self) -> LaunchParams {
        LaunchParams {
            command: self.run.clone(),
            cmd: Vec::new(),
            ready: "exit".into(),
            cache: LaunchCache::AsIs,
            package: false,
            add: Vec::new(),
            env: self.env.clone(),
            prepare: self.prepare.clone(),
            conclude: self.cleanup.clone(),
            warmup: 0,
            timeout: self.timeout.clone(),
            grace: self.grace.clone(),
            screen: String::new(),
            ignore_failure: true,
            trace: false,
            parameters: Vec::new(),
            user: String::new(),
            restart: false,
            tracing: false,
            listing: false,
        }
    }
}

/// A point for each step. What stands beside `steps` is that of all steps that do not set it.
pub fn points(settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
    let mut common = settings.params.clone();
    let (preset, steps) = (common.remove(PRESET), common.remove(STEPS));
    let mut tables = match preset {
        None => Vec::new(),
        Some(Value::String(names)) => presets::tables(&names)?,
        Some(other) => {
            let error = PointError::of("steps", "preset", format!(" = {other}: it must be text"));
            return Err(error.hint("write names with commas: \"git,untar\""));
        }
    };
    // What the user writes beside a preset holds for it, too.
    for own in &mut tables {
        own.extend(common.clone());
    }
    match steps {
        None if tables.is_empty() => tables.push(common),
        None => {}
        Some(Value::Array(own)) if (1..=MOST_STEPS).contains(&own.len()) => {
            for own in &own {
                let own = own.as_object().ok_or_else(no_tables)?;
                let mut params = common.clone();
                params.extend(own.clone());
                tables.push(params);
            }
        }
        Some(_) => return Err(no_tables()),
    }
    let mut all = Vec::new();
    for mut params in tables {
        // A misspelt `run` is named below, with the right name.
        let is_known = |key: &String| StepParams::TABLE.iter().any(|row| row.param.name == key);
        let has_run = params.is_empty() || params.contains_key("run");
        if !has_run && params.keys().all(is_known) {
            return Err(PointError::of(ID, "run", " is missing in a step").hint(
                "write run = [\"git\", \"status\"]; all that a step can have: layermark steps --help",
            ));
        }
        for key in COMMANDS {
            if let Some(value) = params.get_mut(key) {
                *value = line(key, value)?;
            }
        }
        if let Some(tree) = params.get_mut("tree") {
            *tree = directory(tree)?;
        }
        let own = Settings {
            label: None,
            params,
            ..settings.clone()
        };
        all.extend(param::points::<StepParams>(&own, scale)?);
    }
    let mut labels = BTreeSet::new();
    if let Some(twice) = all.iter().find(|at| !labels.insert(at.label.clone())) {
        let label = &twice.label;
        return Err(
            PointError::of(ID, "name", format!(": two steps are called `{label}`"))
                .hint("give each a `name` of its own"),
        );
    }
    if let Some(label) = &settings.label {
        let single = all.len() == 1;
        for at in &mut all {
            at.label = if single {
                label.clone()
            } else {
                format!("{label} ({})", at.label)
            };
        }
    }
    with_first(all)
}

/// Adds the first execution of each step in a tree, which later ones do not repeat: a layer that keeps
/// packaged files apart copies what the step changes.
fn with_first(all: Vec<Point>) -> Result<Vec<Point>, PointError> {
    let mut both = Vec::new();
    for at in all {
        let p = param::read::<StepParams>(&at)?;
        if !p.tree.is_empty() && p.copy == TreeCopy::None && p.cache == StepCache::AsIs {
            let (first, trace) = (true, false);
            let label = format!("{}, first", at.label);
            both.push(param::point(label, &StepParams { trace, first, ..p })?);
        }
        both.push(at);
    }
    Ok(both)
}

fn no_tables() -> PointError {
    PointError::of(
        "steps",
        "steps",
        format!(" must be tables, at least 1 and at most {MOST_STEPS}"),
    )
    .hint("write [[work.steps]], and run = [\"git\", \"status\"] below it")
}

/// A command line: an argument vector is quoted so that it splits into the same words.
fn line(key: &str, value: &Value) -> Result<Value, PointError> {
    let Value::Array(words) = value else {
        return Ok(value.clone());
    };
    let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
    let words = words.ok_or_else(|| {
        PointError::of("steps", key, ": an argument is not text")
            .hint("write each argument in quotes: [\"head\", \"-n\", \"1\"]")
    })?;
    Ok(shell_words::join(words).into())
}

/// The absolute path of a directory of this machine.
fn directory(value: &Value) -> Result<Value, PointError> {
    let Some(text) = value.as_str().filter(|text| !text.is_empty()) else {
        return Ok(value.clone());
    };
    let wrong = |why: String| {
        Err(PointError::of("steps", "tree", format!(" = {text}: {why}"))
            .hint("name a directory of this machine"))
    };
    if !Path::new(text).is_dir() {
        return wrong("it is not a directory".into());
    }
    match std::path::absolute(text) {
        Ok(path) => Ok(path.to_string_lossy().into_owned().into()),
        Err(e) => wrong(e.to_string()),
    }
}
