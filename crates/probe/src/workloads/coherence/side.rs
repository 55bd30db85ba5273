//! One side of a shared directory: it changes files, or looks for the other's changes.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{fs::inotify, io::Errno};

use super::params::Change;
use crate::{engines::mapping::Mapping, error::Lacking, workloads::lock::sys::try_lock};

/// The file of changes that are all made to the same one.
const FILE: &str = "file";
/// The file that takes its name.
const NEXT: &str = "next";
/// For so long a side looks without a rest.
const AT_ONCE: Duration = Duration::from_millis(2);
/// Its rest between two looks later on.
const REST: Duration = Duration::from_micros(200);
/// How long a side tries to take a lock that the other one has only to try it.
const FREE: Duration = Duration::from_secs(2);
/// How often the one who waits for an answer hears that the other still looks.
const BUSY: Duration = Duration::from_millis(500);

/// One side. Files contain the number of changes that were made to them.
pub struct Side {
    dir: PathBuf,
    op: Change,
    /// The file that is held open to look into it.
    held: Option<File>,
    /// The file's first bytes as this side has them mapped.
    mapped: Option<Mapping>,
    /// The file that is held open to write to it.
    writer: Option<File>,
    /// Events in the directory.
    events: Option<OwnedFd>,
    /// The file that is locked.
    locked: Option<File>,
}

