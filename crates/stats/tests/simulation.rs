//! The whole rule in simulated reports: how often intervals hold the truth, words are wrong,
//! differences are found, and a second run says the same. Seeded: the figures are always these.

use std::fmt::Write;

use layermark_stats as stats;
use layermark_stats::{Cell, Pair, Verdict};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Comparisons of a report: the default card in eleven layers has about so many.
const CELLS: usize = 124;

/// True differences, in turn over the cells.
const EFFECTS: [f64; 9] = [0.0, 0.0, 0.0, 0.03, 0.05, 0.08, 0.12, 0.25, 0.90];

/// Operations of a report, in turn over the cells. Thirteen is prime to nine, so all differences are found in each.
const OPERATIONS: usize = 13;

/// Standard deviation of one block's d, in turn over the operations: memory to synced writes.
const NOISE: [f64; 4] = [0.01, 0.02, 0.04, 0.08];

/// Layers vary by so many times that in an operation.
const SPREAD: [f64; 5] = [0.6, 0.8, 1.0, 1.25, 1.6];

const DELTA: f64 = 0.05;

/// What goes wrong beside the noise.
#[derive(Clone, Copy)]
struct Trouble {
    name: &'static str,
    sessions: u32,
    /// Standard deviation of d between sessions.
    between: f64,
    /// Share of blocks in which the layer took longer by 30 % and up to several times as long.
    outliers: f64,
}

const TROUBLES: [Trouble; 3] = [
    Trouble {
        name: "noise alone",
        sessions: 1,
        between: 0.0,
        outliers: 0.0,
    },
    Trouble {
        name: "sessions 5 %",
        sessions: 3,
        between: 0.05,
        outliers: 0.0,
    },
    Trouble {
        name: "outliers 4 %",
        sessions: 1,
        between: 0.0,
        outliers: 0.04,
    },
];

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// True ratio and noise of a cell.
fn cell(at: usize) -> (f64, f64) {
    let noise = NOISE[at % OPERATIONS % 4] * SPREAD[at / OPERATIONS % 5];
    (1.0 + EFFECTS[at % 9], noise)
}

fn pairs(rng: &mut ChaCha8Rng, at: usize, blocks: u32, t: Trouble) -> Vec<Pair> {
    let (ratio, sd) = cell(at);
    let shifts: Vec<f64> = (0..t.sessions).map(|_| t.between * normal(rng)).collect();
    (0..blocks)
        .map(|block| {
            let session = block * t.sessions / blocks;
            let mut d = ratio.ln() + sd * normal(rng) + shifts[session as usize];
            if rng.random::<f64>() < t.outliers {
                d += 0.3 + 0.8 * normal(rng).abs();
            }
            Pair::new((session, block), 1e-6 * d.exp(), 1e-6)
        })
        .collect()
}

/// Words and intervals of the logarithm of one run, cell by cell.
fn run(rng: &mut ChaCha8Rng, blocks: u32, t: Trouble) -> Vec<(Verdict, stats::Interval)> {
    let cell = |at| Cell {
        operation: at % OPERATIONS,
        blocks: pairs(rng, at, blocks, t),
    };
    let cells: Vec<Cell<Pair>> = (0..CELLS).map(cell).collect();
    let family = stats::compare_all(&cells, 0.95, 1);
    let judged = stats::judge(&family, DELTA);
    judged
        .iter()
        .zip(&family)
        .map(|(judgement, comparison)| {
            let c = comparison.as_ref().expect("eight blocks");
            let i = c.ratio_interval.expect("eight blocks");
            (judgement.verdict, i.ln())
        })
        .collect()
}

/// Counts over many runs.
#[derive(Default)]
struct Counts {
    cells: u32,
    covered: u32,
    decided: u32,
    wrong: u32,
    probable: u32,
    probable_wrong: u32,
    /// Cells that differ between two runs by less than both half-widths together.
    agree: u32,
    /// Cells called slower by one of two runs and faster by the other.
    opposite: u32,
    twice: u32,
    /// Of each effect: cells, and those called slower.
    slower: Vec<(f64, u32, u32)>,
}

fn wrong(word: Verdict, ratio: f64) -> bool {
    match word {
        Verdict::Slower | Verdict::ProbablySlower => ratio <= 1.0,
        Verdict::Faster | Verdict::ProbablyFaster => ratio >= 1.0,
        Verdict::Same => ratio > 1.0 + DELTA + 1e-9,
        Verdict::Undecided => false,
    }
}

