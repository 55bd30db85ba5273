//! The one directory that a run works in: fresh, marked as ours, gone when the run ends.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};

use crate::{LayerError, held::Held, janitor, mounts, tree};

/// How long a file system may take to answer before the work directory on it is removed.
const LAST_WORD: Duration = Duration::from_secs(10);

/// Every work directory's name begins so.
pub const PREFIX: &str = "layermark-";
/// File in it that says whose it is.
pub(crate) const MARKER: &str = ".layermark";
const MARKER_TEXT: &str = "A work directory of layermark. It is removed when its run ends.\n";

/// A fresh directory below one that the user named. Removed when dropped.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    /// Locked while we live: whoever can lock it knows that its owner has died.
    _marker: Held,
    /// Locked while we live: one run at a time on a directory, since two would measure each other.
    _parent: File,
}

impl WorkDir {
    /// Makes a fresh directory in `parent`, which has to exist, and removes those that dead runs
    /// have left behind there.
    pub fn create(parent: &Path) -> Result<Self, LayerError> {
        let bad = |why: String| LayerError::BadDir {
            path: parent.into(),
            why,
        };
        let parent = fs::canonicalize(parent).map_err(|e| bad(in_words(&e)))?;
        if !parent.is_dir() {
            return Err(bad("it is not a directory".into()));
        }
        let lock = File::open(&parent).map_err(|e| bad(in_words(&e)))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(LayerError::Busy { path: parent }),
            Err(e) => return Err(bad(format!("it cannot be locked: {e}"))),
            Ok(()) => {}
        }
        // Their dirt is no reason not to run.
        let _ = reap(&parent);
        // Told before it is there: we may be killed at any moment.
        let path = fresh(&parent, janitor::watch).map_err(|e| bad(in_words(&e)))?;
        let marker = mark(&path).map_err(|e| {
            let _ = tree::remove(&path);
            bad(in_words(&e))
        })?;
        Ok(Self {
            path,
            _marker: marker,
            _parent: lock,
        })
    }

    /// Where it is, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if !mounts::answers(&self.path, LAST_WORD) {
            // The janitor, a process of its own, waits for it.
            return;
        }
        if let Err(e) = tree::remove_marked(&self.path) {
            eprintln!("layermark: could not remove {}: {e}", self.path.display());
        }
    }
}

/// Why a directory cannot be used.
pub(crate) fn in_words(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::NotFound => "it does not exist".into(),
        io::ErrorKind::NotADirectory => "it is not a directory".into(),
        io::ErrorKind::PermissionDenied => "you may not write to it".into(),
        io::ErrorKind::ReadOnlyFilesystem => "it is on a read-only file system".into(),
        io::ErrorKind::StorageFull => "its disk is full".into(),
        _ => e.to_string(),
    }
}

/// Makes a directory whose name nobody has used; `tell` hears of each name before it is tried.
pub(crate) fn fresh(parent: &Path, tell: impl Fn(&Path)) -> io::Result<PathBuf> {
    let started = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |t| t.as_nanos() as u64);
    for attempt in 0..100u64 {
        let words = [started, attempt, u64::from(std::process::id())];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let name = xxhash_rust::xxh3::xxh3_64(&bytes) & 0xff_ffff_ffff;
        let path = parent.join(format!("{PREFIX}{name:010x}"));
        // What is there already is not ours to tell of.
        if path.symlink_metadata().is_ok() {
            continue;
        }
        tell(&path);
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
            Ok(()) => return Ok(path),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Writes the marker and locks it.
pub(crate) fn mark(dir: &Path) -> io::Result<Held> {
    let mut marker = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(dir.join(MARKER))?;
    // Locked before it can be taken for a marker: no reaper finds a marker that is free.
    flock(&marker, FlockOperation::NonBlockingLockExclusive)?;
    marker.write_all(MARKER_TEXT.as_bytes())?;
    Held::new(marker)
}

/// Whether `dir` is a work directory of ours: by its name, owner and marker.
pub(crate) fn is_ours(dir: &Path) -> bool {
    open_marker(dir).is_some()
}

/// Whether `dir` was made and its maker died before it had written the marker: there is nothing in
/// it but the marker's beginning.
pub(crate) fn is_begun(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else {
        return false;
    };
    has_our_name(dir)
        && entries.flatten().all(|e| {
            let size = e.metadata().map_or(u64::MAX, |m| m.len());
            e.file_name() == MARKER && size < MARKER_TEXT.len() as u64
        })
}

/// A directory of this user's with a name as we give them.
fn has_our_name(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|n| n.to_str());
    let us = rustix::process::geteuid().as_raw();
    name.is_some_and(|n| n.starts_with(PREFIX))
        && dir
            .symlink_metadata()
            .is_ok_and(|meta| meta.is_dir() && meta.uid() == us)
}

