//! Several runs of one thing: which one differs from the others.

use crate::{
    ALPHA, BlockValue, Estimate, Interval,
    estimate::{Between, estimate_with},
    holm,
};

/// Fewest runs of which one can be the odd one: of two, either may be.
pub const MIN_RUNS: usize = 3;

/// How a run compares with the others in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddness {
    /// The whole interval lies within delta of the mean of the others.
    Like,
    /// It differs from each of the runs that are not odd. It is farther from their mean than any two of them are from each
    /// other, and by more than delta.
    Odd,
    /// The runs differ, and none of them is shown to be the odd one.
    Split,
    /// The data does not decide.
    Unknown,
}

/// A run in one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AmongRuns {
    /// The word.
    pub oddness: Oddness,
    /// Its cost over the others', no unit: above 1 is slower.
    pub ratio: f64,
    /// The interval of `ratio`; `None` if there are too few blocks.
    pub interval: Option<Interval>,
    /// p of "it costs the same as the others" after Holm's correction over all runs and cells. The others are those of
    /// `ratio`.
    pub p_adjusted: f64,
    /// How many runs it is compared with.
    pub others: usize,
}

/// Compares each run with the mean of the others, cell by cell. A cell has for each run the values that a
/// [`TwoRuns`](crate::TwoRuns) has, or none. Only cells with [`MIN_RUNS`] runs count.
///
/// * Each run's mean and error are those of [`compare_runs`](crate::compare_runs). The others have the mean of their
///   means, and the difference has Welch's degrees of freedom.
/// * One odd run shifts what the others are compared with. So of the runs that differ in a cell by Holm's correction
///   over all runs and cells, and by more than `delta`, the one that differs most is set aside. All others are then
///   compared again without it, until none is left that differs.
/// * A run that was set aside is odd if it also differs from each of the rest alone. Its p is the largest of all these,
///   corrected in the same way. Fewer than half of the cell's runs may be set aside, and each has to be farther from the
///   mean of the rest than any two of these are from each other. Otherwise the runs of the cell are split: each then has
///   its ratio to all others and the p of that.
/// * A run is like the others if its whole interval lies within `delta` of their mean, as in [`judge`](crate::judge).
pub fn odd_runs<B: Copy + Into<BlockValue>>(
    cells: &[Vec<Vec<B>>],
    delta: f64,
    level: f64,
) -> Vec<Vec<Option<AmongRuns>>> {
    let band = delta.max(0.0).ln_1p();
    let mut cells: Vec<OneCell> = estimates(cells, level)
        .into_iter()
        .map(|runs| OneCell::new(runs, level))
        .collect();
    let from_all = adjusted(&cells, |cell, run| cell.from_all[run].map(|d| d.p));
    loop {
        let adjusted = adjusted(&cells, |cell, run| cell.differences[run].map(|d| d.p));
        let mut any = false;
        for (cell, p) in cells.iter_mut().zip(&adjusted) {
            any |= cell.set_aside(p, band, level);
        }
        if !any {
            break;
        }
    }
    let of_odd = adjusted(&cells, |cell, run| cell.p_of_odd(run, level));
    let each = cells.iter().zip(of_odd.iter().zip(&from_all));
    each.map(|(cell, (of_odd, from_all))| cell.oddness(of_odd, from_all, band))
        .collect()
}

/// The estimate of each run in each cell. Those without an error, or in too few runs, are left out.
fn estimates<B: Copy + Into<BlockValue>>(
    cells: &[Vec<Vec<B>>],
    level: f64,
) -> Vec<Vec<Option<Estimate>>> {
    let runs = cells.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = vec![vec![None; runs]; cells.len()];
    for run in 0..runs {
        let values: Vec<_> = cells
            .iter()
            .map(|cell| cell.get(run).cloned().unwrap_or_default().into())
            .collect();
        let found = estimate_with(&values, Between::Always, level);
        for (cell, estimate) in all.iter_mut().zip(found) {
            cell[run] = estimate.filter(|e| e.error.is_finite() && e.mean.exp().is_normal());
        }
    }
    for cell in &mut all {
        if cell.iter().flatten().count() < MIN_RUNS {
            cell.fill(None);
        }
    }
    all
}