fn decided(word: Verdict) -> bool {
    matches!(word, Verdict::Slower | Verdict::Faster | Verdict::Same)
}

fn opposite(one: Verdict, two: Verdict) -> bool {
    let both = [one, two];
    both.contains(&Verdict::Slower) && both.contains(&Verdict::Faster)
}

impl Counts {
    fn add(&mut self, run: &[(Verdict, stats::Interval)]) {
        for (at, (word, interval)) in run.iter().enumerate() {
            let ratio = cell(at).0;
            self.cells += 1;
            self.covered += u32::from(interval.contains(ratio.ln()));
            let probable = matches!(word, Verdict::ProbablySlower | Verdict::ProbablyFaster);
            self.probable += u32::from(probable);
            self.probable_wrong += u32::from(probable && wrong(*word, ratio));
            self.decided += u32::from(decided(*word));
            self.wrong += u32::from(decided(*word) && wrong(*word, ratio));
            let called = u32::from(*word == Verdict::Slower);
            match self
                .slower
                .iter_mut()
                .find(|(r, ..)| (r - ratio).abs() < 1e-9)
            {
                Some((_, n, hits)) => (*n, *hits) = (*n + 1, *hits + called),
                None => self.slower.push((ratio, 1, called)),
            }
        }
    }

    fn both(&mut self, one: &[(Verdict, stats::Interval)], two: &[(Verdict, stats::Interval)]) {
        for ((word, i), (other, j)) in one.iter().zip(two) {
            self.twice += 1;
            let apart = f64::midpoint(i.low, i.high) - f64::midpoint(j.low, j.high);
            self.agree += u32::from(apart.abs() < i.half_width() + j.half_width());
            self.opposite += u32::from(opposite(*word, *other));
        }
    }

    fn line(&self) -> String {
        let percent = |n: u32, of: u32| 100.0 * f64::from(n) / f64::from(of.max(1));
        let mut line = format!(
            "covers {:.1} decided {:.0} wrong {} of {} probably {} wrong {} agree {:.1} opposite {} slower at",
            percent(self.covered, self.cells),
            percent(self.decided, self.cells),
            self.wrong,
            self.decided,
            self.probable,
            self.probable_wrong,
            percent(self.agree, self.twice),
            self.opposite,
        );
        for (ratio, n, hits) in &self.slower {
            let effect = 100.0 * (ratio - 1.0);
            write!(line, " {effect:.0}:{:.0}", percent(*hits, *n)).expect("a string");
        }
        line
    }
}

/// As `docs/src/method.md` has it.
fn row(blocks: u32, t: Trouble, counts: &Counts) -> String {
    let percent = |n: u32, of: u32| 100.0 * f64::from(n) / f64::from(of.max(1));
    let mut row = format!(
        "| {} | {blocks} | {:.1} % | {:.0} % | {} of {} | {} of {} | {:.1} % | {} of {} |",
        t.name,
        percent(counts.covered, counts.cells),
        percent(counts.decided, counts.cells),
        counts.wrong,
        counts.decided,
        counts.probable_wrong,
        counts.probable,
        percent(counts.agree, counts.twice),
        counts.opposite,
        counts.twice,
    );
    for (_, n, hits) in counts.slower.iter().filter(|(ratio, ..)| *ratio > 1.0) {
        write!(row, " {:.0} |", percent(*hits, *n)).expect("a string");
    }
    row
}

fn simulate(blocks: u32, t: Trouble, seed: u64) -> Counts {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut counts = Counts::default();
    for _ in 0..RUNS / 2 {
        let (one, two) = (run(&mut rng, blocks, t), run(&mut rng, blocks, t));
        counts.add(&one);
        counts.add(&two);
        counts.both(&one, &two);
    }
    counts
}

const RUNS: u32 = 24;

const MANUAL: &str = include_str!("../../../docs/src/method.md");

/// Blocks, trouble, and per cent but where counts are given; `slower at` is the share of cells with
/// that true difference that are called slower.
const GOLDEN: &str = "
 8 noise alone: covers 95.1 decided 75 wrong 1 of 2222 probably 239 wrong 13 agree 99.3 opposite 0 slower at 0:0 3:4 5:60 8:71 12:82 25:100 90:100
