//! Files on servers that may stop answering: opened so that no child process inherits them, and
//! locked without a descriptor.
#![allow(unsafe_code)]

use std::{
    ffi::c_void,
    fs::File,
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr, thread,
};

use rustix::{
    mm::{MapFlags, ProtFlags, mmap, munmap},
    thread::{UnshareFlags, unshare_unsafe},
};

/// Runs `work` in a thread with its own table of file descriptors. The table has the standard
/// streams, `dir` if there is one, and what `work` opens; `work` may not return a descriptor.
///
/// A child process inherits all descriptors of the thread that starts it, and closes them at its
/// execve(2). Closing a file on a FUSE server that has stopped in the middle of a call blocks. Then
/// the child, the process that started it, and every reader of its `/proc/PID/stat` wait too: on
/// Linux 6.18 that includes ps(1).
pub(crate) fn apart<T: Send>(
    dir: Option<BorrowedFd<'_>>,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    // Without one, the last of the standard streams, which stays in any case.
    let keep = dir.map_or(2, |dir| i64::from(dir.as_raw_fd()));
    let begin = move || {
        // SAFETY: this thread uses no descriptor but those named above and its own.
        if unsafe { unshare_unsafe(UnshareFlags::FILES) }.is_err() {
            return work();
        }
        let close = |first: i64, last: i64| {
            if first <= last {
                // SAFETY: the table is this thread's own.
                unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
            }
        };
        // Descriptors that other threads close must not stay open here: a pipe would not end.
        close(3, keep - 1);
        close(keep + 1, u32::MAX.into());
        let done = work();
        // A thread that has been joined may not have closed its files yet, and a mount of theirs is busy.
        close(3, u32::MAX.into());
        done
    };
    let done = thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, begin)?;
        Ok::<_, io::Error>(thread.join())
    })?;
    done.unwrap_or_else(|_| Err(io::Error::other("its thread has panicked")))
}

/// Bytes that are mapped; the file may be shorter.
const LENGTH: usize = 1;

/// Keeps a file open, and so the lock on it, by a mapping. Closing a descriptor asks the server of
/// a FUSE file system and waits for its answer, even at the end of a process. Such a process would
/// not end while that server is stopped. Removing a mapping does not wait.
#[derive(Debug)]
pub(crate) struct MappedLock(*mut c_void);

// SAFETY: the pointer is never read or written through.
unsafe impl Send for MappedLock {}

impl MappedLock {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        // SAFETY: the kernel chooses where the mapping is, so that no other is touched.
        let at = unsafe {
            mmap(
                ptr::null_mut(),
                LENGTH,
                ProtFlags::READ,
                MapFlags::PRIVATE,
                &file,
                0,
            )
        }?;
        // Closed now, while the server answers.
        drop(file);
        Ok(Self(at))
    }
}

impl Drop for MappedLock {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made above, and there are no references into it.
        let _ = unsafe { munmap(self.0, LENGTH) };
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::fd::AsFd, sync::mpsc};

    use layermark_testkit::wait_for;
    use rustix::fs::{FlockOperation, flock};

    use super::*;

    /// The files that a child of this thread would inherit.
    fn open_here() -> Vec<std::path::PathBuf> {
        let all = fs::read_dir("/proc/thread-self/fd").unwrap();
        let links = all.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
        links.collect()
    }

    #[test]
    fn what_is_open_apart_is_in_no_child_and_keeps_nothing_of_ours_open() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().canonicalize().unwrap().join("file");
        let dir = File::open(temp.path()).unwrap();
        let (mut told, pipe) = io::pipe().unwrap();
        let ((opened, is_open), (closed, is_closed)) = (mpsc::channel(), mpsc::channel());
        let seen = thread::scope(|scope| {
            let (dir, path) = (dir.as_fd(), &path);
            let work = move || {
                let file = File::create_new(path)?;
                opened.send(open_here()).unwrap();
                is_closed.recv().unwrap();
                drop(file);
                Ok(())
            };
            let made = scope.spawn(move || apart(Some(dir), work));
            let there = is_open.recv().unwrap();
            let here = open_here();
            drop(pipe);
            // Its only writer has closed it, even though the other thread still lives.
            io::Read::read_to_end(&mut told, &mut Vec::new()).unwrap();
            closed.send(()).unwrap();
            made.join().unwrap().unwrap();
            (there, here)
        });
        assert!(seen.0.contains(&path), "{:?}", seen.0);
        assert!(!seen.1.contains(&path), "{:?}", seen.1);
    }

    #[test]
    fn a_lock_is_kept_until_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create_new(&path).unwrap();
        drop(file);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let held = MappedLock::new(file).unwrap();
        let other = File::open(&path).unwrap();
        let lock = || flock(&other, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(lock(), Err(rustix::io::Errno::WOULDBLOCK));
        drop(held);
        // A process that another test is starting has a copy of it until it runs its program.
        wait_for("the lock", || lock().ok());
    }
}
