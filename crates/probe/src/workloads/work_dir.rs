use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::ProbeError;

/// The directory `work/` below the layer's, for what a trial makes. What is in it goes when this
/// is dropped. Only the probe that a job runs in writes there.
pub struct WorkDir {
    path: PathBuf,
}

impl WorkDir {
    /// Makes it, empty: a trial that was killed may have left something.
    pub fn new(dir: &Path) -> Result<Self, ProbeError> {
        let path = dir.join("work");
        let fail = |e: &io::Error| ProbeError::io("make", &path, e);
        remove(&path).map_err(|e| fail(&e))?;
        fs::create_dir(&path).map_err(|e| fail(&e))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(e) = remove(&self.path) {
            eprintln!(
                "layermark probe: cannot remove {}: {e}",
                self.path.display()
            );
        }
    }
}

/// Removes a directory with all that is in it. FUSE and NFS keep a deleted file under another name
/// (`.fuse_hidden*`, `.nfs*`) until they have heard, a moment later, that it was closed: that is
/// waited for.
fn remove(path: &Path) -> io::Result<()> {
    use io::ErrorKind::{DirectoryNotEmpty, NotFound, ResourceBusy};
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        match fs::remove_dir_all(path) {
            Err(e) if e.kind() == NotFound => return Ok(()),
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
    use super::*;

    #[test]
    fn starts_empty_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        fs::write(dir.path().join("work/old"), "x").unwrap();
        let work = WorkDir::new(dir.path()).unwrap();
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
        fs::write(work.path().join("new"), "x").unwrap();
        drop(work);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        // As FUSE does it: what was open comes back under another name until it is closed.
        let work = WorkDir::new(dir.path()).unwrap();
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
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
