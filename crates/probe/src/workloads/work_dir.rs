use std::{
    fs, io,
    path::{Path, PathBuf},
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
        match fs::remove_dir_all(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(fail(&e)),
            _ => {}
        }
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
        if let Err(e) = fs::remove_dir_all(&self.path) {
            eprintln!(
                "layermark probe: cannot remove {}: {e}",
                self.path.display()
            );
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
    }
}
