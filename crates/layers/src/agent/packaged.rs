//! Packaged files in a guest that has a disk: the host sends them, and the guest restores them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::SystemTime,
};

use layermark_fd::dated;

use crate::{
    host::{PACKAGED, sync},
    removal,
    tree::{self, Seen},
};

/// The files received so far.
pub(crate) struct Packaged {
    /// Directory of the layer.
    at: PathBuf,
    root: PathBuf,
    /// The file being received: the file, its missing bytes, and its modification time.
    file: Option<(File, u64, SystemTime)>,
    /// The first failure to create something, reported by the next `Seal`.
    failed: Option<String>,
    /// State of regular files at the last `Seal`.
    seen: Seen,
    /// Names of all files, directories and links.
    known: BTreeSet<PathBuf>,
    links: BTreeMap<String, String>,
    /// Modification times of directories.
    directories: BTreeMap<String, SystemTime>,
}

impl Packaged {
    /// An empty set, in the layer at `at`.
    pub(crate) fn below(at: impl Into<PathBuf>) -> Self {
        let at = at.into();
        Self {
            root: at.join(PACKAGED),
            at,
            file: None,
            failed: None,
            seen: Seen::new(),
            known: BTreeSet::new(),
            links: BTreeMap::new(),
            directories: BTreeMap::new(),
        }
    }

    /// Makes a file. [`Packaged::store`] receives its bytes.
    pub(crate) fn begin(&mut self, path: &str, size: u64, runs: bool, modified: SystemTime) {
        let made = self.begun(path, size, runs, modified);
        self.note(path, made);
    }

    /// Makes a directory, or a link with this text.
    pub(crate) fn make(&mut self, path: &str, link: Option<&str>, modified: SystemTime) {
        let made = self.made(path, link, modified);
        self.note(path, made);
    }

    fn note(&mut self, path: &str, made: io::Result<()>) {
        self.known.insert(path.into());
        if let Err(e) = made {
            self.failed.get_or_insert(format!("write {path}: {e}"));
        }
    }

    fn begun(&mut self, path: &str, size: u64, runs: bool, modified: SystemTime) -> io::Result<()> {
        self.file = None;
        let path = self.root.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let is_file = path.symlink_metadata().is_ok_and(|m| m.is_file());
        if !is_file {
            removal::remove(&path)?;
        }
        // Not truncated: existing data keeps its place on the disk.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        file.set_len(size)?;
        if runs {
            file.set_permissions(fs::Permissions::from_mode(0o755))?;
        }
        if size == 0 {
            return dated(&file, modified);
        }
        self.file = Some((file, size, modified));
        Ok(())
    }

    fn made(&mut self, name: &str, link: Option<&str>, modified: SystemTime) -> io::Result<()> {
        let path = self.root.join(name);
        let Some(text) = link else {
            let is_dir = path.symlink_metadata().is_ok_and(|m| m.is_dir());
            if !is_dir {
                removal::remove(&path)?;
            }
            self.directories.insert(name.to_owned(), modified);
            return fs::create_dir_all(path);
        };
        removal::remove(&path)?;
        self.links.insert(name.to_owned(), text.to_owned());
        symlink(text, path)
    }

    /// Writes received bytes to the current file.
    pub(crate) fn store(&mut self, bytes: &[u8]) {
        let Some((mut file, left, modified)) = self.file.take() else {
            return;
        };
        let left = left.saturating_sub(bytes.len() as u64);
        let stored = file.write_all(bytes).and_then(|()| match left {
            0 => dated(&file, modified),
            _ => Ok(()),
        });
        match stored {
            Ok(()) if left > 0 => self.file = Some((file, left, modified)),
            Ok(()) => {}
            Err(e) => {
                self.failed
                    .get_or_insert(format!("write a packaged file: {e}"));
            }
        }
    }

    /// Records all of it as it is now, and writes it to its disk.
    pub(crate) fn seal(&mut self) -> io::Result<()> {
        if let Some(why) = self.failed.take() {
            return Err(io::Error::other(why));
        }
        fs::create_dir_all(&self.root)?;
        // Done last, because adding files to a directory changes its time.
        for (name, modified) in &self.directories {
            tree::set_time(&self.root.join(name), *modified)?;
        }
        sync(&self.at)?;
        self.seen = tree::see(&self.root)?;
        Ok(())
    }

