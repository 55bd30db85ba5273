//! Notes on a table of figures: those that its workload declares, and what its times and rates are of.

use layermark_model::{Figure, FigureSource, NoteWhen};

use crate::{
    facts::numbers::{Numbers, averages, in_other_rounds},
    types::{FigureGroup, FigureRow, Report, ResultRow, Verdict},
    words::figure_values::different,
};

/// A note below a table of figures.
#[derive(Debug, Clone, PartialEq)]
pub enum TableNote<'a> {
    /// A declared note on a table whose values differ, and each of them as it is shown.
    Differs(&'a str, Vec<String>),
    /// A declared note on a table, with the figure and its smallest value.
    Smallest(&'a str, &'a Figure, f64),
    /// A declared note on a row.
    OfRow(&'a str, &'a FigureGroup, &'a FigureRow),
    /// The baseline's time in the rounds of other rows, where its own row has clearly another.
    OtherRounds(OtherRounds<'a>),
    /// The average of an operation, as the rates of the table have it, where the ratio is of the typical one and another.
    Average {
        /// The result.
        row: &'a ResultRow,
        /// Its averages.
        numbers: Numbers,
        /// Whether the rows of the table are of several operations.
        is_one_of_many: bool,
    },
    /// Layers whose figures lack what the device counted, because it was in use while no layer worked.
    DeviceLeftOut(Vec<&'a str>),
}

/// The baseline's time in rounds beside other layers.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherRounds<'a> {
    /// The baseline.
    pub baseline: &'a str,
    /// The operation, if the table has others.
    pub label: Option<&'a str>,
    /// The other layers.
    pub layers: Vec<&'a str>,
    /// The shortest and the longest of its times in their rounds, microseconds.
    pub us: [f64; 2],
    /// Whether turns of its control count in these rounds.
    pub with_control: bool,
}

/// The notes of a table in which these figures are columns.
pub fn notes<'a>(
    report: &'a Report,
    group: &'a FigureGroup,
    shown: &[&Figure],
) -> Vec<TableNote<'a>> {
    let mut notes = declared(group);
    if group.declared.figures.iter().any(is_time) {
        notes.extend(other_rounds(report, group).map(TableNote::OtherRounds));
        notes.extend(of_averages(report, group));
    }
    notes.extend(device_left_out(group, shown));
    notes
}

/// Notes that the values call for: on the whole table, then on each row.
fn declared(group: &FigureGroup) -> Vec<TableNote<'_>> {
    let all = || {
        let figures = group.declared.figures.iter();
        figures.flat_map(|f| f.notes.iter().map(move |n| (f, n.when, n.text.as_str())))
    };
    let table = all().filter_map(|(f, when, text)| of_table(group, f, when, text));
    let rows = group.rows.iter().flat_map(|row| {
        let called_for = move |(f, when, _): &(&Figure, NoteWhen, &str)| calls_for(row, f, *when);
        let notes = all().filter(called_for);
        notes.map(move |(.., text)| TableNote::OfRow(text, group, row))
    });
    table.chain(rows).collect()
}

fn of_table<'a>(
    group: &'a FigureGroup,
    figure: &'a Figure,
    when: NoteWhen,
    text: &'a str,
) -> Option<TableNote<'a>> {
    let values = group.rows.iter();
    match when {
        NoteWhen::Differs => {
            let values = values.filter_map(|r| r.values.get(&figure.name));
            let shown = different(figure.unit, values);
            (shown.len() > 1).then_some(TableNote::Differs(text, shown))
        }
        NoteWhen::Smallest => {
            let numbers = values.filter_map(|r| r.number(&figure.name));
            let least = numbers.reduce(f64::min)?;
            Some(TableNote::Smallest(text, figure, least))
        }
        NoteWhen::Above(_) | NoteWhen::Zero => None,
    }
}

/// Whether a row's value calls for a note.
fn calls_for(row: &FigureRow, figure: &Figure, when: NoteWhen) -> bool {
    let value = row.number(&figure.name);
    value.is_some_and(|value| match when {
        NoteWhen::Above(most) => value > f64::from(most),
        NoteWhen::Zero => value == 0.0,
        NoteWhen::Differs | NoteWhen::Smallest => false,
    })
}

/// Whether it is a time of an operation, or a rate.
fn is_time(f: &Figure) -> bool {
    matches!(
        f.source,
        FigureSource::Rate
            | FigureSource::RateInInterval
            | FigureSource::OperationTime
            | FigureSource::MeanLatency
            | FigureSource::MedianLatency
    )
}

/// The results of a table's rows.
fn results<'a>(
    report: &'a Report,
    group: &'a FigureGroup,
) -> impl Iterator<Item = &'a ResultRow> + Clone {
    group.rows.iter().filter_map(|r| report.result(&r.result))
}

fn of_averages<'a>(report: &'a Report, group: &'a FigureGroup) -> Vec<TableNote<'a>> {
    let rows = results(report, group).filter(|r| r.has_two_lines());
    let notes = rows.filter_map(|row| {
        Some(TableNote::Average {
            row,
            numbers: averages(row)?,
            is_one_of_many: group.rows.iter().any(|other| other.label != row.label),
        })
    });
    notes.collect()
}

fn other_rounds<'a>(report: &'a Report, group: &'a FigureGroup) -> Option<OtherRounds<'a>> {
    let results = results(report, group);
    let own = |label: &str| {
        let mut all = results.clone();
        all.find(|r| r.verdict == Verdict::Baseline && r.label == label)
    };
    let apart = |r: &ResultRow| in_other_rounds(r, own(&r.label)?);
    // One point has one time.
    let label = &results.clone().find(|r| apart(r).is_some())?.label;
    let of_point = results.clone().filter(|r| r.label == *label);
    let apart = of_point.filter_map(|r| Some((r.layer.as_str(), apart(r)?)));
    let (layers, times): (Vec<&str>, Vec<f64>) = apart.unzip();
    let least = times.iter().copied().fold(f64::MAX, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    let has_others = results.clone().any(|r| r.label != *label);
    let mut of_label = results.clone().filter(|r| r.label == *label);
    let with_control = of_label.any(|r| r.block_ratios.iter().any(|b| b.both.is_some()));
    Some(OtherRounds {
        baseline: &own(label)?.layer,
        label: has_others.then_some(label),
        layers,
        us: [least, most],
        with_control,
    })
}

fn device_left_out<'a>(group: &'a FigureGroup, shown: &[&Figure]) -> Option<TableNote<'a>> {
    let is_shown = |name: &String| shown.iter().any(|f| f.name == *name);
    let rows = group.rows.iter();
    let lacking = rows.filter(|row| row.left_out.iter().any(is_shown));
    let mut layers: Vec<&str> = lacking.map(|row| row.layer.as_str()).collect();
    layers.dedup();
    (!layers.is_empty()).then_some(TableNote::DeviceLeftOut(layers))
}

/// Whether a result has the highest rate on a curve.
#[derive(Debug, Clone, PartialEq)]
pub enum Peak<'a> {
    /// The next one is decidedly lower.
    Decided,
    /// The next one may be as high: where it lies on the axis of this name.
    Open(f64, &'a str),
    /// There is no next one on the axis of this name.
    Last(&'a str),
}
