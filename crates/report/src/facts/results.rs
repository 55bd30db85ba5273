//! One row for each point in each layer: its own results, and the comparison with the baseline.

use std::{num::NonZero, panic::resume_unwind, thread};

use layermark_model::{
    ClockTime, DirectIo, LayerRun, LayerStatus, Meaning, Point, RestedTurn, Run, Trial,
    TrialRecord, flags,
};
use layermark_stats::{self as stats, Interval, Judgement, Pair, SharedTime};

use crate::{
    code_span,
    facts::{
        LEVEL, data_source,
        durability::{self, Case, WithReference},
        figures,
        index::{Index, typical_by},
        kinds, late, latency, limits, others, stalls, storage, sustained, threads, waiting,
    },
    types::{
        Average, BlockRatio, Comparison, CpuCost, DebtRow, Distrust, Durability, DurabilityVerdict,
        Estimate, InTrials, LateFlushes, ResultRow, Verdict, WaitingRow,
    },
    words::{Names, Words},
};

const GIB: f64 = (1u64 << 30) as f64;

/// A row with the indexes of its point and its layer.
pub type Placed = (usize, usize, ResultRow);

/// The rows of all layers, layer by layer in the order of points; not numbered yet.
///
/// All comparisons that the plan requests verdicts on are one family. So the chance of any wrong
/// verdict in a report of a hundred is that of one verdict alone, and a repeated run gives the same
/// verdicts. The other results have no verdict. The control is a family of its own. All comparisons
/// share their estimate of the noise. Trials of different programs are not compared.
pub fn rows(run: &Run, index: &Index, baseline: usize) -> Vec<Placed> {
    let sites = against_baseline(run, index, baseline);
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
    for (site, against) in against_baseline(run, index, baseline) {
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
    let sites = against_baseline(run, index, baseline).into_iter();
    sites
        .filter(|(site, _)| site.layer != baseline && !site.layer().control)
        .map(|(site, against)| {
            let mut row = ResultRow {
                trials: index.trials(site.layer, site.point).len(),
                ..ResultRow::default()
            };
            site.judge(&mut row, against.as_ref());
            row.durability = site.durability(None);
            site.distrust(&mut row);
            row.verdict
        })
        .collect()
}

/// Each point in each layer, and its comparison with the baseline; none for the baseline itself.
fn against_baseline<'a>(
    run: &'a Run,
    index: &'a Index<'a>,
    baseline: usize,
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
        .map(|s| index.pairs(s.layer, baseline, s.point));
    let pairs: Vec<Vec<Pair>> = pairs.collect();
    let compared = stats::compare_all(&pairs, LEVEL, run.seed).into_iter();
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
        let words = stats::judge(&comparisons, run.plan.delta);
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
        let found = next.map(|((comparison, judgement), (pairs, by_other))| Against {
            comparison,
            judgement,
            pairs,
            by_other,
        });
        Some(found.unwrap_or_default())
    };
    let all: Vec<Option<Against>> = sites.iter().map(&mut against).collect();
    sites.into_iter().zip(all).collect()
}

/// A row's comparison with the baseline.
#[derive(Default)]
struct Against {
    /// `None` without pairs.
    comparison: Option<stats::Comparison>,
    /// The verdict; `None` if none was requested.
    judgement: Option<Judgement>,
    pairs: Vec<Pair>,
    /// The ratio by the other time: with waiting for a CPU if `comparison` is without it, and the
    /// other way round. `None` if that is not known.
    by_other: Option<Estimate>,
}

/// [`Against::by_other`] of each. Those with waiting and those without it have different noise, which
/// is estimated apart.
fn by_other_times(sites: &[&ResultSite]) -> Vec<Option<Estimate>> {
    let mut all = vec![None; sites.len()];
    for (own, other) in [
        (ClockTime::Net, ClockTime::Raw),
        (ClockTime::Raw, ClockTime::Net),
    ] {
        let of: Vec<usize> = (0..sites.len()).filter(|i| sites[*i].time == own).collect();
        let pairs = of.iter().map(|i| {
            let site = sites[*i];
            let index = site.index;
            index.pairs_by(other, site.layer, site.baseline, site.point)
        });
        let pairs: Vec<Vec<Pair>> = pairs.collect();
        let found = stats::estimate_pairs(&pairs, LEVEL);
        for ((at, found), pairs) in of.into_iter().zip(found).zip(pairs) {
            all[at] = found.as_ref().map(|e| sites[at].by_other_time(e, &pairs));
        }
    }
    all
}

