//! The witness: writers whose records are acknowledged only after fsync returned 0, and the reader that
//! looks for them after a power cut.
//!
//! A writer makes one record for each request, so at most one is under way at any moment. A failed fsync
//! is never retried: on Linux the pages that could not be written are clean afterwards, and a second
//! fsync returns 0 without having written them (fsync(2), "EIO"). To add a writer, write
//! `writers/NAME.rs` and its line in [`ALL`].

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use layermark_model::{
    protocol::WitnessJob,
    witness::{Acknowledged, Asked, Checked, Content, Found, Stamp, Survey, check},
};
use layermark_sys::is_of_hosts;

use crate::ProbeError;

pub mod program;
mod record;
pub mod sequence;
mod writers;

pub use record::UNIT;

/// Records are whole pages of a mapping.
const PAGE: usize = 4096;
/// Largest record, bytes.
const MOST: usize = 1 << 20;
/// Blocks of the writers that overwrite.
const SLOTS: u64 = 64;

/// A way of writing records.
pub trait Writer: Sync {
    /// Its name on the command line.
    fn id(&self) -> &'static str;
    /// What it does, for help and tables.
    fn about(&self) -> &'static str;
    /// Blocks that it overwrites in turn; `None` where every record has a new block.
    fn slots(&self) -> Option<u64> {
        Some(SLOTS)
    }
    /// Each block is a file.
    fn named(&self) -> bool {
        false
    }
    /// The directory is synced after a name in it was made.
    fn names_synced(&self) -> bool {
        true
    }
    /// Its records depend on an fsync of their directory: without it, nothing was promised.
    fn syncs_directory(&self) -> bool {
        false
    }
    /// Makes its files, with generation 0 in each slot. The caller syncs the directory.
    fn prepare(&self, site: &Site) -> io::Result<Box<dyn Writing>>;
    /// Reads all of its blocks. An error is damage.
    fn look(&self, site: &Site) -> io::Result<Vec<Found>>;
}

/// A writer that is ready.
pub trait Writing: Send {
    /// Writes a record and makes it durable. It may be acknowledged when this returns `Ok`.
    fn write(&mut self, stamp: Stamp, record: &[u8]) -> io::Result<()>;
}

/// Every writer, in the order of tables.
pub const ALL: &[&dyn Writer] = &[
    &writers::Append,
    &writers::Overwrite,
    &writers::Create { synced: true },
    &writers::Create { synced: false },
    &writers::Rename,
    &writers::Mapped,
    &writers::Sqlite { wal: false },
    &writers::Sqlite { wal: true },
];

/// The writer of files that are closed before a clean unmount. No power cut follows, so it is not one of [`ALL`].
pub const CLOSE: &dyn Writer = &writers::Close;

/// Whether records may have this size, bytes.
pub fn takes(record: usize) -> bool {
    (PAGE..=MOST).contains(&record) && record.is_multiple_of(PAGE)
}

/// The writer of this name.
pub fn find(id: &str) -> Option<&'static dyn Writer> {
    ALL.iter().copied().chain([CLOSE]).find(|w| w.id() == id)
}

/// Where a writer works, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Its own directory.
    pub dir: PathBuf,
    /// Number of the run.
    pub run: u64,
    /// Bytes of a record: whole units.
    pub record: usize,
}

impl Site {
    /// What a job asks for.
    pub fn of(job: &WitnessJob) -> Result<(&'static dyn Writer, Self), ProbeError> {
        let writer = find(&job.writer)
            .ok_or_else(|| ProbeError::new(format!("no writer `{}`", job.writer)))?;
        let record = usize::try_from(job.record).ok();
        let record = record.filter(|n| takes(*n));
        let record = record.ok_or_else(|| {
            let what = format!(
                "a record of {} bytes is not one of whole pages of 4K",
                job.record
            );
            ProbeError::new(what)
        })?;
        let site = Self {
            dir: PathBuf::from(&job.dir),
            run: job.run,
            record,
        };
        Ok((writer, site))
    }

    /// The file of a writer that has one.
    fn file(&self) -> PathBuf {
        self.dir.join("records")
    }

    /// A record of these bytes.
    fn filled(&self, stamp: Stamp) -> Vec<u8> {
        let mut record = vec![0; self.record];
        record::fill(&mut record, stamp);
        record
    }

    /// What a slot holds before the first record.
    fn first(&self, block: u64) -> Vec<u8> {
        self.filled(Stamp {
            run: self.run,
            block,
            ..Stamp::default()
        })
    }

    /// Makes a file with generation 0 in each slot.
    fn prefilled(&self) -> io::Result<File> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(self.file())?;
        for block in 0..SLOTS {
            file.write_all_at(&self.first(block), block * self.record as u64)?;
        }
        file.sync_all()?;
        Ok(file)
    }

    /// Reads the blocks of one file.
    fn blocks(&self) -> io::Result<Vec<Found>> {
        let data = fs::read(self.file())?;
        let found = data.chunks(self.record).zip(0u64..);
        Ok(found
            .map(|(bytes, block)| Found {
                block,
                content: record::read(bytes, self.record),
            })
            .collect())
    }

    fn content(&self, bytes: &[u8]) -> Content {
        record::read(bytes, self.record)
    }
}

