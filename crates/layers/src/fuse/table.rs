//! The files that our FUSE file system passes through, by inode number.

use std::{
    collections::HashMap,
    ffi::{CStr, OsStr},
    fs::File,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicBool, AtomicU64},
    },
    time::{Duration, SystemTime},
};

use fuser::{BackingId, Errno, FileAttr, FileType, INodeNo};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, openat, statat};

/// A file the kernel knows by number.
#[derive(Debug)]
pub(crate) struct Inode {
    /// Opened with `O_PATH`: refers to the file even after it is renamed.
    pub(crate) fd: OwnedFd,
    key: (u64, u64),
    /// Lookups that the kernel has not forgotten.
    lookups: u64,
    /// The kernel requires the same one for every open of a file.
    backing: Weak<BackingId>,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) file: File,
    /// The file opened again with `O_DIRECT`, if the application opened it so.
    pub(crate) direct: Option<File>,
    /// Whether it was flushed since it was opened.
    pub(crate) flushed: AtomicBool,
    /// Kept while the file is open.
    pub(crate) _backing: Option<Arc<BackingId>>,
}

/// The first number of files that cannot have their own.
const FIRST: u64 = 1 << 63;

#[derive(Debug)]
struct Inodes {
    by_number: HashMap<u64, Inode>,
    by_key: HashMap<(u64, u64), u64>,
    /// Of the root.
    device: u64,
    next: u64,
}

impl Inodes {
    /// The number of a file that the kernel does not know: its own one below. So it is the same again when the kernel
    /// has forgotten the file, and an application that looks twice (cp, tar) does not take it for another file.
    fn number(&mut self, (device, ino): (u64, u64)) -> u64 {
        if device == self.device && ino > INodeNo::ROOT.0 && ino < FIRST {
            return ino;
        }
        self.next += 1;
        self.next
    }
}

/// All inodes and open files, and the directories being listed.
#[derive(Debug)]
pub(crate) struct InodeTable {
    inodes: RwLock<Inodes>,
    open: RwLock<HashMap<u64, Arc<Open>>>,
    dirs: RwLock<HashMap<u64, Arc<Vec<InodeEntry>>>>,
    next_handle: AtomicU64,
    /// `/proc/self/fd`: leads from an `O_PATH` descriptor to an open file.
    fds: OwnedFd,
}

