//! Figures that a workload has beside its time, such as CPU at the far end of a connection. A workload
//! declares them once, in a table beside its parameters. The table is stored with the point, and everything
//! after the probe is made from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::Quantity;

/// The figures of a point, and how they are shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FigureTable {
    /// Title of the report's section.
    pub title: String,
    /// What the section shows, in a few sentences.
    pub about: String,
    /// Results that differ in this quantity alone share a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub across: Option<Quantity>,
    /// The rate is drawn over that quantity, and rows are sorted by layer and quantity.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub curve: bool,
    /// The figures in the order of their columns. A figure may refer to those before it.
    pub figures: Vec<Figure>,
}

/// A figure of a result: what it is made of, and its column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Figure {
    /// Its name in JSON, with the unit where it has one.
    pub name: String,
    /// Head of its column. Empty: it has no column.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub head: String,
    /// Unit of the value, and how it is written.
    #[serde(default)]
    pub unit: FigureUnit,
    /// What it is made of.
    pub source: FigureSource,
    /// The column is left out where no row has a value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Notes that a value calls for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<FigureNote>,
}

/// Unit of a figure, and how it is written.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum FigureUnit {
    /// Three significant digits.
    #[default]
    Number,
    /// Whole digits.
    Whole,
    /// A number of microseconds.
    Microseconds,
    /// Microseconds, written with the unit that fits.
    Time,
    /// Seconds, written with the unit that fits.
    Seconds,
    /// Bytes, as sizes are written.
    Size,
    /// Bytes, written as KiB.
    Kib,
    /// 10^6 bits a second, of bytes a second.
    Megabits,
    /// 10^6 bytes a second, of bytes a second.
    Megabytes,
    /// MiB a second, of bytes a second.
    Mebibytes,
    /// Percent, of a share (0..=1).
    Percent,
    /// The same without decimals.
    WholePercent,
    /// A share (0..=1), written as percent and rounded down.
    Share,
    /// Numbers of CPUs; none: not pinned.
    Cpus,
    /// Words.
    Text,
    /// The name of a program.
    Name,
}

/// What a figure of a result is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FigureSource {
    /// The value of a quantity at the point; `auto` where the point does not set it.
    Axis(Quantity),
    /// What the result counts, over time; where the pace was set from outside, what was reached.
    Rate,
    /// The same with its interval.
    RateInInterval,
    /// Microseconds from the end of one operation to that of the next, over all under way.
    Every,
    /// Microseconds of one operation.
    OperationTime,
    /// Mean latency of the result, microseconds.
    MeanLatency,
    /// Median latency of the result, microseconds.
    MedianLatency,
    /// 99th percentile of the result; none below 1,000 operations.
    P99Latency,
    /// Microseconds within which this percentage of the operations of all trials ended.
    Within(u32),
    /// Time here over natively.
    Ratio,
    /// Whether the rate is the highest over the quantity that rows are sorted by.
    Peak,
    /// Sum over the trials.
    Sum(Amount),
    /// Sum of some amounts over the sum of others. Time is in microseconds.
    Per {
        /// Above the line.
        of: Vec<Amount>,
        /// Below the line.
        over: Vec<Amount>,
    },
    /// Median over the trials.
    Median(Amount),
    /// Smallest of the trials.
    Least(Amount),
    /// Largest of the trials.
    Most(Amount),
    /// Value of this name in the last trial.
    Last(String),
    /// One figure over another.
    Share {
        /// Above the line.
        of: String,
        /// Below the line.
        over: String,
    },
    /// Text with names of other figures in braces.
    Text(String),
    /// Hashes of the programs that a trial ran, each `NAME.PROGRAM`. Trials of unlike programs are not
    /// compared.
    Programs,
}

/// A number that each trial has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// The workload's own, by its name.
    Value(String),
    /// The same, sent as nanoseconds.
    Nanoseconds(String),
    /// Operations.
    Operations,
    /// Application bytes.
    Bytes,
    /// Application bytes in KB (1,024 bytes), as netperf counts them.
    Kilobytes,
    /// Seconds on the clock.
    Seconds,
    /// CPU time of the probe, or of the programs that it started.
    Cpu,
    /// CPU time of this machine, whatever used it.
    HostCpu,
    /// Calls that flush.
    Syncs,
    /// Flushes that the devices below completed.
    DeviceFlushes,
    /// Bytes written to the devices below.
    DeviceWritten,
}

/// A sentence that a value calls for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FigureNote {
    /// When it is written.
    pub when: NoteWhen,
    /// The sentence, with `{layer}` and names of figures in braces; `{all}`: what the rows have.
    pub text: String,
}

