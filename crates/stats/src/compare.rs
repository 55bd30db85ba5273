//! Layers against native: the paired comparisons of a report. Also a run against another one.

use crate::{
    BlockValue, Cell, Estimate, Interval, MIN_VALUES, Pair, change_points_of_many, estimate,
    estimate::{Between, estimate_with, typical},
    outliers, segments,
};

/// Fewest blocks for which change points of a comparison are looked for.
///
/// Segments have at least five values. Ten values can be cut in one place, and their halves filled
/// in 126 ways, so the smallest possible p (1/126) hardly passes p < 0.01. Below fifteen, a step of
/// the usual noise is found only by luck, while each look adds a chance of a false alarm.
pub const MIN_BLOCKS_FOR_CHANGE: usize = 15;

/// The comparison of one layer with native at one point, over all blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Blocks compared.
    pub n: usize,
    /// Equivalent number of independent blocks: n, or less if sessions differ.
    pub effective_n: f64,
    /// Cost in the layer over native cost, no unit: above 1 is slower.
    pub ratio: f64,
    /// Interval of `ratio`; `None` if n is too small.
    pub ratio_interval: Option<Interval>,
    /// Native's typical cost in the same blocks, in the unit of the pairs. The layer's is `cost` times
    /// `ratio`.
    pub cost: f64,
    /// Native's cost times (ratio - 1), in the unit of the pairs.
    pub diff: f64,
    /// The interval of `diff`, from the ends of `ratio_interval`: it contains 0 exactly if that
    /// contains 1.
    pub diff_interval: Option<Interval>,
    /// Two-sided p of "the layer costs the same as native", before any correction, from the same t
    /// as the interval.
    pub p: f64,
    /// Where the ratio changes, as indexes into the pairs in time order.
    pub change_points: Vec<usize>,
    /// False if the ratio changes late in the run, so that no single number describes it.
    pub steady: bool,
    /// Median ratio of each segment between change points, in time order; a single one without
    /// change points.
    pub levels: Vec<f64>,
    /// Blocks whose log ratio is an outlier. All numbers include them.
    pub outliers: usize,
}

/// Compares one layer with native at one point; see [`compare_all`].
pub fn compare(pairs: &[Pair], level: f64, seed: u64) -> Option<Comparison> {
    compare_all(&[pairs.to_vec().into()], level, seed).remove(0)
}

/// Compares layers with native, block by block. Each cell's pairs are sorted into time order (session,
/// then block). All cells of a report belong in one call: those of an operation share their variances (see
/// [`estimate`]), and all have one correction for change points.
///
/// * Change points are those of the ratio, from [`MIN_BLOCKS_FOR_CHANGE`] blocks on. A change is late
///   unless it lies in the first fifth. There it counts as warm-up, which the trimmed mean tolerates.
///
/// `None` without pairs, or if a value is not finite or not above 0: a comparison with an invalid trial
/// is refused, not repaired. Also `None` if the ratio exceeds the range of `f64`. Deterministic for a
/// `seed`, which affects only permutations.
pub fn compare_all(cells: &[Cell<Pair>], level: f64, seed: u64) -> Vec<Option<Comparison>> {
    let ordered: Vec<Cell<Pair>> = cells.iter().map(usable).collect();
    let long = |c: &Cell<Pair>| c.blocks.len() >= MIN_BLOCKS_FOR_CHANGE;
    let ratios: Vec<Vec<f64>> = ordered
        .iter()
        .filter(|c| long(c))
        .map(|c| ratios(&c.blocks))
        .collect();
    let mut changes = change_points_of_many(&ratios, seed).into_iter();
    let estimates = estimate_pairs(&ordered, level);
    ordered
        .iter()
        .zip(estimates)
        .map(|(cell, estimate)| {
            let changes = if long(cell) {
                changes.next()?
            } else {
                Vec::new()
            };
            comparison(&cell.blocks, &estimate?, changes)
        })
        .collect()
}

