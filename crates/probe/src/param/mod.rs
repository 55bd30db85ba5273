//! Parameters of workloads. Each is declared once, as a row of its workload's table; parsing, help,
//! checks and labels come from the rows.

use layermark_model::{
    Meaning, Param, ParamKind, Point, PointError, Quantity, Reach, Settings, format_milliseconds,
    format_size,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

mod points;
mod values;
mod words;
mod workload;

pub(crate) use layermark_model::words;
pub use points::{Applied, expand, finish, key, point, points, read, scaled, stored};
pub use values::{MAX_POINTS, Values, too_many_points};
pub use words::Cache;
pub use workload::{Of, Runs, of};

/// The meaning of a point, derived from its parameters.
pub trait Means {
    /// Called once, when settings are expanded to points.
    fn meaning(&self) -> Result<Meaning, PointError>;
}

/// Parameters of one point of a workload. The fields have the names of the rows.
pub trait Params:
    Means + Runs + Clone + PartialEq + Serialize + DeserializeOwned + 'static
{
    /// Id of the workload.
    const ID: &'static str;
    /// A row for each parameter a user may give, in the order of the help.
    const TABLE: &'static [Row<Self>];

    /// All parameters a user may give. Those without a row select points and are not stored.
    fn params() -> Vec<Param> {
        workload::listed::<Self>()
    }

    /// Settings expanded to points.
    fn points(settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        points::points::<Self>(settings, scale)
    }

    /// Derives dependent parameters. May split one point into several.
    fn derive(self, _values: &Values) -> Result<Vec<Self>, PointError> {
        Ok(vec![self])
    }

    /// Makes the files smaller, or larger, by this factor.
    fn scale(&mut self, _scale: f64, _values: &Values) {}

    /// Checks conditions that the ranges of the table cannot express.
    fn check(&self) -> Result<(), PointError> {
        Ok(())
    }

    /// Rows in the order of a description, where it is not that of the table. Others come last.
    const DESCRIPTION: &'static [&'static str] = &[];

    /// Adds the axes and the description of the rows to what a point means.
    fn described(&self, mut said: Meaning) -> Meaning {
        for row in Self::TABLE {
            if let Some((quantity, value)) = row.axis {
                said = said.axis(quantity, row.param.name, value(self));
            }
        }
        said.axes.sort_by_key(|axis| axis.quantity.place());
        let place = |row: &&Row<Self>| {
            let mut named = Self::DESCRIPTION.iter();
            named
                .position(|name| *name == row.param.name)
                .unwrap_or(usize::MAX)
        };
        let mut rows: Vec<_> = Self::TABLE.iter().collect();
        rows.sort_by_key(place);
        for row in rows {
            said = said.part(row.param.name, (row.part)(self).unwrap_or_default());
        }
        said
    }
}

/// One parameter of a workload with parameters `P`.
pub struct Row<P> {
    /// Name, type, default and help.
    pub param: Param,
    range: Option<(u64, u64)>,
    only: Option<Only<P>>,
    alternative: fn(&P) -> bool,
    label: fn(&P) -> Option<String>,
    title: fn(&P) -> Option<Title>,
    part: fn(&P) -> Option<String>,
    axis: Option<(Quantity, AxisValue<P>)>,
}

/// The value of a quantity in a point.
type AxisValue<P> = fn(&P) -> u64;

/// First words of a label, and the rows whose part of the label they replace.
pub type Title = (String, &'static [&'static str]);

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
            label: |_| None,
            title: |_| None,
            part: |_| None,
            axis: None,
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

    /// Its part of the label and of the description; `None` where it is left out.
    pub const fn says(self, text: fn(&P) -> Option<String>) -> Self {
        self.label(text).part(text)
    }

    /// Its part of the label; `None` where it is left out.
    pub const fn label(mut self, text: fn(&P) -> Option<String>) -> Self {
        self.label = text;
        self
    }

    /// First words of a label that no user has given.
    pub const fn title(mut self, text: fn(&P) -> Option<Title>) -> Self {
        self.title = text;
        self
    }

    /// Its part of the description; `None` where it is left out.
    pub const fn part(mut self, text: fn(&P) -> Option<String>) -> Self {
        self.part = text;
        self
    }

    /// The quantity that it sets: an axis of sweeps, unless it is 0.
    pub const fn axis(mut self, quantity: Quantity, value: fn(&P) -> u64) -> Self {
        self.axis = Some((quantity, value));
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
        let what = format!(" = {}: it must be {must}", show(value));
        Err(PointError::of(workload, self.param.name, what))
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
