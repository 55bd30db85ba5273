use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    io::{self, Write, stderr},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use layermark_model::random_name;

use crate::{ProbeError, clock::monotonic_ns, error::shown};

/// Prefix of their names.
const PREFIX: &str = "work-";

/// Files left by a probe use at most this part of the free inodes.
const FREE_PART: u64 = 64;
/// A probe leaves at most this many files, so that removing them does not take long.
const MOST_LEFT: u64 = 50_000;

/// New directories of which the quickest is taken, at most.
const CANDIDATES: usize = 3;
/// One is slow if creating a file takes so many times as long as in another one.
const SLOW: u64 = 2;
/// Files that are created to test a candidate, at most. Where creating them was slow, it was so after 10 to 40.
const TEST_FILES: usize = 64;
/// No further file is created after this time, ns.
const TEST_NS: u64 = 4_000_000;
/// The longest median of so many files in turn counts.
const MEDIAN_OF: usize = 16;

/// Names of directories of this process.
static OURS: Mutex<BTreeSet<OsString>> = Mutex::new(BTreeSet::new());

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
    /// Other candidates, and the files that tested this one. They are removed after it.
    beside: Vec<Self>,
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

    /// As [`Self::new`], where many files are created: one in which that is quick. ext4 without a journal skips recently
    /// deleted inodes one by one. After a compiler has run, or where many files were removed, creating a file takes
    /// several times as long in one part of the disk as in another. `least`: the shortest time so far that a file took
    /// in such directories of one layer, ns.
    pub fn quick(dir: &Path, least: &mut Option<u64>) -> Result<Self, ProbeError> {
        clear(dir)?;
        Self::quickest(least, || candidate(dir))
    }

    /// New directories are made until one is not slow. The others stay beside it, because inodes that are deleted now slow
    /// the next ones.
    fn quickest(
        least: &mut Option<u64>,
        make: impl Fn() -> Result<(Self, u64), ProbeError>,
    ) -> Result<Self, ProbeError> {
        let shorter = |a: Option<u64>, b: u64| Some(a.map_or(b, |a| a.min(b)));
        let mut best = make()?;
        let mut others = *least;
        for _ in 1..CANDIDATES {
            // If two take about as long, neither is taken for slow.
            if others.is_some_and(|other| best.1 < other.saturating_mul(SLOW)) {
                break;
            }
            let mut next = make()?;
            if next.1 < best.1 {
                std::mem::swap(&mut best, &mut next);
            }
            others = shorter(others, next.1);
            best.0.beside.push(next.0);
        }
        *least = shorter(*least, best.1);
        Ok(best.0)
    }

    /// One that another probe creates, in whose directory it is.
    pub fn named(dir: &Path) -> Self {
        Self::at(dir.join(random_name(PREFIX)))
    }

    fn at(path: PathBuf) -> Self {
        let work = Self {
            path,
            beside: Vec::new(),
        };
        ours().insert(work.name());
        work
    }

    /// No other directory has it, and it is the same however its parent is named.
    fn name(&self) -> OsString {
        self.path.file_name().unwrap_or_default().to_owned()
    }

    /// Leaves it, with this many files in it, to the owner of the layer, because removing them
    /// would slow the creation of the next files. It is removed now if it uses more than
    /// [`FREE_PART`] of the free inodes.
    pub fn leave(self, files: u64) {
        static LEFT: Mutex<(u64, Vec<WorkDir>)> = Mutex::new((0, Vec::new()));
        let free = rustix::fs::statvfs(&self.path).map_or(0, |fs| fs.f_ffree);
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        let files = files + self.test_files();
        if left.0 + files <= (free / FREE_PART).min(MOST_LEFT) {
            left.0 += files;
            left.1.push(self);
        }
    }

    /// How many files tested it and the other candidates, at most.
    fn test_files(&self) -> u64 {
        let each = self.beside.iter();
        each.map(|beside| TEST_FILES as u64 + beside.test_files())
            .sum()
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
            let name = entry.file_name();
            let made = name.to_string_lossy().starts_with(PREFIX);
            if made && !ours().contains(&name) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    };
    clear().map_err(|e| ProbeError::io("clear", dir, &e))
}

fn ours() -> MutexGuard<'static, BTreeSet<OsString>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        ours().remove(&self.name());
        if let Err(e) = self.remove() {
            let path = shown(&self.path);
            // The reader of the stream may have ended.
            let _ = writeln!(stderr(), "layermark probe: cannot remove {path}: {e}");
        }
    }
}

/// A new directory, and the time to create a file in it, ns. It is empty: the files that test it have moved out of it.
fn candidate(dir: &Path) -> Result<(WorkDir, u64), ProbeError> {
    let mut work = WorkDir::create(dir)?;
    // It is in the same part of the disk, and stays there under another name.
    let inside = work.path().join("test");
    let made = fs::create_dir(&inside);
    made.map_err(|e| ProbeError::io("make", &inside, &e))?;
    let ns = create_ns(&inside)?;
    let outside = WorkDir::named(dir);
    if fs::rename(&inside, outside.path()).is_ok() {
        work.beside.push(outside);
        return Ok((work, ns));
    }
    // Not every layer can rename a directory. To remove the files would slow the next ones.
    let mut other = WorkDir::create(dir)?;
    other.beside.push(work);
    Ok((other, ns))
}

