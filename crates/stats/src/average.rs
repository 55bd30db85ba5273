//! The average cost of an operation, including stalls, next to its typical cost.

use crate::{Comparison, Interval, bca, median};

/// Number of resamples of blocks, enough for the percentiles of a 95 % interval.
const AVERAGE_RESAMPLES: usize = 999;

/// How far the average must lie from the typical cost to be reported: 10 %.
pub const STALLS_BEYOND: f64 = 0.10;

/// Threshold for stalls: the sum of the rounds' excess over the root of the sum of its squares.
/// Chance alone reaches it in 0.8 of 100 cells, which is less than one cell of a report of 124. A
/// stall seen seven times on one side reaches 2.65, eight times 2.83.
const BEYOND_CHANCE: f64 = 2.66;

/// A round in which both layers had a turn: time (in any one unit) and operations of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Time and operations in the layer.
    pub layer: [f64; 2],
    /// Time and operations natively.
    pub native: [f64; 2],
}

/// The average cost of a layer compared with native's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Average {
    /// Time over operations of all paired turns, layer over native.
    pub ratio: f64,
    /// Native's average: its time over its operations.
    pub native: f64,
    /// Its bootstrap interval over blocks within sessions. `None` with too few blocks (below 6 at
    /// 95 %).
    pub interval: Option<Interval>,
    /// Whether the average differs from the typical cost: see [`average`].
    pub stalls: bool,
}

/// Averages the rounds of a cell's blocks, each with its session.
///
/// A cell has stalls if both hold:
/// * The whole interval of the average lies more than 10 % ([`STALLS_BEYOND`]) off the typical ratio.
/// * This is not due to chance. By chance, a slow operation hits either side. So the excess of a round
///   (time beyond the usual one, in the layer minus natively) has either sign. The sum of the excess
///   over the root of the sum of its squares is then rarely beyond 2.66. This is Hoeffding's bound for
///   signs; `tests/stalls.rs` counts how rarely. A bootstrap of ten blocks does not see this: with the
///   same rare stalls on both sides, it flagged up to 10 of 100 cells.
///
/// Without a steady state the typical ratio is unknown, and nothing is flagged. `None` without rounds, or
/// if a number is not finite or not above 0.
pub fn average(
    blocks: &[(u32, Vec<Round>)],
    typical: Option<&Comparison>,
    level: f64,
    seed: u64,
) -> Option<Average> {
    let rounds = || blocks.iter().flat_map(|(_, rounds)| rounds);
    let usable = |r: &Round| {
        let numbers = [r.layer, r.native].concat();
        numbers.iter().all(|x| x.is_finite() && *x > 0.0)
    };
    if !rounds().all(usable) {
        return None;
    }
    let sums: Vec<Round> = blocks
        .iter()
        .map(|(_, rounds)| sum(rounds.iter()))
        .collect();
    let all = sum(sums.iter());
    let ratio = ratio(&all);
    if !ratio.is_normal() {
        return None;
    }
    let statistic = |drawn: &[f64]| {
        let drawn = drawn.iter().map(|at| &sums[*at as usize]);
        self::ratio(&sum(drawn))
    };
    let interval = bca(
        &by_session(blocks),
        statistic,
        level,
        AVERAGE_RESAMPLES,
        seed,
    );
    let typical = typical.filter(|c| c.steady).map(|c| c.ratio);
    let stalls = typical.zip(interval).is_some_and(|(typical, interval)| {
        let z = beyond_chance(blocks, &all, typical);
        let most = 1.0 + STALLS_BEYOND;
        interval.low > typical * most && z >= BEYOND_CHANCE
            || interval.high < typical / most && z <= -BEYOND_CHANCE
    });
    Some(Average {
        ratio,
        native: all.native[0] / all.native[1],
        interval,
        stalls,
    })
}

fn sum<'a>(rounds: impl Iterator<Item = &'a Round>) -> Round {
    let add = |a: [f64; 2], b: [f64; 2]| [a[0] + b[0], a[1] + b[1]];
    let none = Round {
        layer: [0.0; 2],
        native: [0.0; 2],
    };
    rounds.fold(none, |sum, r| Round {
        layer: add(sum.layer, r.layer),
        native: add(sum.native, r.native),
    })
}

fn ratio(of: &Round) -> f64 {
    of.layer[0] / of.layer[1] / (of.native[0] / of.native[1])
}

/// Indexes of the blocks of each session, for [`bca`] to draw from.
fn by_session(blocks: &[(u32, Vec<Round>)]) -> Vec<Vec<f64>> {
    let mut sessions: Vec<u32> = blocks.iter().map(|(session, _)| *session).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let of = |session: &u32| {
        let own = (0..blocks.len()).filter(|at| blocks[*at].0 == *session);
        own.map(|at| at as f64).collect()
    };
    sessions.iter().map(of).collect()
}

