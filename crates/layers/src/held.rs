//! A file that stays open, and locked, without a descriptor.
#![allow(unsafe_code)]

use std::{ffi::c_void, fs::File, io, ptr};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes that are mapped; the file may be shorter.
const LENGTH: usize = 1;

/// Keeps a file open, and so the lock on it, by a mapping. To close a descriptor asks the server of a
/// FUSE file system and waits for its answer, at the end of a process too, which would not end where
/// that server has stopped. To end a mapping does not.
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
        // Now, while it answers.
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
    use rustix::fs::{FlockOperation, flock};

    use super::*;

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
        let mut tries = (0..200).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            lock()
        });
        assert!(tries.any(|done| done.is_ok()));
    }
}
