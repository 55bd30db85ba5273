use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use layermark_model::{BELOW_OVERLAY, Missing, Spec};

use crate::{
    Base, Group, Layer, LayerError, LayerOption, Place, Undo, child, fuse_program,
    host::{HostPlace, PACKAGED},
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
    enum ImageFormat {
        Squashfs = "squashfs",
        Erofs = "erofs",
        Squashfuse = "squashfuse",
    }
}

layer_options! {
    struct ImageOptions {
        /// format; squashfuse reads squashfs in user space
        variant: ImageFormat = "squashfs",
        /// of the image
        compression: String = "none" ["none", "lz4", "zstd"],
        /// off: the image is cached by this host as well
        direct_io as "direct-io": bool = "on" ["on", "off"],
        /// on: an overlay on top takes what is written; the first write to a packaged file copies it up
        upper: bool = "off",
    }
}

impl Layer for Image {
    fn id(&self) -> &'static str {
        "image"
    }

    fn group(&self, variant: &str) -> Group {
        match variant {
            "squashfuse" => Group::UserSpace,
            _ => Group::ThisKernel,
        }
    }

    fn about(&self, variant: &str) -> &'static str {
        match variant {
            "squashfs" => "squashfs in the kernel: an application image",
            "erofs" => "erofs in the kernel: an application image",
            "squashfuse" => "squashfs in user space: an application image",
            _ => "an application image: read only, or with an overlay on top (upper=on)",
        }
    }

    fn options(&self) -> &'static [LayerOption] {
        &ImageOptions::ROWS
    }

    fn default_specs(&self) -> &'static [&'static str] {
        &["image:squashfs", "image:erofs", "image:squashfuse"]
    }

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
        let options = ImageOptions::of(spec)?;
        match given(spec, &ImageOptions::ROWS, &["direct-io"]) {
            Some((option, given)) if options.variant == ImageFormat::Squashfuse => {
                let must = "is for images on a loop device, which squashfuse does not use".into();
                Err(bad(spec, option, given, must))
            }
            _ => Ok(()),
        }
    }

    fn uncut(&self, _: &Spec) -> Option<&'static str> {
        Some("its image is made afresh of the packaged files")
    }

    fn missing(&self, spec: &Spec) -> Vec<Missing> {
        let Ok(options) = ImageOptions::of(spec) else {
            return Vec::new();
        };
        let mut missing = missing_image(&options);
        if options.upper {
            missing.extend(needs::kernel_fs("overlay"));
        }
        missing
    }

    fn open(
        &self,
        base: &Base,
        spec: &Spec,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let (name, options) = (spec.to_string(), ImageOptions::of(spec)?);
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
        Ok(Box::new(place.refresher(move || stack.renew())))
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
    let compression = &*options.compression;
    if program == "mkfs.erofs" {
        command.arg("--quiet");
        if compression != "none" {
            command.arg(format!("-z{compression}"));
        }
        command.arg(&image).arg(&stage);
    } else {
        command.arg(&stage).arg(&image);
        command.args(["-noappend", "-quiet", "-no-progress"]);
        match compression {
            "none" => command.args(["-noI", "-noD", "-noF", "-noX"]),
            other => command.args(["-comp", other]),
        };
    }
    child::run(name, &mut command)?;
    removal::remove(&stage).map_err(LayerError::io(name, "remove", &stage))?;
    Ok(image)
}