/// When a note is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoteWhen {
    /// For each row with a value above this.
    Above(u32),
    /// For each row with a value of 0.
    Zero,
    /// Once for a table with unlike values: a ratio between its rows also compares these.
    Differs,
    /// Once for a table, with its smallest value.
    Smallest,
}

/// Percent of the ceiling of a load generator above which a result is as much its own as the layer's.
const NEAR_CEILING: u32 = 70;

impl FigureTable {
    /// A table without figures.
    pub fn new(title: &str, about: &str) -> Self {
        Self {
            title: title.into(),
            about: about.into(),
            across: None,
            curve: false,
            figures: Vec::new(),
        }
    }

    /// Results that differ in this quantity alone share a table.
    #[must_use]
    pub fn across(mut self, quantity: Quantity) -> Self {
        self.across = Some(quantity);
        self
    }

    /// The rate is drawn over a quantity, and rows are sorted by layer and quantity.
    #[must_use]
    pub fn curve_over(mut self, quantity: Quantity) -> Self {
        self.curve = true;
        self.across(quantity)
    }

    /// Adds figures.
    #[must_use]
    pub fn with(mut self, figures: impl IntoIterator<Item = Figure>) -> Self {
        self.figures.extend(figures);
        self
    }

    /// The group of values that holds hashes of programs; trials that differ in them are not compared.
    pub fn programs(&self) -> Option<&str> {
        let mut all = self.figures.iter();
        let found = all.find(|f| f.source == FigureSource::Programs)?;
        Some(&found.name)
    }
}

impl Figure {
    /// A figure without a column.
    pub fn new(name: &str, unit: FigureUnit, source: FigureSource) -> Self {
        Self {
            name: name.into(),
            head: String::new(),
            unit,
            source,
            optional: false,
            notes: Vec::new(),
        }
    }

    /// Amounts over others.
    pub fn per(
        name: &str,
        unit: FigureUnit,
        of: impl Into<Vec<Amount>>,
        over: impl Into<Vec<Amount>>,
    ) -> Self {
        let (of, over) = (of.into(), over.into());
        Self::new(name, unit, FigureSource::Per { of, over })
    }

    /// The value that the last trial sent under the figure's own name.
    pub fn last(name: &str, unit: FigureUnit) -> Self {
        Self::new(name, unit, FigureSource::Last(name.into()))
    }

    /// Sum of the values that the trials sent under the figure's own name.
    pub fn sum(name: &str) -> Self {
        let source = FigureSource::Sum(Amount::Value(name.into()));
        Self::new(name, FigureUnit::Whole, source)
    }

    /// Other figures, put into words.
    pub fn text(name: &str, words: &str) -> Self {
        Self::new(name, FigureUnit::Text, FigureSource::Text(words.into()))
    }

    /// The figure `of` over what its load generator can do (the value `ceiling`); `most` says how that was
    /// found: `{layer}: 91 % of what MOST, ...`.
    pub fn ceiling(of: &str, most: &str) -> [Self; 2] {
        let ceiling = Amount::Value("ceiling".into());
        let source = FigureSource::Share {
            of: of.into(),
            over: "ceiling".into(),
        };
        let percent = "ceiling_percent";
        let text = format!(
            "{{layer}}: {{{percent}}} % of what {most}, so the figure is as much its own as the path's."
        );
        [
            Self::new("ceiling", FigureUnit::Number, FigureSource::Median(ceiling)),
            Self::new(percent, FigureUnit::WholePercent, source)
                .note(NoteWhen::Above(NEAR_CEILING), &text),
        ]
    }

    /// Gives it a column.
    #[must_use]
    pub fn head(mut self, head: &str) -> Self {
        self.head = head.into();
        self
    }

    /// Leaves the column out where no row has a value.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, when: NoteWhen, text: &str) -> Self {
        let text = text.to_owned();
        self.notes.push(FigureNote { when, text });
        self
    }
}

/// What a trial measured of its workload's figures, by name. Names that begin alike, up to a dot, belong
/// together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct FigureValues(BTreeMap<String, FigureValue>);

/// A value of a trial, or of a result.
#[derive(Debug, Clone, PartialEq, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum FigureValue {
    /// A number. Switches are 0 or 1.
    Number(f64),
    /// Words.
    Text(String),
    /// Several numbers, such as those of CPUs.
    List(Vec<f64>),
}

/// Up to here every whole number is exact.
const WHOLE: f64 = (1u64 << 53) as f64;