/// One name in a directory.
#[derive(Debug, Clone)]
pub(crate) struct InodeEntry {
    pub(crate) number: u64,
    pub(crate) kind: FileType,
    pub(crate) name: Vec<u8>,
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn errno(e: rustix::io::Errno) -> Errno {
    Errno::from_i32(e.raw_os_error())
}

impl InodeTable {
    /// A table whose root is `root`, opened with `O_PATH`.
    pub(crate) fn new(root: OwnedFd) -> std::io::Result<Self> {
        let stat = statat(&root, c"", AtFlags::EMPTY_PATH)?;
        let fds = rustix::fs::open(
            "/proc/self/fd",
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let key = (stat.st_dev, stat.st_ino);
        let root = Inode {
            fd: root,
            key,
            lookups: 1,
            backing: Weak::new(),
        };
        Ok(Self {
            inodes: RwLock::new(Inodes {
                by_number: HashMap::from([(INodeNo::ROOT.0, root)]),
                by_key: HashMap::from([(key, INodeNo::ROOT.0)]),
                device: stat.st_dev,
                next: FIRST,
            }),
            open: RwLock::default(),
            dirs: RwLock::default(),
            next_handle: AtomicU64::new(1),
            fds,
        })
    }

    /// Calls `what` with the file of an inode number. The read lock is held meanwhile, so that the
    /// descriptor stays valid.
    pub(crate) fn with<T>(
        &self,
        ino: INodeNo,
        what: impl FnOnce(&OwnedFd) -> rustix::io::Result<T>,
    ) -> Result<T, Errno> {
        let inodes = read(&self.inodes);
        let inode = inodes.by_number.get(&ino.0).ok_or(Errno::ESTALE)?;
        what(&inode.fd).map_err(errno)
    }

    /// Like [`Self::with`], for two files.
    pub(crate) fn with_both<T>(
        &self,
        first: INodeNo,
        second: INodeNo,
        what: impl FnOnce(&OwnedFd, &OwnedFd) -> rustix::io::Result<T>,
    ) -> Result<T, Errno> {
        let inodes = read(&self.inodes);
        let get = |ino: INodeNo| inodes.by_number.get(&ino.0).ok_or(Errno::ESTALE);
        what(&get(first)?.fd, &get(second)?.fd).map_err(errno)
    }

    /// Calls `what` with the directory and name through which an `O_PATH` descriptor is reached.
    pub(crate) fn through_proc<T>(
        &self,
        fd: &OwnedFd,
        what: impl FnOnce(BorrowedFd<'_>, &CStr) -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        use std::os::fd::AsFd;
        let name = format!("{}\0", fd.as_raw_fd());
        let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or(c"");
        what(self.fds.as_fd(), name)
    }

    /// Opens the file of an inode number.
    pub(crate) fn reopen(&self, ino: INodeNo, flags: OFlags) -> Result<File, Errno> {
        self.with(ino, |fd| {
            self.through_proc(fd, |dir, name| {
                openat(dir, name, flags | OFlags::CLOEXEC, Mode::empty())
            })
        })
        .map(File::from)
    }

    /// Looks a name up and counts one lookup by the kernel.
    pub(crate) fn lookup(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = self.with(parent, |dir| openat(dir, name, flags, Mode::empty()))?;
        let stat = statat(&fd, c"", AtFlags::EMPTY_PATH).map_err(errno)?;
        let key = (stat.st_dev, stat.st_ino);
        let mut inodes = write(&self.inodes);
        let number = if let Some(number) = inodes.by_key.get(&key).copied() {
            if let Some(inode) = inodes.by_number.get_mut(&number) {
                inode.lookups += 1;
            }
            number
        } else {
            let number = inodes.number(key);
            inodes.by_key.insert(key, number);
            let inode = Inode {
                fd,
                key,
                lookups: 1,
                backing: Weak::new(),
            };
            inodes.by_number.insert(number, inode);
            number
        };
        Ok(attributes(number, &stat))
    }

    /// Subtracts the lookups of a file that the kernel has forgotten.
    pub(crate) fn forget(&self, ino: INodeNo, times: u64) {
        let mut inodes = write(&self.inodes);
        let Some(inode) = inodes.by_number.get_mut(&ino.0) else {
            return;
        };
        inode.lookups = inode.lookups.saturating_sub(times);
        if inode.lookups == 0 && ino != INodeNo::ROOT {
            let key = inode.key;
            inodes.by_key.remove(&key);
            inodes.by_number.remove(&ino.0);
        }
    }

    /// The file's backing id: an existing one while it is open, else a new one.
    pub(crate) fn backing(
        &self,
        ino: INodeNo,
        make: impl FnOnce() -> std::io::Result<BackingId>,
    ) -> Result<Arc<BackingId>, Errno> {
        let mut inodes = write(&self.inodes);
        let inode = inodes.by_number.get_mut(&ino.0).ok_or(Errno::ESTALE)?;
        if let Some(backing) = inode.backing.upgrade() {
            return Ok(backing);
        }
        let backing = Arc::new(make().map_err(Errno::from)?);
        inode.backing = Arc::downgrade(&backing);
        Ok(backing)
    }

    fn handle(&self) -> u64 {
        self.next_handle
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }

    pub(crate) fn add_open(&self, open: Open) -> u64 {
        let handle = self.handle();
        write(&self.open).insert(handle, Arc::new(open));
        handle
    }

    pub(crate) fn opened(&self, handle: u64) -> Result<Arc<Open>, Errno> {
        read(&self.open).get(&handle).cloned().ok_or(Errno::EBADF)
    }

    pub(crate) fn close(&self, handle: u64) {
        write(&self.open).remove(&handle);
    }

    pub(crate) fn add_dir(&self, entries: Vec<InodeEntry>) -> u64 {
        let handle = self.handle();
        write(&self.dirs).insert(handle, Arc::new(entries));
        handle
    }

    pub(crate) fn dir(&self, handle: u64) -> Result<Arc<Vec<InodeEntry>>, Errno> {
        read(&self.dirs).get(&handle).cloned().ok_or(Errno::EBADF)
    }

    pub(crate) fn close_dir(&self, handle: u64) {
        write(&self.dirs).remove(&handle);
    }
}

pub(crate) fn attributes(number: u64, stat: &Stat) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: stat.st_size.cast_unsigned(),
        blocks: stat.st_blocks.cast_unsigned(),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

pub(crate) fn kind(kind: rustix::fs::FileType) -> FileType {
    use rustix::fs::FileType as Unix;
    match kind {
        Unix::Directory => FileType::Directory,
        Unix::Symlink => FileType::Symlink,
        Unix::Fifo => FileType::NamedPipe,
        Unix::Socket => FileType::Socket,
        Unix::CharacterDevice => FileType::CharDevice,
        Unix::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let part = Duration::new(seconds.unsigned_abs(), nanoseconds as u32);
    if seconds >= 0 {
        SystemTime::UNIX_EPOCH + part
    } else {
        SystemTime::UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs())
            + Duration::from_nanos(nanoseconds)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// "skipping file, as it was replaced while being copied", when another program had emptied the kernel's caches.
    #[test]
    fn a_file_that_was_forgotten_has_the_same_number_again() {
        let temp = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::write(temp.path().join(name), name).unwrap();
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let root = rustix::fs::open(temp.path(), flags, Mode::empty()).unwrap();
        let table = InodeTable::new(root).unwrap();
        let number = |name: &str| table.lookup(INodeNo::ROOT, name.as_ref()).unwrap().ino;
        let (a, b) = (number("a"), number("b"));
        table.forget(a, 1);
        assert_eq!((number("a"), number("b")), (a, b));
        let below = temp.path().join("a").metadata().unwrap().ino();
        assert!(a != b && a.0 == below, "its own number: {a:?}, {below}");
    }

    #[test]
    fn files_that_cannot_have_their_own_numbers_have_others() {
        let mut inodes = Inodes {
            by_number: HashMap::new(),
            by_key: HashMap::new(),
            device: 5,
            next: FIRST,
        };
        let keys = [(5, 7), (6, 7), (5, INodeNo::ROOT.0), (5, u64::MAX), (6, 7)];
        let numbers = keys.map(|key| inodes.number(key));
        assert_eq!(numbers, [7, FIRST + 1, FIRST + 2, FIRST + 3, FIRST + 4]);
    }
}
