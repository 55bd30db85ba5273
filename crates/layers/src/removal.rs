//! Removes trees of files by descriptor. A process that replaces a directory at the same time, such
//! as a launched program of another user, cannot lead us out of the tree.

use std::{
    ffi::{CStr, CString, OsStr},
    io,
    ops::RangeInclusive,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, chmod, fchmod, fstat, fstatfs, openat, rename,
        statat, unlinkat,
    },
    io::Errno,
};

use layermark_model::random_name;

use crate::{fd, marker::MARKER, mounts, spread};

/// How long to wait for files in use. FUSE and NFS rename a deleted file that is open
/// (`.fuse_hidden*`, `.nfs*`), and remove it shortly after it is closed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Removes a file, or a directory and everything below it. Does not follow links, and does not
/// enter another mount, which may hold the user's data. A missing file is fine.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, parent, flags, Mode::empty()) {
        Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(e.into()),
        Ok(parent) => remove_at(&parent, name),
    }
}

/// Like [`remove`] for `name` in the directory `at`.
pub(crate) fn remove_at(at: impl AsFd, name: &OsStr) -> io::Result<()> {
    Removal::within(PATIENCE).entry(at.as_fd(), &CString::new(name.as_bytes())?)
}

/// Removes the content of the directory at `path`, but not the directory. If it has many files
/// without data, they are moved to a directory next to it, which is removed with the run. The
/// reason: ext4 without a journal skips an inode for minutes after it was deleted, and the
/// following layers create files too.
pub(crate) fn empty(path: &Path) -> io::Result<()> {
    let dir = fd::open_dir(CWD, path)?;
    let removal = Removal::within(PATIENCE);
    let on_ext4 = fstatfs(&dir)?.f_type as i64 == spread::EXT4;
    if !on_ext4 || !ASIDE.contains(&removal.data(dir.as_fd())?) {
        return removal.contents(dir.as_fd(), "");
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(random_name("."));
    rename(path, aside)?;
    spread::create(path)
}

/// Removes the content of a work directory. Its marker goes last, so that an interrupted removal
/// can be continued. Waits for files in use until `until`.
pub(crate) fn empty_marked(dir: impl AsFd, until: Instant) -> io::Result<()> {
    empty_but_marker(&dir, until)?;
    Removal { until }.contents(dir.as_fd(), "")
}

/// Removes the content of a work directory except its marker.
pub(crate) fn empty_but_marker(dir: impl AsFd, until: Instant) -> io::Result<()> {
    Removal { until }.contents(dir.as_fd(), MARKER)
}

/// How many files are moved aside: fewer make no difference, more would use up the inodes.
const ASIDE: RangeInclusive<u64> = 100..=100_000;

/// One removal, and the time until which it waits for files in use.
struct Removal {
    until: Instant,
}

impl Removal {
    fn within(patience: Duration) -> Self {
        Self {
            until: Instant::now() + patience,
        }
    }

    fn entry(&self, at: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        match unlinkat(at, name, AtFlags::empty()) {
            // Busy means a `.nfs*` whose file is open. It is tried again.
            Ok(()) | Err(Errno::NOENT | Errno::BUSY) => Ok(()),
            Err(Errno::ISDIR) => self.directory(at, name),
            Err(e) => Err(named(at, name, e)),
        }
    }

    fn directory(&self, at: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        let dir = match open(at, name) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(()),
            Err(e) => return Err(named(at, name, e)),
        };
        loop {
            self.contents(dir.as_fd(), "")?;
            match unlinkat(at, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::NOTEMPTY | Errno::EXIST) if self.wait() => {}
                Err(e) => return Err(named(at, name, e)),
            }
        }
    }

    /// Removes everything in `dir` except the file `spared`.
    fn contents(&self, dir: BorrowedFd<'_>, spared: &str) -> io::Result<()> {
        loop {
            for name in fd::names(dir, spared)? {
                self.entry(dir, &name)?;
            }
            // Files in use were renamed instead of removed.
            let left = fd::names(dir, spared)?;
            if left.is_empty() {
                return Ok(());
            }
            if !self.wait() {
                return Err(in_use(dir, &left));
            }
        }
    }

    /// Removes everything in `dir` except directories and files without data. Returns how many such
    /// files there are.
    fn data(&self, dir: BorrowedFd<'_>) -> io::Result<u64> {
        let mut left = 0;
        for name in fd::names(dir, "")? {
            let stat = match statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(named(dir, &name, e)),
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let below = match open(dir, &name) {
                        Err(Errno::NOENT) => continue,
                        other => other.map_err(|e| named(dir, &name, e))?,
                    };
                    left += self.data(below.as_fd())?;
                }
                FileType::RegularFile if stat.st_size == 0 => left += 1,
                _ => self.entry(dir, &name)?,
            }
        }
        Ok(left)
    }

    /// Pauses. Returns whether it is worth trying again.
    fn wait(&self) -> bool {
        thread::sleep(Duration::from_millis(10));
        Instant::now() < self.until
    }
}

