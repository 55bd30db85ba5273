//! A virtual disk: its image file, its controller, and the file system on it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use layermark_model::{GUEST_DISK, Missing, Spec};

use crate::{
    Base, LayerError, Undo,
    agent::protocol::Mounting,
    child,
    host::HostPlace,
    loop_fs, needs,
    options::{bad, on_off},
    vm::options::VmOptions,
};

/// Options that only apply to a disk.
pub(crate) const ONLY: &[&str] = &["disk", "aio", "format", "fs", "iothread", "size"];
/// The format of an image that is the disk byte by byte.
const RAW: &str = "raw";
/// Values of the option `cache` for a disk; QEMU's default is the first.
const CACHES: &[&str] = &["writeback", "none", "writethrough", "directsync", "unsafe"];

/// A disk as the user described it.
pub(crate) struct Disk<'a> {
    pub(super) spec: &'a Spec,
    pub(super) options: &'a VmOptions,
}

impl<'a> Disk<'a> {
    fn cache(&self) -> &'a str {
        match &*self.options.cache {
            "auto" => CACHES[0],
            cache => cache,
        }
    }

    /// Checks combinations of options.
    pub(crate) fn check(&self) -> Result<(), LayerError> {
        let (spec, options) = (self.spec, self.options);
        let (controller, cache) = (options.disk, self.cache());
        if !CACHES.contains(&cache) {
            let must = format!("is not one of {} for a disk", CACHES.join(", "));
            return Err(bad(spec, "cache", cache, must));
        }
        if options.aio == "native" && !matches!(cache, "none" | "directsync") {
            let must = "needs a disk past this host's cache: cache=none or cache=directsync";
            return Err(bad(spec, "aio", "native", must.into()));
        }
        if options.iothread && !controller.iothread {
            let must = "is for virtio-blk and virtio-scsi";
            return Err(bad(spec, "iothread", "on", must.into()));
        }
        let machine = &*options.machine;
        if machine != "auto" && !controller.machines.contains(&machine) {
            let must = format!("has no {} controller", controller.name);
            return Err(bad(spec, "machine", machine, must));
        }
        loop_fs::check_size(spec, &options.size, options.fs.least)
    }

    pub(crate) fn missing(&self) -> Vec<Missing> {
        let mut missing: Vec<Missing> =
            needs::program(self.options.fs.mkfs, self.options.fs.package)
                .into_iter()
                .collect();
        if self.options.format == "qcow2" {
            missing.extend(needs::program("qemu-img", "qemu-utils"));
        }
        missing
    }

    /// Modules that the guest needs.
    pub(crate) fn modules(&self) -> Vec<&'static str> {
        let mut modules = self.options.disk.modules.to_vec();
        modules.push(self.options.fs.name);
        modules
    }

    /// Machine type that has the controller.
    pub(crate) fn machine(&self) -> &'a str {
        match &*self.options.machine {
            "auto" => self.options.disk.machines[0],
            machine => machine,
        }
    }

    /// Makes the image in `dir`, with a file system on it. The image and mkfs's version.
    pub(crate) fn make(&self, base: &Base, dir: &Path) -> Result<(PathBuf, String), LayerError> {
        let (layer, fs) = (self.spec.to_string(), self.options.fs);
        let (raw, version) = (dir.join(file(RAW)), loop_fs::version(&layer, fs)?);
        let size = loop_fs::size_for(base, self.spec, &self.options.size, fs.least)?;
        let made = File::create_new(&raw).and_then(|f| f.set_len(size));
        made.map_err(LayerError::io(&layer, "make the image", &raw))?;
        loop_fs::make_fs(&layer, fs, &raw)?;
        let format = &*self.options.format;
        if format != RAW {
            self.convert(dir, [RAW, format])?;
            fs::remove_file(&raw).map_err(LayerError::io(&layer, "remove", &raw))?;
        }
        Ok((dir.join(file(format)), version))
    }

    /// Makes one of the two images in `dir` from the other.
    fn convert(&self, dir: &Path, [from, to]: [&str; 2]) -> Result<(), LayerError> {
        let layer = self.spec.to_string();
        let mut convert = needs::tool(&layer, "qemu-img", "qemu-utils")?;
        convert
            .current_dir(dir)
            .args(["convert", "-f", from, "-O", to])
            .args([file(from), file(to)]);
        child::run(&layer, &mut convert).map(drop)
    }

    /// What a power cut left on the disk, mounted on this host.
    pub(crate) fn survived(
        &self,
        base: &Base,
        dir: &Path,
        undo: &mut Undo,
    ) -> Result<HostPlace, LayerError> {
        if self.options.format != RAW {
            self.convert(dir, [&self.options.format, RAW])?;
        }
        let image = dir.join(file(RAW));
        loop_fs::mounted(base, self.spec, self.options.fs, (&image, false), undo)
    }

    /// Why nothing could be read of what a power cut left.
    pub(crate) fn uncut(&self) -> Option<&'static str> {
        needs::kernel_fs(self.options.fs.name)
            .map(|_| "what survives on its disk is read on this host, whose kernel lacks its file system")
    }

    /// Whether this host mounts only one such disk at a time.
    pub(crate) fn is_alone(&self) -> bool {
        self.options.fs.twin.is_none()
    }

    /// QEMU's arguments.
    pub(crate) fn devices(&self) -> Vec<String> {
        let VmOptions {
            disk, format, aio, ..
        } = self.options;
        let file = file(format);
        let mut arguments: Vec<String> = vec![
            "-drive".into(),
            format!(
                "file={file},if=none,id=disk,format={format},cache={},aio={aio}",
                self.cache()
            ),
        ];
        let thread = if self.options.iothread {
            arguments.extend(["-object".into(), "iothread,id=io".into()]);
            ",iothread=io"
        } else {
            ""
        };
        let mut add = |device: &str, thread: &str| {
            arguments.extend(["-device".into(), format!("{device}{thread}")]);
        };
        match disk.parent {
            Some(parent) => {
                add(parent, thread);
                add(disk.device, "");
            }
            None => add(disk.device, thread),
        }
        arguments
    }

    pub(crate) fn mounting(&self) -> Mounting {
        Mounting {
            fs: self.options.fs.name.into(),
            source: None,
            options: String::new(),
        }
    }

    /// Facts about it in addition to those read from the guest.
    pub(crate) fn notes(&self) -> Vec<(&'static str, String)> {
        let options = self.options;
        vec![
            (GUEST_DISK, options.disk.name.into()),
            ("disk_cache", self.cache().into()),
            ("disk_aio", options.aio.clone()),
            ("disk_format", options.format.clone()),
            ("iothread", on_off(options.iothread).into()),
        ]
    }
}

/// Name of the image in this format.
fn file(format: &str) -> &'static str {
    if format == RAW { "disk" } else { "disk.qcow2" }
}
