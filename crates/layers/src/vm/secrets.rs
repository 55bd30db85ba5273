//! Files of this host that a guest does not see with `root=host`.
//!
//! Files that not every user of this host may read are left out. So are those that packaged
//! programs do not need: home directories, temporary files, and file systems of which the guest has
//! its own.
//!
//! For root, the kernel applies the permissions, at any depth and even if they change later.
//! Another user cannot make such a mount. Then the private files, which can only be that user's
//! own, are searched for.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    child::{self, Change},
    mounts::{self, MountEntry},
    sandbox, served,
};

/// Directory of QEMU in which the guest's view of this host is assembled.
pub(crate) const VIEW: &str = "root";
/// The file shown in place of one that is left out.
const NOTHING: &str = "nothing";

/// Directories that are always shown empty.
const EMPTY: [&str; 8] = [
    "dev", "home", "proc", "root", "run", "sys", "tmp", "var/tmp",
];

/// Directories searched for files that not every user may read, and the depth of the search.
const LOOKED_THROUGH: [(&str, usize); 8] = [
    ("", 1),
    ("etc", 8),
    ("media", 2),
    ("mnt", 2),
    ("opt", 4),
    ("srv", 3),
    ("usr/local/etc", 4),
    // Depth of PostgreSQL's data: var/lib/postgresql/15/main.
    ("var", 4),
];

/// Maximum number of hidden files: each needs a mount.
const MOST: usize = 4096;

/// Creates what the view needs in QEMU's private directory `dir`. Returns the changes that give a
/// process running there the view.
pub(crate) fn view(dir: &Path) -> io::Result<Vec<Change>> {
    // It exists if a guest is booted a second time.
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
    let path = |path: &Path| Change::path(path);
    let mut changes = if sandbox::is_root() {
        shares(&mounts::list()?)?
    } else {
        for (name, depth) in LOOKED_THROUGH {
            let dir = host.join(name);
            // Something may be mounted there whose server never answers.
            served::ask(&dir, || private_below(&dir, depth, &mut left_out))?;
        }
        vec![Change::Show(Some(path(host)?), path(VIEW.as_ref())?)]
    };
    for name in left_out {
        let Ok(meta) = name.symlink_metadata() else {
            continue;
        };
        let at = path(&Path::new(VIEW).join(name.strip_prefix(host).unwrap_or(&name)))?;
        if meta.is_dir() {
            let mode = meta.permissions().mode() & 0o7777;
            // In a user namespace, root of the machine has no id that could be given.
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

/// The file systems of this host, each with the permissions for others. Left out are those below
/// directories that are shown empty, and those that cannot be mounted so: network file systems.
fn shares(mounted: &[MountEntry]) -> io::Result<Vec<Change>> {
    let host = Path::new("/");
    let is_empty = |at: &Path| EMPTY.iter().any(|name| at.starts_with(host.join(name)));
    let mut points: Vec<&Path> = mounted.iter().map(|mount| &*mount.at).collect();
    points.retain(|at| !is_empty(at));
    // A mount inside another one comes after it.
    points.sort();
    points.dedup();
    let strangers = Arc::new(child::strangers()?);
    let share = |from: &Path| {
        let below = from.strip_prefix(host).unwrap_or(from);
        let at = if from == host {
            PathBuf::from(VIEW)
        } else {
            Path::new(VIEW).join(below)
        };
        Ok(Change::Share {
            from: Change::path(from)?,
            at: Change::path(&at)?,
            strangers: Arc::clone(&strangers),
            needed: from == host,
        })
    };
    points.into_iter().map(share).collect()
}

/// Finds entries of `dir`, up to this depth, that not every user may read.
fn private_below(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    // QEMU cannot read what we cannot read.
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
    use std::process::Stdio;

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

    /// Whether a program with this view, such as QEMU, sees the file.
    fn seen(dir: &Path, path: &Path) -> bool {
        let mut cat = child::command("cat");
        cat.current_dir(dir)
            .arg(Path::new(VIEW).join(path.strip_prefix("/").unwrap()))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        child::with_view(&mut cat, view(dir).unwrap());
        cat.status().expect("cat starts").success()
    }

    #[test]
    fn private_files_are_not_read_at_any_depth() {
        if !sandbox::is_root() {
            return eprintln!("skipped: only root can share by permission");
        }
        let dir = tempfile::tempdir().unwrap();
        let home = tempfile::tempdir_in("/srv").unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let deep = home.path().join("a/b/c/d/e/f");
        fs::create_dir_all(deep.join("closed")).unwrap();
        let file = |name: &str, mode| {
            fs::write(deep.join(name), b"x").unwrap();
            fs::set_permissions(deep.join(name), fs::Permissions::from_mode(mode)).unwrap();
            deep.join(name)
        };
        let public = file("public", 0o644);
        let [key, group, write_only, later] = [
            ("key", 0o600),
            ("group", 0o640),
            ("drop", 0o662),
            ("later", 0o644),
        ]
        .map(|(name, mode)| file(name, mode));
        let below = file("closed/public", 0o644);
        fs::set_permissions(deep.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(seen(dir.path(), &public) && seen(dir.path(), &later));
        fs::set_permissions(&later, fs::Permissions::from_mode(0o600)).unwrap();
        for secret in [&key, &group, &write_only, &later, &below] {
            assert!(!seen(dir.path(), secret), "{}", secret.display());
        }
        let shadow = Path::new("/etc/shadow");
        assert!(seen(dir.path(), Path::new("/etc/passwd")));
        assert!(!shadow.exists() || !seen(dir.path(), shadow));
    }
}
