//! What a layer's facts say about where its data lies.

use layermark_model::{Device, Facts, Meaning};

/// Names of the devices that really store bytes.
pub fn physical(facts: &Facts) -> Vec<&str> {
    facts
        .devices
        .iter()
        .filter(|d| d.physical)
        .map(|d| d.name.as_str())
        .collect()
}

/// File system of the mount the probe worked on.
pub fn file_system(facts: &Facts) -> &str {
    facts.mounts.first().map_or("", |m| m.fs.as_str())
}

/// Changing a lower file copies it first.
pub fn copies_up(facts: &Facts) -> bool {
    file_system(facts) == "overlay" || file_system(facts) == "fuse.fuse-overlayfs"
}

/// A physical device below keeps writes in a volatile cache until it is told to flush.
pub fn volatile_cache(facts: &Facts) -> bool {
    facts.devices.iter().filter(|d| d.physical).any(is_volatile)
}

fn is_volatile(device: &Device) -> bool {
    device.write_cache.trim() == "write back"
}

/// The write cache of every physical device is known.
pub fn cache_known(facts: &Facts) -> bool {
    facts
        .devices
        .iter()
        .filter(|d| d.physical)
        .all(|d| !d.write_cache.trim().is_empty())
}

/// The setting by which the layer passes no flush of this point on, in words; nothing where there is
/// none.
pub fn passes_no_flush(facts: &Facts, meaning: &Meaning) -> Option<String> {
    if facts.notes.get("disk_cache").is_some_and(|c| c == "unsafe") {
        return Some("its disk has `cache=unsafe`".into());
    }
    // Overlayfs takes no notice of fsync(2) then, and passes O_SYNC and O_DSYNC on.
    let by_call = !matches!(meaning.sync.as_deref(), Some("osync" | "odsync"));
    let skips = |option: &&str| match *option {
        "volatile" | "fsync=volatile" => by_call,
        "nobarrier" | "barrier=0" | "barrier=none" => true,
        _ => false,
    };
    facts.mounts.iter().enumerate().find_map(|(depth, mount)| {
        let option = mount.options.split(',').find(skips)?;
        let what = if depth == 0 {
            "it".into()
        } else {
            format!("{} below it", mount.at.display())
        };
        Some(format!("{what} is mounted `{option}`"))
    })
}

/// The compression the layer says it uses.
pub fn compression(facts: &Facts) -> Option<&str> {
    let with = facts.notes.get("compression").map(String::as_str);
    with.filter(|_| facts.compressed())
}
