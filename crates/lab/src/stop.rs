//! When enough is known: on precision, never on significance.

use std::collections::BTreeMap;

use layermark_stats::{Interval, Pair, compare};

use crate::tally::Tally;

/// No run has more blocks than this, however wide an interval stays.
pub const MAX_BLOCKS: u32 = 200;

/// Level of the intervals whose width is looked at.
pub(crate) const LEVEL: f64 = 0.95;

/// A point that fails so often in a row in a layer is left out there.
pub(crate) const MAX_FAILURES: u32 = 3;

/// What is known about one point in one layer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Known {
    /// Pairs at the last look.
    pub n: usize,
    /// Half-width of the interval of the log ratio at the last look that had one.
    pub half_width: Option<f64>,
    /// Known well enough.
    pub settled: bool,
    /// Failed too often.
    pub given_up: bool,
}

/// Looks at the data, at the numbers of pairs laid down beforehand.
pub(crate) struct Stopping {
    precision: f64,
    fewest: usize,
    /// Blocks that the plan asks for, whatever the precision.
    fixed: Option<usize>,
    seed: u64,
    known: BTreeMap<(usize, usize), Known>,
}

impl Stopping {
    /// The number of comparisons sets the fewest blocks at which a verdict can be reached at all.
    pub(crate) fn new(precision: f64, comparisons: usize, seed: u64) -> Self {
        let fewest = layermark_stats::blocks_for_holm(comparisons).min(MAX_BLOCKS as usize);
        Self {
            precision,
            fewest,
            fixed: None,
            seed,
            known: BTreeMap::new(),
        }
    }

    /// Exactly so many blocks, if the plan says so.
    pub(crate) fn fixed(mut self, blocks: Option<u32>) -> Self {
        self.fixed = blocks.map(|n| n as usize);
        self.fewest = self.fixed.unwrap_or(self.fewest);
        self
    }

    /// Blocks that every point gets if time allows.
    pub(crate) fn fewest(&self) -> usize {
        self.fewest
    }

    pub(crate) fn known(&self, layer: usize, point: usize) -> Known {
        self.known.get(&(layer, point)).copied().unwrap_or_default()
    }

    /// Nothing more is to be learnt, or can be.
    pub(crate) fn is_done(&self, layer: usize, point: usize) -> bool {
        let known = self.known(layer, point);
        known.settled || known.given_up
    }

    /// Looks at one point in one layer after a block; what changed, if anything did.
    pub(crate) fn look(&mut self, tally: &Tally, layer: usize, point: usize) -> Change {
        let known = self.known.entry((layer, point)).or_default();
        if known.settled || known.given_up {
            return Change::None;
        }
        let failures = tally.failures(layer, point).max(tally.failures(0, point));
        if failures >= MAX_FAILURES {
            known.given_up = true;
            return Change::GivenUp;
        }
        let pairs = tally.pairs(layer, point);
        if pairs.len() == known.n || !layermark_stats::is_look(pairs.len()) {
            return Change::None;
        }
        known.n = pairs.len();
        let Some(interval) = log_interval(&pairs, self.precision, self.seed) else {
            return Change::None;
        };
        known.half_width = Some(interval.half_width());
        known.settled = self.fixed.is_none()
            && known.n >= self.fewest
            && layermark_stats::reached(interval, self.precision);
        if known.settled {
            Change::Settled(*known)
        } else {
            Change::None
        }
    }

    /// Blocks a point in a layer will have had in the end, by what is known now.
    pub(crate) fn expected(&self, layer: usize, point: usize) -> usize {
        if let Some(blocks) = self.fixed {
            return blocks;
        }
        let known = self.known(layer, point);
        let wanted = self.precision.ln_1p();
        let needed = known.half_width.map_or(0, |now| {
            layermark_stats::blocks_needed(known.n, now, wanted)
        });
        needed.max(self.fewest).min(MAX_BLOCKS as usize)
    }
}

/// What a look brought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    None,
    Settled(Known),
    GivenUp,
}

