//! Which processes serve a file system in user space.

use std::{fs, path::Path};

const DEVICE: &str = "/dev/fuse";

/// The processes that have the connection open, by `fuse_connection` in `/proc/PID/fdinfo`, which Linux 6.18 has. Empty where
/// the kernel does not tell.
pub fn of(connection: u64) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid| serves(*pid, connection)).collect()
}

fn serves(pid: u32, connection: u64) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let Ok(open) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    open.flatten().any(|fd| {
        let of_fuse = fs::read_link(fd.path()).is_ok_and(|to| to == Path::new(DEVICE));
        let info = process.join("fdinfo").join(fd.file_name());
        of_fuse && fs::read_to_string(info).is_ok_and(|text| number(&text) == Some(connection))
    })
}

fn number(info: &str) -> Option<u64> {
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("fuse_connection:"));
    line?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_of_an_open_device_is_read() {
        let info = "pos:\t0\nflags:\t02100002\nmnt_id:\t59\nino:\t90\nfuse_connection:\t39\n";
        assert_eq!(number(info), Some(39));
        assert_eq!(number("pos:\t0\n"), None, "an older kernel");
        assert!(of(u64::MAX).is_empty());
    }
}
