//! Trees of directories: opened and removed below a descriptor, with few descriptors open at once.

use std::{
    ffi::OsStr,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, CWD, Mode, OFlags, ResolveFlags, chmod, fchmod, fstat, openat, openat2, unlinkat,
    },
    io::Errno,
};

use crate::{DIRECTORY, names, path_of};

/// Opens the directory `path` below `root`; empty: `root` itself. Symbolic links are refused in every component.
///
/// # Errors
/// If it cannot be opened, or is not a directory.
pub fn open_below(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    open_with(root, path, OFlags::RDONLY, ResolveFlags::empty())
}

/// With `more` than the flags that are always set. Without openat2(2) another device is refused for a mount, and a
/// mount of the same one is entered.
fn open_with(
    root: BorrowedFd<'_>,
    path: &[u8],
    how: OFlags,
    more: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let flags = how | DIRECTORY;
    if path.is_empty() {
        return openat(root, c".", flags, Mode::empty());
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | more;
    match openat2(root, path, flags, Mode::empty(), resolve) {
        // Sandboxes refuse the call itself.
        Err(Errno::NOSYS | Errno::PERM) => {}
        done => return done,
    }
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    let mut dir = openat(root, c".", OFlags::PATH | DIRECTORY, Mode::empty())?;
    while let Some(part) = parts.next() {
        if part.is_empty() || part == b".." {
            return Err(Errno::INVAL);
        }
        let last = parts.peek().is_none();
        let flags = if last {
            flags
        } else {
            OFlags::PATH | DIRECTORY
        };
        let next = openat(&dir, part, flags, Mode::empty())?;
        if more.contains(ResolveFlags::NO_XDEV) && fstat(&next)?.st_dev != fstat(root)?.st_dev {
            return Err(Errno::XDEV);
        }
        dir = next;
    }
    Ok(dir)
}

/// Removes a directory with everything below it. Directories that their owner may not read or write are made readable
/// and writable first. Links are not followed, and nothing is removed below a mount. A missing directory is fine.
///
/// # Errors
/// If something cannot be removed; it names it.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    let parent = openat(
        CWD,
        parent,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let parent = match parent {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    let name = name.as_bytes();
    let root = match open_to_empty(parent.as_fd(), name) {
        Err(Errno::NOENT) => return Ok(()),
        other => other.map_err(|e| named(path, b"", e))?,
    };
    // Directories before those in them.
    let mut all: Vec<Vec<u8>> = vec![Vec::new()];
    let mut next = 0;
    while let Some(above) = all.get(next).cloned() {
        next += 1;
        let dir = open_to_empty(root.as_fd(), &above).map_err(|e| named(path, &above, e))?;
        for entry in names(dir.as_fd(), "")? {
            let mut below = above.clone();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(entry.to_bytes());
            match unlinkat(&dir, &entry, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => all.push(below),
                Err(e) => return Err(named(path, &below, e)),
            }
        }
    }
    for below in all[1..].iter().rev() {
        let at = below.iter().rposition(|byte| *byte == b'/');
        let (above, last) = match at {
            Some(at) => (&below[..at], &below[at + 1..]),
            None => (&below[..0], &below[..]),
        };
        let removed = open_with(root.as_fd(), above, OFlags::PATH, ResolveFlags::NO_XDEV)
            .and_then(|dir| unlinkat(dir, last, AtFlags::REMOVEDIR));
        match removed {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(named(path, below, e)),
        }
    }
    drop(root);
    match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(named(path, b"", e)),
    }
}

/// Opens a directory, and lets its owner empty it.
fn open_to_empty(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let all = Mode::RWXU;
    let open = |how| open_with(root, path, how, ResolveFlags::NO_XDEV);
    let dir = match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => {
            chmod(path_of(&open(OFlags::PATH)?), all)?;
            open(OFlags::RDONLY)?
        }
        other => other?,
    };
    if !Mode::from_raw_mode(fstat(&dir)?.st_mode).contains(all) {
        // If this is not permitted, emptying it fails with the reason.
        let _ = fchmod(&dir, all);
    }
    Ok(dir)
}

fn named(root: &Path, below: &[u8], e: Errno) -> io::Error {
    let e = io::Error::from(e);
    let shown = if below.is_empty() {
        root.to_owned()
    } else {
        root.join(OsStr::from_bytes(below))
    };
    io::Error::new(e.kind(), format!("{}: {e}", shown.display()))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;
    use crate::open_dir;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// As root this shows only that links are not followed: root may write anywhere.
    #[test]
    fn directories_that_may_not_be_written_to_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let (tree, kept) = (home.path().join("tree"), home.path().join("kept"));
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("precious"), "x").unwrap();
        fs::write(tree.join("a/b/f"), "x").unwrap();
        symlink(&kept, tree.join("a/b/c/link")).unwrap();
        for (below, bits) in [("a/b/c", 0o500), ("a/b", 0o000), ("a", 0o300), ("", 0o400)] {
            mode(&tree.join(below), bits);
        }
        remove_tree(&tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && kept.join("precious").exists());
        symlink(&kept, &tree).unwrap();
        assert!(remove_tree(&tree).is_err(), "it is not a directory");
        assert!(kept.join("precious").exists());
    }

    #[test]
    fn links_are_refused_in_every_component() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("a/b")).unwrap();
        symlink("a", home.path().join("l")).unwrap();
        let root = open_dir(CWD, home.path()).unwrap();
        open_below(root.as_fd(), b"a/b").unwrap();
        open_below(root.as_fd(), b"").unwrap();
        for bad in [&b"l/b"[..], b"l", b"../x", b"/"] {
            assert!(open_below(root.as_fd(), bad).is_err(), "{bad:?}");
        }
    }
}
