//! How evenly threads progressed.

use layermark_model::{ThreadRates, Trial};
use layermark_stats::median;

use crate::types::ThreadsRow;

/// Medians over the trials that had several threads.
pub fn of(trials: &[&Trial]) -> Option<ThreadsRow> {
    let all: Vec<&ThreadRates> = trials.iter().filter_map(|t| t.threads.as_ref()).collect();
    let middle = |of: fn(&ThreadRates) -> f64| {
        let each: Vec<f64> = all.iter().map(|r| of(r)).collect();
        median(&each)
    };
    Some(ThreadsRow {
        count: all.first()?.each.len(),
        slowest: middle(ThreadRates::slowest)?,
        mean: middle(ThreadRates::mean)?,
        fastest: middle(ThreadRates::fastest)?,
        stonewall: middle(|r| r.stonewall)?,
        least_done: middle(|r| r.least_done)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_trials_that_had_threads() {
        let trial = |slowest| Trial {
            threads: Some(ThreadRates {
                each: vec![3e9, slowest],
                stonewall: 4e9,
                least_done: 0.5,
            }),
            ..Trial::default()
        };
        assert_eq!(of(&[&Trial::default()]), None);
        let (a, b, c) = (trial(1e9), trial(2e9), trial(1.5e9));
        let row = of(&[&a, &b, &c, &Trial::default()]).unwrap();
        assert_eq!((row.count, row.slowest, row.fastest), (2, 1.5e9, 3e9));
        assert_eq!((row.mean, row.stonewall), (2.25e9, 4e9));
        let text = crate::words::said(&row);
        for part in ["2 threads", "1.50 GB/s", "3.00 GB/s", "50 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