12 noise alone: covers 94.5 decided 82 wrong 0 of 2448 probably 180 wrong 16 agree 99.2 opposite 0 slower at 0:0 3:5 5:68 8:84 12:92 25:100 90:100
16 noise alone: covers 93.9 decided 86 wrong 0 of 2565 probably 163 wrong 20 agree 99.1 opposite 0 slower at 0:0 3:8 5:72 8:87 12:97 25:100 90:100
 8 sessions 5 %: covers 97.1 decided 16 wrong 0 of 482 probably 400 wrong 3 agree 99.9 opposite 0 slower at 0:0 3:0 5:0 8:0 12:1 25:53 90:100
12 sessions 5 %: covers 98.8 decided 17 wrong 0 of 499 probably 376 wrong 2 agree 100.0 opposite 0 slower at 0:0 3:0 5:0 8:0 12:2 25:58 90:100
16 sessions 5 %: covers 97.2 decided 16 wrong 0 of 474 probably 420 wrong 6 agree 99.9 opposite 0 slower at 0:0 3:0 5:0 8:0 12:1 25:51 90:100
 8 outliers 4 %: covers 95.1 decided 71 wrong 0 of 2114 probably 274 wrong 9 agree 99.0 opposite 0 slower at 0:0 3:4 5:52 8:67 12:76 25:95 90:98
12 outliers 4 %: covers 94.3 decided 80 wrong 1 of 2393 probably 187 wrong 9 agree 99.4 opposite 0 slower at 0:0 3:8 5:65 8:81 12:91 25:99 90:100
16 outliers 4 %: covers 94.7 decided 84 wrong 1 of 2514 probably 176 wrong 10 agree 99.2 opposite 0 slower at 0:0 3:9 5:72 8:87 12:93 25:100 90:100
";

#[test]
fn the_rule_does_what_the_manual_says() {
    let (mut table, mut lacks) = (String::new(), String::new());
    for trouble in TROUBLES {
        for blocks in [8, 12, 16] {
            let counts = simulate(blocks, trouble, u64::from(blocks));
            let name = trouble.name;
            writeln!(table, "{blocks:2} {name}: {}", counts.line()).expect("a string");
            let covers = f64::from(counts.covered) / f64::from(counts.cells);
            assert!((0.93..0.99).contains(&covers), "{blocks} {name}: {covers}");
            assert!(1000 * counts.wrong <= counts.decided, "{blocks} {name}");
            assert_eq!(counts.opposite, 0, "{blocks} {name}");
            let row = row(blocks, trouble, &counts);
            if !MANUAL.contains(&row) {
                writeln!(lacks, "{row}").expect("a string");
            }
        }
    }
    assert_eq!(table.trim(), GOLDEN.trim(), "the new table:\n{table}");
    assert!(lacks.is_empty(), "the manual's table lacks:\n{lacks}");
}

/// The case that sank the rule of before: eight blocks, 124 comparisons, a clear effect in each.
#[test]
fn eight_blocks_decide_a_hundred_and_twenty_four_clear_comparisons() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut clear = |at: usize| -> Cell<Pair> {
        let ratio = if at.is_multiple_of(2) { 1.5 } else { 0.02 };
        let d = |rng: &mut ChaCha8Rng| f64::ln(ratio) + 0.05 * normal(rng);
        let pairs = (0..8).map(|b| Pair::new((0, b), d(&mut rng).exp(), 1.0));
        pairs.collect::<Vec<_>>().into()
    };
    let cells: Vec<Cell<Pair>> = (0..CELLS).map(&mut clear).collect();
    let judged = stats::judge(&stats::compare_all(&cells, 0.95, 1), DELTA);
    for (at, j) in judged.iter().enumerate() {
        let expected = if at % 2 == 0 {
            Verdict::Slower
        } else {
            Verdict::Faster
        };
        assert_eq!(j.verdict, expected, "{at}");
    }
}

/// Native against itself: no word of difference in twenty reports of twelve points.
#[test]
fn nothing_is_made_up_where_nothing_is() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    for _ in 0..20 {
        let null = |rng: &mut ChaCha8Rng, at: usize| -> Cell<Pair> {
            let d: Vec<f64> = (0..8).map(|_| NOISE[at % 4] * normal(rng)).collect();
            let pairs = d.iter().zip(0..);
            let pairs = pairs.map(|(d, b)| Pair::new((0, b), d.exp(), 1.0));
            pairs.collect::<Vec<_>>().into()
        };
        let cells: Vec<Cell<Pair>> = (0..12).map(|at| null(&mut rng, at)).collect();
        let judged = stats::judge(&stats::compare_all(&cells, 0.95, 1), DELTA);
        let words: Vec<Verdict> = judged.iter().map(|j| j.verdict).collect();
        assert!(
            words
                .iter()
                .all(|w| matches!(w, Verdict::Same | Verdict::Undecided)),
            "{words:?}"
        );
    }
}

