use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write, stderr},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use layermark_model::random_name;

use crate::{ProbeError, clock::monotonic_ns};

/// Prefix of their names.
const PREFIX: &str = "work-";

/// Files left by a probe use at most this part of the free inodes.
const FREE_PART: u64 = 64;
/// A probe leaves at most this many files, so that removing them does not take long.
const MOST_LEFT: u64 = 50_000;

/// New directories of which the quickest is taken.
const TRIED: usize = 3;
/// Files that are created in each of them.
const TRIES: [&str; 2] = ["tried-1", "tried-2"];

/// Directories of this process.
static OURS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A directory in the layer's directory for the files of a trial. Its content is removed on drop,
/// unless it is left to the owner of the layer. Only the probes that run the job write there.
///
/// Each has a name that no other had, because ext4 places a directory by its name if the parent spreads its
/// subdirectories (`chattr +T`). Without a journal ext4 also checks every recently deleted inode of
/// its group before it uses one. Where files were created and deleted repeatedly, creating one then
/// takes twenty times as long. The name is random: processes of different PID namespaces have the same
/// numbers, and forks of one process count from the same number.
pub struct WorkDir {
    path: PathBuf,
}

impl WorkDir {
    /// Creates it. First removes files that a killed trial has left.
    pub fn new(dir: &Path) -> Result<Self, ProbeError> {
        clear(dir)?;
        Self::create(dir)
    }

    fn create(dir: &Path) -> Result<Self, ProbeError> {
        let work = Self::named(dir);
        let made = fs::create_dir(&work.path);
        made.map_err(|e| ProbeError::io("make", &work.path, &e))?;
        Ok(work)
    }

    /// Of several new directories, each with the time to create files in it, the one in which that is fastest. ext4 without
    /// a journal skips recently deleted inodes one by one. After a compiler has run, or where many files were removed,
    /// creating a file takes several times as long in one part of the disk as in another.
    pub fn quickest(
        make: impl Fn() -> Result<(Self, u64), ProbeError>,
    ) -> Result<Self, ProbeError> {
        let mut best = make()?;
        for _ in 1..TRIED {
            let next = make()?;
            if next.1 < best.1 {
                best = next;
            }
        }
        Ok(best.0)
    }

    /// As [`Self::new`], for a tree: the quickest.
    pub fn for_tree(dir: &Path) -> Result<Self, ProbeError> {
        clear(dir)?;
        Self::create_quick(dir)
    }

    fn create_quick(dir: &Path) -> Result<Self, ProbeError> {
        let work = Self::quickest(|| {
            let work = Self::create(dir)?;
            let ns = create_ns(work.path())?;
            Ok((work, ns))
        })?;
        for name in TRIES {
            let path = work.path().join(name);
            fs::remove_file(&path).map_err(|e| ProbeError::io("remove", &path, &e))?;
        }
        Ok(work)
    }

    /// One that another probe creates, in whose directory it is.
    pub fn named(dir: &Path) -> Self {
        Self::at(dir.join(random_name(PREFIX)))
    }

    fn at(path: PathBuf) -> Self {
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

    /// Removes it with its content.
    ///
    /// # Errors
    /// As for [`remove`]. It is tried again on drop.
    pub fn remove(&self) -> io::Result<()> {
        remove(&self.path)
    }
}

/// Removes files that a killed trial has left.
fn clear(dir: &Path) -> Result<(), ProbeError> {
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
    clear().map_err(|e| ProbeError::io("clear", dir, &e))
}

fn ours() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        ours().remove(&self.path);
        if let Err(e) = self.remove() {
            let path = self.path.display();
            // The reader of the stream may have ended.
            let _ = writeln!(stderr(), "layermark probe: cannot remove {path}: {e}");
        }
    }
}

/// Time to create a file in a directory, ns. Two are created and stay, and the shorter time counts: the first may initialise
/// that part of the disk.
pub(super) fn create_ns(dir: &Path) -> Result<u64, ProbeError> {
    let mut least = u64::MAX;
    for name in TRIES {
        let path = dir.join(name);
        let before = monotonic_ns();
        let made = fs::File::create_new(&path);
        least = least.min(monotonic_ns() - before);
        made.map_err(|e| ProbeError::io("create", &path, &e))?;
    }
    Ok(least)
}

/// Replaces a directory and its content by an empty one, or leaves it as it is. That is made under another name, and so in
/// another part of an ext4: see [`WorkDir`]. Returns what was there, to be removed.
pub(super) fn replace(path: &Path) -> Result<WorkDir, ProbeError> {
    let above = path.parent().unwrap_or(path);
    let new = WorkDir::create_quick(above)?;
    let old = above.join(random_name(PREFIX));
    let renamed = fs::rename(path, &old).and_then(|()| {
        fs::rename(new.path(), path).or_else(|e| fs::rename(&old, path).and(Err(e)))
    });
    renamed.map_err(|e| ProbeError::io("rename", path, &e))?;
    Ok(WorkDir::at(old))
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
        replaced.remove().unwrap();
        assert!(!replaced.path().exists());
        drop(replaced);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        // There is nothing to replace, and nothing is made.
        assert!(replace(&home.path().join("other")).is_err());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_quickest_directory_is_kept_and_the_others_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let times = std::cell::RefCell::new(vec![30, 10, 20].into_iter());
        let quickest = WorkDir::quickest(|| {
            let work = WorkDir::new(home.path())?;
            let ns = times.borrow_mut().next().unwrap();
            fs::write(work.path().join(ns.to_string()), "x").unwrap();
            Ok((work, ns))
        });
        let quickest = quickest.unwrap_or_else(|e| panic!("{e}"));
        assert!(quickest.path().join("10").exists());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        let tree = WorkDir::for_tree(home.path()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(fs::read_dir(tree.path()).unwrap().count(), 0);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
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
        // A counter would begin anew in each fork, and processes of two namespaces have one number.
        let random = name
            .file_name()
            .unwrap()
            .to_string_lossy()
            .replace(PREFIX, "");
        assert!(random.len() == 16 && u64::from_str_radix(&random, 16).is_ok());
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
