//! Parameters of workloads. Each is declared once, as a row of its workload's table; parsing, help,
//! checks and labels come from the rows.

use layermark_model::{
    Meaning, Param, ParamKind, PointError, Reach, format_milliseconds, format_size,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

mod points;
mod values;
mod words;

pub use points::{Applied, expand, finish, meaning, point, points, read, scaled};
pub use values::{MAX_POINTS, Values, too_many_points};
pub use words::Cache;
pub(crate) use words::words;

/// The meaning of a point, derived from its parameters.
pub trait Means {
    /// Called once, when settings are expanded to points.
    fn meaning(&self) -> Result<Meaning, PointError>;
}

/// Parameters of one point of a workload. The fields have the names of the rows.
pub trait Params: Means + Clone + PartialEq + Serialize + DeserializeOwned + 'static {
    /// Id of the workload.
    const WORKLOAD: &'static str;
    /// A row for each parameter a user may give, in the order of the help.
    const TABLE: &'static [Row<Self>];

    /// Derives dependent parameters. May split one point into several.
    fn derive(self, _values: &Values) -> Result<Vec<Self>, PointError> {
        Ok(vec![self])
    }

    /// Makes the files smaller, or larger, by this factor.
    fn scale(&mut self, _scale: f64, _values: &Values) {}

    /// Checks conditions that the ranges of the table cannot express.
    fn check(&self) -> Result<(), PointError>;

    /// First words of a label, and the rows whose part of the label they replace.
    fn title(&self) -> Option<(String, &'static [&'static str])> {
        None
    }
}

/// One parameter of a workload with parameters `P`.
pub struct Row<P> {
    /// Name, type, default and help.
    pub param: Param,
    range: Option<(u64, u64)>,
    only: Option<Only<P>>,
    alternative: fn(&P) -> bool,
    part: fn(&P) -> Option<String>,
}

/// The points to which a parameter applies.
struct Only<P> {
    /// The condition, for messages.
    needs: &'static str,
    test: fn(&P) -> bool,
}

impl<P> Row<P> {
    const fn new(name: &'static str, kind: ParamKind, default: &'static str) -> Self {
        Self {
            param: Param::new(name, kind, default, false, ""),
            range: None,
            only: None,
            alternative: |_| false,
            part: |_| None,
        }
    }

    /// One of these words. Points to which the parameter does not apply have the first one.
    pub const fn word(
        name: &'static str,
        words: &'static [&'static str],
        default: &'static str,
    ) -> Self {
        Self::new(name, ParamKind::Word(words), default)
    }

    /// A size, bytes.
    pub const fn size(name: &'static str, default: &'static str) -> Self {
        Self::new(name, ParamKind::Size, default)
    }

    /// A whole number.
    pub const fn count(name: &'static str, default: &'static str) -> Self {
        Self::new(name, ParamKind::Count, default)
    }

    /// A time; points store milliseconds.
    pub const fn duration(name: &'static str, default: &'static str) -> Self {
        Self::new(name, ParamKind::Duration, default)
    }

    /// `true` or `false`.
    pub const fn switch(name: &'static str, default: &'static str) -> Self {
        Self::new(name, ParamKind::Switch, default)
    }

    /// Any text.
    pub const fn text(name: &'static str, default: &'static str) -> Self {
        Self::new(name, ParamKind::Text, default)
    }

    /// A list of texts, one value; it is empty by default.
    pub const fn texts(name: &'static str) -> Self {
        Self::new(name, ParamKind::Texts, "").list()
    }

    /// A parameter of another kind.
    pub const fn kind(mut self, kind: ParamKind) -> Self {
        self.param.kind = kind;
        self
    }

    /// Accepts several values, which make several points.
    pub const fn list(mut self) -> Self {
        self.param.list = true;
        self
    }

    /// Sets the line of help.
    pub const fn help(mut self, help: &'static str) -> Self {
        self.param.help = help;
        self
    }

    /// Sets what any value but the default reaches beyond the run's directory.
    pub const fn reaches(mut self, reach: Reach) -> Self {
        self.param.reach = Some(reach);
        self
    }

    /// Sets the smallest and largest value.
    pub const fn range(mut self, low: u64, high: u64) -> Self {
        self.range = Some((low, high));
        self
    }

    /// Applies only to points that pass `test`; others have 0, `false`, or the first word.
    pub const fn only(mut self, needs: &'static str, test: fn(&P) -> bool) -> Self {
        self.only = Some(Only { needs, test });
        self
    }

    /// Points that pass `test` are compared with those that differ from them only in this
    /// parameter.
    pub const fn alternative(mut self, test: fn(&P) -> bool) -> Self {
        self.alternative = test;
        self
    }

    /// Its part of the label; `None` where it is left out.
    pub const fn label(mut self, part: fn(&P) -> Option<String>) -> Self {
        self.part = part;
        self
    }

    fn applies(&self, p: &P) -> bool {
        self.only.as_ref().is_none_or(|only| (only.test)(p))
    }

    /// Checks the range.
    fn check(&self, workload: &str, params: &Map<String, Value>) -> Result<(), PointError> {
        let value = params.get(self.param.name).and_then(Value::as_u64);
        let (Some((low, high)), Some(value)) = (self.range, value) else {
            return Ok(());
        };
        if (low..=high).contains(&value) {
            return Ok(());
        }
        let show = |value: u64| match self.param.kind {
            ParamKind::Size => format_size(value),
            ParamKind::Duration => format_milliseconds(value),
            _ => value.to_string(),
        };
        let must = match (low, high) {
            (_, u64::MAX) => format!("at least {}", show(low)),
            (0, _) => format!("at most {}", show(high)),
            _ => format!("between {} and {}", show(low), show(high)),
        };
        Err(PointError::new(format!(
            "{workload}: `{}` = {}: it must be {must}",
            self.param.name,
            show(value)
        )))
    }
}

/// The value of a parameter in points to which it does not apply.
fn unused(kind: ParamKind) -> Value {
    match kind {
        ParamKind::Size | ParamKind::Count | ParamKind::Duration => 0.into(),
        ParamKind::Switch => false.into(),
        ParamKind::Word(words) => words[0].into(),
        ParamKind::Text | ParamKind::Command => "".into(),
        ParamKind::Texts | ParamKind::Env => Value::Array(Vec::new()),
    }
}

/// The parameters of a table, for help and flags.
pub const fn list<P, const N: usize>(table: &[Row<P>]) -> [Param; N] {
    let mut all = [table[0].param; N];
    let mut i = 0;
    while i < N {
        all[i] = table[i].param;
        i += 1;
    }
    all
}

/// Joins two lists.
pub const fn join<const N: usize>(first: &[Param], second: &[Param]) -> [Param; N] {
    let mut all = [first[0]; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < first.len() {
            first[i]
        } else {
            second[i - first.len()]
        };
        i += 1;
    }
    all
}