/// A comparison and its verdict. Differences are in nanoseconds. Without a judgement no verdict was requested.
pub fn judged(
    comparison: Option<&stats::Comparison>,
    judgement: Option<&Judgement>,
    under_way: f64,
) -> Comparison {
    let word = judgement.map(|j| j.verdict);
    let missing = stats::MIN_BLOCKS.saturating_sub(comparison.map_or(0, |c| c.n));
    // Without a steady state, no single number is printed.
    let steady = comparison.filter(|c| c.steady);
    let us = |ns: f64| ns * under_way / 1e3;
    Comparison {
        ratio: steady.map(|c| Estimate::new(c.ratio, c.ratio_interval.map(span))),
        extra_us: steady.map(|c| {
            let ends = c.diff_interval.map(|i| [us(i.low), us(i.high)]);
            Estimate::new(us(c.diff), ends)
        }),
        p: comparison.map(|c| c.p),
        p_adjusted: comparison.and(judgement).map(|j| j.p_adjusted),
        verdict: match word {
            None => Verdict::Descriptive,
            Some(stats::Verdict::Same) => Verdict::Same,
            Some(stats::Verdict::Slower) => Verdict::Slower,
            Some(stats::Verdict::Faster) => Verdict::Faster,
            Some(_) => Verdict::Undecided,
        },
        probably: match word {
            Some(stats::Verdict::ProbablySlower) => Some(Verdict::Slower),
            Some(stats::Verdict::ProbablyFaster) => Some(Verdict::Faster),
            _ => None,
        },
        margin: judgement.and_then(|j| j.margin),
        more_blocks: judgement.map(|_| missing).filter(|n| *n > 0),
    }
}

/// Sets a row's comparison and verdict, and what is known of its blocks.
pub fn compare(
    row: &mut ResultRow,
    comparison: Option<&stats::Comparison>,
    judgement: Option<&Judgement>,
    under_way: f64,
) {
    row.compare(judged(comparison, judgement, under_way));
    let Some(c) = comparison else { return };
    row.blocks = c.n;
    row.effective_n = Some(c.effective_n);
    row.steady = Some(c.steady);
    row.change_points.clone_from(&c.change_points);
    row.outliers = c.outliers;
    if !c.steady {
        remark(row, flags::UNSTEADY, 1);
    }
}

fn block_ratio(pair: &Pair) -> BlockRatio {
    BlockRatio {
        session: pair.session,
        block: pair.block,
        ratio: pair.ln_ratio().exp(),
        both: pair.has_control().then(|| pair.ln_ratios.map(f64::exp)),
    }
}

fn span(i: Interval) -> [f64; 2] {
    [i.low, i.high]
}

fn remark(row: &mut ResultRow, flag: &str, n: usize) {
    *row.flag_counts.entry(flag.to_owned()).or_default() += n;
    row.flags = row.flag_counts.keys().cloned().collect();
}

/// A point in a layer of a run.
struct ResultSite<'a> {
    run: &'a Run,
    index: &'a Index<'a>,
    layer: usize,
    baseline: usize,
    point: usize,
    /// The time by which it is measured and compared.
    time: ClockTime,
    /// Programs that differ between trials, here and in the baseline.
    unlike: Option<String>,
}

