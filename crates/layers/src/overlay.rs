use std::{
    io,
    path::{Path, PathBuf},
};

use layermark_model::{BELOW_OVERLAY, Missing, Spec};

use crate::{
    About, Base, Group, LayerError, LayerInfo, Place, PowerCut, Undo, fuse_program,
    host::{HostPlace, PACKAGED},
    kind::LayerKind,
    mounts, needs,
    options::{bad, layer_options, on_off, option_words},
    removal,
    sandbox::{self, Privilege},
    spread, tree,
};

/// Name of the program, and of its Debian package.
const FUSE_OVERLAYFS: &str = "fuse-overlayfs";

/// The kernel's union file system, as containers use it, and the same in user space.
pub(crate) struct Overlay;

option_words! {
    /// Where the files lie, and who serves them.
    pub(crate) enum OverlayVariant {
        Upper = "upper",
        Writecopy = "writecopy",
        Merged = "merged",
        Volatile = "volatile",
        Fuse = "fuse",
    }
}

layer_options! {
    pub(crate) struct OverlayOptions {
        /// upper: files lie in the upper layer; writecopy: packaged files lie in the lower layer, so that the first
        /// write to one copies it up; merged: a directory mounted straight through; volatile: upper, without
        /// flushes; fuse: upper, by fuse-overlayfs
        variant: OverlayVariant = "upper",
        /// a change of owner or mode alone copies no data up
        metacopy: bool = "off",
        /// fsync does nothing
        volatile: bool = "off",
    }
}

impl LayerKind for Overlay {
    const ID: &'static str = "overlay";
    type Options = OverlayOptions;

    fn describe(spec: &Spec, options: &OverlayOptions) -> LayerInfo {
        let group = match options.variant {
            OverlayVariant::Fuse => Group::UserSpace,
            _ => Group::ThisKernel,
        };
        let about = match spec.variant.as_deref() {
            Some("upper") => About::of(
                "overlayfs, files in the upper directory",
                ": as what a container has written",
            ),
            Some("writecopy") => About::of(
                "overlayfs, files in the lower directory",
                ": the first write copies one up",
            ),
            Some("merged") => About::of(
                "overlayfs, a directory mounted through it",
                ": nothing is in its layers",
            ),
            Some("volatile") => About::of(
                "overlayfs that skips flushes",
                ": files lie in the upper directory",
            ),
            Some("fuse") => About::of(
                "fuse-overlayfs, an overlay in user space",
                ": files lie in the upper directory",
            ),
            _ => About::from("overlayfs, the union file system of containers"),
        };
        LayerInfo {
            defaults: &[
                "overlay:upper",
                "overlay:writecopy",
                "overlay:merged",
                "overlay:volatile",
            ],
            power_cut: PowerCut::MOUNTED,
            ..LayerInfo::new(group, about)
        }
    }

    fn check(spec: &Spec, options: &OverlayOptions) -> Result<(), LayerError> {
        let option = match options.variant {
            OverlayVariant::Fuse if options.metacopy => "metacopy",
            OverlayVariant::Fuse if options.volatile => "volatile",
            _ => return Ok(()),
        };
        let must = "is an option of the kernel's overlayfs: -l overlay:upper".into();
        Err(bad(spec, option, "on", must))
    }

    fn missing(_: &Spec, options: &OverlayOptions) -> Vec<Missing> {
        if options.variant == OverlayVariant::Fuse {
            return fuse_program::missing(&[(FUSE_OVERLAYFS, FUSE_OVERLAYFS)]);
        }
        let mut missing: Vec<Missing> = sandbox::no_mounts().into_iter().collect();
        missing.extend(needs::kernel_fs("overlay"));
        if missing.is_empty() && options.metacopy {
            missing.extend(sandbox::not_root());
        }
        missing
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        base.emptied(undo);
        let stack = Stack {
            metacopy: options.metacopy,
            volatile: options.volatile || options.variant == OverlayVariant::Volatile,
            ..Stack::make(base, spec)?
        };
        let at = stack.at();
        stack.undone(undo);
        match options.variant {
            OverlayVariant::Writecopy => open_writecopy(base, spec, stack),
            OverlayVariant::Merged => open_merged(base, spec, &stack, undo),
            OverlayVariant::Fuse => open_fuse(base, spec, &stack, undo),
            OverlayVariant::Upper | OverlayVariant::Volatile => {
                stack.mount()?;
                let mut place = HostPlace::new(base, spec, at.clone())
                    .proof(&at, "overlay")
                    .stacked(stack.shown());
                place.package()?;
                Ok(Box::new(place))
            }
        }
    }
}

fn open_writecopy(base: &Base, spec: &Spec, stack: Stack) -> Result<Box<dyn Place>, LayerError> {
    let at = stack.at();
    let lower = stack.path("lower").join(PACKAGED);
    if !base.survived() {
        tree::link(&base.packaged, &lower).map_err(stack.io("link packaged files to", &lower))?;
    }
    stack.mount()?;
    let place = HostPlace::new(base, spec, at.clone())
        .proof(&at, "overlay")
        .stacked(stack.shown())
        .note(BELOW_OVERLAY.0, BELOW_OVERLAY.1)
        .refresher(move |_| stack.renew());
    Ok(Box::new(place))
}

