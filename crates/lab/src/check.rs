//! Checks before anything is created: the directory, its disk, the machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use layermark_layers::{Group, Storage, served, workdir};
use layermark_model::{Environment, LayerStatus, Machine, PackagedFile, Point, Run};
use layermark_probe::{FromHost, HostError, Placed, PlacedKind};
use rustix::fs::{Access, StatVfsMountFlags};

use crate::{
    Catalog, LabError,
    resolve::{Resolved, has_no_files},
};

const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;
/// File systems whose files the kernel makes, by their numbers in `linux/magic.h`.
const KERNELS: [(u32, &str); 9] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x6367_7270, "cgroup2"),
    (0x0027_e0eb, "cgroup"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x1cd1, "devpts"),
    (0x7363_6673, "securityfs"),
    (0xcafe_4a11, "bpf"),
];

/// The directory as an absolute path, if it can be used. Symbolic links are resolved, unless they
/// lead into the mounts of another process.
pub(crate) fn dir(asked: &Path) -> Result<PathBuf, LabError> {
    let bad = |why: &str, hint: String| LabError::Dir {
        dir: asked.into(),
        why: why.into(),
        hint,
    };
    let elsewhere = || "name a directory that you may write to: --dir DIR".to_owned();
    let dir = match workdir::real_path(asked) {
        Ok(dir) => dir,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(bad(
                "it does not exist",
                format!("make it: mkdir -p {}", asked.display()),
            ));
        }
        Err(e) => return Err(bad(&e.to_string(), elsewhere())),
    };
    if !dir.is_dir() {
        return Err(bad("it is not a directory", elsewhere()));
    }
    if dir.to_str().is_none() {
        return Err(bad(
            "its name is not UTF-8, and the probe's protocol is",
            elsewhere(),
        ));
    }
    if let Some(fs) = kernels_fs(&dir) {
        let why = format!("it is {fs}, whose files the kernel makes");
        return Err(bad(&why, "name a directory on a disk: --dir DIR".into()));
    }
    match rustix::fs::access(&dir, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => {}
        Err(rustix::io::Errno::ROFS) => {
            return Err(bad("its file system is read-only", elsewhere()));
        }
        Err(_) => return Err(bad("you may not write there", elsewhere())),
    }
    let disk = rustix::fs::statvfs(&dir).map_err(|e| bad(&e.to_string(), elsewhere()))?;
    if disk.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(bad("its file system is read-only", elsewhere()));
    }
    if disk.f_files > 0 && disk.f_favail == 0 {
        return Err(bad("its file system has no inodes left", elsewhere()));
    }
    Ok(dir)
}

/// Checks for anything else that could make the run fail or mislead. Returns remarks to show.
pub(crate) fn all(
    dir: &Path,
    resolved: &Resolved,
    allow_tmpfs: bool,
    catalog: Catalog,
) -> Result<Vec<String>, LabError> {
    let mut notes = Vec::new();
    let baseline = resolved.layers.first();
    let on_disk = baseline.is_some_and(|l| !has_no_files(&l.spec, catalog));
    if let Some(fs) = memory_fs(dir).filter(|_| on_disk) {
        if !allow_tmpfs {
            return Err(LabError::Tmpfs {
                dir: dir.into(),
                fs,
            });
        }
        notes.push(format!(
            "{} is in memory ({fs}): layers there are memory, not disks",
            dir.display()
        ));
    }
    space(dir, resolved, catalog)?;
    Ok(notes)
}

fn kernels_fs(dir: &Path) -> Option<&'static str> {
    let kind = rustix::fs::statfs(dir).ok()?.f_type as u32;
    let of = KERNELS.iter().find(|(number, _)| *number == kind)?;
    Some(of.1)
}

fn memory_fs(dir: &Path) -> Option<&'static str> {
    match rustix::fs::statfs(dir).ok()?.f_type as u32 {
        TMPFS => Some("tmpfs"),
        RAMFS => Some("ramfs"),
        _ => None,
    }
}

