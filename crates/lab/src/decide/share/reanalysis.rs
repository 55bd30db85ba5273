//! What shares of time do to the precision a second, from the noise of stored runs.
//!
//! A point has the time of a block on the clock and off it, and the variances of a block by what it holds constant and by its
//! rounds: medians over the layers of three quiet runs of the card, with full shares. The ratio's variance after a time follows from
//! them, for blocks that count alike.

use super::{FULL_NS, Noise, share_ns};

/// A point of a stored run.
#[derive(Clone, Copy)]
struct MeasuredPoint {
    /// Milliseconds of a block off the clock, and on it with a full share.
    ms: [f64; 2],
    /// Rounds with a full share.
    rounds: f64,
    /// Standard deviation of the logarithm, %: of a block, and of its rounds with a full share.
    noise: [f64; 2],
    /// Whether the share sets the number of rounds, and not the fewest or the most rounds.
    follows: bool,
}

const fn of(ms: [f64; 2], rounds: f64, noise: [f64; 2], follows: bool) -> MeasuredPoint {
    MeasuredPoint {
        ms,
        rounds,
        noise,
        follows,
    }
}

/// Two layers, quiet, run 01M8KD94QVZ09GMBR8N41D1CVE.
const TWO_LAYERS: [MeasuredPoint; 15] = [
    // open and stat
    of([316.0, 251.0], 25.0, [2.47, 0.39], true),
    // small read, cold
    of([49.0, 55.0], 7.0, [3.11, 2.13], false),
    // small read, warm
    of([166.0, 400.0], 8.0, [2.90, 0.37], false),
    // large read, cold
    of([116.0, 205.0], 17.0, [1.53, 1.89], true),
    // large read, warm
    of([161.0, 401.0], 8.0, [2.16, 1.07], false),
    // random read, warm
    of([405.0, 250.0], 25.0, [0.38, 0.36], true),
    // small write
    of([324.0, 65.0], 25.0, [15.15, 2.40], false),
    // large write, fsync
    of([228.0, 277.0], 10.0, [12.40, 1.00], true),
    // random write, fsync each
    of([250.0, 258.0], 25.0, [1.03, 1.40], true),
    // create
    of([242.0, 64.0], 25.0, [0.00, 2.46], false),
    // unlink
    of([242.0, 68.0], 25.0, [1.18, 1.11], false),
    // first write to a packaged file
    of([122.0, 4.0], 24.0, [2.79, 2.67], false),
    // first chmod of a packaged file
    of([175.0, 2.0], 24.0, [2.55, 4.15], false),
    // git status
    of([260.0, 203.0], 14.0, [0.98, 1.98], true),
    // SQLite commit
    of([172.0, 256.0], 22.0, [2.25, 0.67], true),
];

/// The same again, 01M8KDFNS499RP0WMJ6CNJ8WK4.
const TWO_LAYERS_AGAIN: [MeasuredPoint; 15] = [
    // open and stat
    of([290.0, 251.0], 25.0, [3.31, 0.40], true),
    // small read, cold
    of([72.0, 54.0], 8.0, [5.96, 2.69], false),
    // small read, warm
    of([186.0, 400.0], 8.0, [0.81, 0.54], false),
    // large read, cold
    of([159.0, 206.0], 17.0, [0.00, 2.17], true),
    // large read, warm
    of([143.0, 401.0], 8.0, [1.11, 0.82], false),
    // random read, warm
    of([399.0, 250.0], 25.0, [0.32, 0.30], true),
    // small write
    of([313.0, 65.0], 25.0, [0.00, 2.31], false),
    // large write, fsync
    of([239.0, 273.0], 10.0, [10.06, 1.34], true),
    // random write, fsync each
    of([290.0, 256.0], 25.0, [1.04, 1.28], true),
    // create
    of([291.0, 64.0], 25.0, [13.35, 2.95], false),
    // unlink
    of([238.0, 68.0], 25.0, [0.00, 1.28], false),
    // first write to a packaged file
    of([126.0, 3.0], 24.0, [6.23, 2.53], false),
    // first chmod of a packaged file
    of([155.0, 2.0], 24.0, [3.08, 3.68], false),
    // git status
    of([226.0, 204.0], 16.0, [6.63, 1.38], true),
    // SQLite commit
    of([242.0, 255.0], 22.0, [2.39, 0.83], true),
];

/// Twelve layers, 01M8KB74NX7G0JX4MQZ1EPCNWK.
const TWELVE_LAYERS: [MeasuredPoint; 15] = [
    // open and stat
    of([598.0, 752.0], 25.0, [0.70, 0.47], true),
    // small read, cold
    of([112.0, 159.0], 6.0, [0.00, 3.13], false),
    // small read, warm
    of([357.0, 1201.0], 8.0, [0.44, 0.38], false),
    // large read, cold
    of([297.0, 657.0], 16.0, [1.86, 2.12], true),
    // large read, warm
    of([344.0, 1203.0], 8.0, [3.67, 0.83], false),
    // random read, warm
    of([582.0, 750.0], 25.0, [0.00, 0.41], true),
    // small write
    of([454.0, 155.0], 25.0, [0.00, 2.49], false),
    // large write, fsync
    of([342.0, 634.0], 11.0, [9.17, 2.13], true),
    // random write, fsync each
    of([235.0, 620.0], 25.0, [6.47, 1.77], true),
    // create
    of([390.0, 154.0], 25.0, [0.00, 2.74], false),
    // unlink
    of([357.0, 163.0], 25.0, [6.24, 1.68], false),
    // first write to a packaged file
    of([271.0, 30.0], 24.0, [3.71, 4.21], false),
    // first chmod of a packaged file
    of([133.0, 8.0], 24.0, [2.71, 4.26], false),
    // git status
    of([451.0, 564.0], 21.0, [0.27, 0.90], true),
    // SQLite commit
    of([277.0, 607.0], 22.0, [3.92, 1.01], true),
];

