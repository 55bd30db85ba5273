//! Rare operations that take much longer than the others: how many, and how long.

use std::collections::BTreeMap;

use layermark_model::{Trial, flags};

use crate::{
    facts::latency::Histograms,
    types::{Average, ResultRow, SlowOperations, Stalls, Verdict},
};

/// Smallest ratio of a slow operation's time to the median.
const AT_LEAST: f64 = 2.0;
/// Share of the mean's excess over the median that the slow operations have to explain.
const EXPLAINED: f64 = 0.5;
/// Operations by latency, nanoseconds.
type Counts = BTreeMap<u64, u64>;

/// The slow operations of a layer and of the baseline in the same rounds. `None` without latencies, or if
/// no few operations explain the difference between average and typical time.
pub fn find<'a>(
    here: impl Iterator<Item = &'a Trial>,
    native: impl Iterator<Item = &'a Trial>,
    layer_stalls: bool,
) -> Option<Stalls> {
    let (here, native) = (counts(here), counts(native));
    let least = slow_from(if layer_stalls { &here } else { &native })?;
    Some(Stalls {
        here: slow(&here, least)?,
        native: slow(&native, least)?,
    })
}

fn counts<'a>(trials: impl Iterator<Item = &'a Trial>) -> Counts {
    let mut histograms = Histograms::default();
    let mut counts = Counts::new();
    for latency in trials.filter_map(|t| t.latency.as_ref()) {
        let Some(operations) = histograms.read(latency) else {
            continue;
        };
        for (value, count) in operations.counts {
            let value = value.min(latency.max.max(1));
            *counts.entry(value).or_default() += count;
        }
    }
    counts
}

/// The shortest of the slow operations. They lie beyond the widest gap of the logarithms. Only gaps
/// count beyond which at least half of the mean's excess over the median lies.
fn slow_from(counts: &Counts) -> Option<u64> {
    let operations: u64 = counts.values().sum();
    let mut so_far = 0;
    let (median, _) = counts.iter().find(|(_, n)| {
        so_far += **n;
        2 * so_far >= operations
    })?;
    let median = *median as f64;
    let excess = |(value, n): (&u64, &u64)| (*value as f64 - median) * *n as f64;
    let wanted = EXPLAINED * counts.iter().map(excess).sum::<f64>();
    if wanted <= 0.0 {
        return None;
    }
    let mut behind = 0.0;
    let mut widest: Option<(f64, u64)> = None;
    let falling = counts.iter().rev();
    for (slow, quick) in falling.clone().zip(falling.skip(1)) {
        behind += excess(slow);
        if (*slow.0 as f64) < AT_LEAST * median {
            break;
        }
        let gap = *slow.0 as f64 / (*quick.0).max(1) as f64;
        if behind >= wanted && widest.is_none_or(|(most, _)| gap > most) {
            widest = Some((gap, *slow.0));
        }
    }
    widest.map(|(_, least)| least)
}

fn slow(counts: &Counts, least: u64) -> Option<SlowOperations> {
    let us = |ns: u64| ns as f64 / 1e3;
    let mut slow = counts.range(least..);
    let longest_other = counts.range(..least).next_back().map(|(ns, _)| us(*ns));
    let ends = slow.clone().next().zip(slow.clone().next_back());
    let count: u64 = slow.clone().map(|(_, n)| n).sum();
    let mut so_far = 0;
    let middle = slow.find(|(_, n)| {
        so_far += **n;
        2 * so_far >= count
    });
    let operations: u64 = counts.values().sum();
    (operations > 0).then(|| SlowOperations {
        operations,
        slow: count,
        slow_us: ends
            .zip(middle)
            .map(|(((least, _), (most, _)), (middle, _))| [us(*least), us(*middle), us(*most)]),
        longest_other_us: longest_other,
    })
}

/// The sign after a ratio whose average differs from the typical one.
pub const SIGN: &str = "^";

/// The sign of a row with stalls, or empty.
pub fn sign(row: &ResultRow) -> &'static str {
    let shown = row.has_stalls() && row.verdict != Verdict::Untrusted;
    if shown { SIGN } else { "" }
}

/// A stall that the older run did not have. The change of the average must differ from that of the
/// typical time by more than 10 %.
pub fn change(old: &ResultRow, new: &ResultRow, typical: f64) -> Option<Average> {
    if old.has_stalls() || !new.has_stalls() {
        return None;
    }
    let log = |row: &ResultRow| {
        let average = row.ratio?.average?;
        let [low, high] = average.interval?.map(f64::ln);
        Some((average.estimate.ln(), (high - low) / 2.0))
    };
    let ((old, error), (new, more)) = (log(old)?, log(new)?);
    let reach = error.hypot(more);
    let average = Average {
        estimate: (new - old).exp(),
        interval: Some([(new - old - reach).exp(), (new - old + reach).exp()]),
    };
    let beyond = typical * (1.0 + layermark_stats::STALLS_BEYOND);
    ((new - old - reach).exp() > beyond).then_some(average)
}

/// Marks a result whose average differs from its typical time.
pub fn mark(row: &mut ResultRow, stalls: Option<Stalls>) {
    row.stalls = stalls;
    row.flag_counts.insert(flags::STALLS.to_owned(), row.trials);
    row.flags = row.flag_counts.keys().cloned().collect();
}

/// Removes the mark.
pub fn unmark(row: &mut ResultRow) {
    row.stalls = None;
    row.flag_counts.remove(flags::STALLS);
    row.flags = row.flag_counts.keys().cloned().collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{statements::remarks::Remark, types::Estimate, words::said};

    fn told(stalls: Stalls) -> String {
        let [typical, average] = [1.0, 2.0].map(|ratio| Estimate::new(ratio, None));
        said(&Remark::Stalls(typical, average, Some(stalls)))
    }

    fn of(values: &[(u64, u64)]) -> Counts {
        values.iter().map(|(us, n)| (us * 1_000, *n)).collect()
    }

    #[test]
    fn the_slow_ones_lie_behind_the_widest_gap() {
        let layer = of(&[
            (350, 400),
            (400, 400),
            (900, 60),
            (1_500, 14),
            (20_000, 10),
            (20_100, 8),
        ]);
        let least = slow_from(&layer).expect("stalls");
        assert_eq!(least, 20_000_000);
        let native = of(&[(280, 500), (300, 400), (1_500, 3)]);
        let stalls = Stalls {
            here: slow(&layer, least).unwrap(),
            native: slow(&native, least).unwrap(),
        };
        assert_eq!(
            told(stalls),
            "usually 1.00x; 2.0x on average: 2 % of its operations take 20 ms, native's none above 1.50 ms"
        );
        let turned = Stalls {
            here: slow(&native, least).unwrap(),
            native: slow(&of(&[(300, 990), (15_000, 6), (40_000, 4)]), 15_000_000).unwrap(),
        };
        assert_eq!(
            told(turned),
            "usually 1.00x; 2.0x on average: 1 % of native's operations take 15.0 to 40.0 ms, its own none above 1.50 ms"
        );
    }

    #[test]
    fn what_is_no_longer_than_usual_is_not_slow() {
        assert_eq!(slow_from(&of(&[(300, 500), (330, 500), (550, 3)])), None);
        assert_eq!(slow_from(&of(&[(300, 1)])), None);
        assert_eq!(slow_from(&Counts::new()), None);
        // Each takes 8 % longer, so no few explain the mean.
        assert_eq!(
            slow_from(&of(&[(324, 500), (350, 400), (400, 100), (700, 1)])),
            None
        );
    }
}