/// Opens a directory to empty it. Fails with `XDEV` if something is mounted on it.
fn open(at: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let (all, name) = (Mode::RWXU, OsStr::from_bytes(name.to_bytes()));
    let dir = match mounts::open_unmounted(at, name, OFlags::RDONLY) {
        // overlayfs leaves `work/work` with mode 0: only root may look into it.
        Err(Errno::ACCESS) => {
            let known = mounts::open_unmounted(at, name, OFlags::PATH)?;
            chmod(fd::path_of(&known), all)?;
            mounts::open_unmounted(at, name, OFlags::RDONLY)?
        }
        other => other?,
    };
    if !Mode::from_raw_mode(fstat(&dir)?.st_mode).contains(all) {
        // If this is not permitted, emptying it fails with the reason.
        let _ = fchmod(&dir, all);
    }
    Ok(dir)
}

fn named(at: BorrowedFd<'_>, name: &CStr, e: Errno) -> io::Error {
    let path = fd::shown(at).join(OsStr::from_bytes(name.to_bytes()));
    let path = path.display();
    if e == Errno::XDEV {
        return io::Error::new(io::ErrorKind::ResourceBusy, format!("{path} is mounted"));
    }
    let e = io::Error::from(e);
    io::Error::new(e.kind(), format!("{path}: {e}"))
}

