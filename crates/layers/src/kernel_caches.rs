//! The caches of this kernel, which all layers share.
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
/// What [`DroppedCaches::how`] says of it.
const HOW: &str = "drop_caches";

/// When a layer that has written its data back has the kernel's caches dropped. Dropping takes tens of
/// milliseconds, so it is done once for layers that are made cold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelCaches {
    /// At once.
    Now,
    /// By the caller, with [`drop_kernel_caches`], once all layers have written theirs back.
    Later,
}

impl KernelCaches {
    /// Drops them, or promises that for the caller. `false` without the right to.
    pub(crate) fn drop_or_promise(self, layer: &mut DroppedCaches) -> bool {
        let may = match self {
            Self::Now => drop_all().is_ok(),
            Self::Later => File::options().write(true).open(FILE).is_ok(),
        };
        if may {
            layer.how.push(HOW.into());
        }
        may
    }
}

/// Drops this kernel's caches if one of these layers was promised that ([`KernelCaches::Later`]). If it fails, the
/// promise is taken back: their caches were not dropped completely.
pub fn drop_kernel_caches<'a>(layers: impl IntoIterator<Item = &'a mut DroppedCaches>) {
    keep(layers, drop_all);
}

fn keep<'a>(
    layers: impl IntoIterator<Item = &'a mut DroppedCaches>,
    drop: impl FnOnce() -> io::Result<()>,
) {
    let layers = layers.into_iter();
    let promised: Vec<_> = layers.filter(|l| l.how.iter().any(|h| h == HOW)).collect();
    if promised.is_empty() || drop().is_ok() {
        return;
    }
    for layer in promised {
        layer.how.retain(|how| how != HOW);
        layer.complete = false;
    }
}

/// Drops all of this kernel's caches.
pub(crate) fn drop_all() -> io::Result<()> {
    fs::write(FILE, ALL)
}

/// Drops clean pages, and keeps names and inodes.
pub(crate) fn drop_pages() -> io::Result<()> {
    fs::write(FILE, PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_kept_once_or_taken_back() {
        let layer = |how: &str| DroppedCaches {
            how: vec!["syncfs".into(), how.into()],
            complete: how == HOW,
        };
        let mut without = [layer("fadvise"), layer("in the place: drop_caches")];
        keep(&mut without, || unreachable!("nothing was promised"));
        let mut all = [layer(HOW), layer("fadvise"), layer(HOW)];
        let (mut calls, before) = (0, all.clone());
        keep(&mut all, || {
            calls += 1;
            Ok(())
        });
        assert_eq!((calls, &all), (1, &before));
        keep(&mut all, || Err(io::ErrorKind::PermissionDenied.into()));
        assert!(
            all.iter()
                .all(|l| !l.complete && !l.how.iter().any(|h| h == HOW))
        );
    }
}