    /// Removes files that were never sent, and lists those that changed after they were sealed.
    pub(crate) fn changed(&self) -> io::Result<Vec<String>> {
        fs::create_dir_all(&self.root)?;
        prune(&self.root, Path::new(""), &self.known)?;
        let now = tree::see(&self.root)?;
        let names = self.known.iter().filter_map(|name| name.to_str());
        let changed = names.filter(|name| !self.same(name, &now));
        Ok(changed.map(str::to_owned).collect())
    }

    fn same(&self, name: &str, now: &Seen) -> bool {
        let path = self.root.join(name);
        if let Some(text) = self.links.get(name) {
            return fs::read_link(path).is_ok_and(|found| found == Path::new(text));
        }
        match self.seen.get(&path) {
            Some(seen) => now.get(&path) == Some(seen),
            None => path.symlink_metadata().is_ok_and(|m| m.is_dir()),
        }
    }
}

/// Removes everything below `root`/`dir` that is not in `known`.
fn prune(root: &Path, dir: &Path, known: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(dir))? {
        let entry = entry?;
        let path = dir.join(entry.file_name());
        // Paths are ordered: those below a directory follow it.
        let next = known.range(path.clone()..).next();
        if entry.file_type()?.is_dir() && next.is_some_and(|name| name.starts_with(&path)) {
            prune(root, &path, known)?;
        } else if !known.contains(&path) {
            removal::remove(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn long_ago() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(1_234_567_890_123_456_789)
    }

    fn sent(at: &Path) -> Packaged {
        let mut packaged = Packaged::below(at);
        packaged.make("bin", None, long_ago());
        packaged.begin("bin/run", 3, true, long_ago());
        packaged.store(b"#");
        packaged.store(b"!x");
        packaged.begin("empty", 0, false, long_ago());
        packaged.make("lib", Some("usr/lib"), long_ago());
        packaged.make("proc", None, long_ago());
        packaged.seal().unwrap();
        packaged
    }

    #[test]
    fn what_was_sent_is_there_with_its_links_and_programs() {
        let home = tempfile::tempdir().unwrap();
        let packaged = sent(home.path());
        let root = home.path().join(PACKAGED);
        let mode = root.join("bin/run").metadata().unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o755);
        assert_eq!(fs::read(root.join("bin/run")).unwrap(), b"#!x");
        assert_eq!(
            fs::read_link(root.join("lib")).unwrap(),
            Path::new("usr/lib")
        );
        assert!(root.join("proc").is_dir());
        for name in ["bin", "bin/run", "empty", "proc"] {
            let modified = root.join(name).metadata().unwrap().modified();
            assert_eq!(modified.unwrap(), long_ago(), "{name}");
        }
        assert!(packaged.changed().unwrap().is_empty());
    }

    #[test]
    fn what_has_changed_is_named_and_what_is_not_known_goes() {
        let home = tempfile::tempdir().unwrap();
        let packaged = sent(home.path());
        let root = home.path().join(PACKAGED);
        fs::create_dir_all(root.join("bin/more/deep")).unwrap();
        fs::write(root.join("bin/extra"), b"x").unwrap();
        fs::write(root.join("bin/run"), b"other").unwrap();
        fs::remove_file(root.join("lib")).unwrap();
        symlink("elsewhere", root.join("lib")).unwrap();
        fs::remove_dir(root.join("proc")).unwrap();
        let changed = packaged.changed().unwrap();
        assert_eq!(changed, ["bin/run", "lib", "proc"]);
        assert!(!root.join("bin/extra").exists() && !root.join("bin/more").exists());
        assert!(root.join("empty").exists());
    }

    #[test]
    fn what_could_not_be_made_is_told_once() {
        let home = tempfile::tempdir().unwrap();
        let mut packaged = sent(home.path());
        packaged.begin("empty/below", 1, false, long_ago());
        let e = packaged.seal().unwrap_err();
        assert!(e.to_string().contains("empty/below"), "{e}");
        packaged.seal().unwrap();
    }
}
