//! Helpers with which studies read results.

use layermark_model::{CacheState, Quantity, Quotient, Site, Trial, TrialRecord, Unit};
use layermark_stats::{self as stats, Comparison, Interval, Pair, compare_all};

use super::Data;
use crate::{
    facts::LEVEL,
    statements::studies::declared::{HostCpu, WorkUnit},
    types::{Conclusion, Estimate, ResultRow, Verdict},
    words::{self, Text},
};

/// Bytes of one request; 0 if there is none.
pub fn request_size(row: &ResultRow) -> u64 {
    row.meaning.value(Quantity::RequestSize).unwrap_or(0)
}

/// Bytes of the file; 0 if there is none.
pub fn data_size(row: &ResultRow) -> u64 {
    row.meaning.value(Quantity::DataSize).unwrap_or(0)
}

/// The requested state of the caches; empty if none was requested.
pub fn cache_asked(row: &ResultRow) -> &'static str {
    row.meaning.cache.map_or("", CacheState::word)
}

/// The I/O engine; empty if the workload has no choice.
pub fn engine_used(row: &ResultRow) -> &str {
    row.meaning.engine.as_deref().unwrap_or_default()
}

/// Whether the number shows what it claims.
pub fn usable(row: &ResultRow) -> bool {
    row.op_us.is_some() && row.verdict != Verdict::Untrusted
}

/// The verdicts of the report's rule on results that a study compares together. They are a family
/// of their own, because the study named them beforehand. Other verdicts of the plan do not count.
pub fn judged(data: &Data, rows: &[&ResultRow]) -> Vec<stats::Verdict> {
    let family: Vec<_> = rows.iter().map(|r| comparison(r)).collect();
    let words = stats::judge(&family, data.run.plan.delta);
    words.iter().map(|j| j.verdict).collect()
}

/// The report's comparison of a result with native.
pub fn comparison(row: &ResultRow) -> Option<Comparison> {
    let ratio = row.ratio?;
    let [low, high] = ratio.interval?;
    Some(Comparison {
        n: row.blocks,
        effective_n: row.effective_n?,
        ratio: ratio.estimate,
        ratio_interval: Some(Interval { low, high }),
        cost: 1.0,
        diff: 0.0,
        diff_interval: None,
        p: row.p?,
        change_points: Vec::new(),
        steady: true,
        levels: vec![ratio.estimate],
        outliers: row.outliers,
    })
}

/// Layers that have results, in the plan's order.
pub fn layers<'a>(data: &Data<'a>) -> Vec<&'a str> {
    let names = data.run.layers.iter().filter(|l| !l.control);
    names
        .map(|l| l.name.as_str())
        .filter(|n| data.results.iter().any(|r| r.layer == *n && r.trials > 0))
        .collect()
}

/// Whether every instruction of the layer's probe was emulated.
pub fn is_emulated(data: &Data, layer: &str) -> bool {
    let of = data.run.layers.iter().find(|l| l.name == layer);
    of.is_some_and(|l| l.facts.emulated_cpu())
}

/// The layer's name as a heading of numbers, with a remark about an emulated CPU.
pub fn heading(data: &Data, layer: &str) -> Text {
    words::studies::layer_head(layer, is_emulated(data, layer))
}

/// Adds a remark to each name of a layer on an emulated CPU.
pub fn mark(data: &Data, conclusions: &mut [Conclusion]) {
    let mut emulated = layers(data);
    emulated.retain(|layer| is_emulated(data, layer));
    for conclusion in conclusions {
        let text = Text::from(std::mem::take(&mut conclusion.text));
        conclusion.text = words::studies::marked(text, &emulated).into();
    }
}

