//! What studies ask of results.

use layermark_model::{CacheState, Quantity, flags};
use layermark_stats::{self as stats, Comparison, Interval};

use super::Data;
use crate::{
    code_span::code,
    types::{ResultRow, Verdict},
};

/// Bytes of one request; 0 where there is none.
pub fn request_size(row: &ResultRow) -> u64 {
    row.meaning.value(Quantity::RequestSize).unwrap_or(0)
}

/// Bytes of the file; 0 where there is none.
pub fn data_size(row: &ResultRow) -> u64 {
    row.meaning.value(Quantity::DataSize).unwrap_or(0)
}

/// The state of the caches that was asked for; empty where none was.
pub fn cache_asked(row: &ResultRow) -> &'static str {
    row.meaning.cache.map_or("", CacheState::word)
}

/// How I/O was made; empty where there is no choice.
pub fn engine_used(row: &ResultRow) -> &str {
    row.meaning.engine.as_deref().unwrap_or_default()
}

/// A result whose number shows what it claims to show.
pub fn usable(row: &ResultRow) -> bool {
    row.op_us.is_some() && row.verdict != Verdict::Untrusted
}

/// What the report's rule says of results that a study asks about together: these are its family, since
/// it named them beforehand, whatever else the plan describes or asks a verdict on.
pub fn judged(data: &Data, rows: &[&ResultRow]) -> Vec<stats::Verdict> {
    let family: Vec<_> = rows.iter().map(|r| comparison(r)).collect();
    let words = stats::judge(&family, data.run.plan.delta);
    words.iter().map(|j| j.verdict).collect()
}

/// How a result compares with native, as the report has it.
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

/// The layer's name over a column of numbers, with what has to be known to read them.
pub fn heading(data: &Data, layer: &str) -> String {
    if is_emulated(data, layer) {
        format!("{layer} ({})", flags::EMULATED_CPU)
    } else {
        layer.to_owned()
    }
}

/// A sentence in which every layer on an emulated CPU is marked as such.
pub fn marked(data: &Data, mut text: String) -> String {
    for layer in layers(data) {
        if is_emulated(data, layer) {
            let name = code(layer);
            text = text.replace(&name, &format!("{name} ({})", flags::EMULATED_CPU));
        }
    }
    text
}

/// Different values of a quantity in results, going up.
pub fn values<'a>(
    rows: impl Iterator<Item = &'a ResultRow>,
    of: fn(&ResultRow) -> u64,
) -> Vec<u64> {
    let mut values: Vec<u64> = rows.map(of).filter(|v| *v > 0).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Seconds for the whole file once: the centre of the trials.
pub fn seconds(row: &ResultRow) -> Option<f64> {
    Some(row.op_us? * records(row)? / 1e6)
}

/// Seconds of CPU time of the program for the whole file once.
pub fn cpu_seconds(row: &ResultRow) -> Option<f64> {
    Some(row.cpu_us_per_op?.probe * records(row)? / 1e6)
}

fn records(row: &ResultRow) -> Option<f64> {
    let record = request_size(row);
    (record > 0).then(|| data_size(row) as f64 / record as f64)
}

/// With a capital letter at its beginning.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}
