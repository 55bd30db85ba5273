//! One row for each point in each layer: its own results, and the comparison with the baseline.

use std::{num::NonZero, panic::resume_unwind, thread};

use layermark_model::{ClockTime, Run};
use layermark_stats::{self as stats, Judgement, Pair};

use crate::{
    facts::{
        LEVEL,
        index::Index,
        site::{Against, ResultSite, unlike_programs},
    },
    types::{Estimate, ResultRow, Verdict},
};

/// A row with the indexes of its point and its layer.
pub type Placed = (usize, usize, ResultRow);

/// The rows of all layers, layer by layer in the order of points; not numbered yet.
///
/// All comparisons that the plan requests verdicts on are one family. So the chance of any wrong
/// verdict in a report of a hundred is that of one verdict alone, and a repeated run gives the same
/// verdicts. The other results have no verdict. The control is a family of its own. All comparisons
/// share their estimate of the noise. Trials of different programs are not compared.
pub fn rows(run: &Run, index: &Index, baseline: usize) -> Vec<Placed> {
    let sites = against_baseline(run, index, baseline, Level::REPORT);
    let row = |(site, against): &(ResultSite, Option<Against>)| {
        let row = site.row(against.as_ref(), Some(run.seed));
        (site.point, site.layer, row)
    };
    // Each has bootstraps of its own, which take nearly all of a report's time.
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let share = sites.len().div_ceil(cpus).max(1);
    let rows = |part: &[_]| part.iter().map(row).collect::<Vec<_>>();
    thread::scope(|scope| {
        // Where there can be no more threads, this one makes the rows.
        let start = |part| {
            let thread = thread::Builder::new().spawn_scoped(scope, move || rows(part));
            thread.map_err(|_| part)
        };
        let threads: Vec<_> = sites.chunks(share).map(start).collect();
        let joined = threads.into_iter().flat_map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(part) => rows(part),
        });
        joined.collect()
    })
}

/// The row of [`rows`] at one point in one layer, and the rows of the control. They have no latencies,
/// whose bootstraps take nearly all of a report's time and which a series of runs does not need.
pub fn row_and_controls(
    run: &Run,
    index: &Index,
    baseline: usize,
    (layer, point): (usize, usize),
) -> (Option<ResultRow>, Vec<ResultRow>) {
    let (mut wanted, mut controls) = (None, Vec::new());
    for (site, against) in against_baseline(run, index, baseline, Level::REPORT) {
        let against = against.as_ref();
        if (site.layer, site.point) == (layer, point) {
            wanted = Some(site.row(against, None));
        } else if site.layer().control {
            let mut row = site.alone(None);
            site.judge(&mut row, against);
            site.distrust(&mut row);
            controls.push(row);
        }
    }
    (wanted, controls)
}

/// The verdicts of [`rows`] alone, without the bootstrap, for each compared layer except the
/// control.
pub fn words(run: &Run, index: &Index, baseline: usize) -> Vec<Verdict> {
    let rows = brief(run, index, baseline, Level::REPORT).into_iter();
    rows.map(|(.., row)| row.verdict).collect()
}

/// The rows of [`rows`] with comparison and verdict alone, without the bootstrap, for each compared layer except the
/// control.
pub fn brief(run: &Run, index: &Index, baseline: usize, level: Level) -> Vec<Placed> {
    let sites = against_baseline(run, index, baseline, level).into_iter();
    sites
        .filter(|(site, _)| site.layer != baseline && !site.layer().control)
        .map(|(site, against)| {
            let mut row = ResultRow {
                layer: site.layer().name.clone(),
                label: site.point().label.clone(),
                trials: index.trials(site.layer, site.point).len(),
                ..ResultRow::default()
            };
            site.judge(&mut row, against.as_ref());
            row.durability = site.durability(None);
            site.distrust(&mut row);
            (site.point, site.layer, row)
        })
        .collect()
}

/// How sure words have to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Chance of one wrong *slower* or *faster* in all words that are given together.
    pub alpha: f64,
}

impl Level {
    /// Of the words of a report.
    pub const REPORT: Self = Self {
        alpha: stats::ALPHA,
    };

