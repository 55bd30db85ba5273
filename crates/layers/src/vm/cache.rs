//! Files kept between runs: unpacked kernels, and whether KVM works here.
//!
//! What root finds here it boots, or believes. So each file is named by a hash of the content that it
//! was made from, and is made only from files that no other user can change.

use std::{
    env,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use layermark_model::random_name;
use rustix::{
    fs::{AtFlags, Mode, OFlags, fstat, mkdirat, openat, renameat, unlinkat},
    io::Errno,
};

use crate::{
    fd::{self, HeldDir, Refused, is_exposed, is_open_to_others},
    sandbox,
};

/// Cache directory of root, readable by every user.
const OF_ALL: &str = "/var/cache/layermark";

/// The user's own cache directory (XDG Base Directory Specification); for root, [`OF_ALL`].
fn own() -> Option<PathBuf> {
    if sandbox::is_root() {
        return Some(OF_ALL.into());
    }
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|dir| dir.join("layermark"))
}

/// The kept file of this name, as a path that no other user can lead elsewhere.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let dirs = [Some(OF_ALL.into()), own()].into_iter().flatten();
    dirs.map(|dir: PathBuf| dir.join(name))
        .find(|path| fd::open_own(path).is_ok())
}

/// Keeps a file under this name, and returns its path.
pub(crate) fn store(name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let dir = own().ok_or(io::ErrorKind::NotFound)?;
    store_in(&dir, name, bytes)
}

/// Written atomically, because another layermark may read it at any time.
fn store_in(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let refused = |e| match e {
        Refused::Io(e) => e,
        Refused::At(by) => io::Error::other(format!("{}: others can change it", by.display())),
    };
    let safe_dir = |dir: &Path, make| HeldDir::find(dir, make, &mut |_, stat| is_exposed(stat));
    let parent = dir.parent().ok_or(io::ErrorKind::NotFound)?;
    let parent = safe_dir(parent, true).map_err(refused)?;
    match mkdirat(
        &parent.fd,
        dir.file_name().unwrap_or_default(),
        Mode::from(0o755),
    ) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(e.into()),
    }
    let held = safe_dir(dir, false).map_err(refused)?;
    if is_open_to_others(&fstat(&held.fd)?) {
        return Err(refused(Refused::At(held.path)));
    }
    let half = random_name(".half-");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let written = openat(&held.fd, &half, flags, Mode::from(0o644))
        .map_err(io::Error::from)
        .and_then(|file| File::from(file).write_all(bytes))
        .and_then(|()| Ok(renameat(&held.fd, &half, &held.fd, name)?));
    if written.is_err() {
        let _ = unlinkat(&held.fd, &half, AtFlags::empty());
    }
    written.map(|()| held.path.join(name))
}

/// Roots below which `make vm-kernel` has put kernels (`boot`, `lib/modules`).
pub(crate) fn kernels() -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = own().into_iter().collect();
    roots.push(OF_ALL.into());
    roots.dedup();
    roots.into_iter().map(|dir| dir.join("kernel")).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_file_is_there_in_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let path = store_in(&dir.join("sub"), "file", b"one").unwrap();
        store_in(&dir.join("sub"), "file", b"two").unwrap();
        assert_eq!(path, dir.join("sub/file"));
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.join("sub")).unwrap().count(), 1);
        fs::create_dir(dir.join("sub/taken")).unwrap();
        assert!(store_in(&dir.join("sub"), "taken", b"x").is_err());
        assert_eq!(fs::read_dir(dir.join("sub")).unwrap().count(), 2);
    }

    #[test]
    fn nothing_is_kept_where_others_can_put_files() {
        let dir = tempfile::tempdir().unwrap();
        for (open, mode) in [("", 0o777), ("kept", 0o1777)] {
            let at = dir.path().join(open);
            fs::create_dir_all(&at).unwrap();
            fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
            let e = store_in(&dir.path().join("kept"), "file", b"x").unwrap_err();
            assert!(e.to_string().contains("others can change it"), "{e}");
            fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert!(!dir.path().join("kept/file").exists());
    }
}
