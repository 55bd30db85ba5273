//! Our file system in user space. It forwards every request to a directory.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::File,
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Sender},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use super::{
    data_only::DataFlush,
    requests::{Agreed, FuseCache, FuseFsync, ServeOptions, timespec, wait, with_buffer},
    table::{InodeEntry, InodeTable, Open, attributes, errno, kind},
};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, SeekFrom, Timestamps};

/// The file system.
#[derive(Debug)]
pub(crate) struct Through {
    table: InodeTable,
    options: ServeOptions,
    agreed: Arc<Mutex<Agreed>>,
    ttl: Duration,
    /// Number of requests so far, without `forget`.
    requests: AtomicU64,
    /// The fsync that has to fail has failed.
    sync_failed: AtomicBool,
    /// Where files wait that are flushed late.
    late: Option<Sender<(Instant, File)>>,
    /// Number of flushes so far.
    flushes: AtomicU64,
    /// For flushes without a file's size.
    data: Option<DataFlush>,
    #[cfg(feature = "mock")]
    held: Option<std::path::PathBuf>,
}

/// Largest transfer in one request: the kernel's own limit (256 pages).
const LARGEST: u32 = 1 << 20;

/// How long after its answer a late fsync flushes.
const LATE: Duration = Duration::from_millis(200);

/// Flushes files in a thread of its own when they are due. Requests for a file that are due at the same time
/// share a flush.
///
/// # Errors No thread can be started.
fn flush_late() -> io::Result<Sender<(Instant, File)>> {
    let (send, receive) = mpsc::channel::<(Instant, File)>();
    let flushes = move || {
        let mut next = None;
        while let Some((due, file)) = next.take().or_else(|| receive.recv().ok()) {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let mut flushed = HashSet::new();
            let mut flush = |file: &File| {
                if file.metadata().is_ok_and(|m| flushed.insert(m.ino())) {
                    // Nobody waits for the answer.
                    let _ = file.sync_data();
                }
            };
            flush(&file);
            for (due, file) in receive.try_iter() {
                if due > Instant::now() {
                    next = Some((due, file));
                    break;
                }
                flush(&file);
            }
        }
    };
    thread::Builder::new().spawn(flushes)?;
    Ok(send)
}

