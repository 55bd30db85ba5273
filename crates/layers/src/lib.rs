//! Builds a layer, carries the probe's standard input and output, and unwinds.
//!
//! To add a layer, write `NAME.rs` and its line in [`ALL`].
//!
//! Order of ending: drop the [`Wire`], then the [`Place`], then the [`Undo`].

use std::{
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    time::Duration,
};

pub use layermark_model::{CpuTime, DroppedCaches, Facts, Missing, Spec};

mod bind;
mod child;
mod devices;
mod dir;
mod error;
mod extents;
mod foreign;
mod fuse;
mod fuse_fs;
mod fuse_options;
mod fuse_table;
mod held;
mod host;
mod image;
pub mod janitor;
pub mod keeper;
mod loop_fs;
mod loopdev;
#[cfg(feature = "mock")]
mod mock;
#[cfg(feature = "mock")]
mod mock_probe;
pub mod mounts;
mod native;
mod needs;
mod net;
mod netns;
mod options;
mod overlay;
mod removal;
pub mod sandbox;
pub mod served;
pub mod spread;
mod tmpfs;
mod tree;
mod undo;
mod view;
mod vm;
mod wire;
pub mod workdir;

use layermark_fd as fd;

pub use child::cpu_ns;
pub use error::LayerError;
pub use fuse::fuse_serve;
pub use options::{LayerOption, check, listed, unknown};
pub use undo::Undo;
pub use view::{in_facts, in_words, tell};
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
    /// How long what serves the layer may show no sign of life.
    pub silence: Duration,
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

/// A network that layers of one run can be in together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedNetwork {
    /// Its name.
    pub switch: String,
    /// What it is made of: networks of one name and different kinds are not the same.
    pub backend: String,
}

/// One kind of layer. Stateless; asking it anything changes nothing.
pub trait Layer: Sync {
    /// Its name before the colon, such as `overlay`.
    fn id(&self) -> &'static str;
    /// One line for `layermark layers` on this variant; on the layer as a whole where that is empty.
    fn about(&self, variant: &str) -> &'static str;
    /// Its options; the one named `variant` is what follows the colon.
    fn options(&self) -> &'static [LayerOption];
    /// What `run` builds when the user names no layer.
    fn default_specs(&self) -> &'static [&'static str];
    /// The same where all work has two ends, which meet in most layers on the same loopback.
    fn default_paths(&self) -> &'static [&'static str] {
        &[]
    }
    /// Checks values that [`LayerOption::values`] cannot list.
    fn check(&self, _spec: &Spec) -> Result<(), LayerError> {
        Ok(())
    }
    /// Where its files will be.
    fn storage(&self, _spec: &Spec) -> Storage {
        Storage::Base
    }
    /// What is built of `spec` for work with two ends: with `switch`, in the network of this name, where
    /// the other end is; else with this host at the other end.
    fn linked(&self, spec: &Spec, switch: Option<&str>) -> Result<Spec, LayerError> {
        match switch {
            None => Ok(spec.clone()),
            Some(_) => Err(LayerError::NoNetwork {
                layer: spec.to_string(),
                why: "cannot be in a network with another layer".into(),
                hint: format!("name it alone: -l {spec}; netns and vm can be both ends of a path"),
            }),
        }
    }
    /// The network that `spec` names; those that name the same one reach each other.
    fn network(&self, _spec: &Spec) -> Option<NamedNetwork> {
        None
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
    /// For work with two ends, before the probe is started: lets it be reached by the one that
    /// [`Place::start_near`] starts. Addresses of the near end, and of the probe inside.
    fn link(&mut self) -> Result<[IpAddr; 2], LayerError> {
        Ok([Ipv4Addr::LOCALHOST.into(); 2])
    }
    /// Where the other end of a path reaches the probe inside; for a layer that is in its network, which
    /// may be one that no program of this host is in.
    fn address(&mut self) -> Result<IpAddr, LayerError> {
        self.link().map(|[_, inside]| inside)
    }
    /// Starts a second probe, which reaches the one inside; for work with two ends. It lives as long as
    /// that one may.
    fn start_near(&mut self) -> Result<Wire, LayerError> {
        Err(LayerError::io("", "start a second probe for", self.dir())(
            std::io::ErrorKind::Unsupported.into(),
        ))
    }
    /// Directory of the second probe, where the layer has one for it.
    fn near_dir(&self) -> Option<&Path> {
        None
    }
    /// The same as [`Place::on_this_host`] of the second probe.
    fn near_on_this_host(&self) -> bool {
        true
    }
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
    /// [`Place::dir`] without symbolic links, where this host can see it.
    fn real_dir(&self) -> std::io::Result<PathBuf> {
        if self.on_this_host() {
            std::fs::canonicalize(self.dir())
        } else {
            Ok(self.dir().to_owned())
        }
    }
    /// Number and type of the file system at [`Place::dir`], by one look of some microseconds; `None`
    /// where this host cannot see it.
    fn ground(&self) -> Option<(u64, i64)> {
        let dir = self.on_this_host().then(|| self.dir())?;
        let device = rustix::fs::stat(dir).ok()?.st_dev;
        let kind = rustix::fs::statfs(dir).ok()?.f_type;
        Some((device, kind))
    }
    /// Number of the mount at [`Place::dir`]; `None` where this host cannot see it.
    fn mount_number(&self) -> Option<u64> {
        let dir = self.on_this_host().then(|| self.dir())?;
        mounts::number(dir)
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
    &netns::Netns,
    &vm::Vm,
    #[cfg(feature = "mock")]
    &mock::Mock,
];

/// The layer with this id.
pub fn find(id: &str) -> Option<&'static dyn Layer> {
    ALL.iter().copied().find(|l| l.id() == id)
}
