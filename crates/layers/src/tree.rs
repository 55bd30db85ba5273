//! Copying and removing trees of files. Copies keep the times of files and directories: programs
//! tell by them whether what they have compiled or cached (`.pyc`, fontconfig) is still right.

use std::{
    collections::HashMap,
    fs::{self, File, FileType, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::mounts;

const BLOCK: usize = 1 << 20;

/// Copies `from` and all below it to `to`, which need not exist. Data is read and written: a
/// reflink would make the first write of every block dearer than in a file that was written.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    put(from, to, copy_file)
}

/// Like [`copy`] with hard links where the file system has them: for what is only read.
pub(crate) fn link(from: &Path, to: &Path) -> io::Result<()> {
    put(from, to, |source, target| {
        fs::hard_link(source, target).or_else(|_| copy_file(source, target))
    })
}

fn put(from: &Path, to: &Path, file: fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            put(&source, &target, file)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
        } else {
            file(&source, &target)?;
        }
    }
    keep_time(from, to)
}

/// Gives a file or directory the modification time of another.
fn keep_time(from: &Path, to: &Path) -> io::Result<()> {
    set_time(to, from.metadata()?.modified()?)
}

/// Sets the modification time of a file or directory, if it has not got it.
pub(crate) fn set_time(path: &Path, time: SystemTime) -> io::Result<()> {
    if path.metadata()?.modified()? == time {
        return Ok(());
    }
    dated(&File::open(path)?, time)
}

/// Gives an open one this modification time. Only the owner may (`futimens(2)`), and some file
/// systems have none: what is only read and written is measured there all the same.
pub(crate) fn dated(file: &File, time: SystemTime) -> io::Result<()> {
    use io::ErrorKind::{PermissionDenied, Unsupported};
    match file.set_modified(time) {
        Err(e) if matches!(e.kind(), PermissionDenied | Unsupported) => Ok(()),
        done => done,
    }
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = File::create(to)?;
    let mut block = vec![0; BLOCK];
    loop {
        let got = source.read(&mut block)?;
        if got == 0 {
            break;
        }
        target.write_all(&block[..got])?;
    }
    // Afterwards: what is still to be written back must not bring a newer time.
    dated(&target, source.metadata()?.modified()?)?;
    // A program has to stay one; where a file system knows no permissions, the bytes are enough.
    let mode = source.metadata()?.permissions();
    if mode.mode() & 0o111 != 0 {
        let _ = target.set_permissions(mode);
    }
    Ok(())
}

/// Sizes and times of files: those that have kept both have not been written to.
pub(crate) type Seen = HashMap<PathBuf, (u64, SystemTime)>;

/// Remembers all files in and below `dir`.
pub(crate) fn see(dir: &Path) -> io::Result<Seen> {
    let mut seen = Seen::new();
    files(dir, &mut |path| {
        let meta = path.symlink_metadata()?;
        seen.insert(path.into(), (meta.len(), meta.modified()?));
        Ok(())
    })?;
    Ok(seen)
}

/// Makes `to` equal to `from` again, writing only what differs: what is the same stays where it
/// lies on the disk. Files that are as they were `seen` are not even read.
pub(crate) fn restore(from: &Path, to: &Path, seen: &Seen) -> io::Result<()> {
    if !to.symlink_metadata().is_ok_and(|m| m.is_dir()) {
        remove(to)?;
        return copy(from, to);
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if from.join(entry.file_name()).symlink_metadata().is_err() {
            remove(&entry.path())?;
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            restore(&source, &target, seen)?;
        } else if kind.is_symlink() {
            if fs::read_link(&target).ok() != fs::read_link(&source).ok() {
                remove(&target)?;
                symlink(fs::read_link(&source)?, &target)?;
            }
        } else if !untouched(&target, seen) {
            restore_file(&source, &target)?;
        }
    }
    keep_time(from, to)
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

fn restore_file(from: &Path, to: &Path) -> io::Result<()> {
    if !to.symlink_metadata().is_ok_and(|m| m.is_file()) {
        remove(to)?;
        return copy_file(from, to);
    }
    let source = File::open(from)?;
    let target = OpenOptions::new().read(true).write(true).open(to)?;
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
    dated(&target, source.metadata()?.modified()?)
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

/// Calls `each` with everything below `dir`, a directory before what is in it.
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

/// Removes a file, or a directory and all below it; follows no link, and refuses to go into
/// another mount: what is mounted there may be the user's. Nothing there is fine.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let meta = match path.symlink_metadata() {
        Ok(meta) => meta,
        Err(e) => return absent_is_fine(e),
    };
    if !meta.is_dir() {
        return fs::remove_file(path).or_else(absent_is_fine);
    }
    if let Some(mount) = mounts::below(path)?.first() {
        let text = format!("{} is mounted", mount.at.display());
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
    }
    remove_dir(path)
}

/// Removes all that is in `dir`, but not `dir`.
pub(crate) fn empty(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        remove(&entry?.path())?;
    }
    Ok(())
}

/// Like [`remove`] for a work directory; its marker goes last, so that a removal that was cut off
/// can be taken up again.
pub(crate) fn remove_marked(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.file_name() != Some(crate::workdir::MARKER.as_ref()) {
            remove(&path)?;
        }
    }
    remove(dir)
}

fn remove_dir(dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        // overlayfs leaves `work/work` with mode 0: only root may look into it.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
            fs::read_dir(dir)?
        }
        Err(e) => return absent_is_fine(e),
        Ok(entries) => entries,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_dir(&entry.path())?;
        } else {
            fs::remove_file(entry.path()).or_else(absent_is_fine)?;
        }
    }
    fs::remove_dir(dir).or_else(absent_is_fine)
}

fn absent_is_fine(e: io::Error) -> io::Result<()> {
    match e.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
        restore(&from, &to, &seen).unwrap();
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

        let hidden = to.join("sub/deep");
        fs::create_dir(&hidden).unwrap();
        fs::write(hidden.join("f"), b"z").unwrap();
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o000)).unwrap();
        remove(&to).unwrap();
        assert!(!to.exists());
        remove(&to).unwrap();
    }
}
