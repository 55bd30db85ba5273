//! Where a layer's data is stored, according to its facts.

use layermark_model::{Device, Facts, Meaning, Mount};

use crate::{statements::durability::Drops, types::MountPlace};

/// Names of the devices that store bytes themselves.
pub fn physical(facts: &Facts) -> Vec<&str> {
    facts
        .devices
        .iter()
        .filter(|d| d.physical)
        .map(|d| d.name.as_str())
        .collect()
}

/// Whether both store bytes on one device.
pub fn share_device(one: &Facts, other: &Facts) -> bool {
    let devices = physical(other);
    physical(one).iter().any(|d| devices.contains(d))
}

/// File system of the mount that the probe worked on.
pub fn file_system(facts: &Facts) -> &str {
    facts.mounts.first().map_or("", |m| m.fs.as_str())
}

/// Whether an overlay takes the changes.
pub fn is_overlay(facts: &Facts) -> bool {
    file_system(facts) == "overlay" || file_system(facts) == "fuse.fuse-overlayfs"
}

/// Whether nothing but a file system of this kernel is between the layer and its device, so that a
/// flush takes as long as the device needs.
pub fn flushes_directly(facts: &Facts) -> bool {
    !facts.is_fuse() && facts.guest.is_none() && facts.network().is_none()
}

/// Whether a program in user space or another machine answers calls of the layer.
pub fn is_served(facts: &Facts) -> bool {
    let by_host = |m: &Mount| m.is_fuse() || matches!(m.fs.as_str(), "9p" | "virtiofs");
    facts.network().is_some() || facts.mounts.iter().any(by_host)
}

/// File systems that one kernel mounts at a time. Others, such as those of clusters, have several.
const OF_ONE_KERNEL: [&str; 12] = [
    "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "vfat",
    "xfs", "zfs",
];

/// Whether no other kernel mounts the file systems of the layer. They may be exported nevertheless. An overlay is
/// in this kernel alone if what is below it is known, and is.
pub fn is_of_one_kernel(facts: &Facts) -> bool {
    let alone = |m: &Mount| OF_ONE_KERNEL.contains(&m.fs.as_str());
    let is_known = facts.mounts.iter().any(|m| m.fs != "overlay");
    !is_served(facts) && facts.guest.is_none() && is_known && facts.mounts.iter().all(alone)
}

/// Whether no more than the barriers of this point are dropped, and each device has what is written without one: it
/// says that it writes through.
pub fn needs_no_barrier(facts: &Facts, meaning: &Meaning) -> bool {
    let barriers = match passes_no_flush(facts, meaning) {
        Some(Drops::Mounted(_, option)) => NO_BARRIER.contains(&&*option),
        Some(Drops::DiskCache) | None => false,
    };
    let known = !physical(facts).is_empty() && cache_known(facts);
    barriers && known && !volatile_cache(facts)
}

/// A physical device below keeps writes in a volatile cache until it receives a flush.
pub fn volatile_cache(facts: &Facts) -> bool {
    facts.devices.iter().filter(|d| d.physical).any(is_volatile)
}

fn is_volatile(device: &Device) -> bool {
    device.write_cache.trim() == "write back"
}

/// Whether a physical device may answer this point's flushes by forced unit access, which it does not count:
/// the kernel then sends a write with `O_DSYNC` past the cache (`queue/fua` in Documentation/ABI/stable/
/// sysfs-block). After fsync(2) it flushes the cache of such a device too.
pub fn forces_unit_access(facts: &Facts, meaning: &Meaning) -> bool {
    by_open_flag(meaning) && facts.devices.iter().any(|d| d.physical && d.fua)
}

/// Whether each write of the point flushes because of how the file was opened.
fn by_open_flag(meaning: &Meaning) -> bool {
    matches!(meaning.sync.as_deref(), Some("osync" | "odsync"))
}

/// Whether the write cache of every physical device is known.
pub fn cache_known(facts: &Facts) -> bool {
    facts
        .devices
        .iter()
        .filter(|d| d.physical)
        .all(|d| !d.write_cache.trim().is_empty())
}

/// Options of mounts without write barriers.
const NO_BARRIER: [&str; 3] = ["nobarrier", "barrier=0", "barrier=none"];

/// The setting by which the layer drops the flushes of this point. `None` without one.
pub fn passes_no_flush(facts: &Facts, meaning: &Meaning) -> Option<Drops> {
    if facts.notes.get("disk_cache").is_some_and(|c| c == "unsafe") {
        return Some(Drops::DiskCache);
    }
    // Overlayfs then ignores fsync(2), but passes on O_SYNC and O_DSYNC.
    let by_call = !by_open_flag(meaning);
    let skips = |option: &&str| match *option {
        "volatile" | "fsync=volatile" => by_call,
        option => NO_BARRIER.contains(&option),
    };
    facts.mounts.iter().enumerate().find_map(|(depth, mount)| {
        let option = mount.options().find(skips)?;
        Some(Drops::Mounted(at(depth, mount), option.into()))
    })
}

/// The compression that the layer reports, or that is an option of its mounts (btrfs).
pub fn compression(facts: &Facts) -> Option<&str> {
    let with = facts.notes.get("compression").map(String::as_str);
    let with = with.filter(|_| facts.compressed());
    let of_mount = || written_through(facts).find_map(Mount::compression);
    with.or_else(|| of_mount().map(|(how, _)| how).filter(|how| !how.is_empty()))
}

/// The mounts through which a write passes: all of them, but of an overlay only the one of its upper directory.
fn written_through(facts: &Facts) -> impl Iterator<Item = &Mount> {
    let deep = if is_overlay(facts) { 2 } else { usize::MAX };
    facts.mounts.iter().take(deep)
}

/// Which of these mounts has the option.
pub fn mounted(facts: &Facts, option: &str) -> Option<MountPlace> {
    place(facts, |mount| mount.has_option(option))
}

/// The same for `strictatime`, which the kernel shows by neither of its opposites, where a disk has the times.
pub fn strict_atime(facts: &Facts) -> Option<MountPlace> {
    const ON_DISK: [&str; 6] = ["btrfs", "ext2", "ext3", "ext4", "f2fs", "xfs"];
    const OTHERS: [&str; 4] = ["relatime", "noatime", "lazytime", "ro"];
    place(facts, |mount| {
        let other = mount.options().any(|option| OTHERS.contains(&option));
        ON_DISK.contains(&mount.fs.as_str()) && !other
    })
}

fn place(facts: &Facts, has: impl Fn(&Mount) -> bool) -> Option<MountPlace> {
    let mut mounts = written_through(facts).enumerate();
    let (depth, mount) = mounts.find(|(_, mount)| has(mount))?;
    Some(at(depth, mount))
}

/// The place of a mount below so many others.
fn at(depth: usize, mount: &Mount) -> MountPlace {
    match depth {
        0 => MountPlace::Own,
        _ => MountPlace::Below(mount.at.clone()),
    }
}
