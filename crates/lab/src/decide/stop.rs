//! Decides when enough is known: by precision, never by significance.

use std::collections::BTreeMap;

use layermark_model::BASELINE;
use layermark_stats::{Cell, Estimate, FEWEST_BLOCKS, Pair, estimate_pairs};

use crate::{Ratio, decide::tally::Tally};

/// Maximum number of blocks of a run, however wide an interval stays.
pub const MAX_BLOCKS: u32 = 200;

/// Confidence level of the intervals whose width decides.
pub(crate) const LEVEL: f64 = 0.95;

/// A point that fails this many times in a row in a layer is left out there.
pub(crate) const MAX_FAILURES: u32 = 3;

/// State of one point in one layer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SiteState {
    /// Pairs at the last look.
    pub n: usize,
    /// Half-width of the interval of the log ratio at the last look that had one.
    pub half_width: Option<f64>,
    /// The estimate after the last block: for progress reports, never for a decision.
    pub now: Option<Estimate>,
    /// Known precisely enough.
    pub settled: bool,
    /// Failed too many times.
    pub given_up: bool,
}

pub(crate) use layermark_model::Site;

/// Looks at the results at predefined numbers of pairs.
pub(crate) struct Stopping {
    precision: f64,
    /// Number of blocks that the plan requests, at any precision.
    fixed: Option<usize>,
    known: BTreeMap<Site, SiteState>,
    /// How many times the precision of a site was halved.
    tightened: BTreeMap<Site, i32>,
}

impl Stopping {
    pub(crate) fn new(precision: f64) -> Self {
        Self {
            precision,
            fixed: None,
            known: BTreeMap::new(),
            tightened: BTreeMap::new(),
        }
    }

    /// Sets the exact number of blocks, if the plan has one.
    pub(crate) fn fixed(mut self, blocks: Option<u32>) -> Self {
        self.fixed = blocks.map(|n| n as usize);
        self
    }

    /// Minimum number of blocks of every point.
    pub(crate) fn fewest(&self) -> usize {
        self.fixed.unwrap_or(FEWEST_BLOCKS)
    }

    pub(crate) fn known(&self, layer: usize, point: usize) -> SiteState {
        self.known.get(&(layer, point)).copied().unwrap_or_default()
    }

    /// The ratio after the last block. `None` without another layer to compare with.
    pub(crate) fn ratio(&self, layer: usize, point: usize) -> Option<Ratio> {
        let now = self.known(layer, point).now.filter(|_| layer != BASELINE)?;
        let interval = now.interval?;
        Some(Ratio {
            estimate: now.mean.exp(),
            interval: [interval.low.exp(), interval.high.exp()],
        })
    }

    /// Asks for half the width at these sites that are settled, as there is time left. What is asked for
    /// depends on the width alone, so that nothing ends because a difference was found. Returns whether
    /// there is more to do.
    pub(crate) fn tighten(&mut self, sites: impl IntoIterator<Item = Site>) -> bool {
        if self.fixed.is_some() {
            return false;
        }
        let mut any = false;
        for site in sites {
            let Some(known) = self.known.get_mut(&site).filter(|known| known.settled) else {
                continue;
            };
            known.settled = false;
            *self.tightened.entry(site).or_default() += 1;
            any = true;
        }
        any
    }

    /// Precision that is asked for at a site.
    fn precision_of(&self, site: Site) -> f64 {
        let times = self.tightened.get(&site).copied().unwrap_or(0);
        self.precision * 0.5_f64.powi(times)
    }

    /// Whether more blocks are impossible or unnecessary.
    pub(crate) fn is_done(&self, layer: usize, point: usize) -> bool {
        let known = self.known(layer, point);
        known.settled || known.given_up
    }

    /// Looks at all sites after a block, with the statistic of the report. Returns what has
    /// changed. A site is looked at only at predefined numbers of pairs, but its estimate uses all
    /// of them.
    pub(crate) fn look(&mut self, tally: &Tally, sites: &[Site]) -> Vec<(Site, Change)> {
        let cells: Vec<Cell<Pair>> = sites.iter().map(|s| tally.cell(*s)).collect();
        let estimates = estimate_pairs(&cells, LEVEL);
        let mut changes = Vec::new();
        for (at, site) in sites.iter().enumerate() {
            let precision = self.precision_of(*site);
            let known = self.known.entry(*site).or_default();
            known.now = estimates[at];
            if known.settled || known.given_up {
                continue;
            }
            let failures = tally
                .failures(site.0, site.1)
                .max(tally.failures(BASELINE, site.1));
            if failures >= MAX_FAILURES {
                known.given_up = true;
                changes.push((*site, Change::GivenUp));
                continue;
            }
            let n = cells[at].blocks.len();
            if n == known.n || !layermark_stats::is_look(n) {
                continue;
            }
            known.n = n;
            let Some(interval) = estimates[at].and_then(|e| e.interval) else {
                continue;
            };
            known.half_width = Some(interval.half_width());
            known.settled = self.fixed.is_none() && layermark_stats::reached(interval, precision);
            if known.settled {
                changes.push((*site, Change::Settled(*known)));
            }
        }
        changes
    }

    /// Expected number of blocks of a point in a layer; `None` before there is an interval.
    pub(crate) fn expected(&self, layer: usize, point: usize) -> Option<usize> {
        if self.fixed.is_some() {
            return self.fixed;
        }
        let now = self.known(layer, point).now?;
        let precision = self.precision_of((layer, point));
        let (half_width, wanted) = (now.interval?.half_width(), precision.ln_1p());
        let needed = layermark_stats::blocks_needed(now.n, half_width, wanted);
        Some(needed.max(self.fewest()).min(MAX_BLOCKS as usize))
    }
}

