//! Builds a layer, carries the probe's standard input and output, and unwinds.
//!
//! To add a layer, write `NAME.rs` and its line in [`ALL`].
//!
//! Order of ending: drop the [`Wire`], then the [`Place`], then the [`Undo`].

use std::path::{Path, PathBuf};

pub use layermark_model::{CpuTime, DroppedCaches, Facts, Missing, Spec};

mod bind;
mod child;
mod devices;
mod dir;
mod error;
mod extents;
mod fd;
mod fuse;
mod fuse_fs;
mod fuse_options;
mod fuse_table;
mod held;
mod host;
mod image;
pub mod janitor;
mod loop_fs;
mod loopdev;
#[cfg(feature = "mock")]
mod mock;
#[cfg(feature = "mock")]
mod mock_probe;
pub mod mounts;
mod native;
mod needs;
mod options;
mod overlay;
mod removal;
pub mod sandbox;
pub mod spread;
mod tmpfs;
mod tree;
mod undo;
mod view;
mod vm;
mod wire;
pub mod workdir;

pub use error::LayerError;
pub use fuse::fuse_serve;
pub use options::{LayerOption, check, listed};
pub use undo::Undo;
pub use view::{in_facts, in_words};
pub use vm::guest;
pub use wire::{Control, Output, Wire};
pub use workdir::WorkDir;

/// What a layer is built from.
#[derive(Debug, Clone)]
pub struct Base {
    /// Fresh, empty directory for this layer and session alone.
    pub dir: PathBuf,
    /// Master copy of the packaged files; layers only read it.
    pub packaged: PathBuf,
    /// The layermark binary, started as `EXE probe`.
    pub exe: PathBuf,
}

impl Base {
    /// Remembers to empty [`Base::dir`]. Called before anything is put there.
    fn emptied(&self, undo: &mut Undo) {
        let dir = self.dir.clone();
        undo.push(format!("empty {}", dir.display()), move || {
            removal::empty(&dir)
        });
    }
}

/// A file on this host that holds data of files in a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackingExtents {
    /// The file.
    pub path: PathBuf,
    /// Byte ranges in it, offset and length, that hold the data; `None` when it may be anywhere.
    pub ranges: Option<Vec<(u64, u64)>>,
}

/// Where a layer keeps its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// On the disk of [`Base::dir`].
    Base,
    /// On the disk of this directory.
    Directory(PathBuf),
    /// In memory.
    Memory,
    /// It has no files: there is no disk to compare it with, and it can be the baseline.
    Nowhere,
}

/// One kind of layer. Stateless; asking it anything changes nothing.
pub trait Layer: Sync {
    /// Its name before the colon, such as `overlay`.
    fn id(&self) -> &'static str;
    /// One line for `layermark layers`.
    fn about(&self) -> &'static str;
    /// Its options; the one named `variant` is what follows the colon.
    fn options(&self) -> &'static [LayerOption];
    /// What `run` builds when the user names no layer.
    fn default_specs(&self) -> &'static [&'static str];
    /// Checks values that [`LayerOption::values`] cannot list.
    fn check(&self, _spec: &Spec) -> Result<(), LayerError> {
        Ok(())
    }
    /// Where its files will be.
    fn storage(&self, _spec: &Spec) -> Storage {
        Storage::Base
    }
    /// What this host lacks for `spec`, and how to get it.
    fn missing(&self, spec: &Spec) -> Vec<Missing>;
    /// Builds it. Whatever was done before an error is in `undo` already. The thread that calls
    /// this has to live as long as the layer: helper processes end with it.
    fn open(&self, base: &Base, spec: &Spec, undo: &mut Undo)
    -> Result<Box<dyn Place>, LayerError>;
}

/// A layer that is up.
pub trait Place: Send {
    /// Where the probe works; `packaged/` lies below it.
    fn dir(&self) -> &Path;
    /// Whether paths and devices mean the same to the probe and to this host, and its process is
    /// one of this host's. If not, this host counts the devices below the layer itself, and the
    /// probe's own CPU time is part of [`Place::helper_cpu`].
    fn on_this_host(&self) -> bool {
        true
    }
    /// Whether nothing can be written in it.
    fn read_only(&self) -> bool {
        false
    }
    /// Starts the probe inside. The thread that calls this has to live as long as the probe:
    /// the kernel ends the probe when that thread ends.
    fn start(&mut self) -> Result<Wire, LayerError>;
    /// Proof of where the probe runs; fails with [`LayerError::NotMounted`] when the layer is gone.
    fn facts(&self) -> Result<Facts, LayerError>;
    /// Files on this host that hold the data of `files` (paths below [`Place::dir`]): the lower or
    /// upper file of an overlay, the files of a server, an image. Called before caches are dropped,
    /// since it may read the files' inodes.
    fn backing_extents(&self, _files: &[PathBuf]) -> Vec<BackingExtents> {
        Vec::new()
    }
    /// Asked before and after each trial: whether the probe's clock has run like this host's since
    /// it was last asked. A trial between is refused when it has not.
    fn keeps_time(&mut self) -> Result<(), LayerError> {
        Ok(())
    }
    /// Empties the caches the layer has on this host.
    fn drop_caches(&mut self) -> Result<DroppedCaches, LayerError>;
    /// Puts `packaged/` back to its packaged state. No probe may have files open in it.
    fn refresh(&mut self) -> Result<(), LayerError> {
        Ok(())
    }
    /// Number and type of the file system at [`Place::dir`], by one look of some microseconds; `None`
    /// where this host cannot see it.
    fn ground(&self) -> Option<(u64, i64)> {
        let dir = self.on_this_host().then(|| self.dir())?;
        let device = rustix::fs::stat(dir).ok()?.st_dev;
        let kind = rustix::fs::statfs(dir).ok()?.f_type;
        Some((device, kind))
    }
    /// Processes on this host that serve it: when they have ended, everything that waits for it
    /// fails.
    fn helpers(&self) -> Vec<u32> {
        Vec::new()
    }
    /// CPU time the layer's own helpers on this host have used since they started.
    fn helper_cpu(&self) -> Result<CpuTime, LayerError>;
}

/// Every layer, in the order of `layermark layers`.
pub const ALL: &[&dyn Layer] = &[
    &native::Native,
    &dir::Dir,
    &tmpfs::Tmpfs,
    &bind::Bind,
    &overlay::Overlay,
    &fuse::Fuse,
    &loop_fs::LoopFs,
    &image::Image,
    &vm::Vm,
    #[cfg(feature = "mock")]
    &mock::Mock,
];

/// The layer with this id.
pub fn find(id: &str) -> Option<&'static dyn Layer> {
    ALL.iter().copied().find(|l| l.id() == id)
}