impl Side {
    pub fn new(dir: PathBuf, op: Change) -> Self {
        Self {
            dir,
            op,
            held: None,
            mapped: None,
            writer: None,
            events: None,
            locked: None,
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file of a change; some changes have one each.
    fn file(&self, n: u64) -> PathBuf {
        match self.op {
            Change::Create | Change::List | Change::Notify | Change::Remove => {
                self.dir.join(name(n))
            }
            Change::Append
            | Change::AppendOpen
            | Change::Overwrite
            | Change::Held
            | Change::Mapped
            | Change::Rename
            | Change::Flock
            | Change::Fcntl
            | Change::Ofd => self.dir.join(FILE),
        }
    }

    /// Ends the change before, if that can be: the lock is let go.
    pub fn release(&mut self) {
        self.locked = None;
    }

    /// Makes what the change is made to.
    pub fn make(&self, n: u64) -> io::Result<()> {
        let is_made = match self.op {
            Change::Create | Change::List | Change::Notify => false,
            Change::Remove => true,
            Change::Append
            | Change::AppendOpen
            | Change::Overwrite
            | Change::Held
            | Change::Mapped
            | Change::Rename
            | Change::Flock
            | Change::Fcntl
            | Change::Ofd => n == 0,
        };
        if is_made {
            fs::write(self.file(n), number(0))?;
        }
        Ok(())
    }

    /// Makes the change.
    pub fn change(&mut self, n: u64) -> io::Result<()> {
        let file = self.file(n);
        match self.op {
            // As a log: opened once, and written to again and again.
            Change::AppendOpen => {
                if self.writer.is_none() {
                    self.writer = Some(OpenOptions::new().append(true).open(file)?);
                }
                let mut writer = self.writer.as_ref();
                writer
                    .as_mut()
                    .map_or(Ok(()), |file| file.write_all(&number(n + 1)))
            }
            Change::Create | Change::List | Change::Notify => File::create_new(file).map(drop),
            Change::Append => OpenOptions::new()
                .append(true)
                .open(file)?
                .write_all(&number(n + 1)),
            Change::Overwrite | Change::Held => OpenOptions::new()
                .write(true)
                .open(file)?
                .write_all_at(&number(n + 1), 0),
            Change::Mapped => {
                if !self.map()? {
                    return Err(io::ErrorKind::NotFound.into());
                }
                let mapped = self.mapped.as_mut();
                mapped.map_or(Ok(()), |map| {
                    map.write(0, &number(n + 1)).map(drop).map_err(lost)
                })
            }
            Change::Rename => {
                let next = self.dir.join(NEXT);
                fs::write(&next, number(n + 1))?;
                fs::rename(next, file)
            }
            Change::Remove => fs::remove_file(file),
            Change::Flock | Change::Fcntl | Change::Ofd => self.lock(),
        }
    }

    /// Whether the state before the change is seen. The side then holds open what it has to.
    pub fn sees_before(&mut self, n: u64) -> io::Result<bool> {
        match self.op {
            Change::Notify => {
                self.watch()?;
                self.events()?;
                Ok(true)
            }
            Change::Held if self.held.is_none() => {
                self.held = there(File::open(self.file(n)))?;
                self.has(n)
            }
            Change::Mapped => Ok(self.map()? && self.has(n)?),
            Change::Create | Change::List => Ok(!self.sees(n)?),
            Change::Flock | Change::Fcntl | Change::Ofd => Ok(self.can_lock()? == Some(true)),
            Change::Remove => Ok(there(fs::metadata(self.file(n)))?.is_some()),
            Change::Append
            | Change::AppendOpen
            | Change::Overwrite
            | Change::Held
            | Change::Rename => self.has(n),
        }
    }

    /// Whether the change is seen.
    pub fn sees(&mut self, n: u64) -> io::Result<bool> {
        match self.op {
            Change::Create => Ok(there(fs::metadata(self.file(n)))?.is_some()),
            Change::Remove => Ok(there(fs::metadata(self.file(n)))?.is_none()),
            Change::List => {
                let wanted = name(n);
                for entry in fs::read_dir(&self.dir)? {
                    if entry?.file_name().to_str() == Some(&wanted) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Change::Notify => self.events(),
            Change::Flock | Change::Fcntl | Change::Ofd => Ok(self.can_lock()? == Some(false)),
            Change::Append
            | Change::AppendOpen
            | Change::Overwrite
            | Change::Held
            | Change::Mapped
            | Change::Rename => self.has(n + 1),
        }
    }

    /// Whether this number of changes to the file is seen.
    fn has(&self, changes: u64) -> io::Result<bool> {
        let path = self.dir.join(FILE);
        if matches!(self.op, Change::Append | Change::AppendOpen) {
            let found = there(fs::metadata(path))?;
            return Ok(found.is_some_and(|m| m.len() == (changes + 1) * number(0).len() as u64));
        }
        if let Some(map) = &self.mapped {
            let mut found = number(0);
            let length = map.read(0, &mut found).map_err(lost)?;
            return Ok(length == found.len() && found == number(changes));
        }
        let read = |file: &File| {
            let mut found = number(0);
            // The file may have been replaced since it was opened.
            let length = there(file.read_at(&mut found, 0))?;
            Ok(length == Some(found.len()) && found == number(changes))
        };
        match (&self.held, self.op) {
            (Some(file), _) => read(file),
            (None, Change::Held) => Ok(false),
            (None, _) => {
                let file = there(File::open(path))?;
                file.as_ref().map_or(Ok(false), read)
            }
        }
    }

    /// Maps the file, if it is seen; `false` if not.
    fn map(&mut self) -> io::Result<bool> {
        if self.mapped.is_none() {
            let Some(file) = self.to_write()? else {
                return Ok(false);
            };
            let map = Mapping::new(&file, number(0).len(), true);
            self.mapped = map.map_err(refused)?;
        }
        Ok(true)
    }

    /// Takes the lock and keeps it. The other side may have it for a moment, because it tries.
    fn lock(&mut self) -> io::Result<()> {
        let Some(file) = self.to_write()? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if !until(FREE, &mut || Ok(()), || self.try_lock(&file))? {
            return Err(io::Error::other(format!(
                "the {} lock was not to be had within {FREE:?}, though nobody keeps it",
                self.op.id()
            )));
        }
        self.locked = Some(file);
        Ok(())
    }

    /// Whether the lock can be taken; it is let go at once. `None` if the file is not seen.
    fn can_lock(&self) -> io::Result<Option<bool>> {
        let file = self.to_write()?;
        file.map(|file| self.try_lock(&file)).transpose()
    }

    fn to_write(&self) -> io::Result<Option<File>> {
        there(
            File::options()
                .read(true)
                .write(true)
                .open(self.dir.join(FILE)),
        )
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        self.op
            .lock()
            .map_or(Ok(false), |kind| try_lock(kind, file))
    }

    fn watch(&mut self) -> io::Result<()> {
        if self.events.is_none() {
            let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
            let events = inotify::init(flags)?;
            inotify::add_watch(&events, &self.dir, inotify::WatchFlags::CREATE)?;
            self.events = Some(events);
        }
        Ok(())
    }

    /// Whether there were events since the last look.
    fn events(&mut self) -> io::Result<bool> {
        let Some(events) = &self.events else {
            return Ok(false);
        };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(events, &mut buffer);
        let mut any = false;
        loop {
            match reader.next() {
                Ok(_) => any = true,
                Err(Errno::AGAIN) => return Ok(any),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// The error of a mapping that the layer refuses. File systems in user space with direct I/O have ENODEV, and 9p without
/// a cache has EINVAL.
fn refused(error: io::Error) -> io::Error {
    let (kind, what) = (error.kind(), "a shared mapping (mmap) is refused");
    match error.raw_os_error() {
        Some(libc::ENODEV | libc::EINVAL) => io::Error::new(kind, Lacking { what, error }),
        _ => io::Error::new(kind, format!("{what}: {error}")),
    }
}

/// The error of a page of a mapping that could not be loaded.
fn lost(at: usize) -> io::Error {
    io::Error::other(format!(
        "the page at {at} of a shared mapping cannot be loaded"
    ))
}

fn name(n: u64) -> String {
    format!("f{n}")
}

/// The content of a file after so many changes.
fn number(changes: u64) -> [u8; 8] {
    changes.to_le_bytes()
}

/// `None` where the file is not seen, or is one that has been replaced: ESTALE of a network file
/// system.
fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.raw_os_error() == Some(libc::ESTALE) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Looks until it sees, for at most `wait`. Calls `busy` twice a second, and ends if that fails.
pub fn until(
    wait: Duration,
    busy: &mut dyn FnMut() -> io::Result<()>,
    mut look: impl FnMut() -> io::Result<bool>,
) -> io::Result<bool> {
    let begun = Instant::now();
    let mut said = begun;
    loop {
        if look()? {
            return Ok(true);
        }
        let passed = begun.elapsed();
        if passed >= wait {
            return Ok(false);
        }
        if said.elapsed() >= BUSY {
            busy()?;
            said = Instant::now();
        }
        // What serves the directory needs a CPU, too.
        if passed < AT_ONCE {
            thread::yield_now();
        } else {
            thread::sleep(REST);
        }
    }
}
