//! Which stalls ten blocks can see, and how rarely one is made up. Seeded: the figures are always these.

use std::fmt::Write;

use layermark_stats::{self as stats, Pair, Round};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Cells of a default report.
const REPORT: u32 = 124;
/// Cells simulated of each kind.
const CELLS: u32 = 100;
const BLOCKS: u32 = 10;
/// Rounds of a block: 50 ms a layer in turns of 2 ms.
const ROUNDS: usize = 25;
/// Operations of a turn natively: commits, and small files.
const OPERATIONS: [f64; 2] = [4.0, 40.0];
/// A stall in one of so many operations.
const ONE_IN: [f64; 4] = [20.0, 50.0, 200.0, 1_000.0];
/// A stall takes so many times as long as an operation.
const LONG: [f64; 4] = [5.0, 40.0, 200.0, 1_000.0];
/// Standard deviation of a block's ratio, in turn over the cells.
const NOISE: [f64; 4] = [0.01, 0.02, 0.04, 0.08];
/// True typical ratio where one side stalls. Where both do it is 1, as the average is then.
const RATIO: f64 = 1.3;

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// How often and how long one side stalls.
#[derive(Clone, Copy)]
struct Stalls {
    share: f64,
    long: f64,
    /// Operations of a turn natively.
    operations: f64,
}

/// Time and operations of a turn, which ends with the operation in which its time is over. An operation
/// takes `usual`, a stall `long` times what one takes natively.
fn turn(rng: &mut ChaCha8Rng, usual: f64, stalls: Stalls) -> [f64; 2] {
    let (mut time, mut operations) = (0.0, 0.0);
    while time < stalls.operations - 0.5 {
        time += usual * (0.2 * normal(rng)).exp();
        if rng.random::<f64>() < stalls.share {
            time += stalls.long - 1.0;
        }
        operations += 1.0;
    }
    [time, operations]
}

/// Whether a cell is flagged.
fn flagged(rng: &mut ChaCha8Rng, at: u32, [layer, native]: [Stalls; 2]) -> bool {
    let alike = layer.share.total_cmp(&native.share).is_eq();
    let ratio = if alike { 1.0 } else { RATIO };
    let block = |rng: &mut ChaCha8Rng, block: u32| {
        let ratio = ratio * (NOISE[at as usize % 4] * normal(rng)).exp();
        let rounds = (0..ROUNDS).map(|_| {
            let usual = (0.1 * normal(rng)).exp();
            Round {
                layer: turn(rng, usual * ratio, layer),
                native: turn(rng, usual, native),
            }
        });
        (block * 3 / BLOCKS, rounds.collect())
    };
    let blocks: Vec<(u32, Vec<Round>)> = (0..BLOCKS).map(|b| block(rng, b)).collect();
    let pair = |((session, rounds), block): (&(u32, Vec<Round>), u32)| {
        let cost = |of: [f64; 2]| of[0] / of[1];
        let costs = rounds.iter().map(|r| [cost(r.layer), cost(r.native)]);
        Pair::of_rounds((*session, block), &costs.collect::<Vec<_>>(), &[])
    };
    let pairs: Vec<Pair> = blocks.iter().zip(0..).map(pair).collect();
    let typical = stats::compare(&pairs, 0.95, 1);
    stats::average(&blocks, typical.as_ref(), 0.95, 1).is_some_and(|a| a.stalls)
}

/// Of a hundred cells, those that are flagged.
fn share(rng: &mut ChaCha8Rng, sides: [Stalls; 2]) -> f64 {
    let flagged = (0..CELLS).filter(|at| flagged(rng, *at, sides)).count();
    100.0 * flagged as f64 / f64::from(CELLS)
}

const MANUAL: &str = include_str!("../../../docs/src/method.md");

#[test]
fn ten_blocks_see_what_the_manual_says_and_make_nothing_up() {
    let mut rng = ChaCha8Rng::seed_from_u64(25);
    let (mut table, mut lacks) = (String::new(), String::new());
    let mut made_up = Vec::new();
    for operations in OPERATIONS {
        let stalls = |one_in: f64, long| Stalls {
            share: 1.0 / one_in,
            long,
            operations,
        };
        let none = stalls(f64::INFINITY, 1.0);
        made_up.push(share(&mut rng, [none, none]));
        for one_in in ONE_IN {
            let all = f64::from(BLOCKS) * ROUNDS as f64 * operations;
            let mut row = format!("| {all} | 1 in {one_in} |");
            for long in LONG {
                let stalls = stalls(one_in, long);
                let layer = share(&mut rng, [stalls, none]);
                let native = share(&mut rng, [none, stalls]);
                write!(row, " {layer:.0}, {native:.0} |").expect("a string");
                made_up.push(share(&mut rng, [stalls, stalls]));
            }
            writeln!(table, "{row}").expect("a string");
            if !MANUAL.contains(&row) {
                writeln!(lacks, "{row}").expect("a string");
            }
        }
    }
    let a_report = made_up.iter().sum::<f64>() / made_up.len() as f64 / 100.0 * f64::from(REPORT);
    println!("{table}made up in a report of {REPORT}: {a_report:.2}; {made_up:?}");
    assert!(a_report < 1.0, "{a_report}: {made_up:?}");
    assert!(
        lacks.is_empty(),
        "the manual's table lacks:\n{lacks}\n{made_up:?}"
    );
}