impl FigureValues {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields of a structure, by their names.
    pub fn of(values: &impl Serialize) -> Self {
        let mut of = Self::default();
        if let Ok(Value::Object(fields)) = serde_json::to_value(values) {
            fields
                .into_iter()
                .for_each(|(name, value)| of.read(&name, value));
        }
        of
    }

    /// Stores a value.
    pub fn set(&mut self, name: &str, value: impl Into<FigureValue>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<&FigureValue> {
        self.0.get(name)
    }

    /// The same, if it is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.get(name)? {
            FigureValue::Number(value) => Some(*value),
            _ => None,
        }
    }

    /// Text of the values `GROUP.NAME`, by `NAME`.
    pub fn texts<'a>(&'a self, group: &str) -> BTreeMap<&'a str, &'a str> {
        let text = |(name, value): (&'a String, &'a FigureValue)| {
            let name = name.strip_prefix(group)?.strip_prefix('.')?;
            match value {
                FigureValue::Text(text) => Some((name, text.as_str())),
                _ => None,
            }
        };
        self.0.iter().filter_map(text).collect()
    }
}

/// Whole numbers are written without a point.
impl Serialize for FigureValue {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(value) if value.fract() == 0.0 && value.abs() < WHOLE => {
                to.serialize_i64(*value as i64)
            }
            Self::Number(value) => to.serialize_f64(*value),
            Self::Text(text) => to.serialize_str(text),
            Self::List(values) => to.collect_seq(values.iter().map(|v| Self::Number(*v))),
        }
    }
}

impl From<f64> for FigureValue {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<u64> for FigureValue {
    fn from(value: u64) -> Self {
        Self::Number(value as f64)
    }
}

impl From<bool> for FigureValue {
    fn from(value: bool) -> Self {
        Self::Number(f64::from(u8::from(value)))
    }
}

impl From<&str> for FigureValue {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl From<&[u32]> for FigureValue {
    fn from(values: &[u32]) -> Self {
        Self::List(values.iter().map(|v| f64::from(*v)).collect())
    }
}

impl From<&[u64]> for FigureValue {
    fn from(values: &[u64]) -> Self {
        Self::List(values.iter().map(|v| *v as f64).collect())
    }
}

/// Takes what earlier versions stored as well: structures of one workload, whose fields get the names
/// `STRUCTURE.FIELD`.
impl<'de> Deserialize<'de> for FigureValues {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = Option::<BTreeMap<String, Value>>::deserialize(from)?;
        let mut values = Self::default();
        for (name, value) in read.unwrap_or_default() {
            values.read(&name, value);
        }
        Ok(values)
    }
}

impl FigureValues {
    fn read(&mut self, name: &str, value: Value) {
        match value {
            Value::Null => {}
            Value::Bool(value) => self.set(name, value),
            Value::Number(value) => self.set(name, value.as_f64().unwrap_or_default()),
            Value::String(value) => self.set(name, value.as_str()),
            Value::Array(values) => {
                let numbers = values.iter().filter_map(Value::as_f64).collect();
                self.set(name, FigureValue::List(numbers));
            }
            Value::Object(fields) => {
                for (field, value) in fields {
                    self.read(&format!("{name}.{field}"), value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were_sent() {
        let mut values = FigureValues::default();
        values.set("server", "nginx/1");
        values.set("checked", true);
        values.set("cpus", [0u32, 2].as_slice());
        values.set("lost", 2.5);
        let json = serde_json::to_string(&values).unwrap();
        assert_eq!(
            serde_json::from_str::<FigureValues>(&json).unwrap(),
            values,
            "{json}"
        );
        assert_eq!(values.number("lost"), Some(2.5));
    }

    #[test]
    fn structures_of_earlier_versions_become_values() {
        let old = r#"{"own_ns": 7, "ceiling": null, "one_host": true, "near": {"cpus": [1, 3], "send_buffer": 65536},
            "programs": {"cc": "1", "sort": "2"}}"#;
        let values: FigureValues = serde_json::from_str(old).unwrap();
        let numbers = ["own_ns", "one_host", "near.send_buffer", "ceiling"];
        let numbers = numbers.map(|name| values.number(name));
        assert_eq!(numbers, [Some(7.0), Some(1.0), Some(65536.0), None]);
        let cpus = FigureValue::List(vec![1.0, 3.0]);
        assert_eq!(values.get("near.cpus"), Some(&cpus));
        assert_eq!(
            values.texts("programs"),
            [("cc", "1"), ("sort", "2")].into()
        );
        let none: FigureValues = serde_json::from_str("null").unwrap();
        assert!(none.is_empty());
    }
}
