//! Limits of control groups that refill: CPU quotas and rates of I/O. Meaning of the files:
//! Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/blkio-controller.rst and scheduler/sched-bwc.rst of the
//! kernel. Both versions may be mounted at the same time.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use layermark_model::{Limited, Throttled};

/// A limit of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupLimit {
    /// What is limited.
    pub of: Limited,
    /// CPUs, bytes per second or operations per second.
    pub rate: f64,
    /// `major:minor` of the limited device; `None` for a CPU quota.
    pub device: Option<String>,
    /// The file that holds it, such as `cpu.max`.
    pub file: &'static str,
    /// Directory of the group.
    pub group: PathBuf,
}

/// Limits of the groups of a process and of those above them: all of them hold. Empty if the groups cannot
/// be read.
pub fn limits(pid: u32) -> Vec<GroupLimit> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let dirs = directories(&groups, &mounts);
    dirs.iter().flat_map(|dir| limits_in(dir)).collect()
}

/// The directories of all groups: that of each controller, and those above it up to the mount.
fn directories(groups: &str, mounts: &str) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let mut fields = before.split(' ').skip(3);
        let (Some(root), Some(at)) = (fields.next(), fields.next()) else {
            continue;
        };
        let mut after = after.split(' ');
        let (kind, options) = (after.next(), after.nth(1).unwrap_or_default());
        // Lines of version 1 name their controllers, which are options of the mount as well.
        let is_here = |controllers: &str| match kind {
            Some("cgroup2") => controllers.is_empty(),
            Some("cgroup") => {
                let first = controllers.split(',').next().unwrap_or_default();
                !first.is_empty() && options.split(',').any(|o| o == first)
            }
            _ => false,
        };
        let path = groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            is_here(controllers).then_some(path)
        });
        let below = path.and_then(|path| Path::new(path).strip_prefix(root).ok());
        let all = below.into_iter().flat_map(Path::ancestors);
        found.extend(all.map(|below| Path::new(at).join(below)));
    }
    found
}

/// Files of version 1 that limit a device, a line `MAJOR:MINOR RATE` each.
const DEVICE_FILES: [(&str, Limited); 4] = [
    ("blkio.throttle.read_bps_device", Limited::ReadBytes),
    ("blkio.throttle.write_bps_device", Limited::WrittenBytes),
    ("blkio.throttle.read_iops_device", Limited::Reads),
    ("blkio.throttle.write_iops_device", Limited::Writes),
];
/// Keys of `io.max`.
const KEYS: [(&str, Limited); 4] = [
    ("rbps", Limited::ReadBytes),
    ("wbps", Limited::WrittenBytes),
    ("riops", Limited::Reads),
    ("wiops", Limited::Writes),
];
const CPU_MAX: &str = "cpu.max";
const CPU_QUOTA: &str = "cpu.cfs_quota_us";
const IO_MAX: &str = "io.max";

fn limits_in(group: &Path) -> Vec<GroupLimit> {
    let text = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
    let limit = |of, rate, device, file| GroupLimit {
        of,
        rate,
        device,
        file,
        group: group.to_owned(),
    };
    let mut found = Vec::new();
    let quota = format!("{} {}", text(CPU_QUOTA).trim(), text("cpu.cfs_period_us"));
    for (file, text) in [(CPU_MAX, text(CPU_MAX)), (CPU_QUOTA, quota)] {
        found.extend(cpus(&text).map(|cpus| limit(Limited::Cpu, cpus, None, file)));
    }
    for line in text(IO_MAX).lines() {
        let (device, rates) = line.split_once(' ').unwrap_or_default();
        for (key, rate) in rates.split(' ').filter_map(|pair| pair.split_once('=')) {
            let of = KEYS.into_iter().find(|(name, _)| *name == key);
            let rate = rate.parse().ok();
            let here = of.zip(rate);
            found.extend(here.map(|((_, of), r)| limit(of, r, Some(device.into()), IO_MAX)));
        }
    }
    for (file, of) in DEVICE_FILES {
        for line in text(file).lines() {
            let (device, rate) = line.split_once(' ').unwrap_or_default();
            let rate = rate.trim().parse().ok();
            found.extend(rate.map(|rate| limit(of, rate, Some(device.into()), file)));
        }
    }
    found
}

