//! Results of another program beside ours: the numbers and how their conditions differ, never a
//! verdict.

use layermark_model::{Import, ImportedPoint, mix_name};
use serde_json::{Map, Value};

use crate::{
    plain,
    types::{ExternalResults, ExternalRow, Report, ResultRow},
};

impl Report {
    /// Sets an import beside the results.
    pub fn set_beside(&mut self, import: &Import) {
        let import = &plain::texts(import.clone());
        let mut rows = Vec::new();
        let mut unmatched = Vec::new();
        for theirs in &import.points {
            let ours = self.results.iter().filter(|row| same_work(row, theirs));
            let before = rows.len();
            rows.extend(ours.filter_map(|row| pair(row, theirs)));
            if rows.len() == before {
                unmatched.push(describe(theirs));
            }
        }
        self.beside.push(ExternalResults {
            import: import.id.clone(),
            tool: import.tool.clone(),
            file: import.file.clone(),
            measured: import.measured.clone(),
            notes: import.notes.clone(),
            rows,
            unmatched,
        });
    }
}

/// What makes two points the same work.
struct ExternalWork {
    op: String,
    record: u64,
    file_size: u64,
    queue_depth: u64,
    threads: u64,
}

/// Ours, where another program may have the same.
fn work(row: &ResultRow) -> Option<ExternalWork> {
    let number = |key: &str| row.point.get(key).and_then(Value::as_u64);
    let file_size = number("file_size")?;
    let queue_depth = number("iodepth").unwrap_or(1).max(1);
    match row.workload.as_str() {
        "file" => Some(ExternalWork {
            op: text(&row.point, "op").to_owned(),
            record: number("record")?,
            file_size,
            queue_depth,
            threads: number("threads").unwrap_or(1),
        }),
        "iops" => Some(ExternalWork {
            op: mix_name(number("read")? as f64, number("random")? as f64),
            record: number("size")?,
            file_size,
            queue_depth,
            threads: number("workers").unwrap_or(1),
        }),
        _ => None,
    }
}

fn text<'a>(point: &'a Map<String, Value>, key: &str) -> &'a str {
    point.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn same_work(row: &ResultRow, theirs: &ImportedPoint) -> bool {
    let Some(op) = &theirs.op else { return false };
    if op == "command" {
        let is = |v: &Value| v.as_str().is_some_and(|text| text == theirs.name);
        return row.point.values().any(is);
    }
    let Some(ours) = work(row) else { return false };
    // These are other operations, not other ways to make the same calls.
    let apart = |engine: &str| matches!(engine, "stdio" | "mmap");
    let (engine, other) = (text(&row.point, "engine"), theirs.engine.as_deref());
    let other = other.unwrap_or_default();
    *op == ours.op
        && theirs.record == Some(ours.record)
        && theirs.file_size.is_none_or(|size| size == ours.file_size)
        && theirs.queue_depth.unwrap_or(1) == ours.queue_depth
        && theirs.threads.unwrap_or(1) == ours.threads
        && (engine == other || !(apart(engine) || apart(other)))
}

/// `None` where one of them has no number.
fn pair(row: &ResultRow, theirs: &ImportedPoint) -> Option<ExternalRow> {
    let rate = match row.unit.as_str() {
        // The rate of one job among others is its own; an operation's time is what it waited for.
        _ if theirs.one_of.is_some() => None,
        "B/s" => theirs.bytes_per_s,
        "ops/s" => theirs.ops_per_s,
        _ => None,
    };
    let (unit, ours, interval, value, ratio) = if let Some((ours, rate)) = row.value.zip(rate) {
        (row.unit.as_str(), ours, row.interval, rate, rate / ours)
    } else {
        let (ours, value) = (row.op_us?, theirs.op_us?);
        ("us", ours, row.op_us_interval, value, ours / value)
    };
    ratio.is_finite().then(|| ExternalRow {
        result: row.id.clone(),
        point: row.label.clone(),
        layer: row.layer.clone(),
        name: theirs.name.clone(),
        unit: unit.into(),
        ours,
        interval,
        theirs: value,
        ratio,
        differences: differences(row, theirs),
    })
}

fn differences(row: &ResultRow, theirs: &ImportedPoint) -> Vec<String> {
    let mut found = Vec::new();
    let mut told = |what: &str, ours: &str, theirs: Option<&str>| {
        if theirs != Some(ours) {
            let theirs = theirs.unwrap_or("not told");
            found.push(format!("{what}: ours {ours}, theirs {theirs}"));
        }
    };
    if let Some(served) = row.served_by {
        let ours = format!("{} ({})", text(&row.point, "cache"), served.word());
        told("cache", ours.trim_start(), None);
    }
    let switch = |on: bool| if on { "on" } else { "off" };
    if let Some(direct) = row.point.get("direct").and_then(Value::as_bool) {
        told("O_DIRECT", switch(direct), theirs.direct.map(switch));
    }
    let writes = theirs.op.as_ref().is_some_and(|op| op.contains("write"));
    if writes && !text(&row.point, "sync").is_empty() {
        told("flush", text(&row.point, "sync"), theirs.sync.as_deref());
    }
    if !text(&row.point, "engine").is_empty() {
        told(
            "engine",
            text(&row.point, "engine"),
            theirs.engine.as_deref(),
        );
    }
    if let Some(jobs) = theirs.one_of {
        found.push(format!(
            "rate: not compared, theirs is one of {jobs} jobs at once"
        ));
    }
    if theirs.file_size.is_none() && theirs.op.as_deref() != Some("command") {
        found.push("file size: theirs not told".into());
    }
    found
}

fn describe(point: &ImportedPoint) -> String {
    let mut parts = vec![point.name.clone()];
    parts.extend(point.op.clone().filter(|op| *op != point.name));
    let sizes = [(point.record, "records"), (point.file_size, "file")];
    for (size, what) in sizes {
        parts.extend(size.map(|n| format!("{} {what}", layermark_model::format_size(n))));
    }
    for (n, what) in [
        (point.queue_depth, "queue depth"),
        (point.threads, "threads"),
    ] {
        parts.extend(n.filter(|n| *n > 1).map(|n| format!("{what} {n}")));
    }
    parts.join(", ")
}
