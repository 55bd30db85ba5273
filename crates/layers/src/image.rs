use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use layermark_model::{Missing, Spec};

use crate::{
    Base, Group, Layer, LayerError, LayerOption, Place, Undo, child, fuse_program,
    host::{HostPlace, PACKAGED},
    loop_fs::free_space,
    loopdev, mounts, needs,
    options::{bad, on, value},
    overlay::Stack,
    removal, sandbox, tree,
};

/// A read-only image with the packaged files, as applications are distributed. With an overlay on
/// top the application may write to its own directory.
pub(crate) struct Image;

const OPTIONS: &[LayerOption] = &[
    LayerOption {
        name: "variant",
        values: &["squashfs", "erofs", "squashfuse"],
        default: "squashfs",
        help: "format; squashfuse reads squashfs in user space",
    },
    LayerOption {
        name: "compression",
        values: &["none", "lz4", "zstd"],
        default: "none",
        help: "of the image",
    },
    LayerOption {
        name: "direct-io",
        values: &["on", "off"],
        default: "on",
        help: "off: the image is cached by this host as well",
    },
    LayerOption {
        name: "upper",
        values: &["off", "on"],
        default: "off",
        help: "on: an overlay on top takes what is written; the first write to a packaged file copies it up",
    },
];

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
        OPTIONS
    }

    fn default_specs(&self) -> &'static [&'static str] {
        &["image:squashfs", "image:erofs", "image:squashfuse"]
    }

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
        if variant(spec) == "squashfuse" && spec.options.contains_key("direct-io") {
            let must = "is for images on a loop device, which squashfuse does not use".into();
            return Err(bad(
                spec,
                "direct-io",
                value(spec, OPTIONS, "direct-io"),
                must,
            ));
        }
        Ok(())
    }

    fn uncut(&self, _: &Spec) -> Option<&'static str> {
        Some("its image is made afresh of the packaged files")
    }

    fn missing(&self, spec: &Spec) -> Vec<Missing> {
        let mut missing = missing_image(spec);
        if on(spec, OPTIONS, "upper") {
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
        let name = spec.to_string();
        base.emptied(undo);
        let image = build(base, spec)?;
        if !on(spec, OPTIONS, "upper") {
            let at = base.dir.join("mnt");
            fs::create_dir(&at).map_err(LayerError::io(&name, "make", &at))?;
            let place = HostPlace::new(base, spec, at.clone()).read_only();
            return Ok(Box::new(mounted(place, spec, &image, &at, undo)?));
        }
        let stack = Stack::make(base, spec)?;
        let place = HostPlace::new(base, spec, stack.at()).proof(&stack.at(), "overlay");
        let place = mounted(place, spec, &image, &stack.path("lower"), undo)?;
        // Unmounted before the image below it.
        stack.mount_undone(undo)?;
        Ok(Box::new(place.refresher(move || stack.renew())))
    }
}

/// Mounts the image at `at`, and adds its proof to the place.
fn mounted(
    place: HostPlace,
    spec: &Spec,
    image: &Path,
    at: &Path,
    undo: &mut Undo,
) -> Result<HostPlace, LayerError> {
    let name = spec.to_string();
    let place = place
        .backing(image)
        .note("compression", value(spec, OPTIONS, "compression"));
    if variant(spec) == "squashfuse" {
        let mut command = needs::tool(&name, "squashfuse", "squashfuse")?;
        command.arg("-f").args(fuse_program::for_all_users());
        command.arg(image).arg(at);
        let pid = fuse_program::serve(&name, &mut command, at, undo)?;
        return Ok(place.helper(pid).proof(at, "fuse"));
    }
    let device = loopdev::attach(image, true, on(spec, OPTIONS, "direct-io"))
        .map_err(LayerError::io(&name, "put a loop device over", image))?;
    let fs = variant(spec);
    mounts::mount_undone(&name, &device.path, at, fs, true, b"", undo)?;
    let direct = if device.direct_io { "on" } else { "off" };
    Ok(place.proof(at, fs).note("direct_io", direct))
}

/// What this host lacks for the image alone.
fn missing_image(spec: &Spec) -> Vec<Missing> {
    if variant(spec) == "squashfuse" {
        let mut missing = fuse_program::missing(&[("squashfuse", "squashfuse")]);
        missing.extend(needs::program("mksquashfs", "squashfs-tools"));
        return missing;
    }
    let mut missing: Vec<Missing> = sandbox::not_root().into_iter().collect();
    if missing.is_empty() {
        missing.extend(needs::device(loopdev::CONTROL, "loop"));
    }
    missing.extend(needs::kernel_fs(variant(spec)));
    let (maker, package) = maker(spec);
    missing.extend(needs::program(maker, package));
    missing.extend(compressor(spec));
    missing
}

fn variant(spec: &Spec) -> &str {
    value(spec, OPTIONS, "variant")
}

/// Program that makes the image, and Debian's package of it.
fn maker(spec: &Spec) -> (&'static str, &'static str) {
    match variant(spec) {
        "erofs" => ("mkfs.erofs", "erofs-utils"),
        _ => ("mksquashfs", "squashfs-tools"),
    }
}

/// `Some` when the installed mkfs.erofs lacks this compression: zstd came with version 1.8.
fn compressor(spec: &Spec) -> Option<Missing> {
    let wanted = value(spec, OPTIONS, "compression");
    let program = child::program("mkfs.erofs")?;
    if variant(spec) != "erofs" || wanted == "none" {
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
fn build(base: &Base, spec: &Spec) -> Result<PathBuf, LayerError> {
    let name = spec.to_string();
    let bytes =
        tree::size(&base.packaged).map_err(LayerError::io(&name, "read", &base.packaged))?;
    let free =
        free_space(&base.dir).map_err(LayerError::io(&name, "ask the size of", &base.dir))?;
    // Both formats add little; 16 MiB are enough for the smallest image.
    let needed = bytes + bytes / 10 + (16 << 20);
    if needed > free {
        return Err(LayerError::NoSpace {
            layer: name,
            what: "disk",
            needed,
            free,
            path: base.dir.clone(),
        });
    }
    let (stage, image) = (base.dir.join("stage"), base.dir.join("image"));
    let staged = stage.join(PACKAGED);
    tree::link(&base.packaged, &staged).map_err(LayerError::io(&name, "link to", &staged))?;
    let (program, package) = maker(spec);
    let mut command = needs::tool(&name, program, package)?;
    let compression = value(spec, OPTIONS, "compression");
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
    child::run(&name, &mut command)?;
    removal::remove(&stage).map_err(LayerError::io(&name, "remove", &stage))?;
    Ok(image)
}
