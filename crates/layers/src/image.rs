use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use layermark_model::{BELOW_OVERLAY, Missing, Spec};

use crate::{
    About, Base, Group, LayerError, LayerInfo, Place, PowerCut, Undo, child, fuse_program,
    host::{HostPlace, PACKAGED},
    kind::LayerKind,
    loop_fs::free_space,
    loopdev, mounts, needs,
    options::{bad, given, layer_options, on_off, option_words},
    overlay::Stack,
    removal, sandbox, tree,
};

/// A read-only image with the packaged files, as applications are distributed. With an overlay on
/// top the application may write to its own directory.
pub(crate) struct Image;

option_words! {
    /// Format of the image, and who reads it.
    pub(crate) enum ImageFormat {
        Squashfs = "squashfs",
        Erofs = "erofs",
        Squashfuse = "squashfuse",
    }
}

layer_options! {
    pub(crate) struct ImageOptions {
        /// format; squashfuse reads squashfs in user space
        variant: ImageFormat = "squashfs",
        /// of the image; squashfs has all of them, erofs lz4 and zstd
        compression: String = "none" ["none", "gzip", "lz4", "lzo", "xz", "zstd"],
        /// bytes that squashfs compresses and reads as one piece
        block: String = "128K" ["4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M"],
        /// off: the image is cached by this host as well
        direct_io as "direct-io": bool = "on" ["on", "off"],
        /// on: an overlay on top takes what is written; the first write to a packaged file copies it up
        upper: bool = "off",
    }
}

impl LayerKind for Image {
    const ID: &'static str = "image";
    type Options = ImageOptions;

    fn describe(spec: &Spec, options: &ImageOptions) -> LayerInfo {
        let group = match options.variant {
            ImageFormat::Squashfuse => Group::UserSpace,
            _ => Group::ThisKernel,
        };
        let about = match spec.variant.as_deref() {
            Some("squashfs") => About::of("squashfs in the kernel", ": an application image"),
            Some("erofs") => About::of("erofs in the kernel", ": an application image"),
            Some("squashfuse") => About::of("squashfs in user space", ": an application image"),
            _ => About::of(
                "an application image",
                ": read only, or with an overlay on top (upper=on)",
            ),
        };
        LayerInfo {
            defaults: &["image:squashfs", "image:erofs", "image:squashfuse"],
            power_cut: PowerCut::No("its image is made afresh of the packaged files"),
            ..LayerInfo::new(group, about)
        }
    }

    fn check(spec: &Spec, options: &ImageOptions) -> Result<(), LayerError> {
        if options.variant == ImageFormat::Erofs {
            if let Some((option, given)) = given(spec, &ImageOptions::ROWS, &["block"]) {
                let must = "is for squashfs and squashfuse".into();
                return Err(bad(spec, option, given, must));
            }
            if matches!(&*options.compression, "gzip" | "lzo" | "xz") {
                let must = "is for squashfs and squashfuse; erofs has lz4 and zstd".into();
                return Err(bad(spec, "compression", &options.compression, must));
            }
        }
        match given(spec, &ImageOptions::ROWS, &["direct-io"]) {
            Some((option, given)) if options.variant == ImageFormat::Squashfuse => {
                let must = "is for images on a loop device, which squashfuse does not use".into();
                Err(bad(spec, option, given, must))
            }
            _ => Ok(()),
        }
    }

    fn missing(_: &Spec, options: &ImageOptions) -> Vec<Missing> {
        let mut missing = missing_image(options);
        if options.upper {
            missing.extend(needs::kernel_fs("overlay"));
        }
        missing
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let name = spec.to_string();
        base.emptied(undo);
        let image = build(base, &name, &options)?;
        if !options.upper {
            let at = base.dir.join("mnt");
            fs::create_dir(&at).map_err(LayerError::io(&name, "make", &at))?;
            let place = HostPlace::new(base, spec, at.clone()).read_only();
            return Ok(Box::new(mounted(
                place, &name, &options, &image, &at, undo,
            )?));
        }
        let stack = Stack::make(base, spec)?;
        let place = HostPlace::new(base, spec, stack.at())
            .proof(&stack.at(), "overlay")
            .note(BELOW_OVERLAY.0, BELOW_OVERLAY.1);
        let place = mounted(place, &name, &options, &image, &stack.path("lower"), undo)?;
        // Unmounted before the image below it.
        stack.mount_undone(undo)?;
        Ok(Box::new(place.refresher(move |_| stack.renew())))
    }
}

/// Mounts the image at `at`, and adds its proof to the place.
fn mounted(
    place: HostPlace,
    name: &str,
    options: &ImageOptions,
    image: &Path,
    at: &Path,
    undo: &mut Undo,
) -> Result<HostPlace, LayerError> {
    let place = place
        .backing(image)
        .note("compression", &*options.compression);
    let place = match options.variant {
        ImageFormat::Erofs => place,
        _ => place.note("block", &*options.block),
    };
    if options.variant == ImageFormat::Squashfuse {
        let mut command = needs::tool(name, "squashfuse", "squashfuse")?;
        command.arg("-f").args(fuse_program::for_all_users());
        command.arg(image).arg(at);
        let pid = fuse_program::serve(name, &mut command, at, undo)?;
        return Ok(place.helper(pid).proof(at, "fuse"));
    }
    let device = loopdev::attach(image, true, options.direct_io).map_err(LayerError::io(
        name,
        "put a loop device over",
        image,
    ))?;
    let fs = options.variant.to_string();
    mounts::mount_undone(name, &device.path, at, &fs, true, b"", undo)?;
    Ok(place
        .proof(at, &fs)
        .note("direct_io", on_off(device.direct_io)))
}

