//! Copies trees of files. Copies keep the times of files and directories, because programs use them
//! to decide whether a compiled or cached file (`.pyc`, fontconfig) is still valid.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, File, FileType},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{FileExt, MetadataExt, PermissionsExt},
        },
    },
    path::{Path, PathBuf},
    time::SystemTime,
};

use layermark_fd::dated;
use layermark_model::{PACKAGED_AT_ONCE, random_name};
use rustix::{
    fs::{
        AtFlags, CWD, Dir, Mode, OFlags, linkat, mkdirat, openat, readlinkat, renameat, symlinkat,
    },
    io::Errno,
};

use crate::{fd, held::apart, removal};

/// Bytes compared at once.
const BLOCK: usize = 1 << 20;

/// Copies `from` and everything below it to `to`, which need not exist. Data is read and written,
/// because the first write to each block of a reflink would be slower than to a file that was
/// written.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    put_all(from, to, copy_file)
}

/// Like [`copy`], with hard links where the file system has them. For files that are only read.
pub(crate) fn link(from: &Path, to: &Path) -> io::Result<()> {
    put_all(from, to, |source, to, name| {
        linkat(CWD, source, to, name, AtFlags::empty()).or_else(|_| copy_file(source, to, name))
    })
}

/// A function that puts the file at a path into a directory, under this name.
type PutFile = fn(&Path, BorrowedFd<'_>, &OsStr) -> io::Result<()>;

/// Fills the directory `to`, which need not exist. It may be on a server that stops answering, so its files are open
/// [`apart`], all in one thread: a thread for each takes longer than a small file.
fn put_all(from: &Path, to: &Path, file: PutFile) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let dir = fd::open_dir(CWD, to)?;
    apart(Some(dir.as_fd()), || put(from, dir.as_fd(), file))
}

/// Fills the directory `to` with the content of `from`. It works by descriptor: see
/// [`crate::removal`].
fn put(from: &Path, to: BorrowedFd<'_>, file: PutFile) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            put(&source, make_dir(to, &name)?.as_fd(), file)?;
        } else if kind.is_symlink() {
            symlinkat(fs::read_link(&source)?, to, &name)?;
        } else {
            file(&source, to, &name)?;
        }
    }
    keep_time(from, to)
}

fn make_dir(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    match mkdirat(at, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => Ok(fd::open_dir(at, name)?),
        Err(e) => Err(e.into()),
    }
}

/// Gives a directory the modification time of another.
fn keep_time(from: &Path, to: BorrowedFd<'_>) -> io::Result<()> {
    let (to, time) = (
        File::from(to.try_clone_to_owned()?),
        from.metadata()?.modified()?,
    );
    if to.metadata()?.modified()? == time {
        return Ok(());
    }
    dated(&to, time)
}

/// Sets the modification time of a file or directory, if it differs.
pub(crate) fn set_time(path: &Path, time: SystemTime) -> io::Result<()> {
    if path.metadata()?.modified()? == time {
        return Ok(());
    }
    dated(&File::open(path)?, time)
}

fn copy_file(from: &Path, to: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let mut source = File::open(from)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut target = File::from(openat(to, name, flags, Mode::from_raw_mode(0o666))?);
    let mut block = vec![0; PACKAGED_AT_ONCE];
    loop {
        let got = source.read(&mut block)?;
        if got == 0 {
            break;
        }
        target.write_all(&block[..got])?;
    }
    // Done last, because writing back must not change the time.
    dated(&target, source.metadata()?.modified()?)?;
    // A program must stay executable. Where a file system has no permissions, the bytes are enough.
    let mode = source.metadata()?.permissions();
    if mode.mode() & 0o111 != 0 {
        let _ = target.set_permissions(mode);
    }
    Ok(())
}

/// Sizes and times of files. A file with the same size and time has not been written to.
pub(crate) type Seen = HashMap<PathBuf, (u64, SystemTime)>;

/// Records all files in and below `dir`.
pub(crate) fn see(dir: &Path) -> io::Result<Seen> {
    let mut seen = Seen::new();
    files(dir, &mut |path| see_file(path, &mut seen))?;
    Ok(seen)
}

fn see_file(path: &Path, seen: &mut Seen) -> io::Result<()> {
    let meta = path.symlink_metadata()?;
    seen.insert(path.into(), (meta.len(), meta.modified()?));
    Ok(())
}

/// Makes what has these names in `to` equal to `from` again, or all of it without names, writing only what differs:
/// equal files keep their place on the disk. Files unchanged since `seen` are not even read.
pub(crate) fn restore(from: &Path, to: &Path, names: &[String], seen: &Seen) -> io::Result<()> {
    restore_served(from, to, to, names, seen)
}

