//! Costs over sizes, each measured in many blocks: a line fitted to them, and the best size to
//! choose.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    Interval, Line, Pair, bootstrap::interval_exists, fit_line, median, robust::quantile_of_sorted,
};

/// Number of resamples for a curve. Each needs a fit, and only percentiles are taken.
pub const CURVE_RESAMPLES: usize = 999;

/// One size and its cost in each block.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The size, such as bytes of a record; above 0.
    pub size: f64,
    /// Cost of an operation of this size in each block, in the layer and natively; above 0. For a
    /// layer without a baseline, both are the same.
    pub pairs: Vec<Pair>,
}

/// A number and its interval; `None` below six blocks at some size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    /// The number.
    pub estimate: f64,
    /// Its percentile interval over resamples of sessions, then blocks.
    pub interval: Option<Interval>,
}

/// The lines of a layer and of native, and what the layer adds.
#[derive(Clone, Debug, PartialEq)]
pub struct CostLine {
    /// The layer's line through the medians of its blocks.
    pub layer: Line,
    /// The line of native.
    pub native: Line,
    /// Cost of an operation of size 0 in the layer.
    pub fixed: Read,
    /// Cost per unit of size in the layer.
    pub slope: Read,
    /// `fixed` minus native's.
    pub extra_fixed: Read,
    /// `slope` minus native's.
    pub extra_slope: Read,
}

/// Fits [`fit_line`] to a layer and to native at the medians of their blocks.
///
/// Intervals are percentiles of the fits to resamples. Sessions are drawn with replacement, and
/// within them blocks, for each size separately. Layer and native of a block stay together, so that
/// shared noise does not widen the difference. Intervals need six blocks at each size.
/// `None` if [`fit_line`] returns none. Deterministic for a `seed`.
pub fn cost_line(steps: &[Step], level: f64, resamples: usize, seed: u64) -> Option<CostLine> {
    let sizes: Vec<f64> = steps.iter().map(|s| s.size).collect();
    let both = |centres: &[(f64, f64)]| {
        let (layer, native): (Vec<f64>, Vec<f64>) = centres.iter().copied().unzip();
        Some((fit_line(&sizes, &layer)?, fit_line(&sizes, &native)?))
    };
    let (layer, native) = both(&centres(steps)?)?;
    let values = |(l, n): (Line, Line)| [l.fixed, l.slope, l.fixed - n.fixed, l.slope - n.slope];
    let mut replicates: [Vec<f64>; 4] = Default::default();
    if enough(steps, level) {
        let mut draw = Draw::new(steps, seed);
        for _ in 0..resamples {
            let fits = both(&draw.centres()?)?;
            for (all, value) in replicates.iter_mut().zip(values(fits)) {
                all.push(value);
            }
        }
    }
    let mut reads = values((layer, native))
        .into_iter()
        .zip(replicates)
        .map(|(estimate, all)| Read {
            estimate,
            interval: percentiles(all, level),
        });
    Some(CostLine {
        layer,
        native,
        fixed: reads.next()?,
        slope: reads.next()?,
        extra_fixed: reads.next()?,
        extra_slope: reads.next()?,
    })
}

/// The smallest size that is nearly as good as the best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Index of the smallest step whose cost per unit of size is within the limit.
    pub step: usize,
    /// Index of the step with the lowest cost per unit of size.
    pub best: usize,
    /// The range of `step` in resamples, as indexes; `None` below six blocks at some size.
    pub between: Option<(usize, usize)>,
}

/// Chooses the smallest size whose cost per unit of size is at most `limit` (such as 1.05) times
/// that of the best. The cost is the median over blocks of [`Pair::layer`].
///
/// `steps` are in rising order of size. The interval is of resamples as in [`cost_line`]. `None`
/// without steps, or if a step has no usable number.
pub fn choose_size(
    steps: &[Step],
    limit: f64,
    level: f64,
    resamples: usize,
    seed: u64,
) -> Option<Choice> {
    let pick = |centres: &[(f64, f64)]| {
        let each: Vec<f64> = centres
            .iter()
            .zip(steps)
            .map(|((cost, _), step)| cost / step.size)
            .collect();
        let best = (0..each.len()).min_by(|a, b| each[*a].total_cmp(&each[*b]))?;
        let step = each.iter().position(|cost| *cost <= limit * each[best])?;
        Some((step, best))
    };
    let (step, best) = pick(&centres(steps)?)?;
    let mut chosen = Vec::new();
    if enough(steps, level) {
        let mut draw = Draw::new(steps, seed);
        for _ in 0..resamples {
            chosen.push(pick(&draw.centres()?)?.0);
        }
    }
    chosen.sort_unstable();
    let tail = (1.0 - level) / 2.0 * chosen.len() as f64;
    let between = (!chosen.is_empty()).then(|| {
        let low = tail.floor() as usize;
        let high = chosen.len() - 1 - low;
        (chosen[low].min(step), chosen[high].max(step))
    });
    Some(Choice {
        step,
        best,
        between,
    })
}

/// Median cost in the layer and natively at each size.
fn centres(steps: &[Step]) -> Option<Vec<(f64, f64)>> {
    steps.iter().map(|s| centre(&s.pairs)).collect()
}

