//! What a report adds to its results: tables, line charts and conclusions as data, so that every
//! exporter prints them alike.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of the report beside the results, such as a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Section {
    /// `cost`, `buffer`, `seek`, or the study's own id.
    pub name: String,
    /// The heading.
    pub title: String,
    /// What it shows, in a sentence or two.
    pub about: String,
    /// Tables in order.
    pub tables: Vec<DataTable>,
    /// Charts in order.
    pub charts: Vec<LineChart>,
    /// What follows from them.
    pub conclusions: Vec<Conclusion>,
    /// Lines in the form of the study's own programs, to be kept as files.
    pub files: Vec<TextFile>,
}

/// A table, head first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataTable {
    /// What it shows.
    pub title: String,
    /// What has to be known to read it; may be empty.
    pub note: String,
    /// Column heads.
    pub head: Vec<String>,
    /// Rows, as long as the head.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// As people read it.
    pub text: String,
    /// The number itself, in the unit that the column's head or the text names, where it is one:
    /// seconds, bytes, bytes a second, microseconds.
    pub value: Option<f64>,
}

impl Cell {
    /// A cell of words.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            value: None,
        }
    }

    /// A number as people read it, and the number.
    pub fn number(text: impl Into<String>, value: f64) -> Self {
        Self {
            text: text.into(),
            value: value.is_finite().then_some(value),
        }
    }
}

/// Lines over a quantity that spans decades.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LineChart {
    /// Its accessible name.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// One for each layer or other subject.
    pub series: Vec<Series>,
}

/// An axis; both are logarithmic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// What it shows, such as `record size`.
    pub label: String,
    /// Its unit: `B`, `B/s`, `s`, `us`.
    pub unit: String,
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// Its points from left to right.
    pub points: Vec<Mark>,
    /// Where the line goes, as x and y, when it is that of a model and not from point to point.
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
    /// Across; above 0.
    pub x: f64,
    /// Upwards; above 0.
    pub y: f64,
    /// Where `y` lies at the report's level, when that is known.
    pub interval: Option<[f64; 2]>,
}

/// A sentence of a study, and how it stands here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conclusion {
    /// The words; names of layers are code spans of Markdown.
    pub text: String,
    /// What is claimed, in few words without the layer and its figures.
    #[serde(default)]
    pub claim: String,
    /// The layer that it is about.
    #[serde(default)]
    pub layer: String,
    /// How it stands on this machine.
    pub holds: Holds,
    /// Ids of the results it rests on.
    pub evidence: Vec<String>,
}

/// A study's claims down, layers across, both in the order of its conclusions.
pub struct Claims<'a> {
    /// Names of the layers.
    pub layers: Vec<&'a str>,
    /// What is claimed, and the conclusion on each layer.
    pub claims: Vec<(&'a str, Vec<Option<&'a Conclusion>>)>,
}

impl Section {
    /// Whether it is what such a run is made for, and no model that any results can have.
    pub fn is_own(&self) -> bool {
        !matches!(self.name.as_str(), "buffer" | "cost" | "seek")
    }

    /// Its conclusions as a matrix; `None` where it has none.
    pub fn claims(&self) -> Option<Claims<'_>> {
        let (mut layers, mut claims): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        for c in self.conclusions.iter().filter(|c| !c.claim.is_empty()) {
            for (all, one) in [(&mut layers, &c.layer), (&mut claims, &c.claim)] {
                if !all.contains(&one.as_str()) {
                    all.push(one);
                }
            }
        }
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
    /// The same as words.
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
            title: "What holds here".into(),
            note: String::new(),
            head: std::iter::once("claim".to_owned()).chain(layers).collect(),
            rows: self.claims.iter().map(row).collect(),
        }
    }
}

/// How a study's conclusion stands on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Holds {
    /// It is so here.
    #[serde(rename = "holds")]
    Yes,
    /// It is not so here.
    #[serde(rename = "does not hold")]
    No,
    /// What was measured does not tell.
    #[serde(rename = "cannot be decided here")]
    Open,
}

impl Holds {
    /// What was shown decides, then what was refuted.
    pub fn when(shown: bool, refuted: bool) -> Self {
        match (shown, refuted) {
            (true, _) => Self::Yes,
            (false, true) => Self::No,
            (false, false) => Self::Open,
        }
    }

    /// The words beside the sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Yes => "holds",
            Self::No => "does not hold",
            Self::Open => "cannot be decided",
        }
    }
}

/// Text to be kept as a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextFile {
    /// The file's name, without a directory.
    pub name: String,
    /// What is in it.
    pub text: String,
}