fn open_marker(dir: &Path) -> Option<File> {
    if !has_our_name(dir) {
        return None;
    }
    let mut marker = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(dir.join(MARKER))
        .ok()?;
    let mut text = String::new();
    let limit = MARKER_TEXT.len() as u64 + 1;
    Read::by_ref(&mut marker)
        .take(limit)
        .read_to_string(&mut text)
        .ok()?;
    (text == MARKER_TEXT).then_some(marker)
}

/// Removes the work directories in `parent` whose run has died without its janitor (a power cut,
/// a crash of the kernel). Those of living runs and anything else are left alone.
pub fn reap(parent: &Path) -> io::Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        let Some(marker) = open_marker(&path) else {
            continue;
        };
        if flock(&marker, FlockOperation::NonBlockingLockExclusive).is_ok()
            && tree::remove_marked(&path).is_ok()
        {
            removed.push(path);
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_a_fresh_directory_and_removes_it() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("precious"), b"user's").unwrap();
        let work = WorkDir::create(home.path()).unwrap();
        let path = work.path().to_path_buf();
        fs::create_dir(path.join("sub")).unwrap();
        fs::write(path.join("sub/file"), b"ours").unwrap();
        let again = WorkDir::create(home.path()).unwrap_err();
        assert!(matches!(again, LayerError::Busy { .. }), "{again}");
        assert!(again.hint().unwrap().contains("--dir"));
        drop(work);
        assert!(!path.exists());
        assert_eq!(fs::read(home.path().join("precious")).unwrap(), b"user's");
        WorkDir::create(home.path()).unwrap();
    }

    #[test]
    fn refuses_what_is_not_a_directory_to_write_in() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        fs::write(&file, b"x").unwrap();
        for (path, why) in [
            (file.as_path(), "not a directory"),
            (&home.path().join("absent"), "does not exist"),
            (Path::new("/proc"), "cannot work in /proc"),
        ] {
            let e = WorkDir::create(path).unwrap_err();
            assert!(e.to_string().contains(why), "{e}");
            assert!(e.hint().is_some() && e.is_usage());
        }
    }

    #[test]
    fn reaps_the_dead_and_spares_the_living_and_strangers() {
        let home = tempfile::tempdir().unwrap();
        let dead = fresh(home.path(), |_| {}).unwrap();
        drop(mark(&dead).unwrap());
        let living = fresh(home.path(), |_| {}).unwrap();
        let _lock = mark(&living).unwrap();
        let stranger = home.path().join("layermark-results");
        fs::create_dir(&stranger).unwrap();
        fs::write(stranger.join(MARKER), b"something else").unwrap();
        // A process that another test is starting has a copy of the lock until it runs its program.
        let mut tries = (0..200).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            reap(home.path()).unwrap()
        });
        let reaped = tries.find(|reaped| !reaped.is_empty());
        assert_eq!(reaped.unwrap_or_default(), std::slice::from_ref(&dead));
        assert!(!dead.exists() && living.exists() && stranger.exists());
    }
}
