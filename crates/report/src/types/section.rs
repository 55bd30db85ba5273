//! Sections: tables, line charts and conclusions as data, so that every exporter prints them alike.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{group, words::captions};

/// A part of the report besides the results, such as a study.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Section {
    /// Its name: `cost`, `buffer`, `seek`, or the study's own id.
    pub name: String,
    /// The heading.
    pub title: String,
    /// What it shows, in a sentence or two.
    pub about: String,
    /// A study's answer in one sentence, without a full stop. It is the report's headline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headline: Option<String>,
    /// Whether it is the answer itself: a summary of ratios without it would leave out what was asked for.
    #[serde(skip)]
    pub is_answer: bool,
    /// Tables in order.
    pub tables: Vec<DataTable>,
    /// What the tables do not show, in sentences without a full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Tables of single values: folded on the page. Other formats have them as lists of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<DataTable>,
    /// Charts in order.
    pub charts: Vec<LineChart>,
    /// Values in the order of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequences: Vec<Sequence>,
    /// Conclusions from them.
    pub conclusions: Vec<Conclusion>,
    /// Lines in the format of the study's own programs, to be saved as files.
    pub files: Vec<TextFile>,
}

/// A table, head first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataTable {
    /// Its title.
    pub title: String,
    /// An explanation; may be empty.
    pub note: String,
    /// Column heads.
    pub head: Vec<String>,
    /// Rows, as long as the head.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The formatted text.
    pub text: String,
    /// The number, in the unit that the column's head or the text names: seconds, bytes, bytes per
    /// second, microseconds. Absent for text.
    pub value: Option<f64>,
    /// Whether the text is that number and says no more: no unit, no range.
    #[serde(skip)]
    pub is_bare: bool,
}

impl Cell {
    /// A text cell.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// A number with a text that has its unit, or says more.
    pub fn number(text: impl Into<String>, value: f64) -> Self {
        Self {
            text: text.into(),
            value: value.is_finite().then_some(value),
            is_bare: false,
        }
    }

    /// A number whose text says no more.
    pub fn bare(text: impl Into<String>, value: f64) -> Self {
        Self {
            is_bare: true,
            ..Self::number(text, value)
        }
    }

    /// A count.
    pub fn count(n: u64) -> Self {
        Self::bare(n.to_string(), n as f64)
    }

    /// Whether its text says more than its number.
    pub fn is_wordy(&self) -> bool {
        self.value.is_some() && !self.is_bare
    }
}

/// Lines over a quantity that spans decades.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LineChart {
    /// Its accessible name.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// One for each layer or other subject.
    pub series: Vec<Series>,
}

/// An axis; both are logarithmic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// Its label, such as `record size`.
    pub label: String,
    /// Its unit: `B`, `B/s`, `s`, `us`.
    pub unit: String,
}

impl Axis {
    /// An axis of this label and unit, which may be empty.
    pub fn new(label: impl Into<String>, unit: &str) -> Self {
        Self {
            label: label.into(),
            unit: unit.to_owned(),
        }
    }
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points from left to right.
    pub points: Vec<Mark>,
    /// The x and y of a model's line. Absent if the line goes from point to point.
    #[serde(default)]
    pub model: Option<Vec<[f64; 2]>>,
}

impl Series {
    /// Marks in the order of the axis.
    pub fn along(name: &str, marks: impl Iterator<Item = Mark>) -> Self {
        let mut points: Vec<Mark> = marks.collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Self {
            name: name.to_owned(),
            points,
            model: None,
        }
    }
}

/// A point of a line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    /// Horizontal; above 0.
    pub x: f64,
    /// Vertical; above 0.
    pub y: f64,
    /// Interval of `y` at the report's level. Absent if unknown.
    pub interval: Option<[f64; 2]>,
}

/// Times in the order of the run: a chart of each in its place, and one of how often each occurs. A line chart
/// cannot show them: its axes are logarithmic, and it has no level that holds for some of its points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sequence {
    /// What was measured again and again.
    pub title: String,
    /// What the series are of: `layer`, or `command` where all are in one layer.
    #[serde(default = "of_layers")]
    pub of: String,
    /// One for each of these.
    pub series: Vec<SequenceOfLayer>,
}

fn of_layers() -> String {
    "layer".into()
}

/// The times of one series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SequenceOfLayer {
    /// The layer's name, or the command.
    pub layer: String,
    /// Milliseconds, the first one in front.
    pub ms: Vec<f64>,
    /// Levels between two steps. Times outside of all of them are set apart.
    pub levels: Vec<SequenceLevel>,
}

/// Times between two steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SequenceLevel {
    /// The first one, from 1.
    pub from: usize,
    /// The last one.
    pub to: usize,
    /// Their median, milliseconds.
    pub median_ms: f64,
    /// Their typical time, milliseconds: that of tables.
    #[serde(default)]
    pub typical_ms: f64,
}

/// A claim of a study, and whether it holds here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conclusion {
    /// The text; names of layers are code spans of Markdown.
    pub text: String,
    /// The claim in few words, without the layer and its figures.
    #[serde(default)]
    pub claim: String,
    /// Its layer.
    #[serde(default)]
    pub layer: String,
    /// Whether it holds on this machine.
    pub holds: Holds,
    /// Ids of the results behind it.
    pub evidence: Vec<String>,
}

