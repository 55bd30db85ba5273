//! Latency over all trials of a point, from their histograms.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use layermark_model::{Latency, Trial};
use layermark_stats::{self as stats, Operations, Pooled};

use crate::{
    facts::LEVEL,
    types::{LatencyUs, Tail},
};

/// Fewest operations for a 99th percentile.
const FOR_P99: u64 = 1_000;
/// Lower percentiles, each with its fewest operations: ten lie beyond it.
const TAILS: [(f64, u64); 3] = [(0.98, 500), (0.95, 200), (0.9, 100)];
/// Fewest operations for a 99.9th percentile.
const FOR_P999: u64 = 10_000;
/// Fewest operations for a 99.99th percentile.
const FOR_P9999: u64 = 100_000;

/// Shares of operations, for charts of how many take longer than a time.
pub const SLOWER: [f64; 15] = [
    0.99, 0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.000_5, 0.000_2,
    0.000_1,
];
/// Fewest operations that take longer, for such a share.
const BEYOND: f64 = 10.0;

/// Reads the histograms of trials.
#[derive(Default)]
pub struct Histograms(stats::Histograms);

impl Histograms {
    /// The operations of a trial, by their nanoseconds. `None` if its histogram is unreadable or empty.
    pub fn read(&mut self, latency: &Latency) -> Option<Operations> {
        let bytes = STANDARD.decode(&latency.histogram).ok()?;
        self.0.read(&bytes)
    }
}

/// Percentile (`p` of 1) of all operations of these trials, ns. `None` if no trial has a readable histogram.
pub fn percentile<'a>(trials: impl Iterator<Item = &'a Trial>, p: f64) -> Option<f64> {
    let mut histograms = Histograms::default();
    let read = trials.filter_map(|t| histograms.read(t.latency.as_ref()?));
    let found = Pooled::new(&[read.collect()]).percentile(p)?;
    Some(found as f64)
}

/// Merges the histograms of trials, each with its session. `None` if no trial has a readable one.
/// `seed` is for the bootstrap.
pub fn merged<'a>(trials: impl Iterator<Item = (u32, &'a Trial)>, seed: u64) -> Option<LatencyUs> {
    of(
        trials.filter_map(|(session, t)| Some((session, t.latency.as_ref()?))),
        seed,
    )
}