fn centre(pairs: &[Pair]) -> Option<(f64, f64)> {
    let of = |value: fn(&Pair) -> f64| {
        let values: Vec<f64> = pairs.iter().map(value).collect();
        median(&values).filter(|m| *m > 0.0)
    };
    Some((of(|p| p.layer)?, of(|p| p.native)?))
}

fn enough(steps: &[Step], level: f64) -> bool {
    steps.iter().all(|s| interval_exists(s.pairs.len(), level))
}

fn percentiles(mut values: Vec<f64>, level: f64) -> Option<Interval> {
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    Some(Interval {
        low: quantile_of_sorted(&values, tail),
        high: quantile_of_sorted(&values, 1.0 - tail),
    })
}

/// Draws sessions, then blocks.
struct Draw<'a> {
    steps: &'a [Step],
    sessions: Vec<u32>,
    rng: ChaCha8Rng,
}

impl<'a> Draw<'a> {
    fn new(steps: &'a [Step], seed: u64) -> Self {
        let mut sessions: Vec<u32> = steps
            .iter()
            .flat_map(|s| s.pairs.iter().map(|p| p.session))
            .collect();
        sessions.sort_unstable();
        sessions.dedup();
        Self {
            steps,
            sessions,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    fn centres(&mut self) -> Option<Vec<(f64, f64)>> {
        let count = self.sessions.len();
        let drawn: Vec<u32> = (0..count)
            .map(|_| self.sessions[self.rng.random_range(0..count)])
            .collect();
        let mut all = Vec::with_capacity(self.steps.len());
        let mut pairs = Vec::new();
        for step in self.steps {
            pairs.clear();
            for session in &drawn {
                let own: Vec<&Pair> = step
                    .pairs
                    .iter()
                    .filter(|p| p.session == *session)
                    .collect();
                pairs.extend((0..own.len()).map(|_| *own[self.rng.random_range(0..own.len())]));
            }
            // A size that none of these sessions measured keeps its values.
            let from: &[Pair] = if pairs.is_empty() {
                &step.pairs
            } else {
                &pairs
            };
            all.push(centre(from)?);
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Costs of `fixed + slope * size`, with shared noise and some separate noise.
    fn steps(blocks: u32, layer: (f64, f64), native: (f64, f64)) -> Vec<Step> {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut noise = |size: f64| 1.0 + size * (rng.random::<f64>() - 0.5);
        (5..15)
            .map(|i| {
                let size = f64::from(1 << i);
                let pair = |block| {
                    let common = noise(0.1);
                    let layer = (layer.0 + layer.1 * size) * common * noise(0.04);
                    let native = (native.0 + native.1 * size) * common * noise(0.04);
                    Pair::new((block / 4, block), layer, native)
                };
                Step {
                    size,
                    pairs: (0..blocks).map(pair).collect(),
                }
            })
            .collect()
    }

    #[test]
    fn the_cost_of_a_layer_is_recovered() {
        let line = cost_line(&steps(12, (2_000.0, 0.4), (500.0, 0.1)), 0.95, 400, 1).unwrap();
        for (read, truth) in [
            (line.fixed, 2_000.0),
            (line.slope, 0.4),
            (line.extra_fixed, 1_500.0),
            (line.extra_slope, 0.3),
        ] {
            let interval = read.interval.unwrap();
            assert!(interval.contains(truth), "{read:?} without {truth}");
            assert!(interval.width() < 0.2 * truth, "{read:?}");
        }
        assert!(line.layer.worst < 0.1);
    }

    #[test]
    fn few_blocks_have_no_interval() {
        let line = cost_line(&steps(5, (2_000.0, 0.4), (500.0, 0.1)), 0.95, 100, 1).unwrap();
        assert!(line.fixed.interval.is_none());
        assert!((line.fixed.estimate / 2_000.0 - 1.0).abs() < 0.1);
        let choice = choose_size(&steps(5, (900.0, 1.0), (900.0, 1.0)), 1.05, 0.95, 99, 1);
        assert_eq!(choice.unwrap().between, None);
        assert!(cost_line(&[], 0.95, 100, 1).is_none());
    }

    #[test]
    fn the_smallest_size_within_the_limit_is_chosen() {
        // 900/x + 1 <= 1.05 (900/16384 + 1) from x = 8,374 on: the step of 16,384.
        let all = steps(12, (900.0, 1.0), (900.0, 1.0));
        let choice = choose_size(&all, 1.05, 0.95, 400, 1).unwrap();
        assert_eq!(choice.best, 9);
        let (low, high) = choice.between.unwrap();
        assert!(low <= choice.step && choice.step <= high && high - low <= 1);
        assert!((8..=9).contains(&choice.step), "{choice:?}");
        // With a looser limit 900/x + 1 <= 1.5 * 1.055 from x = 1,546 on.
        let loose = choose_size(&all, 1.5, 0.95, 400, 1).unwrap();
        assert!((all[loose.step].size - 2_048.0).abs() < 1e-9);
        assert!(choose_size(&[], 1.05, 0.95, 99, 1).is_none());
    }
}
