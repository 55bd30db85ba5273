//! What limits a process: its user namespace, and the memory and CPU time of its control group.

use std::{
    fs,
    path::{Path, PathBuf},
};

use layermark_sys::users::{UidMap, UidRange};

/// Notes about the process whose directory in `/proc` is given. What cannot be read is left out.
pub(super) fn of(process: &Path) -> Vec<(String, String)> {
    let mut notes = Vec::new();
    let mut note = |name: &str, value: String| notes.push((name.to_owned(), value));
    if let Ok(map) = UidMap::of(process) {
        note("user_namespace", user_namespace(&map));
    }
    let groups = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
    if let Some(bytes) = memory(&groups) {
        note("memory_limit", format!("{bytes} bytes"));
    }
    if let Some(cpus) = cpus(&groups) {
        note("cpu_limit", format!("{cpus} CPUs"));
    }
    notes
}

fn user_namespace(map: &UidMap) -> String {
    if map.is_of_machine() {
        return "none".into();
    }
    let told = |r: &UidRange| {
        let UidRange {
            inside,
            outside,
            count,
        } = r;
        format!("{count} users from {inside} are {outside} outside")
    };
    let ranges: Vec<String> = map.ranges().iter().map(told).collect();
    ranges.join(", ")
}

/// Files of a control group, of version 2 or 1. The last part of `names` is tried for each version.
fn read(groups: &str, controller: &str, names: [&str; 2]) -> Option<String> {
    let find = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let below = |dir: &str| PathBuf::from(dir).join(path.trim_start_matches('/'));
        if controllers.is_empty() {
            return ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
                .iter()
                .find_map(|dir| fs::read_to_string(below(dir).join(names[0])).ok());
        }
        let has = controllers.split(',').any(|c| c == controller);
        let dir = format!("/sys/fs/cgroup/{controller}");
        has.then(|| fs::read_to_string(below(&dir).join(names[1])).ok())?
    };
    groups.lines().find_map(find).map(|text| text.trim().into())
}

/// Longest memory that is a limit: without one, version 1 has the largest multiple of a page.
const NO_LIMIT: u64 = 1 << 62;

fn memory(groups: &str) -> Option<u64> {
    let text = read(groups, "memory", ["memory.max", "memory.limit_in_bytes"])?;
    text.parse().ok().filter(|bytes| *bytes < NO_LIMIT)
}

fn cpus(groups: &str) -> Option<f64> {
    let quota = read(groups, "cpu", ["cpu.max", "cpu.cfs_quota_us"])?;
    let (quota, period) = match quota.split_once(' ') {
        Some((quota, period)) => (quota.to_owned(), period.to_owned()),
        None => (quota, read(groups, "cpu", ["", "cpu.cfs_period_us"])?),
    };
    let share = quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?;
    (share > 0.0).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_users_is_told_in_words() {
        assert_eq!(user_namespace(&"0 0 4294967295\n".into()), "none");
        assert_eq!(
            user_namespace(&"0 1000 1\n         1     100000      65536\n".into()),
            "1 users from 0 are 1000 outside, 65536 users from 1 are 100000 outside"
        );
    }

    #[test]
    fn what_has_no_limit_has_no_note() {
        assert_eq!(memory("0::/no-such-group\n"), None);
        assert_eq!(cpus("7:cpu,cpuacct:/no-such-group\n"), None);
        assert!(of(Path::new("/nonexistent")).is_empty());
        let names: Vec<_> = of(Path::new("/proc/self"))
            .into_iter()
            .map(|n| n.0)
            .collect();
        assert!(names.contains(&"user_namespace".to_owned()), "{names:?}");
    }
}
