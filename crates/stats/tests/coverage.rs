//! Simulations with the studies' noise: log-normal, coefficient of variation 10 to 15 %.
//! Seeded, so they always give the same counts.

use layermark_stats as stats;
use layermark_stats::{Comparison, Pair, Verdict};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Noise with median 1: exp(sigma z), sigma^2 = ln(1 + cv^2).
struct Noise {
    rng: ChaCha8Rng,
    sigma: f64,
}

impl Noise {
    fn new(cv: f64, seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            sigma: (cv * cv).ln_1p().sqrt(),
        }
    }

    /// Box & Muller, one of the two values.
    fn ln(&mut self) -> f64 {
        let (u, v): (f64, f64) = (self.rng.random(), self.rng.random());
        self.sigma * (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    fn next(&mut self) -> f64 {
        self.ln().exp()
    }

    /// d = ln(layer) - ln(native) of one block, for a true ratio.
    fn log_ratio(&mut self, ratio: f64) -> f64 {
        ratio.ln() + self.ln() - self.ln()
    }
}

/// A/A: the interval covers no difference as often as the exact distribution says, 93 to 97 %
/// (96.9 % at n = 6, where the interval runs from the smallest to the largest value).
#[test]
fn intervals_cover_the_truth() {
    const ROUNDS: u32 = 5000;
    // 1 - 2 P(T <= c - 1) for the exact null distribution.
    for (n, cv, exact) in [(6, 0.10, 0.96875), (11, 0.15, 0.958), (20, 0.12, 0.9516)] {
        let mut noise = Noise::new(cv, n as u64);
        let mut covered = 0;
        for _ in 0..ROUNDS {
            let d: Vec<f64> = (0..n).map(|_| noise.log_ratio(1.0)).collect();
            let i = stats::signed_rank_interval(&d, 0.95).expect("n >= 6");
            covered += u32::from(i.contains(0.0));
        }
        let share = f64::from(covered) / f64::from(ROUNDS);
        println!("n = {n}: {share}");
        // Three standard errors of 5,000 rounds.
        assert!((share - exact).abs() < 0.0093, "{share} at n = {n}");
        assert!((0.93..=0.975).contains(&share), "{share} at n = {n}");
    }
}

/// Runs the stopping rule on one point. Gives the number of blocks and the interval it stops with.
fn until_precise(noise: &mut Noise, ratio: f64, precision: f64) -> (usize, stats::Interval) {
    let mut d = Vec::new();
    for look in stats::looks() {
        d.extend((d.len()..look).map(|_| noise.log_ratio(ratio)));
        let i = stats::signed_rank_interval(&d, 0.95).expect("n >= 6");
        if stats::reached(i, precision) {
            return (look, i);
        }
    }
    unreachable!("looks never end")
}

/// Share of runs whose interval excludes no difference, and share that covers the truth.
fn found_and_covered(ratio: f64, precision: f64, cv: f64, rounds: u32) -> (f64, f64) {
    let mut noise = Noise::new(cv, 11);
    let (mut found, mut covered) = (0, 0);
    for _ in 0..rounds {
        let (n, i) = until_precise(&mut noise, ratio, precision);
        assert!(stats::is_look(n));
        found += u32::from(!i.contains(0.0));
        covered += u32::from(i.contains(ratio.ln()));
    }
    let share = |k: u32| f64::from(k) / f64::from(rounds);
    println!(
        "ratio {ratio}, precision {precision}, cv {cv}: found {}",
        share(found)
    );
    (share(found), share(covered))
}

/// A true 3 % difference, with the stopping rule as the lab uses it.
///
/// At a half-width of exactly ln 1.02 the standard error is 1.01 % and an estimate must be above
/// 1.98 % to exclude 0: P(N(2.96, 1.01) > 1.98) = 83 %. The looks overshoot, which makes it 87 to
/// 90 % at cv 5 to 15 %. So `--precision 2%` does not give the 90 % that the method asks for,
/// except on quiet points (cv 3 % and less); 1.75 % gives 93 % and more for 30 % more blocks.
#[test]
fn three_percent_is_found_at_1_75_percent() {
    let (found, covered) = found_and_covered(1.03, 0.0175, 0.10, 300);
    assert!(found >= 0.90, "{found}");
    assert!((0.92..=0.98).contains(&covered), "{covered}");
}

/// See [`three_percent_is_found_at_1_75_percent`].
#[test]
fn three_percent_is_found_at_2_percent_on_quiet_points_only() {
    let (found, _) = found_and_covered(1.03, 0.02, 0.03, 1000);
    assert!(found >= 0.90, "{found} on a quiet point");
    let (found, covered) = found_and_covered(1.03, 0.02, 0.10, 800);
    assert!(
        (0.83..0.92).contains(&found),
        "{found}: is the note above still true?"
    );
    assert!((0.92..=0.98).contains(&covered), "{covered}");
}

/// Stopping on width does not make differences up: A/A runs stopped at 5 % cover 1.
#[test]
fn stopping_on_precision_keeps_the_coverage() {
    let (found, covered) = found_and_covered(1.0, 0.05, 0.12, 1500);
    assert!((found + covered - 1.0).abs() < 1e-12);
    assert!((0.93..=0.97).contains(&covered), "{covered}");
}

fn comparison(noise: &mut Noise, ratio: f64, blocks: u32, seed: u64) -> Option<Comparison> {
    let pairs: Vec<Pair> = (0..blocks)
        .map(|block| Pair {
            session: block / 8,
            block,
            layer: 2e-6 * ratio * noise.next(),
            native: 2e-6 * noise.next(),
        })
        .collect();
    stats::compare(&pairs, 0.95, seed)
}

/// Families of a layer's twelve points at the fewest blocks that can decide: a layer that costs
/// nothing is not called slower or faster, one that costs 60 % is, and few are called unsteady.
#[test]
fn verdicts_of_whole_families() {
    let blocks = stats::blocks_for_holm(12) as u32;
    let mut noise = Noise::new(0.12, 9);
    let (mut false_calls, mut slower) = (0, 0);
    for seed in 0..10 {
        let null: Vec<_> = (0..12)
            .map(|_| comparison(&mut noise, 1.0, blocks, seed))
            .collect();
        let judged = stats::judge(&null, 0.05, 0.95);
        let differs = |v| matches!(v, Verdict::Slower | Verdict::Faster);
        false_calls += u32::from(judged.iter().any(|j| differs(j.verdict)));
        let slow: Vec<_> = (0..12)
            .map(|_| comparison(&mut noise, 1.6, blocks, seed))
            .collect();
        let judged = stats::judge(&slow, 0.05, 0.95);
        slower += judged
            .iter()
            .filter(|j| j.verdict == Verdict::Slower)
            .count();
    }
    println!("families with a false call: {false_calls} of 10; slower: {slower} of 120");
    assert!(
        false_calls <= 3,
        "{false_calls} of 20 families with a false call"
    );
    assert!(slower >= 114, "{slower} of 120 points");
}

/// The ratio of steady layers is seldom called unsteady.
#[test]
fn steady_ratios_are_called_steady() {
    let mut noise = Noise::new(0.12, 21);
    let unsteady = (0..200)
        .filter(|&seed| {
            let ratios: Vec<f64> = (0..20).map(|_| noise.log_ratio(1.1).exp()).collect();
            !stats::change_points(&ratios, seed).is_empty()
        })
        .count();
    println!("unsteady: {unsteady} of 200");
    assert!(unsteady <= 6, "{unsteady} of 200");
}

/// Blocks that depend on each other, autocorrelation 0.6: the intervals are wider than those that
/// take the blocks for independent, and cover the truth more often.
#[test]
fn dependence_costs_width_and_buys_coverage() {
    let mut noise = Noise::new(0.12, 3);
    let (mut naive, mut reported) = (0, 0);
    for seed in 0..12 {
        let mut state = 0.0;
        let d: Vec<f64> = (0..20)
            .map(|_| {
                state = 0.6 * state + noise.ln();
                state
            })
            .collect();
        let pairs: Vec<Pair> = d
            .iter()
            .zip(0..)
            .map(|(d, block)| Pair {
                session: 0,
                block,
                layer: d.exp(),
                native: 1.0,
            })
            .collect();
        let c = stats::compare(&pairs, 0.95, seed).expect("valid");
        naive += u32::from(
            stats::signed_rank_interval(&d, 0.95)
                .expect("n = 20")
                .contains(0.0),
        );
        reported += u32::from(c.ratio_interval.expect("n = 20").contains(1.0));
    }
    println!("covered of 12: taken for independent {naive}, reported {reported}");
    assert!(reported >= naive);
}

/// A step from 600 to 350 ms after the fourteenth of thirty runs, and none.
#[test]
fn steps_are_found_where_they_are_and_nowhere_else() {
    let (mut right, mut wrong) = (0, 0);
    let mut noise = Noise::new(0.10, 5);
    for seed in 0..100 {
        let step: Vec<f64> = (1..=30)
            .map(|run| noise.next() * if run <= 14 { 600.0 } else { 350.0 })
            .collect();
        // Index 14 is run 15.
        right += u32::from(stats::change_points(&step, seed) == [14]);
        let flat: Vec<f64> = (0..30).map(|_| noise.next() * 600.0).collect();
        wrong += u32::from(!stats::change_points(&flat, seed).is_empty());
    }
    println!("{right} {wrong}");
    assert!(right >= 95, "found in {right} of 100");
    assert!(wrong <= 5, "false steps in {wrong} of 100");
}

/// Operations of one trial: their median differs from trial to trial, and they differ from each other
/// and are kept to 1 ns, all log-normal.
fn operations(between: &mut Noise, within: &mut Noise, n: usize) -> stats::Tally {
    let median = 20_000.0 * between.next();
    let mut values: Vec<u64> = (0..n).map(|_| (median * within.next()) as u64).collect();
    values.sort_unstable();
    stats::Tally {
        sum: values.iter().sum::<u64>() as f64,
        counts: values
            .chunk_by(|a, b| a == b)
            .map(|same| (same[0], same.len() as u64))
            .collect(),
    }
}

/// Share of rounds in which the interval of the percentile `p` holds the true one: the operations of
/// all trials there could be are log-normal too, and `z` is the normal quantile of `p`.
fn percentile_covered(trials: usize, each: usize, (p, z): (f64, f64), rounds: u32) -> f64 {
    let (mut between, mut within) = (Noise::new(0.05, 31), Noise::new(0.30, 32));
    let sigma = between.sigma.hypot(within.sigma);
    let truth = 20_000.0 * (z * sigma).exp();
    let mut covered = 0;
    for round in 0..rounds {
        let trials = (0..trials).map(|_| operations(&mut between, &mut within, each));
        let pooled = stats::Pooled::new(&[trials.collect()]);
        let found = pooled.percentile_interval(p, 0.95, 999, u64::from(round));
        covered += u32::from(found.expect("six trials and more").contains(truth));
    }
    f64::from(covered) / f64::from(rounds)
}

const MEDIAN: (f64, f64) = (0.5, 0.0);
const P99: (f64, f64) = (0.99, 2.326_347_874);

/// Percentiles of the operations of trials that differ by 5 %. As bootstrap intervals of few values
/// are, those of few trials are too narrow: in 1,000 rounds 84 % at 6 trials, 87 to 90 % at 11, 92 % at
/// 20 and 93 % at 40 covered the truth, for the median and the 99th percentile alike.
#[test]
fn intervals_of_percentiles_cover_the_truth() {
    for (trials, of, expected) in [
        (6, MEDIAN, 0.78..0.90),
        (6, P99, 0.77..0.90),
        (11, P99, 0.82..0.93),
        (30, MEDIAN, 0.88..0.97),
        (30, P99, 0.88..0.97),
    ] {
        let share = percentile_covered(trials, 400, of, 250);
        println!("{trials} trials, p = {}: {share}", of.0);
        assert!(
            expected.contains(&share),
            "{share}, {trials} trials, p = {}",
            of.0
        );
    }
}
