//! The file `x.lmrec`: JSON lines, compressed by zstd (RFC 8878). The first line says what it is and how much there is of
//! each; then come the entries of the tree, the names, and the calls.
//!
//! A call's numbers of names and open files are differences to those of the call before, since many calls are then the
//! same line.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
};

use serde::{Deserialize, Serialize};

use crate::{Call, Entry, Name, limits};

/// The format that is written, and the newest that is read.
pub const FORMAT: u32 = 3;

/// Level of compression.
const LEVEL: i32 = 9;

/// The first line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of layermark that wrote it.
    pub version: String,
    /// The command, as it is shown; empty if it is private or unknown.
    pub command: String,
    /// Seed of the contents of files.
    pub seed: u64,
    /// Entries of the tree.
    pub entries: u64,
    /// Names.
    pub names: u64,
    /// Calls.
    pub calls: u64,
    /// Tasks.
    pub tasks: u32,
    /// Open files.
    pub files: u32,
    /// Time that the program spends outside the calls, ns: its time on tmpfs without that of a replay there. Absent
    /// if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_ns: Option<u64>,
    /// What all tasks together compute between calls in that time, ns. Absent if it is the same, as with one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computing_ns: Option<u64>,
    /// Half of the range in which that time was in the rounds that measured it, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_spread_ns: Option<u64>,
    /// The tree that the program left, in the words of [`crate::words_of`]. Absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether components of names were replaced.
    #[serde(default)]
    pub private: bool,
    /// What is not in the recording, and how often it was met.
    #[serde(default)]
    pub left_out: BTreeMap<String, u64>,
}

/// A program's file I/O.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    /// What it is.
    pub head: Head,
    /// The tree that the program finds.
    pub tree: Vec<Entry>,
    /// Names, by number.
    pub names: Vec<Name>,
    /// Calls of all tasks, in the order in which they were recorded.
    pub calls: Vec<Call>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Recording(Head),
    E(Entry),
    N(Name),
    C(Call),
}

/// Why bytes are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// Written by a newer layermark.
    #[error("it was written by a newer layermark (format {0}, this one knows up to {FORMAT})")]
    Newer(u32),
    /// Something else, damaged, or hostile.
    #[error("it is no recording, or damaged: {0}")]
    Bad(String),
}

impl RecordingError {
    /// A hint: what to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Newer(_) => "install the version that wrote it, or a newer one",
            Self::Bad(_) => "make one: layermark record -o app.lmrec -- PROGRAM",
        }
    }
}

impl Recording {
    /// Reads the bytes of a file, and checks them.
    ///
    /// # Errors
    /// If they are no recording, or one beyond a limit.
    pub fn unpack(file: impl Read) -> Result<Self, RecordingError> {
        let bad = RecordingError::Bad;
        let packed = file.take(limits::PACKED + 1);
        let unpacked = unpacked(packed).map_err(|e| bad(e.to_string()))?;
        let mut lines = BufReader::new(unpacked.take(limits::UNPACKED + 1));
        let read = Self::read(&mut lines);
        let unpacked = lines.into_inner();
        if unpacked.limit() == 0 {
            return Err(bad(format!(
                "it has more than {} bytes unpacked",
                limits::UNPACKED
            )));
        }
        if unpacked.into_inner().finish().into_inner().limit() == 0 {
            return Err(bad(format!("it has more than {} bytes", limits::PACKED)));
        }
        read
    }

    /// Reads the lines of a recording, and checks them.
    ///
    /// # Errors
    /// As [`Self::unpack`].
    pub fn read(from: &mut impl BufRead) -> Result<Self, RecordingError> {
        let bad = RecordingError::Bad;
        let head = match next(from, 1).map_err(bad)? {
            Some(Line::Recording(head)) if head.format <= FORMAT => head,
            Some(Line::Recording(head)) => return Err(RecordingError::Newer(head.format)),
            _ => return Err(bad("the first line does not say what it is".into())),
        };
        head.check().map_err(bad)?;
        let mut all = Self {
            head,
            ..Self::default()
        };
        all.read_rest(from).map_err(bad)?;
        all.check().map_err(bad)?;
        Ok(all)
    }

    fn read_rest(&mut self, from: &mut impl BufRead) -> Result<(), String> {
        let (mut number, mut before) = (2, Before::default());
        let mut waits = 0;
        while let Some(line) = next(from, number)? {
            match line {
                Line::Recording(_) => return Err(format!("line {number}: a second beginning")),
                Line::E(entry) => self.tree.push(entry),
                Line::N(name) => self.names.push(name),
                Line::C(call) => {
                    waits += call.waits.len() as u64;
                    self.calls.push(before.restored(call));
                }
            }
            if waits > limits::WAITS {
                return Err(format!("its calls wait more than {} times", limits::WAITS));
            }
            let head = &self.head;
            let counts = [
                ("entries", self.tree.len(), head.entries),
                ("names", self.names.len(), head.names),
                ("calls", self.calls.len(), head.calls),
            ];
            if let Some((what, _, said)) = counts.into_iter().find(|(_, n, said)| *n as u64 > *said)
            {
                return Err(format!(
                    "line {number}: more than the {said} {what} that it says it has"
                ));
            }
            number += 1;
        }
        let head = &self.head;
        let found = [self.tree.len(), self.names.len(), self.calls.len()].map(|n| n as u64);
        if found != [head.entries, head.names, head.calls] {
            return Err("it is incomplete".into());
        }
        Ok(())
    }

