use std::{fs::File, io, path::Path};

use layermark_model::{Missing, Spec, parse_size};

use crate::{
    About, Base, Group, LayerError, LayerInfo, Place, PowerCut, Undo, child,
    host::HostPlace,
    kind::LayerKind,
    loopdev, mounts, needs,
    options::{bad, layer_options, on_off, option_rows},
    sandbox, tree,
};

/// A file system in an image file, as disk images are mounted.
pub(crate) struct LoopFs;

layer_options! {
    pub(crate) struct LoopOptions {
        /// file system in the image
        variant: &'static LoopFsType = "ext4",
        /// off: the image is cached by this host as well, also for O_DIRECT
        direct_io as "direct-io": bool = "on" ["on", "off"],
        /// size of the sparse image; auto has room for the packaged files and 4G more, or most of what is free
        size: String = "auto",
    }
}

/// Space in addition to the packaged files, bytes.
const ROOM: u64 = 4 << 30;

/// A file system that can be made in an image.
pub(crate) struct LoopFsType {
    pub(crate) name: &'static str,
    pub(crate) mkfs: &'static str,
    pub(crate) package: &'static str,
    /// Options of mkfs: without background initialisation, which would continue during the trials,
    /// and without discarding holes.
    args: &'static [&'static str],
    /// Smallest image that the program accepts, bytes.
    pub(crate) least: u64,
    /// Options with which it is mounted beside one with the same UUID. `None`: it would be taken for that one.
    pub(crate) twin: Option<&'static str>,
}

const FILE_SYSTEMS: [LoopFsType; 3] = [
    LoopFsType {
        name: "ext4",
        mkfs: "mkfs.ext4",
        package: "e2fsprogs",
        args: &[
            "-q",
            "-F",
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
        ],
        least: 64 << 20,
        twin: Some(""),
    },
    LoopFsType {
        name: "xfs",
        mkfs: "mkfs.xfs",
        package: "xfsprogs",
        args: &["-q", "-f", "-K"],
        least: 320 << 20,
        twin: Some("nouuid"),
    },
    LoopFsType {
        name: "btrfs",
        mkfs: "mkfs.btrfs",
        package: "btrfs-progs",
        args: &["-q", "-f", "-K"],
        least: 128 << 20,
        twin: None,
    },
];

option_rows!(LoopFsType, FILE_SYSTEMS);

/// The version of the program that makes the file system.
pub(crate) fn version(layer: &str, kind: &LoopFsType) -> Result<String, LayerError> {
    let mut mkfs = needs::tool(layer, kind.mkfs, kind.package)?;
    child::run(layer, mkfs.arg("-V"))
}

/// Makes the file system in an image.
pub(crate) fn make_fs(layer: &str, kind: &LoopFsType, image: &Path) -> Result<(), LayerError> {
    let mut mkfs = needs::tool(layer, kind.mkfs, kind.package)?;
    child::run(layer, mkfs.args(kind.args).arg(image)).map(drop)
}

impl LayerKind for LoopFs {
    const ID: &'static str = "loop";
    type Options = LoopOptions;

    fn describe(spec: &Spec, options: &LoopOptions) -> LayerInfo {
        let about = match spec.variant.as_deref() {
            Some("ext4") => About::of("ext4 in an image file", ": through a loop device"),
            Some("xfs") => About::of("xfs in an image file", ": through a loop device"),
            Some("btrfs") => About::of("btrfs in an image file", ": through a loop device"),
            _ => About::of("a file system in an image file", ": through a loop device"),
        };
        LayerInfo {
            defaults: &["loop:ext4", "loop:xfs", "loop:btrfs"],
            power_cut: PowerCut::Yes {
                large_disk: true,
                unmounted: true,
                alone: options.variant.twin.is_none(),
            },
            ..LayerInfo::new(Group::ThisKernel, about)
        }
    }

    fn check(spec: &Spec, options: &LoopOptions) -> Result<(), LayerError> {
        check_size(spec, &options.size, options.variant.least)
    }

