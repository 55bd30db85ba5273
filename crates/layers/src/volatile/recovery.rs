//! Mounts a surviving disk, as a machine does after a power cut.

use std::{fs, path::Path};

use super::{disk::NAME, failed};
use crate::{LayerError, Undo, child, loopdev, mounts, needs};

/// What became of the file system on a surviving disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// The kernel mounted it: the file system's journal has done its work.
    Mounted,
    /// The kernel refused it, and mounted it after `e2fsck -fy`.
    Repaired {
        /// Why the kernel refused it, and the exit code of e2fsck.
        why: String,
    },
    /// It cannot be mounted.
    Failed {
        /// Why not.
        why: String,
    },
}

/// Mounts the ext4 in `image` at the directory `at`, which is made if it is missing. A file system that
/// is beyond repair is an outcome and not an error.
///
/// # Errors
///
/// The host cannot do it: no loop device is available, or `at` cannot be made.
pub fn recover(image: &Path, at: &Path, undo: &mut Undo) -> Result<Recovery, LayerError> {
    fs::create_dir_all(at).map_err(failed("make", at))?;
    let refused = match mount(image, at, undo)? {
        Ok(()) => return Ok(Recovery::Mounted),
        Err(why) => why,
    };
    let mut fsck = needs::tool(NAME, "e2fsck", "e2fsprogs")?;
    // 1 where it has repaired something: the mount says whether it did.
    let status = match child::run(NAME, fsck.arg("-fy").arg(image)) {
        Ok(_) => "exit code 0".into(),
        Err(LayerError::Program { status, .. }) => status,
        Err(e) => return Err(e),
    };
    let why = format!("{refused}; e2fsck -fy: {status}");
    Ok(match mount(image, at, undo)? {
        Ok(()) => Recovery::Repaired { why },
        Err(again) => Recovery::Failed {
            why: format!("{why}; then: {again}"),
        },
    })
}

/// The inner result is that of mount(2).
fn mount(image: &Path, at: &Path, undo: &mut Undo) -> Result<Result<(), String>, LayerError> {
    let device =
        loopdev::attach(image, false, false).map_err(failed("put a loop device over", image))?;
    match mounts::mount_undone(NAME, &device.path, at, "ext4", false, b"", undo) {
        Ok(()) => Ok(Ok(())),
        Err(e) if e.is_of_host() => Err(e),
        Err(e) => Ok(Err(e.reason())),
    }
}