/// A directory of the base file system that is mounted inside the overlay. The path leads through
/// the overlay; the data does not.
fn open_merged(
    base: &Base,
    spec: &Spec,
    stack: &Stack,
    undo: &mut Undo,
) -> Result<Box<dyn Place>, LayerError> {
    stack.mount()?;
    let (through, inside) = (stack.path("through"), stack.at().join("through"));
    for dir in [&through, &inside] {
        base.make_dir(dir).map_err(stack.io("make", dir))?;
    }
    let fs = mounts::holding(&through)
        .map_err(stack.io("find the mount of", &through))?
        .fs;
    rustix::mount::mount_bind(&through, &inside)
        .map_err(|e| stack.io("bind a directory to", &inside)(e.into()))?;
    undo.push(format!("unmount {}", inside.display()), {
        let inside = inside.clone();
        move || mounts::unmount(&inside)
    });
    let mut place = HostPlace::new(base, spec, inside.clone())
        .proof(&stack.at(), "overlay")
        .proof(&inside, &fs)
        .note("inside", format!("overlay at {}", stack.at().display()));
    place.package()?;
    Ok(Box::new(place))
}

/// The overlay in user space. Its files have another cache than those that it shows.
fn open_fuse(
    base: &Base,
    spec: &Spec,
    stack: &Stack,
    undo: &mut Undo,
) -> Result<Box<dyn Place>, LayerError> {
    let at = stack.at();
    let mut command = needs::tool(&stack.layer, FUSE_OVERLAYFS, FUSE_OVERLAYFS)?;
    // It separates directories at colons and has no way to write one.
    command
        .current_dir(&stack.home)
        .args(["-f", "-o", "lowerdir=lower,upperdir=upper,workdir=work"])
        .args(fuse_program::for_all_users())
        .arg(&at);
    let pid = fuse_program::serve(&stack.layer, &mut command, &at, undo)?;
    let version = fuse_program::version(&stack.layer, FUSE_OVERLAYFS, "--version")?;
    let mut place = HostPlace::new(base, spec, at.clone())
        .proof(&at, "fuse")
        .stacked(stack.shown())
        .on_device_of(&stack.home)
        .helper(pid)
        .version(FUSE_OVERLAYFS, version);
    place.package()?;
    Ok(Box::new(fuse_program::observed(place, &at, &[pid])?))
}

/// The directories of an overlay, and its mount options.
#[derive(Clone)]
pub(crate) struct Stack {
    layer: String,
    home: PathBuf,
    /// The user's own lower directory, in place of that below `home`.
    lower: Option<PathBuf>,
    metacopy: bool,
    volatile: bool,
}

impl Stack {
    /// Makes the directories. Nothing is mounted yet.
    pub(crate) fn make(base: &Base, spec: &Spec) -> Result<Self, LayerError> {
        let stack = Self {
            layer: spec.to_string(),
            home: base.dir.clone(),
            lower: None,
            metacopy: false,
            volatile: false,
        };
        for name in ["lower", "upper", "work", "merged"] {
            let dir = stack.path(name);
            base.make_dir(&dir).map_err(stack.io("make", &dir))?;
        }
        if base.survived() {
            // A `volatile` overlay leaves this behind, so that nobody mounts again what a power cut may
            // have torn. We want to see what it has.
            let refuses = stack.path("work").join("work/incompat");
            removal::remove(&refuses).map_err(stack.io("remove", &refuses))?;
        }
        Ok(stack)
    }

    /// Shows this directory of the user's, and takes the changes of it.
    pub(crate) fn over(mut self, lower: &Path) -> Self {
        self.lower = Some(lower.into());
        self
    }

    /// `lower`, `upper` or another of its directories.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let lower = self.lower.as_ref().filter(|_| name == "lower");
        lower.map_or_else(|| self.home.join(name), PathBuf::clone)
    }

    /// The directories that hold the files, the topmost first.
    fn shown(&self) -> [PathBuf; 2] {
        [self.path("upper"), self.path("lower")]
    }

    /// Where it is mounted.
    pub(crate) fn at(&self) -> PathBuf {
        self.path("merged")
    }

    fn io(&self, what: &str, path: &Path) -> impl FnOnce(io::Error) -> LayerError + use<> {
        LayerError::io(&self.layer, what, path)
    }

    /// Adds the unmount to the undo steps.
    fn undone(&self, undo: &mut Undo) {
        let at = self.at();
        undo.push(format!("unmount {}", at.display()), move || {
            mounts::unmount(&at)
        });
    }

    /// Mounts it over the current lower directory, and adds the unmount to the undo steps.
    pub(crate) fn mount_undone(&self, undo: &mut Undo) -> Result<(), LayerError> {
        self.undone(undo);
        self.mount()
    }

    fn mount(&self) -> Result<(), LayerError> {
        let mut options = Vec::new();
        for (key, dir) in [
            ("lowerdir=", "lower"),
            (",upperdir=", "upper"),
            (",workdir=", "work"),
        ] {
            options.extend_from_slice(key.as_bytes());
            options.extend(mounts::overlay_escape(&self.path(dir)));
        }
        options.extend(format!(",metacopy={}", on_off(self.metacopy)).bytes());
        if sandbox::privilege() != Privilege::Root {
            // Only root of the host may write trusted.* attributes.
            options.extend(b",userxattr");
        }
        if self.volatile {
            options.extend(b",volatile");
        }
        let at = self.at();
        mounts::mount(Path::new("overlay"), &at, "overlay", false, &options)
            .map_err(self.io("mount overlay on", &at))?;
        mounts::assert_mounted(&self.layer, &at, "overlay").map(drop)
    }

    /// Discards everything written, so that the lower layer shows again.
    pub(crate) fn renew(&self) -> Result<(), LayerError> {
        let at = self.at();
        mounts::unmount_now(&at).map_err(self.io("unmount", &at))?;
        // A `volatile` overlay leaves `work/incompat`, which prevents another mount. So the whole
        // work directory is replaced.
        for name in ["upper", "work"] {
            let dir = self.path(name);
            removal::remove(&dir)
                .and_then(|()| spread::create(&dir))
                .map_err(self.io("empty", &dir))?;
        }
        self.mount()
    }
}