    fn missing(_: &Spec, options: &LoopOptions) -> Vec<Missing> {
        let mut missing: Vec<Missing> = sandbox::not_root().into_iter().collect();
        if missing.is_empty() {
            missing.extend(needs::device(loopdev::CONTROL, "loop"));
        }
        let kind = options.variant;
        missing.extend(needs::kernel_fs(kind.name));
        missing.extend(needs::program(kind.mkfs, kind.package));
        missing
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let (name, kind) = (spec.to_string(), options.variant);
        base.emptied(undo);
        let image = base.dir.join("image");
        if !base.survived() {
            let size = size_for(base, spec, &options.size, kind.least)?;
            let made = File::create_new(&image).and_then(|f| f.set_len(size));
            made.map_err(LayerError::io(&name, "make the image", &image))?;
            make_fs(&name, kind, &image)?;
        }
        let size = image
            .metadata()
            .map_err(LayerError::io(&name, "find the image", &image))?
            .len();
        let mut place = mounted(base, spec, kind, (&image, options.direct_io), undo)?
            .note("image_size", size.to_string());
        // Nobody asks for the facts of what survived.
        if !base.survived() {
            place = place.version(kind.mkfs, version(&name, kind)?);
        }
        place.package()?;
        Ok(Box::new(place))
    }
}

/// Mounts an image on this host, next to it. With `true`, the loop device reads and writes it past this host's cache.
pub(crate) fn mounted(
    base: &Base,
    spec: &Spec,
    kind: &LoopFsType,
    (image, direct_io): (&Path, bool),
    undo: &mut Undo,
) -> Result<HostPlace, LayerError> {
    let (name, at) = (spec.to_string(), base.dir.join("mnt"));
    base.make_dir(&at)
        .map_err(LayerError::io(&name, "make", &at))?;
    let device = loopdev::attach(image, false, direct_io).map_err(LayerError::io(
        &name,
        "put a loop device over",
        image,
    ))?;
    // Several disks that cuts left are copies of one.
    let twin = kind.twin.filter(|_| base.survived()).unwrap_or_default();
    mounts::mount_undone(
        &name,
        &device.path,
        &at,
        kind.name,
        false,
        twin.as_bytes(),
        undo,
    )?;
    // From here on only the mount keeps the device.
    Ok(HostPlace::new(base, spec, at.clone())
        .proof(&at, kind.name)
        .backing(image)
        // btrfs has its own address space.
        .plain(kind.name != "btrfs")
        .note("direct_io", on_off(device.direct_io)))
}

/// Refuses an image that is too small for its file system.
pub(crate) fn check_size(spec: &Spec, size: &str, least: u64) -> Result<(), LayerError> {
    match given_size(spec, size)? {
        Some(given) if given < least => Err(bad(
            spec,
            "size",
            size,
            format!(
                "is below {}, the least this file system takes",
                layermark_model::format_size(least)
            ),
        )),
        _ => Ok(()),
    }
}

fn given_size(spec: &Spec, size: &str) -> Result<Option<u64>, LayerError> {
    match size {
        "auto" => Ok(None),
        text => parse_size(text)
            .map(Some)
            .map_err(|e| bad(spec, "size", text, format!("cannot be read: {e}"))),
    }
}

/// Size of the image, at most four fifths of the free space. It is sparse, and if the disk below it
/// gets full, its file system sees a broken disk.
pub(crate) fn size_for(
    base: &Base,
    spec: &Spec,
    asked: &str,
    least: u64,
) -> Result<u64, LayerError> {
    let name = spec.to_string();
    let packaged =
        tree::size(&base.packaged).map_err(LayerError::io(&name, "read", &base.packaged))?;
    let free =
        free_space(&base.dir).map_err(LayerError::io(&name, "ask the size of", &base.dir))?;
    let needed = (packaged + packaged / 4).saturating_add(least);
    let usable = free / 5 * 4;
    let size = match given_size(spec, asked)? {
        Some(size) if size < needed => {
            let must = format!("is too small: packaged files need {needed} bytes");
            return Err(bad(spec, "size", asked, must));
        }
        Some(size) => size,
        None => needed.saturating_add(ROOM).min(usable),
    };
    if needed > usable {
        return Err(LayerError::NoSpace {
            layer: name,
            what: "disk",
            needed,
            free: usable,
            path: base.dir.clone(),
        });
    }
    // Whole MiB: btrfs and xfs round down to their own units.
    Ok(size >> 20 << 20)
}

/// Bytes available to this user below `dir`.
pub(crate) fn free_space(dir: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
