//! Figures that workloads declare: their values for a result's trials. This module names no workload.

use std::collections::{BTreeMap, BTreeSet};

use layermark_model::{Amount, Figure, FigureSource, FigureTable, FigureValue, Run, Trial};
use layermark_stats::median;

use super::{
    index::Index,
    latency,
    others::{self, DeviceCounter},
};
use crate::{
    group,
    statements::figures::Peak,
    types::{FigureGroup, FigureRow, ResultRow},
    words::{NO_NAMES, Words, figure_values as words},
};

/// The figures of all results whose trials have some, grouped by the same work.
pub fn groups(run: &Run, index: &Index, results: &[ResultRow]) -> Vec<FigureGroup> {
    let all = results.iter().filter_map(|result| {
        let (declared, row) = row(run, index, result)?;
        let what = result.meaning.describe(declared.across.as_slice());
        Some(((&result.workload, what), (declared, row)))
    });
    let groups = group::grouped(all).into_iter();
    let groups = groups.map(|((workload, what), alike)| {
        let (mut declared, rows): (Vec<FigureTable>, Vec<FigureRow>) = alike.into_iter().unzip();
        let mut first = declared.remove(0);
        for figure in declared.into_iter().flat_map(|table| table.figures) {
            if !first.figures.iter().any(|known| known.name == figure.name) {
                first.figures.push(figure);
            }
        }
        let mut group = FigureGroup {
            workload: workload.clone(),
            what,
            declared: first,
            rows,
        };
        sort(&mut group);
        mark_peaks(&mut group, results);
        group
    });
    groups.collect()
}

/// The figures of one result.
fn row(run: &Run, index: &Index, result: &ResultRow) -> Option<(FigureTable, FigureRow)> {
    let (layer, at) = run.site(&result.layer, &result.label)?;
    let declared = run.points[at].meaning.figures.as_deref()?;
    let records = index.trials(layer, at);
    let trials: Vec<&Trial> = records.iter().filter_map(|r| r.trial.as_ref()).collect();
    let sent = trials.iter().any(|t| !t.figures.is_empty());
    // The row has means of latencies too.
    let rate = result.average_value().filter(|_| sent)?;
    let declared = with_each(declared, &trials);
    let mut site = FigureSite {
        declared: &declared,
        result,
        rate,
        trials: trials
            .into_iter()
            .filter(|t| !t.figures.is_empty())
            .collect(),
        values: BTreeMap::new(),
    };
    let mut left_out = Vec::new();
    for figure in &declared.figures {
        if let Some(value) = site.value(figure) {
            site.values.insert(figure.name.clone(), value);
        } else if site.is_of_others(figure) {
            left_out.push(figure.name.clone());
        }
    }
    let row = FigureRow {
        result: result.id.clone(),
        layer: result.layer.clone(),
        label: result.label.clone(),
        values: site.values,
        left_out,
    };
    Some((declared, row))
}

/// The table with a figure for each value that the trials have named themselves.
fn with_each(declared: &FigureTable, trials: &[&Trial]) -> FigureTable {
    let mut declared = declared.clone();
    let figures = std::mem::take(&mut declared.figures);
    for figure in figures {
        let FigureSource::Each(group) = &figure.source else {
            declared.figures.push(figure);
            continue;
        };
        let names: BTreeSet<&str> = trials.iter().flat_map(|t| t.figures.names(group)).collect();
        for name in names {
            let full = [group.as_str(), name].join(".");
            let mut units = trials.iter();
            let of_unit = [group.as_str(), "_unit"].concat();
            let unit = units.find_map(|t| t.figures.texts(&of_unit).remove(name));
            let parts = [Some(name), unit.filter(|unit| !unit.is_empty())];
            let head = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
            let median = FigureSource::Median(Amount::Value(full.clone()));
            let each = Figure::new(&full, figure.unit, median);
            declared.figures.push(each.head(&head).optional());
        }
    }
    declared
}

/// A result, its trials, and the figures computed so far.
struct FigureSite<'a> {
    declared: &'a FigureTable,
    result: &'a ResultRow,
    /// Work per second.
    rate: f64,
    trials: Vec<&'a Trial>,
    values: BTreeMap<String, FigureValue>,
}

