//! A run as one file, to be kept or sent: `x.lm`.
//!
//! It is JSON lines, compressed by zstd (RFC 8878): a line that says what the file is, then the run, each of its
//! layers, points and trials as the store has them. What reads it trusts nothing in it.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use layermark_model::{Import, LayerRun, Point, Run, StoreOption, TrialRecord};
use serde::{Deserialize, Serialize};

/// The format that is written, and the newest that is read. Since 2, turns have what threads of the kernel waited.
const FORMAT: u32 = 2;
/// The most bytes that an archive may have unpacked: about a hundred thousand trials. In memory they take several times as
/// much.
const LARGEST: u64 = 128 << 20;
/// The most bytes of one line. The longest are a run's plan and a trial with its blocks.
const LONGEST: u64 = 16 << 20;
/// The largest window of a frame, as a power of two of bytes: what unpacking needs in memory at least. Ours is smaller.
const WINDOW_LOG: u32 = 23;
/// Level of compression.
const LEVEL: i32 = 9;

/// A run with its trials, and the imports that were set beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Archive {
    /// The run, with its layers and points.
    pub run: Run,
    /// Its trials in order.
    pub trials: Vec<TrialRecord>,
    /// Results of other programs.
    pub imports: Vec<Import>,
}

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    /// The first line of a file.
    Layermark(Head),
    /// The run without its layers and points.
    Run(Box<Run>),
    Layer(Box<LayerRun>),
    Point(Box<Point>),
    Trial(Box<TrialRecord>),
    Import(Import),
}

#[derive(Serialize, Deserialize)]
struct Head {
    /// [`FORMAT`].
    archive: u32,
    /// The program that wrote it.
    version: String,
}

/// Why a file is no archive that can be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else, or damaged.
    #[error("{path} is no run of layermark, or damaged: {reason}", path = path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        reason: String,
    },
    /// Written by a newer layermark.
    #[error("{path} was written by a newer layermark (format {found}, this one knows up to {FORMAT})", path = path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

/// What is wrong with the bytes of an archive.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Its format is newer.
    Newer(u32),
    /// It is something else, or damaged.
    Bad(String),
}

impl ArchiveError {
    /// A hint: what to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { path, .. } => {
                format!("ls -l {}", shell_words::quote(&path.to_string_lossy()))
            }
            Self::Bad { .. } => "write one: layermark report RUN -o x.lm".into(),
            Self::Newer { .. } => {
                "install the version of it that wrote the file, or a newer one".into()
            }
        }
    }
}

/// What is in a compressed file. A wrong checksum is an error at its end.
fn unpacked<R: Read>(file: R) -> io::Result<zstd::Decoder<'static, BufReader<R>>> {
    let mut unpacked = zstd::Decoder::new(file)?;
    unpacked.window_log_max(WINDOW_LOG)?;
    Ok(unpacked)
}

/// Whether a name is that of an archive.
pub fn is_archive(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ending.eq_ignore_ascii_case("lm"))
}

