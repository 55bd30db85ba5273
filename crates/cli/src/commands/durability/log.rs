//! The log of acknowledged records: lines of JSON, written as they are acknowledged and kept where the
//! power cut does not reach.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use layermark_model::witness::Acknowledged;
use layermark_probe::witness;
use rustix::fs::CWD;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Version of the format.
const SCHEMA: &str = "layermark.witness/1";
/// Longest log that is read, bytes: more than a week of records.
const MOST: u64 = 1 << 30;

/// First line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub schema: String,
    /// Number of the run, hexadecimal.
    pub run: String,
    /// Bytes of a record.
    pub record: u64,
    /// Writers whose files were made and synced before this line was written.
    pub writers: Vec<String>,
    /// The directory, as it was called then.
    pub dir: String,
    /// When the first record was begun, milliseconds since 1970 UTC.
    pub started_ms: i64,
    /// To whom the directory of the records belongs, if not to the user who recorded (`root_squash`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
}

impl Head {
    pub fn new(
        run: u64,
        record: u64,
        writers: Vec<String>,
        dir: &Path,
        owner: Option<u32>,
    ) -> Self {
        Self {
            schema: SCHEMA.into(),
            run: format!("{run:016x}"),
            record,
            writers,
            dir: dir.to_string_lossy().into_owned(),
            started_ms: jiff::Timestamp::now().as_millisecond(),
            owner,
        }
    }
}

/// Every other line: a record whose fsync returned 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub writer: String,
    #[serde(flatten)]
    pub ack: Acknowledged,
}

/// Where lines go.
pub enum Sink {
    /// Synced after each line.
    File(File),
    /// The other end of standard output has to keep it.
    Stdout,
}

impl Sink {
    /// Writes a line, and makes it durable. A record counts as acknowledged once this has returned `Ok`.
    pub fn add(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        match self {
            Self::File(file) => {
                file.write_all(&text)?;
                file.sync_data()
            }
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(&text)?;
                out.flush()
            }
        }
    }
}

/// A log that was read.
pub struct Log {
    pub head: Head,
    pub run: u64,
    /// Acknowledged records of each writer, in their order.
    pub of: BTreeMap<String, Vec<Acknowledged>>,
}

/// Reads a log. Its last line may be cut off: what it said was not acknowledged.
pub fn read(path: &Path) -> Result<Log, Failure> {
    let bad = |why: String| {
        Failure::usage(format!("{}: {why}", path.display()))
            .hint("name the log that `layermark durability record --to FILE DIR` has written")
    };
    let mut text = Vec::new();
    layermark_fd::open_file(CWD, path)
        .and_then(|file| file.take(MOST + 1).read_to_end(&mut text))
        .map_err(|e| bad(e.to_string()))?;
    if text.len() as u64 > MOST {
        return Err(bad(format!("a log of records has at most {MOST} bytes")));
    }
    let whole = text
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |end| end + 1);
    let mut lines = text[..whole]
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty());
    let head = lines
        .next()
        .and_then(|l| serde_json::from_slice::<Head>(l).ok());
    let head = head.filter(|h| h.schema == SCHEMA);
    let head = head.ok_or_else(|| bad("it is not a log of acknowledged records".into()))?;
    let run = u64::from_str_radix(&head.run, 16).map_err(|e| bad(e.to_string()))?;
    let mut of: BTreeMap<String, Vec<Acknowledged>> = BTreeMap::new();
    for (line, number) in lines.zip(2..) {
        let entry: Entry =
            serde_json::from_slice(line).map_err(|e| bad(format!("line {number}: {e}")))?;
        let writer = entry.writer;
        let log = of.entry(writer.clone()).or_default();
        if log.last().map_or(0, |a| a.sequence) + 1 != entry.ack.sequence {
            let what = format!(
                "line {number}: record {} is out of order",
                entry.ack.sequence
            );
            return Err(bad(what));
        }
        let ack = &entry.ack;
        let wrote = witness::find(&writer).map(|w| witness::stamp(w, run, ack.sequence));
        if wrote.is_some_and(|s| (s.block, s.generation) != (ack.block, ack.generation)) {
            return Err(bad(format!("line {number}: no such record was written")));
        }
        log.push(entry.ack);
    }
    Ok(Log { head, run, of })
}
