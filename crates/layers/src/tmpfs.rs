use std::{fs, path::Path};

use layermark_model::{Missing, Spec, parse_size};
use layermark_sys::meminfo;

use crate::{
    Base, Group, Layer, LayerError, LayerOption, Place, Storage, Undo,
    host::HostPlace,
    mounts,
    options::{bad, layer_options},
    sandbox, tree,
};

/// Files in memory.
pub(crate) struct Tmpfs;

layer_options! {
    struct TmpfsOptions {
        /// largest size, such as 1G; auto is three quarters of the memory that is free
        size: String = "auto",
    }
}

impl Layer for Tmpfs {
    fn id(&self) -> &'static str {
        "tmpfs"
    }

    fn group(&self, _: &str) -> Group {
        Group::ThisKernel
    }

    fn about(&self, _: &str) -> &'static str {
        "files in memory: what is left when the disk costs nothing"
    }

    fn options(&self) -> &'static [LayerOption] {
        &TmpfsOptions::ROWS
    }

    fn default_specs(&self) -> &'static [&'static str] {
        &["tmpfs"]
    }

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
        given_size(spec).map(drop)
    }

    fn storage(&self, _: &Spec) -> Storage {
        Storage::Memory
    }

    fn uncut(&self, _: &Spec) -> Option<&'static str> {
        Some("its files are in memory: a power cut leaves none of them")
    }

    fn missing(&self, _: &Spec) -> Vec<Missing> {
        sandbox::no_mounts().into_iter().collect()
    }

    fn open(
        &self,
        base: &Base,
        spec: &Spec,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let name = spec.to_string();
        base.emptied(undo);
        let size = memory_for(base, spec, &name)?;
        let dir = base.dir.join("mnt");
        fs::create_dir(&dir).map_err(LayerError::io(&name, "make", &dir))?;
        let options = format!("size={size},mode=0700");
        mounts::mount_undone(
            &name,
            Path::new("tmpfs"),
            &dir,
            "tmpfs",
            false,
            options.as_bytes(),
            undo,
        )?;
        let mut place = HostPlace::new(base, spec, dir.clone())
            .proof(&dir, "tmpfs")
            .in_memory();
        place.package()?;
        Ok(Box::new(place))
    }
}

fn given_size(spec: &Spec) -> Result<Option<u64>, LayerError> {
    match &*TmpfsOptions::of(spec)?.size {
        "auto" => Ok(None),
        text => match parse_size(text) {
            Ok(0) => Err(bad(spec, "size", text, "is too small".into())),
            Ok(size) => Ok(Some(size)),
            Err(e) => Err(bad(spec, "size", text, format!("cannot be read: {e}"))),
        },
    }
}

/// Maximum size of the file system, bytes. It must be less than the available memory, or the kernel
/// would kill processes.
fn memory_for(base: &Base, spec: &Spec, name: &str) -> Result<u64, LayerError> {
    let packaged =
        tree::size(&base.packaged).map_err(LayerError::io(name, "read", &base.packaged))?;
    let free = meminfo(["MemAvailable"]).map_err(LayerError::io(
        name,
        "read free memory from",
        Path::new("/proc/meminfo"),
    ))?[0];
    let wanted = given_size(spec)?;
    let size = wanted.unwrap_or(free / 4 * 3);
    let needed = wanted.unwrap_or(0).max(packaged + packaged / 10);
    if needed > free || packaged > size {
        return Err(LayerError::NoSpace {
            layer: name.into(),
            what: "memory",
            needed,
            free: free.min(size),
            path: "tmpfs".into(),
        });
    }
    Ok(size)
}
