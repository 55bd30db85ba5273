//! Charts: kuva draws, [`svg`] adapts the drawing to pages that are light, dark, printed or read
//! aloud.

mod drift;
mod forest;
mod latency;
mod lines;
mod paper;
mod sequences;
mod sizes;
mod surface;
mod svg;
mod trend;

pub use drift::group as drift;
pub use forest::group as forest;
pub use latency::group as latency;
pub use lines::group as lines;
pub use paper::{png, svg as alone};
pub use sequences::group as sequences;
pub use sizes::group as sizes;
pub use surface::of as surfaces;
pub use trend::chart as trend;

use crate::{Report, Section, words::captions};

/// A chart with its legend and table.
pub struct Chart {
    /// Its accessible name.
    pub title: String,
    /// The drawing.
    pub svg: svg::Drawing,
    /// Names and colours of the series, if there are several.
    pub legend: Vec<Key>,
    /// The data of the drawing.
    pub table: Table,
}

/// A series in a legend.
pub struct Key {
    /// What it is.
    pub name: String,
    /// CSS colour.
    pub colour: String,
    /// Inline SVG of its marker.
    pub marker: &'static str,
}

/// A table of a chart's data.
pub struct Table {
    /// Column heads.
    pub head: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<String>>,
}

/// Charts under one heading.
pub struct ChartGroup {
    /// The heading.
    pub title: String,
    /// What to look for.
    pub hint: String,
    /// At least one.
    pub charts: Vec<Chart>,
}

/// Every chart that has enough data; a study's own come first.
pub fn every(report: &Report) -> Vec<ChartGroup> {
    let sections = report.sections();
    let (study, others) = sections.split_at(usize::from(report.study.is_some()));
    let of = |s: &Section| lines::group(s, report.level);
    let study = study.iter().filter_map(of);
    study
        .chain(forest::group(report))
        .chain(others.iter().filter_map(sequences::group))
        .chain(others.iter().filter_map(of))
        .chain(sizes::group(report))
        .chain(latency::group(report))
        .chain(drift::group(report))
        .chain(surface::group(report))
        .collect()
}

/// The picture of a report without charts.
pub fn nothing() -> Chart {
    let title = captions::NOTHING_DRAWN;
    let (plots, layout) = (
        Vec::new(),
        kuva::prelude::Layout::new((0.0, 1.0), (0.0, 1.0)),
    );
    let mut drawing = svg::draw(svg::DrawingId::only("nothing"), title, title, plots, layout);
    drawing.scene = kuva::render::render::Scene::new(WIDTH, 10.0);
    Chart {
        title: title.into(),
        svg: drawing,
        legend: Vec::new(),
        table: Table {
            head: Vec::new(),
            rows: Vec::new(),
        },
    }
}

/// Width of every drawing in its own units. Three fit next to each other, and one fits a phone with
/// readable letters.
const WIDTH: f64 = 400.0;

/// Most series with distinct colours and markers; further ones repeat them.
const SERIES: usize = 7;

fn colour(series: usize) -> String {
    format!("var(--c{})", series % SERIES)
}

/// A label for kuva, where `$` would start a formula. Long labels are shortened; the table has them
/// whole.
fn label(text: &str, longest: usize) -> String {
    let cut: String = if text.chars().count() > longest {
        text.chars()
            .take(longest.saturating_sub(1))
            .chain(['\u{2026}'])
            .collect()
    } else {
        text.to_owned()
    };
    cut.replace('$', "\\$")
}
