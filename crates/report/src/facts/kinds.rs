//! Detects points whose operations are of two kinds: served from memory and from the device.

use layermark_model::{Latency, Trial};

use crate::{facts::latency::Histograms, types::TwoKinds};

/// Bins per octave in which operations are counted.
const STEPS: f64 = 4.0;
/// Smallest share of either kind.
const SHARE: f64 = 0.05;
/// Fewest operations of either kind.
const FEWEST: u64 = 20;
/// Smallest ratio of the slow kind's median to the quick kind's.
const APART: f64 = 4.0;
/// Largest count in the valley between the kinds, relative to the lower peak.
const VALLEY: f64 = 0.1;

/// The two peaks of the latencies of these trials, if there are two.
pub fn of(trials: &[&Trial]) -> Option<TwoKinds> {
    let all = trials.iter().filter_map(|t| t.latency.as_ref());
    humps(&steps(all))
}

/// Operations of about the same latency.
#[derive(Clone, Copy, Default)]
struct Bin {
    count: u64,
    /// Nanoseconds of all of them.
    sum: f64,
}

/// Operations by the logarithm of their latency: bin `n` is that of `2^(n / STEPS)` ns.
fn steps<'a>(all: impl Iterator<Item = &'a Latency>) -> Vec<Bin> {
    let mut bins = Vec::new();
    let mut histograms = Histograms::default();
    for operations in all.filter_map(|latency| histograms.read(latency)) {
        for (value, count) in operations.counts {
            let ns = value.max(1) as f64;
            let at = (ns.log2() * STEPS) as usize;
            if bins.len() <= at {
                bins.resize(at + 1, Bin::default());
            }
            bins[at].count += count;
            bins[at].sum += ns * count as f64;
        }
    }
    bins
}

fn humps(bins: &[Bin]) -> Option<TwoKinds> {
    let counts: Vec<u64> = bins.iter().map(|b| b.count).collect();
    let total: u64 = counts.iter().sum();
    let least = FEWEST.max((total as f64 * SHARE).ceil() as u64);
    let sum = |part: &[u64]| part.iter().sum::<u64>();
    let peak = |part: &[u64]| part.iter().copied().max().unwrap_or(0);
    // A single empty bin is not a valley, so its neighbours are included.
    let valley = |at: usize| peak(&counts[at - 1..(at + 2).min(counts.len())]);
    let parts = |at: &usize| {
        let (quick, slow) = counts.split_at(*at);
        let enough = sum(quick).min(sum(slow)) >= least;
        enough && valley(*at) as f64 <= VALLEY * peak(quick).min(peak(slow)) as f64
    };
    let places: Vec<usize> = (1..counts.len()).filter(parts).collect();
    // The bin with the fewest operations; of several such bins, the middle one.
    let deepest = places.iter().map(|at| valley(*at)).min()?;
    let deepest: Vec<usize> = places
        .into_iter()
        .filter(|at| valley(*at) == deepest)
        .collect();
    let at = deepest[deepest.len() / 2];
    let kinds = TwoKinds {
        operations: total,
        quick: sum(&counts[..at]),
        quick_us: middle(&bins[..at]),
        slow_us: middle(&bins[at..]),
    };
    (kinds.slow_us >= APART * kinds.quick_us).then_some(kinds)
}

/// Mean of the operations in the bin of the median, microseconds.
fn middle(bins: &[Bin]) -> f64 {
    let half = bins.iter().map(|b| b.count).sum::<u64>().div_ceil(2);
    let mut seen = 0;
    let bin = bins.iter().find(|bin| {
        seen += bin.count;
        seen >= half
    });
    bin.map_or(0.0, |bin| bin.sum / bin.count.max(1) as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{statements::remarks, types::ServedBy, words};

    /// This many operations with about this many nanoseconds each.
    fn bins(parts: &[(u64, u64)]) -> Vec<Bin> {
        let mut bins = vec![Bin::default(); 100];
        for (many, ns) in parts {
            let at = ((*ns as f64).log2() * STEPS) as usize;
            // A peak has slopes.
            for (at, tenths) in [(at, 6), (at - 1, 2), (at + 1, 2)] {
                let count = many * tenths / 10;
                bins[at].count += count;
                bins[at].sum += (count * ns) as f64;
            }
        }
        bins
    }

    #[test]
    fn two_humps_are_told_apart_with_how_many_are_in_each() {
        let found = humps(&bins(&[(2500, 700), (7500, 110_000)])).expect("two humps");
        assert_eq!((found.operations, found.quick), (10_000, 2500));
        // As they were measured, not the middle of a bin.
        assert_eq!((found.quick_us, found.slow_us), (0.7, 110.0));
    }

    #[test]
    fn a_row_says_it_but_not_of_a_file_that_is_read_in_order() {
        let (run, trials) = layermark_testkit::sample::Sample::default().build();
        let report = crate::Report::build(&run, &trials);
        let mut row = report.results[0].clone();
        row.two_kinds = humps(&bins(&[(2500, 700), (7500, 110_000)]));
        let mut said = |in_order, served, share| {
            row.meaning.in_order = in_order;
            (row.served_by, row.device_share) = (served, Some(share));
            remarks::two_kinds(&row).map(|r| words::said(&r))
        };
        let random = said(false, Some(ServedBy::Device), 1.0).expect("words");
        assert!(
            random.starts_with("operations of two kinds: 2500 of 10000 (25 %) came from memory"),
            "{random}"
        );
        assert_eq!(said(true, Some(ServedBy::Device), 1.0), None);
        assert!(said(true, Some(ServedBy::Mixed), 0.7).is_some());
        assert_eq!(said(false, Some(ServedBy::HostMemory), 0.0), None);
        assert_eq!(said(false, None, 1.0), None);
        row.two_kinds = None;
        (row.served_by, row.device_share) = (Some(ServedBy::Mixed), Some(0.76));
        let words = words::said(&remarks::two_kinds(&row).expect("a remark"));
        assert_eq!(words, "about 24 % of the data came from memory");
    }

    #[test]
    fn one_hump_is_one_kind() {
        for parts in [
            vec![(10_000, 110_000)],
            // A tail: 1 % take long.
            vec![(9_900, 700), (100, 110_000)],
            // A factor of two is not another kind.
            vec![(5_000, 50_000), (5_000, 110_000)],
            // Without a valley between them.
            (0..30).map(|i| (1_000, 700 << (i / 3))).collect(),
            // Too few to decide.
            vec![(15, 700), (15, 110_000)],
            Vec::new(),
        ] {
            assert_eq!(humps(&bins(&parts)), None, "{parts:?}");
        }
    }
}
