//! How often a run is called odd that is not, and how often the odd one is named. Seeded: the figures are always these.

use std::fmt::Write;

use layermark_stats::{Oddness, odd_runs};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Standard deviation of one block, in turn over the cells: memory to synced writes.
const NOISE: [f64; 4] = [0.01, 0.02, 0.04, 0.08];
/// Points of the default plan in two layers.
const CELLS: usize = 28;
/// Blocks of a run, in three sessions.
const BLOCKS: u32 = 12;
const MADE: u32 = 200;

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// What is planted: a share more in the last run, at every `nth` cell.
struct Planted {
    name: &'static str,
    more: f64,
    nth: usize,
    /// Standard deviation between sessions.
    between: f64,
}

/// How much is measured.
#[derive(Clone, Copy)]
struct Size {
    cells: usize,
    blocks: u32,
}

/// A run of the default plan.
const RUN: Size = Size {
    cells: CELLS,
    blocks: BLOCKS,
};

fn cell(
    rng: &mut ChaCha8Rng,
    (at, blocks): (usize, u32),
    runs: usize,
    planted: &Planted,
) -> Vec<Vec<(u32, f64)>> {
    let mut one = |run: usize| {
        let odd = run + 1 == runs && at.is_multiple_of(planted.nth);
        let shift = if odd { planted.more.ln_1p() } else { 0.0 };
        let sessions = [0; 3].map(|_| planted.between * normal(rng));
        let block = |block: u32| {
            let session = block * 3 / blocks;
            let noise = NOISE[at % 4] * normal(rng);
            (session, shift + sessions[session as usize] + noise)
        };
        (0..blocks).map(block).collect()
    };
    (0..runs).map(&mut one).collect()
}

/// Of [`MADE`] comparisons of so many runs: those that call a run odd that is not, and those that name the odd one
/// somewhere.
fn counts(runs: usize, size: Size, planted: &Planted) -> (u32, u32) {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let (mut wrong, mut named) = (0, 0);
    for _ in 0..MADE {
        let cells: Vec<_> = (0..size.cells)
            .map(|at| cell(&mut rng, (at, size.blocks), runs, planted))
            .collect();
        let found = odd_runs(&cells, 0.05, 0.95);
        let is_odd = |at: usize, run: usize| {
            found[at][run].is_some_and(|among| among.oddness == Oddness::Odd)
        };
        let is_planted = |at: usize, run: usize| {
            planted.more > 0.0 && run + 1 == runs && at.is_multiple_of(planted.nth)
        };
        let all = || (0..size.cells).flat_map(|at| (0..runs).map(move |run| (at, run)));
        wrong += u32::from(all().any(|(at, run)| is_odd(at, run) && !is_planted(at, run)));
        named += u32::from(all().any(|(at, run)| is_odd(at, run) && is_planted(at, run)));
    }
    (wrong, named)
}

const PLANTED: [Planted; 5] = [
    Planted {
        name: "alike",
        more: 0.0,
        nth: 1,
        between: 0.0,
    },
    Planted {
        name: "alike, sessions 5 %",
        more: 0.0,
        nth: 1,
        between: 0.05,
    },
    Planted {
        name: "+10 % everywhere",
        more: 0.10,
        nth: 1,
        between: 0.0,
    },
    Planted {
        name: "+30 % at one point",
        more: 0.30,
        nth: CELLS,
        between: 0.0,
    },
    Planted {
        name: "+30 % everywhere, sessions 5 %",
        more: 0.30,
        nth: 1,
        between: 0.05,
    },
];

/// Of 200 comparisons each: wrong ones, and those that name the odd run.
const GOLDEN: &str = "
3 runs, alike: wrong 1, named 0
5 runs, alike: wrong 0, named 0
8 runs, alike: wrong 0, named 0
3 runs, alike, sessions 5 %: wrong 0, named 0
5 runs, alike, sessions 5 %: wrong 0, named 0
8 runs, alike, sessions 5 %: wrong 0, named 0
3 runs, +10 % everywhere: wrong 0, named 200
5 runs, +10 % everywhere: wrong 0, named 200
8 runs, +10 % everywhere: wrong 0, named 200
3 runs, +30 % at one point: wrong 1, named 200
5 runs, +30 % at one point: wrong 0, named 200
8 runs, +30 % at one point: wrong 0, named 200
3 runs, +30 % everywhere, sessions 5 %: wrong 0, named 200
5 runs, +30 % everywhere, sessions 5 %: wrong 0, named 200
8 runs, +30 % everywhere, sessions 5 %: wrong 0, named 188
";

#[test]
fn the_odd_run_is_found_and_none_is_made_up() {
    let mut table = String::new();
    for planted in &PLANTED {
        for runs in [3, 5, 8] {
            let (wrong, named) = counts(runs, RUN, planted);
            writeln!(
                table,
                "{runs} runs, {}: wrong {wrong}, named {named}",
                planted.name
            )
            .expect("a string");
            // One in twenty, and three standard deviations of so few.
            assert!(wrong <= MADE / 20 + 9, "{table}");
        }
    }
    assert_eq!(table.trim(), GOLDEN.trim(), "the new table:\n{table}");
}

/// Of 200 checks of three hosts each.
const CHECKS: &str = "
6 blocks, clean: wrong 1, named 0
6 blocks, +10 %: wrong 3, named 200
12 blocks, clean: wrong 1, named 0
12 blocks, +10 %: wrong 2, named 200
15 blocks, clean: wrong 0, named 0
15 blocks, +10 %: wrong 2, named 200
";

/// `fleet check` of three hosts: the everyday operations of the card that take turns, in at least six blocks of three
/// sessions, with noise from 1 % (memory) to 8 % (synced writes) in a block, and 1 % between sessions. Of 200 checks each:
/// those that name a host that is not slow, and those that name the slow one.
#[test]
fn a_host_that_is_ten_percent_slower_is_named_in_nineteen_of_twenty_checks() {
    let clean = Planted {
        name: "clean",
        more: 0.0,
        nth: 1,
        between: 0.01,
    };
    let slower = Planted {
        name: "+10 %",
        more: 0.10,
        ..clean
    };
    let mut table = String::new();
    for blocks in [6, 12, 15] {
        let size = Size { cells: 10, blocks };
        for planted in [&clean, &slower] {
            let (wrong, named) = counts(3, size, planted);
            let name = planted.name;
            writeln!(
                table,
                "{blocks} blocks, {name}: wrong {wrong}, named {named}"
            )
            .expect("a string");
            // One in twenty, and three standard deviations of so few.
            assert!(wrong <= MADE / 20 + 9, "{table}");
            if planted.more > 0.0 {
                assert!(named >= MADE * 19 / 20, "{table}");
            }
        }
    }
    assert_eq!(table.trim(), CHECKS.trim(), "the new table:\n{table}");
}
