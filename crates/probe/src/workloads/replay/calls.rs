//! One call of a recording, made in a tree. Nothing here allocates.

use std::{
    ffi::{CStr, CString},
    io::Write as _,
    num::NonZeroU64,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::{RwLock, RwLockReadGuard, atomic::AtomicU64},
};

use layermark_recording::{CallKind, FOLLOW};
use rustix::{
    fs::{
        self, Access, Advice, AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags,
        RawDir, RenameFlags, ResolveFlags, SeekFrom, StatxFlags, Timespec, Timestamps, UTIME_NOW,
        XattrFlags,
    },
    io::{self, Errno},
};

use crate::buffer::Buffer;

use super::{
    mappings::Mappings,
    sys,
    trace::{ReadyCall, Trace},
};

/// What calls act on: a tree, and files that are open in it.
pub struct Site {
    pub root: OwnedFd,
    files: Vec<RwLock<Option<OwnedFd>>>,
    pub(super) mappings: Mappings,
    /// Data that is written.
    data: Buffer,
    /// Bytes that were copied in place of clones.
    pub copied: AtomicU64,
    /// Whether openat2(2) may be used here. It never leaves the directory, whatever somebody puts into it.
    openat2: bool,
}

/// Memory of one task.
pub struct Buffers {
    /// What is read.
    pub bytes: Buffer,
    /// Entries of directories; always empty, with room.
    pub entries: Vec<u8>,
}

/// Names never leave the directory, and links to open files of other processes are not followed.
const WITHIN: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