impl<'a> ResultSite<'a> {
    fn point(&self) -> &'a Point {
        &self.run.points[self.point]
    }

    /// Names that sentences use.
    fn names(&self) -> Names<'a> {
        Names {
            baseline: self.run.baseline(),
        }
    }

    fn layer(&self) -> &'a LayerRun {
        &self.run.layers[self.layer]
    }

    fn is_compared(&self) -> bool {
        self.layer != self.baseline && self.unlike.is_none()
    }

    fn trials_of(&self, layer: usize) -> Vec<&'a Trial> {
        self.index
            .trials(layer, self.point)
            .into_iter()
            .filter_map(|r| r.trial.as_ref())
            .collect()
    }

    /// The time in each operation that was not measured there, in the unit of pairs.
    fn added(&self) -> Option<SharedTime> {
        self.point().meaning.added.map(|added| SharedTime {
            time: added.ns as f64,
            spread: added.spread_ns as f64,
        })
    }

    /// A comparison whose intervals hold for each time that may have been added.
    fn with_added(&self, comparison: stats::Comparison) -> stats::Comparison {
        match self.added() {
            Some(added) => added.widen_comparison(comparison),
            None => comparison,
        }
    }

    /// An interval of a ratio of a cost natively, likewise.
    fn widened(&self, interval: Interval, native: f64) -> Option<Interval> {
        match self.added() {
            Some(added) => added.widen(interval, native),
            None => Some(interval),
        }
    }

    /// A ratio by the time that its row does not use.
    fn by_other_time(&self, found: &stats::Estimate, pairs: &[Pair]) -> Estimate {
        let native: Vec<f64> = pairs.iter().map(|pair| pair.native).collect();
        let ends = found.interval.map(|i| i.exp()).zip(stats::median(&native));
        let ends = ends.and_then(|(i, native)| self.widened(i, native));
        Estimate::new(found.mean.exp(), ends.map(span))
    }

    /// The complete row: its own results, and the comparison with the baseline. Latencies are computed if
    /// there is a seed for their bootstrap.
    fn row(&self, against: Option<&Against>, latencies: Option<u64>) -> ResultRow {
        let mut row = self.alone(latencies);
        self.judge(&mut row, against);
        self.average(&mut row, against.and_then(|a| a.comparison.as_ref()));
        let pairs = against.iter().flat_map(|a| &a.pairs);
        row.block_ratios = pairs.map(block_ratio).collect();
        row.durability = self.durability(row.ratio.as_ref());
        let (facts, trials) = (&self.layer().facts, self.trials_of(self.layer));
        row.fewer_bytes = others::fewer(&row, facts, &trials);
        self.distrust(&mut row);
        row
    }

    fn judge(&self, row: &mut ResultRow, against: Option<&Against>) {
        let Some(against) = against else {
            row.verdict = Verdict::Baseline;
            self.wait(row, None);
            return;
        };
        compare(
            row,
            against.comparison.as_ref(),
            against.judgement.as_ref(),
            self.point().meaning.under_way(),
        );
        self.wait(row, against.by_other);
    }

    /// Sets how long the layer waited for a CPU. Takes a verdict away that waiting may have made.
    fn wait(&self, row: &mut ResultRow, by_other: Option<Estimate>) {
        let under_way = self.point().meaning.under_way();
        let of = |records: Vec<&TrialRecord>| waiting::of(records.into_iter(), under_way);
        let left_out = self.time == ClockTime::Net;
        row.waiting = of(self.index.trials(self.layer, self.point)).map(|waited| WaitingRow {
            left_out,
            ratio_with: by_other.filter(|_| left_out),
            ..waited
        });
        let native = of(self.index.beside(self.layer, self.baseline, self.point));
        if let Some(why) = waiting::refusal(row, native.as_ref(), by_other.as_ref()) {
            row.withhold(why.words(&self.names()).into());
        }
    }

    /// Sets both times of the rounds that the ratio is of, and the average with its stalls.
    fn average(&self, row: &mut ResultRow, comparison: Option<&stats::Comparison>) {
        let us = |ns: f64| ns * self.point().meaning.under_way() / 1e3;
        let Some((c, ratio)) = comparison.zip(row.ratio) else {
            let own = self.index.rounds(self.layer, self.layer, self.point);
            let all = own.iter().flat_map(|(_, rounds)| rounds);
            let [ns, ops] = all.fold([0.0; 2], |[ns, ops], r| [ns + r.layer[0], ops + r.layer[1]]);
            row.average_us = (ops > 0.0).then(|| us(ns / ops));
            return;
        };
        row.native_us = Some(us(c.cost));
        retime(row, us(c.cost * c.ratio));
        row.median_ratio = self.median_ratio(row);
        let blocks = self.index.rounds(self.layer, self.baseline, self.point);
        let Some(mut found) = stats::average(&blocks, Some(c), LEVEL, self.run.seed) else {
            return;
        };
        let ends = found.interval;
        found.interval = ends.and_then(|i| self.widened(i, found.native));
        row.ratio = Some(Estimate {
            average: Some(Average {
                estimate: found.ratio,
                interval: found.interval.map(span),
            }),
            ..ratio
        });
        row.average_us = Some(us(found.native * found.ratio));
        row.native_average_us = Some(us(found.native));
        // Some turns waited for a CPU and others did not: those are no stalls of the layer.
        if found.stalls && row.withheld.is_none() {
            let more = |ratio: f64| us(found.native * (ratio - 1.0));
            let ends = found.interval.map(|i| [more(i.low), more(i.high)]);
            row.extra_us = Some(Estimate::new(more(found.ratio), ends));
            let here = self.trials_of(self.layer).into_iter();
            let native = self.native_beside();
            // Latencies are with waiting for a CPU, so its slow operations may be those that waited.
            let waited = row.waiting.filter(|w| w.left_out).and_then(|w| w.share);
            let shown = waited.is_none_or(|share| share < waiting::TOLD);
            let slow = shown.then(|| stalls::find(here, native, found.ratio > c.ratio));
            stalls::mark(row, slow.flatten());
        }
    }

    /// The baseline's trials in the rounds of the layer's.
    fn native_beside(&self) -> impl Iterator<Item = &'a Trial> {
        let native = self.index.beside(self.layer, self.baseline, self.point);
        native.into_iter().filter_map(|r| r.trial.as_ref())
    }

    fn median_ratio(&self, row: &ResultRow) -> Option<f64> {
        let slower = row.verdict == Verdict::Slower || row.probably == Some(Verdict::Slower);
        let own = row.latency_us.as_ref().filter(|_| slower)?.p50;
        let native = latency::median(self.native_beside())? / 1e3;
        (native > 0.0).then(|| own / native)
    }

    /// The results from the layer's own trials.
    fn alone(&self, latencies: Option<u64>) -> ResultRow {
        let (at, layer) = (self.point(), self.layer());
        let records = self.index.trials(self.layer, self.point);
        let failures = self.index.failures(self.layer, self.point);
        let trials = self.trials_of(self.layer);
        let with_session = records
            .iter()
            .filter_map(|r| Some((r.cell.session, r.trial.as_ref()?)));
        let seen = data_source::ReadSigns::of(&at.meaning, &layer.facts, &records);
        let served = seen.label(&at.meaning).filter(|_| !trials.is_empty());
        let (metric, unit) = at.meaning.unit.metric();
        let mut row = ResultRow {
            workload: at.workload.clone(),
            label: at.label.clone(),
            point: at.params.clone(),
            layer: layer.name.clone(),
            meaning: Meaning {
                // Figures are stored once for all results.
                figures: None,
                ..at.meaning.clone()
            },
            metric: metric.into(),
            unit: unit.into(),
            trials: records.len(),
            seqs: records.iter().map(|r| r.seq).collect(),
            failed_trials: failures.len(),
            error: failures.last().and_then(|r| r.error.clone()),
            latency_us: latencies.and_then(|seed| latency::merged(with_session, seed)),
            served_by: served,
            device_share: seen.device,
            device_others: seen.others,
            written: others::written(&at.meaning, &trials),
            resident: seen.resident,
            backing_resident: seen.behind,
            served_because: served.map(|_| seen.evidence().words(&self.names()).into()),
            two_kinds: served.and_then(|_| kinds::of(&trials)),
            filled_with: trials.iter().find_map(|t| t.filled_with),
            throttled: limits::throttled(&trials),
            sustained: sustained::of(self.run, [self.layer, self.baseline], self.point),
            kernel_workers: trials.iter().filter_map(|t| t.kernel_workers).max(),
            write_back_debt: debt(&trials),
            threads: threads::of(&trials),
            ..ResultRow::default()
        };
        speed(&mut row, &records, at.meaning.under_way(), self.time);
        cpu(&mut row, &records);
        for flag in records.iter().flat_map(|r| remarks(r)) {
            remark(&mut row, &flag, 1);
        }
        if layer.facts.emulated_cpu() && !records.is_empty() {
            remark(&mut row, flags::EMULATED_CPU, records.len());
        }
        row
    }

    fn durability(&self, ratio: Option<&Estimate>) -> Durability {
        self.durability_of(self.layer, ratio)
    }

    fn durability_of(&self, layer: usize, ratio: Option<&Estimate>) -> Durability {
        let reference = self.reference(layer);
        let baseline = code_span::baseline(self.run.baseline());
        let named = reference.or_else(|| self.would_be_reference(layer));
        let named = named.map(|l| code_span::baseline(&self.run.layers[l].name));
        let beside = |record: &TrialRecord| {
            let there = self.index.in_same_rounds(record, reference?)?;
            there.trial.as_ref()
        };
        let here = self.index.parts(layer, self.point).iter();
        let trials: Vec<WithReference> = here
            .filter_map(|r| Some((r.trial.as_ref()?, beside(r))))
            .collect();
        let beside_it = (0..self.run.layers.len()).filter(|l| *l != layer);
        let beside_it = beside_it.filter(|l| self.share_device(*l, layer));
        let late = beside_it.filter(|l| self.late(*l).is_some());
        let disturbers = late.map(|l| self.run.layers[l].name.clone());
        let disturbers: Vec<String> = disturbers.collect();
        durability::judge(&Case {
            late: self.late(layer),
            disturbers: &disturbers,
            meaning: &self.point().meaning,
            facts: &self.run.layers[layer].facts,
            is_baseline: layer == self.baseline,
            baseline: &baseline,
            names: self.names(),
            reference: named.as_deref(),
            trials: &trials,
            ratio: ratio
                .filter(|_| storage::flushes_directly(&self.run.layers[self.baseline].facts)),
        })
    }

    /// Flushes that follow a layer's turns alone.
    fn late(&self, layer: usize) -> Option<LateFlushes> {
        let rested = |l: usize| {
            let trials = self.index.parts(l, self.point).iter();
            let turns = trials.filter_map(|r| r.trial.as_ref()?.rested);
            turns.collect::<Vec<RestedTurn>>()
        };
        let own = rested(layer);
        if own.is_empty() {
            return None;
        }
        let others = (0..self.run.layers.len()).filter(|l| *l != layer);
        let others = others.filter(|l| self.share_device(*l, layer));
        late::find(&own, &others.map(rested).collect::<Vec<_>>())
    }

    /// Whether two layers have a device in common.
    fn share_device(&self, a: usize, b: usize) -> bool {
        storage::share_device(&self.run.layers[a].facts, &self.run.layers[b].facts)
    }

    /// The layer whose flushes the device does not count either: the baseline, on the same device.
    fn would_be_reference(&self, layer: usize) -> Option<usize> {
        let other = layer != self.baseline && self.share_device(layer, self.baseline);
        other.then_some(self.baseline)
    }

    /// The layer that shows that the device below counts flushes. It is the baseline. Where that is on another
    /// device, and for the baseline itself, it is a layer on the same device. The flushes of programs are not
    /// known. There it is a baseline that is native, because another one may flush by itself; for the baseline
    /// it is the layer with the most at the device.
    fn reference(&self, layer: usize) -> Option<usize> {
        let is_like = |l: &usize| self.share_device(*l, layer);
        let programs = self.point().meaning.runs_programs();
        let of = |l: usize| {
            let trials = self.index.parts(l, self.point).iter();
            trials.filter_map(|r| r.trial.as_ref())
        };
        let others = 0..self.run.layers.len();
        let others = others.filter(|l| *l != layer);
        if programs {
            let flushes =
                |l: &usize| -> u64 { of(*l).filter_map(|t| t.device).map(|d| d.flushes).sum() };
            return if layer == self.baseline {
                others.max_by_key(flushes)
            } else {
                let native = |l: &usize| self.run.layers[*l].spec.is_native();
                Some(self.baseline).filter(|l| native(l) && is_like(l))
            };
        }
        let answered = |l: &usize| durability::answered(of(*l));
        if layer != self.baseline && is_like(&self.baseline) {
            Some(self.baseline).filter(answered)
        } else {
            others.filter(is_like).find(answered)
        }
    }

    /// Marks a number that is real but does not show what it claims.
    fn distrust(&self, row: &mut ResultRow) {
        if row.trials == 0 {
            return;
        }
        let theirs = self.index.trials(self.baseline, self.point);
        let here = self.index.trials(self.layer, self.point);
        let meaning = &self.run.points[self.point].meaning;
        let suspect = |trials: &[&TrialRecord], layer: usize| {
            // A layer that was set up again is measured again.
            let is_up = self.run.layers[layer].status == LayerStatus::Ready;
            let lost = (!is_up && self.index.lost(layer)).then_some(Distrust::LayerLost);
            lost.or_else(|| suspect(trials, self.run, layer, meaning))
        };
        let other = self.layer != self.baseline && !theirs.is_empty();
        let unlike = self.unlike.clone().map(Distrust::UnlikePrograms);
        let why = suspect(&here, self.layer).or(unlike).or_else(|| {
            let why = suspect(&theirs, self.baseline).filter(|_| other)?;
            Some(Distrust::OfBaseline(Box::new(why)))
        });
        let flushes = row.durability.verdict != DurabilityVerdict::NotAsked;
        let why = why.or_else(|| {
            let unlike = other && flushes && !row.durability.skips();
            (unlike && self.durability_of(self.baseline, None).skips())
                .then_some(Distrust::BaselineSkipsFlush)
        });
        if let Some(why) = why {
            row.distrust();
            row.untrusted = Some(why.words(&self.names()).into());
            row.distrust = Some(why);
        }
    }
}

