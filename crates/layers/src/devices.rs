//! Block devices below a file system, from sysfs.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStringExt, fs::FileTypeExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use layermark_model::{Device, ENCRYPTION, Facts};
use layermark_sys::block;

/// `major:minor` of a block device's node.
pub(crate) fn number_of_node(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    meta.file_type()
        .is_block_device()
        .then(|| number(meta.rdev()))
}

/// A device number as the kernel writes it in sysfs.
pub(crate) fn number(device: u64) -> String {
    format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    )
}

/// Adds the device and those below it, the nearest first. Returns the backing files of loop
/// devices, whose own devices come next.
pub(crate) fn add_chain(number: &str, facts: &mut Facts) -> Vec<PathBuf> {
    let Some(dir) = block::directory(number) else {
        return Vec::new();
    };
    // Queue and flush counters belong to the disk, not to its partition.
    let disk = match (dir.join("partition").exists(), dir.parent()) {
        (true, Some(parent)) => parent.to_path_buf(),
        _ => dir,
    };
    let backing = loop_file(&disk);
    let slaves = slaves(&disk);
    let leaf = backing.is_none() && slaves.is_empty();
    let Some(device) = describe(&disk, leaf) else {
        return Vec::new();
    };
    if facts.devices.iter().any(|d| d.number == device.number) {
        return Vec::new();
    }
    if block::encrypts(&disk) {
        let with = format!("dm-crypt on {}", device.name);
        facts.notes.insert(ENCRYPTION.into(), with);
    }
    facts.devices.push(device);
    let mut files: Vec<PathBuf> = backing.into_iter().collect();
    for slave in slaves {
        files.extend(add_chain(&slave, facts));
    }
    files
}

fn describe(disk: &Path, physical: bool) -> Option<Device> {
    let queue = |name: &str| block::read(&disk.join("queue").join(name)).unwrap_or_default();
    Some(Device {
        name: disk.file_name()?.to_string_lossy().into_owned(),
        number: block::read(&disk.join("dev"))?,
        write_cache: queue("write_cache"),
        fua: queue("fua") == "1",
        rotational: queue("rotational") == "1",
        physical,
        own: false,
    })
}

/// Marks the loop devices over these files, which are the layer's images, as its own.
pub(crate) fn mark_own(facts: &mut Facts, images: &[PathBuf]) {
    for device in &mut facts.devices {
        let file = block::directory(&device.number).and_then(|disk| loop_file(&disk));
        device.own = file.is_some_and(|file| images.contains(&file));
    }
}

/// `major:minor` of the devices that a device-mapper or RAID device consists of, in order.
fn slaves(disk: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(disk.join("slaves")) else {
        return BTreeSet::new();
    };
    entries
        .flatten()
        .filter_map(|e| block::read(&e.path().join("dev")))
        .collect()
}

fn loop_file(disk: &Path) -> Option<PathBuf> {
    let mut bytes = fs::read(disk.join("loop/backing_file")).ok()?;
    while bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    (!bytes.is_empty()).then(|| OsString::from_vec(bytes).into())
}
