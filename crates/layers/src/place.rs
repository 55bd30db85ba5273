//! A layer that is up: what it is, as data, and the verbs that act on it.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use layermark_model::{CpuTime, DroppedCaches, Facts};

use crate::{KernelCaches, LayerError, Wire};

/// An end of the work in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Takes the turns of work with two ends.
    Near,
    /// Inside the layer. Work with one end has only this probe.
    Far,
}

impl End {
    /// The one at the other end.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }
}

/// A kernel on which a probe runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// This host's, although the probe may have other paths.
    OfHost,
    /// One that layermark has started, and whose CPUs it may switch off.
    Started,
    /// Another one.
    Other,
}

/// What a layer that is up is. It does not change while it is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceInfo {
    /// Directory in which the probe works; it contains `packaged/`.
    pub dir: PathBuf,
    /// The path by which this host sees that directory, without a part that another user can exchange.
    pub seen_at: Option<PathBuf>,
    /// Whether the probe is a process of this host, with the same paths and devices. If not, this host counts the
    /// devices below the layer itself, and the probe's own CPU time is part of [`Place::helper_cpu`].
    pub on_this_host: bool,
    /// Whose kernel answers the probe's system calls.
    pub kernel: Kernel,
    /// Whether nothing can be written.
    pub read_only: bool,
    /// Directory of this host with the files of `dir`, where others may change them.
    pub other_side: Option<PathBuf>,
    /// Where the second probe works, if the layer has a place for it.
    pub near: Option<NearPlace>,
    /// Address at which another layer in the same network reaches the probe inside, which programs of this host may
    /// not reach.
    pub address: Option<IpAddr>,
    /// Processes on this host that serve it. When they have ended, every call that waits for it fails.
    pub helpers: Vec<u32>,
}

/// Where the second probe of a layer works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearPlace {
    /// Its directory.
    pub dir: PathBuf,
    /// See [`PlaceInfo::on_this_host`].
    pub on_this_host: bool,
    /// See [`PlaceInfo::kernel`].
    pub kernel: Kernel,
}

impl PlaceInfo {
    /// A directory of this host, served by its kernel.
    pub fn of_dir(dir: PathBuf) -> Self {
        Self {
            seen_at: Some(dir.clone()),
            dir,
            on_this_host: true,
            kernel: Kernel::OfHost,
            read_only: false,
            other_side: None,
            near: None,
            address: None,
            helpers: Vec::new(),
        }
    }

    /// A directory that is not one of this host.
    pub fn elsewhere(dir: PathBuf) -> Self {
        Self {
            seen_at: None,
            on_this_host: false,
            kernel: Kernel::Other,
            ..Self::of_dir(dir)
        }
    }

    /// Whether the probe at an end is a process of this host. A second probe without a place of its own is.
    pub fn is_here(&self, end: End) -> bool {
        match (end, &self.near) {
            (End::Far, _) => self.on_this_host,
            (End::Near, near) => near.as_ref().is_none_or(|near| near.on_this_host),
        }
    }

    /// Whether layermark has started the kernel below the probe at an end.
    pub fn owns_kernel(&self, end: End) -> bool {
        let kernel = match (end, &self.near) {
            (End::Far, _) => Some(self.kernel),
            (End::Near, near) => near.as_ref().map(|near| near.kernel),
        };
        kernel == Some(Kernel::Started)
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

/// A layer that is up.
pub trait Place: Send {
    /// What it is.
    fn info(&self) -> &PlaceInfo;
    /// Starts the probe inside, or for work with two ends a second one that reaches it. The thread that calls this has
    /// to live as long as the probe: the kernel ends the probe when that thread ends.
    fn start(&mut self, end: End) -> Result<Wire, LayerError>;
    /// For work with two ends, called before the probe is started: connects both probes. Returns the addresses of the
    /// near end, and of the probe inside.
    fn link(&mut self) -> Result<[IpAddr; 2], LayerError> {
        Ok([Ipv4Addr::LOCALHOST.into(); 2])
    }
    /// Facts that prove where the probe runs. Fails with [`LayerError::NotMounted`] when the layer
    /// is not mounted.
    fn facts(&self) -> Result<Facts, LayerError>;
    /// Files on this host that hold the data of `files` (paths below [`PlaceInfo::dir`]): the lower or
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
    /// Restores the packaged files. No probe may have files open there. With `names`, only files and directories with
    /// these names right below `packaged/` may have changed.
    fn refresh(&mut self, _names: &[String]) -> Result<(), LayerError> {
        Ok(())
    }
    /// CPU time the layer's own helpers on this host have used since they started.
    fn helper_cpu(&self) -> Result<CpuTime, LayerError>;
}
