//! Blocks of unequal numbers of rounds count alike: whether intervals hold the truth, and what weights would gain.

use layermark_stats as stats;
use layermark_stats::Pair;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RUNS: u32 = 2_000;
const TRUTH: [f64; 3] = [1.0, 1.0, 1.08];
/// Standard deviation of a turn's logarithm.
const TURN: f64 = 0.05;

/// Skewed, with mean 0 and standard deviation 1.
fn draw(rng: &mut ChaCha8Rng) -> f64 {
    -(1.0 - rng.random::<f64>()).ln() - 1.0
}

/// Rounds of eight short blocks, and of `more` later ones.
fn rounds(more: usize, later: u32) -> Vec<u32> {
    let mut all = vec![13; 8];
    all.resize(8 + more, later);
    all
}

/// Share of intervals that hold the truth, and the variance of the estimate over that with the best weights.
fn simulate(rounds: &[u32], block: f64) -> (f64, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(56);
    let (mut held, mut squares) = (0, 0.0);
    for run in 0..RUNS {
        let mut cells: [Vec<Pair>; 3] = Default::default();
        for (at, rounds) in rounds.iter().enumerate() {
            let own = [0; 4].map(|_| block * draw(&mut rng));
            let mut turns: [Vec<[f64; 2]>; 3] = Default::default();
            for _ in 0..*rounds {
                let costs = own.map(|own| (own + TURN * draw(&mut rng)).exp());
                for ((turns, cost), truth) in turns.iter_mut().zip(&costs[1..]).zip(TRUTH) {
                    turns.push([truth * cost, costs[0]]);
                }
            }
            for (cell, turns) in cells.iter_mut().zip(&turns) {
                cell.push(Pair::of_rounds((0, at as u32), turns, &[]));
            }
        }
        let found = stats::compare_all(&cells.map(Into::into), 0.95, u64::from(run));
        for (c, truth) in found.into_iter().flatten().zip(TRUTH) {
            let interval = c.ratio_interval.expect("blocks").ln();
            held += u32::from(interval.contains(truth.ln()));
            squares += (c.ratio / truth).ln().powi(2);
        }
    }
    let variance = squares / f64::from(3 * RUNS);
    let best = rounds
        .iter()
        .map(|r| 0.5 / (block * block + TURN * TURN / f64::from(*r)));
    (
        f64::from(held) / f64::from(3 * RUNS),
        variance * best.sum::<f64>(),
    )
}

#[test]
fn blocks_of_unequal_length_have_intervals_that_hold_the_truth() {
    for (block, more, later) in [(0.0, 4, 25), (0.0, 12, 25), (0.01, 4, 25), (0.03, 8, 8)] {
        let (held, unequal) = simulate(&rounds(more, later), block);
        let (_, equal) = simulate(&vec![18; 8 + more], block);
        println!(
            "block {block}, 8 of 13 rounds and {more} of {later}: {:.1} %, {unequal:.2} ({equal:.2} of equal blocks)",
            100.0 * held
        );
        assert!((0.93..=0.97).contains(&held), "{held}");
        // Trimming costs some of it in any case.
        assert!(unequal < 1.15 * equal, "{unequal} {equal}");
    }
}