/// Sum of the rounds' excess over the root of the sum of its squares; 0 if there is none.
///
/// The excess is a round's time minus the usual time of its operations in the block. So a stall
/// counts the same wherever in the turn it happened.
fn beyond_chance(blocks: &[(u32, Vec<Round>)], all: &Round, typical: f64) -> f64 {
    let cost = |r: &Round| r.native[0] / r.native[1];
    let (mut sum, mut squares) = (0.0, 0.0);
    for (_, rounds) in blocks {
        let usual = median(&rounds.iter().map(cost).collect::<Vec<_>>()).unwrap_or(0.0);
        for r in rounds {
            let layer = (r.layer[0] - typical * usual * r.layer[1]) / all.layer[1];
            let native = (r.native[0] - usual * r.native[1]) / all.native[1];
            let excess = layer - typical * native;
            sum += excess;
            squares += excess * excess;
        }
    }
    if squares > 0.0 {
        sum / squares.sqrt()
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pair, compare};

    /// Ten blocks of twenty rounds of four operations, which take 1.3 times as long in the layer.
    /// In some rounds of a block operations stall: `in_layer` rounds in the layer, `natively`
    /// rounds in native.
    fn blocks(in_layer: usize, natively: usize, stall: f64) -> Vec<(u32, Vec<Round>)> {
        let round = |n: usize| {
            let noise = 1.0 + 0.01 * (n % 3) as f64;
            let more = |has: bool| if has { stall } else { 0.0 };
            Round {
                layer: [4.0 * 1.3 * noise + more(n < in_layer), 4.0],
                native: [4.0 * noise + more(n >= 20 - natively), 4.0],
            }
        };
        let block = |b: u32| (b / 4, (0..20).map(round).collect());
        (0..10).map(block).collect()
    }

    fn typical(ratio: f64) -> Comparison {
        let pairs: Vec<Pair> = (0..10).map(|b| Pair::new((0, b), ratio, 1.0)).collect();
        compare(&pairs, 0.95, 1).expect("ten pairs")
    }

    #[test]
    fn a_stall_in_each_block_is_in_the_average_and_not_in_the_typical_cost() {
        let found = average(&blocks(1, 0, 40.0), Some(&typical(1.3)), 0.95, 1).expect("rounds");
        // 20 x 4 operations of 1.3 and a stall of 40.
        assert!((found.ratio - (1.3 * 80.0 * 1.0095 + 40.0) / (80.0 * 1.0095)).abs() < 0.01);
        assert!(found.stalls && found.interval.is_some_and(|i| i.contains(found.ratio)));
        let native = average(&blocks(0, 1, 40.0), Some(&typical(1.3)), 0.95, 1).expect("rounds");
        assert!(native.ratio < 1.0 && native.stalls, "{native:?}");
    }

    #[test]
    fn no_stalls_where_both_sides_have_them_or_the_cost_is_even() {
        for (here, there, stall) in [(0, 0, 0.0), (1, 1, 0.5), (2, 2, 1.0)] {
            let found = average(&blocks(here, there, stall), Some(&typical(1.3)), 0.95, 1);
            assert!(found.is_some_and(|a| !a.stalls), "{here} {there} {stall}");
        }
        let mut unsteady = typical(1.3);
        unsteady.steady = false;
        for typical in [None, Some(&unsteady)] {
            let found = average(&blocks(1, 0, 40.0), typical, 0.95, 1);
            assert!(found.is_some_and(|a| !a.stalls && a.ratio > 1.5));
        }
    }

    #[test]
    fn a_stall_in_few_blocks_is_not_flagged() {
        let mut few = blocks(0, 0, 0.0);
        for (_, rounds) in &mut few[..3] {
            rounds[0].layer[0] += 400.0;
        }
        let found = average(&few, Some(&typical(1.3)), 0.95, 1).expect("rounds");
        assert!(found.ratio > 2.0 && !found.stalls, "{found:?}");
    }

    #[test]
    fn bad_input_gives_nothing() {
        assert_eq!(average(&[], None, 0.95, 1), None);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut blocks = blocks(1, 0, 40.0);
            blocks[3].1[2].native[0] = bad;
            assert_eq!(average(&blocks, None, 0.95, 1), None, "{bad}");
        }
        let five = &blocks(1, 0, 40.0)[..5];
        let few = average(five, Some(&typical(1.3)), 0.95, 1).expect("rounds");
        assert!(few.interval.is_none() && !few.stalls);
    }
}
