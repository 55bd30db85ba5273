//! The operations on one file each, as loops without a branch inside.

use std::{ffi::CString, io, mem::MaybeUninit, path::Path};

use rustix::{
    fd::OwnedFd,
    fs::{
        AtFlags, CWD, Gid, Mode, OFlags, RawDir, Uid, chownat, linkat, openat, renameat, unlinkat,
    },
};

use super::params::{MetaOp, MetaSync};
use crate::run::drive::Step;

/// Paths as C strings, built before the clock starts.
pub fn path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_encoded_bytes())?)
}

fn open(path: &CString, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(openat(
        CWD,
        path.as_c_str(),
        flags | OFlags::CLOEXEC,
        Mode::from_raw_mode(0o644),
    )?)
}

fn create(path: &CString) -> io::Result<OwnedFd> {
    open(path, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY)
}

/// lstat.
pub struct Stat<'a>(pub &'a [CString]);

impl Step for Stat<'_> {
    fn run(&mut self, i: u64) -> io::Result<()> {
        std::hint::black_box(rustix::fs::lstat(self.0[i as usize].as_c_str())?);
        Ok(())
    }
}

/// Bytes that the names of a directory are read into at once, as the C library does.
const NAMES: usize = 32 << 10;

/// Open a directory, read all names, close.
pub struct List<'a> {
    paths: &'a [CString],
    names: Box<[MaybeUninit<u8>]>,
}

impl<'a> List<'a> {
    pub fn new(paths: &'a [CString]) -> Self {
        let names = vec![MaybeUninit::uninit(); NAMES].into();
        Self { paths, names }
    }
}

impl Step for List<'_> {
    fn run(&mut self, i: u64) -> io::Result<()> {
        let dir = open(&self.paths[i as usize], OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = RawDir::new(&dir, &mut self.names);
        while let Some(name) = names.next() {
            std::hint::black_box(name?);
        }
        Ok(())
    }
}

/// Change the permissions.
pub struct SetAttr<'a>(pub &'a [CString]);

impl Step for SetAttr<'_> {
    fn run(&mut self, i: u64) -> io::Result<()> {
        let path = self.0[i as usize].as_c_str();
        Ok(rustix::fs::chmod(path, Mode::from_raw_mode(0o600))?)
    }
}

/// The first change of a packaged file, by its operation.
pub struct First<'a> {
    pub op: MetaOp,
    pub paths: &'a [CString],
    /// Other names, for a rename and a link.
    pub others: &'a [CString],
    /// Its owner and group.
    pub owner: (u32, u32),
}

impl Step for First<'_> {
    fn run(&mut self, i: u64) -> io::Result<()> {
        let path = self.paths[i as usize].as_c_str();
        let other = || self.others[i as usize].as_c_str();
        match self.op {
            MetaOp::FirstChown => {
                let (uid, gid) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
                chownat(CWD, path, Some(uid), Some(gid), AtFlags::empty())?;
            }
            MetaOp::FirstRename => renameat(CWD, path, CWD, other())?,
            MetaOp::FirstLink => linkat(CWD, path, CWD, other(), AtFlags::empty())?,
            MetaOp::FirstOpen => drop(open(&self.paths[i as usize], OFlags::WRONLY)?),
            _ => rustix::fs::chmod(path, Mode::from_raw_mode(0o600))?,
        }
        Ok(())
    }
}

impl First<'_> {
    /// Makes the first `done` files as they were, outside the clock: a layer that does not keep packaged files
    /// apart has changed the only ones.
    pub fn undo(&self, done: u64, mode: u32) {
        for i in 0..done as usize {
            let (path, other) = (self.paths[i].as_c_str(), self.others.get(i));
            // What fails here is restored by the layer or found by the next trial.
            let _ = match (self.op, other) {
                (MetaOp::FirstRename, Some(other)) => renameat(CWD, other.as_c_str(), CWD, path),
                (MetaOp::FirstLink, Some(other)) => {
                    unlinkat(CWD, other.as_c_str(), AtFlags::empty())
                }
                (MetaOp::FirstChmod, _) => rustix::fs::chmod(path, Mode::from_raw_mode(mode)),
                _ => Ok(()),
            };
        }
    }
}

/// open, fstat, close.
pub struct OpenStat<'a>(pub &'a [CString]);

impl Step for OpenStat<'_> {
    fn run(&mut self, i: u64) -> io::Result<()> {
        let file = open(&self.0[i as usize], OFlags::RDONLY)?;
        std::hint::black_box(rustix::fs::fstat(&file)?);
        Ok(())
    }
}

/// open, read the whole file, close.
pub struct SmallRead<'a> {
    pub paths: &'a [CString],
    pub buffer: &'a mut [u8],
}

impl Step for SmallRead<'_> {
    fn run(&mut self, i: u64) -> io::Result<()> {
        let file = open(&self.paths[i as usize], OFlags::RDONLY)?;
        let mut done = 0;
        while done < self.buffer.len() {
            match rustix::io::read(&file, &mut self.buffer[done..]) {
                Ok(0) => {
                    let what =
                        format!("file {i} ends at byte {done}: it is shorter than it was made");
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
                }
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}

/// Create, write, (sync), close. Without data: create, (sync), close.
pub struct SmallWrite<'a> {
    pub paths: &'a [CString],
    /// Data for the files in turn: a whole number of files.
    pub pool: &'a [u8],
    pub size: usize,
    pub sync: MetaSync,
}

impl Step for SmallWrite<'_> {
    fn run(&mut self, i: u64) -> io::Result<()> {
        let file = create(&self.paths[i as usize])?;
        if let Some(files) = self.pool.len().checked_div(self.size) {
            let at = (i as usize % files) * self.size;
            let mut rest = &self.pool[at..at + self.size];
            while !rest.is_empty() {
                match rustix::io::write(&file, rest) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(n) => rest = &rest[n..],
                    Err(rustix::io::Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
        if self.sync == MetaSync::Fsync {
            rustix::fs::fsync(&file)?;
        }
        Ok(())
    }
}

/// Remove.
pub struct Unlink<'a>(pub &'a [CString]);

impl Step for Unlink<'_> {
    fn run(&mut self, i: u64) -> io::Result<()> {
        Ok(unlinkat(
            CWD,
            self.0[i as usize].as_c_str(),
            AtFlags::empty(),
        )?)
    }
}