struct OneCell {
    /// `None` for a run that is not compared.
    runs: Vec<Option<Estimate>>,
    /// Each run's difference from all others.
    from_all: Vec<Option<Estimate>>,
    /// Each run's difference from the others that were not set aside.
    differences: Vec<Option<Estimate>>,
    /// Whether it was set aside as different.
    aside: Vec<bool>,
}

impl OneCell {
    fn new(runs: Vec<Option<Estimate>>, level: f64) -> Self {
        let mut cell = Self {
            from_all: Vec::new(),
            differences: Vec::new(),
            aside: vec![false; runs.len()],
            runs,
        };
        cell.from_all = cell.compared(level);
        cell.differences.clone_from(&cell.from_all);
        cell
    }

    /// Runs that were not set aside.
    fn rest(&self) -> impl Iterator<Item = (usize, &Estimate)> {
        let all = self.runs.iter().enumerate();
        all.filter_map(|(run, e)| Some((run, e.as_ref()?)))
            .filter(|(run, _)| !self.aside[*run])
    }

    /// Each run's difference from the rest.
    fn compared(&self, level: f64) -> Vec<Option<Estimate>> {
        let difference = |run: usize| {
            let own = self.runs[run]?;
            let others = self.rest().filter(|(other, _)| *other != run);
            let others: Vec<&Estimate> = others.map(|(_, e)| e).collect();
            Some(own.minus(&mean_of(&others)?, level))
        };
        (0..self.runs.len()).map(difference).collect()
    }

    /// Whether at least half of the runs were set aside.
    fn has_no_majority(&self) -> bool {
        let aside = self.aside.iter().filter(|aside| **aside).count();
        aside >= self.rest().count()
    }

    /// Sets the run aside that differs most and compares all with the rest. Returns whether one differs.
    fn set_aside(&mut self, adjusted: &[f64], band: f64, level: f64) -> bool {
        if self.has_no_majority() {
            return false;
        }
        let differs = |run: usize| {
            let far = self.differences[run].is_some_and(|d| d.mean.abs() > band);
            far && adjusted[run] <= ALPHA
        };
        let distance = |run: &usize| self.differences[*run].map_or(0.0, |d| d.mean.abs());
        let differing = self.rest().map(|(run, _)| run).filter(|r| differs(*r));
        let Some(most) = differing.max_by(|a, b| distance(a).total_cmp(&distance(b))) else {
            return false;
        };
        self.aside[most] = true;
        self.differences = self.compared(level);
        true
    }

    /// p of "it is like one of the rest, or like their mean" for a run that was set aside, and p of its difference for
    /// the others.
    fn p_of_odd(&self, run: usize, level: f64) -> Option<f64> {
        let (own, from_rest) = (self.runs[run]?, self.differences[run]?);
        if !self.aside[run] {
            return Some(from_rest.p);
        }
        let each = self.rest().map(|(_, other)| own.minus(other, level));
        let each = each.map(|d| {
            let same_side = (d.mean > 0.0) == (from_rest.mean > 0.0);
            if same_side { d.p } else { 1.0 }
        });
        Some(each.fold(from_rest.p, f64::max))
    }

    /// Whether runs were set aside that are not all shown to be odd.
    fn is_split(&self, adjusted: &[f64]) -> bool {
        let means = || self.rest().map(|(_, e)| e.mean);
        let low = means().fold(f64::INFINITY, f64::min);
        let high = means().fold(f64::NEG_INFINITY, f64::max);
        let is_odd = |run: usize| {
            let far = self.differences[run].is_some_and(|d| d.mean.abs() > high - low);
            far && adjusted[run] <= ALPHA
        };
        let mut aside = (0..self.runs.len())
            .filter(|run| self.aside[*run])
            .peekable();
        aside.peek().is_some() && (self.has_no_majority() || !aside.all(is_odd))
    }

