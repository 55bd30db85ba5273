//! The numbers of a result that stand beside each other.

use crate::types::{Estimate, ResultRow, Verdict};

/// The numbers of a result that stand beside each other, all of the same rounds and the same
/// statistic: time over the baseline's time is the ratio, and time minus it the difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Numbers {
    /// Whether they are averages, and not of the typical operation.
    pub is_average: bool,
    /// Time per operation, microseconds.
    pub time: Option<Estimate>,
    /// The baseline's, microseconds. `None` without a ratio.
    pub baseline_us: Option<f64>,
    /// The ratio.
    pub ratio: Option<Estimate>,
    /// The difference, microseconds.
    pub extra: Option<Estimate>,
    /// Whether that is the result's `extra_us`.
    pub extra_is_stored: bool,
    /// Whether time and ratio are what it took at least: the change was not seen.
    pub at_least: bool,
    /// The verdict, or the probable one.
    pub verdict: Verdict,
}

/// The typical numbers of a result. A second line has the averages where they differ: see
/// [`ResultRow::has_two_lines`].
pub fn numbers(row: &ResultRow) -> Vec<Numbers> {
    let average = row.has_two_lines().then(|| averages(row)).flatten();
    [typical(row)].into_iter().chain(average).collect()
}

/// The numbers of the typical operation.
pub fn typical(row: &ResultRow) -> Numbers {
    Numbers {
        is_average: false,
        time: row.op_time(),
        baseline_us: row.native_us,
        ratio: row.ratio,
        extra: if row.has_stalls() {
            difference(row.native_us, row.ratio)
        } else {
            row.extra_us
        },
        extra_is_stored: !row.has_stalls(),
        at_least: row.not_seen(),
        verdict: row.leaning(),
    }
}

/// The averages. `None` without a ratio.
pub fn averages(row: &ResultRow) -> Option<Numbers> {
    let ratio = row.ratio?.average.map(Estimate::from);
    Some(Numbers {
        is_average: true,
        time: row.average_us.map(|us| Estimate::new(us, None)),
        baseline_us: row.native_average_us,
        ratio,
        extra: difference(row.native_average_us, ratio),
        extra_is_stored: false,
        at_least: row.not_seen(),
        verdict: row.leaning(),
    })
}

/// The baseline's time times (ratio - 1).
fn difference(baseline_us: Option<f64>, ratio: Option<Estimate>) -> Option<Estimate> {
    let (us, ratio) = baseline_us.zip(ratio)?;
    let more = |ratio: f64| us * (ratio - 1.0);
    let ends = ratio.interval.map(|ends| ends.map(more));
    Some(Estimate::new(more(ratio.estimate), ends))
}

/// From this share on, a difference of the baseline's time in the rounds of a ratio from that of its row
/// is reported.
const OTHER_ROUNDS: f64 = 0.05;
/// The same where the two times have a ratio outside the interval.
const NOTICED: f64 = 0.01;

/// The baseline's average microseconds an operation in the rounds of the layer's ratio, if its own row has
/// clearly another time. That row includes rounds with other layers, which may be on one CPU where
/// these are not.
pub fn in_other_rounds(row: &ResultRow, baseline: &ResultRow) -> Option<f64> {
    let (here, there) = (row.native_average_us?, baseline.average_us?);
    let apart = (here / there).ln().abs();
    // The two times that stand below each other contradict their ratio.
    let shown = row.average_us.map(|us| us / there);
    let [low, high] = row
        .ratio
        .and_then(|r| r.average?.interval)
        .unwrap_or([0.0, f64::MAX]);
    let contradicts = shown.is_some_and(|ratio| ratio < low || ratio > high);
    let other = apart > OTHER_ROUNDS.ln_1p() || contradicts && apart > NOTICED.ln_1p();
    other.then_some(here)
}
