use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write, stderr},
    path::{Path, PathBuf},
    process,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::ProbeError;

/// Prefix of their names.
const PREFIX: &str = "work-";

/// Files left by a probe use at most this part of the free inodes.
const FREE_PART: u64 = 64;
/// A probe leaves at most this many files, so that removing them does not take long.
const MOST_LEFT: u64 = 50_000;

/// Directories of this process.
static OURS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A directory in the layer's directory for the files of a trial. Its content is removed on drop,
/// unless it is left to the owner of the layer. Only the probes that run the job write there.
///
/// Each has a different name, because ext4 places a directory by its name if the parent spreads its
/// subdirectories (`chattr +T`). Without a journal ext4 also checks every recently deleted inode of
/// its group before it uses one. Where files were created and deleted repeatedly, creating one then
/// takes twenty times as long.
pub struct WorkDir {
    path: PathBuf,
}

impl WorkDir {
    /// Creates it. First removes files that a killed trial has left.
    pub fn new(dir: &Path) -> Result<Self, ProbeError> {
        let clear = || -> io::Result<()> {
            for entry in fs::read_dir(dir)? {
                let entry = entry?;
                let made = entry.file_name().to_string_lossy().starts_with(PREFIX);
                if made && !ours().contains(&entry.path()) {
                    remove(&entry.path())?;
                }
            }
            Ok(())
        };
        clear().map_err(|e| ProbeError::io("clear", dir, &e))?;
        let work = Self::named(dir);
        let made = fs::create_dir(&work.path);
        made.map_err(|e| ProbeError::io("make", &work.path, &e))?;
        Ok(work)
    }

    /// One that another probe creates, in whose directory it is.
    pub fn named(dir: &Path) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("{PREFIX}{:x}-{number:x}", process::id()));
        ours().insert(path.clone());
        Self { path }
    }

    /// Leaves it, with this many files in it, to the owner of the layer, because removing them
    /// would slow the creation of the next files. It is removed now if it uses more than
    /// [`FREE_PART`] of the free inodes.
    pub fn leave(self, files: u64) {
        static LEFT: Mutex<(u64, Vec<WorkDir>)> = Mutex::new((0, Vec::new()));
        let free = rustix::fs::statvfs(&self.path).map_or(0, |fs| fs.f_ffree);
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        if left.0 + files <= (free / FREE_PART).min(MOST_LEFT) {
            left.0 += files;
            left.1.push(self);
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn ours() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        ours().remove(&self.path);
        if let Err(e) = remove(&self.path) {
            let path = self.path.display();
            // The reader of the stream may have ended.
            let _ = writeln!(stderr(), "layermark probe: cannot remove {path}: {e}");
        }
    }
}

/// Replaces a directory and its content by an empty one, or leaves it as it is. That is made under another name, and so in another part of an
/// ext4: see [`WorkDir`]. Returns what was there, to be removed.
pub(super) fn replace(path: &Path) -> io::Result<WorkDir> {
    let above = path.parent().unwrap_or(path);
    let [new, old] = [WorkDir::named(above), WorkDir::named(above)];
    fs::create_dir(new.path())?;
    fs::rename(path, old.path())?;
    if let Err(e) = fs::rename(new.path(), path) {
        fs::rename(old.path(), path)?;
        return Err(e);
    }
    Ok(old)
}

/// Removes a directory with its content. FUSE and NFS rename a deleted file that is open
/// (`.fuse_hidden*`, `.nfs*`) until they learn, shortly afterwards, that it was closed. This waits
/// for that.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    use io::ErrorKind::{DirectoryNotEmpty, ResourceBusy};
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        match layermark_fd::remove_tree(path) {
            Err(e) if matches!(e.kind(), DirectoryNotEmpty | ResourceBusy) => {
                if Instant::now() > until {
                    let text = "some process still has files open in it";
                    return Err(io::Error::new(e.kind(), text));
                }
                thread::sleep(Duration::from_millis(10));
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::mount::{MountFlags, mount};

    use super::*;
    use crate::programs::sys;

    #[test]
    fn a_replaced_directory_is_empty_and_another_one() {
        use std::os::unix::fs::MetadataExt;

        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("dir");
        fs::create_dir_all(dir.join("a/b")).unwrap();
        // Its number is not given to the next one while it is there.
        let old = fs::metadata(&dir).unwrap().ino();
        let replaced = replace(&dir).unwrap();
        assert_ne!(fs::metadata(&dir).unwrap().ino(), old);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        assert!(replaced.path().join("a/b").is_dir());
        drop(replaced);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        // There is nothing to replace, and nothing is made.
        assert!(replace(&home.path().join("other")).is_err());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    /// A program may have mounted a directory of its user's in a tree of ours.
    #[test]
    fn nothing_is_removed_below_a_mount() {
        const NO_MOUNTS: i32 = 77;
        let home = tempfile::tempdir().unwrap();
        let tree = home.path().join("tree");
        fs::create_dir_all(tree.join("a")).unwrap();
        let child = sys::spawn(false, &mut || {
            let mounted = sys::own_mounts().and_then(|()| {
                let at = tree.join("a");
                Ok(mount("tmpfs", &at, "tmpfs", MountFlags::empty(), None)?)
            });
            if mounted.is_err() {
                sys::exit_now(NO_MOUNTS);
            }
            let precious = tree.join("a/precious");
            fs::write(&precious, "x").unwrap();
            let kept = layermark_fd::remove_tree(&tree).is_err() && precious.exists();
            sys::exit_now(i32::from(!kept));
        });
        match sys::wait_for(child.unwrap()) {
            Some(NO_MOUNTS) => eprintln!("skipped: nothing can be mounted here"),
            code => assert_eq!(code, Some(0)),
        }
    }

    #[test]
    fn starts_empty_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work-old")).unwrap();
        fs::write(dir.path().join("work-old/old"), "x").unwrap();
        fs::write(dir.path().join("kept"), "x").unwrap();
        let work = WorkDir::new(dir.path()).unwrap();
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        fs::write(work.path().join("new"), "x").unwrap();
        let name = work.path().to_owned();
        drop(work);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // As in FUSE: an open file comes back under another name until it is closed.
        let work = WorkDir::new(dir.path()).unwrap();
        assert_ne!(work.path(), name);
        let second = WorkDir::new(dir.path()).unwrap();
        assert!(work.path().exists(), "it is not one that was left");
        drop(second);
        let hidden = work.path().join(".fuse_hidden01");
        fs::write(&hidden, "x").unwrap();
        let open = thread::spawn(move || {
            let started = Instant::now();
            while started.elapsed() < Duration::from_millis(200) {
                let _ = fs::File::create(&hidden);
            }
        });
        drop(work);
        open.join().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
