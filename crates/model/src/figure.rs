//! Figures of a workload besides its time, such as CPU at the far end of a connection. A workload
//! declares them once, in a table next to its parameters. The table is stored with the point.
//! Everything after the probe is derived from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::Value;

use crate::Quantity;

/// The figures of a point, and how to show them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FigureTable {
    /// Title of the report's section.
    pub title: String,
    /// What the section shows, in a few sentences.
    pub about: String,
    /// Results that differ only in this quantity share a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub across: Option<Quantity>,
    /// The rate is drawn over that quantity, and rows are sorted by layer and quantity.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub curve: bool,
    /// The tables are what the user asked for: they are printed with the short answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answer: bool,
    /// The figures in the order of their columns. A figure may refer to those before it.
    pub figures: Vec<Figure>,
}

/// A figure of a result: its source and its column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Figure {
    /// Its name in JSON, with the unit where it has one.
    pub name: String,
    /// Heading of its column. Empty: no column.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub head: String,
    /// Unit of the value, which also decides its format.
    #[serde(default)]
    pub unit: FigureUnit,
    /// Where its value comes from.
    pub source: FigureSource,
    /// Whether the column is left out if no row has a value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Notes that certain values trigger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<FigureNote>,
}

/// Unit of a figure, which also decides its format.
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
    /// Microseconds, in the unit that fits.
    Time,
    /// Seconds, in the unit that fits.
    Seconds,
    /// Bytes, in the unit that fits.
    Size,
    /// Bytes, shown in KiB.
    Kib,
    /// Bytes per second, shown in Mbit/s (10^6).
    Megabits,
    /// Bytes per second, shown in MB/s (10^6).
    Megabytes,
    /// Bytes per second, shown in MiB/s.
    Mebibytes,
    /// A share (0..=1), shown in percent.
    Percent,
    /// A share (0..=1), shown in whole percent.
    WholePercent,
    /// A share (0..=1), shown in percent and rounded down.
    Share,
    /// Numbers of CPUs; empty: not pinned.
    Cpus,
    /// Words.
    Text,
    /// The name of a program.
    Name,
}

/// The source of a figure's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FigureSource {
    /// The value of a quantity at the point; `auto` where the point does not set it.
    Axis(Quantity),
    /// The result's unit of work per second; at a fixed pace, the rate that was reached.
    Rate,
    /// The same as `Rate`, with its interval.
    RateInInterval,
    /// Microseconds between the ends of successive operations, over all in flight.
    Every,
    /// Microseconds per operation.
    OperationTime,
    /// Mean latency of the result, microseconds.
    MeanLatency,
    /// Median latency of the result, microseconds.
    MedianLatency,
    /// 99th percentile of the result; absent below 1,000 operations.
    P99Latency,
    /// Microseconds within which this percentage of the operations of all trials ended.
    Within(u32),
    /// Time in the layer over the baseline's time.
    Ratio,
    /// Whether the rate is the highest along the quantity that rows are sorted by.
    Peak,
    /// Sum over the trials.
    Sum(Amount),
    /// Sum of some amounts over the sum of others. Time is in microseconds.
    Per {
        /// Numerator.
        of: Vec<Amount>,
        /// Denominator.
        over: Vec<Amount>,
    },
    /// Median over the trials.
    Median(Amount),
    /// Smallest of the trials.
    Least(Amount),
    /// Largest of the trials.
    Most(Amount),
    /// The value of this name in the last trial.
    Last(String),
    /// One figure divided by another.
    Share {
        /// Numerator.
        of: String,
        /// Denominator.
        over: String,
    },
    /// Text with names of other figures in braces.
    Text(String),
    /// A figure for each value `GROUP.NAME` that a trial has, in the unit that its value
    /// `GROUP_unit.NAME` says: the median of the trials.
    Each(String),
    /// Hashes of the programs that a trial ran, each `NAME.PROGRAM`. Trials with different programs
    /// are not compared.
    Programs,
}

impl FigureSource {
    /// The amounts of trials that it is computed from.
    pub fn amounts(&self) -> Vec<&Amount> {
        match self {
            Self::Sum(of) | Self::Median(of) | Self::Least(of) | Self::Most(of) => vec![of],
            Self::Per { of, over } => of.iter().chain(over).collect(),
            _ => Vec::new(),
        }
    }
}

/// A number that each trial has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// A value of the workload, by its name.
    Value(String),
    /// The same, sent in nanoseconds.
    Nanoseconds(String),
    /// Operations.
    Operations,
    /// Application bytes.
    Bytes,
    /// Application bytes in KB (1,024 bytes), as in netperf.
    Kilobytes,
    /// Seconds of the measured time.
    Seconds,
    /// CPU time of the probe, or of the programs that it started.
    Cpu,
    /// CPU time of the whole machine.
    HostCpu,
    /// Calls that flush.
    Syncs,
    /// Flushes completed by the devices below.
    DeviceFlushes,
    /// Bytes written to the devices below.
    DeviceWritten,
}

/// A sentence that certain values trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FigureNote {
    /// When it is written.
    pub when: NoteWhen,
    /// The sentence. Braces hold `{layer}`, names of figures, or `{all}` for the values of all
    /// rows.
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
    /// Once for a table whose values differ: a ratio between its rows also compares these.
    Differs,
    /// Once for a table, with its smallest value.
    Smallest,
}

/// Percent of a load generator's ceiling. Above it, a result depends as much on the generator as on
/// the layer.
const NEAR_CEILING: u32 = 70;

impl FigureTable {
    /// A table without figures.
    pub fn new(title: &str, about: &str) -> Self {
        Self {
            title: title.into(),
            about: about.into(),
            across: None,
            curve: false,
            answer: false,
            figures: Vec::new(),
        }
    }

