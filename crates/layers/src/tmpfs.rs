use std::{fs, path::Path};

use layermark_model::{Missing, Spec, parse_size};
use layermark_sys::meminfo;

use crate::{
    About, Base, Group, LayerError, LayerInfo, Place, PowerCut, Storage, Undo,
    host::HostPlace,
    kind::LayerKind,
    mounts,
    options::{bad, layer_options},
    sandbox, tree,
};

/// Files in memory.
pub(crate) struct Tmpfs;

layer_options! {
    pub(crate) struct TmpfsOptions {
        /// largest size, such as 1G; auto is three quarters of the memory that is free
        size: String = "auto",
    }
}

impl LayerKind for Tmpfs {
    const ID: &'static str = "tmpfs";
    type Options = TmpfsOptions;

    fn describe(_: &Spec, _: &TmpfsOptions) -> LayerInfo {
        LayerInfo {
            defaults: &["tmpfs"],
            storage: Storage::Memory,
            power_cut: PowerCut::No("its files are in memory: a power cut leaves none of them"),
            ..LayerInfo::new(
                Group::ThisKernel,
                About::of(
                    "files in memory",
                    ": what is left when the disk costs nothing",
                ),
            )
        }
    }

    fn check(spec: &Spec, options: &TmpfsOptions) -> Result<(), LayerError> {
        given_size(spec, options).map(drop)
    }

    fn missing(_: &Spec, _: &TmpfsOptions) -> Vec<Missing> {
        sandbox::no_mounts().into_iter().collect()
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let name = spec.to_string();
        base.emptied(undo);
        let size = memory_for(base, spec, &options, &name)?;
        let dir = base.dir.join("mnt");
        fs::create_dir(&dir).map_err(LayerError::io(&name, "make", &dir))?;
        let mounted = format!("size={size},mode=0700");
        mounts::mount_undone(
            &name,
            Path::new("tmpfs"),
            &dir,
            "tmpfs",
            false,
            mounted.as_bytes(),
            undo,
        )?;
        let mut place = HostPlace::new(base, spec, dir.clone())
            .proof(&dir, "tmpfs")
            .in_memory();
        place.package()?;
        Ok(Box::new(place))
    }
}

fn given_size(spec: &Spec, options: &TmpfsOptions) -> Result<Option<u64>, LayerError> {
    match &*options.size {
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
fn memory_for(
    base: &Base,
    spec: &Spec,
    options: &TmpfsOptions,
    name: &str,
) -> Result<u64, LayerError> {
    let packaged =
        tree::size(&base.packaged).map_err(LayerError::io(name, "read", &base.packaged))?;
    let free = meminfo(["MemAvailable"]).map_err(LayerError::io(
        name,
        "read free memory from",
        Path::new("/proc/meminfo"),
    ))?[0];
    let wanted = given_size(spec, options)?;
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
