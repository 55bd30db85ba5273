//! Results for programs that keep one number for each name.

use crate::{Estimate, Report, ResultRow, words::result_line};

/// A point in a layer that has a time.
pub struct Point<'a> {
    row: &'a ResultRow,
    /// Its workload.
    pub workload: &'a str,
    /// The point's name.
    pub label: &'a str,
    /// The layer's name.
    pub layer: &'a str,
    /// Microseconds per operation.
    pub op_us: f64,
    /// Its interval.
    pub interval: Option<[f64; 2]>,
    /// Its time over the baseline's; `None` for the baseline.
    pub ratio: Option<&'a Estimate>,
}

/// The points of a report.
pub struct Points;

impl Points {
    /// In the order of the report. The control is not a layer of the user's.
    pub fn of(report: &Report) -> impl Iterator<Item = Point<'_>> {
        let control = |name: &str| report.layers.iter().any(|l| l.control && l.name == name);
        let rows = report
            .results
            .iter()
            .filter(move |row| !control(&row.layer));
        rows.filter_map(|row| {
            Some(Point {
                row,
                workload: &row.workload,
                label: &row.label,
                layer: &row.layer,
                op_us: row.op_us.filter(|us| us.is_finite())?,
                interval: row.op_us_interval,
                ratio: row.ratio.as_ref(),
            })
        })
    }
}

impl Point<'_> {
    /// `rand-read, 4K in overlay:upper`
    pub fn name(&self) -> String {
        result_line::place(self.label, self.layer).into()
    }

    /// The ratio and the verdict in words; empty for the baseline.
    pub fn words(&self) -> String {
        let ratio = self.ratio.map(|_| result_line::ratio_and_word(self.row));
        ratio.map(String::from).unwrap_or_default()
    }
}
