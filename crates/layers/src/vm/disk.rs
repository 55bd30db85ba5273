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
    options::{bad, on, value},
    vm::{
        controller::{CONTROLLERS, Controller},
        options::OPTIONS,
    },
};

/// Options that only apply to a disk.
pub(crate) const ONLY: &[&str] = &["disk", "aio", "format", "fs", "iothread", "size"];
/// Names of a raw and of a qcow2 image.
pub(crate) const IMAGES: [&str; 2] = ["disk", "disk.qcow2"];
/// Values of the option `cache` for a disk; QEMU's default is the first.
const CACHES: &[&str] = &["writeback", "none", "writethrough", "directsync", "unsafe"];

/// A disk as the user described it.
pub(crate) struct Disk<'a> {
    spec: &'a Spec,
    controller: &'static Controller,
    fs: &'static loop_fs::LoopFsType,
}

impl<'a> Disk<'a> {
    pub(crate) fn of(spec: &'a Spec) -> Result<Self, LayerError> {
        let name = value(spec, OPTIONS, "disk");
        let unknown = |option, name| bad(spec, option, name, "is not known".into());
        let fs = value(spec, OPTIONS, "fs");
        Ok(Self {
            spec,
            controller: CONTROLLERS
                .iter()
                .find(|c| c.name == name)
                .ok_or_else(|| unknown("disk", name))?,
            fs: loop_fs::named(fs).ok_or_else(|| unknown("fs", fs))?,
        })
    }

    fn value(&self, option: &str) -> &'a str {
        value(self.spec, OPTIONS, option)
    }

    /// Name of the image.
    fn file(&self) -> &'static str {
        IMAGES[usize::from(self.value("format") != "raw")]
    }

    fn cache(&self) -> &'a str {
        match self.value("cache") {
            "auto" => CACHES[0],
            cache => cache,
        }
    }

    /// Checks combinations of options.
    pub(crate) fn check(&self) -> Result<(), LayerError> {
        let spec = self.spec;
        let cache = self.cache();
        if !CACHES.contains(&cache) {
            let must = format!("is not one of {} for a disk", CACHES.join(", "));
            return Err(bad(spec, "cache", cache, must));
        }
        if self.value("aio") == "native" && !matches!(cache, "none" | "directsync") {
            let must = "needs a disk past this host's cache: cache=none or cache=directsync";
            return Err(bad(spec, "aio", "native", must.into()));
        }
        if on(spec, OPTIONS, "iothread") && !self.controller.iothread {
            let must = "is for virtio-blk and virtio-scsi";
            return Err(bad(spec, "iothread", "on", must.into()));
        }
        let machine = self.value("machine");
        if machine != "auto" && !self.controller.machines.contains(&machine) {
            let must = format!("has no {} controller", self.controller.name);
            return Err(bad(spec, "machine", machine, must));
        }
        loop_fs::check_size(spec, self.value("size"), self.fs.least)
    }

    pub(crate) fn missing(&self) -> Vec<Missing> {
        let mut missing: Vec<Missing> = needs::program(self.fs.mkfs, self.fs.package)
            .into_iter()
            .collect();
        if self.value("format") == "qcow2" {
            missing.extend(needs::program("qemu-img", "qemu-utils"));
        }
        missing
    }

    /// Modules that the guest needs.
    pub(crate) fn modules(&self) -> Vec<&'static str> {
        let mut modules = self.controller.modules.to_vec();
        modules.push(self.fs.name);
        modules
    }

    /// Machine type that has the controller.
    pub(crate) fn machine(&self) -> &'a str {
        match self.value("machine") {
            "auto" => self.controller.machines[0],
            machine => machine,
        }
    }

    /// The image in `dir` and mkfs's version. Makes it, with a file system on it, unless it is what
    /// survived a power cut.
    pub(crate) fn make(&self, base: &Base, dir: &Path) -> Result<(PathBuf, String), LayerError> {
        let layer = self.spec.to_string();
        let (raw, version) = (dir.join(IMAGES[0]), loop_fs::version(&layer, self.fs)?);
        if base.survived() {
            let image = dir.join(self.file());
            let found = image
                .metadata()
                .map_err(LayerError::io(&layer, "find the image", &image));
            return found.map(|_| (image, version));
        }
        let size = loop_fs::size_for(base, self.spec, self.value("size"), self.fs.least)?;
        let made = File::create_new(&raw).and_then(|f| f.set_len(size));
        made.map_err(LayerError::io(&layer, "make the image", &raw))?;
        loop_fs::make_fs(&layer, self.fs, &raw)?;
        if self.value("format") == "raw" {
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
        let (file, format, aio) = (self.file(), self.value("format"), self.value("aio"));
        let mut arguments: Vec<String> = vec![
            "-drive".into(),
            format!(
                "file={file},if=none,id=disk,format={format},cache={},aio={aio}",
                self.cache()
            ),
        ];
        let thread = if on(self.spec, OPTIONS, "iothread") {
            arguments.extend(["-object".into(), "iothread,id=io".into()]);
            ",iothread=io"
        } else {
            ""
        };
        let mut add = |device: &str, thread: &str| {
            arguments.extend(["-device".into(), format!("{device}{thread}")]);
        };
        match self.controller.parent {
            Some(parent) => {
                add(parent, thread);
                add(self.controller.device, "");
            }
            None => add(self.controller.device, thread),
        }
        arguments
    }

    pub(crate) fn mounting(&self) -> Mounting {
        Mounting {
            fs: self.fs.name.into(),
            source: None,
            options: String::new(),
        }
    }

    /// Facts about it in addition to those read from the guest.
    pub(crate) fn notes(&self) -> Vec<(&'static str, String)> {
        vec![
            ("disk", self.controller.name.into()),
            ("disk_cache", self.cache().into()),
            ("disk_aio", self.value("aio").into()),
            ("disk_format", self.value("format").into()),
            ("iothread", self.value("iothread").into()),
        ]
    }
}
