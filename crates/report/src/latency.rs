//! Latency over all trials of a point, from their histograms.

use std::io::Cursor;

use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};
use layermark_model::Trial;

use crate::types::LatencyUs;

/// Fewest operations for a 99th percentile.
const FOR_P99: u64 = 1_000;
/// Fewest operations for a 99.9th percentile.
const FOR_P999: u64 = 10_000;

/// Adds the histograms up. `None` when no trial has a readable one.
pub fn merged<'a>(trials: impl Iterator<Item = &'a Trial>) -> Option<LatencyUs> {
    let mut reader = Deserializer::new();
    let mut sum = Histogram::<u64>::new(3).ok()?;
    let (mut min, mut max) = (u64::MAX, 0);
    for latency in trials.filter_map(|t| t.latency.as_ref()) {
        let bytes = STANDARD.decode(&latency.histogram).ok();
        let one: Option<Histogram<u64>> =
            bytes.and_then(|b| reader.deserialize(&mut Cursor::new(b)).ok());
        if one.is_none_or(|one| sum.add(&one).is_err()) {
            continue;
        }
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
        p50: at(0.5),
        p99: (sum.len() >= FOR_P99).then(|| at(0.99)),
        p999: (sum.len() >= FOR_P999).then(|| at(0.999)),
        max: us(max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use layermark_model::Latency;

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
        let both = merged([&a, &b].into_iter()).unwrap();
        assert_eq!(both.operations, 1_000);
        assert!((both.p50 - 500.0).abs() < 1.0 && (both.p99.unwrap() - 990.0).abs() < 2.0);
        assert_eq!((both.min, both.p999), (1.0, None));
        assert_eq!(
            merged([&a].into_iter()).unwrap().p99,
            None,
            "500 operations have no p99"
        );
    }

    #[test]
    fn rubbish_is_left_out() {
        let mut bad = trial([5].into_iter());
        bad.latency.as_mut().unwrap().histogram = "not base64!".into();
        assert_eq!(merged([&bad].into_iter()), None);
        assert_eq!(merged(std::iter::empty()), None);
        let good = trial([1_000_000].into_iter());
        let found = merged([&bad, &good].into_iter()).unwrap();
        assert!(
            (found.min - 1_000.0).abs() < 1.0 && found.operations == 1,
            "histograms keep three digits"
        );
    }
}