/// The stamp of a writer's record `sequence`, from 1.
pub fn stamp(writer: &dyn Writer, run: u64, sequence: u64) -> Stamp {
    let before = sequence - 1;
    let (block, generation) = match writer.slots() {
        Some(slots) => (before % slots, before / slots + 1),
        None => (before, 1),
    };
    Stamp {
        run,
        block,
        sequence,
        generation,
    }
}

/// A writer at work in a directory of its own.
pub struct Witness {
    writer: &'static dyn Writer,
    site: Site,
    writing: Box<dyn Writing>,
    next: u64,
    failed: bool,
    refused: Option<String>,
}

impl Witness {
    /// Makes the directory and its files, and makes them durable: the directory, and the two above it,
    /// which have the names that were made.
    pub fn prepare(writer: &'static dyn Writer, site: Site) -> Result<Self, ProbeError> {
        let failed = |e: io::Error| ProbeError::io("make the witness's files in", &site.dir, &e);
        fs::create_dir_all(&site.dir).map_err(failed)?;
        let refused = match sync_dir(&site.dir) {
            Err(e) if is_refusal(&e) => Some(format!("fsync of a directory: {e}")),
            other => other.map(|()| None).map_err(failed)?,
        };
        if let Some(refused) = refused.as_ref().filter(|_| writer.syncs_directory()) {
            let dir = site.dir.display();
            let needs = format!(
                "`{}` needs what is refused in {dir}: {refused}",
                writer.id()
            );
            return Err(ProbeError::new(needs));
        }
        let writing = writer.prepare(&site).map_err(failed)?;
        for dir in site.dir.ancestors().take(3) {
            match sync_dir(dir) {
                Err(e) if is_refusal(&e) => {}
                other => other.map_err(failed)?,
            }
        }
        Ok(Self {
            writer,
            site,
            writing,
            next: 1,
            failed: false,
            refused,
        })
    }

    /// The call that the layer refuses, with its error, where the records do not depend on it.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Writes the next record. Returns its stamp once it is durable, as far as the layer says. After an
    /// error nothing more is written.
    pub fn write(&mut self) -> Result<Stamp, ProbeError> {
        if self.failed {
            return Err(ProbeError::new(
                "a write or fsync failed, and is not tried again",
            ));
        }
        let stamp = stamp(self.writer, self.site.run, self.next);
        let record = self.site.filled(stamp);
        if let Err(e) = self.writing.write(stamp, &record) {
            self.failed = true;
            let what = format!(
                "write and sync record {} of `{}` in",
                self.next,
                self.writer.id()
            );
            return Err(ProbeError::io(&what, &self.site.dir, &e));
        }
        self.next += 1;
        Ok(stamp)
    }
}

/// Makes the names in a directory durable.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Whether a call is not offered here, and has not failed.
fn is_refusal(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::ENOTTY)
    )
}

/// Reads what is there. What cannot be read for a reason that is not the layer's (no permission, a file
/// system mounted read-only) is an error, and no damage.
pub fn look(writer: &dyn Writer, site: &Site) -> Result<Survey, ProbeError> {
    let none = Survey::default();
    match writer.look(site) {
        Ok(found) => Ok(Survey { found, ..none }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Survey {
            absent: true,
            ..none
        }),
        Err(e) if is_damage(&e) => Ok(Survey {
            damage: Some(e.to_string()),
            ..none
        }),
        Err(e) => Err(ProbeError::io("read the records in", &site.dir, &e)),
    }
}

/// Whether what cannot be read is the layer's loss: any error but those of this process or machine, and of a mount that
/// another user made. A file system in user space may give any, such as `ENOSYS` for a directory without its key.
pub fn is_damage(e: &io::Error) -> bool {
    const OURS: [i32; 5] = [
        libc::EACCES,
        libc::EPERM,
        libc::EROFS,
        libc::EINTR,
        libc::ENOTCONN,
    ];
    match e.raw_os_error() {
        Some(number) => !OURS.contains(&number) && !is_of_hosts(number),
        None => e.kind() == io::ErrorKind::InvalidData,
    }
}

/// Compares what is there with a log that may lack the last acknowledgements. Another program or host
/// kept it, and the link to it may have ended before the power did.
pub fn judge_by_hand(
    writer: &dyn Writer,
    run: u64,
    log: &[Acknowledged],
    survey: &Survey,
) -> Checked {
    let whole = survey.found.iter().filter_map(|found| match found.content {
        Content::Whole(s) if (1..u64::MAX).contains(&s.sequence) => {
            (s == stamp(writer, run, s.sequence) && s.block == found.block).then_some(s.sequence)
        }
        _ => None,
    });
    judge_up_to(whole.max().unwrap_or(0), writer, run, log, survey)
}

/// Compares what is there with what was acknowledged.
pub fn judge(writer: &dyn Writer, run: u64, log: &[Acknowledged], survey: &Survey) -> Checked {
    judge_up_to(0, writer, run, log, survey)
}

fn judge_up_to(
    reached: u64,
    writer: &dyn Writer,
    run: u64,
    log: &[Acknowledged],
    survey: &Survey,
) -> Checked {
    let reached = log.last().map_or(0, |a| a.sequence).max(reached);
    let asked = Asked {
        run,
        log,
        under_way: Some(stamp(writer, run, reached + 1)),
        reached,
        prepared: writer.slots().unwrap_or(0),
        named: writer.named(),
        names_synced: writer.names_synced(),
    };
    check(&asked, survey)
}

#[cfg(test)]
mod tests;