impl Site {
    pub fn new(root: OwnedFd, trace: &Trace, data: Buffer) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Sandboxes refuse it, with ENOSYS or EPERM.
        let openat2 = fs::openat2(&root, c".", flags, Mode::empty(), WITHIN).is_ok();
        let mut files = Vec::new();
        files.resize_with(trace.files, || RwLock::new(None));
        Self {
            root,
            files,
            mappings: Mappings::new(trace),
            data,
            copied: AtomicU64::new(0),
            openat2,
        }
    }

    /// Makes a call. Returns what it moved or 0, or its error number below 0.
    pub fn call(&self, ready: &ReadyCall, trace: &Trace, buffers: &mut Buffers) -> i64 {
        match self.run(ready, trace, buffers) {
            Ok(moved) => moved,
            Err(e) => -i64::from(e.raw_os_error()),
        }
    }

    /// An open file. Calls of one file are ordered, so the lock is free; a recording in which they are not gets an error
    /// and never another file.
    pub fn file(&self, number: Option<u32>) -> Result<Opened<'_>, Errno> {
        let file = number.and_then(|number| self.files.get(number as usize));
        let guard = file
            .ok_or(Errno::BADF)?
            .try_read()
            .map_err(|_| Errno::BADF)?;
        if guard.is_some() {
            Ok(Opened(guard))
        } else {
            Err(Errno::BADF)
        }
    }

    /// The directory that a name is relative to.
    fn dir(&self, number: Option<u32>) -> Result<Directory<'_>, Errno> {
        match number {
            None => Ok(Directory::Root(self.root.as_fd())),
            Some(_) => Ok(Directory::Opened(self.file(number)?)),
        }
    }

    fn open(&self, ready: &ReadyCall, name: &CStr) -> Result<(), Errno> {
        let call = &ready.call;
        let mode = Mode::from_raw_mode(call.b as u32);
        let opened = {
            let dir = self.dir(call.dir)?;
            self.open_at(dir.as_fd(), name, ready.flags, mode)?
        };
        let place = call.file.and_then(|number| self.files.get(number as usize));
        *place
            .ok_or(Errno::BADF)?
            .try_write()
            .map_err(|_| Errno::BADF)? = Some(opened);
        Ok(())
    }

    fn open_at(
        &self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        if self.openat2 {
            fs::openat2(dir, name, flags, mode, WITHIN)
        } else {
            fs::openat(dir, name, flags, mode)
        }
    }

    fn close(&self, number: Option<u32>) -> Result<(), Errno> {
        let file = number.and_then(|number| self.files.get(number as usize));
        let mut guard = file
            .ok_or(Errno::BADF)?
            .try_write()
            .map_err(|_| Errno::BADF)?;
        drop(guard.take().ok_or(Errno::BADF)?);
        Ok(())
    }

    #[allow(clippy::too_many_lines)] // a line or two for each call
    fn run(&self, ready: &ReadyCall, trace: &Trace, buffers: &mut Buffers) -> Result<i64, Errno> {
        use CallKind as K;
        let call = &ready.call;
        let (a, b) = (call.a, call.b);
        let bytes = a.max(0) as usize;
        let name = |number: Option<u32>| {
            number.map_or(c".", |number| trace.names[number as usize].as_c_str())
        };
        let (path, second) = (name(call.path), name(call.path2));
        let whole = ready.whole.as_deref().unwrap_or(c"");
        let dir = || self.dir(call.dir);
        let file = || self.file(call.file);
        let at_flags = || AtFlags::from_bits_retain(a as u32);
        let now = || {
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_NOW,
            };
            Timestamps {
                last_access: now,
                last_modification: now,
            }
        };
        match call.kind {
            K::Open => self.open(ready, path)?,
            K::Close => self.close(call.file)?,
            K::Read => return moved(io::read(file()?, &mut buffers.bytes.bytes_mut()[..bytes])),
            K::Pread => {
                return moved(io::pread(
                    file()?,
                    &mut buffers.bytes.bytes_mut()[..bytes],
                    b as u64,
                ));
            }
            K::Write => return moved(io::write(file()?, &self.data.bytes()[..bytes])),
            K::Pwrite => return moved(io::pwrite(file()?, &self.data.bytes()[..bytes], b as u64)),
            K::Seek => drop(fs::seek(file()?, seek(a, b)?)?),
            K::Stat => drop(fs::statat(dir()?, path, AtFlags::empty())?),
            K::Lstat => drop(fs::statat(dir()?, path, AtFlags::SYMLINK_NOFOLLOW)?),
            K::Statx => {
                let mask = StatxFlags::from_bits_retain(b as u32);
                if call.path.is_some() {
                    fs::statx(dir()?, path, at_flags(), mask)?;
                } else {
                    fs::statx(file()?, c"", at_flags() | AtFlags::EMPTY_PATH, mask)?;
                }
            }
            K::Fstat => drop(fs::fstat(file()?)?),
            K::Access => fs::accessat(
                dir()?,
                path,
                Access::from_bits_truncate(a as u32),
                AtFlags::empty(),
            )?,
            K::Readlink => drop(fs::readlinkat_raw(dir()?, path, &mut [0u8; 4096][..])?),
            K::List => {
                let room = buffers.entries.spare_capacity_mut();
                let size = bytes.min(room.len());
                let mut all = RawDir::new(file()?, &mut room[..size]);
                while let Some(entry) = all.next() {
                    entry?;
                }
            }
            K::Mkdir => fs::mkdirat(dir()?, path, Mode::from_raw_mode(a as u32))?,
            K::Mknod => {
                let mode = Mode::from_raw_mode(a as u32);
                fs::mknodat(dir()?, path, FileType::Socket, mode, 0)?;
            }
            K::Unlink => fs::unlinkat(dir()?, path, AtFlags::empty())?,
            K::Rmdir => fs::unlinkat(dir()?, path, AtFlags::REMOVEDIR)?,
            K::Rename => {
                let to = self.dir(call.dir2)?;
                if a == 0 {
                    fs::renameat(dir()?, path, to, second)?;
                } else {
                    fs::renameat_with(
                        dir()?,
                        path,
                        to,
                        second,
                        RenameFlags::from_bits_retain(a as u32),
                    )?;
                }
            }
            K::Link => {
                let flags = if a == FOLLOW {
                    AtFlags::SYMLINK_FOLLOW
                } else {
                    AtFlags::empty()
                };
                fs::linkat(dir()?, path, self.dir(call.dir2)?, second, flags)?;
            }
            K::LinkFile => {
                let opened = file()?;
                let mut text = [0; DESCRIPTOR];
                let source = path_of(opened.as_fd(), &mut text)?;
                fs::linkat(fs::CWD, source, dir()?, path, AtFlags::SYMLINK_FOLLOW)?;
            }
            K::Symlink => fs::symlinkat(second, dir()?, path)?,
            K::Chmod => fs::chmodat(
                dir()?,
                path,
                Mode::from_raw_mode(a as u32),
                AtFlags::empty(),
            )?,
            K::Fchmod => fs::fchmod(file()?, Mode::from_raw_mode(a as u32))?,
            K::Chown => fs::chownat(dir()?, path, None, None, at_flags())?,
            K::Fchown => fs::fchown(file()?, None, None)?,
            K::Utimens => fs::utimensat(dir()?, path, &now(), at_flags())?,
            K::Futimens => fs::futimens(file()?, &now())?,
            K::Truncate => {
                // The name is looked up, and the file not opened: its file system is not asked to.
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                let found = self.open_at(dir()?.as_fd(), path, flags, Mode::empty())?;
                let mut text = [0; DESCRIPTOR];
                sys::truncate(path_of(found.as_fd(), &mut text)?, a)?;
            }
            K::Ftruncate => fs::ftruncate(file()?, a as u64)?,
            K::Fallocate => {
                let mode = FallocateFlags::from_bits_retain(a as u32);
                fs::fallocate(file()?, mode, b as u64, call.c as u64)?;
            }
            K::Fsync => fs::fsync(file()?)?,
            K::Fdatasync => fs::fdatasync(file()?)?,
            K::SyncRange => sys::sync_range(file()?.as_fd(), a, b, call.c as u32)?,
            K::CopyRange => {
                let (mut from, mut to) = (b as u64, call.c as u64);
                let from = (b >= 0).then_some(&mut from);
                let to = (call.c >= 0).then_some(&mut to);
                return moved(fs::copy_file_range(
                    file()?,
                    from,
                    self.file(call.file2)?,
                    to,
                    bytes,
                ));
            }
            K::SendFile => {
                let mut from = b as u64;
                let from = (b >= 0).then_some(&mut from);
                return moved(fs::sendfile(self.file(call.file2)?, file()?, from, bytes));
            }
            K::Clone => fs::ioctl_ficlone(self.file(call.file2)?, file()?)?,
            K::Lock => sys::lock(file()?.as_fd(), a, b, call.c)?,
            K::Flock => fs::flock(file()?, flock(a)?)?,
            K::Statfs => {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                fs::fstatfs(self.open_at(dir()?.as_fd(), path, flags, Mode::empty())?)?;
            }
            K::Fstatfs => drop(fs::fstatfs(file()?)?),
            K::Getxattr if bytes == 0 => drop(fs::getxattr_query(whole, second)?),
            K::Getxattr => drop(fs::getxattr(
                whole,
                second,
                &mut buffers.bytes.bytes_mut()[..bytes],
            )?),
            K::Lgetxattr if bytes == 0 => drop(fs::lgetxattr_query(whole, second)?),
            K::Lgetxattr => drop(fs::lgetxattr(
                whole,
                second,
                &mut buffers.bytes.bytes_mut()[..bytes],
            )?),
            K::Fgetxattr if bytes == 0 => drop(fs::fgetxattr_query(file()?, second)?),
            K::Fgetxattr => drop(fs::fgetxattr(
                file()?,
                second,
                &mut buffers.bytes.bytes_mut()[..bytes],
            )?),
            K::Setxattr => {
                fs::setxattr(whole, second, &self.data.bytes()[..bytes], xattr_flags(b))?;
            }
            K::Lsetxattr => {
                fs::lsetxattr(whole, second, &self.data.bytes()[..bytes], xattr_flags(b))?;
            }
            K::Fsetxattr => {
                fs::fsetxattr(file()?, second, &self.data.bytes()[..bytes], xattr_flags(b))?;
            }
            K::Listxattr if bytes == 0 => drop(fs::listxattr_query(whole)?),
            K::Listxattr => drop(fs::listxattr(
                whole,
                &mut buffers.bytes.bytes_mut()[..bytes],
            )?),
            K::Llistxattr if bytes == 0 => drop(fs::llistxattr_query(whole)?),
            K::Llistxattr => drop(fs::llistxattr(
                whole,
                &mut buffers.bytes.bytes_mut()[..bytes],
            )?),
            K::Flistxattr if bytes == 0 => drop(fs::flistxattr_query(file()?)?),
            K::Flistxattr => drop(fs::flistxattr(
                file()?,
                &mut buffers.bytes.bytes_mut()[..bytes],
            )?),
            K::Removexattr => fs::removexattr(whole, second)?,
            K::Lremovexattr => fs::lremovexattr(whole, second)?,
            K::Fremovexattr => fs::fremovexattr(file()?, second)?,
            K::IsTerminal => sys::is_terminal(file()?.as_fd())?,
            K::Map => self.mappings.map(call, file()?.as_fd())?,
            K::Touch => self.mappings.touch(call)?,
            K::Unmap => self.mappings.unmap(call)?,
            K::Fadvise => fs::fadvise(
                file()?,
                a as u64,
                NonZeroU64::new(b as u64),
                advice(call.c)?,
            )?,
        }
        Ok(0)
    }

    /// Whether files are opened by openat2(2).
    #[cfg(test)]
    pub fn has_openat2(&self) -> bool {
        self.openat2
    }

    /// Closes everything, and returns the data that was written.
    pub fn into_data(self) -> Buffer {
        self.data
    }

    /// Path of a name below the tree, for calls that take no descriptor.
    pub fn whole(&self, name: &CStr) -> Option<CString> {
        let root = format!("/proc/self/fd/{}/", self.root.as_raw_fd());
        CString::new([root.as_bytes(), name.to_bytes()].concat()).ok()
    }
}

