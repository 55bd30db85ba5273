use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{Meaning, Needs, Reach};

/// Values of environment variables by name. They may be secrets: they are neither stored nor shown.
pub type Environment = BTreeMap<String, String>;

/// The parameter of every workload that sets how many CPUs a layer has.
pub const CPUS: &str = "cpus";

/// The parameter of every workload by which all hosts of a fleet use the same packaged files. Only plans have it.
pub const ONE_PACKAGE: &str = "one_package";

/// Parameter of a point at which all hosts of a fleet make their files in one directory.
pub const ONE_DIRECTORY: &str = "one_directory";

/// That directory, in the directory of a layer.
pub const TOGETHER: &str = "together";

/// One setting of a workload's parameters: what a trial does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Point {
    /// The workload's id, such as `file`.
    pub workload: String,
    /// Its name in a report, such as `large read`. Unique in a run.
    pub label: String,
    /// Index of the plan's `[[work]]` that it was made from. Absent in a stored run of a version that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<usize>,
    /// The workload's own parameters. Only the workload knows their types. Sizes are bytes.
    pub params: Map<String, Value>,
    /// Its meaning, declared by the workload. Empty if it was stored without one, or with terms that
    /// only a later version knows.
    #[serde(default, deserialize_with = "known_meaning")]
    pub meaning: Meaning,
    /// What it needs to be run, declared by the workload. Empty in a stored point until the workload
    /// has read it again.
    #[serde(skip)]
    pub needs: Arc<Needs>,
}

fn known_meaning<'de, D: Deserializer<'de>>(from: D) -> Result<Meaning, D::Error> {
    let stored = Value::deserialize(from)?;
    Ok(serde_json::from_value(stored).unwrap_or_default())
}

/// A point or setting that is not possible: a usage error, exit code 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PointError {
    /// What is wrong, and with which parameter.
    pub message: String,
    /// The parameter, where it is one: the message names it first.
    pub param: Option<WrongParam>,
    /// A hint: what to do about it. Each error has one.
    pub hint: Option<String>,
}

/// The parameter of a workload that has a wrong value. It is shown as a plan has it; a command has a flag for it, which may
/// have another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongParam {
    /// The workload's id.
    pub workload: String,
    /// The parameter's name.
    pub name: String,
}

/// The command that lists a workload's parameters.
fn help_of(workload: &str) -> String {
    format!("layermark {workload} --help")
}

impl WrongParam {
    /// The command that lists all parameters of its workload: the hint of an error that has no better one.
    pub fn help(&self) -> String {
        help_of(&self.workload)
    }
}

impl fmt::Display for WrongParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`", self.workload, self.name)
    }
}

impl PointError {
    /// An error in the settings or in a point of a workload that no single parameter is the cause of. The hint is the
    /// command that lists all its parameters.
    pub fn of_workload(workload: &str, what: impl fmt::Display) -> Self {
        Self {
            message: format!("{workload}: {what}"),
            param: None,
            hint: Some(help_of(workload)),
        }
    }

    /// An error in a parameter. `what` follows its name. The hint is the command that lists all parameters of the workload.
    pub fn of(workload: &str, name: &str, what: impl fmt::Display) -> Self {
        let param = WrongParam {
            workload: workload.into(),
            name: name.into(),
        };
        Self {
            message: format!("{param}{what}"),
            param: Some(param),
            hint: Some(help_of(workload)),
        }
    }

    /// An error in a parameter of one operation, which the message begins with.
    pub fn of_operation(workload: &str, op: &str, name: &str, what: impl fmt::Display) -> Self {
        Self {
            message: format!("{workload}: {op}: `{name}`{what}"),
            ..Self::of(workload, name, "")
        }
    }

    /// Replaces the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Point {
    /// A point from a workload's own parameter struct. It needs nothing.
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
                work: None,
                params,
                meaning,
                needs: Arc::default(),
            }),
            Ok(_) => Err(PointError::of_workload(
                workload,
                format!("point `{label}`: its parameters are not a table"),
            )),
            Err(e) => Err(PointError::of_workload(
                workload,
                format!("point `{label}`: {e}"),
            )),
        }
    }

    /// The parameters as the workload's own struct, without those that all workloads have.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, PointError> {
        let mut params = self.params.clone();
        params.remove(CPUS);
        params.remove(ONE_PACKAGE);
        T::deserialize(Value::Object(params)).map_err(|e| {
            PointError::of_workload(&self.workload, format!("point `{}`: {e}", self.label))
        })
    }

    /// A text parameter, such as `op` or `cache`; empty if absent.
    pub fn text(&self, key: &str) -> &str {
        self.params
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// A numeric parameter, such as `record` or `file_size` (bytes); 0 if absent.
    pub fn number(&self, key: &str) -> u64 {
        self.params
            .get(key)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    }

    /// A switch; `false` if absent.
    pub fn flag(&self, key: &str) -> bool {
        self.params
            .get(key)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }

    /// A key that is equal for equal work, whatever the label.
    pub fn key(&self) -> String {
        format!("{} {}", self.workload, Value::Object(self.params.clone()))
    }
}

/// The type of a workload's parameter.
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
    /// Any number of texts that belong together. They are one value.
    Texts,
    /// Any number of environment variables of a program, `NAME=VALUE` or `NAME`. Points and stored
    /// runs have only the names.
    Env,
    /// Command lines, split into words as a shell does, without a shell. The words after `--` on
    /// our own command line are one of them.
    Command,
}

/// A parameter of a workload. Parsing, flags, help and docs come from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// Its key in a plan; on the command line `_` becomes `-`.
    pub name: &'static str,
    /// The type of its values.
    pub kind: ParamKind,
    /// The default, as a user would write it.
    pub default: &'static str,
    /// Several values make several points.
    pub list: bool,
    /// One line of help.
    pub help: &'static str,
    /// What any value but the default reaches beyond the run's directory.
    pub reach: Option<Reach>,
}

impl Param {
    /// Makes a parameter that reaches nothing. The arguments are the other fields in order.
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
            reach: None,
        }
    }
}