/// A study's claims as rows, layers as columns, both in the order of its conclusions.
pub struct Claims<'a> {
    /// Names of the layers.
    pub layers: Vec<&'a str>,
    /// The claims, and the conclusion on each layer.
    pub claims: Vec<(&'a str, Vec<Option<&'a Conclusion>>)>,
}

impl DataTable {
    /// The table without columns that have no cell with a text.
    fn without_empty(self) -> Self {
        let has_text = |column: &usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(*column));
            cells.any(|cell| !cell.text.is_empty())
        };
        let kept: Vec<usize> = (0..self.head.len()).filter(has_text).collect();
        let cells = |row: &Vec<Cell>| {
            let cells = kept.iter().filter_map(|column| row.get(*column));
            cells.cloned().collect()
        };
        Self {
            head: kept.iter().map(|c| self.head[*c].clone()).collect(),
            rows: self.rows.iter().map(cells).collect(),
            ..self
        }
    }
}

impl Section {
    /// The section for readers: without tables that have no rows, and without empty columns.
    pub(crate) fn without_empty(self) -> Self {
        let shown = |tables: Vec<DataTable>| {
            let some = tables.into_iter().filter(|table| !table.rows.is_empty());
            some.map(DataTable::without_empty).collect()
        };
        Self {
            tables: shown(self.tables),
            details: shown(self.details),
            ..self
        }
    }

    /// Whether it is the main content of such a run, and not a model that any results can have.
    pub fn is_own(&self) -> bool {
        !matches!(self.name.as_str(), "buffer" | "cost" | "seek")
    }

    /// Whether it is what a comparison was made for: gates with their outcomes, and what was compared.
    pub fn is_outcome(&self) -> bool {
        matches!(self.name.as_str(), "gates" | "both-runs")
    }

    /// Its conclusions as a matrix; `None` without conclusions.
    pub fn claims(&self) -> Option<Claims<'_>> {
        let all = || self.conclusions.iter().filter(|c| !c.claim.is_empty());
        let layers = group::distinct(all().map(|c| c.layer.as_str()));
        let claims = group::distinct(all().map(|c| c.claim.as_str()));
        let find = |claim: &str, layer: &str| {
            let mut all = self.conclusions.iter();
            all.find(|c| c.claim == claim && c.layer == layer)
        };
        let of = |claim| layers.iter().map(|layer| find(claim, layer)).collect();
        let claims: Vec<_> = claims.into_iter().map(|c| (c, of(c))).collect();
        (!claims.is_empty()).then_some(Claims { layers, claims })
    }
}

impl Claims<'_> {
    /// The matrix as text.
    pub fn table(&self) -> DataTable {
        let stands = |c: Option<&Conclusion>| Cell::text(c.map_or("", |c| c.holds.words()));
        let row = |(claim, all): &(&str, Vec<Option<&Conclusion>>)| {
            let first = Cell::text(*claim);
            std::iter::once(first)
                .chain(all.iter().map(|c| stands(*c)))
                .collect()
        };
        let layers = self.layers.iter().map(|l| (*l).to_owned());
        DataTable {
            title: captions::CLAIMS.title.into(),
            note: String::new(),
            head: std::iter::once("claim".to_owned()).chain(layers).collect(),
            rows: self.claims.iter().map(row).collect(),
        }
    }
}

/// Whether a study's conclusion holds on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Holds {
    /// It holds.
    #[serde(rename = "holds")]
    Yes,
    /// It does not hold.
    #[serde(rename = "does not hold")]
    No,
    /// The data does not decide.
    #[serde(rename = "cannot be decided here")]
    Open,
}

impl std::ops::Not for Holds {
    type Output = Self;

    /// For the opposite claim.
    fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Open => Self::Open,
        }
    }
}

impl Holds {
    /// `Yes` if shown, else `No` if refuted.
    pub fn when(shown: bool, refuted: bool) -> Self {
        match (shown, refuted) {
            (true, _) => Self::Yes,
            (false, true) => Self::No,
            (false, false) => Self::Open,
        }
    }

    /// The word next to the sentence. Where a claim can be good or bad, `yes` is good.
    pub fn words(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Open => "cannot be decided",
        }
    }
}

/// Text to be saved as a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextFile {
    /// The file's name, without a directory.
    pub name: String,
    /// Its content.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_columns_and_tables_are_left_out() {
        let table = |rows: Vec<Vec<Cell>>| DataTable {
            title: "t".into(),
            note: String::new(),
            head: ["layer", "window", "time"].map(str::to_owned).to_vec(),
            rows,
        };
        let row =
            |layer: &str, time: &str| vec![Cell::text(layer), Cell::default(), Cell::text(time)];
        let section = Section {
            tables: vec![
                table(vec![row("fuse", ""), row("bind", "2 ms")]),
                table(Vec::new()),
            ],
            details: vec![table(Vec::new())],
            ..Section::default()
        };
        let shown = section.without_empty();
        assert!(shown.details.is_empty());
        let [one] = shown.tables.as_slice() else {
            panic!("{:?}", shown.tables)
        };
        assert_eq!(one.head, ["layer", "time"]);
        assert_eq!(one.rows[0], [Cell::text("fuse"), Cell::text("")]);
    }
}