/// Files that these points need in `packaged/`, each once.
pub(crate) fn packaged(points: &[Point]) -> Vec<PackagedFile> {
    let files = points.iter().flat_map(|at| at.needs.packaged_files());
    files.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Files that these points keep in a layer until it is removed, each once.
fn kept_files(points: &[Point]) -> BTreeSet<&PackagedFile> {
    points.iter().flat_map(|at| &at.needs.kept_files).collect()
}

/// Files to copy to `packaged/` for these points, each once, ordered by path.
pub(crate) fn placed(
    points: &[Point],
    env: &Environment,
    catalog: Catalog,
) -> Result<Vec<Placed>, LabError> {
    let host = FromHost {
        env,
        starts_programs: false,
    };
    let mut all = Vec::new();
    for point in points {
        let workload = catalog.workload(&point.workload)?;
        let placed = workload.host_files(point, host);
        all.extend(placed.map_err(|e| not_from_here(point, e))?);
    }
    Ok(each_once(all))
}

/// One entry for each path, ordered by path. Of several the last.
fn each_once(all: Vec<Placed>) -> Vec<Placed> {
    let by_path = all.into_iter().map(|placed| (placed.path.clone(), placed));
    by_path.collect::<BTreeMap<_, _>>().into_values().collect()
}

fn not_from_here(point: &Point, e: HostError) -> LabError {
    match e {
        HostError::Program(e) => LabError::Programs {
            point: point.label.clone(),
            why: e.message,
            hint: e.hint,
        },
        HostError::Point(e) => e.into(),
    }
}

/// Removes points whose programs are missing or cannot be packaged here, unless no point would be
/// left. Notes the files that the others need. Returns remarks to show.
pub(crate) fn possible(resolved: &mut Resolved, catalog: Catalog) -> Result<Vec<String>, LabError> {
    // Other layers, such as a guest, may have programs of their own.
    let baseline = resolved.layers.first();
    let on_this_host = baseline.is_some_and(|l| {
        let group = catalog.describe(&l.spec).map(|layer| layer.group);
        let asked = resolved.plan.baseline.is_some();
        let runs_here = matches!(group, Some(Group::ThisKernel | Group::UserSpace));
        l.spec.is_native() || asked && runs_here
    });
    let (mut possible, mut notes, mut first) = (Vec::new(), Vec::new(), None);
    let host = FromHost {
        env: &resolved.env,
        starts_programs: on_this_host,
    };
    let mut all = Vec::new();
    for point in resolved.points.drain(..) {
        let workload = catalog.workload(&point.workload)?;
        let placed = workload.host_files(&point, host);
        match placed.map_err(|e| not_from_here(&point, e)) {
            Ok(placed) => {
                all.extend(placed);
                possible.push(point);
            }
            Err(e) => {
                let why = match &e {
                    LabError::Programs { why, .. } => why.clone(),
                    e => e.to_string(),
                };
                notes.push(format!("`{}` is left out: {why}", point.label));
                first.get_or_insert(e);
            }
        }
    }
    match first {
        Some(e) if possible.is_empty() => Err(e),
        _ => {
            resolved.points = possible;
            resolved.placed = each_once(all);
            Ok(notes)
        }
    }
}

fn copied(placed: &Placed) -> u64 {
    match placed.kind {
        PlacedKind::File { size, .. } => size,
        PlacedKind::Directory { .. } | PlacedKind::Link(_) => 0,
    }
}

/// The most bytes that a trial of any of these points needs.
fn largest(points: &[Point]) -> u64 {
    let spaces = points.iter().map(|at| at.needs.space);
    spaces.max().unwrap_or(0)
}

fn space(dir: &Path, resolved: &Resolved, catalog: Catalog) -> Result<(), LabError> {
    let files = packaged(&resolved.points);
    let sizes = files
        .iter()
        .map(|f| f.size)
        .chain(resolved.placed.iter().map(copied));
    let package = sizes.fold(0u64, u64::saturating_add);
    let kept = kept_files(&resolved.points);
    let kept = kept.iter().map(|f| f.size).fold(0, u64::saturating_add);
    let each = package
        .saturating_add(kept)
        .saturating_add(largest(&resolved.points));
    let here = fs::metadata(dir).map(|m| m.dev()).ok();
    let mut layers = 0u64;
    for layer in resolved
        .layers
        .iter()
        .filter(|l| l.status == LayerStatus::Ready)
    {
        let info = catalog.describe(&layer.spec);
        match info.map_or(Storage::Base, |info| info.storage) {
            Storage::Nowhere | Storage::Memory | Storage::Elsewhere => {}
            Storage::Directory(other) => {
                layers += served::ask(&other, || {
                    let device = fs::metadata(&other).map(|m| m.dev()).ok();
                    if device.is_some() && device != here {
                        enough(Disk::Named(&other), each)?;
                    }
                    Ok::<_, LabError>(u64::from(device == here))
                })?;
            }
            Storage::Base => layers += 1,
        }
    }
    let all = package.saturating_add(each.saturating_mul(layers));
    enough(Disk::Base(dir), all)
}

/// A directory whose disk has to have room.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Disk<'a> {
    /// The base directory.
    Base(&'a Path),
    /// A directory that the user names for a layer, often a share.
    Named(&'a Path),
}

impl<'a> Disk<'a> {
    fn dir(self) -> &'a Path {
        match self {
            Self::Base(dir) | Self::Named(dir) => dir,
        }
    }

    /// How much of so many bytes has to stay free beside files: a tenth. A share of petabytes may have less than a tenth
    /// left and yet far more than the files need.
    fn spare(self, all: u64, needed: u64) -> u64 {
        let most = match self {
            Self::Base(_) => u64::MAX,
            Self::Named(_) => needed.saturating_mul(10).saturating_add(1 << 30),
        };
        most.min(all / 10)
    }
}

/// Checks that the files of these points, with those that are copied for them, so many times, have room on a disk.
pub(crate) fn room_for(
    disk: Disk<'_>,
    (points, placed): (&[Point], &[Placed]),
    times: u64,
) -> Result<(), LabError> {
    let files = packaged(points);
    let sizes = files
        .iter()
        .map(|f| f.size)
        .chain(placed.iter().map(copied));
    let package = sizes.fold(0, u64::saturating_add);
    let kept = kept_files(points);
    let kept = kept.iter().map(|f| f.size).fold(0, u64::saturating_add);
    let each = package.saturating_add(kept).saturating_add(largest(points));
    served::ask(disk.dir(), || enough(disk, each.saturating_mul(times)))
}

/// Checks that there is enough space.
fn enough(disk: Disk<'_>, needed: u64) -> Result<(), LabError> {
    let Ok(is) = rustix::fs::statvfs(disk.dir()) else {
        return Ok(());
    };
    let free = is.f_bavail.saturating_mul(is.f_frsize);
    let spare = disk.spare(is.f_blocks.saturating_mul(is.f_frsize), needed);
    if needed > 0 && needed.saturating_add(spare) > free {
        return Err(LabError::Space {
            dir: disk.dir().into(),
            needed,
            free,
            spare,
        });
    }
    Ok(())
}

/// Whether the base directory's disk still has room for one more trial of a point.
pub(crate) fn has_room(dir: &Path, needed: u64) -> bool {
    rustix::fs::statvfs(dir)
        .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) > needed.saturating_mul(2))
}