impl FigureSite<'_> {
    fn value(&self, figure: &Figure) -> Option<FigureValue> {
        let latency = self.result.latency_us.as_ref();
        let number = match &figure.source {
            FigureSource::Last(name) => return self.trials.last()?.figures.get(name).cloned(),
            FigureSource::Text(text) => return Some(FigureValue::Text(self.filled(text))),
            FigureSource::Axis(quantity) => self.result.meaning.value(*quantity)? as f64,
            FigureSource::Rate | FigureSource::RateInInterval => self.reached(),
            FigureSource::Every => 1e6 / self.reached(),
            FigureSource::OperationTime => self.result.op_us?,
            FigureSource::MeanLatency => latency?.mean,
            FigureSource::MedianLatency => latency?.p50,
            FigureSource::P99Latency => latency?.p99?,
            FigureSource::Within(percent) => self.within(*percent)?,
            FigureSource::Ratio => self.result.ratio?.estimate,
            FigureSource::Sum(amount) => self.sum(amount)?,
            FigureSource::Per { of, over } => self.sum_of(of)? / self.sum_of(over)?,
            FigureSource::Median(amount) => median(&self.each(amount))?,
            FigureSource::Least(amount) => self.each(amount).into_iter().reduce(f64::min)?,
            FigureSource::Most(amount) => self.each(amount).into_iter().reduce(f64::max)?,
            FigureSource::Share { of, over } => self.number(of)? / self.number(over)?,
            // Programs are compared with the trials of other layers, and a peak needs all rows.
            FigureSource::Programs | FigureSource::Peak | FigureSource::Each(_) => return None,
        };
        let number = words::in_unit(figure.unit, number);
        number.is_finite().then_some(FigureValue::Number(number))
    }

    /// The rate. At a fixed pace the result is a time, and the rate is what was reached.
    fn reached(&self) -> f64 {
        if !self.result.meaning.paced {
            return self.rate;
        }
        let sum = |amount: &Amount| self.sum(amount).unwrap_or_default();
        sum(&Amount::Operations) / sum(&Amount::Seconds)
    }

    fn number(&self, name: &str) -> Option<f64> {
        match self.values.get(name)? {
            FigureValue::Number(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether a figure has no value because other programs used the device.
    fn is_of_others(&self, figure: &Figure) -> bool {
        let amounts = figure.source.amounts();
        let mut counters = amounts.into_iter().filter_map(DeviceCounter::behind);
        let counted = self.trials.iter().all(|t| t.device.is_some());
        counted && counters.any(|counter| others::counts(&self.trials, counter).is_none())
    }

    /// The amount of each trial that has it. What a device counted is not the layer's while others use it.
    fn amounts(&self, amount: &Amount) -> Vec<f64> {
        let device = DeviceCounter::behind(amount).map(|counter| {
            let counts = others::counts(&self.trials, counter).unwrap_or_default();
            counts.into_iter().map(|count| count as f64).collect()
        });
        device.unwrap_or_else(|| self.trials.iter().filter_map(|t| raw(amount, t)).collect())
    }

    /// Sum over all trials; `None` if one of them lacks the amount.
    fn sum(&self, amount: &Amount) -> Option<f64> {
        let all = self.amounts(amount);
        let sum: f64 = all.iter().sum();
        (all.len() == self.trials.len()).then(|| sum / scale(amount))
    }

    fn sum_of(&self, amounts: &[Amount]) -> Option<f64> {
        amounts.iter().map(|amount| self.sum(amount)).sum()
    }

    /// Values of the trials that have the amount.
    fn each(&self, amount: &Amount) -> Vec<f64> {
        let all = self.amounts(amount).into_iter();
        all.map(|value| value / scale(amount)).collect()
    }

    /// Percentile of all operations of all trials together.
    fn within(&self, percent: u32) -> Option<f64> {
        let trials = self.trials.iter().copied();
        let ns = latency::percentile(trials, f64::from(percent) / 100.0)?;
        Some(ns / 1e3)
    }

    /// The text with the figures in place of their names.
    fn filled(&self, text: &str) -> String {
        words::with_figures(text, &self.declared.figures, &self.values)
    }
}

/// A trial's amount, in its stored unit; not of a device.
fn raw(amount: &Amount, trial: &Trial) -> Option<f64> {
    Some(match amount {
        Amount::Value(name) | Amount::Nanoseconds(name) => return trial.figures.number(name),
        Amount::Operations => trial.ops() as f64,
        Amount::Bytes | Amount::Kilobytes => trial.bytes() as f64,
        Amount::Seconds => trial.elapsed_ns() as f64,
        Amount::Cpu => (trial.cpu.user_ns + trial.cpu.sys_ns) as f64,
        Amount::HostCpu => trial.busy_ns? as f64,
        Amount::Syncs => trial.syncs as f64,
        Amount::DeviceFlushes | Amount::DeviceWritten => return None,
    })
}

/// Its divisor: times become microseconds, except for seconds.
fn scale(amount: &Amount) -> f64 {
    match amount {
        Amount::Nanoseconds(_) | Amount::Cpu | Amount::HostCpu => 1e3,
        Amount::Seconds => 1e9,
        Amount::Kilobytes => 1024.0,
        _ => 1.0,
    }
}

/// Sorts by layer, then by the curve's quantity.
fn sort(group: &mut FigureGroup) {
    let axis = group.axis().map(|f| f.name.clone());
    let Some(axis) = axis.filter(|_| group.declared.curve) else {
        return;
    };
    let at = |row: &FigureRow| row.number(&axis).unwrap_or_default();
    let rows = &mut group.rows;
    rows.sort_by(|a, b| a.layer.cmp(&b.layer).then(at(a).total_cmp(&at(b))));
}

/// Marks the row with each layer's highest rate on a curve, and whether the next one is decidedly
/// lower. Ignores untrusted results.
fn mark_peaks(group: &mut FigureGroup, results: &[ResultRow]) {
    let peak = |f: &&Figure| f.source == FigureSource::Peak;
    let Some((peak, axis)) = group.declared.figures.iter().find(peak).zip(group.axis()) else {
        return;
    };
    let (peak, axis) = (peak.name.clone(), axis.name.clone());
    let mut along: Vec<(usize, f64, &ResultRow)> = Vec::new();
    for (at, row) in group.rows.iter().enumerate() {
        let mut found = results.iter().filter(|r| r.untrusted.is_none());
        let found = found.find(|r| r.id == row.result);
        along.extend(found.zip(row.number(&axis)).map(|(r, x)| (at, x, r)));
    }
    for (at, x, here) in &along {
        let others = || along.iter().filter(|(.., r)| r.layer == here.layer);
        if others().any(|(.., r)| r.value > here.value) {
            continue;
        }
        let next = others().filter(|(_, more, _)| more > x);
        let next = next.min_by(|a, b| a.1.total_cmp(&b.1));
        let decided = here.interval.zip(next.and_then(|(.., r)| r.interval));
        let found = match next {
            _ if decided.is_some_and(|([low, _], [_, high])| low > high) => Peak::Decided,
            Some((_, next, _)) => Peak::Open(*next, &axis),
            None => Peak::Last(&axis),
        };
        let shown = FigureValue::Text(found.words(&NO_NAMES).into());
        group.rows[*at].values.insert(peak.clone(), shown);
    }
}

impl FigureGroup {
    /// The figure of the setting in which the rows of a table differ.
    pub(crate) fn axis(&self) -> Option<&Figure> {
        let quantity = self.declared.across?;
        let mut all = self.declared.figures.iter();
        all.find(|f| f.source == FigureSource::Axis(quantity))
    }
}

impl FigureRow {
    /// The figure of this name, if it is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.values.get(name)? {
            FigureValue::Number(value) => Some(*value),
            _ => None,
        }
    }
}

/// Programs that differ between trials, if the figures say that such trials cannot be compared.
pub fn unlike_programs(declared: &FigureTable, trials: &[&Trial]) -> Option<String> {
    let group = declared.programs()?;
    let mut all = trials.iter().map(|t| t.figures.texts(group));
    let first = all.by_ref().find(|programs| !programs.is_empty())?;
    let mut unlike = BTreeSet::new();
    for other in all.filter(|programs| !programs.is_empty()) {
        let changed = |(name, hash): &(&&str, &&str)| other.get(**name) != Some(*hash);
        unlike.extend(first.iter().filter(changed).map(|(name, _)| *name));
    }
    let names: Vec<&str> = unlike.into_iter().collect();
    (!names.is_empty()).then(|| names.join(", "))
}
