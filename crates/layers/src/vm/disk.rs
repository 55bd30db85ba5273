//! A virtual disk: its image file, its controller, and the file system on it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use layermark_model::{Missing, Spec};

use crate::{
    Base, LayerError,
    agent::protocol::Mounting,
    child, loop_fs, needs,
    options::{bad, on_off},
    vm::options::VmOptions,
};

/// Options that only apply to a disk.
pub(crate) const ONLY: &[&str] = &["disk", "aio", "format", "fs", "iothread", "size"];
/// Names of a raw and of a qcow2 image.
pub(crate) const IMAGES: [&str; 2] = ["disk", "disk.qcow2"];
/// Values of the option `cache` for a disk; QEMU's default is the first.
const CACHES: &[&str] = &["writeback", "none", "writethrough", "directsync", "unsafe"];

/// A disk as the user described it.
pub(crate) struct Disk<'a> {
    pub(super) spec: &'a Spec,
    pub(super) options: &'a VmOptions,
}

impl<'a> Disk<'a> {
    /// Name of the image.
    fn file(&self) -> &'static str {
        IMAGES[usize::from(self.options.format != "raw")]
    }

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

    /// The image in `dir` and mkfs's version. Makes it, with a file system on it, unless it is what
    /// survived a power cut.
    pub(crate) fn make(&self, base: &Base, dir: &Path) -> Result<(PathBuf, String), LayerError> {
        let (layer, fs) = (self.spec.to_string(), self.options.fs);
        let (raw, version) = (dir.join(IMAGES[0]), loop_fs::version(&layer, fs)?);
        if base.survived() {
            let image = dir.join(self.file());
            let found = image
                .metadata()
                .map_err(LayerError::io(&layer, "find the image", &image));
            return found.map(|_| (image, version));
        }
        let size = loop_fs::size_for(base, self.spec, &self.options.size, fs.least)?;
        let made = File::create_new(&raw).and_then(|f| f.set_len(size));
        made.map_err(LayerError::io(&layer, "make the image", &raw))?;
        loop_fs::make_fs(&layer, fs, &raw)?;
        if self.options.format == "raw" {
            return Ok((raw, version));
        }
        let image = dir.join(self.file());
        let mut convert = needs::tool(&layer, "qemu-img", "qemu-utils")?;
        convert.current_dir(dir).args([
            "convert",
            "-f",
            "raw",
            "-O",
            "qcow2",
            "disk",
            "disk.qcow2",
        ]);
        child::run(&layer, &mut convert)?;
        fs::remove_file(&raw).map_err(LayerError::io(&layer, "remove", &raw))?;
        Ok((image, version))
    }

    /// QEMU's arguments.
    pub(crate) fn devices(&self) -> Vec<String> {
        let VmOptions {
            disk, format, aio, ..
        } = self.options;
        let file = self.file();
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
            ("disk", options.disk.name.into()),
            ("disk_cache", self.cache().into()),
            ("disk_aio", options.aio.clone()),
            ("disk_format", options.format.clone()),
            ("iothread", on_off(options.iothread).into()),
        ]
    }
}