impl Through {
    pub(crate) fn new(
        backing: &Path,
        options: ServeOptions,
        agreed: Arc<Mutex<Agreed>>,
    ) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(backing, flags, Mode::empty())?;
        let ttl = match options.cache {
            FuseCache::Auto => Duration::from_secs(1),
            FuseCache::Always => Duration::from_hours(24),
            FuseCache::None => Duration::ZERO,
        };
        let data = (options.fsync == FuseFsync::Data)
            .then(|| {
                rustix::fs::openat(
                    &root,
                    ".",
                    OFlags::RDONLY | OFlags::DIRECTORY,
                    Mode::empty(),
                )
            })
            .transpose()?
            .map(DataFlush::new)
            .transpose()?;
        Ok(Self {
            table: InodeTable::new(root)?,
            options,
            agreed,
            ttl,
            requests: AtomicU64::new(0),
            sync_failed: AtomicBool::new(false),
            late: (options.fsync == FuseFsync::Late)
                .then(flush_late)
                .transpose()?,
            flushes: AtomicU64::new(0),
            data,
            #[cfg(feature = "mock")]
            held: std::env::var_os("LAYERMARK_FUSE_HOLDS").map(Into::into),
        })
    }

    /// Waits for the injected delay and stalls, for every request except `forget`, which nothing
    /// waits for.
    fn pause(&self, call: &str) {
        #[cfg(feature = "mock")]
        self.keep_back(call);
        #[cfg(not(feature = "mock"))]
        let _ = call;
        let n = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        Self::hold(self.options.delay + self.options.stalls.of(n));
    }

    /// Hands the file over to be flushed late, if it is.
    fn leaves_for_later(&self, file: &File) -> Option<Result<(), Errno>> {
        let late = self.late.as_ref()?;
        let file = file.try_clone().map_err(Errno::from);
        // The thread ends with the file system.
        Some(file.map(|file| drop(late.send((Instant::now() + LATE, file)))))
    }

    /// The answer to an fsync of a file or of a directory that flushes nothing.
    fn without_flush(&self, directory: bool) -> Option<Result<(), Errno>> {
        match self.options.fsync {
            FuseFsync::Files if directory => Some(Ok(())),
            FuseFsync::Second if self.flushes.fetch_add(1, Ordering::Relaxed) % 2 == 1 => {
                Some(Ok(()))
            }
            FuseFsync::Pass
            | FuseFsync::Late
            | FuseFsync::Second
            | FuseFsync::Data
            | FuseFsync::Files => None,
            FuseFsync::Drop => Some(Ok(())),
            FuseFsync::Invalid => Some(Err(Errno::EINVAL)),
            FuseFsync::FailOnce if self.sync_failed.swap(true, Ordering::Relaxed) => None,
            FuseFsync::FailOnce => Some(Err(Errno::EIO)),
        }
    }

    fn hold(time: Duration) {
        if !time.is_zero() {
            wait(Instant::now(), time);
        }
    }

    /// For tests: while the file that this variable names holds the name of a call, such calls are
    /// received and not answered. The first one makes a file with the extension `taken`.
    #[cfg(feature = "mock")]
    fn keep_back(&self, call: &str) {
        let Some(named) = &self.held else { return };
        while std::fs::read_to_string(named).is_ok_and(|name| name == call) {
            let _ = std::fs::File::create_new(named.with_extension("taken"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Open flags for the file below, from those of the application.
    fn below(&self, flags: i32) -> OFlags {
        let mut flags = OFlags::from_bits_retain(flags.cast_unsigned())
            - (OFlags::CREATE | OFlags::EXCL | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::DIRECT);
        if self.options.writeback {
            // To write part of a page, the kernel has to read the rest of it. It also handles
            // appending.
            if flags.contains(OFlags::WRONLY) {
                flags = (flags - OFlags::WRONLY) | OFlags::RDWR;
            }
            flags -= OFlags::APPEND;
        }
        flags | OFlags::CLOEXEC
    }

    fn wants_direct(&self, flags: i32) -> bool {
        self.options.direct && flags & libc::O_DIRECT != 0
    }

    fn reply_flags(&self) -> FopenFlags {
        match self.options.cache {
            _ if self.options.passthrough => FopenFlags::empty(),
            // With `Auto` the kernel drops the data of a file whose time has changed.
            FuseCache::Auto | FuseCache::Always => FopenFlags::FOPEN_KEEP_CACHE,
            FuseCache::None => FopenFlags::FOPEN_DIRECT_IO,
        }
    }

    fn direct_twin(&self, ino: INodeNo, flags: i32) -> Result<Option<File>, Errno> {
        if !self.wants_direct(flags) {
            return Ok(None);
        }
        let twin = (self.below(flags) - OFlags::TRUNC) | OFlags::DIRECT;
        self.table.reopen(ino, twin).map(Some)
    }

    fn reply_entry(&self, found: Result<fuser::FileAttr, Errno>, reply: ReplyEntry) {
        match found {
            Ok(attr) => reply.entry(&self.ttl, &attr, Generation(0)),
            Err(e) => reply.error(e),
        }
    }

    fn stat(&self, ino: INodeNo, handle: Option<FileHandle>) -> Result<fuser::FileAttr, Errno> {
        let stat = match handle.and_then(|h| self.table.opened(h.0).ok()) {
            Some(open) => rustix::fs::fstat(&open.file).map_err(errno)?,
            None => self
                .table
                .with(ino, |fd| rustix::fs::statat(fd, c"", AtFlags::EMPTY_PATH))?,
        };
        Ok(attributes(ino.0, &stat))
    }

    fn list(&self, ino: INodeNo) -> Result<Vec<InodeEntry>, Errno> {
        let dir = self.table.reopen(ino, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let entries = rustix::fs::Dir::read_from(&dir).map_err(errno)?;
        entries
            .map(|entry| {
                let entry = entry.map_err(errno)?;
                Ok(InodeEntry {
                    number: entry.ino(),
                    kind: kind(entry.file_type()),
                    name: entry.file_name().to_bytes().to_vec(),
                })
            })
            .collect()
    }

    fn resize(&self, ino: INodeNo, handle: Option<FileHandle>, size: u64) -> Result<(), Errno> {
        match handle {
            Some(handle) => self.table.opened(handle.0)?.file.set_len(size),
            None => self.table.reopen(ino, OFlags::WRONLY)?.set_len(size),
        }
        .map_err(Errno::from)
    }

    fn set_times(
        &self,
        ino: INodeNo,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
    ) -> Result<(), Errno> {
        let times = Timestamps {
            last_access: timespec(atime),
            last_modification: timespec(mtime),
        };
        self.table.with(ino, |fd| {
            self.table.through_proc(fd, |dir, name| {
                rustix::fs::utimensat(dir, name, &times, AtFlags::empty())
            })
        })
    }
}

fn reply_empty(outcome: Result<(), Errno>, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits & 0o7777)
}

impl Filesystem for Through {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_AUTO_INVAL_DATA;
        wanted &= config.capabilities();
        if self.options.writeback {
            wanted |= InitFlags::FUSE_WRITEBACK_CACHE;
        }
        if self.options.passthrough {
            wanted |= InitFlags::FUSE_PASSTHROUGH;
            // Two levels, so that the directory below may itself be on an overlay.
            let _ = config.set_max_stack_depth(2);
        }
        config.add_capabilities(wanted).map_err(|lacking| {
            let text = format!("the kernel's FUSE cannot do {lacking:?}");
            io::Error::new(io::ErrorKind::Unsupported, text)
        })?;
        let _ = config.set_max_write(LARGEST);
        let mut agreed = self.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        *agreed = Agreed {
            abi: config.kernel_abi().to_string(),
            passthrough: self.options.passthrough,
            writeback: self.options.writeback,
        };
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.pause("lookup");
        self.reply_entry(self.table.lookup(parent, name), reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        self.table.forget(ino, times);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        self.pause("getattr");
        match self.stat(ino, handle) {
            Ok(attr) => reply.attr(&self.ttl, &attr),
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
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.pause("setattr");
        let change = || {
            if let Some(bits) = bits {
                self.table.with(ino, |fd| {
                    self.table.through_proc(fd, |dir, name| {
                        rustix::fs::chmodat(dir, name, mode(bits), AtFlags::empty())
                    })
                })?;
            }
            if uid.is_some() || gid.is_some() {
                let uid = uid.map(rustix::fs::Uid::from_raw);
                let gid = gid.map(rustix::fs::Gid::from_raw);
                self.table.with(ino, |fd| {
                    rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH)
                })?;
            }
            if let Some(size) = size {
                self.resize(ino, handle, size)?;
            }
            if atime.is_some() || mtime.is_some() {
                self.set_times(ino, atime, mtime)?;
            }
            self.stat(ino, handle)
        };
        match change() {
            Ok(attr) => reply.attr(&self.ttl, &attr),
            Err(e) => reply.error(e),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        self.pause("readlink");
        match self
            .table
            .with(ino, |fd| rustix::fs::readlinkat(fd, c"", Vec::new()))
        {
            Ok(target) => reply.data(target.to_bytes()),
            Err(e) => reply.error(e),
        }
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        bits: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        self.pause("mknod");
        let kind = rustix::fs::FileType::from_raw_mode(bits);
        let made = self.table.with(parent, |dir| {
            rustix::fs::mknodat(dir, name, kind, mode(bits), u64::from(device))
        });
        self.reply_entry(made.and_then(|()| self.table.lookup(parent, name)), reply);
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
        self.pause("mkdir");
        let made = self
            .table
            .with(parent, |dir| rustix::fs::mkdirat(dir, name, mode(bits)));
        self.reply_entry(made.and_then(|()| self.table.lookup(parent, name)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.pause("unlink");
        let done = self.table.with(parent, |dir| {
            rustix::fs::unlinkat(dir, name, AtFlags::empty())
        });
        reply_empty(done, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.pause("rmdir");
        let done = self.table.with(parent, |dir| {
            rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
        });
        reply_empty(done, reply);
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.pause("symlink");
        let made = self
            .table
            .with(parent, |dir| rustix::fs::symlinkat(target, dir, name));
        self.reply_entry(made.and_then(|()| self.table.lookup(parent, name)), reply);
    }

    fn rename(
        &self,
        _: &Request,
        from: INodeNo,
        old: &OsStr,
        to: INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.pause("rename");
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let done = self.table.with_both(from, to, |from, to| {
            rustix::fs::renameat_with(from, old, to, new, flags)
        });
        reply_empty(done, reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.pause("link");
        let made = self.table.with_both(ino, parent, |file, dir| {
            self.table.through_proc(file, |fds, number| {
                rustix::fs::linkat(fds, number, dir, name, AtFlags::SYMLINK_FOLLOW)
            })
        });
        self.reply_entry(made.and_then(|()| self.table.lookup(parent, name)), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.pause("open");
        let open = || {
            let file = self.table.reopen(ino, self.below(flags.0))?;
            let direct = self.direct_twin(ino, flags.0)?;
            let backing = if self.options.passthrough {
                Some(self.table.backing(ino, || reply.open_backing(&file))?)
            } else {
                None
            };
            Ok((file, direct, backing))
        };
        match open() {
            Err(e) => reply.error(e),
            Ok((file, direct, backing)) => {
                let handle = FileHandle(self.table.add_open(Open {
                    file,
                    direct,
                    flushed: AtomicBool::new(false),
                    _backing: backing.clone(),
                }));
                match backing {
                    None => reply.opened(handle, self.reply_flags()),
                    Some(id) => reply.opened_passthrough(handle, self.reply_flags(), &id),
                }
            }
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        bits: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.pause("create");
        let create = || {
            let exclusive = OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::EXCL;
            let below = self.below(flags) | exclusive | OFlags::CREATE | OFlags::NOFOLLOW;
            let file = self.table.with(parent, |dir| {
                rustix::fs::openat(dir, name, below, mode(bits))
            })?;
            let file = File::from(file);
            let attr = self.table.lookup(parent, name)?;
            let direct = self.direct_twin(attr.ino, flags)?;
            let backing = if self.options.passthrough {
                Some(self.table.backing(attr.ino, || reply.open_backing(&file))?)
            } else {
                None
            };
            Ok((attr, file, direct, backing))
        };
        match create() {
            Err(e) => reply.error(e),
            Ok((attr, file, direct, backing)) => {
                let handle = FileHandle(self.table.add_open(Open {
                    file,
                    direct,
                    flushed: AtomicBool::new(false),
                    _backing: backing.clone(),
                }));
                let (ttl, flags, generation) = (&self.ttl, self.reply_flags(), Generation(0));
                match backing {
                    None => reply.created(ttl, &attr, generation, handle, flags),
                    Some(id) => {
                        reply.created_passthrough(ttl, &attr, generation, handle, flags, &id);
                    }
                }
            }
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
        self.pause("read");
        let open = match self.table.opened(handle.0) {
            Ok(open) => open,
            Err(e) => return reply.error(e),
        };
        let file = open.direct.as_ref().unwrap_or(&open.file);
        with_buffer(size as usize, |buffer| {
            let mut filled = 0;
            // The kernel takes a short read as the end of the file.
            while filled < buffer.len() {
                match file.read_at(&mut buffer[filled..], offset + filled as u64) {
                    Ok(0) => break,
                    Ok(got) => filled += got,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    // After a partial read, `O_DIRECT` may refuse the rest because it is not
                    // aligned.
                    Err(_) if filled > 0 => break,
                    Err(e) => return reply.error(e.into()),
                }
                if open.direct.is_some() {
                    break;
                }
            }
            reply.data(&buffer[..filled]);
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.pause("write");
        let written = self.table.opened(handle.0).and_then(|open| {
            // Data from the kernel's write cache ends where the file ends, which need not be
            // aligned for `O_DIRECT`.
            let direct = open
                .direct
                .as_ref()
                .filter(|_| !flags.contains(WriteFlags::FUSE_WRITE_CACHE));
            match direct {
                None => open.file.write_at(data, offset),
                Some(file) => with_buffer(data.len(), |buffer| {
                    buffer.copy_from_slice(data);
                    file.write_at(buffer, offset)
                }),
            }
            .map_err(Errno::from)
        });
        match written {
            Ok(bytes) => reply.written(bytes as u32),
            Err(e) => reply.error(e),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.pause("flush");
        // Closing a duplicate makes the file system below report its errors at close.
        let closed = self.table.opened(handle.0).and_then(|open| {
            let twin = open.file.try_clone().map_err(Errno::from)?;
            drop(twin);
            Ok(())
        });
        reply_empty(closed, reply);
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
        self.pause("release");
        self.table.close(handle.0);
        reply.ok();
    }

    fn fsync(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.pause("fsync");
        let synced = self.table.opened(handle.0).and_then(|open| {
            let first = !open.flushed.swap(true, Ordering::Relaxed);
            Self::hold(self.options.stalls.of_flush(first));
            let without = self.without_flush(false);
            if let Some(answer) = without.or_else(|| self.leaves_for_later(&open.file)) {
                return answer;
            }
            if let Some(data) = &self.data {
                return data.flush(&open.file).map_err(Errno::from);
            }
            if data_only {
                open.file.sync_data()
            } else {
                open.file.sync_all()
            }
            .map_err(Errno::from)
        });
        reply_empty(synced, reply);
    }

    fn fsyncdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.pause("fsyncdir");
        if let Some(answer) = self.without_flush(true) {
            return reply_empty(answer, reply);
        }
        let dir = self.table.reopen(ino, OFlags::RDONLY | OFlags::DIRECTORY);
        let synced = dir.and_then(|dir| {
            if data_only {
                dir.sync_data()
            } else {
                dir.sync_all()
            }
            .map_err(Errno::from)
        });
        reply_empty(synced, reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.pause("opendir");
        match self.list(ino) {
            Ok(entries) => {
                let handle = FileHandle(self.table.add_dir(entries));
                reply.opened(handle, FopenFlags::empty());
            }
            Err(e) => reply.error(e),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.pause("readdir");
        match self.table.dir(handle.0) {
            Err(e) => reply.error(e),
            Ok(entries) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                for (index, entry) in entries.iter().enumerate().skip(start) {
                    let next = index as u64 + 1;
                    let name = OsStr::from_bytes(&entry.name);
                    if reply.add(INodeNo(entry.number), next, entry.kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.pause("releasedir");
        self.table.close_dir(handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.pause("statfs");
        match self
            .table
            .with(INodeNo::ROOT, |fd| rustix::fs::fstatvfs(fd))
        {
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
            Err(e) => reply.error(e),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        flags: i32,
        reply: ReplyEmpty,
    ) {
        self.pause("fallocate");
        let flags = FallocateFlags::from_bits_retain(flags.cast_unsigned());
        let done = self.table.opened(handle.0).and_then(|open| {
            rustix::fs::fallocate(&open.file, flags, offset, length).map_err(errno)
        });
        reply_empty(done, reply);
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.pause("lseek");
        let at = offset.max(0).cast_unsigned();
        let to = match whence {
            libc::SEEK_DATA => SeekFrom::Data(at),
            libc::SEEK_HOLE => SeekFrom::Hole(at),
            // The kernel implements the others itself.
            _ => return reply.error(Errno::EINVAL),
        };
        let found = self
            .table
            .opened(handle.0)
            .and_then(|open| rustix::fs::seek(&open.file, to).map_err(errno));
        match found {
            Ok(at) => reply.offset(at.cast_signed()),
            Err(e) => reply.error(e),
        }
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        from: FileHandle,
        mut from_at: u64,
        _: INodeNo,
        to: FileHandle,
        mut to_at: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.pause("copy_file_range");
        let mut copy = || {
            let (from, to) = (self.table.opened(from.0)?, self.table.opened(to.0)?);
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(1 << 30);
            let (from_at, to_at) = (Some(&mut from_at), Some(&mut to_at));
            rustix::fs::copy_file_range(&from.file, from_at, &to.file, to_at, length).map_err(errno)
        };
        match copy() {
            Ok(bytes) => reply.written(bytes as u32),
            Err(e) => reply.error(e),
        }
    }
}
