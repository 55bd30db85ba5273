//! The files of a container's root: none, those of a directory of the user's, or those of an image.

use std::{
    ffi::CString,
    fs, io,
    path::{Path, PathBuf},
};

use layermark_model::Spec;

use super::{At, ContainerOptions, MOUNTED_DIR, podman};
use crate::{
    Base, LayerError, Undo,
    child::{Change, SEEN_AT},
    known_paths,
    overlay::Stack,
    workdir,
};

/// Directories of a root without others; nspawn takes one without `usr` for empty.
pub(super) const DIRS: [&str; 8] = ["data", "tmp", "proc", "dev", "sys", "usr", "etc", "run"];

/// What a container's root shows.
pub(super) enum Root {
    /// Nothing but empty directories.
    Empty,
    /// This directory, below an overlay of ours.
    Over(PathBuf),
    /// An image of podman's.
    Image(podman::Image),
}

impl Root {
    /// The root that the user wants. Docker has its own way to make it.
    pub(super) fn of(spec: &Spec, options: &ContainerOptions) -> Result<Self, LayerError> {
        if let Some(dir) = &options.rootfs {
            return Ok(Self::Over(dir.into()));
        }
        match &options.image {
            Some(name) => podman::Image::find(&spec.to_string(), name).map(Self::Image),
            None => Ok(Self::Empty),
        }
    }

    /// Name of its directory in the layer's.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Over(_) => "merged",
            _ => "root",
        }
    }

    /// Id of its image.
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Image(image) => &image.id,
            _ => "",
        }
    }

    /// podman's storage driver that makes it; `None`: this is not one of its images.
    pub(super) fn driver(&self) -> Option<&str> {
        match self {
            Self::Empty => Some(podman::DRIVER),
            Self::Over(_) => None,
            Self::Image(image) => Some(&image.driver),
        }
    }

    /// Its path as the runtime sees it.
    pub(super) fn seen(&self) -> String {
        format!("{SEEN_AT}/{}", self.name())
    }

    /// Makes the root and the volume. Returns what the runtime sees in place of this host's files.
    pub(super) fn prepare(
        &self,
        base: &Base,
        spec: &Spec,
        at: At,
        undo: &mut Undo,
    ) -> Result<Vec<Change>, LayerError> {
        if let Self::Over(dir) = self {
            apart(base, spec, dir)?;
            Stack::make(base, spec)?.over(dir).mount_undone(undo)?;
        }
        let root = base.dir.join(self.name());
        let made = make_dirs(&root).and_then(|()| match self {
            Self::Over(_) if at != At::Root => mount_point(&root.join(&MOUNTED_DIR[1..])),
            _ => Ok(()),
        });
        let made = made.and_then(|()| self.view(base));
        made.map_err(LayerError::io(&spec.to_string(), "prepare", &base.dir))
    }

    fn view(&self, base: &Base) -> io::Result<Vec<Change>> {
        fs::create_dir(base.dir.join("volume"))?;
        // A mount point of the binary.
        let binary = base.dir.join("layermark");
        fs::write(&binary, b"")?;
        let path = |path: &Path| Change::path(path);
        let mut view = vec![Change::Cover(path(&base.exe)?, path(&binary)?)];
        if let Self::Image(image) = self {
            let at = base.dir.join(podman::IMAGES);
            fs::create_dir(&at)?;
            view.push(Change::Show(Some(path(&image.store)?), path(&at)?));
        }
        view.extend([
            Change::Show(Some(path(&base.dir)?), path(SEEN_AT.as_ref())?),
            Change::Empty(path("/run".as_ref())?, CString::from(c"mode=755")),
            // podman's locks are there, also those of the host's podman.
            Change::Empty(path("/dev/shm".as_ref())?, CString::from(c"mode=1777")),
            Change::ControlGroups,
        ]);
        Ok(view)
    }
}

/// A note for the facts: the directory, or the image and its id.
pub(super) fn note(options: &ContainerOptions, id: &str) -> Option<(String, String)> {
    let dir = options.rootfs.clone().map(|dir| ("rootfs".into(), dir));
    let image = options.image.as_ref();
    dir.or(image.map(|name| ("image".into(), format!("{name} ({id:.12})"))))
}

/// Makes those directories of a root that are not there.
pub(super) fn make_dirs(root: &Path) -> io::Result<()> {
    fs::create_dir_all(root)?;
    for name in DIRS {
        match fs::create_dir(root.join(name)) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Makes this a directory, also where a directory of the user's has a link or a file of that name. The overlay
/// takes the change.
fn mount_point(at: &Path) -> io::Result<()> {
    if fs::symlink_metadata(at)?.is_dir() {
        return Ok(());
    }
    fs::remove_file(at)?;
    fs::create_dir(at)
}

/// The kernel refuses an overlay that takes its changes below its own lower directory.
fn apart(base: &Base, spec: &Spec, dir: &Path) -> Result<(), LayerError> {
    let layer = spec.to_string();
    let io = LayerError::io(&layer, "find", dir);
    if !known_paths::named(&base.dir).starts_with(workdir::real_path(dir).map_err(io)?) {
        return Ok(());
    }
    Err(LayerError::Entered {
        layer,
        what: format!("{} holds the directory of --dir", dir.display()),
        tail: Vec::new(),
        hint: Some("choose another directory with --dir".into()),
    })
}