/// What a gate may allow: nothing that is decidedly slower, and costs up to a limit.
const LIMITS: [(&str, Option<f64>); 3] =
    [("slower", None), ("5%", Some(1.05)), ("10%", Some(1.10))];

/// Pairs of runs of so many cells, of which every `nth` costs a share more in the second run.
#[derive(Clone, Copy)]
struct Gated {
    pairs: u32,
    cells: usize,
    nth: usize,
    more: f64,
}

const GATED: [(&str, Gated); 7] = [
    ("the same, 124 cells", gated(124, 1, 0.0)),
    ("the same, 12 cells", gated(12, 1, 0.0)),
    ("the same, 3 cells", gated(3, 1, 0.0)),
    ("+10 % in one layer of eleven", gated(124, 11, 0.10)),
    ("+10 % in the only layer", gated(12, 1, 0.10)),
    ("+10 % at one point of twelve", gated(12, 12, 0.10)),
    ("+25 % in the only layer", gated(12, 1, 0.25)),
];

const fn gated(cells: usize, nth: usize, more: f64) -> Gated {
    Gated {
        pairs: if more > 0.0 { 100 } else { 300 },
        cells,
        nth,
        more,
    }
}

/// The blocks of a cell in one run: d with the run's own sessions.
fn one_run(
    rng: &mut ChaCha8Rng,
    at: usize,
    blocks: u32,
    t: Trouble,
    d: f64,
) -> Vec<stats::BlockValue> {
    let pairs = pairs(rng, at, blocks, t).into_iter();
    pairs
        .map(|p| (p.session, p.ln_ratio() + d).into())
        .collect()
}

/// Of so many pairs of runs, those in which a cell is beyond each of the limits.
fn alarms(blocks: u32, t: Trouble, pair: Gated, seed: u64) -> [u32; 3] {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut alarms = [0; 3];
    for _ in 0..pair.pairs {
        let cells: Vec<stats::TwoRuns> = (0..pair.cells)
            .map(|at| {
                let planted = at % pair.nth == 1 % pair.nth;
                let more = if planted { pair.more } else { 0.0 };
                stats::TwoRuns {
                    old: one_run(&mut rng, at, blocks, t, 0.0),
                    new: one_run(&mut rng, at, blocks, t, more.ln_1p()),
                    cost: 1.0,
                    steady: true,
                }
            })
            .collect();
        let compared = stats::compare_runs(&cells, 0.95);
        let judged = stats::judge(&compared, DELTA);
        for ((_, limit), alarms) in LIMITS.iter().zip(&mut alarms) {
            let mut cells = compared.iter().flatten().zip(&judged);
            let fails = cells.any(|(c, j)| {
                let (word, p, ratio) = (j.verdict, j.p_adjusted, Some(c.ratio));
                stats::keeps_to(*limit, DELTA, word, p, ratio, c.ratio_interval) == Some(false)
            });
            *alarms += u32::from(fails);
        }
    }
    alarms
}

/// Pairs of runs, and those of them that each gate fails.
const GATES: &str = "
 8 noise alone: 300 the same, 124 cells: slower 2 5% 2 10% 1
 8 noise alone: 300 the same, 12 cells: slower 0 5% 0 10% 0
 8 noise alone: 300 the same, 3 cells: slower 0 5% 0 10% 0
 8 noise alone: 100 +10 % in one layer of eleven: slower 100 5% 100 10% 23
 8 noise alone: 100 +10 % in the only layer: slower 100 5% 100 10% 34
 8 noise alone: 100 +10 % at one point of twelve: slower 100 5% 100 10% 1
 8 noise alone: 100 +25 % in the only layer: slower 100 5% 100 10% 100