/// The statistic of every cell, without the slow parts: outliers, and steps in the series.
///
/// Cells without the control's turns have more noise than those with them, so those of one operation are apart. What all
/// cells share is estimated for them from all cells without these turns: with less, their intervals would be too narrow,
/// and the control's alarm false more often.
pub fn estimate_pairs(cells: &[Cell<Pair>], level: f64) -> Vec<Option<Estimate>> {
    let has_control = |cell: &Cell<Pair>| cell.blocks.iter().any(Pair::has_control);
    let estimates = |of: fn(&Pair) -> BlockValue| {
        let values = |cell: &Cell<Pair>| Cell {
            operation: 2 * cell.operation + usize::from(has_control(cell)),
            blocks: cell.blocks.iter().map(of).collect(),
        };
        estimate(&cells.iter().map(values).collect::<Vec<_>>(), level)
    };
    let mut all = estimates(Pair::value);
    if cells.iter().any(has_control) && !cells.iter().all(has_control) {
        let alone = estimates(|pair| pair.without_control().value());
        for ((of, alone), cell) in all.iter_mut().zip(alone).zip(cells) {
            if !has_control(cell) {
                *of = alone;
            }
        }
    }
    all
}

/// Fewest blocks for an interval and a verdict.
pub const MIN_BLOCKS: usize = MIN_VALUES;

fn usable(cell: &Cell<Pair>) -> Cell<Pair> {
    let good = |x: f64| x.is_finite() && x > 0.0;
    let good = |p: &Pair| good(p.layer) && good(p.native) && p.ln_ratio().is_finite();
    let mut ordered = cell.clone();
    if !ordered.blocks.iter().all(good) {
        ordered.blocks.clear();
    }
    ordered.blocks.sort_by_key(|p| (p.session, p.block));
    ordered
}

fn ratios(pairs: &[Pair]) -> Vec<f64> {
    pairs.iter().map(|p| p.ln_ratio().exp()).collect()
}

fn comparison(pairs: &[Pair], e: &Estimate, changes: Vec<usize>) -> Option<Comparison> {
    let costs: Vec<[f64; 2]> = pairs.iter().map(|p| [p.layer, p.native]).collect();
    let [_, native] = typical(&costs, e.mean);
    let logs: Vec<f64> = pairs.iter().map(Pair::ln_ratio).collect();
    Some(Comparison {
        steady: changes.iter().all(|&at| 5 * at <= e.n),
        levels: segments(&ratios(pairs), &changes)
            .iter()
            .map(|s| s.median)
            .collect(),
        change_points: changes,
        outliers: outliers(&logs).len(),
        ..plain_comparison(e, native)?
    })
}

/// An estimate as ratio and difference, where `cost` is the cost that the ratio refers to. Steady,
/// with one level.
fn plain_comparison(e: &Estimate, cost: f64) -> Option<Comparison> {
    let ratio = e.mean.exp();
    let diff = cost * e.mean.exp_m1();
    if !ratio.is_normal() || !diff.is_finite() {
        return None;
    }
    let finite = |i: &Interval| i.exp().high.is_finite();
    let interval = e.interval.filter(finite);
    Some(Comparison {
        n: e.n,
        effective_n: e.effective_n,
        ratio,
        ratio_interval: interval.map(|i| i.exp()),
        cost,
        diff,
        diff_interval: interval.map(|i| Interval {
            low: cost * i.low.exp_m1(),
            high: cost * i.high.exp_m1(),
        }),
        p: e.p,
        change_points: Vec::new(),
        steady: true,
        levels: vec![ratio],
        outliers: 0,
    })
}

/// A cell in two runs. Their blocks are not pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoRuns {
    /// Each block of the old run.
    pub old: Vec<BlockValue>,
    /// The same for the new run.
    pub new: Vec<BlockValue>,
    /// Cost in the old run, in the unit of the difference.
    pub cost: f64,
    /// Whether one number describes each of the runs.
    pub steady: bool,
}

