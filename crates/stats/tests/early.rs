//! Words while a run goes on: how often they are wrong, over all looks of a run. Seeded: the figures are always these.

use layermark_stats::{self as stats, Comparison, Pair, Verdict};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Comparisons of a run of the card in two layers, about.
const CELLS: usize = 28;
/// Blocks of the longest runs.
const BLOCKS: usize = 36;
const DELTA: f64 = 0.05;
/// Standard deviation of one block's d, in turn over the cells.
const NOISE: [f64; 4] = [0.01, 0.02, 0.04, 0.08];

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The comparisons of these cells after so many blocks. As if no change was ever found, which would take words away.
fn compared(cells: &[Vec<Pair>], blocks: usize, alpha: f64) -> Vec<Option<Comparison>> {
    let first = |cell: &Vec<Pair>| cell[..blocks].to_vec().into();
    let cells: Vec<stats::Cell<Pair>> = cells.iter().map(first).collect();
    let estimates = stats::estimate_pairs(&cells, 1.0 - alpha).into_iter();
    let of = |e: Option<stats::Estimate>| {
        let e = e?;
        Some(Comparison {
            n: e.n,
            effective_n: e.effective_n,
            ratio: e.mean.exp(),
            ratio_interval: e.interval.map(|i| i.exp()),
            cost: 1.0,
            diff: e.mean.exp_m1(),
            diff_interval: None,
            p: e.p,
            change_points: Vec::new(),
            steady: true,
            levels: vec![e.mean.exp()],
            outliers: 0,
        })
    };
    estimates.map(of).collect()
}

fn words(cells: &[Vec<Pair>], blocks: usize, alpha: f64) -> Vec<Verdict> {
    let judged = stats::judge_at(&compared(cells, blocks, alpha), DELTA, alpha);
    judged.iter().map(|j| j.verdict).collect()
}

fn is_a_difference(word: Verdict) -> bool {
    matches!(word, Verdict::Slower | Verdict::Faster)
}

/// Runs of `cells` whose ratio is `ratio`.
fn run(rng: &mut ChaCha8Rng, cells: usize, ratio: f64) -> Vec<Vec<Pair>> {
    let cell = |rng: &mut ChaCha8Rng, at: usize| -> Vec<Pair> {
        let d = |rng: &mut ChaCha8Rng| ratio.ln() + NOISE[at % 4] * normal(rng);
        let blocks = (0..BLOCKS as u32).map(|b| Pair::new((0, b), d(rng).exp(), 1.0));
        blocks.collect()
    };
    (0..cells).map(|at| cell(rng, at)).collect()
}

/// How many of these runs have a false word of difference: at the first look by the report's rule, at any look by the rule of
/// looks, and after any block from the eighth by the report's rule.
fn false_words(runs: u32, cells: usize) -> [u32; 3] {
    let mut rng = ChaCha8Rng::seed_from_u64(56);
    let mut found = [0; 3];
    for _ in 0..runs {
        let run = run(&mut rng, cells, 1.0);
        let any = |blocks, alpha| words(&run, blocks, alpha).into_iter().any(is_a_difference);
        let looks =
            || (stats::FEWEST_BLOCKS..=BLOCKS).filter_map(|n| Some((n, stats::look_alpha(n)?)));
        found[0] += u32::from(any(stats::FEWEST_BLOCKS, stats::ALPHA));
        found[1] += u32::from(looks().any(|(n, alpha)| any(n, alpha)));
        let all = stats::FEWEST_BLOCKS..=BLOCKS;
        found[2] += u32::from(all.into_iter().any(|n| any(n, stats::ALPHA)));
    }
    found
}

/// Looked at after each block by the report's rule, a run would say something false several times as often as its report.
#[test]
fn no_look_of_a_run_is_false_more_often_than_its_report_may_be() {
    const RUNS: u32 = 400;
    let [report, looks, always] = false_words(RUNS, CELLS);
    println!(
        "of {RUNS} runs with {CELLS} cells without a difference: {report} reports of 8 blocks are false, {looks} runs at any of six looks, {always} by the report's rule after any block"
    );
    // 5 %, and two standard errors of 400.
    assert!(f64::from(looks) <= 0.072 * f64::from(RUNS), "{looks}");
    assert!(always > looks, "{always} {looks}");
}

/// A difference that the report would find is found while the run goes on, one look later at the latest in most cells.
#[test]
fn looks_find_nearly_what_the_report_finds() {
    let mut rng = ChaCha8Rng::seed_from_u64(57);
    for (ratio, blocks) in [(1.08, 8), (1.25, 8), (1.08, 15)] {
        let (mut early, mut report) = (0, 0);
        for _ in 0..40 {
            let run = run(&mut rng, CELLS, ratio);
            let count =
                |words: Vec<Verdict>| words.into_iter().filter(|w| is_a_difference(*w)).count();
            let alpha = stats::look_alpha(blocks).expect("a look");
            early += count(words(&run, blocks, alpha));
            report += count(words(&run, blocks, stats::ALPHA));
        }
        println!("{ratio} after {blocks} blocks: {early} words at the look, {report} in a report");
        assert!(
            early <= report && 10 * early >= 8 * report,
            "{early} {report}"
        );
    }
}

/// *Same* where the difference is just too large for it: each look errs in less than the report may.
#[test]
fn same_is_false_no_more_often_than_in_a_report() {
    let mut rng = ChaCha8Rng::seed_from_u64(58);
    let (mut looks, mut cells) = (0, 0);
    for _ in 0..100 {
        let run = run(&mut rng, CELLS, 1.0 + DELTA + 1e-6);
        let mut said = [false; CELLS];
        for (n, alpha) in stats::looks()
            .take(6)
            .filter_map(|n| Some((n, stats::look_alpha(n)?)))
        {
            for (said, word) in said.iter_mut().zip(words(&run, n, alpha)) {
                *said |= word == Verdict::Same;
            }
        }
        cells += said.len();
        looks += said.iter().filter(|said| **said).count();
    }
    println!("same at a true difference of 5 %: {looks} of {cells} cells at any of six looks");
    assert!(40 * looks <= cells + 3 * 40, "{looks} of {cells}");
}