/// Distinct values of a quantity in results, ascending.
pub fn values<'a>(
    rows: impl Iterator<Item = &'a ResultRow>,
    of: fn(&ResultRow) -> u64,
) -> Vec<u64> {
    let mut values: Vec<u64> = rows.map(of).filter(|v| *v > 0).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Seconds for the whole file: the centre of the trials.
pub fn seconds(row: &ResultRow) -> Option<f64> {
    Some(row.op_us? * records(row)? / 1e6)
}

/// CPU time of the program for the whole file, seconds.
pub fn cpu_seconds(row: &ResultRow) -> Option<f64> {
    Some(row.cpu_us_per_op?.probe * records(row)? / 1e6)
}

fn records(row: &ResultRow) -> Option<f64> {
    let record = request_size(row);
    (record > 0).then(|| data_size(row) as f64 / record as f64)
}

/// Ids of results.
pub fn ids<'a>(rows: impl IntoIterator<Item = &'a ResultRow>) -> Vec<String> {
    rows.into_iter().map(|r| r.id.clone()).collect()
}

/// Geometric mean of ratios: for ordering layers, never for a verdict on one.
pub fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = ratios.iter().map(|r| r.ln()).collect();
    stats::mean(&logs).map(f64::exp)
}

/// CPU time of this machine, of all programs.
pub fn host_cpu(data: &Data, row: &ResultRow) -> Option<HostCpu> {
    let (layer, point) = data.run.site(&row.layer, &row.label)?;
    let trials = data.index.trials(layer, point).into_iter();
    let trials: Vec<_> = trials.filter_map(|t| t.trial.as_ref()).collect();
    let busy: Option<u64> = trials.iter().map(|t| t.busy_ns).sum();
    let (units, per) = match row.meaning.unit {
        Unit::Byte => (
            trials.iter().map(|t| t.bytes()).sum::<u64>() as f64 / 1024.0,
            WorkUnit::Kilobyte,
        ),
        _ => (
            trials.iter().map(|t| t.ops()).sum::<u64>() as f64,
            WorkUnit::Operation,
        ),
    };
    let us = busy? as f64 / 1e3 / units;
    us.is_finite().then_some(HostCpu { us, per })
}

/// Comparisons of pairs of results, here with there, by the blocks in which both have a number.
pub fn compared(
    data: &Data,
    sides: &[(&ResultRow, &ResultRow)],
    of: &Quotient,
) -> Vec<Option<Comparison>> {
    let site = |row: &ResultRow| data.run.site(&row.layer, &row.label);
    let pairs = |(here, there): &(&ResultRow, &ResultRow)| match (of, site(here).zip(site(there))) {
        (_, None) => Vec::new(),
        (Quotient::Time, Some((here, there))) => data.index.pairs_of(here, there),
        // CPUs of this machine that were busy.
        (Quotient::Cpu, Some((here, there))) => pairs_by(data, here, there, |trial| {
            Some(trial.busy_ns? as f64 / trial.elapsed_ns() as f64)
        }),
        (Quotient::Figure(name), Some((here, there))) => {
            pairs_by(data, here, there, |trial| trial.figures.number(name))
        }
    };
    let pairs: Vec<_> = sides.iter().map(|s| pairs(s).into()).collect();
    compare_all(&pairs, LEVEL, data.run.seed)
}

/// A figure of the trials, here and there, in the blocks of both.
fn pairs_by(
    data: &Data,
    here: Site,
    there: Site,
    figure: impl Fn(&Trial) -> Option<f64>,
) -> Vec<Pair> {
    let figure = |r: &TrialRecord| {
        figure(r.trial.as_ref()?).filter(|value| value.is_finite() && *value > 0.0)
    };
    let block = |r: &TrialRecord| (r.cell.session, r.cell.block);
    let own = data.index.trials(here.0, here.1).into_iter();
    let pair = |own: &TrialRecord| {
        let other = if here.1 == there.1 {
            data.index.in_same_rounds(own, there.0)
        } else {
            let mut all = data.index.trials(there.0, there.1).into_iter();
            all.find(|r| block(r) == block(own))
        };
        Some(Pair::new(block(own), figure(own)?, figure(other?)?))
    };
    own.filter_map(pair).collect()
}

/// The ratio of a comparison with its interval.
pub fn estimate(c: &Comparison) -> Estimate {
    Estimate::new(c.ratio, interval(Some(c)))
}

/// Of a ratio that does not change during the run: no number describes another one.
pub fn interval(c: Option<&Comparison>) -> Option<[f64; 2]> {
    let interval = c.filter(|c| c.steady)?.ratio_interval?;
    Some([interval.low, interval.high])
}