/// How many layers can hold their files of a point at once, in memory and on the disk of `dir`. The
/// files need `in_memory` and `on_disk` bytes in each layer. A tenth of the disk and a fifth of the
/// memory stay free. A file may be in memory twice: in a layer and below it.
pub(crate) fn fit(dir: &Path, in_memory: u64, on_disk: u64) -> usize {
    let memory = available().and_then(|free| (free / 5 * 4).checked_div(2 * in_memory));
    let disk = rustix::fs::statvfs(dir).ok().and_then(|disk| {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let spare = disk.f_blocks.saturating_mul(disk.f_frsize) / 10;
        free.saturating_sub(spare).checked_div(on_disk)
    });
    let fewest = memory.into_iter().chain(disk).min();
    fewest.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// Memory available to programs without swapping, bytes.
fn available() -> Option<u64> {
    let [bytes] = layermark_sys::meminfo(["MemAvailable"]).ok()?;
    Some(bytes)
}

/// A run cannot continue on a machine with another CPU: its two halves would not be comparable.
pub(crate) fn same_machine(run: &Run, now: &Machine) -> Result<(), LabError> {
    let Some(difference) = other_machine(&run.machine, now) else {
        return Ok(());
    };
    Err(LabError::OtherMachine {
        run: run.id.clone(),
        store: run.store.clone(),
        difference,
    })
}

/// How a machine is another one than `then`: its results cannot be compared. `None` if it is the same.
pub fn other_machine(then: &Machine, now: &Machine) -> Option<String> {
    if then.cpu != now.cpu {
        Some(format!("CPU {} then, {} now", then.cpu, now.cpu))
    } else if then.cpus != now.cpus {
        Some(format!("{} CPUs then, {} now", then.cpus, now.cpus))
    } else if then.base != now.base {
        Some(format!("{} then, {} now", then.base, now.base))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_none_is_refused_with_a_command() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, "x").unwrap();
        let gone = dir(&temp.path().join("gone")).unwrap_err();
        assert!(gone.to_string().contains("does not exist") && gone.exit_code() == 2);
        assert!(gone.hint().unwrap().starts_with("make it: mkdir -p "));
        assert!(
            dir(&file)
                .unwrap_err()
                .to_string()
                .contains("not a directory")
        );
        assert_eq!(
            dir(temp.path()).unwrap(),
            temp.path().canonicalize().unwrap()
        );
    }

    #[test]
    fn a_read_only_file_system_is_refused() {
        // Any mount that is read-only here; /proc/sys and /sys are in most containers.
        let mounts = layermark_layers::mounts::list().unwrap();
        let read_only = mounts.iter().find(|m| {
            m.options.split(',').any(|o| o == "ro") && m.at.is_dir() && dir(&m.at).is_err()
        });
        let Some(mount) = read_only else {
            eprintln!("skipped: nothing is mounted read-only here");
            return;
        };
        assert_eq!(dir(&mount.at).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn what_would_not_fit_is_refused_with_the_figures() {
        let temp = tempfile::tempdir().unwrap();
        let disk = Disk::Base(temp.path());
        let e = enough(disk, 1 << 60).unwrap_err();
        let text = e.to_string();
        assert!(
            text.contains("1048576T needed") && text.contains("free"),
            "{text}"
        );
        assert!(e.hint().unwrap().contains("--scale") && e.exit_code() == 2);
        assert!(enough(disk, 0).is_ok());
        assert!(has_room(temp.path(), 0) && !has_room(temp.path(), 1 << 60));
    }

    /// 2 PB of which 92 % are used have 160 TB left.
    #[test]
    fn a_share_has_to_keep_no_more_free_than_it_needs() {
        let dir = Path::new("/share");
        let (share, base) = (Disk::Named(dir), Disk::Base(dir));
        let all = 2 << 50;
        assert_eq!(share.spare(all, 16 << 30), (160 << 30) + (1 << 30));
        assert_eq!(base.spare(all, 16 << 30), all / 10);
        assert_eq!(share.spare(100 << 20, 16 << 30), 10 << 20);
    }

    #[test]
    fn as_many_layers_fit_as_memory_and_disk_have_room_for() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(fit(temp.path(), 0, 0), usize::MAX);
        assert_eq!(
            (fit(temp.path(), 1 << 60, 0), fit(temp.path(), 0, 1 << 60)),
            (0, 0)
        );
        let third = available().unwrap() / 5 * 4 / 2 / 3;
        assert!((2..=4).contains(&fit(temp.path(), third, 0)));
    }

    #[test]
    fn memory_is_told_from_disk() {
        let Ok(mounts) = layermark_layers::mounts::list() else {
            panic!("no mountinfo")
        };
        for mount in mounts.iter().filter(|m| m.at.is_dir()) {
            let holder = layermark_layers::mounts::holding(&mount.at).unwrap();
            let memory = memory_fs(&mount.at).is_some();
            assert_eq!(
                memory,
                matches!(
                    holder.fs.as_str(),
                    "tmpfs" | "ramfs" | "devtmpfs" | "rootfs"
                ),
                "{holder:?}"
            );
        }
    }
}
