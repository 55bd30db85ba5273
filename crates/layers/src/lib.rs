//! Layers: builds them, connects the probe's standard input and output, and removes them.
//!
//! To add a layer, write `NAME.rs` and add its line to [`ALL`].
//!
//! Order of ending: drop the [`Wire`], then the [`Place`], then the [`Undo`].

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub use layermark_model::{CpuTime, DroppedCaches, Facts, Missing, Spec};

mod agent;
mod bind;
mod child;
mod command;
mod container;
mod devices;
mod dir;
mod dir_journal;
mod entered;
mod error;
mod exec;
mod extents;
mod foreign;
mod fresh;
mod fuse;
mod fuse_program;
mod held;
mod host;
mod image;
mod info;
pub mod janitor;
pub mod keeper;
mod kept_dir;
mod kernel_caches;
mod kind;
mod known_paths;
mod loop_fs;
mod loopdev;
mod marker;
#[cfg(feature = "mock")]
mod mock;
#[cfg(feature = "mock")]
mod mock_probe;
mod mount_table;
pub mod mounts;
mod native;
mod needs;
mod net;
mod netns;
mod of_host;
mod options;
mod overlay;
mod place;
mod process_tree;
mod rclone;
mod removal;
pub mod sandbox;
#[cfg(feature = "mock")]
pub mod scripted;
pub mod served;
pub mod spread;
mod ssh;
mod sshd;
mod sshfs;
mod teardown;
mod tmpfs;
mod tree;
mod undo;
mod view;
mod vm;
pub mod volatile;
mod wire;
pub mod workdir;

use layermark_fd as fd;

pub use child::cpu_ns;
pub use entered::place;
pub use error::LayerError;
pub use fuse::fuse_serve;
pub use info::*;
pub use kept_dir::KeptDir;
pub use kernel_caches::{KernelCaches, drop_kernel_caches};
pub use known_paths::{in_facts, in_words, tell};
pub use layermark_sys::is_of_hosts;
pub use options::{LayerOption, NAMED, check, listed, reaches, unknown};
pub use place::{BackingExtents, End, Kernel, NearPlace, Place, PlaceInfo};
pub use teardown::teardown;
pub use undo::Undo;
pub use vm::guest;
pub use wire::{Control, Output, Wire};
pub use workdir::WorkDir;

/// Input for building a layer.
#[derive(Debug, Clone)]
pub struct Base {
    /// A new, empty directory for this layer in this session.
    pub dir: PathBuf,
    /// Master copy of the packaged files; layers only read it.
    pub packaged: PathBuf,
    /// The layermark binary, started as `EXE probe`.
    pub exe: PathBuf,
    /// How long the processes that serve the layer may make no progress.
    pub silence: Duration,
    /// When setting the layer up has to end, even if it makes progress; absent: no limit.
    pub until: Option<Instant>,
    /// What [`Base::dir`] holds before and after.
    pub content: Content,
}

/// What the directory of a layer holds when the layer is opened, and what is left in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Content {
    /// Nothing, and nothing is left.
    #[default]
    Fresh,
    /// Nothing, and the layer's files are left: a power cut decides which of them survive.
    Left,
    /// What survived of a layer of the same spec that was opened with [`Content::Left`]. Nothing is made
    /// afresh that the layer kept its data in; packaged files are those that survived.
    Survived,
}

impl Base {
    /// Whether the layer is set up on what a power cut left.
    fn survived(&self) -> bool {
        self.content == Content::Survived
    }

    /// Makes a directory for files of the layer; one that survived is taken as it is.
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        match spread::create(dir) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && self.survived() => Ok(()),
            made => made,
        }
    }

    /// Adds an undo step that empties [`Base::dir`]. Called before anything is put there.
    fn emptied(&self, undo: &mut Undo) {
        if self.content != Content::Fresh {
            return;
        }
        let dir = self.dir.clone();
        undo.push(format!("empty {}", dir.display()), move || {
            removal::empty(&dir)
        });
    }
}

/// One kind of layer. Stateless; its methods change nothing unless they say so.
pub trait Layer: Sync {
    /// Its name before the colon, such as `overlay`.
    fn id(&self) -> &'static str;
    /// Its options; the one named `variant` is what follows the colon.
    fn options(&self) -> &'static [LayerOption];
    /// What it is and can do with these options. Looks at nothing that may not answer.
    ///
    /// # Errors
    ///
    /// If an option has a value that is not one of those listed.
    fn describe(&self, spec: &Spec) -> Result<LayerInfo, LayerError>;
    /// What this host lacks for `spec`, each with a command that provides it.
    fn missing(&self, spec: &Spec) -> Vec<Missing>;
    /// Builds it. If it fails, `undo` has the steps for everything done so far. The calling thread
    /// has to live as long as the layer: helper processes end with it.
    fn open(&self, base: &Base, spec: &Spec, undo: &mut Undo)
    -> Result<Box<dyn Place>, LayerError>;
}

/// Every layer, in the order of `layermark layers` within a group.
pub const ALL: &[&dyn Layer] = &[
    &native::Native,
    &dir::Dir,
    &tmpfs::Tmpfs,
    &bind::Bind,
    &overlay::Overlay,
    &fuse::Fuse,
    &sshfs::Sshfs,
    &rclone::Rclone,
    &loop_fs::LoopFs,
    &image::Image,
    &netns::Netns,
    &vm::Vm,
    &container::Container,
    &exec::Exec,
    &command::Command,
    &ssh::Ssh,
    #[cfg(feature = "mock")]
    &mock::Mock,
];

/// The layer with this id.
pub fn find(id: &str) -> Option<&'static dyn Layer> {
    ALL.iter().copied().find(|l| l.id() == id)
}

/// What a layer is, as `layermark layers` says it; `None` for a path of two places.
pub fn about(spec: &Spec) -> Option<About> {
    let layer = find(&spec.layer).filter(|_| spec.near.is_none())?;
    Some(layer.describe(spec).ok()?.about)
}
