//! The volatile disk: a disk whose writes stay in its cache until a flush, so that a power cut loses them.
//!
//! [`PowerCutBase`] puts a file system on such a disk, and layers work in its directory. The disk logs every
//! write and every flush in the order in which they completed. After the run, [`History`] reads that log. It
//! makes the image that survives a cut at any point of the log, for each [`Choice`] of what the disk's cache
//! had written. [`recover`] mounts a surviving image as a machine does after a power cut.
//!
//! ```text
//! let mut disk = PowerCutBase::create(dir, exe, DiskOptions::default(), &mut undo)?;
//! let base = Base { dir: disk.dir().join("layer"), content: Content::Left, .. };
//! let place = layer.open(&base, spec, &mut layer_undo)?;
//! //  ... write, fsync, acknowledge: disk.mark() ...
//! disk.cut()?;                                    // later writes never reach the disk
//! drop(place); layer_undo.run();
//! let history = disk.history()?;
//! for (point, choice) in ... {
//!     history.write_image(point, choice, &image)?;
//!     match recover(&image, &at, &mut undo)? {
//!         Recovery::Failed { .. } => ...,         // a verdict of its own
//!         _ => layer.open(&Base { dir: at.join("layer"), content: Content::Survived, .. }, ...)
//!     }
//! }
//! ```
//!
//! The same history is checked without a mount by [`History::view`], which reads a surviving image that is not
//! written anywhere.

mod choice;
mod disk;
mod history;
mod journal;
mod log;
#[cfg(test)]
mod model_test;
mod recovery;
mod serve;
mod server;
mod view;

use std::{io, path::Path};

use crate::LayerError;

pub use choice::{Choice, EXHAUSTIVE};
pub use disk::{DiskOptions, Lie, PowerCutBase, places};
pub use history::History;
pub use journal::{Event, Fate, Journal, Mark, Write};
pub use recovery::{Recovery, recover};
pub use serve::disk_serve;
pub use server::UserServer;
pub use view::{ReadAt, View};

/// Bytes that a disk writes whole or not at all.
pub const SECTOR: u64 = 512;

/// An error of the volatile disk.
fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> LayerError + use<> {
    LayerError::io(disk::NAME, what, path)
}

#[cfg(test)]
mod tests {
    use crate::{PowerCut, Spec, find};

    #[test]
    fn layers_that_cannot_be_cut_say_why() {
        let uncut = |text: &str| {
            let spec: Spec = text.parse().unwrap();
            match find(&spec.layer)
                .unwrap()
                .describe(&spec)
                .unwrap()
                .power_cut
            {
                PowerCut::Yes { .. } => None,
                PowerCut::No(why) => Some(why),
            }
        };
        for text in [
            "native",
            "bind:ro",
            "overlay:volatile",
            "fuse,fsync=drop",
            "loop:xfs",
            "netns",
            "vm:cache=unsafe",
            "vm:share=virtiofs",
            "container:podman,rm=on",
            "container:crun,at=volume",
        ] {
            assert_eq!(uncut(text), None, "{text}");
        }
        for (text, why) in [
            ("tmpfs", "its files are in memory"),
            ("container:podman,at=tmpfs", "its files are in memory"),
            ("dir:/mnt/x", "it is on a disk of yours"),
            ("image:erofs,upper=on", "its image is made afresh"),
            ("mock", "it is not known"),
        ] {
            assert!(uncut(text).is_some_and(|w| w.starts_with(why)), "{text}");
        }
    }
}
