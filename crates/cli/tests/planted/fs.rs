//! A file system in user space with planted faults. It passes calls on to a directory, by paths, and is wrong in
//! what its keys say: `fsync=second,read=memory`. Nobody's model of a good one.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{DirEntryExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

/// What it does wrong.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    /// `fsync=second`: flushes at every second call; `other`: flushes another file; `early`: answers first.
    fsync: String,
    /// `fsyncdir=einval`: refuses to flush a directory, as some shares do.
    fsyncdir: String,
    /// `read=memory`: reads from memory of its own; `direct`: with `O_DIRECT` each time.
    read: String,
    /// `dirs=iv`: each directory needs a file in it that is never flushed, as gocryptfs's `gocryptfs.diriv`; `denied`:
    /// started after a cut, it lets nobody in.
    dirs: String,
    /// `close=late`: what was written is stored some time after the close, by a thread that ends with the server.
    close: String,
}

impl Keys {
    pub fn of(text: &str) -> Self {
        let mut keys = Self::default();
        for (key, value) in text.split(',').filter_map(|pair| pair.split_once('=')) {
            let to = match key {
                "fsync" => &mut keys.fsync,
                "fsyncdir" => &mut keys.fsyncdir,
                "read" => &mut keys.read,
                "dirs" => &mut keys.dirs,
                "close" => &mut keys.close,
                _ => panic!("no key {key}"),
            };
            value.clone_into(to);
        }
        keys
    }
}

/// Mounts it and serves until it is unmounted.
pub fn serve(keys: &str, below: &Path, at: &Path) -> io::Result<()> {
    let device: OwnedFd = File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")?
        .into();
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other",
        device.as_raw_fd()
    );
    let options = std::ffi::CString::new(options)?;
    let flags = rustix::mount::MountFlags::NODEV;
    rustix::mount::mount("pf", at, "fuse.pf", flags, options.as_c_str())?;
    let system = Planted {
        keys: Keys::of(keys),
        below: below.canonicalize()?,
        ..Planted::default()
    };
    system.learn(INodeNo::ROOT.0, PathBuf::new());
    system.mark(Path::new(""))?;
    let mut config = fuser::Config::default();
    config.n_threads = Some(2);
    let session = fuser::Session::from_fd(system, device, fuser::SessionACL::All, config)?;
    match session.run() {
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        other => other,
    }
}

/// How long an answer comes before the flush.
const EARLY: Duration = Duration::from_millis(100);
/// How long after a close the data is stored.
const LATE: Duration = Duration::from_secs(5);
/// Its file in a directory.
const IV: &str = ".iv";

#[derive(Default)]
struct Planted {
    keys: Keys,
    below: PathBuf,
    /// Paths below, by number.
    paths: Mutex<HashMap<u64, PathBuf>>,
    open: Mutex<HashMap<u64, Arc<Handle>>>,
    /// Data of files in memory, by number.
    memory: Mutex<HashMap<u64, Vec<u8>>>,
    next: AtomicU64,
    syncs: AtomicU64,
    /// It lets nobody in.
    denied: AtomicBool,
}

struct Handle {
    file: File,
    /// Reads past the cache.
    direct: Option<File>,
    path: PathBuf,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Answer<T> = Result<T, Errno>;

impl Planted {
    fn learn(&self, ino: u64, path: PathBuf) {
        lock(&self.paths).insert(ino, path);
    }

    fn inner(&self, ino: INodeNo) -> Answer<PathBuf> {
        let paths = lock(&self.paths);
        paths.get(&ino.0).cloned().ok_or(Errno::ENOENT)
    }

    fn path(&self, ino: INodeNo) -> Answer<PathBuf> {
        Ok(self.below.join(self.inner(ino)?))
    }

    /// Makes the file that a directory needs, and flushes nothing.
    fn mark(&self, dir: &Path) -> io::Result<()> {
        let path = self.below.join(dir).join(IV);
        if self.keys.dirs == "iv" && !path.exists() {
            fs::write(&path, [7; 16])?;
        }
        if self.keys.dirs == "denied" && dir.as_os_str().is_empty() {
            // For files that are closed, for those that are cut, and then after each cut.
            let before = fs::read(&path).unwrap_or_default();
            self.denied.store(before.len() >= 2, Ordering::Relaxed);
            fs::write(&path, [&before[..], &[7]].concat())?;
            File::open(&path)?.sync_all()?;
            File::open(&self.below)?.sync_all()?;
        }
        Ok(())
    }