/// Remarks of a trial, each once.
fn remarks(record: &TrialRecord) -> Vec<String> {
    let mut all = record.flags.clone();
    if let Some(trial) = &record.trial {
        if trial.direct == Some(DirectIo::Ignored) {
            all.push(flags::DIRECT_IGNORED.into());
        }
        if trial.not_seen {
            all.push(flags::NOT_SEEN.into());
        }
        if trial.verified.is_some_and(|v| v.bad > 0) {
            all.push(flags::VERIFY.into());
        }
    }
    all.sort();
    all.dedup();
    all
}

/// Why the trials do not show what was requested.
fn suspect(
    records: &[&TrialRecord],
    run: &Run,
    layer: usize,
    meaning: &Meaning,
) -> Option<Distrust> {
    let bad: u64 = records
        .iter()
        .filter_map(|r| r.trial.as_ref()?.verified)
        .map(|v| v.bad)
        .sum();
    if bad > 0 {
        return Some(Distrust::WrongData(bad));
    }
    let facts = &run.layers[layer].facts;
    if facts.is_empty() {
        return Some(Distrust::UnknownPlace);
    }
    let all = records.len();
    let most = |flag: &str| {
        let having = |r: &&&TrialRecord| remarks(r).iter().any(|f| f == flag);
        let with = records.iter().filter(having).count();
        (with * 2 > all).then_some(InTrials { with, all })
    };
    // Whether repeated reads came from memory is one question, how long they take another.
    let unproved = || most(flags::CACHE_UNPROVED).filter(|_| meaning.is_cold());
    let privileged = run.machine.privilege == "root";
    let why = || data_source::why_unproved(facts, meaning.is_cold(), privileged);
    most(flags::CACHE)
        .map(Distrust::Cache)
        .or_else(|| Some(Distrust::CacheUnproved(unproved()?, why())))
        .or_else(|| most(flags::DIRECT_IGNORED).map(Distrust::DirectIgnored))
}