/// Merges latencies that have already been selected.
pub fn of<'a>(all: impl Iterator<Item = (u32, &'a Latency)>, seed: u64) -> Option<LatencyUs> {
    let mut histograms = Histograms::default();
    let (mut min, mut max) = (u64::MAX, 0);
    let mut sessions: BTreeMap<u32, Vec<Operations>> = BTreeMap::new();
    for (session, latency) in all {
        let Some(one) = histograms.read(latency) else {
            continue;
        };
        sessions.entry(session).or_default().push(one);
        // The probe stores the extremes exactly; a histogram rounds them.
        min = min.min(latency.min);
        max = max.max(latency.max);
    }
    let sessions: Vec<Vec<Operations>> = sessions.into_values().collect();
    let pooled = Pooled::new(&sessions);
    let operations = pooled.operations();
    let us = |ns: f64| ns / 1e3;
    let (least, most) = (min as f64, max.max(min) as f64);
    let at = |p: f64, fewest: u64| {
        let found = pooled.percentile(p).filter(|_| operations >= fewest);
        let Some(found) = found else {
            return (None, None);
        };
        let span = pooled.percentile_interval(p, LEVEL, stats::RESAMPLES, seed);
        let inside = |ns: f64| us(ns.clamp(least, most));
        (
            Some(inside(found as f64)),
            span.map(|i| [inside(i.low), inside(i.high)]),
        )
    };
    let shares = [
        (0.5, 1),
        (0.99, FOR_P99),
        (0.999, FOR_P999),
        (0.9999, FOR_P9999),
    ];
    let found = shares.map(|(p, fewest)| at(p, fewest));
    let tail = TAILS.into_iter().find(|(_, fewest)| operations >= *fewest);
    let tail = tail
        .filter(|_| operations < FOR_P99)
        .and_then(|(p, fewest)| {
            let (us, interval) = at(p, fewest);
            Some(Tail {
                percentile: 100.0 * p,
                us: us?,
                interval,
            })
        });
    let mean_interval = pooled.mean_interval(LEVEL, stats::RESAMPLES, seed);
    Some(LatencyUs {
        operations,
        min: us(least),
        mean: us(pooled.mean()?),
        mean_interval: mean_interval.map(|i| [us(i.low), us(i.high)]),
        p50: found[0].0?,
        p50_interval: found[0].1,
        p99: found[1].0,
        p99_interval: found[1].1,
        tail,
        p999: found[2].0,
        p999_interval: found[2].1,
        p9999: found[3].0,
        p9999_interval: found[3].1,
        max: us(max as f64),
        slower: SLOWER.map(|share| {
            let found = pooled.percentile(1.0 - share);
            found
                .filter(|_| share * operations as f64 >= BEYOND)
                .map(|ns| us((ns as f64).clamp(least, most)))
        }),
    })
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;

    fn trial(values: impl Iterator<Item = u64>) -> Trial {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for v in values {
            histogram.record(v).unwrap();
        }
        let bytes = stats::encode(&histogram).unwrap();
        let latency = Latency {
            min: histogram.min(),
            max: histogram.max(),
            histogram: STANDARD.encode(bytes),
            ..Latency::default()
        };
        Trial {
            latency: Some(latency),
            ..Trial::default()
        }
    }

    #[test]
    fn adds_trials_up_and_keeps_the_tail_honest() {
        let (a, b) = (
            trial((1..=500).map(|i| i * 1_000)),
            trial((501..=1_000).map(|i| i * 1_000)),
        );
        let both = merged([(0, &a), (0, &b)].into_iter(), 1).unwrap();
        assert_eq!(both.operations, 1_000);
        assert!((both.p50 - 500.0).abs() < 1.0 && (both.p99.unwrap() - 990.0).abs() < 2.0);
        assert_eq!((both.min, both.p999), (1.0, None));
        assert_eq!(
            merged([(0, &a)].into_iter(), 1).unwrap().p99,
            None,
            "500 operations have no p99"
        );
        let tail = |n| {
            merged([(0, &trial((1..=n).map(|i| i * 1_000)))].into_iter(), 1)
                .unwrap()
                .tail
        };
        let known = |n| tail(n).map(|t| (t.percentile, t.us.round()));
        assert_eq!(known(892), Some((98.0, 875.0)));
        assert_eq!(known(300), Some((95.0, 285.0)));
        assert_eq!((known(99), known(1_000)), (None, None));
        // Ten of 1,000 operations take longer than 990 us; fewer are not drawn.
        let slower: Vec<_> = SLOWER.into_iter().zip(both.slower).collect();
        for (share, us) in slower {
            let at = 1_000.0 * (1.0 - share);
            match us {
                Some(us) => assert!((us - at).abs() <= 2.0 && share >= 0.01, "{share}: {us}"),
                None => assert!(share < 0.01, "{share}"),
            }
        }
    }

    #[test]
    fn the_mean_has_an_interval_over_trials() {
        let trials: Vec<Trial> = (1..=6)
            .map(|i| trial((0..i * 100).map(move |_| i * 10_000)))
            .collect();
        let of = |n: usize, session: fn(u32) -> u32| {
            let numbered = (0..).map(session).zip(&trials);
            merged(numbered.take(n), 1).unwrap()
        };
        let all = of(6, |_| 0);
        let [low, high] = all.mean_interval.expect("six trials");
        assert!(low < all.mean && all.mean < high, "{all:?}");
        assert!(low > 10.0 && high < 60.0, "{all:?}");
        assert_eq!(of(5, |_| 0).mean_interval, None, "five are too few");
        let [low_by_session, high_by_session] = of(6, |at| at / 3).mean_interval.unwrap();
        let wider = high_by_session - low_by_session > high - low;
        assert!(wider, "what differs between sessions is not known better");
    }

    #[test]
    fn percentiles_have_one_too() {
        // Trial n takes n x 10 us per operation, but one operation in fifty takes ten times that.
        let trials: Vec<Trial> = (20..=30)
            .map(|us| trial((0..200).map(move |i| us * if i % 50 == 0 { 10_000 } else { 1_000 })))
            .collect();
        let found = merged(trials.iter().map(|t| (0, t)), 1).unwrap();
        let near = |[low, high]: [f64; 2], least: f64, centre: f64, most: f64| {
            assert!(
                least <= low && low <= centre && centre <= high && high <= most,
                "{found:?}"
            );
        };
        near(found.p50_interval.unwrap(), 20.0, found.p50, 30.0);
        let [low, high] = found.p50_interval.unwrap();
        assert!(high - low < 8.0, "narrower than all there is: {found:?}");
        near(
            found.p99_interval.unwrap(),
            200.0,
            found.p99.unwrap(),
            300.0,
        );
        assert_eq!((found.p999, found.p999_interval), (None, None));
        let few = merged(trials.iter().take(5).map(|t| (0, t)), 1).unwrap();
        assert!(few.p99.is_some() && few.p99_interval.is_none(), "{few:?}");
        assert_eq!(few.p50_interval, None, "five are too few");
    }

    #[test]
    fn rubbish_is_left_out() {
        let mut bad = trial([5].into_iter());
        bad.latency.as_mut().unwrap().histogram = "not base64!".into();
        assert_eq!(merged([(0, &bad)].into_iter(), 1), None);
        assert_eq!(merged(std::iter::empty(), 1), None);
        let good = trial([1_000_000].into_iter());
        let found = merged([(0, &bad), (0, &good)].into_iter(), 1).unwrap();
        assert!(
            (found.min - 1_000.0).abs() < 1.0 && found.operations == 1,
            "histograms keep three digits"
        );
    }
}
