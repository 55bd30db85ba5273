//! The caches of this host's kernel, which all layers share.
//!
//! Documentation/admin-guide/sysctl/vm.rst of the kernel, `drop_caches`: only clean pages are dropped.

use std::{
    fs::{self, File},
    io,
};

use layermark_model::DroppedCaches;

const FILE: &str = "/proc/sys/vm/drop_caches";
/// Pages, and what is known of names and inodes.
const ALL: &str = "3";
const PAGES: &str = "1";

/// When a layer that has written its data back has the kernel's caches dropped. Dropping takes tens of
/// milliseconds, so it is done once for layers that are made cold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelCaches {
    /// At once.
    Now,
    /// The caller does it, by [`KernelCaches::drop_for`], once all layers have written theirs back.
    Later,
}

impl KernelCaches {
    const HOW: &str = "drop_caches";

    /// Notes that they are dropped. `false` without the right to.
    pub(crate) fn dropped(self, layer: &mut DroppedCaches) -> bool {
        let may = match self {
            Self::Now => fs::write(FILE, ALL).is_ok(),
            Self::Later => File::options().write(true).open(FILE).is_ok(),
        };
        if may {
            layer.how.push(Self::HOW.into());
        }
        may
    }

    /// Drops them if one of these layers says that they are dropped.
    pub fn drop_for<'a>(layers: impl IntoIterator<Item = &'a DroppedCaches>) -> io::Result<()> {
        let mut how = layers.into_iter().flat_map(|layer| &layer.how);
        if how.any(|how| how == Self::HOW) {
            fs::write(FILE, ALL)?;
        }
        Ok(())
    }

    /// Drops clean pages, and keeps names and inodes.
    pub(crate) fn drop_pages() -> io::Result<()> {
        fs::write(FILE, PAGES)
    }
}
