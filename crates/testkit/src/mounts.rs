//! Mounts of all processes.

use std::{collections::BTreeSet, fs};

/// The `mountinfo` of each mount namespace and root directory that a process here is in, with the first such process: all
/// others there have the same.
pub fn seen_by_all() -> Vec<(String, String)> {
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let link = |name| fs::read_link(process.path().join(name)).ok();
        let Some(place) = link("ns/mnt").zip(link("root")) else {
            continue;
        };
        if known.contains(&place) {
            continue;
        }
        // A process that has ended says nothing for the others.
        let mounts = fs::read_to_string(process.path().join("mountinfo"));
        if let Ok(mounts) = mounts
            && !mounts.is_empty()
        {
            known.insert(place);
            found.push((process.file_name().to_string_lossy().into_owned(), mounts));
        }
    }
    found
}
