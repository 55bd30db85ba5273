//! A point in a layer: its own results, and what they say of the layer.

use std::collections::BTreeSet;

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
        index::Index,
        judged::{block_ratio, compare, remark, span},
        kinds, late, latency, limits, others,
        own_numbers::{cpu, debt, retime, speed},
        stalls, storage, sustained, threads, waiting,
    },
    types::{
        Average, Distrust, Durability, DurabilityVerdict, Estimate, InTrials, LateFlushes,
        ResultRow, Verdict, WaitingRow,
    },
    words::{Names, Words},
};

/// A row's comparison with the baseline.
#[derive(Default)]
pub(super) struct Against {
    /// `None` without pairs.
    pub comparison: Option<stats::Comparison>,
    /// The verdict; `None` if none was requested.
    pub judgement: Option<Judgement>,
    pub pairs: Vec<Pair>,
    /// The ratio by the other time: with waiting for a CPU if `comparison` is without it, and the
    /// other way round. `None` if that is not known.
    pub by_other: Option<Estimate>,
}

/// A point in a layer of a run.
pub(super) struct ResultSite<'a> {
    pub run: &'a Run,
    pub index: &'a Index<'a>,
    pub layer: usize,
    pub baseline: usize,
    pub point: usize,
    /// The time by which it is measured and compared.
    pub time: ClockTime,
    /// Programs that differ between trials, here and in the baseline.
    pub unlike: Option<String>,
}

impl<'a> ResultSite<'a> {
    pub fn point(&self) -> &'a Point {
        &self.run.points[self.point]
    }

    /// Its blocks among those of the report.
    pub fn cell(&self, blocks: Vec<Pair>) -> stats::Cell<Pair> {
        stats::Cell {
            operation: self.point,
            blocks,
        }
    }

    /// Names that sentences use.
    fn names(&self) -> Names<'a> {
        Names {
            baseline: self.run.baseline(),
        }
    }

    pub fn layer(&self) -> &'a LayerRun {
        &self.run.layers[self.layer]
    }

    pub fn is_compared(&self) -> bool {
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
    pub fn with_added(&self, comparison: stats::Comparison) -> stats::Comparison {
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
    pub fn by_other_time(&self, found: &stats::Estimate, pairs: &[Pair]) -> Estimate {
        let native: Vec<f64> = pairs.iter().map(|pair| pair.native).collect();
        let ends = found.interval.map(|i| i.exp()).zip(stats::median(&native));
        let ends = ends.and_then(|(i, native)| self.widened(i, native));
        Estimate::new(found.mean.exp(), ends.map(span))
    }

    /// The complete row: its own results, and the comparison with the baseline. Latencies are computed if
    /// there is a seed for their bootstrap.
    pub fn row(&self, against: Option<&Against>, latencies: Option<u64>) -> ResultRow {
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

    pub fn judge(&self, row: &mut ResultRow, against: Option<&Against>) {
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

    /// The block devices below a layer.
    fn devices_of(&self, layer: usize) -> BTreeSet<&'a str> {
        let devices = &self.run.layers[layer].facts.devices;
        devices.iter().map(|device| &*device.number).collect()
    }

    /// Sets how long the layer waited for a CPU. Takes a verdict away that waiting may have made.
    fn wait(&self, row: &mut ResultRow, by_other: Option<Estimate>) {
        let under_way = self.point().meaning.under_way();
        let of =
            |records: Vec<&TrialRecord>| waiting::of(records.into_iter(), under_way, self.time);
        row.waiting = of(self.index.trials(self.layer, self.point)).map(|waited| WaitingRow {
            ratio_with: by_other.filter(|_| waited.left_out),
            ..waited
        });
        let native = of(self.index.beside(self.layer, self.baseline, self.point));
        let overlaps = || {
            let elsewhere = self.devices_of(self.layer) != self.devices_of(self.baseline);
            elsewhere.then(|| waiting::overlaps(row, native.as_ref()))?
        };
        let refusal = waiting::refusal(row, native.as_ref(), by_other.as_ref());
        if let Some(why) = refusal.or_else(overlaps) {
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
        let native = latency::percentile(self.native_beside(), 0.5)? / 1e3;
        (native > 0.0).then(|| own / native)
    }

    /// The results from the layer's own trials.
    pub fn alone(&self, latencies: Option<u64>) -> ResultRow {
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

    pub fn durability(&self, ratio: Option<&Estimate>) -> Durability {
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
    pub fn distrust(&self, row: &mut ResultRow) {
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
pub(super) fn unlike_programs(
    run: &Run,
    index: &Index,
    layers: [usize; 2],
    point: usize,
) -> Option<String> {
    let declared = run.points[point].meaning.figures.as_ref()?;
    let records = layers
        .into_iter()
        .flat_map(|layer| index.trials(layer, point));
    let trials: Vec<&Trial> = records.filter_map(|r| r.trial.as_ref()).collect();
    figures::unlike_programs(declared, &trials)
}
