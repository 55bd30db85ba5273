//! Directories of steps: their content as one number, and their copies in a layer.

use std::{
    fs,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use xxhash_rust::xxh3::Xxh3;

use crate::{Placed, PlacedKind, ProbeError, workloads::work_dir};

/// The index of a repository has inode numbers and times, which are others in each layer.
const LEFT_OUT: &str = ".git";
/// A file system with fewer free bytes is full.
const ROOM: u64 = 64 << 10;
/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// Every path below a directory with its metadata, sorted, so that parents come first.
fn entries(top: &Path, skip: &str) -> io::Result<Vec<(PathBuf, fs::Metadata)>> {
    let (mut all, mut open) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(dir) = open.pop() {
        let at = top.join(&dir);
        for entry in fs::read_dir(&at).map_err(|e| about(&at, &e))? {
            let entry = entry.map_err(|e| about(&at, &e))?;
            if entry.file_name() == skip {
                continue;
            }
            let path = dir.join(entry.file_name());
            let meta = entry.metadata().map_err(|e| about(&entry.path(), &e))?;
            if meta.is_dir() {
                open.push(path.clone());
            }
            all.push((path, meta));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(all)
}

fn about(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

/// The content of a directory or file in words: number of entries, and a hash of their names,
/// kinds, links and bytes (XXH3-64). Times, modes and owners do not count, because some layers do
/// not keep them, nor does `.git`.
pub fn content(top: &Path) -> io::Result<String> {
    match fs::symlink_metadata(top) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok("nothing".into()),
        Err(e) => return Err(about(top, &e)),
        Ok(meta) if !meta.is_dir() => {
            let mut hash = Xxh3::new();
            add(&mut hash, top, Path::new(""), &meta)?;
            return Ok(format!("a file, {:016x}", hash.digest()));
        }
        Ok(_) => {}
    }
    let all = entries(top, LEFT_OUT)?;
    let mut hash = Xxh3::new();
    for (path, meta) in &all {
        add(&mut hash, &top.join(path), path, meta)?;
    }
    Ok(format!("{} entries, {:016x}", all.len(), hash.digest()))
}

/// Adds an entry. Every part is preceded by its length, so that no two trees give the same bytes.
fn add(hash: &mut Xxh3, at: &Path, name: &Path, meta: &fs::Metadata) -> io::Result<()> {
    let mut text = |kind: u8, bytes: &[u8]| {
        hash.update(&[kind]);
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    text(b'n', name.as_os_str().as_bytes());
    if meta.is_symlink() {
        let target = fs::read_link(at).map_err(|e| about(at, &e))?;
        text(b'l', target.as_os_str().as_bytes());
    } else if meta.is_file() {
        text(b'f', &meta.len().to_le_bytes());
        let mut file = layermark_fd::open_now(at).map_err(|e| about(at, &e))?;
        let mut chunk = vec![0; CHUNK];
        loop {
            match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => hash.update(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(about(at, &e)),
            }
        }
    } else {
        text(if meta.is_dir() { b'd' } else { b'o' }, b"");
    }
    Ok(())
}

/// A directory of this machine with all its content, as it is to be put at `to` in a layer. Pipes,
/// sockets and devices are left out.
pub fn placed(top: &Path, to: &Path) -> io::Result<Vec<Placed>> {
    let modified = |meta: &fs::Metadata| meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let meta = fs::metadata(top).map_err(|e| about(top, &e))?;
    let mut all = vec![Placed {
        path: to.to_owned(),
        kind: PlacedKind::Directory {
            modified: modified(&meta),
        },
    }];
    for (path, meta) in entries(top, "")? {
        let source = top.join(&path);
        let kind = if meta.is_dir() {
            let modified = modified(&meta);
            PlacedKind::Directory { modified }
        } else if meta.is_symlink() {
            PlacedKind::Link(fs::read_link(&source).map_err(|e| about(&source, &e))?)
        } else if meta.is_file() {
            let size = meta.len();
            PlacedKind::File { source, size }
        } else {
            continue;
        };
        let path = to.join(path);
        all.push(Placed { path, kind });
    }
    Ok(all)
}

/// Entries and bytes of a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    pub files: u64,
    pub bytes: u64,
}

/// How much a copy of a directory has.
pub fn size(top: &Path) -> io::Result<Size> {
    let all = entries(top, "")?;
    let bytes = all.iter().filter(|(_, meta)| meta.is_file());
    Ok(Size {
        files: all.len() as u64,
        bytes: bytes.map(|(_, meta)| meta.len()).sum(),
    })
}

/// Copies what is in a directory into another one, with times and links.
///
/// # Errors
/// With `ENOSPC` where the other one is full.
pub fn copy(from: &Path, to: &Path) -> Result<(), ProbeError> {
    let copied =
        placed(from, Path::new("")).and_then(|all| crate::packaged::place(to, &all, &|| true));
    copied.map_err(|e| {
        let error = ProbeError::io("copy the tree to", to, &e);
        let errno = is_full(to).then_some(libc::ENOSPC).or(error.errno);
        ProbeError { errno, ..error }
    })
}

/// Whether a directory has no room for another file: that is why a step failed there. A read-only
/// image never has room, and some file systems do not know theirs.
pub fn is_full(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|fs| {
        let read_only = fs.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
        let no_block = fs.f_blocks > 0 && fs.f_bavail * fs.f_frsize < ROOM;
        !read_only && (no_block || fs.f_files > 0 && fs.f_favail == 0)
    })
}

/// Removes what is in a directory, but nothing below a mount that a program has made there.
pub fn empty(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            work_dir::remove(&entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_names_links_and_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let now = || content(&at("t")).unwrap();
        assert_eq!(now(), "nothing");
        fs::create_dir_all(at("t/a")).unwrap();
        fs::write(at("t/a/b"), "x").unwrap();
        let first = now();
        assert!(first.starts_with("2 entries, "), "{first}");
        // What a layer may not keep does not count.
        let old = SystemTime::UNIX_EPOCH;
        fs::File::open(at("t/a/b"))
            .unwrap()
            .set_modified(old)
            .unwrap();
        fs::create_dir(at("t/.git")).unwrap();
        assert_eq!(now(), first);
        fs::write(at("t/a/b"), "y").unwrap();
        let second = now();
        fs::rename(at("t/a/b"), at("t/a/c")).unwrap();
        let third = now();
        std::os::unix::fs::symlink("c", at("t/a/b")).unwrap();
        let all = [first, second, third, now()];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), 4, "{all:?}");
        assert!(content(&at("t/a/c")).unwrap().starts_with("a file, "));
    }

    #[test]
    fn a_directory_is_emptied_and_copied_again() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/c"), "12345").unwrap();
        std::os::unix::fs::symlink("a", from.join("l")).unwrap();
        let old = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        fs::File::open(from.join("a/b/c"))
            .unwrap()
            .set_modified(old)
            .unwrap();
        assert_eq!(size(&from).unwrap(), Size { files: 4, bytes: 5 });
        fs::create_dir(&to).unwrap();
        for _ in 0..2 {
            copy(&from, &to).unwrap();
            assert_eq!(content(&to).unwrap(), content(&from).unwrap());
            assert_eq!(
                fs::metadata(to.join("a/b/c")).unwrap().modified().unwrap(),
                old
            );
            // Links are removed, and not what they name.
            std::os::unix::fs::symlink(&from, to.join("out")).unwrap();
            empty(&to).unwrap();
            assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
            assert_eq!(size(&from).unwrap().files, 4);
        }
    }

    #[test]
    fn a_copy_has_the_same_content() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        fs::create_dir_all(from.join("a/.git")).unwrap();
        fs::write(from.join("a/.git/index"), "i").unwrap();
        fs::write(from.join("b"), "x").unwrap();
        std::os::unix::fs::symlink("b", from.join("l")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            from.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let all = placed(&from, Path::new("steps/t")).unwrap();
        crate::packaged::place(dir.path(), &all, &|| true).unwrap();
        let to = dir.path().join("steps/t");
        assert_eq!(fs::read(to.join("a/.git/index")).unwrap(), b"i");
        fs::remove_file(from.join("pipe")).unwrap();
        assert_eq!(content(&to).unwrap(), content(&from).unwrap());
        assert!(placed(&dir.path().join("gone"), Path::new("t")).is_err());
    }
}
