//! Files kept between runs: unpacked kernels, and whether KVM works here.

use std::{
    env,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::sandbox;
use layermark_model::random_name;

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

/// The file of this name if it exists, or else the path to write it to.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    let shared = Path::new(OF_ALL).join(name);
    if shared.is_file() {
        Some(shared)
    } else {
        own().map(|dir| dir.join(name))
    }
}

/// Roots below which `make vm-kernel` has put kernels (`boot`, `lib/modules`).
pub(crate) fn kernels() -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = own().into_iter().collect();
    roots.push(OF_ALL.into());
    roots.dedup();
    roots.into_iter().map(|dir| dir.join("kernel")).collect()
}

/// Writes a file atomically, because another layermark may read it at any time.
pub(crate) fn store(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(dir)?;
    let half = dir.join(random_name(".half-"));
    let written = File::create_new(&half)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&half, path));
    if written.is_err() {
        let _ = fs::remove_file(&half);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_in_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/file");
        store(&path, b"one").unwrap();
        store(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path().join("sub")).unwrap().count(), 1);
        fs::create_dir(dir.path().join("taken")).unwrap();
        assert!(store(&dir.path().join("taken"), b"x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