    /// Sets the quantity: results that differ only in it share a table.
    #[must_use]
    pub fn across(mut self, quantity: Quantity) -> Self {
        self.across = Some(quantity);
        self
    }

    /// Draws the rate over a quantity, and sorts rows by layer and quantity.
    #[must_use]
    pub fn curve_over(mut self, quantity: Quantity) -> Self {
        self.curve = true;
        self.across(quantity)
    }

    /// Prints the tables with the short answer.
    #[must_use]
    pub fn answer(mut self) -> Self {
        self.answer = true;
        self
    }

    /// Adds figures.
    #[must_use]
    pub fn with(mut self, figures: impl IntoIterator<Item = Figure>) -> Self {
        self.figures.extend(figures);
        self
    }

    /// The group of values with hashes of programs. Trials that differ in them are not compared.
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

    /// A figure that divides amounts by others.
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

    /// The sum of the values that the trials sent under the figure's own name.
    pub fn sum(name: &str) -> Self {
        let source = FigureSource::Sum(Amount::Value(name.into()));
        Self::new(name, FigureUnit::Whole, source)
    }

    /// Other figures in a text.
    pub fn text(name: &str, words: &str) -> Self {
        Self::new(name, FigureUnit::Text, FigureSource::Text(words.into()))
    }

    /// The figure `of` divided by the load generator's ceiling (the value `ceiling`). `most` says
    /// how the ceiling was measured: `{layer}: 91 % of what MOST, ...`.
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

    /// Sets the heading of its column.
    #[must_use]
    pub fn head(mut self, head: &str) -> Self {
        self.head = head.into();
        self
    }

    /// Leaves the column out if no row has a value.
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

/// What a trial measured for its workload's figures, by name. Names with the same prefix, up to a
/// dot, form a group.
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
    /// Several names.
    Names(Vec<String>),
}

/// Up to here a float represents every whole number exactly.
const WHOLE: f64 = (1u64 << 53) as f64;

impl FigureValues {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields of a struct, by name.
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

    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&FigureValue> {
        self.0.get(name)
    }

    /// The value of this name, if it is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.get(name)? {
            FigureValue::Number(value) => Some(*value),
            _ => None,
        }
    }

    /// Adds the values of `more`, which take the place of those of the same names.
    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// The values `GROUP.NAME`, by `NAME`.
    #[must_use]
    pub fn group(&self, group: &str) -> Self {
        let own = |(name, value): (&String, &FigureValue)| {
            let name = name.strip_prefix(group)?.strip_prefix('.')?;
            Some((name.to_owned(), value.clone()))
        };
        Self(self.0.iter().filter_map(own).collect())
    }

    /// A structure whose fields have the names of the values. `None` where a field has no value, or one of
    /// another kind.
    pub fn read_as<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_value(serde_json::to_value(self).ok()?).ok()
    }

    /// Names of the values `GROUP.NAME`.
    pub fn names<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a str> {
        let name = move |name: &'a String| name.strip_prefix(group)?.strip_prefix('.');
        self.0.keys().filter_map(name)
    }

    /// The texts of the values `GROUP.NAME`, by `NAME`.
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

/// Whole numbers are written without a decimal point.
impl Serialize for FigureValue {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(value) if value.fract() == 0.0 && value.abs() < WHOLE => {
                to.serialize_i64(*value as i64)
            }
            Self::Number(value) => to.serialize_f64(*value),
            Self::Text(text) => to.serialize_str(text),
            Self::List(values) => to.collect_seq(values.iter().map(|v| Self::Number(*v))),
            Self::Names(names) => to.collect_seq(names),
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

/// Also accepts the form of earlier versions: structs of one workload, whose fields become
/// `STRUCT.FIELD`.
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
                let names: Vec<String> = texts(&values).map(str::to_owned).collect();
                let numbers = values.iter().filter_map(Value::as_f64).collect();
                let value = if names.is_empty() {
                    FigureValue::List(numbers)
                } else {
                    FigureValue::Names(names)
                };
                self.set(name, value);
            }
            Value::Object(fields) => {
                for (field, value) in fields {
                    self.read(&format!("{name}.{field}"), value);
                }
            }
        }
    }
}

fn texts(values: &[Value]) -> impl Iterator<Item = &str> {
    values.iter().filter_map(Value::as_str)
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
    fn groups_and_names_are_read_as_a_structure() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Traced {
            lookups: u64,
            #[serde(default)]
            files: Vec<String>,
        }
        let old = r#"{"program": "ls", "counted_by": ["/proc"], "trace": {"lookups": 7, "files": ["/bin/ls"]}}"#;
        let mut values: FigureValues = serde_json::from_str(old).unwrap();
        let by = FigureValue::Names(vec!["/proc".into()]);
        assert_eq!(values.get("counted_by"), Some(&by));
        let traced = |lookups, files: &[&str]| Traced {
            lookups,
            files: files.iter().map(ToString::to_string).collect(),
        };
        let read = |values: &FigureValues| values.group("trace").read_as::<Traced>();
        assert_eq!(read(&values), Some(traced(7, &["/bin/ls"])));
        assert_eq!(values.read_as::<Traced>(), None, "of no group");
        values.extend(serde_json::from_str(r#"{"trace": {"lookups": 8}}"#).unwrap());
        assert_eq!(read(&values), Some(traced(8, &["/bin/ls"])));
        let json = serde_json::to_string(&values).unwrap();
        assert_eq!(serde_json::from_str::<FigureValues>(&json).unwrap(), values);
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