12 noise alone: 300 the same, 124 cells: slower 0 5% 0 10% 0
12 noise alone: 300 the same, 12 cells: slower 1 5% 0 10% 0
12 noise alone: 300 the same, 3 cells: slower 0 5% 0 10% 0
12 noise alone: 100 +10 % in one layer of eleven: slower 100 5% 100 10% 25
12 noise alone: 100 +10 % in the only layer: slower 100 5% 100 10% 31
12 noise alone: 100 +10 % at one point of twelve: slower 100 5% 100 10% 2
12 noise alone: 100 +25 % in the only layer: slower 100 5% 100 10% 100
 8 sessions 5 %: 300 the same, 124 cells: slower 0 5% 0 10% 0
 8 sessions 5 %: 300 the same, 12 cells: slower 0 5% 0 10% 0
 8 sessions 5 %: 300 the same, 3 cells: slower 0 5% 0 10% 0
 8 sessions 5 %: 100 +10 % in one layer of eleven: slower 0 5% 0 10% 0
 8 sessions 5 %: 100 +10 % in the only layer: slower 2 5% 2 10% 2
 8 sessions 5 %: 100 +10 % at one point of twelve: slower 0 5% 0 10% 0
 8 sessions 5 %: 100 +25 % in the only layer: slower 70 5% 70 10% 70
12 sessions 5 %: 300 the same, 124 cells: slower 0 5% 0 10% 0
12 sessions 5 %: 300 the same, 12 cells: slower 0 5% 0 10% 0
12 sessions 5 %: 300 the same, 3 cells: slower 0 5% 0 10% 0
12 sessions 5 %: 100 +10 % in one layer of eleven: slower 0 5% 0 10% 0
12 sessions 5 %: 100 +10 % in the only layer: slower 1 5% 1 10% 1
12 sessions 5 %: 100 +10 % at one point of twelve: slower 0 5% 0 10% 0
12 sessions 5 %: 100 +25 % in the only layer: slower 77 5% 77 10% 77
 8 outliers 4 %: 300 the same, 124 cells: slower 1 5% 1 10% 0
 8 outliers 4 %: 300 the same, 12 cells: slower 0 5% 0 10% 0
 8 outliers 4 %: 300 the same, 3 cells: slower 0 5% 0 10% 0
 8 outliers 4 %: 100 +10 % in one layer of eleven: slower 100 5% 100 10% 17
 8 outliers 4 %: 100 +10 % in the only layer: slower 100 5% 100 10% 20
 8 outliers 4 %: 100 +10 % at one point of twelve: slower 90 5% 90 10% 3
 8 outliers 4 %: 100 +25 % in the only layer: slower 100 5% 100 10% 100
12 outliers 4 %: 300 the same, 124 cells: slower 1 5% 1 10% 1
12 outliers 4 %: 300 the same, 12 cells: slower 2 5% 0 10% 0
12 outliers 4 %: 300 the same, 3 cells: slower 0 5% 0 10% 0
12 outliers 4 %: 100 +10 % in one layer of eleven: slower 100 5% 100 10% 19
12 outliers 4 %: 100 +10 % in the only layer: slower 100 5% 100 10% 26
12 outliers 4 %: 100 +10 % at one point of twelve: slower 99 5% 99 10% 2
12 outliers 4 %: 100 +25 % in the only layer: slower 100 5% 100 10% 100
";

#[test]
fn a_gate_fails_what_became_slower_and_nothing_else() {
    let mut table = String::new();
    for trouble in TROUBLES {
        for blocks in [8, 12] {
            for (name, pair) in GATED {
                let failed = alarms(blocks, trouble, pair, u64::from(blocks));
                write!(table, "{blocks:2} {}: {} {name}:", trouble.name, pair.pairs)
                    .expect("a string");
                for ((gate, _), n) in LIMITS.iter().zip(failed) {
                    write!(table, " {gate} {n}").expect("a string");
                }
                table.push('\n');
                let at = || format!("{blocks} {} {name}: {failed:?}", trouble.name);
                let false_alarm = |n: &u32| pair.more == 0.0 && 100 * n > pair.pairs;
                assert!(!failed.iter().any(false_alarm), "{}", at());
                // A layer that costs a tenth more: `slower` and `slower=5%`.
                let sought = name.ends_with("layer") || name.ends_with("eleven");
                if sought && pair.more > 0.0 && trouble.between == 0.0 {
                    assert!(failed[..2].iter().all(|n| *n >= 95), "{}", at());
                }
            }
        }
    }
    assert_eq!(table.trim(), GATES.trim(), "the new table:\n{table}");
}
