//! What a stored run says in a line: for lists of runs, and for one figure over many of them.

use layermark_model::{BASELINE, Machine, Point, Run, RunStatus, TrialRecord};
use layermark_stats as stats;

use crate::{
    analysis::{index::Index, results, sweep},
    types::{Estimate, Report, Verdict},
};

/// How the verdicts of a run came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// All that the plan asks for.
    pub asked: usize,
    /// Of these, *same*.
    pub same: usize,
    /// *Slower*.
    pub slower: usize,
    /// *Faster*.
    pub faster: usize,
}

impl Tally {
    /// Of a run, by the rules of its report.
    pub fn of(run: &Run, trials: &[TrialRecord]) -> Self {
        let words = results::words(run, &Index::new(run, trials), BASELINE);
        let count = |verdict: Verdict| words.iter().filter(|w| **w == verdict).count();
        Self {
            asked: words.len() - count(Verdict::Descriptive),
            same: count(Verdict::Same),
            slower: count(Verdict::Slower),
            faster: count(Verdict::Faster),
        }
    }

    /// Those with a word that is certain.
    pub fn decided(&self) -> usize {
        self.same + self.slower + self.faster
    }
}

/// What a run has measured at a point in a layer, and what says whether others are of its kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The ratio to the baseline, or the baseline's own microseconds an operation.
    pub value: Estimate,
    /// Name of the baseline.
    pub baseline: String,
    /// Whether the layer is the baseline itself.
    pub is_baseline: bool,
    /// Whether the run is complete, and neither it nor this result is untrusted.
    pub sound: bool,
    point: Point,
    machine: Machine,
}

impl Figure {
    /// By the rules of the run's report. `None` where there is no number.
    pub fn of(run: &Run, trials: &[TrialRecord], layer: &str, label: &str) -> Option<Self> {
        let (at, point) = run.site(layer, label)?;
        let report = Report::build(run, trials);
        let mut rows = report.results.iter();
        let row = rows.find(|row| row.layer == layer && row.label == label)?;
        let is_baseline = at == BASELINE;
        let value = if is_baseline {
            Estimate {
                estimate: row.op_us?,
                interval: row.op_us_interval,
                average: None,
            }
        } else {
            row.ratio?
        };
        Some(Self {
            value,
            baseline: run.layers[BASELINE].name.clone(),
            is_baseline,
            sound: run.status == RunStatus::Done
                && report.trustworthy()
                && row.verdict != Verdict::Untrusted,
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

/// One figure over runs: those that can be set beside each other, with what stands for each run.
#[derive(Debug)]
pub struct Series<T> {
    /// The oldest first.
    pub kept: Vec<(T, Figure)>,
    /// Left out: runs that are not complete, or of which the result is not trusted.
    pub doubtful: usize,
    /// Left out: runs whose work, or whose baseline, is not that of the newest one kept.
    pub other_work: usize,
}

impl<T> Series<T> {
    /// Takes the newest first.
    pub fn of(figures: impl Iterator<Item = (T, Figure)>) -> Self {
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

    /// Which of `machine` and `kernel` are not those of the run before, by the place in `kept`.
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

/// A change in a figure over runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The first value after it.
    pub at: usize,
    /// Median between the change before, or the beginning, and this one.
    pub before: f64,
    /// Median from here to the next change, or the end.
    pub after: f64,
}

/// Where a figure changes for good, in the order of the values; at least ten are needed.
pub fn changes(values: &[f64]) -> Vec<Change> {
    // The seed draws permutations only.
    let parts = stats::segments(values, &stats::change_points(values, 1));
    let change = |pair: &[stats::Segment]| Change {
        at: pair[1].start,
        before: pair[0].median,
        after: pair[1].median,
    };
    parts.windows(2).map(change).collect()
}

/// One figure over runs, for a page.
#[derive(Debug)]
pub struct Trend {
    /// The point's label.
    pub point: String,
    /// Name of the layer.
    pub layer: String,
    /// Microseconds an operation of the baseline; else the ratio to it.
    pub is_time: bool,
    /// The oldest first; at least one.
    pub runs: Vec<TrendRun>,
    /// As [`changes`] finds them.
    pub changes: Vec<Change>,
    /// What it came to, in sentences.
    pub said: Vec<String>,
}

/// What one run says of it.
#[derive(Debug)]
pub struct TrendRun {
    /// The run's id.
    pub id: String,
    /// Its number in the store.
    pub number: u64,
    /// When it began, in words.
    pub started: String,
    /// The figure.
    pub value: Estimate,
}
