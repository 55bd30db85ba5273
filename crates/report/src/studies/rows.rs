//! What studies ask of results.

use serde_json::Value;

use super::Data;
use crate::types::{ResultRow, Verdict};

/// A parameter that is a number; 0 when there is none.
pub fn number(row: &ResultRow, key: &str) -> u64 {
    row.point.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// A parameter that is a word; empty when there is none.
pub fn word<'a>(row: &'a ResultRow, key: &str) -> &'a str {
    row.point
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A result whose number shows what it claims to show.
pub fn usable(row: &ResultRow) -> bool {
    row.op_us.is_some() && row.verdict != Verdict::Untrusted
}

/// Layers that have results, in the plan's order.
pub fn layers<'a>(data: &Data<'a>) -> Vec<&'a str> {
    let names = data.run.layers.iter().filter(|l| !l.control);
    names
        .map(|l| l.name.as_str())
        .filter(|n| data.results.iter().any(|r| r.layer == *n && r.trials > 0))
        .collect()
}

/// Different values of a parameter in results, going up.
pub fn values<'a>(rows: impl Iterator<Item = &'a ResultRow>, key: &str) -> Vec<u64> {
    let mut values: Vec<u64> = rows.map(|r| number(r, key)).filter(|v| *v > 0).collect();
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
    let record = number(row, "record");
    (record > 0).then(|| number(row, "file_size") as f64 / record as f64)
}
