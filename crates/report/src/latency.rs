//! Latency over all trials of a point, from their histograms.

use std::{collections::BTreeMap, io::Cursor};

use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};
use layermark_model::{Latency, Trial};
use layermark_stats as stats;

use crate::{results::LEVEL, types::LatencyUs};

/// Fewest operations for a 99th percentile.
const FOR_P99: u64 = 1_000;
/// Fewest operations for a 99.9th percentile.
const FOR_P999: u64 = 10_000;
/// Fewest operations for a 99.99th percentile.
const FOR_P9999: u64 = 100_000;

/// Adds the histograms of trials up, each with its session. `None` when no trial has a readable one.
/// `seed` draws the bootstrap.
pub fn merged<'a>(trials: impl Iterator<Item = (u32, &'a Trial)>, seed: u64) -> Option<LatencyUs> {
    of(
        trials.filter_map(|(session, t)| Some((session, t.latency.as_ref()?))),
        seed,
    )
}

/// The same of latencies that were picked already.
pub fn of<'a>(all: impl Iterator<Item = (u32, &'a Latency)>, seed: u64) -> Option<LatencyUs> {
    let mut reader = Deserializer::new();
    let mut sum = Histogram::<u64>::new(3).ok()?;
    let (mut min, mut max) = (u64::MAX, 0);
    let mut each: BTreeMap<u32, Vec<Part>> = BTreeMap::new();
    for (session, latency) in all {
        let bytes = STANDARD.decode(&latency.histogram).ok();
        let one: Option<Histogram<u64>> =
            bytes.and_then(|b| reader.deserialize(&mut Cursor::new(b)).ok());
        let Some(one) = one.filter(|one| sum.add(one).is_ok()) else {
            continue;
        };
        let operations = one.len() as f64;
        each.entry(session).or_default().push(Part {
            sum: one.mean() * operations,
            operations,
        });
        // The probe keeps the extremes exactly; a histogram rounds them.
        min = min.min(latency.min);
        max = max.max(latency.max);
    }
    if sum.is_empty() {
        return None;
    }
    let us = |ns: u64| ns as f64 / 1e3;
    let at = |quantile: f64| us(sum.value_at_quantile(quantile).clamp(min, max.max(min)));
    Some(LatencyUs {
        operations: sum.len(),
        min: us(min),
        mean: sum.mean() / 1e3,
        mean_interval: mean_interval(each, seed),
        p50: at(0.5),
        p99: (sum.len() >= FOR_P99).then(|| at(0.99)),
        p999: (sum.len() >= FOR_P999).then(|| at(0.999)),
        p9999: (sum.len() >= FOR_P9999).then(|| at(0.9999)),
        max: us(max),
    })
}

/// What a trial adds to the mean of all operations.
struct Part {
    /// Nanoseconds of all its operations.
    sum: f64,
    operations: f64,
}

/// The mean of all operations is a ratio of two sums over trials, so what is drawn are trials: the
/// bootstrap sees their places.
fn mean_interval(sessions: BTreeMap<u32, Vec<Part>>, seed: u64) -> Option<[f64; 2]> {
    let mut parts = Vec::new();
    let mut places: Vec<Vec<f64>> = Vec::new();
    for session in sessions.into_values() {
        let first = parts.len();
        parts.extend(session);
        places.push((first..parts.len()).map(|at| at as f64).collect());
    }
    let mean = |drawn: &[f64]| {
        let drawn = drawn.iter().map(|at| &parts[*at as usize]);
        let (ns, operations) = drawn.fold((0.0, 0.0), |(ns, n), p| (ns + p.sum, n + p.operations));
        ns / operations
    };
    stats::bca(&places, mean, LEVEL, stats::RESAMPLES, seed).map(|i| [i.low / 1e3, i.high / 1e3])
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{Serializer, V2Serializer};

    fn trial(values: impl Iterator<Item = u64>) -> Trial {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for v in values {
            histogram.record(v).unwrap();
        }
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&histogram, &mut bytes)
            .unwrap();
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