/// Programs that differ between trials of two layers, which therefore cannot be compared.
fn unlike_programs(run: &Run, index: &Index, layers: [usize; 2], point: usize) -> Option<String> {
    let declared = run.points[point].meaning.figures.as_ref()?;
    let records = layers
        .into_iter()
        .flat_map(|layer| index.trials(layer, point));
    let trials: Vec<&Trial> = records.filter_map(|r| r.trial.as_ref()).collect();
    figures::unlike_programs(declared, &trials)
}

/// Centre of a sample of costs and its interval, computed on logarithms like ratios.
fn centre(costs: &[f64]) -> (Option<f64>, Option<[f64; 2]>) {
    let logs: Vec<f64> = costs.iter().map(|c| c.ln()).collect();
    let Some(centre) = stats::Trimmed::of(&logs) else {
        return (None, None);
    };
    let interval = centre.interval(LEVEL).map(|i| span(i.exp()));
    (Some(centre.mean.exp()), interval)
}

/// Sets the time that the ratio is of. What follows from it keeps its relative width.
pub fn retime(row: &mut ResultRow, us: f64) {
    let Some(before) = row.op_us.replace(us) else {
        return;
    };
    let by = us / before;
    row.op_us_interval = row.op_us_interval.map(|ends| ends.map(|end| end * by));
    if !row.meaning.paced {
        row.value = row.value.map(|value| value / by);
        row.interval = row.interval.map(|ends| ends.map(|end| end / by));
    }
}