    /// The inner path of a name in a directory, whose own file has to be whole.
    fn named(&self, parent: INodeNo, name: &OsStr) -> Answer<PathBuf> {
        let dir = self.inner(parent)?;
        if self.denied.load(Ordering::Relaxed) {
            return Err(Errno::EACCES);
        }
        if self.keys.dirs == "iv" {
            let iv = fs::read(self.below.join(&dir).join(IV));
            if !iv.is_ok_and(|iv| iv.len() == 16) || name == IV {
                return Err(Errno::EIO);
            }
        }
        Ok(dir.join(name))
    }

    fn stat(&self, inner: &Path) -> Answer<FileAttr> {
        let meta = self.below.join(inner).symlink_metadata()?;
        let root = inner.as_os_str().is_empty();
        let ino = if root { 1 } else { meta.ino() };
        let time = |seconds: i64, nanoseconds: i64| {
            SystemTime::UNIX_EPOCH
                + Duration::new(seconds.unsigned_abs(), nanoseconds.unsigned_abs() as u32)
        };
        self.learn(ino, inner.to_owned());
        Ok(FileAttr {
            ino: INodeNo(ino),
            size: self.kept_size(ino).unwrap_or(meta.len()),
            blocks: meta.blocks(),
            atime: time(meta.atime(), meta.atime_nsec()),
            mtime: time(meta.mtime(), meta.mtime_nsec()),
            ctime: time(meta.ctime(), meta.ctime_nsec()),
            crtime: SystemTime::UNIX_EPOCH,
            kind: kind(meta.file_type()),
            perm: (meta.mode() & 0o7777) as u16,
            nlink: meta.nlink() as u32,
            uid: meta.uid(),
            gid: meta.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// The size of what is not stored yet.
    fn kept_size(&self, ino: u64) -> Option<u64> {
        let memory = lock(&self.memory);
        let kept = memory.get(&ino).filter(|_| self.keys.close == "late")?;
        Some(kept.len() as u64)
    }

    fn opened(&self, handle: FileHandle) -> Answer<Arc<Handle>> {
        let open = lock(&self.open);
        open.get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    fn keep(&self, path: PathBuf, create: Option<u32>) -> Answer<FileHandle> {
        let mut options = File::options();
        options.read(true).write(true);
        if let Some(mode) = create {
            options.create(true).mode(mode);
        }
        let late = self.keys.close == "late" && !path.to_string_lossy().contains("packaged");
        let file = if late && create.is_some() {
            // Its name is seen at once, and its data for a while only here.
            options.open(&path)?;
            lock(&self.memory).insert(path.symlink_metadata()?.ino(), Vec::new());
            options.open(&path)?
        } else {
            options.open(&path)?
        };
        let direct = if self.keys.read == "direct" {
            let mut direct = File::options();
            let direct = direct.read(true).custom_flags(libc::O_DIRECT);
            Some(direct.open(&path)?)
        } else {
            None
        };
        let handle = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let kept = Handle { file, direct, path };
        lock(&self.open).insert(handle, Arc::new(kept));
        Ok(FileHandle(handle))
    }

    fn read_at(&self, open: &Handle, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        let mut data = vec![0; size];
        let ino = open.file.metadata()?.ino();
        let mut memory = lock(&self.memory);
        if self.keys.read == "memory" && !memory.contains_key(&ino) {
            memory.insert(ino, fs::read(&open.path)?);
        }
        if let Some(kept) = memory.get(&ino) {
            let from = kept.len().min(offset as usize);
            let to = kept.len().min(from + size);
            return Ok(kept[from..to].to_vec());
        }
        drop(memory);
        let got = match &open.direct {
            None => open.file.read_at(&mut data, offset)?,
            Some(file) => {
                // Whole pages of the file, in whole pages of memory.
                let skip = (offset % 4096) as usize;
                let length = (skip + size).next_multiple_of(4096);
                let mut pages = vec![0; length + 4096];
                let at = pages.as_ptr().align_offset(4096);
                let whole = &mut pages[at..at + length];
                let read = file.read_at(whole, offset - skip as u64)?;
                let got = read.saturating_sub(skip).min(size);
                data[..got].copy_from_slice(&whole[skip..skip + got]);
                got
            }
        };
        data.truncate(got);
        Ok(data)
    }

    fn write_at(&self, open: &Handle, offset: u64, data: &[u8]) -> io::Result<usize> {
        let ino = open.file.metadata()?.ino();
        let mut memory = lock(&self.memory);
        if let Some(kept) = memory.get_mut(&ino)
            && self.keys.close == "late"
        {
            let end = offset as usize + data.len();
            kept.resize(kept.len().max(end), 0);
            kept[offset as usize..end].copy_from_slice(data);
            return Ok(data.len());
        }
        memory.remove(&ino);
        drop(memory);
        open.file.write_all_at(data, offset)?;
        Ok(data.len())
    }

    /// Stores what was written to a file some time later.
    fn store_later(&self, open: &Arc<Handle>) {
        let ino = open.file.metadata().map_or(0, |m| m.ino());
        if self.keys.close != "late" {
            return;
        }
        let data = lock(&self.memory).get(&ino).cloned();
        if let Some(data) = data {
            let open = open.clone();
            thread::spawn(move || {
                thread::sleep(LATE);
                let _ = open.file.write_all_at(&data, 0);
            });
        }
    }

    fn flush(&self, open: &Arc<Handle>) -> io::Result<()> {
        let number = self.syncs.fetch_add(1, Ordering::Relaxed);
        match self.keys.fsync.as_str() {
            "second" if number.is_multiple_of(2) => Ok(()),
            "other" => {
                let other = self.below.join("other");
                let other = File::options().create(true).append(true).open(other)?;
                other.write_all_at(b"x", number)?;
                other.sync_all()
            }
            "early" => {
                let open = open.clone();
                thread::spawn(move || {
                    thread::sleep(EARLY);
                    let _ = open.file.sync_all();
                });
                Ok(())
            }
            _ => {
                let ino = open.file.metadata()?.ino();
                if let Some(data) = lock(&self.memory).get(&ino)
                    && self.keys.close == "late"
                {
                    open.file.write_all_at(data, 0)?;
                }
                open.file.sync_all()
            }
        }
    }

    fn entry(&self, inner: Answer<PathBuf>, reply: ReplyEntry) {
        match inner.and_then(|inner| self.stat(&inner)) {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(e) => reply.error(e),
        }
    }
}

const TTL: Duration = Duration::ZERO;

fn kind(kind: fs::FileType) -> FileType {
    if kind.is_dir() {
        FileType::Directory
    } else if kind.is_symlink() {
        FileType::Symlink
    } else {
        FileType::RegularFile
    }
}

fn empty(done: Answer<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(UTIME_OMIT),
        Some(TimeOrNow::Now) => special(UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => {
            let since = time.duration_since(SystemTime::UNIX_EPOCH);
            let since = since.unwrap_or_default();
            Timespec {
                tv_sec: since.as_secs().cast_signed(),
                tv_nsec: i64::from(since.subsec_nanos()),
            }
        }
    }
}

impl Filesystem for Planted {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.named(parent, name), reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.inner(ino).and_then(|inner| self.stat(&inner)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(e) => reply.error(e),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        bits: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = || -> Answer<FileAttr> {
            let (inner, path) = (self.inner(ino)?, self.path(ino)?);
            if let Some(bits) = bits {
                fs::set_permissions(&path, fs::Permissions::from_mode(bits & 0o7777))?;
            }
            if uid.is_some() || gid.is_some() {
                std::os::unix::fs::lchown(&path, uid, gid)?;
            }
            if let Some(size) = size {
                lock(&self.memory).remove(&ino.0);
                File::options().write(true).open(&path)?.set_len(size)?;
            }
            if atime.is_some() || mtime.is_some() {
                let times = Timestamps {
                    last_access: timespec(atime),
                    last_modification: timespec(mtime),
                };
                rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())
                    .map_err(io::Error::from)?;
            }
            self.stat(&inner)
        };
        match change() {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(e) => reply.error(e),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        bits: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let make = || -> Answer<PathBuf> {
            let inner = self.named(parent, name)?;
            let path = self.below.join(&inner);
            fs::create_dir(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(bits & 0o7777))?;
            self.mark(&inner)?;
            Ok(inner)
        };
        self.entry(make(), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let inner = self.named(parent, name);
        let done = inner.and_then(|inner| Ok(fs::remove_file(self.below.join(inner))?));
        empty(done, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || -> Answer<()> {
            let path = self.below.join(self.named(parent, name)?);
            if self.keys.dirs == "iv" && fs::read_dir(&path)?.count() == 1 {
                fs::remove_file(path.join(IV))?;
            }
            Ok(fs::remove_dir(path)?)
        };
        empty(remove(), reply);
    }

    fn symlink(&self, _: &Request, at: INodeNo, name: &OsStr, to: &Path, reply: ReplyEntry) {
        let make = || -> Answer<PathBuf> {
            let inner = self.named(at, name)?;
            std::os::unix::fs::symlink(to, self.below.join(&inner))?;
            Ok(inner)
        };
        self.entry(make(), reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self.path(ino).and_then(|path| Ok(fs::read_link(path)?));
        match target {
            Ok(target) => reply.data(target.as_os_str().as_encoded_bytes()),
            Err(e) => reply.error(e),
        }
    }

    fn rename(
        &self,
        _: &Request,
        from: INodeNo,
        old: &OsStr,
        to: INodeNo,
        new: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let rename = || -> Answer<()> {
            let (old, new) = (self.named(from, old)?, self.named(to, new)?);
            fs::rename(self.below.join(&old), self.below.join(&new))?;
            for path in lock(&self.paths).values_mut() {
                if let Ok(rest) = path.strip_prefix(&old) {
                    *path = if rest.as_os_str().is_empty() {
                        new.clone()
                    } else {
                        new.join(rest)
                    };
                }
            }
            Ok(())
        };
        empty(rename(), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.path(ino).and_then(|path| self.keep(path, None)) {
            Ok(handle) => reply.opened(handle, self.cached()),
            Err(e) => reply.error(e),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        bits: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let create = || -> Answer<(FileAttr, FileHandle)> {
            let inner = self.named(parent, name)?;
            let handle = self.keep(self.below.join(&inner), Some(bits))?;
            Ok((self.stat(&inner)?, handle))
        };
        match create() {
            Ok((attr, handle)) => {
                reply.created(&TTL, &attr, Generation(0), handle, self.cached());
            }
            Err(e) => reply.error(e),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let open = self.opened(handle);
        match open.and_then(|open| Ok(self.read_at(&open, offset, size as usize)?)) {
            Ok(data) => reply.data(&data),
            Err(e) => reply.error(e),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let open = self.opened(handle);
        match open.and_then(|open| Ok(self.write_at(&open, offset, data)?)) {
            Ok(bytes) => reply.written(bytes as u32),
            Err(e) => reply.error(e),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        if let Ok(open) = self.opened(handle) {
            self.store_later(&open);
        }
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        lock(&self.open).remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let open = self.opened(handle);
        let done = open.and_then(|open| Ok(Self::flush(self, &open)?));
        empty(done, reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if self.keys.fsyncdir == "einval" {
            return reply.error(Errno::EINVAL);
        }
        let path = self.path(ino);
        empty(
            path.and_then(|path| Ok(File::open(path)?.sync_all()?)),
            reply,
        );
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let list = || -> Answer<Vec<fs::DirEntry>> {
            self.named(ino, OsStr::new("x"))?;
            let entries = fs::read_dir(self.path(ino)?)?;
            Ok(entries.collect::<io::Result<_>>()?)
        };
        let entries = match list() {
            Ok(entries) => entries,
            Err(e) => return reply.error(e),
        };
        let shown = entries.iter().filter(|e| e.file_name() != IV);
        for (index, entry) in shown.enumerate().skip(offset as usize) {
            let kind = entry.file_type().map_or(FileType::RegularFile, kind);
            let next = index as u64 + 1;
            if reply.add(INodeNo(entry.ino()), next, kind, entry.file_name()) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match rustix::fs::statvfs(&self.below) {
            Ok(s) => reply.statfs(
                s.f_blocks,
                s.f_bfree,
                s.f_bavail,
                s.f_files,
                s.f_ffree,
                s.f_bsize as u32,
                s.f_namemax as u32,
                s.f_frsize as u32,
            ),
            Err(e) => reply.error(Errno::from(io::Error::from(e))),
        }
    }
}

impl Planted {
    /// A server that answers by itself each time has the kernel keep nothing.
    fn cached(&self) -> FopenFlags {
        if self.keys.read.is_empty() {
            FopenFlags::empty()
        } else {
            FopenFlags::FOPEN_DIRECT_IO
        }
    }
}