/// The interval of the log ratio. The whole comparison, which can only widen it, is made only where
/// the quick interval is narrow enough, because it resamples.
fn log_interval(pairs: &[Pair], precision: f64, seed: u64) -> Option<Interval> {
    let d: Vec<f64> = pairs.iter().map(|p| p.layer.ln() - p.native.ln()).collect();
    let quick = layermark_stats::signed_rank_interval(&d, LEVEL)?;
    if !layermark_stats::reached(quick, precision) {
        return Some(quick);
    }
    compare(pairs, LEVEL, seed)?.ratio_interval.map(|i| i.ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::{Cell, Pass, Trial, TrialRecord};

    /// A tally of one point in two layers, whose ratio swings by `noise`.
    fn tally(blocks: u32, ratio: f64, noise: f64) -> Tally {
        let mut tally = Tally::default();
        for block in 0..blocks {
            let swing = noise * (f64::from(block * 37 % 11) / 5.0 - 1.0);
            for (layer, ns) in [(0, 1e6), (1, 1e6 * ratio * (1.0 + swing))] {
                tally.add(&TrialRecord {
                    seq: 0,
                    cell: Cell {
                        session: 0,
                        block,
                        layer,
                        point: 0,
                    },
                    at_ms: 0,
                    trial: Some(Trial {
                        passes: vec![Pass {
                            elapsed_ns: ns as u64,
                            ops: 1,
                            bytes: 0,
                        }],
                        ..Trial::default()
                    }),
                    error: None,
                    upkeep_ns: 0,
                    foreign_cpu: 0.0,
                    steal: 0.0,
                    backing_resident: None,
                    flags: Vec::new(),
                });
            }
        }
        tally
    }

    #[test]
    fn settles_only_at_a_look_and_not_before_a_verdict_is_attainable() {
        let mut stopping = Stopping::new(0.05, 1, 1);
        assert_eq!(stopping.look(&tally(5, 2.0, 0.0), 1, 0), Change::None);
        assert!(matches!(stopping.look(&tally(6, 2.0, 0.0), 1, 0), Change::Settled(k) if k.n == 6));
        assert!(stopping.is_done(1, 0));
        // Twelve comparisons: 2^(1-8) is above 0.05 / 12, so 11 blocks are the fewest.
        let mut stopping = Stopping::new(0.05, 12, 1);
        assert_eq!(stopping.fewest(), 11);
        for blocks in 6..11 {
            assert_eq!(
                stopping.look(&tally(blocks, 2.0, 0.0), 1, 0),
                Change::None,
                "{blocks}"
            );
        }
        assert!(matches!(
            stopping.look(&tally(11, 2.0, 0.0), 1, 0),
            Change::Settled(_)
        ));
    }

    #[test]
    fn a_fixed_number_of_blocks_is_not_cut_short_by_precision() {
        let mut stopping = Stopping::new(0.05, 1, 1).fixed(Some(30));
        assert_eq!(stopping.look(&tally(8, 2.0, 0.0), 1, 0), Change::None);
        assert!(!stopping.is_done(1, 0));
        assert_eq!((stopping.fewest(), stopping.expected(1, 0)), (30, 30));
    }

    #[test]
    fn a_wide_interval_goes_on_and_says_for_how_long() {
        let mut stopping = Stopping::new(0.05, 1, 1);
        assert_eq!(stopping.look(&tally(8, 1.0, 0.4), 1, 0), Change::None);
        let known = stopping.known(1, 0);
        assert!(known.n == 8 && known.half_width.is_some_and(|w| w > 0.05) && !known.settled);
        assert!(stopping.expected(1, 0) > 8 && stopping.expected(1, 0) <= 200);
        assert_eq!(
            stopping.expected(1, 9),
            6,
            "an unknown point gets the fewest"
        );
    }

    #[test]
    fn a_point_that_only_fails_is_given_up() {
        let mut broken = Tally::default();
        for block in 0..MAX_FAILURES {
            broken.add(&TrialRecord {
                seq: 0,
                cell: Cell {
                    session: 0,
                    block,
                    layer: 1,
                    point: 0,
                },
                at_ms: 0,
                trial: None,
                error: Some("refused".into()),
                upkeep_ns: 0,
                foreign_cpu: 0.0,
                steal: 0.0,
                backing_resident: None,
                flags: Vec::new(),
            });
        }
        let mut stopping = Stopping::new(0.05, 1, 1);
        assert_eq!(stopping.look(&broken, 1, 0), Change::GivenUp);
        assert_eq!(stopping.look(&broken, 1, 0), Change::None);
        assert!(stopping.is_done(1, 0));
    }
}