/// What this host lacks for the image alone.
fn missing_image(options: &ImageOptions) -> Vec<Missing> {
    if options.variant == ImageFormat::Squashfuse {
        let mut missing = fuse_program::missing(&[("squashfuse", "squashfuse")]);
        missing.extend(needs::program("mksquashfs", "squashfs-tools"));
        return missing;
    }
    let mut missing: Vec<Missing> = sandbox::not_root().into_iter().collect();
    if missing.is_empty() {
        missing.extend(needs::device(loopdev::CONTROL, "loop"));
    }
    missing.extend(needs::kernel_fs(&options.variant.to_string()));
    let (maker, package) = maker(options.variant);
    missing.extend(needs::program(maker, package));
    missing.extend(compressor(options));
    missing
}

/// Program that makes the image, and Debian's package of it.
fn maker(format: ImageFormat) -> (&'static str, &'static str) {
    match format {
        ImageFormat::Erofs => ("mkfs.erofs", "erofs-utils"),
        _ => ("mksquashfs", "squashfs-tools"),
    }
}

/// `Some` when the installed mkfs.erofs lacks this compression: zstd came with version 1.8.
fn compressor(options: &ImageOptions) -> Option<Missing> {
    let wanted = &*options.compression;
    let program = child::program("mkfs.erofs")?;
    if options.variant != ImageFormat::Erofs || wanted == "none" {
        return None;
    }
    let help = child::command(program)
        .arg("--help")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = [help.stdout, help.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let listed = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| word == wanted);
    (!listed).then(|| Missing {
        what: format!("an mkfs.erofs that compresses with {wanted}"),
        hint: "use image:erofs,compression=lz4 or install a newer erofs-utils".into(),
        installable: false,
    })
}

/// The arguments of mksquashfs.
fn squashfs_args(command: &mut Command, source: &Path, image: &Path, options: &ImageOptions) {
    command.arg(source).arg(image);
    command.args(["-noappend", "-quiet", "-no-progress", "-b", &options.block]);
    match &*options.compression {
        "none" => command.args(["-noI", "-noD", "-noF", "-noX"]),
        other => command.args(["-comp", other]),
    };
}

/// Makes the image from the packaged files.
fn build(base: &Base, name: &str, options: &ImageOptions) -> Result<PathBuf, LayerError> {
    let bytes = tree::size(&base.packaged).map_err(LayerError::io(name, "read", &base.packaged))?;
    let free = free_space(&base.dir).map_err(LayerError::io(name, "ask the size of", &base.dir))?;
    // Both formats add little; 16 MiB are enough for the smallest image.
    let needed = bytes + bytes / 10 + (16 << 20);
    if needed > free {
        return Err(LayerError::NoSpace {
            layer: name.into(),
            what: "disk",
            needed,
            free,
            path: base.dir.clone(),
        });
    }
    let (stage, image) = (base.dir.join("stage"), base.dir.join("image"));
    let staged = stage.join(PACKAGED);
    tree::link(&base.packaged, &staged).map_err(LayerError::io(name, "link to", &staged))?;
    let (program, package) = maker(options.variant);
    let mut command = needs::tool(name, program, package)?;
    if program == "mkfs.erofs" {
        let compression = &*options.compression;
        command.arg("--quiet");
        if compression != "none" {
            command.arg(format!("-z{compression}"));
        }
        command.arg(&image).arg(&stage);
    } else {
        squashfs_args(&mut command, &stage, &image, options);
    }
    child::run(name, &mut command)?;
    removal::remove(&stage).map_err(LayerError::io(name, "remove", &stage))?;
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LayerOptions;

    /// Images of applications are compressed by xz, gzip and lzo as well, in blocks of 128 KiB to 1 MiB.
    #[test]
    fn an_image_has_the_compression_and_the_blocks_of_its_format() {
        let check = |text: &str| {
            let spec: Spec = text.parse().unwrap();
            crate::check(&spec).map_err(|e| e.to_string())
        };
        for comp in ["none", "gzip", "lz4", "lzo", "xz", "zstd"] {
            let spec = format!("image:squashfuse,compression={comp},block=1M");
            assert_eq!(check(&spec), Ok(()), "{spec}");
        }
        assert_eq!(check("image:erofs,compression=lz4"), Ok(()));
        for (wrong, says) in [
            ("image:erofs,compression=xz", "erofs has lz4 and zstd"),
            ("image:erofs,block=1M", "is for squashfs and squashfuse"),
            ("image:squashfs,block=2M", "2M"),
            ("image:squashfs,compression=bzip2", "bzip2"),
        ] {
            let e = check(wrong).unwrap_err();
            assert!(e.contains(says), "{wrong}: {e}");
        }
    }

    /// The image is what was asked for, as its first bytes say (Documentation/filesystems/squashfs.rst).
    #[test]
    fn mksquashfs_makes_the_image_that_was_asked_for() {
        let temp = tempfile::tempdir().unwrap();
        if child::program("mksquashfs").is_none() {
            eprintln!("skipped: mksquashfs is not installed");
            return;
        }
        let source = temp.path().join("source");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("zeros"), vec![0; 1 << 20]).unwrap();
        for (compression, number) in [("gzip", 1), ("lzo", 3), ("xz", 4)] {
            let image = temp.path().join(compression);
            let spec: Spec = format!("image:squashfuse,compression={compression},block=1M")
                .parse()
                .unwrap();
            let options = ImageOptions::read(&spec).unwrap();
            let mut command = child::command(child::program("mksquashfs").unwrap());
            squashfs_args(&mut command, &source, &image, &options);
            child::run("image", &mut command).unwrap();
            let bytes = fs::read(&image).unwrap();
            let block = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
            let found = u16::from_le_bytes(bytes[20..22].try_into().unwrap());
            assert_eq!((block, found), (1 << 20, number), "{compression}");
        }
    }
}
