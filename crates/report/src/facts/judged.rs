//! A comparison as a row has it, with its verdict.

use layermark_model::flags;
use layermark_stats::{self as stats, Interval, Judgement, Pair};

use crate::types::{BlockRatio, Comparison, Estimate, ResultRow, Verdict};

/// A comparison and its verdict. Differences are in nanoseconds. Without a judgement no verdict was requested.
pub fn judged(
    comparison: Option<&stats::Comparison>,
    judgement: Option<&Judgement>,
    under_way: f64,
) -> Comparison {
    let word = judgement.map(|j| j.verdict);
    let missing = stats::MIN_BLOCKS.saturating_sub(comparison.map_or(0, |c| c.n));
    // Without a steady state, no single number is printed.
    let steady = comparison.filter(|c| c.steady);
    let us = |ns: f64| ns * under_way / 1e3;
    Comparison {
        ratio: steady.map(|c| Estimate::new(c.ratio, c.ratio_interval.map(span))),
        extra_us: steady.map(|c| {
            let ends = c.diff_interval.map(|i| [us(i.low), us(i.high)]);
            Estimate::new(us(c.diff), ends)
        }),
        p: comparison.map(|c| c.p),
        p_adjusted: comparison.and(judgement).map(|j| j.p_adjusted),
        verdict: match word {
            None => Verdict::Descriptive,
            Some(stats::Verdict::Same) => Verdict::Same,
            Some(stats::Verdict::Slower) => Verdict::Slower,
            Some(stats::Verdict::Faster) => Verdict::Faster,
            Some(_) => Verdict::Undecided,
        },
        probably: match word {
            Some(stats::Verdict::ProbablySlower) => Some(Verdict::Slower),
            Some(stats::Verdict::ProbablyFaster) => Some(Verdict::Faster),
            _ => None,
        },
        margin: judgement.and_then(|j| j.margin),
        more_blocks: judgement.map(|_| missing).filter(|n| *n > 0),
    }
}

/// Sets a row's comparison and verdict, and what is known of its blocks.
pub fn compare(
    row: &mut ResultRow,
    comparison: Option<&stats::Comparison>,
    judgement: Option<&Judgement>,
    under_way: f64,
) {
    row.compare(judged(comparison, judgement, under_way));
    let Some(c) = comparison else { return };
    row.blocks = c.n;
    row.effective_n = Some(c.effective_n);
    row.steady = Some(c.steady);
    row.change_points.clone_from(&c.change_points);
    row.outliers = c.outliers;
    if !c.steady {
        remark(row, flags::UNSTEADY, 1);
    }
}

pub(super) fn block_ratio(pair: &Pair) -> BlockRatio {
    BlockRatio {
        session: pair.session,
        block: pair.block,
        ratio: pair.ln_ratio().exp(),
        both: pair.has_control().then(|| pair.ln_ratios.map(f64::exp)),
    }
}

pub(super) fn span(i: Interval) -> [f64; 2] {
    [i.low, i.high]
}

pub(super) fn remark(row: &mut ResultRow, flag: &str, n: usize) {
    *row.flag_counts.entry(flag.to_owned()).or_default() += n;
    row.flags = row.flag_counts.keys().cloned().collect();
}