fn speed(row: &mut ResultRow, records: &[&TrialRecord], under_way: f64, time: ClockTime) {
    let costs = records.iter().filter_map(|r| typical_by(time, r));
    let costs: Vec<f64> = costs.collect();
    let (ns, interval) = centre(&costs);
    // A value is elapsed time over the operations of all threads; a single thread waits longer.
    let us = |ns: f64| ns * under_way / 1e3;
    row.op_us = ns.map(us);
    row.op_us_interval = interval.map(|i| i.map(us));
    let moved = sums(records);
    let per_op = if row.unit == "B/s" {
        moved.bytes / moved.ops
    } else {
        row.meaning.unit.seconds()
    };
    let trials: Vec<&Trial> = records.iter().filter_map(|r| r.trial.as_ref()).collect();
    if trials.iter().any(|t| t.response_ns.is_some()) {
        // Its cost is a response time, which says nothing about the rate.
        row.value = reached(&trials);
    } else if per_op > 0.0 && per_op.is_finite() {
        row.value = ns.map(|ns| per_op * 1e9 / ns);
        row.interval = interval.map(|[low, high]| [per_op * 1e9 / high, per_op * 1e9 / low]);
    }
}

/// Centre of the rates that trials reached, if their value is a response time.
fn reached(trials: &[&Trial]) -> Option<f64> {
    let rates: Vec<f64> = trials
        .iter()
        .filter(|t| t.elapsed_ns() > 0)
        .map(|t| t.ops() as f64 * 1e9 / t.elapsed_ns() as f64)
        .collect();
    stats::median(&rates)
}

