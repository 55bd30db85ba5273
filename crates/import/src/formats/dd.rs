//! dd: the lines that it prints at its end, of GNU, busybox and BSD.

use layermark_model::ImportedPoint;

use super::{Format, Found, short, some};
use crate::{lines, values};

pub struct Dd;

/// Words of the last line of dd: between bytes and time.
const COPIED: &[&str] = &[" copied, ", " transferred in "];

const UNKNOWN: &str = "dd does not print what it read and wrote: with its command line above the result, as in a \
                       terminal, the operation is known";

/// What supplies bytes without a disk.
const SOURCES: &[&str] = &["/dev/zero", "/dev/urandom", "/dev/random"];

impl Format for Dd {
    fn id(&self) -> &'static str {
        "dd"
    }

    fn about(&self) -> &'static str {
        "dd: the lines that it prints, with its command line above them"
    }

    fn example(&self) -> &'static str {
        "(set -x; dd if=/dev/zero of=x bs=1M count=1000 conv=fdatasync) 2> FILE"
    }

    fn knows(&self, text: &str) -> bool {
        text.contains(" records out") && lines::pieces(text).any(|(_, l)| result(l).is_some())
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        short(lines::pieces(text))?;
        let mut found = Found {
            tool: "dd".into(),
            ..Found::default()
        };
        let mut command = Command::default();
        // Of the line before a result: `status=progress` prints the like of it without one.
        let mut records: Option<&str> = None;
        for (at, line) in lines::pieces(text) {
            if let Some(given) = Command::of(line) {
                command = given;
                records = None;
            } else if let Some(count) = line.strip_suffix(" records out") {
                records = Some(count);
            } else if COPIED.iter().any(|words| line.contains(*words)) {
                let Some((records, (bytes, seconds))) = records.take().zip(result(line)) else {
                    continue;
                };
                let what = format!("line {at}");
                let point = std::mem::take(&mut command).point(bytes, whole_records(records));
                if point.op.is_none() && !found.notes.iter().any(|n| n == UNKNOWN) {
                    found.note(UNKNOWN.into());
                }
                let rate = values::rate(&what, bytes as f64 / seconds)?;
                let ops = point.record.map(|record| rate / record as f64);
                found.point(ImportedPoint {
                    bytes_per_s: Some(rate),
                    ops_per_s: ops,
                    op_us: ops
                        .filter(|n| *n > 0.0)
                        .map(|n| values::micros(&what, 1e6 / n))
                        .transpose()?,
                    ..point
                })?;
            }
        }
        some(found, "result of dd")
    }
}

/// Bytes and seconds of the last line.
fn result(line: &str) -> Option<(u64, f64)> {
    let line = line.trim();
    let words = COPIED.iter().find(|words| line.contains(**words))?;
    let (bytes, time) = line.split_once(words)?;
    let (bytes, _) = bytes.split_once(" byte")?;
    // A comma of the locale.
    let seconds = time.split(' ').next()?.replace(',', ".");
    let seconds: f64 = seconds.parse().ok()?;
    // What took no time that its clock could tell has no rate.
    (seconds > 0.0).then_some((bytes.parse().ok()?, seconds))
}

/// The number of records, if all were whole: `1000+0`.
fn whole_records(count: &str) -> Option<u64> {
    let (whole, part) = count.split_once('+')?;
    let whole: u64 = whole.parse().ok()?;
    (part == "0" && whole > 0).then_some(whole)
}

/// What its command line says.
#[derive(Default)]
struct Command(Vec<String>);

impl Command {
    /// The operands of a line with a command, also behind a prompt.
    fn of(line: &str) -> Option<Self> {
        let words = lines::words(line);
        let at = words.iter().position(|w| w == "dd" || w.ends_with("/dd"))?;
        let operands: Vec<String> = words[at + 1..]
            .iter()
            .filter(|w| w.contains('='))
            .cloned()
            .collect();
        (!operands.is_empty()).then_some(Self(operands))
    }

    fn get(&self, name: &str) -> Option<&str> {
        let all = self.0.iter().rev();
        let mut values = all.filter_map(|w| w.strip_prefix(name)?.strip_prefix('='));
        values.next()
    }

    fn has(&self, name: &str, word: &str) -> bool {
        self.get(name)
            .is_some_and(|list| list.split(',').any(|w| w == word))
    }

    fn point(&self, bytes: u64, records: Option<u64>) -> ImportedPoint {
        let reads = self.get("of") == Some("/dev/null")
            && self.get("if").is_some_and(|f| !f.starts_with("/dev/"));
        let writes = self.get("if").is_some_and(|f| SOURCES.contains(&f))
            && self.get("of").is_some_and(|f| !f.starts_with("/dev/"));
        let op = match (reads, writes) {
            (true, _) => Some("read"),
            (_, true) if self.has("conv", "notrunc") => Some("rewrite"),
            (_, true) => Some("write"),
            _ => None,
        };
        let flags = if reads { "iflag" } else { "oflag" };
        let sync = match () {
            () if self.has("oflag", "dsync") => "odsync",
            () if self.has("oflag", "sync") => "osync",
            () if self.has("conv", "fsync") || self.has("conv", "fdatasync") => "fsync",
            () => "none",
        };
        let name = match (self.get("if"), self.get("of")) {
            (Some(from), Some(to)) => format!("{from} to {to}"),
            _ => "dd".into(),
        };
        let record = records
            .filter(|n| bytes.is_multiple_of(*n))
            .map(|n| bytes / n);
        ImportedPoint {
            name: values::clean(&name),
            op: op.map(str::to_owned),
            record: record.filter(|r| *r > 0),
            // Of what was written all; of what was read, it may have had more.
            file_size: (writes && self.get("seek").is_none()).then_some(bytes),
            queue_depth: Some(1),
            threads: Some(1),
            direct: op.map(|_| self.has(flags, "direct")),
            sync: op.map(|_| sync.into()),
            engine: op.map(|_| "sync".into()),
            ..ImportedPoint::default()
        }
    }
}
