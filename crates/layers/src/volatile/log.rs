//! The log of a volatile disk: a file of records, each followed by the data of a write. Whole numbers are
//! little-endian.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::journal::{Event, Journal, Mark, Write};

/// Bytes of a record before the data.
const HEAD: usize = 24;
/// In the first eight bytes of a record, with the length of its data above it.
const WRITE: u64 = 1;
const STABLE_WRITE: u64 = 2;
const FLUSH: u64 = 3;
const FAILED_FLUSH: u64 = 4;
/// In the last eight bytes, so that a file that is not a log is seen to be none.
const MAGIC: u64 = 0x6c6d_6469_736b_0001;

/// Writes a log.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    end: u64,
    writes: usize,
    buffer: Vec<u8>,
}

impl Writer {
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            end: 0,
            writes: 0,
            buffer: Vec::new(),
        }
    }

    /// Writes that have completed.
    pub(super) fn writes(&self) -> usize {
        self.writes
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8], stable: bool) -> io::Result<()> {
        let kind = if stable { STABLE_WRITE } else { WRITE };
        self.record(kind, offset, data)?;
        self.writes += 1;
        Ok(())
    }

    pub(super) fn flush(&mut self, covers: usize, failed: bool) -> io::Result<()> {
        let kind = if failed { FAILED_FLUSH } else { FLUSH };
        self.record(kind, covers as u64, &[])
    }

    /// In one call, so that the file rarely ends within a record. If it fails half-way, the next record
    /// takes its place.
    fn record(&mut self, kind: u64, value: u64, data: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        for number in [kind | (data.len() as u64) << 8, value, MAGIC] {
            self.buffer.extend_from_slice(&number.to_le_bytes());
        }
        self.buffer.extend_from_slice(data);
        self.file.write_all_at(&self.buffer, self.end)?;
        self.end += self.buffer.len() as u64;
        Ok(())
    }
}

/// Reads the whole records of a log.
pub(super) fn read(log: &File) -> io::Result<Journal> {
    let size = log.metadata()?.len();
    let mut journal = Journal::default();
    let mut at = 0;
    while at + HEAD as u64 <= size {
        let mut head = [0; HEAD];
        log.read_exact_at(&mut head, at)?;
        let [first, value, magic] = [0, 8, 16].map(|n| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[n..n + 8]);
            u64::from_le_bytes(bytes)
        });
        let (kind, length, data) = (first & 0xff, first >> 8, at + HEAD as u64);
        let event = match kind {
            _ if magic != MAGIC => None,
            WRITE | STABLE_WRITE => Some(Event::Write(Write {
                offset: value,
                length,
                data,
                stable: kind == STABLE_WRITE,
            })),
            FLUSH | FAILED_FLUSH => Some(Event::Flush {
                covers: value as usize,
                failed: kind == FAILED_FLUSH,
            }),
            _ => None,
        };
        let event = event.ok_or_else(|| {
            let text = format!("what is at {at} is not a record of a volatile disk's log");
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        at = data.saturating_add(length);
        if at > size {
            // Its writer was ended within it: it never completed.
            break;
        }
        journal.push(event, Mark(at));
    }
    Ok(journal)
}