    /// The words of all runs, by the corrected p of [`p_of_odd`](Self::p_of_odd). Split runs have that of the comparison
    /// with all others.
    fn oddness(&self, of_odd: &[f64], from_all: &[f64], band: f64) -> Vec<Option<AmongRuns>> {
        let split = self.is_split(of_odd);
        let (differences, adjusted, rest) = if split {
            (&self.from_all, from_all, self.runs.iter().flatten().count())
        } else {
            (&self.differences, of_odd, self.rest().count())
        };
        let oddness_of = |run: usize| {
            let d = differences[run]?;
            let within = |i: Interval| band > 0.0 && i.low >= -band && i.high <= band;
            let is_odd = self.aside[run] && !split;
            let oddness = if split {
                Oddness::Split
            } else if is_odd {
                Oddness::Odd
            } else if d.interval.is_some_and(within) {
                Oddness::Like
            } else {
                Oddness::Unknown
            };
            Some(AmongRuns {
                oddness,
                ratio: d.mean.exp(),
                interval: d.interval.map(|i| i.exp()),
                p_adjusted: adjusted[run],
                others: rest - usize::from(!is_odd),
            })
        };
        (0..self.runs.len()).map(oddness_of).collect()
    }
}

/// p of each run in each cell after Holm's correction over all of them.
fn adjusted(cells: &[OneCell], p: impl Fn(&OneCell, usize) -> Option<f64>) -> Vec<Vec<f64>> {
    let of_cell = |cell: &OneCell| (0..cell.runs.len()).map(|run| p(cell, run)).collect();
    let all: Vec<Vec<Option<f64>>> = cells.iter().map(of_cell).collect();
    let known: Vec<f64> = all.iter().flatten().flatten().copied().collect();
    let mut corrected = holm(&known).into_iter();
    let mut next = |p: &Option<f64>| p.and_then(|_| corrected.next()).unwrap_or(1.0);
    all.iter()
        .map(|cell| cell.iter().map(&mut next).collect())
        .collect()
}

