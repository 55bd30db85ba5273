//! The process that is the volatile disk: one file of a FUSE file system. Every write is logged and can be
//! read at once; only a flush puts it on stable storage.
#![allow(unsafe_code)]

use std::{
    ffi::OsString,
    fs::File,
    io::{self, BufRead, Write as _},
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, SystemTime},
};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyOpen,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::{
    mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount},
    thread::{UnshareFlags, unshare_unsafe},
};

use super::log::Writer;
use crate::{
    LayerError,
    fuse::{self, requests::with_buffer},
};

/// What the process says when it serves.
pub(super) const READY: &str = "ready";
/// Commands, one a line of its standard input, each answered by the same line.
pub(super) const CUT: &str = "cut";
pub(super) const FAIL_NEXT_FLUSH: &str = "fail-next-flush";

/// How long the kernel may keep the file's attributes, which never change.
const TTL: Duration = Duration::from_hours(24);
/// Requests that are served at a time.
const THREADS: usize = 4;

/// `EXE disk-serve CONTENT LOG MOUNTPOINT`: mounts the disk over the file `MOUNTPOINT` and serves it until
/// it is unmounted. `CONTENT` has what the disk holds, with all writes; `LOG` is a new file.
///
/// # Errors
///
/// The arguments are not these, or it cannot be mounted.
pub fn disk_serve(args: &[OsString]) -> Result<(), LayerError> {
    let [content, log, at] = args else {
        let text = "disk-serve CONTENT LOG MOUNTPOINT: it is started by layermark itself";
        let wrong = io::Error::new(io::ErrorKind::InvalidInput, text);
        return Err(super::failed(
            "read the arguments of",
            Path::new("disk-serve"),
        )(wrong));
    };
    let at = Path::new(at);
    serve(Path::new(content), Path::new(log), at).map_err(super::failed("serve", at))
}

fn serve(content: &Path, log: &Path, at: &Path) -> io::Result<()> {
    let content = File::options().read(true).write(true).open(content)?;
    let state = Arc::new(Mutex::new(State {
        log: Writer::new(File::create_new(log)?),
        off: false,
        fails: false,
    }));
    let disk = Disk {
        size: content.metadata()?.len(),
        content,
        state: state.clone(),
    };
    let device = fuse::mount(at, rustix::fs::FileType::RegularFile)?;
    leave_mounts()?;
    let mut config = fuser::Config::default();
    config.n_threads = Some(THREADS);
    // Not `clone_fd`: that opens /dev/fuse again, which cannot be seen any more.
    let session = fuser::Session::from_fd(disk, device, fuser::SessionACL::All, config)?;
    thread::Builder::new()
        .name("commands".into())
        .spawn(move || obey(&state))?;
    say(READY)?;
    fuse::run(session)
}

/// Leaves the mount namespace, which has file systems on this disk. The last process in it unmounts them
/// when it ends. If that were this process, they would wait for a disk that has ended.
fn leave_mounts() -> io::Result<()> {
    // SAFETY: this flag does not touch the table of file descriptors.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    // Nothing is kept busy by mounts that nobody sees.
    Ok(unmount("/", UnmountFlags::DETACH)?)
}

/// Does what each line of standard input says.
fn obey(state: &Mutex<State>) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        match line.as_str() {
            CUT => lock(state).off = true,
            FAIL_NEXT_FLUSH => lock(state).fails = true,
            _ => continue,
        }
        if say(&line).is_err() {
            return;
        }
    }
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// The one file.
#[derive(Debug)]
struct Disk {
    /// What a reader of the disk sees: all writes, flushed or not.
    content: File,
    /// Bytes.
    size: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    log: Writer,
    /// The power was cut: nothing reaches the disk any more.
    off: bool,
    /// The next flush fails.
    fails: bool,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    fn attributes(&self) -> FileAttr {
        FileAttr {
            ino: INodeNo::ROOT,
            size: self.size,
            blocks: self.size.div_ceil(512),
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind: FileType::RegularFile,
            perm: 0o600,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// Completes a write: in the log and in the content at one moment, so that both have writes of the
    /// same block in the same order.
    fn write_at(&self, data: &[u8], offset: u64, stable: bool) -> Result<(), Errno> {
        let fits = offset
            .checked_add(data.len() as u64)
            .is_some_and(|end| end <= self.size);
        if !fits {
            return Err(Errno::ENOSPC);
        }
        let mut state = lock(&self.state);
        if !state.off {
            state.log.write(offset, data, stable)?;
        }
        Ok(self.content.write_all_at(data, offset)?)
    }

    /// It is begun and ended at one moment: what completes later is not covered, and what was answered
    /// before the flush was sent is.
    fn flush_cache(&self) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        if state.off {
            return Ok(());
        }
        let (covers, failed) = (state.log.writes(), std::mem::take(&mut state.fails));
        state.log.flush(covers, failed)?;
        if failed { Err(Errno::EIO) } else { Ok(()) }
    }
}

impl Filesystem for Disk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Not FUSE_WRITEBACK_CACHE: every write has to arrive.
        let wanted = InitFlags::FUSE_ASYNC_DIO & config.capabilities();
        let _ = config.add_capabilities(wanted);
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn getattr(&self, _: &Request, _: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes());
    }

    /// Its times, owner and mode stay as they are, as those of a device's node mean nothing to the device.
    fn setattr(
        &self,
        _: &Request,
        _: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if size.is_some_and(|size| size != self.size) {
            return reply.error(Errno::EPERM);
        }
        reply.attr(&TTL, &self.attributes());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // The kernel keeps nothing of it: what is read is what the disk holds.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = self.size.saturating_sub(offset).min(u64::from(size));
        with_buffer(left as usize, |buffer| {
            match self.content.read_exact_at(buffer, offset) {
                Ok(()) => reply.data(buffer),
                Err(e) => reply.error(e.into()),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // O_SYNC has this bit too.
        let stable = flags.0 & libc::O_DSYNC != 0;
        match self.write_at(data, offset, stable) {
            Ok(()) => reply.written(data.len() as u32),
            Err(e) => reply.error(e),
        }
    }

    /// Sent by close(2), which flushes nothing.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.flush_cache() {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(e),
        }
    }
}