impl MeasuredPoint {
    fn rounds(&self, share_ns: u64) -> f64 {
        if self.follows {
            (self.rounds * share_ns as f64 / FULL_NS as f64).max(8.0)
        } else {
            self.rounds
        }
    }

    /// Seconds of a block.
    fn takes(&self, rounds: f64, off: f64) -> f64 {
        (self.ms[0] * off + self.ms[1] * rounds / self.rounds) / 1e3
    }

    /// Variance of a block's d.
    fn variance(&self, rounds: f64) -> f64 {
        self.noise[0].powi(2) + self.noise[1].powi(2) * self.rounds / rounds
    }

    fn known(&self, first: f64) -> Noise {
        Noise {
            block: self.noise[0].powi(2),
            rounds: self.variance(first) - self.noise[0].powi(2),
        }
    }
}

/// Shares of blocks: of a point, after so many.
type Plan<'a> = &'a dyn Fn(&MeasuredPoint, usize) -> u64;

/// Seconds until there are eight blocks, and for each point 1 over the variance of its ratio after `seconds`. Work off
/// the clock takes `off` times as long as it did.
fn run(points: &[MeasuredPoint], plan: Plan<'_>, off: f64, seconds: f64) -> (f64, Vec<f64>) {
    let (mut time, mut eight) = (0.0, f64::NAN);
    let mut sums = vec![0.0; points.len()];
    for made in 0.. {
        let rounds: Vec<f64> = points.iter().map(|p| p.rounds(plan(p, made))).collect();
        let each = points.iter().zip(&rounds);
        let takes: f64 = each.map(|(p, r)| p.takes(*r, off)).sum();
        if made == 8 {
            eight = time;
        }
        // The last block counts in part, so that no time is lost.
        let part = ((seconds - time) / takes).min(1.0);
        for ((p, r), sum) in points.iter().zip(rounds).zip(&mut sums) {
            *sum += part * p.variance(r);
        }
        time += takes;
        if part < 1.0 {
            let n = made as f64 + part;
            return (eight, sums.iter().map(|sum| n * n / sum).collect());
        }
    }
    unreachable!("time passes")
}

/// The geometric mean over points of the precision a second, over that with full shares, and the seconds until eight
/// blocks with either.
fn gain(points: &[MeasuredPoint], plan: Plan<'_>, off: f64, seconds: f64) -> (f64, [f64; 2]) {
    let (eight, found) = run(points, plan, off, seconds);
    let (before, full) = run(points, &|_, _| FULL_NS, off, seconds);
    let logs = found.iter().zip(&full).map(|(a, b)| (a / b).ln());
    let mean = logs.sum::<f64>() / points.len() as f64;
    (mean.exp(), [before, eight])
}

fn by_noise(point: &MeasuredPoint, made: usize) -> u64 {
    share_ns(made, &[point.known(point.rounds(super::FIRST_NS))])
}

#[test]
fn eight_blocks_are_there_sooner_and_no_precision_is_lost() {
    // Two layers to the end of their budget, twelve to theirs; and with less work off the clock.
    for (points, seconds, off, sooner) in [
        (&TWO_LAYERS, 72.0, 1.0, 0.89),
        (&TWO_LAYERS_AGAIN, 72.0, 1.0, 0.89),
        (&TWELVE_LAYERS, 138.0, 1.0, 0.85),
        (&TWO_LAYERS, 72.0, 0.4, 0.85),
        (&TWO_LAYERS_AGAIN, 72.0, 0.4, 0.85),
        (&TWELVE_LAYERS, 138.0, 0.4, 0.81),
    ] {
        let (precision, [before, eight]) = gain(points, &by_noise, off, seconds);
        println!(
            "off the clock x {off}: precision x {precision:.3}, eight blocks after {before:.1} s, now {eight:.1} s"
        );
        assert!(precision >= 1.01, "{precision}");
        assert!(eight < sooner * before, "{eight} of {before}");
    }
}

/// What was not taken: a share that only grows, and longer blocks at the end.
#[test]
fn blocks_that_grow_everywhere_are_worse() {
    for points in [&TWO_LAYERS, &TWO_LAYERS_AGAIN, &TWELVE_LAYERS] {
        let growing = |later: u64| {
            move |_: &MeasuredPoint, made: usize| if made < 8 { super::FIRST_NS } else { later }
        };
        let (kept, _) = gain(points, &by_noise, 1.0, 138.0);
        for later in [FULL_NS, 2 * FULL_NS] {
            let (grown, _) = gain(points, &growing(later), 1.0, 138.0);
            println!(
                "{} ms later: {grown:.3}, by the noise {kept:.3}",
                later / 1_000_000
            );
            assert!(kept > grown, "{kept} {grown}");
        }
    }
}
