//! What a step prints: lines that are looked for, and the end of it for messages. However much it
//! is, little of it is kept.

use std::{
    fs::File,
    io::{self, BufRead, ErrorKind, Read},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use layermark_model::{FigureValues, IT_SAID};
use regex::bytes::Regex;
use rustix::{
    fs::{OFlags, fcntl_setfl},
    pipe::{PipeFlags, fcntl_setpipe_size, pipe_with},
};

use serde::{Deserialize, Serialize};

use super::figures::PRINTED;
use crate::{
    ProbeError,
    workloads::launch::ready::{Ready, ReadyEvent, ReadyKind, Scene},
};

/// Size of the pipes, bytes: a step that prints less is not waited for. It is the most that a user may
/// have without privileges (`pipe-max-size`).
const PIPE: usize = 1 << 20;
/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// Most reads in one go: a step that never stops printing would keep the clock from being checked.
const MOST: usize = 32;
/// Longest part of a line that is searched, bytes.
const LONGEST: usize = 64 << 10;
/// How a line starts that has a figure of the step: `layermark: tps 1234.5 1/s`.
const FIGURE: &[u8] = b"layermark: ";
/// Most figures of a step.
const MOST_FIGURES: usize = 50;
/// Longest name or unit of a figure, characters.
const LONGEST_NAME: usize = 40;
/// Bytes of the end of the output that are kept for messages.
const LAST: usize = 2000;

/// The condition `exit`, for a program whose output is read.
#[derive(Clone)]
pub struct Capture(Arc<Mutex<Printed>>);

/// A figure that a step has printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepFigure {
    pub name: String,
    pub value: f64,
    pub unit: String,
}

impl StepFigure {
    /// Reads `NAME VALUE UNIT`, or `NAME VALUE`.
    fn read(text: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split_whitespace();
        let (name, value) = (words.next()?, words.next()?.parse::<f64>().ok()?);
        let unit = words.collect::<Vec<_>>().join(" ");
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let fits = name.len() <= LONGEST_NAME && unit.chars().count() <= LONGEST_NAME;
        let good = fits && name.chars().all(allowed) && !unit.contains(char::is_control);
        (good && value.is_finite()).then(|| Self {
            name: name.into(),
            value,
            unit,
        })
    }

    /// Adds it to the values of a trial.
    pub fn add_to(&self, values: &mut FigureValues) {
        let Self { name, value, unit } = self;
        values.set(&format!("{PRINTED}.{name}"), *value);
        values.set(&format!("{PRINTED}_unit.{name}"), unit.as_str());
    }
}

/// What was printed so far.
struct Printed {
    wanted: Vec<(Regex, bool)>,
    figures: Vec<StepFigure>,
    /// The last line of each stream, which has not ended.
    open: [Vec<u8>; 2],
    last: Vec<u8>,
    /// Number of bytes that were printed.
    bytes: u64,
}

impl Capture {
    /// Looks for a line that matches each of these.
    pub fn new(wanted: impl Iterator<Item = Regex>) -> Self {
        Self(Arc::new(Mutex::new(Printed {
            wanted: wanted.map(|regex| (regex, false)).collect(),
            figures: Vec::new(),
            open: [Vec::new(), Vec::new()],
            last: Vec::new(),
            bytes: 0,
        })))
    }

    /// A line that was looked for and not printed.
    pub fn missing(&self) -> Option<String> {
        let printed = self.printed();
        let missing = printed.wanted.iter().find(|(_, found)| !found);
        missing.map(|(regex, _)| regex.as_str().to_owned())
    }

    /// The figures that were printed; of one name the last.
    pub fn figures(&self) -> Vec<StepFigure> {
        self.printed().figures.clone()
    }

    /// Number of bytes that were printed.
    pub fn bytes(&self) -> u64 {
        self.printed().bytes
    }

    /// `; it said: ...`, or an empty text.
    pub fn said(&self) -> String {
        let printed = self.printed();
        let text = String::from_utf8_lossy(&printed.last);
        let shown = |c: &char| !c.is_control() || *c == '\n';
        let text: String = text.chars().filter(shown).collect();
        match text.trim() {
            "" => String::new(),
            text => format!("{IT_SAID}{text}"),
        }
    }

    fn printed(&self) -> MutexGuard<'_, Printed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Printed {
    fn add(&mut self, stream: usize, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let mut open = std::mem::take(&mut self.open[stream]);
        let mut rest = bytes;
        while !rest.is_empty() {
            // A slice is read without errors.
            let _ = rest.read_until(b'\n', &mut open);
            let ended = open.ends_with(b"\n");
            open.truncate(LONGEST);
            if ended {
                self.line(&open);
                open.clear();
            }
        }
        self.open[stream] = open;
        self.last
            .extend_from_slice(&bytes[bytes.len().saturating_sub(LAST)..]);
        let old = self.last.len().saturating_sub(LAST);
        self.last.drain(..old);
    }

    fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii_end();
        if let Some(figure) = line.strip_prefix(FIGURE).and_then(StepFigure::read) {
            self.figures.retain(|known| known.name != figure.name);
            if self.figures.len() < MOST_FIGURES {
                self.figures.push(figure);
            }
        }
        for (regex, found) in &mut self.wanted {
            *found = *found || regex.is_match(line);
        }
    }
}

impl ReadyKind for Capture {
    fn id(&self) -> &'static str {
        "exit"
    }
    fn value(&self) -> &'static str {
        ""
    }
    fn arm(&self, _: &str, scene: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
        let fail = |e: io::Error| ProbeError::new(format!("cannot make a pipe for the step: {e}"));
        let (out, its_out) = pipe().map_err(fail)?;
        let (err, its_err) = pipe().map_err(fail)?;
        scene.command.stdout(its_out).stderr(its_err);
        Ok(Box::new(Reading {
            pipes: [Some(out), Some(err)],
            chunk: vec![0; CHUNK].into_boxed_slice(),
            to: self.clone(),
        }))
    }
}

/// A pipe whose read end never blocks.
fn pipe() -> io::Result<(File, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&read, OFlags::NONBLOCK)?;
    // A smaller one only makes a step that prints much wait for the reader.
    let _ = fcntl_setpipe_size(&read, PIPE);
    Ok((read.into(), write))
}

/// A step that is being watched.
struct Reading {
    pipes: [Option<File>; 2],
    chunk: Box<[u8]>,
    to: Capture,
}

impl Reading {
    fn drain(&mut self) {
        let mut printed = self.to.printed();
        let chunk = &mut self.chunk;
        for (stream, end) in self.pipes.iter_mut().enumerate() {
            for _ in 0..MOST {
                let Some(pipe) = end else { break };
                match pipe.read(chunk) {
                    Ok(0) => *end = None,
                    Ok(n) => printed.add(stream, &chunk[..n]),
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        }
    }
}

impl Ready for Reading {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.pipes.iter().flatten().map(AsFd::as_fd).collect()
    }
    fn look(&mut self) -> Result<Option<ReadyEvent>, ProbeError> {
        self.drain();
        Ok(None)
    }
    fn is_exit(&self) -> bool {
        true
    }
}

/// The clock has stopped: reads what is still in the pipes, and ends the last lines.
impl Drop for Reading {
    fn drop(&mut self) {
        self.drain();
        let mut printed = self.to.printed();
        for stream in 0..2 {
            let open = std::mem::take(&mut printed.open[stream]);
            printed.line(&open);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_in_pieces_and_little_is_kept() {
        let wanted = ["^ab c$", "end$", "never"].map(|text| Regex::new(text).unwrap());
        let capture = Capture::new(wanted.into_iter());
        let mut printed = capture.printed();
        for (stream, bytes) in [(0, "x\na"), (1, "b c\n"), (0, "b c\r\nx"), (1, "the end\n")] {
            printed.add(stream, bytes.as_bytes());
        }
        for _ in 0..100 {
            printed.add(0, &[b'x'; 10_000]);
        }
        assert!(printed.open[0].len() <= LONGEST && printed.last.len() <= LAST);
        drop(printed);
        assert_eq!(capture.missing().as_deref(), Some("never"));
    }

    #[test]
    fn figures_are_read_and_other_lines_are_not() {
        let capture = Capture::new(std::iter::empty());
        let mut printed = capture.printed();
        printed.add(
            0,
            b"layermark: tps 1 1/s\nlayermark: tps 2.5 1/s\nlayermark: p99 7\n",
        );
        for other in [
            "layermark: x",
            "layermark: x y",
            "layermark: x inf s",
            "layermark: a.b 1",
            " layermark: c 1",
        ] {
            printed.add(1, format!("{other}\n").as_bytes());
        }
        for n in 0..100 {
            printed.add(0, format!("layermark: n{n} {n} s\n").as_bytes());
        }
        drop(printed);
        let figures = capture.figures();
        let of = |name: &str, value, unit: &str| StepFigure {
            name: name.into(),
            value,
            unit: unit.into(),
        };
        assert_eq!(
            figures[..3],
            [
                of("tps", 2.5, "1/s"),
                of("p99", 7.0, ""),
                of("n0", 0.0, "s")
            ]
        );
        assert_eq!(figures.len(), MOST_FIGURES);
    }
}
