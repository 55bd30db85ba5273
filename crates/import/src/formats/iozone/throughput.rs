//! The throughput mode (`-t`): a total for each test of so many processes, each with a file of its own.

use layermark_model::ImportedPoint;

use super::{Found, Head, Run, kilobytes};
use crate::values;

/// Who a total is of, as iozone calls them, our operation, and our engine if it is not the run's.
const WHO: &[(&str, &str, Option<&'static str>)] = &[
    ("initial writers", "write", None),
    ("rewriters", "rewrite", None),
    ("readers", "read", None),
    ("re-readers", "reread", None),
    ("reverse readers", "backward-read", None),
    ("stride readers", "stride-read", None),
    ("random readers", "rand-read", None),
    ("random writers", "rand-write", None),
    ("pwrite writers", "write", Some("pread")),
    ("pread readers", "read", Some("pread")),
    ("fwriters", "write", Some("stdio")),
    ("freaders", "read", Some("stdio")),
];

/// Reads the lines "Children see throughput for 4 initial writers = 1000.00 kB/sec". The parent's own
/// figure, below, includes the start of the processes.
pub fn read(run: &Run, head: &Head, found: &mut Found) -> Result<(), String> {
    let mut sizes = None;
    for (at, line) in run.lines.iter().enumerate() {
        let line = line.trim();
        sizes = file_and_record(line).or(sizes);
        let Some(total) = line.strip_prefix("Children see throughput for") else {
            continue;
        };
        run.whole(at)?;
        let number = run.number(at);
        let wrong = || {
            format!(
                "line {number}: `{}` is not a total of iozone",
                values::clean(line)
            )
        };
        let (who, value) = total.split_once('=').ok_or_else(wrong)?;
        let (count, who) = who.trim().split_once(' ').ok_or_else(wrong)?;
        let threads: u64 = count.parse().map_err(|_| wrong())?;
        let (value, unit) = value.trim().split_once(' ').ok_or_else(wrong)?;
        let value: f64 = value.parse().map_err(|_| wrong())?;
        let who = who.trim();
        let known = WHO.iter().find(|(name, ..)| *name == who);
        if known.is_none() {
            found.note(format!(
                "line {number}: `{}` do what no operation of ours does",
                values::clean(who)
            ));
        }
        // As for tables: 0 is of a test that was not run.
        let Some((file_size, record)) = sizes.filter(|_| value != 0.0) else {
            continue;
        };
        let what = format!("line {number}: {who}");
        let ops = match unit.trim() {
            "ops/sec" => value,
            "kB/sec" | "KB/sec" => value * 1024.0 / record as f64,
            other => {
                let other = values::clean(other);
                return Err(format!("{what}: `{other}` is not a unit of a total"));
            }
        };
        let (op, engine) = known.map_or((None, None), |(_, op, engine)| (Some(*op), *engine));
        let ops_per_s = values::rate(&what, ops)?;
        found.point(ImportedPoint {
            name: values::clean(who),
            op: op.map(str::to_owned),
            record: Some(record),
            file_size: Some(file_size),
            threads: Some(threads),
            bytes_per_s: Some(values::rate(&what, ops * record as f64)?),
            ops_per_s: Some(ops_per_s),
            // Each process waits for its own.
            op_us: Some(values::micros(&what, threads as f64 * 1e6 / ops_per_s)?),
            ..head.point(engine)
        })?;
    }
    Ok(())
}

/// "Each process writes a 1024 kByte file in 4 kByte records", in bytes.
fn file_and_record(line: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = line.strip_prefix("Each ")?.split_whitespace().collect();
    let before = |unit: &str, what: &str| {
        let at = words.windows(2).position(|two| two == [unit, what])?;
        kilobytes(words.get(at.checked_sub(1)?)?)
    };
    Some((before("kByte", "file")?, before("kByte", "records")?))
}