/// The same where `to` shows files of `below`, of whose times it may not show all digits. `seen` is of `below`.
pub(crate) fn restore_served(
    from: &Path,
    to: &Path,
    below: &Path,
    names: &[String],
    seen: &Seen,
) -> io::Result<()> {
    let Ok(dir) = fd::open_dir(CWD, to) else {
        removal::remove(to)?;
        return copy(from, to);
    };
    apart(Some(dir.as_fd()), || {
        let dir = dir.as_fd();
        if names.is_empty() {
            return restore_dir(from, dir, below, seen);
        }
        for name in names {
            let kind = from.join(name).symlink_metadata()?.file_type();
            restore_entry((from, kind), dir, below, name.as_ref(), seen)?;
        }
        keep_time(from, dir)
    })
}

/// Records what has these names in `dir`, or all of it without names, in place of what was seen of it before.
pub(crate) fn see_again(dir: &Path, names: &[String], seen: &mut Seen) -> io::Result<()> {
    if names.is_empty() {
        *seen = see(dir)?;
        return Ok(());
    }
    let roots: Vec<PathBuf> = names.iter().map(|name| dir.join(name)).collect();
    seen.retain(|path, _| !roots.iter().any(|root| path.starts_with(root)));
    for root in roots {
        if root.symlink_metadata()?.is_dir() {
            seen.extend(see(&root)?);
        } else {
            see_file(&root, seen)?;
        }
    }
    Ok(())
}

/// [`restore`] by descriptor: a launched program may run as another user, and put links there.
fn restore_dir(from: &Path, to: BorrowedFd<'_>, path: &Path, seen: &Seen) -> io::Result<()> {
    for entry in Dir::read_from(to)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." && from.join(name).symlink_metadata().is_err() {
            removal::remove_at(to, name)?;
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        restore_entry(
            (from, entry.file_type()?),
            to,
            path,
            &entry.file_name(),
            seen,
        )?;
    }
    keep_time(from, to)
}

/// Restores what has this name in the directory `to` at `path`, which in `from` is of this kind.
fn restore_entry(
    (from, kind): (&Path, FileType),
    to: BorrowedFd<'_>,
    path: &Path,
    name: &OsStr,
    seen: &Seen,
) -> io::Result<()> {
    let (source, target) = (from.join(name), path.join(name));
    if kind.is_dir() {
        if let Ok(dir) = fd::open_dir(to, name) {
            return restore_dir(&source, dir.as_fd(), &target, seen);
        }
        removal::remove_at(to, name)?;
        put(&source, make_dir(to, name)?.as_fd(), copy_file)
    } else if kind.is_symlink() {
        restore_link(&source, to, name)
    } else if untouched(&target, seen) {
        Ok(())
    } else {
        restore_file(&source, to, name)
    }
}

/// Where a file system has no links and shows what one below it leads to, that is left as it is.
fn restore_link(from: &Path, to: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let wanted = fs::read_link(from)?;
    let there = readlinkat(to, name, Vec::new());
    let shows_its_file = there == Err(Errno::INVAL);
    if there.is_ok_and(|there| there.as_bytes() == wanted.as_os_str().as_bytes()) {
        return Ok(());
    }
    // Tried first, so that nothing is removed that cannot be replaced.
    let trial = random_name("layermark-");
    match symlinkat(&wanted, to, &trial) {
        // rclone says EIO.
        Err(Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP | Errno::IO) if shows_its_file => {
            return Ok(());
        }
        made => made?,
    }
    removal::remove_at(to, name)?;
    Ok(renameat(to, &trial, to, name)?)
}

fn untouched(path: &Path, seen: &Seen) -> bool {
    let now = path
        .symlink_metadata()
        .and_then(|m| Ok((m.len(), m.modified()?)));
    match (now, seen.get(path)) {
        (Ok(now), Some(then)) => now == *then,
        _ => false,
    }
}

fn restore_file(from: &Path, to: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    if restore_data(from, to, name)? {
        return Ok(());
    }
    removal::remove_at(to, name)?;
    copy_file(from, to, name)
}

