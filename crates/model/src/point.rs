use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::Meaning;

/// Values of environment variables by their names. They may be secrets: they are neither stored nor
/// shown.
pub type Environment = BTreeMap<String, String>;

/// The parameter of every workload that sets how many CPUs a layer has.
pub const CPUS: &str = "cpus";

/// One setting of a workload's parameters: what a trial does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Point {
    /// The workload's id, such as `file`.
    pub workload: String,
    /// What to call it in a report, such as `large read`. Unique in a run.
    pub label: String,
    /// The workload's own parameters; it alone knows their types. Sizes are bytes.
    pub params: Map<String, Value>,
    /// What it means, said by the workload.
    #[serde(default)]
    pub meaning: Meaning,
}

/// A point or setting that cannot be: the user's mistake, exit code 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PointError {
    /// What is wrong, and with which parameter.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl PointError {
    /// An error without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Point {
    /// A point from a workload's own parameter struct.
    pub fn new(
        workload: &str,
        label: String,
        params: &impl Serialize,
        meaning: Meaning,
    ) -> Result<Self, PointError> {
        match serde_json::to_value(params) {
            Ok(Value::Object(params)) => Ok(Self {
                workload: workload.into(),
                label,
                params,
                meaning,
            }),
            Ok(_) => Err(PointError::new(format!(
                "{workload}: parameters are not a table"
            ))),
            Err(e) => Err(PointError::new(format!("{workload}: {e}"))),
        }
    }

    /// The parameters as the workload's own struct, which has none of those that all workloads have.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, PointError> {
        let mut params = self.params.clone();
        params.remove(CPUS);
        T::deserialize(Value::Object(params))
            .map_err(|e| PointError::new(format!("{} `{}`: {e}", self.workload, self.label)))
    }

    /// A parameter that is text, such as `op` or `cache`; empty when it has none.
    pub fn text(&self, key: &str) -> &str {
        self.params
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// A parameter that is a number, such as `record` or `file_size` (bytes); 0 when it has none.
    pub fn number(&self, key: &str) -> u64 {
        self.params
            .get(key)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    }

    /// A parameter that is a switch; `false` when it has none.
    pub fn flag(&self, key: &str) -> bool {
        self.params
            .get(key)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }

    /// Whether it is the same work to the clock, whatever its label. A parameter that one of two
    /// versions did not know is no other work.
    pub fn same_work(&self, other: &Self) -> bool {
        let seen = |key: &String| {
            let mut points = [self, other].into_iter();
            !points.any(|p| p.meaning.beside_the_clock.contains(key))
        };
        let mut params = self.params.iter().filter(|(key, _)| seen(key));
        self.workload == other.workload
            && params.all(|(key, value)| other.params.get(key).is_none_or(|v| v == value))
    }

    /// A key that is equal for equal work, whatever its label.
    pub fn key(&self) -> String {
        format!("{} {}", self.workload, Value::Object(self.params.clone()))
    }
}

/// What values a workload's parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// One of these words.
    Word(&'static [&'static str]),
    /// Bytes, with units.
    Size,
    /// A whole number.
    Count,
    /// `true` or `false`.
    Switch,
    /// A time with its unit, such as `300ms`; milliseconds in a point.
    Duration,
    /// Any text; several in a list make several points.
    Text,
    /// Any number of texts that belong together: one value, however many they are.
    Texts,
    /// Any number of variables of a program's environment, `NAME=VALUE` or `NAME`. Points and what is
    /// stored have the names alone.
    Env,
    /// Command lines, split into words as a shell does; there never is a shell. What stands after
    /// `--` on our own command line is one of them.
    Command,
}

/// A parameter of a workload. Parsing, flags, help and docs come from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// Its key in a plan; on the command line `_` becomes `-`.
    pub name: &'static str,
    /// What values it takes.
    pub kind: ParamKind,
    /// The value when none is given, as a user would write it.
    pub default: &'static str,
    /// Several values make several points.
    pub list: bool,
    /// One line of help.
    pub help: &'static str,
}

impl Param {
    /// A parameter; the arguments in the order of the fields.
    pub const fn new(
        name: &'static str,
        kind: ParamKind,
        default: &'static str,
        list: bool,
        help: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            default,
            list,
            help,
        }
    }
}
