//! Mounts of all processes.

use std::{collections::BTreeSet, fs};

/// The `mountinfo` of each mount namespace and root directory that a process here is in, with the first such process: all
/// others there have the same. Of processes that cannot be told apart, all.
pub fn seen_by_all() -> Vec<(String, String)> {
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let link = |name| fs::read_link(process.path().join(name)).ok();
        // Of a process that this user may not trace they cannot be read, but its mounts can.
        let place = link("ns/mnt").zip(link("root"));
        if place.as_ref().is_some_and(|place| known.contains(place)) {
            continue;
        }
        // A process that has ended says nothing for the others.
        let mounts = fs::read_to_string(process.path().join("mountinfo"));
        if let Ok(mounts) = mounts
            && !mounts.is_empty()
        {
            known.extend(place);
            found.push((process.file_name().to_string_lossy().into_owned(), mounts));
        }
    }
    found
}