    /// Sets the counts of the head, and checks everything.
    ///
    /// # Errors
    /// If it would be refused when it is read.
    pub fn accept(&mut self) -> Result<(), String> {
        self.head.format = FORMAT;
        self.head.entries = self.tree.len() as u64;
        self.head.names = self.names.len() as u64;
        self.head.calls = self.calls.len() as u64;
        self.head.check()?;
        self.check()
    }

    /// The bytes of a file. Sets the counts of the head.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn packed(&mut self) -> Result<Vec<u8>, String> {
        self.accept()?;
        let mut text = Vec::new();
        let mut lines = 0;
        let mut write = |line: &Line| -> Result<(), String> {
            let begin = text.len();
            serde_json::to_writer(&mut text, line).map_err(|e| e.to_string())?;
            text.push(b'\n');
            lines += 1;
            if (text.len() - begin) as u64 >= limits::LINE {
                return Err(too_long(lines));
            }
            Ok(())
        };
        write(&Line::Recording(self.head.clone()))?;
        for entry in &self.tree {
            write(&Line::E(entry.clone()))?;
        }
        for name in &self.names {
            write(&Line::N(name.clone()))?;
        }
        let mut before = Before::default();
        for call in &self.calls {
            write(&Line::C(before.difference(call)))?;
        }
        if text.len() as u64 > limits::UNPACKED {
            return Err(format!(
                "it has more than {} bytes unpacked",
                limits::UNPACKED
            ));
        }
        compressed(&text).map_err(|e| e.to_string())
    }
}

/// What is in a compressed file. A wrong checksum is an error at its end.
fn unpacked<R: Read>(file: R) -> io::Result<zstd::Decoder<'static, BufReader<R>>> {
    let mut unpacked = zstd::Decoder::new(file)?;
    unpacked.window_log_max(limits::WINDOW_LOG)?;
    Ok(unpacked)
}

fn compressed(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = zstd::Encoder::new(Vec::new(), LEVEL)?;
    packed.include_checksum(true)?;
    packed.write_all(text)?;
    packed.finish()
}

/// Numbers of the call before: names, open files and directories.
#[derive(Default)]
struct Before([u32; 6]);

impl Before {
    /// A call with differences in place of its numbers.
    fn difference(&mut self, call: &Call) -> Call {
        let mut call = call.clone();
        self.each(&mut call, |before, own| {
            let difference = own.wrapping_sub(*before).cast_signed();
            *before = own;
            // 0, -1, 1, -2, 2: small numbers for small differences of either sign.
            ((difference << 1) ^ (difference >> 31)).cast_unsigned()
        });
        call
    }

    /// The opposite of [`Self::difference`].
    fn restored(&mut self, mut call: Call) -> Call {
        self.each(&mut call, |before, difference| {
            let sign = 0u32.wrapping_sub(difference & 1);
            *before = before.wrapping_add((difference >> 1) ^ sign);
            *before
        });
        call
    }

    fn each(&mut self, call: &mut Call, change: impl Fn(&mut u32, u32) -> u32) {
        let numbers = [
            &mut call.path,
            &mut call.path2,
            &mut call.file,
            &mut call.file2,
            &mut call.dir,
            &mut call.dir2,
        ];
        for (before, number) in self.0.iter_mut().zip(numbers) {
            if let Some(number) = number {
                *number = change(before, *number);
            }
        }
    }
}

impl Head {
    /// Checks the counts before anything is read.
    fn check(&self) -> Result<(), String> {
        let counts = [
            ("entries of its tree", self.entries, limits::ENTRIES),
            ("names", self.names, limits::NAMES),
            ("calls", self.calls, limits::CALLS),
            ("tasks", self.tasks.into(), limits::TASKS),
            ("open files", self.files.into(), limits::CALLS),
            (
                "bytes of its command",
                self.command.len() as u64,
                limits::TEXT as u64,
            ),
            (
                "bytes of its version",
                self.version.len() as u64,
                limits::TEXT as u64,
            ),
            (
                "kinds of things left out",
                self.left_out.len() as u64,
                limits::LEFT_OUT as u64,
            ),
            (
                "nanoseconds between its calls",
                self.think_ns.unwrap_or(0),
                limits::THINK_NS,
            ),
            (
                "nanoseconds that its tasks compute",
                self.computing_ns.unwrap_or(0),
                limits::THINK_NS,
            ),
            (
                "nanoseconds of spread between its calls",
                self.think_spread_ns.unwrap_or(0),
                limits::THINK_NS,
            ),
        ];
        let most = counts.into_iter().find(|(_, count, most)| count > most);
        most.map_or(Ok(()), |(what, count, most)| {
            Err(format!(
                "it says {count} {what}, and at most {most} are read"
            ))
        })
    }
}

fn too_long(line: usize) -> String {
    format!("line {line} has more than {} bytes", limits::LINE)
}

/// The next line, or nothing at the end.
fn next(from: &mut impl BufRead, number: usize) -> Result<Option<Line>, String> {
    let mut text = Vec::new();
    let mut line = from.by_ref().take(limits::LINE);
    let read = line.read_until(b'\n', &mut text);
    read.map_err(|e| format!("line {number}: {e}"))?;
    if text.is_empty() {
        return Ok(None);
    }
    if line.limit() == 0 {
        return Err(too_long(number));
    }
    let line = serde_json::from_slice(&text);
    line.map(Some).map_err(|e| format!("line {number}: {e}"))
}