impl Archive {
    /// Reads the file at `path`. Commands then name the run by it.
    ///
    /// # Errors
    /// If it is no archive, is larger than anything that layermark writes, or is of a newer layermark.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let read = |source| ArchiveError::Read {
            path: path.into(),
            source,
        };
        // The open of a FIFO would wait for who writes.
        let how = libc::O_NONBLOCK;
        let file = File::options().read(true).custom_flags(how).open(path);
        let file = file.map_err(read)?;
        if !file.metadata().map_err(read)?.is_file() {
            return Err(ArchiveError::Bad {
                path: path.into(),
                reason: "this is not a file".into(),
            });
        }
        let file = BufReader::new(file);
        let mut archive = Self::unpack(file).map_err(|wrong| match wrong {
            Wrong::Newer(found) => ArchiveError::Newer {
                path: path.into(),
                found,
            },
            Wrong::Bad(reason) => ArchiveError::Bad {
                path: path.into(),
                reason,
            },
        })?;
        archive.run.store = StoreOption::archive(path);
        Ok(archive)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn unpack(file: impl Read) -> Result<Self, Wrong> {
        let unpacked = unpacked(file).map_err(|e| Wrong::Bad(e.to_string()))?;
        let mut lines = BufReader::new(unpacked.take(LARGEST + 1));
        match next(&mut lines, 1).map_err(Wrong::Bad)? {
            Some(Line::Layermark(head)) if head.archive <= FORMAT => (),
            Some(Line::Layermark(head)) => return Err(Wrong::Newer(head.archive)),
            _ => return Err(Wrong::Bad("the first line does not say what it is".into())),
        }
        let archive = Self::read(&mut lines).map_err(Wrong::Bad)?;
        if lines.into_inner().limit() == 0 {
            return Err(Wrong::Bad(format!(
                "it has more than {} MiB",
                LARGEST >> 20
            )));
        }
        Ok(archive)
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// If it is larger than what is read, or a value cannot be written as JSON.
    pub fn packed(&self) -> io::Result<Vec<u8>> {
        let head = Line::Layermark(Head {
            archive: FORMAT,
            version: self.run.version.clone(),
        });
        let mut text = serde_json::to_vec(&head)?;
        text.push(b'\n');
        self.write(&mut text)?;
        let longest = text.split(|byte| *byte == b'\n').map(<[u8]>::len).max();
        if text.len() as u64 > LARGEST || longest.is_some_and(|n| n as u64 >= LONGEST) {
            let text = format!(
                "it has more than {} MiB, or a line of more than {} MiB",
                LARGEST >> 20,
                LONGEST >> 20
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        let mut packed = zstd::Encoder::new(Vec::new(), LEVEL)?;
        packed.include_checksum(true)?;
        packed.write_all(&text)?;
        packed.finish()
    }

    /// Reads the lines after the first.
    ///
    /// # Errors
    /// Says what is wrong, with the line.
    pub fn read(from: &mut impl BufRead) -> Result<Self, String> {
        let (mut run, mut layers, mut points) = (None, Vec::new(), Vec::new());
        let (mut trials, mut imports) = (Vec::new(), Vec::new());
        let mut number = 2;
        while let Some(line) = next(from, number)? {
            match line {
                Line::Layermark(_) => return Err(format!("line {number}: a second beginning")),
                Line::Run(_) if run.is_some() => {
                    return Err(format!("line {number}: a second run"));
                }
                Line::Run(it) => run = Some(*it),
                Line::Layer(it) => layers.push(*it),
                Line::Point(it) => points.push(*it),
                Line::Trial(it) => trials.push(*it),
                Line::Import(it) => imports.push(it),
            }
            number += 1;
        }
        let run = run.ok_or("it has no run")?;
        let ids = imports.iter().map(|import| &import.id);
        if let Some(id) = ids.chain([&run.id]).find(|id| !is_id(id)) {
            return Err(format!("{:?} is no id", layermark_model::brief(id)));
        }
        Ok(Self {
            run: Run {
                layers,
                points,
                ..run
            },
            trials,
            imports,
        })
    }

    /// Writes the lines after the first.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut run = self.run.clone();
        let layers = std::mem::take(&mut run.layers).into_iter();
        let points = std::mem::take(&mut run.points).into_iter();
        let lines = [Line::Run(Box::new(run))].into_iter();
        let lines = lines.chain(layers.map(|layer| Line::Layer(Box::new(layer))));
        let lines = lines.chain(points.map(|point| Line::Point(Box::new(point))));
        let lines = lines.chain(self.imports.iter().cloned().map(Line::Import));
        let trials = self.trials.iter().cloned();
        for line in lines.chain(trials.map(|trial| Line::Trial(Box::new(trial)))) {
            serde_json::to_writer(&mut *out, &line)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// Whether a text is a ULID, as commands and messages name runs and imports.
fn is_id(text: &str) -> bool {
    text.len() == 26 && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The next line, or nothing at the end.
fn next(from: &mut impl BufRead, number: usize) -> Result<Option<Line>, String> {
    let mut text = Vec::new();
    let failed = |e: io::Error| format!("line {number}: {e}");
    let mut line = from.by_ref().take(LONGEST);
    line.read_until(b'\n', &mut text).map_err(failed)?;
    if text.is_empty() {
        return Ok(None);
    }
    if line.limit() == 0 {
        return Err(format!("line {number} has more than {} MiB", LONGEST >> 20));
    }
    let line = serde_json::from_slice(&text);
    line.map(Some).map_err(|e| format!("line {number}: {e}"))
}