/// Time to create a file in a directory, ns: the longest median of [`MEDIAN_OF`] in turn, of some that stay there.
fn create_ns(dir: &Path) -> Result<u64, ProbeError> {
    let mut all = Vec::with_capacity(TEST_FILES);
    let begun = monotonic_ns();
    while all.len() < TEST_FILES && (all.len() < 2 || monotonic_ns() - begun < TEST_NS) {
        let path = dir.join(all.len().to_string());
        let before = monotonic_ns();
        let made = fs::File::create_new(&path);
        let ns = monotonic_ns() - before;
        match made {
            Ok(_) => all.push(ns),
            // Where there is little room, the files of the work need it.
            Err(_) if !all.is_empty() => break,
            Err(e) => return Err(ProbeError::io("create", &path, &e)),
        }
    }
    Ok(longest_median(&mut all))
}

/// The longest median of [`MEDIAN_OF`] times in turn. A rest of fewer does not count, because one interruption would be its
/// median.
fn longest_median(all: &mut [u64]) -> u64 {
    let of = MEDIAN_OF.min(all.len()).max(1);
    let medians = all.chunks_exact_mut(of).map(|some| {
        some.sort_unstable();
        some[(of - 1) / 2]
    });
    medians.max().unwrap_or_default()
}

/// Replaces a directory and its content by an empty one, or leaves it as it is. That is made under another name, and so in
/// another part of an ext4: see [`WorkDir`]. `least_ns`: as for [`WorkDir::quick`]. Returns the old directory, to be removed, and
/// the files that tested the new one, to be kept while that is in use.
pub(super) fn replace(path: &Path, least_ns: &mut Option<u64>) -> Result<[WorkDir; 2], ProbeError> {
    let above = path.parent().unwrap_or(path);
    let new = WorkDir::quickest(least_ns, || candidate(above))?;
    let old = above.join(random_name(PREFIX));
    let renamed = fs::rename(path, &old).and_then(|()| {
        fs::rename(new.path(), path).or_else(|e| fs::rename(&old, path).and(Err(e)))
    });
    renamed.map_err(|e| ProbeError::io("rename", path, &e))?;
    Ok([WorkDir::at(old), new])
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
        let [replaced, tests] = replace(&dir, &mut None).unwrap();
        assert_ne!(fs::metadata(&dir).unwrap().ino(), old);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        assert!(replaced.path().join("a/b").is_dir());
        replaced.remove().unwrap();
        assert!(!replaced.path().exists());
        drop((replaced, tests));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        // There is nothing to replace, and nothing is made.
        assert!(replace(&home.path().join("other"), &mut None).is_err());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    /// Makes directories that take so long, and returns the time of the one that was taken and how many were made.
    fn taken(times: &[u64], least: &mut Option<u64>) -> (u64, usize) {
        let home = tempfile::tempdir().unwrap();
        let rest = std::cell::RefCell::new(times.iter());
        let quickest = WorkDir::quickest(least, || {
            let work = WorkDir::create(home.path())?;
            let ns = *rest.borrow_mut().next().unwrap();
            fs::write(work.path().join("ns"), ns.to_string()).unwrap();
            Ok((work, ns))
        });
        let quickest = quickest.unwrap_or_else(|e| panic!("{e}"));
        let ns = fs::read_to_string(quickest.path().join("ns")).unwrap();
        let made = fs::read_dir(home.path()).unwrap().count();
        assert_eq!(made, times.len() - rest.borrow().len(), "none is removed");
        (ns.parse().unwrap(), made)
    }

    #[test]
    fn directories_are_made_until_one_is_not_slow() {
        let mut least = None;
        // The first has nothing beside it.
        assert_eq!(taken(&[12, 10, 9], &mut least), (10, 2));
        assert_eq!(least, Some(10));
        assert_eq!(taken(&[19, 9], &mut least), (19, 1));
        assert_eq!(taken(&[20, 9, 8], &mut least), (9, 2));
        assert_eq!(taken(&[50, 60, 40, 9], &mut least), (40, 3));
        assert_eq!(least, Some(9));
        assert_eq!(taken(&[50, 10, 9], &mut None), (10, 2));
        assert_eq!(taken(&[10, 50, 9], &mut None), (10, 2));
    }

    #[test]
    fn a_candidate_is_empty_and_its_tests_stay_until_it_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let names = |at: &Path| fs::read_dir(at).unwrap().map(|e| e.unwrap().path());
        let mut least = None;
        let work = WorkDir::quick(home.path(), &mut least).unwrap_or_else(|e| panic!("{e}"));
        assert!(least.is_some_and(|ns| ns > 0));
        assert_eq!(names(work.path()).count(), 0);
        let tests: Vec<usize> = names(home.path()).map(|at| names(&at).count()).collect();
        let files: usize = tests.iter().sum();
        // Two candidates at least, each with its tests.
        assert!(tests.len() >= 4 && files >= 4, "{tests:?}");
        assert!(files as u64 <= work.test_files(), "{tests:?}");
        drop(work);
        assert_eq!(names(home.path()).count(), 0);
    }

    #[test]
    fn one_interruption_makes_no_directory_slow() {
        let mut quick = [10; 2 * MEDIAN_OF + 1];
        (quick[3], quick[2 * MEDIAN_OF]) = (4000, 4000);
        assert_eq!(longest_median(&mut quick), 10);
        let mut slow = [10; 2 * MEDIAN_OF];
        slow[MEDIAN_OF..].fill(70);
        assert_eq!(longest_median(&mut slow), 70);
        assert_eq!(longest_median(&mut [4000, 10]), 10);
        assert_eq!(longest_median(&mut []), 0);
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