#[derive(Default)]
struct Sums {
    ops: f64,
    bytes: f64,
    probe_ns: f64,
    upkeep_ns: f64,
}

fn sums(records: &[&TrialRecord]) -> Sums {
    records
        .iter()
        .filter_map(|r| r.trial.as_ref().map(|t| (r, t)))
        .fold(Sums::default(), |mut sum, (record, trial)| {
            sum.ops += trial.ops() as f64;
            sum.bytes += trial.bytes() as f64;
            sum.probe_ns += (trial.cpu.user_ns + trial.cpu.sys_ns) as f64;
            sum.upkeep_ns += record.upkeep_ns as f64;
            sum
        })
}

fn cpu(row: &mut ResultRow, records: &[&TrialRecord]) {
    let sum = sums(records);
    if sum.ops > 0.0 {
        row.cpu_us_per_op = Some(CpuCost {
            probe: sum.probe_ns / 1e3 / sum.ops,
            upkeep: sum.upkeep_ns / 1e3 / sum.ops,
        });
    }
    if row.unit == "B/s" && sum.bytes > 0.0 {
        let per_gib = GIB / sum.bytes / 1e9;
        row.cpu_s_per_gib = Some(CpuCost {
            probe: sum.probe_ns * per_gib,
            upkeep: sum.upkeep_ns * per_gib,
        });
    }
}

fn debt(trials: &[&Trial]) -> Option<DebtRow> {
    let debts: Vec<_> = trials
        .iter()
        .filter_map(|t| Some((t.debt?, t.ops().max(1))))
        .filter(|(d, _)| d.seconds.is_finite())
        .collect();
    let bytes: Vec<f64> = debts
        .iter()
        .filter_map(|(d, _)| d.bytes.map(|bytes| bytes as f64))
        .collect();
    let seconds: Vec<f64> = debts.iter().map(|(d, _)| d.seconds).collect();
    let each = debts.iter().map(|(d, ops)| d.seconds * 1e6 / *ops as f64);
    Some(DebtRow {
        bytes: stats::median(&bytes),
        seconds: stats::median(&seconds)?,
        us_per_op: stats::median(&each.collect::<Vec<f64>>())?,
    })
}
