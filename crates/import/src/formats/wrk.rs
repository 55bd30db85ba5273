//! wrk and wrk2: what they print.

use layermark_model::ImportedPoint;

use super::{Found, Results};
use crate::{
    lines::{self, Section},
    values,
};

pub const WRK: Results = Results {
    id: "wrk",
    about: "wrk, wrk2: the text that they print, with --latency for percentiles",
    example: "wrk --latency -c 16 -d 10 http://127.0.0.1:8080/ > FILE",
    begins,
    read,
    needs: "result of wrk",
};

/// Units of its times, microseconds.
const TIMES: &[(&str, f64)] = &[
    ("us", 1.0),
    ("ms", 1e3),
    ("s", 1e6),
    ("m", 60e6),
    ("h", 3600e6),
];

fn begins(line: &str) -> bool {
    line.starts_with("Running ") && line.contains(" test @ ")
}

fn read(run: &Section, found: &mut Found) -> Result<(), String> {
    if found.tool.is_empty() {
        found.tool = "wrk".into();
    }
    let (_, url) = run.lines[0].split_once(" test @ ").unwrap_or_default();
    // Two servers have the same path and another host.
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = path.find('/').map_or("/", |at| &path[at..]);
    let name = format!("GET {}", values::clean(path));
    let paced = run
        .lines
        .iter()
        .any(|l| l.starts_with("Thread calibration") || l.contains("HdrHistogram"));
    if paced {
        found.tool = "wrk2".into();
        found.note(format!(
            "`{name}` is not compared: wrk2 limits its rate, and the file does not say to what"
        ));
    }
    let other = run
        .after("Non-2xx or 3xx responses:")
        .and_then(lines::number);
    if let Some(n) = other.filter(|n| *n > 0.0) {
        found.note(format!(
            "`{name}` is not compared: {n} answers have another status than 2xx or 3xx"
        ));
    }
    if let Some(errors) = run.after("Socket errors:") {
        found.note(format!(
            "`{name}`: socket errors: {}",
            values::clean(errors)
        ));
    }
    let connections = run.lines.iter().find_map(|l| {
        let (_, rest) = l.split_once(" threads and ")?;
        lines::number(rest)
    });
    // Average, deviation, longest.
    let stats: Vec<&str> = run.need("Latency ")?.split_whitespace().collect();
    let at = |n: usize| {
        stats
            .get(n)
            .and_then(|text| micros(text))
            .filter(|us| *us > 0.0)
    };
    let mean =
        at(0).ok_or_else(|| format!("the result in line {}: `Latency` has no time", run.first))?;
    let p99 = run
        .after("99%")
        .or_else(|| run.after("99.000%"))
        .and_then(micros);
    found.point(ImportedPoint {
        op: (!paced && other.is_none()).then(|| "GET".into()),
        queue_depth: connections.map(|n| n as u64),
        ops_per_s: Some(values::rate("Requests/sec", run.number("Requests/sec:")?)?),
        op_us: Some(values::micros("Latency", mean)?),
        p99_us: p99.map(|us| values::micros("99%", us)).transpose()?,
        max_us: at(2).map(|us| values::micros("Latency", us)).transpose()?,
        name,
        ..ImportedPoint::default()
    })
}

/// A time with its unit, in microseconds.
fn micros(text: &str) -> Option<f64> {
    let (value, unit) = lines::with_unit(text)?;
    let (_, scale) = TIMES.iter().find(|(name, _)| *name == unit)?;
    Some(value * scale)
}
