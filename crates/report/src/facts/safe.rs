//! What the trials of a question show besides their times: changes that were not seen, and errors.

use layermark_model::{FigureValue, flags};

use crate::{
    Report,
    types::{FigureRow, ResultRow},
};

/// Linux's numbers of errors, as errors in words end with them.
const EINVAL: u8 = 22;
const ENODEV: u8 = 19;
const ENOLCK: u8 = 37;
const EOPNOTSUPP: u8 = 95;
/// Errors that say that the operation itself is not there: what was tried, and the numbers.
const REFUSALS: [(&str, &[u8]); 3] = [
    // Locks alone have it.
    ("", &[ENOLCK]),
    ("cannot use ", &[EOPNOTSUPP]),
    ("a shared mapping (mmap) is refused", &[ENODEV, EINVAL]),
];
/// What is before the number.
const NUMBERED: &str = "(os error ";
/// What the error has that says that updates under a lock were lost.
const BROKEN: &str = "the layer breaks ";

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

/// An error by which the operation was refused, or which shows that it does not do what it is for. Where some trials
/// could do it, an error number does not say that it is not there: a table of locks may have been full.
pub fn refusal<'a>(report: &'a Report, rows: &[&'a ResultRow]) -> Option<&'a str> {
    rows.iter().find_map(|row| {
        let shows = |error: &&str| error.contains(BROKEN) || row.trials == 0 && is_refusal(error);
        errors(report, &[*row]).find(shows)
    })
}

/// The error of a trial that failed.
pub fn failure<'a>(report: &'a Report, rows: &[&'a ResultRow]) -> Option<&'a str> {
    errors(report, rows).next()
}

/// The errors of the trials, of which a result has the last alone.
fn errors<'a>(report: &'a Report, rows: &[&'a ResultRow]) -> impl Iterator<Item = &'a str> {
    rows.iter().copied().flat_map(move |row| {
        let own = report.trials.iter();
        let own = own.filter(move |t| t.layer == row.layer && t.point == row.label);
        let own = own.filter_map(|t| t.error.as_deref());
        own.chain(row.error.as_deref())
    })
}

fn is_refusal(error: &str) -> bool {
    let number = error.rsplit_once(NUMBERED).map(|(_, after)| after);
    let number = number.and_then(|after| after.split(')').next()?.parse().ok());
    let is = |what: &str, numbers: &[u8]| {
        error.contains(what) && number.is_some_and(|number| numbers.contains(&number))
    };
    REFUSALS.iter().any(|(what, numbers)| is(what, numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_operation_itself_says_is_a_refusal() {
        for error in [
            "cannot use flock locks on /x/locked: No locks available (os error 37)",
            "cannot look in /x: No locks available (os error 37)",
            "cannot use ofd locks on /x/locked: Operation not supported (os error 95)",
            "cannot look in /x: a shared mapping (mmap) is refused: No such device (os error 19)",
            "cannot look in /x: a shared mapping (mmap) is refused: Invalid argument (os error 22)",
        ] {
            assert!(is_refusal(error), "{error}");
        }
        for error in [
            "cannot use flock locks on /x/locked: Input/output error (os error 5)",
            "cannot make /my locks on x/locked: Operation not supported (os error 95)",
            "cannot look in /x: No such device (os error 19)",
            "cannot look in /x: a shared mapping (mmap) is refused: Cannot allocate memory (os error 12)",
            "the trial took longer than 60 s",
        ] {
            assert!(!is_refusal(error), "{error}");
        }
    }
}
