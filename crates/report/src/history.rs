//! What a stored run says in a line: for lists of runs, and for one figure over many of them.

use layermark_model::{BASELINE, Run, TrialRecord};
use layermark_stats as stats;

use crate::{
    analysis::{
        LEVEL,
        index::{Index, cost},
        results,
    },
    types::{Estimate, Verdict},
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

/// What a run has measured at a point in a layer: the ratio to the baseline, or the baseline's own
/// microseconds an operation. `None` where it has no number.
pub fn figure(run: &Run, trials: &[TrialRecord], layer: &str, point: &str) -> Option<Estimate> {
    let (layer, point) = run.site(layer, point)?;
    let index = Index::new(run, trials);
    let (mean, interval, scale) = if layer == BASELINE {
        let of_trials = index.trials(layer, point);
        let logs: Vec<f64> = of_trials
            .iter()
            .filter_map(|r| Some(cost(r)?.ln()))
            .collect();
        let centre = stats::Trimmed::of(&logs)?;
        let us = run.points[point].meaning.under_way() / 1e3;
        (centre.mean, centre.interval(LEVEL), us)
    } else {
        let pairs = index.pairs(layer, BASELINE, point);
        let estimate = stats::estimate_pairs(&[pairs], LEVEL).remove(0)?;
        (estimate.mean, estimate.interval, 1.0)
    };
    Some(Estimate {
        estimate: mean.exp() * scale,
        interval: interval.map(|i| [i.low.exp() * scale, i.high.exp() * scale]),
    })
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
