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

/// How far the kernel reads ahead on the file system with this device number, KiB: `read_ahead_kb` of its
/// `bdi` (Documentation/ABI/testing/sysfs-class-bdi). A partition has that of its disk.
pub fn read_ahead_kb(number: &str) -> Option<u64> {
    let disk = directory(number).map(|dir| match (dir.join("partition").exists(), dir.parent()) {
        (true, Some(disk)) => disk.join("bdi"),
        _ => dir.join("bdi"),
    });
    let (major, minor) = number.split_once(':')?;
    let of = format!(
        "{}:{}",
        major.parse::<u32>().ok()?,
        minor.parse::<u32>().ok()?
    );
    let bdi = disk.unwrap_or_else(|| Path::new("/sys/class/bdi").join(of));
    read(&bdi.join("read_ahead_kb"))?.parse().ok()
}

/// Whether a device-mapper device encrypts: cryptsetup gives it such a UUID.
pub fn encrypts(disk: &Path) -> bool {
    read(&disk.join("dm/uuid")).is_some_and(|uuid| uuid.starts_with("CRYPT-"))
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
    fn a_volume_of_cryptsetup_encrypts() {
        let temp = tempfile::tempdir().unwrap();
        let uuid = |text: &str| {
            fs::create_dir_all(temp.path().join("dm")).unwrap();
            fs::write(temp.path().join("dm/uuid"), text).unwrap();
            encrypts(temp.path())
        };
        assert!(!encrypts(temp.path()), "a disk");
        assert!(!uuid("LVM-YPq1\n"));
        assert!(uuid("CRYPT-LUKS2-1f0c-data\n"));
    }

    #[test]
    fn the_read_ahead_of_a_disk_is_a_number() {
        let disks = all().filter_map(|disk| read(&disk.join("dev")));
        let told: Vec<_> = disks.filter_map(|n| read_ahead_kb(&n)).collect();
        if told.is_empty() {
            eprintln!("skipped: no block device is seen here");
        }
        assert_eq!(read_ahead_kb("../x:0"), None);
    }

    #[test]
    fn only_a_device_number_becomes_a_path() {
        for number in ["", ":", "8", "../../etc:0", "8:../x", "999999:999999"] {
            assert_eq!(directory(number), None, "{number}");
        }
    }
}
