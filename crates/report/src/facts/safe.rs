//! What the trials of a question show besides their times: changes that were not seen, and errors.

use layermark_model::{Defect, FigureValue, flags};

use crate::{
    Report,
    types::{FigureRow, ResultRow, TrialRow},
};

/// Changes that were not seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Unseen<'a> {
    /// The results that have some.
    pub labels: Vec<&'a str>,
    /// How many were not seen.
    pub absent: u64,
    /// How many were made.
    pub all: u64,
    /// For how long the second side looked, in words. `None` if that is not stored.
    pub waited: Option<&'a str>,
}

/// The changes of these results that were not seen; `None` if each was.
pub fn unseen<'a>(report: &'a Report, rows: &[&'a ResultRow]) -> Option<Unseen<'a>> {
    let mut found = Unseen {
        labels: Vec::new(),
        absent: 0,
        all: 0,
        waited: None,
    };
    for row in rows {
        let figures = figures(report, row);
        let number = |name: &str| match figures.and_then(|f| f.values.get(name)) {
            Some(FigureValue::Number(number)) => *number as u64,
            _ => 0,
        };
        // A trial that saw nothing has the remark as well.
        let trials = row.flag_counts.get(flags::NOT_SEEN).copied();
        let absent = number("absent").max(trials.unwrap_or(0) as u64);
        found.all += number("seen") + absent;
        if absent == 0 {
            continue;
        }
        found.absent += absent;
        found.labels.push(&row.label);
        if let Some(FigureValue::Text(wait)) = figures.and_then(|f| f.values.get("wait")) {
            found.waited = Some(wait);
        }
    }
    (found.absent > 0).then_some(found)
}

fn figures<'a>(report: &'a Report, row: &ResultRow) -> Option<&'a FigureRow> {
    let mut all = report.figures.iter().flat_map(|group| &group.rows);
    all.find(|figures| figures.result == row.id)
}

/// The error of a trial in which the layer said that it lacks the operation, or which shows that it does not do what
/// it is for. Where some trials could do it, a refusal does not say that it is not there: a table of locks may have been
/// full.
pub fn refusal<'a>(report: &'a Report, rows: &[&'a ResultRow]) -> Option<&'a str> {
    rows.iter().find_map(|row| {
        let shows = |t: &&TrialRow| match t.defect {
            Some(Defect::Breaks) => true,
            Some(Defect::Lacks) => row.trials == 0,
            None => false,
        };
        trials(report, row).find(shows)?.error.as_deref()
    })
}

/// The error of a trial that failed.
pub fn failure<'a>(report: &'a Report, rows: &[&'a ResultRow]) -> Option<&'a str> {
    rows.iter().find_map(|row| {
        let mut errors = trials(report, row).filter_map(|t| t.error.as_deref());
        errors.next().or(row.error.as_deref())
    })
}

/// The trials of a result, which itself has the last error alone.
fn trials<'a>(report: &'a Report, row: &'a ResultRow) -> impl Iterator<Item = &'a TrialRow> {
    let all = report.trials.iter();
    all.filter(move |t| t.layer == row.layer && t.point == row.label)
}
