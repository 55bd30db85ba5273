//! Packaged files in a guest's own file system: brought in by the host, and put back by it when
//! they have changed.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::{
    host::{PACKAGED, sync},
    tree::{self, Seen},
    vm::talk::{AT, Answer},
};

#[derive(Default)]
pub(super) struct Packaged {
    /// The file being received, and its bytes to come.
    file: Option<(File, u64)>,
    /// Why a file could not be written, told when they are sealed.
    failed: Option<String>,
    seen: Seen,
}

impl Packaged {
    /// A file of this size comes next. What fails is told by [`Packaged::seal`].
    pub(super) fn begin(&mut self, path: &str, size: u64) {
        self.file = match open(path, size) {
            Ok(file) => (size > 0).then_some((file, size)),
            Err(e) => {
                self.failed.get_or_insert(format!("write {path}: {e}"));
                None
            }
        };
    }

    pub(super) fn store(&mut self, bytes: &[u8]) {
        let Some((file, left)) = &mut self.file else {
            return;
        };
        if let Err(e) = file.write_all(bytes) {
            self.failed
                .get_or_insert(format!("write a packaged file: {e}"));
            self.file = None;
            return;
        }
        *left = left.saturating_sub(bytes.len() as u64);
        if *left == 0 {
            self.file = None;
        }
    }

    /// Remembers the files as they are now, on their disk.
    pub(super) fn seal(&mut self) -> io::Result<()> {
        if let Some(why) = self.failed.take() {
            return Err(io::Error::other(why));
        }
        fs::create_dir_all(packaged())?;
        sync(Path::new(AT))?;
        self.seen = tree::see(&packaged())?;
        Ok(())
    }

    /// Those of `known` that are not as they were; all others are removed.
    pub(super) fn changed(&self, known: &[String]) -> io::Result<Answer> {
        fs::create_dir_all(packaged())?;
        prune(&packaged(), Path::new(""), known)?;
        let now = tree::see(&packaged())?;
        let same = |path: &&String| {
            let path = packaged().join(path);
            now.contains_key(&path) && now.get(&path) == self.seen.get(&path)
        };
        let paths = known.iter().filter(|p| !same(p)).cloned().collect();
        Ok(Answer::Changed { paths })
    }
}

fn packaged() -> PathBuf {
    Path::new(AT).join(PACKAGED)
}

fn open(path: &str, size: u64) -> io::Result<File> {
    let path = packaged().join(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let is_file = path.symlink_metadata().is_ok_and(|m| m.is_file());
    if !is_file {
        tree::remove(&path)?;
    }
    // Not truncated: what was there stays where it lies on the disk.
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)?;
    file.set_len(size)?;
    Ok(file)
}

/// Removes what lies below `root`/`dir` and is not `known`.
fn prune(root: &Path, dir: &Path, known: &[String]) -> io::Result<()> {
    for entry in fs::read_dir(root.join(dir))? {
        let entry = entry?;
        let path = dir.join(entry.file_name());
        let holds = |name: &String| Path::new(name).starts_with(&path);
        if entry.file_type()?.is_dir() && known.iter().any(holds) {
            prune(root, &path, known)?;
        } else if !known.iter().any(|name| Path::new(name) == path) {
            tree::remove(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_files_stay() {
        let home = tempfile::tempdir().unwrap();
        for name in ["a/b", "a/x", "c", "d/e"] {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        let known = ["a/b", "c", "gone"].map(String::from);
        prune(home.path(), Path::new(""), &known).unwrap();
        let left = tree::see(home.path()).unwrap();
        let mut left: Vec<_> = left.keys().collect();
        left.sort();
        assert_eq!(left, [&home.path().join("a/b"), &home.path().join("c")]);
    }
}
