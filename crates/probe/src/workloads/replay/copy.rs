//! What a program does where files cannot share their data: it copies, as `cp --reflink=auto` does.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{AtomicU64, Ordering},
};

use layermark_recording::{Call, limits};
use rustix::{
    fs::copy_file_range,
    io::{Errno, pread, pwrite},
};

use super::calls::Site;

/// Bytes that are copied at once, as cp(1) does where the kernel does not copy.
const BLOCK: usize = 128 << 10;
/// The most bytes that the kernel is asked to copy at once.
const AT_ONCE: usize = 1 << 30;

impl Site {
    /// Copies a file that the layer cannot clone. Returns 0, or an error number below 0.
    pub fn copies(&self, call: &Call) -> i64 {
        let done = self.file(call.file).and_then(|from| {
            let to = self.file(call.file2)?;
            whole(from.as_fd(), to.as_fd(), &self.copied)
        });
        done.map_or_else(|e| -i64::from(e.raw_os_error()), |()| 0)
    }
}

/// Copies a file to the start of another one. No offset moves. `copied`: the bytes of all copies, since clones of a hostile
/// recording may be as large as there are sparse files.
fn whole(from: BorrowedFd<'_>, to: BorrowedFd<'_>, copied: &AtomicU64) -> Result<(), Errno> {
    let mut done = 0;
    loop {
        let (mut read, mut written) = (done, done);
        let copy = copy_file_range(from, Some(&mut read), to, Some(&mut written), AT_ONCE);
        match copy {
            // Some file systems do not copy, and some say that there is nothing.
            Err(_) | Ok(0) if done == 0 => return by_hand(from, to, copied),
            Ok(0) => return Ok(()),
            Ok(moved) => done += count(moved, copied)?,
            Err(e) => return Err(e),
        }
    }
}

fn by_hand(from: BorrowedFd<'_>, to: BorrowedFd<'_>, copied: &AtomicU64) -> Result<(), Errno> {
    let mut buffer = vec![0; BLOCK];
    let mut done = 0;
    loop {
        let read = pread(from, &mut buffer[..], done)?;
        if read == 0 {
            return Ok(());
        }
        done += count(pwrite(to, &buffer[..read], done)?, copied)?;
    }
}

/// Counts bytes of a copy; an error if all copies have more than a recording may write.
fn count(moved: usize, copied: &AtomicU64) -> Result<u64, Errno> {
    let moved = moved as u64;
    if copied.fetch_add(moved, Ordering::Relaxed) + moved > limits::WRITTEN {
        return Err(Errno::FBIG);
    }
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use std::{fs, fs::File};

    use super::*;

    #[test]
    fn a_file_is_copied_to_the_start_of_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let bytes: Vec<u8> = (0..3 * BLOCK + 5).map(|at| (at / 7) as u8).collect();
        fs::write(path("from"), &bytes).unwrap();
        let from = File::open(path("from")).unwrap();
        for copy in [whole, by_hand] {
            let to = File::create(path("to")).unwrap();
            copy(from.as_fd(), to.as_fd(), &AtomicU64::new(0)).unwrap();
            assert!(fs::read(path("to")).unwrap() == bytes);
            let full = AtomicU64::new(limits::WRITTEN - 10);
            let done = copy(from.as_fd(), to.as_fd(), &full);
            assert_eq!(done, Err(Errno::FBIG), "more than a recording may write");
        }
    }
}
