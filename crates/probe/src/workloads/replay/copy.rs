//! What a program does where files cannot share their data: it copies, as `cp --reflink=auto` does.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{AtomicU64, Ordering},
};

use layermark_recording::{Call, limits};
use rustix::{
    fs::{copy_file_range, fstat, fstatvfs},
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
            let (of, into) = (fstat(from.as_fd())?, fstat(to.as_fd())?);
            if (of.st_dev, of.st_ino) == (into.st_dev, into.st_ino) {
                return Err(Errno::INVAL);
            }
            let length = of.st_size.max(0) as u64;
            let free = fstatvfs(to.as_fd())?;
            // A clone needs no space, so that there is enough for it was not asked for.
            if length > free.f_bavail.saturating_mul(free.f_frsize) / 2 {
                return Err(Errno::NOSPC);
            }
            whole(from.as_fd(), to.as_fd(), length, &self.copied)
        });
        done.map_or_else(|e| -i64::from(e.raw_os_error()), |()| 0)
    }
}

/// Copies a file to the start of another one. No offset moves. `copied`: the bytes of all copies, since clones of a hostile
/// recording may be as large as there are sparse files.
fn whole(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    length: u64,
    copied: &AtomicU64,
) -> Result<(), Errno> {
    let mut done = 0;
    while done < length {
        let (mut read, mut written) = (done, done);
        let most = usize::try_from(length - done).map_or(AT_ONCE, |left| left.min(AT_ONCE));
        let copy = copy_file_range(from, Some(&mut read), to, Some(&mut written), most);
        match copy {
            // Some file systems do not copy, and some say that there is nothing.
            Err(_) | Ok(0) if done == 0 => return by_hand(from, to, length, copied),
            Ok(0) => return Ok(()),
            Ok(moved) => done += count(moved, copied)?,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn by_hand(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    length: u64,
    copied: &AtomicU64,
) -> Result<(), Errno> {
    let mut buffer = vec![0; BLOCK];
    let mut done = 0;
    while done < length {
        let most = usize::try_from(length - done).map_or(BLOCK, |left| left.min(BLOCK));
        let read = pread(from, &mut buffer[..most], done)?;
        if read == 0 {
            break;
        }
        done += count(pwrite(to, &buffer[..read], done)?, copied)?;
    }
    Ok(())
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
        let all = bytes.len() as u64;
        for copy in [whole, by_hand] {
            let to = File::create(path("to")).unwrap();
            copy(from.as_fd(), to.as_fd(), all, &AtomicU64::new(0)).unwrap();
            assert!(fs::read(path("to")).unwrap() == bytes);
            let full = AtomicU64::new(limits::WRITTEN - 10);
            let done = copy(from.as_fd(), to.as_fd(), all, &full);
            assert_eq!(done, Err(Errno::FBIG), "more than a recording may write");
        }
        // What is appended to a file while it is copied to itself would be copied again.
        let own = File::options()
            .read(true)
            .append(true)
            .open(path("from"))
            .unwrap();
        by_hand(own.as_fd(), own.as_fd(), all, &AtomicU64::new(0)).unwrap();
        assert_eq!(own.metadata().unwrap().len(), 2 * all);
    }
}