/// Result of a look at a site.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    Settled(SiteState),
    GivenUp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::{Cell, Pass, Trial, TrialRecord};

    /// A tally of one point in two layers whose ratio varies by `noise`.
    fn tally(blocks: u32, ratio: f64, noise: f64) -> Tally {
        let mut tally = Tally::default();
        for block in 0..blocks {
            let swing = noise * (f64::from(block * 37 % 11) / 5.0 - 1.0);
            // Both swing, the layer as much again.
            let native = 1e6 * (1.0 + swing);
            for (layer, ns) in [(0, native), (1, native * ratio * (1.0 + swing))] {
                tally.add(&TrialRecord {
                    cell: Cell {
                        session: 0,
                        block,
                        layer,
                        point: 0,
                    },
                    trial: Some(Trial {
                        passes: vec![Pass {
                            elapsed_ns: ns as u64,
                            ops: 1,
                            bytes: 0,
                            ..Pass::default()
                        }],
                        ..Trial::default()
                    }),
                    ..TrialRecord::default()
                });
            }
        }
        tally
    }

    const SITE: [Site; 1] = [(1, 0)];

    fn settled(changes: &[(Site, Change)]) -> Option<usize> {
        match changes {
            [((1, 0), Change::Settled(known))] => Some(known.n),
            _ => None,
        }
    }

    #[test]
    fn settles_only_at_a_look_and_the_first_is_at_eight() {
        let mut stopping = Stopping::new(0.05);
        for blocks in 3..8 {
            assert!(stopping.look(&tally(blocks, 2.0, 0.0), &SITE).is_empty());
        }
        assert_eq!(settled(&stopping.look(&tally(8, 2.0, 0.0), &SITE)), Some(8));
        assert!(stopping.is_done(1, 0) && stopping.fewest() == 8);
        let mut late = Stopping::new(0.05);
        assert!(late.look(&tally(9, 2.0, 0.0), &SITE).is_empty());
        assert_eq!(settled(&late.look(&tally(11, 2.0, 0.0), &SITE)), Some(11));
    }

    #[test]
    fn what_is_told_on_the_way_narrows_with_each_block_and_decides_nothing() {
        let mut stopping = Stopping::new(0.05);
        let mut widths = Vec::new();
        for blocks in 2..8 {
            assert!(stopping.look(&tally(blocks, 2.0, 0.01), &SITE).is_empty());
            let known = stopping.known(1, 0);
            assert!(known.half_width.is_none() && !known.settled);
            assert!((known.now.unwrap().mean.exp() - 2.0).abs() < 0.05);
            widths.extend(known.now.unwrap().interval.map(|i| i.half_width()));
        }
        assert_eq!(widths.len(), 5, "from three blocks on");
        assert!(widths[4] < widths[0] / 2.0, "{widths:?}");
        assert_eq!(stopping.expected(1, 0), Some(8));
    }

    #[test]
    fn a_fixed_number_of_blocks_is_not_cut_short_by_precision() {
        let mut stopping = Stopping::new(0.05).fixed(Some(30));
        assert!(stopping.look(&tally(8, 2.0, 0.0), &SITE).is_empty());
        assert!(!stopping.is_done(1, 0));
        assert_eq!((stopping.fewest(), stopping.expected(1, 0)), (30, Some(30)));
    }

    #[test]
    fn a_wide_interval_goes_on_and_says_for_how_long() {
        let mut stopping = Stopping::new(0.05);
        assert!(stopping.look(&tally(8, 1.0, 0.4), &SITE).is_empty());
        let known = stopping.known(1, 0);
        assert!(known.n == 8 && known.half_width.is_some_and(|w| w > 0.05) && !known.settled);
        assert!(matches!(stopping.expected(1, 0), Some(9..=200)));
        assert_eq!(stopping.expected(1, 9), None, "an unknown point");
    }

    #[test]
    fn with_time_left_half_the_width_is_asked_for() {
        let mut stopping = Stopping::new(0.05);
        assert_eq!(
            settled(&stopping.look(&tally(8, 1.05, 0.06), &SITE)),
            Some(8)
        );
        assert!(stopping.tighten(SITE) && !stopping.is_done(1, 0));
        assert!(!stopping.tighten(SITE), "it is not settled");
        assert!(stopping.look(&tally(11, 1.05, 0.06), &SITE).is_empty());
        let many = settled(&stopping.look(&tally(64, 1.05, 0.06), &SITE));
        assert_eq!(many, Some(64), "2.5 % are reached");
        let mut fixed = Stopping::new(0.05).fixed(Some(8));
        fixed.look(&tally(8, 2.0, 0.0), &SITE);
        assert!(!fixed.tighten(SITE), "a number was asked for");
    }

    #[test]
    fn the_baseline_alone_is_known_by_its_own_times() {
        const ALONE: [Site; 1] = [(0, 0)];
        let mut steady = Stopping::new(0.05);
        assert_eq!(steady.look(&tally(8, 1.0, 0.0), &ALONE).len(), 1);
        let mut noisy = Stopping::new(0.05);
        assert!(noisy.look(&tally(8, 1.0, 0.4), &ALONE).is_empty());
    }

    #[test]
    fn a_point_that_only_fails_is_given_up() {
        let mut broken = Tally::default();
        for block in 0..MAX_FAILURES {
            broken.add(&TrialRecord {
                cell: Cell {
                    session: 0,
                    block,
                    layer: 1,
                    point: 0,
                },
                error: Some("refused".into()),
                ..TrialRecord::default()
            });
        }
        let mut stopping = Stopping::new(0.05);
        assert_eq!(stopping.look(&broken, &SITE), [((1, 0), Change::GivenUp)]);
        assert!(stopping.look(&broken, &SITE).is_empty());
        assert!(stopping.is_done(1, 0));
    }
}
