//! Results of another program next to ours: the numbers and the differences of their conditions,
//! without a verdict.

use layermark_model::{Import, ImportedPoint, Quantity, Unit};

use crate::{
    plain,
    statements::external::{Condition, Imported},
    types::{ExternalResults, ExternalRow, Report, ResultRow},
    words::{NO_NAMES, Words},
};

impl Report {
    /// Adds an import to the report, next to the results.
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

fn same_work(row: &ResultRow, theirs: &ImportedPoint) -> bool {
    let (Some(op), ours) = (&theirs.op, &row.meaning) else {
        return false;
    };
    if op == "command" {
        return ours.unit == Unit::Launch && ours.operation == theirs.name;
    }
    let sizes = ours
        .value(Quantity::RequestSize)
        .zip(ours.value(Quantity::DataSize));
    let Some((record, file_size)) = sizes else {
        return false;
    };
    let least_one = |quantity| ours.value(quantity).unwrap_or(1);
    // These are other operations, not other ways to make the same calls.
    let apart = |engine: &str| matches!(engine, "stdio" | "mmap");
    let engine = ours.engine.as_deref().unwrap_or_default();
    let other = theirs.engine.as_deref().unwrap_or_default();
    *op == ours.operation
        && theirs.record == Some(record)
        && theirs.file_size.is_none_or(|size| size == file_size)
        && theirs.queue_depth.unwrap_or(1) == least_one(Quantity::QueueDepth)
        && theirs.threads.unwrap_or(1) == least_one(Quantity::Threads)
        && (engine == other || !(apart(engine) || apart(other)))
}

/// `None` if one of them has no number.
fn pair(row: &ResultRow, theirs: &ImportedPoint) -> Option<ExternalRow> {
    let rate = match row.unit.as_str() {
        // The rate of one of several jobs is only its own. The time of an operation is what it
        // waited for.
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
    let said = &row.meaning;
    let cache = row
        .served_by
        .map(|served| Condition::Cache(said.cache, served));
    let direct = said.direct.filter(|ours| theirs.direct != Some(*ours));
    let direct = direct.map(|ours| Condition::Direct(ours, theirs.direct));
    let (sync, engine) = (theirs.sync.as_deref(), theirs.engine.as_deref());
    let flush = said.sync.as_deref().filter(|ours| sync != Some(*ours));
    let flush = flush.map(|ours| Condition::Flush(ours, sync));
    let own_engine = said.engine.as_deref().filter(|ours| engine != Some(*ours));
    let engine = own_engine.map(|ours| Condition::Engine(ours, engine));
    let one_of = theirs.one_of.map(Condition::OneOf);
    let command = theirs.op.as_deref() == Some("command");
    let size = (theirs.file_size.is_none() && !command).then_some(Condition::FileSize);
    let all = [cache, direct, flush, engine, one_of, size];
    let all = all.iter().flatten();
    all.map(|c| c.words(&NO_NAMES).into()).collect()
}

/// A point of an import in words.
pub(super) fn describe(point: &ImportedPoint) -> String {
    Imported(point).words(&NO_NAMES).into()
}