/// The mean of independent means.
fn mean_of(runs: &[&Estimate]) -> Option<Estimate> {
    let first = runs.first()?;
    let share = 1.0 / runs.len() as f64;
    let errors = || runs.iter().map(|e| ((e.error * share).powi(2), e.df));
    let variance: f64 = errors().map(|(v, _)| v).sum();
    let shares: f64 = errors().map(|(v, df)| v.powi(2) / df).sum();
    Some(Estimate {
        n: runs.iter().map(|e| e.n).sum(),
        mean: runs.iter().map(|e| e.mean).sum::<f64>() * share,
        error: variance.sqrt(),
        df: if shares > 0.0 {
            variance.powi(2) / shares
        } else {
            first.df
        },
        ..**first
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOISE: [f64; 9] = [0.01, -0.02, 0.015, 0.0, -0.01, 0.02, -0.015, 0.005, -0.005];

    /// A run at this ratio in three sessions, its noise rotated so that no two runs are the same.
    fn run(ratio: f64, by: usize) -> Vec<(u32, f64)> {
        let noise = (0..9).map(|i| NOISE[(i + by) % 9]);
        noise
            .zip(0..)
            .map(|(d, i)| (i / 3, ratio.ln() + d))
            .collect()
    }

    fn cell(ratios: &[f64]) -> Vec<Vec<(u32, f64)>> {
        ratios.iter().zip(0..).map(|(r, by)| run(*r, by)).collect()
    }

    fn oddness(ratios: &[f64]) -> Vec<Oddness> {
        let found = odd_runs(&[cell(ratios)], 0.05, 0.95).remove(0);
        found.iter().map(|a| a.expect("nine").oddness).collect()
    }

    #[test]
    fn the_odd_one_is_named_and_the_others_are_alike_without_it() {
        use Oddness::{Like, Odd};
        assert_eq!(oddness(&[2.0; 5]), [Like; 5]);
        assert_eq!(oddness(&[2.0, 2.6, 2.0]), [Like, Odd, Like]);
        assert_eq!(
            oddness(&[2.0, 1.4, 2.0, 2.0, 2.0]),
            [Like, Odd, Like, Like, Like]
        );
        // Two of five in the same direction shift the mean of the others, and are found all the same.
        assert_eq!(
            oddness(&[2.6, 2.0, 2.0, 2.6, 2.0]),
            [Odd, Like, Like, Odd, Like]
        );
        let found = odd_runs(&[cell(&[2.0, 2.6, 2.0])], 0.05, 0.95).remove(0);
        let odd = found[1].unwrap();
        assert!((odd.ratio - 1.3).abs() < 0.02 && odd.p_adjusted < 0.001);
        assert!(odd.interval.unwrap().contains(1.3), "{odd:?}");
        let others: Vec<usize> = found.iter().map(|a| a.unwrap().others).collect();
        assert_eq!(others, [1, 2, 1]);
    }

    #[test]
    fn where_none_differs_from_all_others_none_is_odd() {
        use Oddness::Split;
        assert_eq!(oddness(&[2.0, 2.6, 3.4]), [Split; 3]);
        assert_eq!(oddness(&[2.0, 2.0, 2.6, 2.6]), [Split; 4]);
        // The ends of a range are far from the mean of the others, and no farther than these are from each other.
        assert_eq!(oddness(&[2.0, 2.2, 2.4, 2.6, 2.8, 3.0, 3.2]), [Split; 7]);
        // The middle one of three is the mean of both others, and its p says so as its ratio does.
        let found = odd_runs(&[cell(&[2.0, 2.6, 3.38])], 0.05, 0.95).remove(0);
        let middle = found[1].unwrap();
        assert_eq!((middle.oddness, middle.others), (Split, 2));
        assert!((middle.ratio - 1.0).abs() < 0.02, "{middle:?}");
        assert!(middle.p_adjusted > 0.05, "{middle:?}");
        for end in [0, 2] {
            assert!(found[end].unwrap().p_adjusted < 0.001, "{found:?}");
        }
    }

    #[test]
    fn a_difference_below_delta_makes_no_run_odd() {
        let found = oddness(&[2.0, 2.06, 2.0, 2.0]);
        assert!(!found.contains(&Oddness::Odd), "{found:?}");
        assert_ne!(found[1], Oddness::Split);
    }

    #[test]
    fn what_cannot_be_compared_has_no_word() {
        let mut two = cell(&[2.0, 2.6, 2.0]);
        two[1].clear();
        assert_eq!(odd_runs(&[two], 0.05, 0.95)[0], [None, None, None]);
        let mut few = cell(&[2.0, 2.0, 2.0, 2.6]);
        few[3].truncate(2);
        let found = odd_runs(&[few], 0.05, 0.95).remove(0);
        assert!(found[3].is_none() && found[0].unwrap().others == 2);
        let mut bad = cell(&[2.0; 3]);
        bad[0][0].1 = f64::NAN;
        assert_eq!(odd_runs(&[bad], 0.05, 0.95)[0], [None, None, None]);
        assert!(odd_runs::<BlockValue>(&[], 0.05, 0.95).is_empty());
    }

    #[test]
    fn noise_that_is_wider_than_delta_decides_nothing() {
        let wide = |by: usize| -> Vec<(u32, f64)> {
            run(1.0, by)
                .into_iter()
                .map(|(s, d)| (s, d * 20.0))
                .collect()
        };
        let found = odd_runs(&[vec![wide(0), wide(2), wide(5)]], 0.05, 0.95).remove(0);
        assert!(
            found.iter().all(|a| a.unwrap().oddness == Oddness::Unknown),
            "{found:?}"
        );
        // With a senseless delta nothing is alike.
        for delta in [0.0, -1.0, f64::NAN] {
            let found = odd_runs(&[cell(&[2.0; 3])], delta, 0.95).remove(0);
            let none = found.iter().all(|a| a.unwrap().oddness == Oddness::Unknown);
            assert!(none, "{found:?}");
        }
    }
}
