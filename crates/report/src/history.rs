//! Summaries of a stored run: for lists of runs, and for trends.

use layermark_model::{BASELINE, Machine, Point, Run, RunStatus, TrialRecord};
use layermark_stats as stats;
use serde::{Deserialize, Serialize};

use crate::{
    build,
    facts::{index::Index, results, sweep},
    types::{Estimate, Verdict},
    words::{self, Names},
};

/// Name of the rules that a [`Tally`] is counted by, to know one that was kept by other rules: a hash of the tallies
/// of the testkit's stored runs, which a test compares.
pub const TALLY_RULES: &str = "48a8cb4d";

/// Counts of a run's verdicts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// All verdicts that the plan requests.
    pub asked: usize,
    /// How many are *same*.
    pub same: usize,
    /// How many are *slower*.
    pub slower: usize,
    /// How many are *faster*.
    pub faster: usize,
    /// The headline of the run's report, as it ended. Absent where it was not kept: it takes the whole report to make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headline: Option<String>,
}

impl Tally {
    /// The tally of a run, by the rules of its report.
    pub fn of(run: &Run, trials: &[TrialRecord]) -> Self {
        let words = results::words(run, &Index::new(run, trials), BASELINE);
        let count = |verdict: Verdict| words.iter().filter(|w| **w == verdict).count();
        Self {
            asked: words.len() - count(Verdict::Descriptive),
            same: count(Verdict::Same),
            slower: count(Verdict::Slower),
            faster: count(Verdict::Faster),
            headline: None,
        }
    }

    /// The number of certain verdicts.
    pub fn decided(&self) -> usize {
        self.same + self.slower + self.faster
    }
}

/// The result of a run at a point in a layer, with what decides whether other runs are comparable.
#[derive(Debug, Clone, PartialEq)]
pub struct TrendFigure {
    /// The ratio to the baseline, or the baseline's own microseconds per operation.
    pub value: Estimate,
    /// Name of the baseline.
    pub baseline: String,
    /// Whether the layer is the baseline itself.
    pub is_baseline: bool,
    /// Whether a few operations take so long that the average is far from the value.
    pub stalls: bool,
    /// Whether the run is complete, and both the run and this result are trusted.
    pub sound: bool,
    point: Point,
    machine: Machine,
}

impl TrendFigure {
    /// Computed by the rules of the run's report. `like` is a point of this or of another run. `None` without a
    /// number.
    pub fn of(run: &Run, trials: &[TrialRecord], layer: &str, like: &Point) -> Option<Self> {
        let at = run.layers.iter().position(|l| l.name == layer)?;
        let point = sweep::like(&run.points, like)?;
        let index = Index::new(run, trials);
        let (row, controls) = results::row_and_controls(run, &index, BASELINE, (at, point));
        let row = row?;
        let control = build::control(run, controls);
        let is_baseline = at == BASELINE;
        let value = if is_baseline {
            row.op_time()?
        } else {
            row.ratio?
        };
        Some(Self {
            value,
            baseline: run.layers[BASELINE].name.clone(),
            is_baseline,
            stalls: row.has_stalls(),
            sound: run.status == RunStatus::Done
                && build::trustworthy(run, trials, control.as_ref())
                && row.verdict != Verdict::Untrusted
                && row.withheld.is_none(),
            point: run.points[point].clone(),
            machine: run.machine.clone(),
        })
    }

    /// Whether it is the same quantity of the same work.
    fn is_like(&self, other: &Self) -> bool {
        self.baseline == other.baseline
            && self.is_baseline == other.is_baseline
            && sweep::other_work(&self.point, &other.point).is_none()
    }
}

/// A figure of comparable runs, each with an item of the caller.
#[derive(Debug)]
pub struct TrendSeries<T> {
    /// Oldest first.
    pub kept: Vec<(T, TrendFigure)>,
    /// Number of runs left out because they are incomplete, or their result is not trusted.
    pub doubtful: usize,
    /// Number of runs left out because their work or baseline differs from that of the newest one
    /// kept.
    pub other_work: usize,
}

impl<T> TrendSeries<T> {
    /// Builds the series. `figures` come newest first.
    pub fn of(figures: impl Iterator<Item = (T, TrendFigure)>) -> Self {
        let mut series = Self {
            kept: Vec::new(),
            doubtful: 0,
            other_work: 0,
        };
        for (run, figure) in figures {
            let newest = series.kept.first().map(|(_, newest)| newest);
            if !figure.sound {
                series.doubtful += 1;
            } else if newest.is_some_and(|newest| !newest.is_like(&figure)) {
                series.other_work += 1;
            } else {
                series.kept.push((run, figure));
            }
        }
        series.kept.reverse();
        series
    }

    /// Where `machine` or `kernel` differ from the run before, as indexes into `kept`.
    pub fn machine_changes(&self) -> Vec<(usize, Vec<&'static str>)> {
        let machines = self.kept.iter().map(|(_, figure)| &figure.machine);
        let pairs = machines.clone().zip(machines.skip(1)).zip(1..);
        let changed = pairs.map(|((old, new), at)| {
            let machine = (!old.same_hardware(new)).then_some("machine");
            let kernel = (old.kernel != new.kernel).then_some("kernel");
            (at, machine.into_iter().chain(kernel).collect())
        });
        changed
            .filter(|(_, what): &(_, Vec<_>)| !what.is_empty())
            .collect()
    }
}

/// A change of a figure over runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first value after it.
    pub at: usize,
    /// Median from the change before (or the start) to this one.
    pub before: f64,
    /// Median from here to the next change (or the end).
    pub after: f64,
}

/// Lasting changes of a figure, in the order of the values. At least ten values are needed.
pub fn changes(values: &[f64]) -> Vec<Change> {
    // The seed affects only permutations.
    let parts = stats::segments(values, &stats::change_points(values, 1));
    let change = |pair: &[stats::Segment]| Change {
        at: pair[1].start,
        before: pair[0].median,
        after: pair[1].median,
    };
    parts.windows(2).map(change).collect()
}

/// A trend for a page.
#[derive(Debug)]
pub struct Trend {
    /// The point's label.
    pub point: String,
    /// Name of the layer.
    pub layer: String,
    /// Whether the values are the baseline's microseconds per operation instead of ratios.
    pub is_time: bool,
    /// Name of the baseline of all runs.
    pub baseline: String,
    /// Oldest first; at least one.
    pub runs: Vec<TrendRun>,
    /// The result of [`changes`].
    pub changes: Vec<Change>,
    /// The trend in sentences.
    pub said: Vec<String>,
}

impl Trend {
    /// What the values are.
    pub fn quantity(&self) -> String {
        words::trend::quantity(self.is_time, &Names::of(Some(&self.baseline))).into()
    }
}

/// One run of a trend.
#[derive(Debug)]
pub struct TrendRun {
    /// The run's id.
    pub id: String,
    /// Its number in the store.
    pub number: u64,
    /// When it started, as text.
    pub started: String,
    /// The value.
    pub value: Estimate,
    /// Whether a few operations take so long that the average is far from the value.
    pub stalls: bool,
}
