//! A copy of layermark that a launcher brought to a node for one task, which removes it.

use std::{env, fs, io, os::unix::fs::MetadataExt, path::Path};

use layermark_model::random_name;

/// How names of copies begin. No other file has such a name.
const PREFIX: &str = "layermark-copy-";

/// Argument of a task, and of its janitor, whose program is such a copy.
pub const COPIED: &str = "--copied";

/// Path of a new copy in a directory. Its name cannot be guessed, so nobody else makes a file there first.
pub(crate) fn path_in(dir: &str) -> String {
    let dir = dir.trim_end_matches('/');
    format!("{dir}/{}", random_name(PREFIX))
}

/// Removes the file of this program, which is a copy. Called by the process of a task that ends last.
///
/// # Errors
///
/// If it cannot be removed.
pub fn remove() -> io::Result<()> {
    remove_at(&env::current_exe()?, Path::new("/proc/self/exe"))
}

/// Removes `path` if it has the name of a copy, and is the file `runs`.
fn remove_at(path: &Path, runs: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if !name.starts_with(PREFIX) {
        return Ok(());
    }
    let (there, own) = match (fs::symlink_metadata(path), fs::metadata(runs)) {
        (Err(e), _) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        (there, own) => (there?, own?),
    };
    if (there.dev(), there.ino()) != (own.dev(), own.ino()) {
        return Ok(());
    }
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_copy_is_removed_and_no_other_file_of_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        let (own, copy) = (at.join("layermark"), path_in(at.to_str().unwrap()));
        let copy = Path::new(&copy);
        for path in [&own, copy] {
            fs::write(path, "x").unwrap();
        }
        remove_at(&own, &own).unwrap();
        remove_at(copy, &own).unwrap();
        assert!(own.exists() && copy.exists());
        remove_at(copy, copy).unwrap();
        remove_at(copy, &own).unwrap();
        assert!(!copy.exists());
        std::os::unix::fs::symlink(&own, copy).unwrap();
        remove_at(copy, &own).unwrap();
        assert!(fs::symlink_metadata(copy).is_ok());
    }
}