/// An open file, while a call uses it.
pub struct Opened<'a>(RwLockReadGuard<'a, Option<OwnedFd>>);

impl AsFd for Opened<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().map_or(fs::CWD, AsFd::as_fd)
    }
}

enum Directory<'a> {
    Root(BorrowedFd<'a>),
    Opened(Opened<'a>),
}

impl AsFd for Directory<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => *root,
            Self::Opened(opened) => opened.as_fd(),
        }
    }
}

/// Bytes of the path of a descriptor: the longest number fits.
const DESCRIPTOR: usize = 32;

/// The path of an open file, for calls that take no descriptor.
fn path_of<'a>(file: BorrowedFd<'_>, text: &'a mut [u8; DESCRIPTOR]) -> Result<&'a CStr, Errno> {
    let _ = write!(&mut text[..], "/proc/self/fd/{}", file.as_raw_fd());
    CStr::from_bytes_until_nul(text).map_err(|_| Errno::INVAL)
}

fn moved(bytes: Result<usize, Errno>) -> Result<i64, Errno> {
    bytes.map(|bytes| bytes.cast_signed() as i64)
}

fn seek(to: i64, from: i64) -> Result<SeekFrom, Errno> {
    let start = u64::try_from(to).map_err(|_| Errno::INVAL);
    Ok(match from {
        0 => SeekFrom::Start(start?),
        1 => SeekFrom::Current(to),
        2 => SeekFrom::End(to),
        3 => SeekFrom::Data(start?),
        4 => SeekFrom::Hole(start?),
        _ => return Err(Errno::INVAL),
    })
}

fn flock(operation: i64) -> Result<FlockOperation, Errno> {
    Ok(match operation & 0xb {
        1 => FlockOperation::NonBlockingLockShared,
        2 => FlockOperation::NonBlockingLockExclusive,
        8 => FlockOperation::NonBlockingUnlock,
        _ => return Err(Errno::INVAL),
    })
}

fn xattr_flags(flags: i64) -> XattrFlags {
    XattrFlags::from_bits_truncate(flags as u32)
}

fn advice(number: i64) -> Result<Advice, Errno> {
    Ok(match number {
        0 => Advice::Normal,
        1 => Advice::Random,
        2 => Advice::Sequential,
        3 => Advice::WillNeed,
        4 => Advice::DontNeed,
        5 => Advice::NoReuse,
        _ => return Err(Errno::INVAL),
    })
}