/// Compares the cells of two runs, new over old, with the statistic of [`compare_all`] for two
/// independent samples. Cells of a run share their variances. Sessions always count as the unit,
/// because differences between setups are also differences between runs.
pub fn compare_runs(cells: &[TwoRuns], level: f64) -> Vec<Option<Comparison>> {
    let of = |values: fn(&TwoRuns) -> &Vec<BlockValue>| {
        let values: Vec<_> = cells.iter().map(|c| values(c).clone().into()).collect();
        estimate_with(&values, Between::Always, level)
    };
    let both = of(|c| &c.old).into_iter().zip(of(|c| &c.new));
    let compared = cells.iter().zip(both).map(|(cell, (old, new))| {
        let comparison = plain_comparison(&new?.minus(&old?, level), cell.cost)?;
        Some(Comparison {
            steady: cell.steady,
            // A cell that changes within a run has no level to compare.
            levels: vec![if cell.steady { comparison.ratio } else { 1.0 }],
            ..comparison
        })
    });
    compared.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ratios: &[f64]) -> Vec<Pair> {
        ratios
            .iter()
            .zip(0..)
            .map(|(r, block)| Pair::new((block / 8, block), 100.0 * r, 100.0))
            .collect()
    }

    #[test]
    fn a_cell_without_the_controls_turns_shares_the_noise_of_cells_without_them() {
        // The control's side halves what blocks vary by.
        let swing = |block: u32| 0.1 * f64::from(block % 3) - 0.05 * f64::from(block % 2);
        let pair = |block: u32, control: bool| {
            let d = swing(block);
            Pair {
                ln_ratios: if control { [d, -d] } else { [d; 2] },
                ..Pair::new((0, block), 100.0, 100.0)
            }
        };
        let cell = |control| (0..9).map(|block| pair(block, control)).collect::<Vec<_>>();
        let of = |cells: &[Vec<Pair>]| {
            let cells: Vec<Cell<Pair>> = cells.iter().cloned().map(Cell::from).collect();
            estimate_pairs(&cells, 0.95)
        };
        let mixed = of(&[cell(true), cell(true), cell(false)]);
        let alone = of(&vec![cell(false); 3]);
        assert_eq!(mixed[2], alone[2]);
        let both = of(&vec![cell(true); 2]);
        assert!(both[0].as_ref().unwrap().error < alone[0].as_ref().unwrap().error);
    }

    #[test]
    fn a_constant_ratio_is_itself() {
        let c = compare(&pairs(&[1.25; 8]), 0.95, 1).expect("eight pairs");
        assert!((c.ratio - 1.25).abs() < 1e-12 && (c.diff - 25.0).abs() < 1e-9);
        assert!(c.ratio_interval.is_some_and(|i| i.width().abs() < 1e-12));
        assert!(c.steady && c.outliers == 0 && c.n == 8);
        assert!(c.p < 0.05);
    }

    #[test]
    fn a_difference_is_never_more_than_all_of_natives_time() {
        // The case of tmpfs: once reported as -149 us of native's 130 us, because the two were
        // estimated separately.
        let native = [130.0, 90.0, 420.0, 110.0, 500.0, 120.0, 95.0, 610.0];
        let pairs = native.iter().zip(0..);
        let pairs: Vec<Pair> = pairs
            .map(|(n, block)| Pair::new((0, block), 2.0, *n))
            .collect();
        let c = compare(&pairs, 0.95, 1).unwrap();
        let native = c.diff / (c.ratio - 1.0);
        assert!((90.0..610.0).contains(&native) && c.diff > -native);
        let (r, d) = (c.ratio_interval.unwrap(), c.diff_interval.unwrap());
        assert!((d.low - native * (r.low - 1.0)).abs() < 1e-9 && d.high < 0.0 && r.high < 1.0);
    }

    #[test]
    fn stalls_on_one_side_leave_times_that_have_the_ratio() {
        // Natively the first of ten rounds of each block takes 40 times as long. Once reported as
        // +1.23 ms of 1.06 ms, because native's time had the stalls and the ratio had not.
        let block = |block: u32| {
            let level = 1.0 + f64::from(block % 3) / 2.0;
            let native = |round| if round == 0 { 40.0 } else { 1.0 };
            let round = |n| [980.0 * level, 10.0 * level * native(n)];
            Pair::of_rounds((0, block), &(0..10).map(round).collect::<Vec<_>>(), &[])
        };
        let pairs: Vec<Pair> = (0..9).map(block).collect();
        for p in &pairs {
            assert!(
                (p.layer / p.native - 98.0).abs() < 1e-9
                    && (p.ln_ratio().exp() - 98.0).abs() < 1e-9
            );
        }
        let c = compare(&pairs, 0.95, 1).unwrap();
        assert!(
            (c.ratio - 98.0).abs() < 1e-9 && (10.0..20.0).contains(&c.cost),
            "{c:?}"
        );
        assert!((c.diff - 97.0 * c.cost).abs() < 1e-9, "{}", c.diff);
    }

    #[test]
    fn few_pairs_have_no_interval_and_none_no_comparison() {
        let c = compare(&pairs(&[1.1, 1.2]), 0.95, 1).expect("two pairs");
        assert!(c.ratio_interval.is_none() && c.diff_interval.is_none());
        assert!(
            compare(&pairs(&[1.1, 1.2, 1.15]), 0.95, 1).is_some_and(|c| c.ratio_interval.is_some())
        );
        assert!(compare(&[], 0.95, 1).is_none());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(compare(&pairs(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, bad]), 0.95, 1).is_none());
        }
    }

    #[test]
    fn order_of_the_pairs_does_not_matter() {
        let mut p = pairs(&[1.1, 0.9, 1.2, 1.0, 1.3, 1.05, 0.95]);
        let forward = compare(&p, 0.95, 1);
        p.reverse();
        assert_eq!(forward, compare(&p, 0.95, 1));
    }

    fn step(at: usize, n: usize) -> Vec<Pair> {
        let noise = [0.0, 0.01, -0.01, 0.005, -0.004];
        let ratio = |i: usize| noise[i % 5] + if i < at { 1.5 } else { 1.0 };
        pairs(&(0..n).map(ratio).collect::<Vec<_>>())
    }

    #[test]
    fn a_late_step_means_no_steady_state() {
        let late = compare(&step(12, 24), 0.95, 1).expect("pairs");
        assert_eq!(
            (late.change_points.as_slice(), late.steady),
            (&[12][..], false)
        );
        let early = compare(&step(5, 25), 0.95, 1).expect("pairs");
        assert_eq!(
            (early.change_points.as_slice(), early.steady),
            (&[5][..], true)
        );
        let short = compare(&step(6, 12), 0.95, 1).expect("pairs");
        assert!(short.change_points.is_empty() && short.steady);
    }

    #[test]
    fn a_step_stands_out_among_a_hundred_cells() {
        let mut cells: Vec<Cell<Pair>> = (0..99).map(|_| step(0, 20).into()).collect();
        cells.push(step(10, 20).into());
        let all = compare_all(&cells, 0.95, 1);
        assert!(
            all[..99]
                .iter()
                .flatten()
                .all(|c| c.change_points.is_empty())
        );
        assert_eq!(all[99].as_ref().unwrap().change_points, [10]);
    }

    fn two(old: &[f64], new: &[f64]) -> TwoRuns {
        let of = |d: &[f64]| d.iter().map(|d| (0, *d).into()).collect();
        TwoRuns {
            old: of(old),
            new: of(new),
            cost: 40.0,
            steady: true,
        }
    }

    #[test]
    fn two_runs_are_compared_by_the_means_of_their_blocks() {
        let old = [0.01, -0.01, 0.0, 0.02, -0.02, 0.01, -0.01, 0.0];
        let new = old.map(|d| d + f64::ln(1.25));
        let c = compare_runs(&[two(&old, &new)], 0.95)[0].clone().unwrap();
        assert!((c.ratio - 1.25).abs() < 1e-12 && (c.diff - 10.0).abs() < 1e-9);
        let i = c.ratio_interval.unwrap();
        assert!(i.low > 1.2 && i.high < 1.3 && c.n == 8 && c.steady, "{i:?}");
        let same = compare_runs(&[two(&old, &old)], 0.95)[0].clone().unwrap();
        assert!((same.ratio - 1.0).abs() < 1e-12 && (same.p - 1.0).abs() < 1e-12);
        let few = compare_runs(&[two(&old, &new[..2])], 0.95)[0].clone();
        assert!(few.is_some_and(|c| c.ratio_interval.is_none() && c.n == 2));
        for bad in [f64::NAN, f64::INFINITY] {
            assert!(compare_runs(&[two(&old, &[bad; 8])], 0.95)[0].is_none());
        }
        assert!(compare_runs(&[two(&old, &[])], 0.95)[0].is_none());
    }

    #[test]
    fn a_run_without_a_steady_state_gives_no_word() {
        let old = [0.01, -0.01, 0.0, 0.02, -0.02, 0.01, -0.01, 0.0];
        let unsteady = TwoRuns {
            steady: false,
            ..two(&old, &old.map(|d| d + 1.0))
        };
        let judged = crate::judge(&compare_runs(&[unsteady], 0.95), 0.05);
        assert_eq!(judged[0].verdict, crate::Verdict::Undecided);
    }
}
