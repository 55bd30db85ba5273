//! Block devices in sysfs.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The directory of the device `major:minor`. Containers hide `/sys/dev`, and show the same below
/// `/sys/class`. The number may come from another process: `None` unless it is one.
pub fn directory(number: &str) -> Option<PathBuf> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (major, minor) = number.split_once(':')?;
    if !digits(major) || !digits(minor) {
        return None;
    }
    fs::canonicalize(Path::new("/sys/dev/block").join(number))
        .ok()
        .or_else(|| in_class(Path::new("/sys/class/block"), number))
}

/// The entry of `class` whose file `dev` holds the number.
fn in_class(class: &Path, number: &str) -> Option<PathBuf> {
    let mut entries = fs::read_dir(class).ok()?.flatten();
    let entry = entries.find(|e| read(&e.path().join("dev")).is_some_and(|n| n == number))?;
    fs::canonicalize(entry.path()).ok()
}

/// Text of a file of sysfs, without the end of its line.
pub fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// All devices of this machine that are not partitions, by their directories.
pub fn all() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_device_by_its_number_where_sys_dev_is_hidden() {
        let temp = tempfile::tempdir().unwrap();
        for (name, number) in [("vda", "254:0"), ("vdb", "254:16")] {
            let dir = temp.path().join(name);
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("dev"), format!("{number}\n")).unwrap();
        }
        let found = in_class(temp.path(), "254:16");
        let wanted = fs::canonicalize(temp.path().join("vdb")).unwrap();
        assert_eq!(found, Some(wanted));
        assert_eq!(in_class(temp.path(), "254:1"), None);
        assert_eq!(in_class(&temp.path().join("none"), "254:0"), None);
    }

    #[test]
    fn only_a_device_number_becomes_a_path() {
        for number in ["", ":", "8", "../../etc:0", "8:../x", "999999:999999"] {
            assert_eq!(directory(number), None, "{number}");
        }
    }
}
