//! How many processes and threads may exist here: limits of control groups (cgroups(7)) and of users.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::process;

/// A limit of a control group on its processes and threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PidsLimit {
    /// The file with the limit, `pids.max` of the group.
    pub file: PathBuf,
    /// How many there may be.
    pub max: u64,
    /// How many there are, those of groups below included.
    pub current: u64,
    /// How many were refused in this group since it was made (`pids.events`).
    pub refused: u64,
}

/// The limits of the control group of this process, and of those above it.
pub fn of_groups() -> Vec<PidsLimit> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    below(&groups, Path::new("/sys/fs/cgroup"))
}

fn below(groups: &str, mount: &Path) -> Vec<PidsLimit> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        // Version 2 names no controllers.
        let root = match controllers
            .split(',')
            .find(|name| ["", "pids"].contains(name))
        {
            Some("") => mount.to_owned(),
            Some(name) => mount.join(name),
            None => continue,
        };
        let group = root.join(path.trim_start_matches('/'));
        let groups = group.ancestors().take_while(|dir| dir.starts_with(&root));
        found.extend(groups.filter_map(limit));
    }
    found
}

fn limit(group: &Path) -> Option<PidsLimit> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let events = read("pids.events").unwrap_or_default();
    let refused = events.lines().find_map(|line| line.strip_prefix("max "));
    Some(PidsLimit {
        file: group.join("pids.max"),
        // Without a limit it is `max`.
        max: read("pids.max")?.trim().parse().ok()?,
        current: read("pids.current")?.trim().parse().ok()?,
        refused: refused.and_then(|n| n.trim().parse().ok()).unwrap_or(0),
    })
}

/// How many processes and threads a user has, of those that are visible here.
pub fn of_user(uid: u32) -> u64 {
    let threads = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
        let real: u32 = value("Uid:")?.split_whitespace().next()?.parse().ok()?;
        let threads: u64 = value("Threads:")?.trim().parse().ok()?;
        (real == uid).then_some(threads)
    };
    process::all().filter_map(threads).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_versions_are_read_up_to_the_root() {
        let mount = tempfile::tempdir().unwrap();
        let group = |path: &str, files: &[(&str, &str)]| {
            let dir = mount.path().join(path);
            fs::create_dir_all(&dir).unwrap();
            for (name, text) in files {
                fs::write(dir.join(name), text).unwrap();
            }
        };
        let none = [("pids.max", "max\n"), ("pids.current", "7\n")];
        let four = [
            ("pids.max", "4\n"),
            ("pids.current", "3\n"),
            ("pids.events", "max 2\n"),
        ];
        group("slice", &[("pids.max", "99\n"), ("pids.current", "7\n")]);
        group("slice/unit", &none);
        group("pids/a", &four);
        let limit = |path: &str, max, current, refused| PidsLimit {
            file: mount.path().join(path).join("pids.max"),
            max,
            current,
            refused,
        };
        let found = below("0::/slice/unit\n", mount.path());
        assert_eq!(found, [limit("slice", 99, 7, 0)]);
        let found = below("9:cpu:/a\n8:pids:/a\n7:memory\n", mount.path());
        assert_eq!(found, [limit("pids/a", 4, 3, 2)]);
        assert_eq!(below("", mount.path()), []);
    }

    #[test]
    fn our_own_threads_are_counted() {
        // As in a user namespace, whose users have other numbers outside.
        let us = fs::read_to_string("/proc/self/status").unwrap();
        let us = us
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .unwrap();
        let us = us.split_whitespace().next().unwrap().parse().unwrap();
        assert!(of_user(us) >= 1);
    }
}