/// A quota and a period, microseconds. Without a quota it is `max` or -1.
fn cpus(text: &str) -> Option<f64> {
    let mut fields = text.split_ascii_whitespace();
    let quota: f64 = fields.next()?.parse().ok()?;
    let period: f64 = fields.next()?.parse().ok()?;
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// The counters of groups with a CPU quota. The files stay open, because they are read around each turn.
#[derive(Debug, Default)]
pub struct Throttles(Vec<File>);

impl Throttles {
    /// Those of these limits.
    pub fn of<'a>(limits: impl IntoIterator<Item = &'a GroupLimit>) -> Self {
        let quotas = limits.into_iter().filter(|l| l.of == Limited::Cpu);
        let groups: BTreeSet<&Path> = quotas.map(|l| l.group.as_path()).collect();
        let stat = |group: &Path| File::open(group.join("cpu.stat")).ok();
        Self(groups.into_iter().filter_map(stat).collect())
    }

    /// Sums over the groups since each was made; `None` without a quota.
    pub fn sum(&self) -> Option<Throttled> {
        let mut sum = None;
        for file in &self.0 {
            let mut room = [0; 1024];
            let length = file.read_at(&mut room, 0).unwrap_or(0);
            let read = throttled(&String::from_utf8_lossy(&room[..length]));
            let sum: &mut Throttled = sum.get_or_insert_default();
            (sum.times, sum.ns) = (sum.times + read.times, sum.ns + read.ns);
        }
        sum
    }
}

/// Lines `KEY VALUE` of `cpu.stat`. Version 2 counts microseconds, version 1 nanoseconds.
fn throttled(text: &str) -> Throttled {
    let value = |key: &str| -> Option<u64> {
        let of = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(of)
    };
    let us = value("throttled_usec").map(|us| us * 1000);
    Throttled {
        times: value("nr_throttled").unwrap_or(0),
        ns: us.or_else(|| value("throttled_time")).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_groups_of_both_versions_and_those_above_them() {
        let mounts = "32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
            38 31 0:35 /box /cg/blkio rw,relatime - cgroup cgroup rw,blkio\n\
            24 1 0:20 / /proc rw - proc proc rw\n\
            41 31 0:38 / /cg/unified rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let groups = "9:name=systemd:/x\n7:blkio:/box/a\n2:cpu,cpuacct:/\n0::/b/c\n";
        let found: Vec<String> = directories(groups, mounts)
            .iter()
            .map(|dir| dir.display().to_string())
            .collect();
        assert_eq!(
            found,
            [
                "/cg/blkio/",
                "/cg/blkio/a",
                "/cg/cpu/",
                "/cg/unified/",
                "/cg/unified/b",
                "/cg/unified/b/c"
            ]
        );
        assert!(directories(groups, "").is_empty());
        assert!(directories("7:blkio:/elsewhere\n", mounts).is_empty());
    }

    #[test]
    fn reads_the_limits_of_both_versions() {
        let temp = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(temp.path().join(name), text).unwrap();
        let found = || {
            let all = limits_in(temp.path()).into_iter();
            all.map(|l| (l.of, l.rate, l.device, l.file)).collect()
        };
        let none: Vec<(Limited, f64, Option<String>, &str)> = found();
        assert!(none.is_empty());
        write("cpu.max", "max 100000\n");
        write("cpu.cfs_quota_us", "-1\n");
        write("cpu.cfs_period_us", "100000\n");
        write("io.max", "");
        assert!(found().is_empty(), "no limit");
        write("cpu.max", "5000 100000\n");
        write("cpu.cfs_quota_us", "50000\n");
        write(
            "io.max",
            "254:0 rbps=max wbps=10485760 riops=max wiops=120\n",
        );
        write("blkio.throttle.read_bps_device", "254:0 1048576\n");
        let disk = || Some("254:0".to_owned());
        assert_eq!(
            found(),
            [
                (Limited::Cpu, 0.05, None, "cpu.max"),
                (Limited::Cpu, 0.5, None, "cpu.cfs_quota_us"),
                (Limited::WrittenBytes, 10_485_760.0, disk(), "io.max"),
                (Limited::Writes, 120.0, disk(), "io.max"),
                (
                    Limited::ReadBytes,
                    1_048_576.0,
                    disk(),
                    "blkio.throttle.read_bps_device"
                ),
            ]
        );
    }

    #[test]
    fn a_group_counts_how_often_its_quota_stopped_it() {
        let v2 = throttled("usage_usec 9\nnr_periods 12\nnr_throttled 3\nthrottled_usec 250\n");
        assert_eq!((v2.times, v2.ns), (3, 250_000));
        let v1 = throttled("nr_periods 12\nnr_throttled 4\nthrottled_time 7\n");
        assert_eq!((v1.times, v1.ns), (4, 7));
        assert_eq!(throttled(""), Throttled::default());
        assert_eq!(Throttles::of(&[]).sum(), None);
    }
}
