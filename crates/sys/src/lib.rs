//! What the kernel reports in `/proc` and `/sys`: each file is parsed in one place.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use rustix::fs::statvfs;

pub mod block;
pub mod cgroup;
pub mod fuse_servers;
pub mod io_priority;
pub mod kcmp;
pub mod kernel_log;
pub mod kernel_threads;
mod of_host;
pub mod packages;
pub mod pids;
pub mod process;
pub mod real_time;
pub mod served;
pub mod users;

pub use of_host::is_of_hosts;

/// The start of a file of `/proc` or `/sys`, up to the size of the buffer, in one read: the kernel
/// returns everything at once. Reading to the end takes three more calls, and these files are read
/// around each trial.
fn beginning<'a>(path: &Path, room: &'a mut [u8]) -> io::Result<&'a str> {
    let length = File::open(path)?.read(room)?;
    str::from_utf8(&room[..length]).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// An error about `path` in words. `ENOSPC` also means that no inodes are left, while the disk has room.
pub fn in_words(path: &Path, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::StorageFull
        && path.ancestors().find_map(free_inodes) == Some(0)
    {
        return format!("{error}: no inodes are left (df -i)");
    }
    error.to_string()
}

/// Inodes that this user may still use; `None` where the file system has no fixed number of them.
fn free_inodes(path: &Path) -> Option<u64> {
    let found = statvfs(path).ok()?;
    Some(if found.f_files == 0 {
        u64::MAX
    } else {
        found.f_favail
    })
}

/// Values of `/proc/meminfo`, such as `MemTotal`, bytes. All are of the same moment.
///
/// # Errors
///
/// If the file cannot be read, or a value is missing.
pub fn meminfo<const N: usize>(keys: [&str; N]) -> io::Result<[u64; N]> {
    let mut room = [0; 8192];
    let text = beginning(Path::new("/proc/meminfo"), &mut room)?;
    let mut values = [0; N];
    for (value, key) in values.iter_mut().zip(keys) {
        *value = bytes(text, key).ok_or(io::ErrorKind::InvalidData)?;
    }
    Ok(values)
}

/// The value of a line `KEY: NUMBER kB`, bytes.
fn bytes(text: &str, key: &str) -> Option<u64> {
    let rest = |line: &'_ str| -> Option<u64> {
        let number = line.strip_prefix(key)?.strip_prefix(':')?.trim();
        number.strip_suffix("kB")?.trim().parse().ok()
    };
    text.lines().find_map(rest)?.checked_mul(1024)
}

/// The clock that the kernel uses, such as `tsc`.
///
/// # Errors
///
/// If it cannot be read, as where `/sys` is not mounted.
pub fn clocksource() -> io::Result<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_whole_name() {
        let text = "MemTotal:       1024 kB\nMemFree: 1 kB\nMem: 2 kB\nHugePages_Total:       7\n";
        assert_eq!(bytes(text, "MemTotal"), Some(1 << 20));
        assert_eq!(bytes(text, "Mem"), Some(2048));
        assert_eq!(bytes(text, "HugePages_Total"), None);
        assert_eq!(bytes("rubbish", "MemTotal"), None);
    }

    #[test]
    fn this_machine_has_memory() {
        let [total, free] = meminfo(["MemTotal", "MemAvailable"]).unwrap();
        assert!(total > free && free > 0);
        let e = meminfo(["MemTotal", "MemNone"]).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::InvalidData);
    }
}
