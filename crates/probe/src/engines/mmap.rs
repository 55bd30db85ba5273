use std::{fs::File, io, os::fd::BorrowedFd};

use super::{After, FlushEach, Io, Shape, mapping::Mapping};

/// Memory mapped: each operation is a memcpy(3). Writes use a shared mapping of a file with its
/// full size and, when it is new, no blocks yet. Reads use a private mapping, as in iozone. The
/// mapping is made before the clock starts, so that page faults are measured and mmap(2) is not.
#[derive(Default)]
pub struct Mmap {
    map: Option<Mapping>,
}

impl Io for Mmap {
    const ID: &'static str = "mmap";
    const ABOUT: &'static str = "mmap(2) and a memcpy(3) an operation; flushes by msync(2)";

    fn begin(&mut self, file: &mut Option<File>, shape: &Shape) -> io::Result<()> {
        let file = file.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let mut size = file.metadata()?.len();
        if shape.writes && size < shape.size {
            file.set_len(shape.size)?;
            size = shape.size;
        }
        let len = usize::try_from(size.min(shape.size)).map_err(io::Error::other)?;
        self.map = Mapping::new(file, len, shape.writes)?;
        if let (Some(map), Some(advice)) = (&self.map, shape.advice) {
            map.advise(advice);
        }
        Ok(())
    }

    /// A file that was truncated returns fewer bytes, as with read(2).
    #[inline]
    fn read(&mut self, file: BorrowedFd<'_>, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let Some(map) = &self.map else { return Ok(0) };
        map.read(at as usize, into).map_err(|at| lost(file, at))
    }

    #[inline]
    fn write(&mut self, file: BorrowedFd<'_>, at: u64, from: &[u8]) -> io::Result<usize> {
        let Some(map) = &mut self.map else {
            return Ok(0);
        };
        map.write(at as usize, from).map_err(|at| lost(file, at))
    }

    fn sync(&mut self, _: BorrowedFd<'_>, at: u64, len: usize, _: FlushEach) -> io::Result<()> {
        match &self.map {
            Some(map) => map.sync(at as usize, len),
            None => Ok(()),
        }
    }

    /// A flush is an msync(2) of the whole mapping, a close is munmap(2) and close(2).
    fn end(&mut self, file: &mut Option<File>, after: After) -> io::Result<()> {
        match (after, &self.map) {
            (After::Nothing, _) => Ok(()),
            (After::Fsync | After::Fdatasync, Some(map)) => map.sync(0, map.len()),
            (After::FsyncClose, Some(map)) => {
                map.sync(0, map.len())?;
                self.map = None;
                After::Close.apply(file)
            }
            _ => {
                self.map = None;
                after.apply(file)
            }
        }
    }
}

/// The reason that a page could not be loaded. The signal has no errno, so the free space of the
/// disk is checked.
#[cold]
fn lost(file: BorrowedFd<'_>, at: usize) -> io::Error {
    if rustix::fs::fstatvfs(file).is_ok_and(|disk| disk.f_bavail == 0) {
        return io::Error::from_raw_os_error(libc::ENOSPC);
    }
    io::Error::other(format!(
        "the page at byte {at} of the mapping could not be read (SIGBUS): the disk is full or faulty, or the file was cut"
    ))
}
