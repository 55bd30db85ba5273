//! Files of this host that a guest does not see with `root=host`.
//!
//! Left out is what not every user of this host may read, and what programs from packages can do
//! without: home directories and temporary files, and file systems of which the guest has its own.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::{child::Change, sandbox};

/// Directory of QEMU in which the guest's view of this host is put together.
pub(crate) const VIEW: &str = "root";
/// Shown in place of a file that is left out.
const NOTHING: &str = "nothing";

/// Directories that are always empty.
const EMPTY: [&str; 8] = [
    "dev", "home", "proc", "root", "run", "sys", "tmp", "var/tmp",
];

/// Where files that not everybody may read are looked for, and how deep.
const LOOKED_THROUGH: [(&str, usize); 8] = [
    ("", 1),
    ("etc", 8),
    ("media", 2),
    ("mnt", 2),
    ("opt", 4),
    ("srv", 3),
    ("usr/local/etc", 4),
    // As deep as the data of PostgreSQL: var/lib/postgresql/15/main.
    ("var", 4),
];

/// Each is a mount.
const MOST: usize = 4096;

/// Creates what the view needs in QEMU's private directory `dir`. Returns how a process that runs
/// there gets the view.
pub(crate) fn view(dir: &Path) -> io::Result<Vec<Change>> {
    // A guest that does not boot is booted again.
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir.join(VIEW))?;
    let nothing = dir.join(NOTHING);
    if !nothing.exists() {
        let mut file = fs::OpenOptions::new();
        file.write(true)
            .create_new(true)
            .mode(0o400)
            .open(nothing)?;
    }
    let host = Path::new("/");
    let mut left_out: Vec<PathBuf> = EMPTY.iter().map(|name| host.join(name)).collect();
    for (name, depth) in LOOKED_THROUGH {
        private_below(&host.join(name), depth, &mut left_out)?;
    }
    let path = |path: &Path| Change::path(path);
    let mut changes = vec![Change::Show(Some(path(host)?), path(VIEW.as_ref())?)];
    for name in left_out {
        let Ok(meta) = name.symlink_metadata() else {
            continue;
        };
        let at = path(&Path::new(VIEW).join(name.strip_prefix(host).unwrap_or(&name)))?;
        if meta.is_dir() {
            let mode = meta.permissions().mode() & 0o7777;
            // In a user namespace root of the machine has no number that could be given.
            let options = if sandbox::is_root() {
                format!("mode={mode:o},uid={},gid={}", meta.uid(), meta.gid())
            } else {
                format!("mode={mode:o}")
            };
            changes.push(Change::Empty(at, path(options.as_ref())?));
        } else if !meta.is_symlink() {
            changes.push(Change::Cover(path(NOTHING.as_ref())?, at));
        }
    }
    Ok(changes)
}

/// Finds entries of `dir`, to this depth, that not every user may read.
fn private_below(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    // What we cannot read QEMU cannot either.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, Ok(meta)) = (entry.path(), entry.metadata()) else {
            continue;
        };
        let mode = meta.permissions().mode();
        let open = match () {
            () if meta.is_symlink() => true,
            () if meta.is_dir() => mode & 0o005 == 0o005,
            () => mode & 0o004 != 0,
        };
        if found.len() >= MOST {
            let text = format!("there are more than {MOST} files that not everybody may read");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        if !open && !found.contains(&path) {
            found.push(path);
        } else if open && meta.is_dir() && depth > 1 && !found.contains(&path) {
            private_below(&path, depth - 1, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_not_everybody_may_read_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (name, mode) in [("open", 0o755), ("closed", 0o710), ("open/closed", 0o700)] {
            fs::create_dir(at(name)).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for (name, mode) in [
            ("public", 0o644),
            ("key", 0o600),
            ("open/shadow", 0o640),
            ("closed/key", 0o600),
            ("open/closed/key", 0o600),
        ] {
            fs::write(at(name), b"x").unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink("key", at("link")).unwrap();
        let found = |depth| {
            let mut found = Vec::new();
            private_below(dir.path(), depth, &mut found).unwrap();
            found.sort();
            found
        };
        let top = ["closed", "key"].map(at).to_vec();
        assert_eq!(found(1), top);
        let below = ["open/closed", "open/shadow"].map(at).to_vec();
        assert_eq!(found(2), [top, below].concat());
    }

    #[test]
    fn the_passwords_of_this_host_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let changes = format!("{:?}", view(dir.path()).unwrap());
            for name in ["root/root", "root/home", "root/proc", "root/etc/shadow"] {
                let there = Path::new("/").join(name.strip_prefix("root/").unwrap());
                assert!(
                    changes.contains(&format!("{name:?}")) || !there.exists(),
                    "{name}"
                );
            }
            assert!(!changes.contains("\"root/etc/passwd\"") && !changes.contains("\"root/usr\""));
        }
    }
}
