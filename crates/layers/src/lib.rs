//! Layers: builds them, connects the probe's standard input and output, and removes them.
//!
//! To add a layer, write `NAME.rs` and add its line to [`ALL`].
//!
//! Order of ending: drop the [`Wire`], then the [`Place`], then the [`Undo`].

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
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
mod fuse;
mod fuse_program;
mod held;
mod host;
mod image;
mod info;
pub mod janitor;
pub mod keeper;
mod kernel_caches;
mod kind;
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
pub use info::{
    Group, LayerInfo, NamedNetwork, NoPath, OtherSide, PathEnd, PathEnds, PowerCut, Programs,
    Storage,
};
pub use kernel_caches::{KernelCaches, drop_kernel_caches};
pub use options::{LayerOption, NAMED, check, listed, reaches, unknown};
pub use teardown::teardown;
pub use undo::Undo;
pub use view::{in_facts, in_words, tell};
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

/// A file on this host that holds data of files in a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackingExtents {
    /// The file.
    pub path: PathBuf,
    /// Byte ranges in it, offset and length, that hold the data; `None` when it may be anywhere.
    pub ranges: Option<Vec<(u64, u64)>>,
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

/// A layer that is up.
pub trait Place: Send {
    /// Directory in which the probe works; it contains `packaged/`.
    fn dir(&self) -> &Path;
    /// Whether the probe is a process of this host, with the same paths and devices. If not, this
    /// host counts the devices below the layer itself, and the probe's own CPU time is part of
    /// [`Place::helper_cpu`].
    fn on_this_host(&self) -> bool {
        true
    }
    /// Whether the probe's system calls are answered by this host's kernel, although it may have other paths.
    fn shares_kernel(&self) -> bool {
        self.on_this_host()
    }
    /// Whether layermark has started the kernel that the probe runs on, and may switch its CPUs off.
    fn owns_kernel(&self) -> bool {
        false
    }
    /// Whether it is read-only.
    fn read_only(&self) -> bool {
        false
    }
    /// Starts the probe inside. The thread that calls this has to live as long as the probe:
    /// the kernel ends the probe when that thread ends.
    fn start(&mut self) -> Result<Wire, LayerError>;
    /// For work with two ends, called before the probe is started: connects it to the one that
    /// [`Place::start_near`] starts. Returns the addresses of the near end, and of the probe
    /// inside.
    fn link(&mut self) -> Result<[IpAddr; 2], LayerError> {
        Ok([Ipv4Addr::LOCALHOST.into(); 2])
    }
    /// Address at which the other end of a path reaches the probe inside. The layer is in the
    /// network of that end, which programs of this host may not reach.
    fn address(&mut self) -> Result<IpAddr, LayerError> {
        self.link().map(|[_, inside]| inside)
    }
    /// Starts a second probe, which reaches the one inside; for work with two ends. The calling
    /// thread has to live as long as the probe.
    fn start_near(&mut self) -> Result<Wire, LayerError> {
        Err(LayerError::io("", "start a second probe for", self.dir())(
            std::io::ErrorKind::Unsupported.into(),
        ))
    }
    /// Directory of this host with the files of [`Place::dir`], where others may change them.
    fn other_side(&self) -> Option<&Path> {
        None
    }
    /// Directory of the second probe, if the layer has one for it.
    fn near_dir(&self) -> Option<&Path> {
        None
    }
    /// Like [`Place::on_this_host`], for the second probe.
    fn near_on_this_host(&self) -> bool {
        true
    }
    /// Like [`Place::owns_kernel`], for the second probe.
    fn near_owns_kernel(&self) -> bool {
        false
    }
    /// Facts that prove where the probe runs. Fails with [`LayerError::NotMounted`] when the layer
    /// is not mounted.
    fn facts(&self) -> Result<Facts, LayerError>;
    /// Files on this host that hold the data of `files` (paths below [`Place::dir`]): the lower or
    /// upper file of an overlay, the files of a server, an image. Called before caches are dropped,
    /// since it may read the files' inodes.
    fn backing_extents(&self, _files: &[PathBuf]) -> Vec<BackingExtents> {
        Vec::new()
    }
    /// Called before and after each trial: whether the probe's clock has kept pace with this host's
    /// since the last call. If not, a trial in between is refused.
    fn keeps_time(&mut self) -> Result<(), LayerError> {
        Ok(())
    }
    /// Empties the layer's caches on this host. With [`KernelCaches::Later`], those of the kernel are only promised.
    fn drop_caches(&mut self, kernel: KernelCaches) -> Result<DroppedCaches, LayerError>;
    /// Restores the packaged files. No probe may have files open there.
    fn refresh(&mut self) -> Result<(), LayerError> {
        Ok(())
    }
    /// [`Place::dir`] without symbolic links, if this host can see it.
    fn real_dir(&self) -> std::io::Result<PathBuf> {
        if self.on_this_host() {
            std::fs::canonicalize(self.dir())
        } else {
            Ok(self.dir().to_owned())
        }
    }
    /// Device number and type of the file system at [`Place::dir`], read in some microseconds;
    /// `None` if this host cannot see it.
    fn ground(&self) -> Option<(u64, i64)> {
        let dir = self.on_this_host().then(|| self.dir())?;
        let device = rustix::fs::stat(dir).ok()?.st_dev;
        let kind = rustix::fs::statfs(dir).ok()?.f_type;
        Some((device, kind))
    }
    /// Id of the mount at [`Place::dir`]; `None` if this host cannot see it.
    fn mount_number(&self) -> Option<u64> {
        let dir = self.on_this_host().then(|| self.dir())?;
        mounts::number(dir)
    }
    /// Processes on this host that serve it. When they have ended, every call that waits for it
    /// fails.
    fn helpers(&self) -> Vec<u32> {
        Vec::new()
    }
    /// Processes on this host whose limits of CPU time and transfers hold for the layer: its helpers, and a server that
    /// somebody else has started.
    fn servers(&self) -> Vec<u32> {
        self.helpers()
    }
    /// CPU time the layer's own helpers on this host have used since they started.
    fn helper_cpu(&self) -> Result<CpuTime, LayerError>;
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
pub fn about(spec: &Spec) -> Option<&'static str> {
    let layer = find(&spec.layer).filter(|_| spec.near.is_none())?;
    Some(layer.describe(spec).ok()?.about)
}