    /// Level of the intervals that such words rest on.
    fn of_intervals(self) -> f64 {
        1.0 - self.alpha
    }
}

/// Each point in each layer, and its comparison with the baseline; none for the baseline itself.
fn against_baseline<'a>(
    run: &'a Run,
    index: &'a Index<'a>,
    baseline: usize,
    level: Level,
) -> Vec<(ResultSite<'a>, Option<Against>)> {
    // Points that a layer cannot do (writes on a read-only one) are not in the family.
    let asked =
        |l: usize, p: usize| !index.trials(l, p).is_empty() || !index.failures(l, p).is_empty();
    let sites: Vec<ResultSite> = (0..run.layers.len())
        .flat_map(|layer| (0..run.points.len()).map(move |point| (layer, point)))
        .filter(|(layer, point)| asked(*layer, *point))
        .map(|(layer, point)| ResultSite {
            run,
            index,
            layer,
            baseline,
            point,
            time: index.time(layer, baseline, point),
            unlike: unlike_programs(run, index, [layer, baseline], point),
        })
        .collect();
    let others: Vec<&ResultSite> = sites.iter().filter(|s| s.is_compared()).collect();
    let pairs = others
        .iter()
        .map(|s| s.cell(index.pairs(s.layer, baseline, s.point)));
    let pairs: Vec<stats::Cell<Pair>> = pairs.collect();
    let compared = stats::compare_all(&pairs, level.of_intervals(), run.seed).into_iter();
    let compared: Vec<Option<stats::Comparison>> = compared
        .zip(&others)
        .map(|(comparison, site)| comparison.map(|c| site.with_added(c)))
        .collect();
    let by_other = by_other_times(&others);
    let mut judged: Vec<Option<Judgement>> = vec![None; others.len()];
    for control in [false, true] {
        let asked =
            |s: &ResultSite| run.plan.confirms(&s.point().label) && s.layer().control == control;
        let family: Vec<usize> = (0..others.len()).filter(|i| asked(others[*i])).collect();
        let comparisons: Vec<Option<stats::Comparison>> =
            family.iter().map(|i| compared[*i].clone()).collect();
        let words = stats::judge_at(&comparisons, run.plan.delta, level.alpha);
        for (at, word) in family.into_iter().zip(words) {
            judged[at] = Some(word);
        }
    }
    let compared = compared.into_iter().zip(judged);
    let mut native = compared.zip(pairs.into_iter().zip(by_other));
    let mut against = |site: &ResultSite| {
        if site.layer == baseline {
            return None;
        }
        let next = site.is_compared().then(|| native.next()).flatten();
        let found = next.map(|((comparison, judgement), (cell, by_other))| Against {
            comparison,
            judgement,
            pairs: cell.blocks,
            by_other,
        });
        Some(found.unwrap_or_default())
    };
    let all: Vec<Option<Against>> = sites.iter().map(&mut against).collect();
    sites.into_iter().zip(all).collect()
}

/// [`Against::by_other`] of each. Those with waiting and those without it have different noise, which
/// is estimated apart.
fn by_other_times(sites: &[&ResultSite]) -> Vec<Option<Estimate>> {
    let mut all = vec![None; sites.len()];
    for (own, other) in [
        (ClockTime::Clear, ClockTime::Raw),
        (ClockTime::Net, ClockTime::Raw),
        (ClockTime::Raw, ClockTime::Net),
    ] {
        let of: Vec<usize> = (0..sites.len()).filter(|i| sites[*i].time == own).collect();
        let pairs = of.iter().map(|i| {
            let site = sites[*i];
            let index = site.index;
            site.cell(index.pairs_by(other, site.layer, site.baseline, site.point))
        });
        let pairs: Vec<stats::Cell<Pair>> = pairs.collect();
        let found = stats::estimate_pairs(&pairs, LEVEL);
        for ((at, found), pairs) in of.into_iter().zip(found).zip(pairs) {
            all[at] = found
                .as_ref()
                .map(|e| sites[at].by_other_time(e, &pairs.blocks));
        }
    }
    all
}