/// Whether there is a regular file that could be given the data.
fn restore_data(from: &Path, to: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
    // Does not wait for the other end of a FIFO.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let there = openat(to, name, flags, Mode::empty()).map(File::from);
    // A file with another name may be outside the tree as well.
    let own = |m: fs::Metadata| m.is_file() && m.nlink() == 1;
    let target = match there {
        Ok(file) if file.metadata().is_ok_and(own) => file,
        _ => return Ok(false),
    };
    let source = File::open(from)?;
    let size = source.metadata()?.len();
    if target.metadata()?.len() != size {
        target.set_len(size)?;
    }
    let (mut want, mut have) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut at = 0;
    while at < size {
        let length = BLOCK.min(usize::try_from(size - at).unwrap_or(BLOCK));
        source.read_exact_at(&mut want[..length], at)?;
        target.read_exact_at(&mut have[..length], at)?;
        if want[..length] != have[..length] {
            target.write_all_at(&want[..length], at)?;
        }
        at += length as u64;
    }
    dated(&target, source.metadata()?.modified()?)?;
    Ok(true)
}

/// Bytes of all files in and below `dir`.
pub(crate) fn size(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    files(dir, &mut |path| {
        bytes += path.symlink_metadata()?.len();
        Ok(())
    })?;
    Ok(bytes)
}

/// Calls `each` with every regular file in and below `dir`.
pub(crate) fn files(dir: &Path, each: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    all(dir, &mut |path, kind| {
        if kind.is_file() { each(path) } else { Ok(()) }
    })
}

/// Calls `each` with everything below `dir`, a directory before its content.
pub(crate) fn all(
    dir: &Path,
    each: &mut dyn FnMut(&Path, FileType) -> io::Result<()>,
) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        each(&entry.path(), kind)?;
        if kind.is_dir() {
            all(&entry.path(), each)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, os::unix::fs::symlink, time::Duration};

    use super::*;
    use crate::removal::remove;

    fn only_what_is_named_is_restored(from: &Path, to: &Path) {
        let mut seen = see(to).unwrap();
        let write = |name| fs::write(to.join(name), b"changed").unwrap();
        let is_restored =
            |name: &str| fs::read(to.join(name)).unwrap() == fs::read(from.join(name)).unwrap();
        write("small");
        write("sub/big");
        restore(from, to, &["sub".into()], &seen).unwrap();
        assert_eq!(["small", "sub/big"].map(is_restored), [false, true]);
        see_again(to, &["sub".into()], &mut seen).unwrap();
        restore(from, to, &["small".into()], &seen).unwrap();
        assert!(is_restored("small"));
        see_again(to, &["small".into()], &mut seen).unwrap();
        assert_eq!(seen, see(to).unwrap());
    }

    #[test]
    fn copies_restores_and_removes() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir_all(from.join("sub")).unwrap();
        let data: Vec<u8> = (0..3 * BLOCK + 17).map(|n| (n % 251) as u8).collect();
        fs::write(from.join("sub/big"), &data).unwrap();
        fs::write(from.join("small"), b"x").unwrap();
        symlink("sub/nowhere", from.join("link")).unwrap();
        fs::set_permissions(from.join("small"), fs::Permissions::from_mode(0o755)).unwrap();
        let then = |n| SystemTime::UNIX_EPOCH + Duration::from_secs(n);
        let times = [("small", 1), ("sub/big", 2), ("sub", 3), ("", 4)];
        for (name, n) in times {
            set_time(&from.join(name), then(n)).unwrap();
        }
        let kept = |dir: &Path| {
            for (name, n) in times {
                let time = dir.join(name).metadata().unwrap().modified().unwrap();
                assert_eq!(time, then(n), "{name}");
            }
        };
        copy(&from, &to).unwrap();
        kept(&to);
        let linked = home.path().join("linked");
        link(&from, &linked).unwrap();
        kept(&linked);
        assert_eq!(size(&to).unwrap(), data.len() as u64 + 1);

        let seen = see(&to).unwrap();
        let big = OpenOptions::new()
            .write(true)
            .open(to.join("sub/big"))
            .unwrap();
        big.write_all_at(b"changed", 2 << 20).unwrap();
        big.set_len(2_500_000).unwrap();
        fs::write(to.join("extra"), b"y").unwrap();
        fs::remove_file(to.join("small")).unwrap();
        fs::remove_file(to.join("link")).unwrap();
        restore(&from, &to, &[], &seen).unwrap();
        kept(&to);
        assert_eq!(fs::read(to.join("sub/big")).unwrap(), data);
        assert_eq!(fs::read(to.join("small")).unwrap(), b"x");
        assert!(!to.join("extra").exists());
        assert_eq!(
            fs::read_link(to.join("link")).unwrap(),
            Path::new("sub/nowhere")
        );
        let mode = to.join("small").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111);

        only_what_is_named_is_restored(&from, &to);
        let hidden = to.join("sub/deep");
        fs::create_dir(&hidden).unwrap();
        fs::write(hidden.join("f"), b"z").unwrap();
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o000)).unwrap();
        remove(&to).unwrap();
        assert!(!to.exists());
        remove(&to).unwrap();
    }
}