fn in_use(dir: BorrowedFd<'_>, left: &[CString]) -> io::Error {
    let text = format!(
        "{} stays: some process still has {} open{}",
        fd::shown(dir).display(),
        left[0].to_string_lossy(),
        match left.len() {
            1 => String::new(),
            more => format!(", and {} more", more - 1),
        }
    );
    io::Error::new(io::ErrorKind::DirectoryNotEmpty, text)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::unix::fs::{PermissionsExt, symlink},
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;

    #[test]
    fn links_are_removed_and_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let (tree, victim) = (home.path().join("tree"), home.path().join("victim"));
        fs::create_dir_all(tree.join("deep/er")).unwrap();
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("precious"), b"x").unwrap();
        symlink(&victim, tree.join("deep/link")).unwrap();
        symlink(victim.join("precious"), tree.join("deep/er/file")).unwrap();
        fs::set_permissions(tree.join("deep/er"), fs::Permissions::from_mode(0o0)).unwrap();
        remove(&tree).unwrap();
        remove(&tree).unwrap();
        assert!(!tree.exists() && victim.join("precious").exists());
        // The tree itself is replaced by a link.
        symlink(&victim, &tree).unwrap();
        let e = empty(&tree).unwrap_err();
        assert!(
            matches!(e.raw_os_error(), Some(libc::ELOOP | libc::ENOTDIR)),
            "{e}"
        );
        remove(&tree).unwrap();
        assert!(tree.symlink_metadata().is_err() && victim.join("precious").exists());
    }

    #[test]
    fn many_files_without_data_are_set_aside_and_all_else_goes() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("layer");
        let made = |files| {
            fs::create_dir_all(dir.join("work/d0")).unwrap();
            fs::write(dir.join("work/big"), b"data").unwrap();
            symlink("/", dir.join("work/link")).unwrap();
            for n in 0..files {
                fs::write(dir.join(format!("work/d0/{n}")), b"").unwrap();
            }
            empty(&dir).unwrap();
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
            fs::read_dir(home.path()).unwrap().count() - 1
        };
        assert_eq!(made(99), 0, "too few to be worth it");
        if rustix::fs::statfs(home.path()).unwrap().f_type as i64 != spread::EXT4 {
            assert_eq!(made(100), 0);
            return eprintln!("skipped: {} is not on ext4", home.path().display());
        }
        assert_eq!([made(100), made(100)], [1, 2]);
        let all = fs::read_dir(home.path())
            .unwrap()
            .map(|e| e.unwrap().path());
        for path in all.filter(|path| *path != dir) {
            assert!(path.join("work/d0/99").exists() && !path.join("work/big").exists());
        }
    }

    /// Directories are swapped for links while the tree is removed, as often as possible.
    #[test]
    fn a_tree_that_changes_meanwhile_leads_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let victim = home.path().join("victim");
        fs::create_dir(&victim).unwrap();
        for n in 0..20 {
            fs::write(victim.join(format!("f{n}")), b"x").unwrap();
        }
        let over = AtomicBool::new(false);
        let tree = home.path().join("tree");
        thread::scope(|scope| {
            scope.spawn(|| {
                let (a, b) = (tree.join("a"), home.path().join("aside"));
                while !over.load(Ordering::Relaxed) {
                    let _ = fs::rename(&a, &b).and_then(|()| symlink(&victim, &a));
                    let _ = fs::remove_file(&a).and_then(|()| fs::rename(&b, &a));
                }
            });
            for _ in 0..100 {
                let _ = fs::create_dir_all(tree.join("a/sub"));
                for n in 0..20 {
                    let _ = File::create_new(tree.join(format!("a/sub/f{n}")));
                }
                let _ = remove(&tree);
            }
            over.store(true, Ordering::Relaxed);
        });
        // Files that the test itself made through the link may be there too.
        assert!((0..20).all(|n| victim.join(format!("f{n}")).exists()));
    }

    /// Tested also with the same device. The test runs itself again in a mount namespace.
    #[test]
    fn what_is_mounted_in_a_tree_stays() {
        if let Some(tree) = std::env::var_os("LAYERMARK_TREE") {
            let e = remove(Path::new(&tree)).unwrap_err();
            assert!(e.to_string().contains("sub is mounted"), "{e}");
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let (tree, victim) = (home.path().join("tree"), home.path().join("victim"));
        fs::create_dir_all(tree.join("sub")).unwrap();
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("precious"), b"x").unwrap();
        let me = std::env::current_exe().unwrap();
        let again = |script: &str| {
            let mut unshare = std::process::Command::new("unshare");
            unshare.args(["-Urm", "--propagation", "private", "sh", "-c", script, "sh"]);
            unshare.arg(&victim).arg(tree.join("sub")).arg(&me);
            unshare.arg("removal::tests::what_is_mounted_in_a_tree_stays");
            unshare.env("LAYERMARK_TREE", &tree).output()
        };
        if !again("mount --bind $1 $2").is_ok_and(|o| o.status.success()) {
            eprintln!("skipped: mount namespaces are forbidden here");
            return;
        }
        let output = again("mount --bind $1 $2 && exec $3 --exact $4").unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 passed"), "{said}");
        assert!(victim.join("precious").exists());
    }

    /// As in FUSE: a file that is open when it is removed comes back under another name until it is
    /// closed.
    #[test]
    fn what_is_in_use_is_tried_again_and_then_told() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("dir");
        let hidden = dir.join(".fuse_hidden01");
        let keep = |until: Duration| {
            let (started, hidden) = (Instant::now(), hidden.clone());
            fs::create_dir_all(&dir).unwrap();
            fs::write(&hidden, b"").unwrap();
            thread::spawn(move || {
                while started.elapsed() < until {
                    let _ = File::create(&hidden);
                }
            })
        };
        let kept = keep(Duration::from_millis(300));
        while !kept.is_finished() {
            empty(&dir).unwrap();
        }
        kept.join().unwrap();

        let kept = keep(Duration::from_secs(2));
        let removal = Removal::within(Duration::from_millis(100));
        let dir = fd::open_dir(CWD, &dir).unwrap();
        // It may be missing at the moment of a check.
        let tries = std::iter::repeat_with(|| removal.contents(dir.as_fd(), "").err());
        let e = tries.take_while(|_| !kept.is_finished()).find_map(|e| e);
        let text = e.unwrap().to_string();
        assert!(
            text.contains("some process still has .fuse_hidden01 open"),
            "{text}"
        );
        kept.join().unwrap();
    }
}
