//! Uses the time that is left once everything is known with the precision that was asked for.

use std::time::Duration;

use layermark_model::{BASELINE, Site, Unit};
use layermark_stats::{Cell, Pair, Verdict, compare_all, judge};

use crate::{decide::stop::LEVEL, execute::progress::Progress};

/// A run that only launches programs takes at least this long. Launches vary more than their first ones
/// show.
const LAUNCHING: Duration = Duration::from_secs(3);

impl Progress {
    /// Asks for narrower intervals where there is no word yet, if there is time. Returns whether there is
    /// more to do.
    pub(crate) fn go_on(&mut self) -> bool {
        if self.clock.left().is_none_or(|left| left.is_zero()) {
            return false;
        }
        let launches = |p: &layermark_model::Point| p.meaning.unit == Unit::Launch;
        let sites = if self.clock.spent() < LAUNCHING && self.run.points.iter().all(launches) {
            let points = 0..self.run.points.len();
            let all = |layer| points.clone().map(move |point| (layer, point));
            self.compared().flat_map(all).collect()
        } else {
            self.undecided()
        };
        self.stopping.tighten(sites)
    }

    /// Where a verdict was asked for and there is none. In the baseline alone, the points that are compared
    /// with each other.
    fn undecided(&self) -> Vec<Site> {
        let compared: Vec<(Vec<Site>, Cell<Pair>)> = if self.run.layers.len() > 1 {
            self.cells()
                .map(|site| (vec![site], self.tally.cell(site)))
                .collect()
        } else {
            self.alternatives()
        };
        let (sites, pairs): (Vec<_>, Vec<_>) = compared.into_iter().unzip();
        let comparisons = compare_all(&pairs, LEVEL, self.run.seed);
        let words = judge(&comparisons, self.run.plan.delta);
        let open = sites.into_iter().zip(words);
        open.filter(|(_, word)| word.verdict == Verdict::Undecided)
            .flat_map(|(sites, _)| sites)
            .collect()
    }

    /// The cells that get a verdict.
    fn cells(&self) -> impl Iterator<Item = Site> {
        let layers = self.run.layers.iter().enumerate().skip(BASELINE + 1);
        let layers = layers.filter(|(_, layer)| !layer.control);
        let points = 0..self.run.points.len();
        let all = layers.flat_map(move |(layer, _)| points.clone().map(move |p| (layer, p)));
        all.filter(|(layer, point)| {
            self.can(*layer, *point) && self.run.plan.confirms(&self.run.points[*point].label)
        })
    }

    /// Each point of the baseline that is compared with the first one, with both.
    fn alternatives(&self) -> Vec<(Vec<Site>, Cell<Pair>)> {
        let is_one = |point: &usize| !self.run.points[*point].meaning.alternatives.is_empty();
        let mut points = (0..self.run.points.len()).filter(is_one);
        let Some(first) = points.next() else {
            return Vec::new();
        };
        let with_first = |point| {
            let pairs = self.tally.alternatives(BASELINE, point, first);
            (vec![(BASELINE, point), (BASELINE, first)], pairs.into())
        };
        points.map(with_first).collect()
    }
}
