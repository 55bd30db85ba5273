use std::path::Path;

use layermark_model::{Missing, Spec};

use crate::{
    Base, Group, LayerError, LayerInfo, Place, PowerCut, Storage, Undo, WorkDir,
    host::HostPlace,
    kind::LayerKind,
    options::{bad, layer_options},
    workdir,
};

/// A directory that the user names, on any file system.
pub(crate) struct Dir;

layer_options! {
    pub(crate) struct DirOptions {
        /// the directory, such as dir:/mnt/nas; work is done in a fresh one below it
        variant: String = "" reaches Path,
        /// a directory on the disk where the data ends up, for a file system that does not say: its device's flushes
        /// and bytes are counted. Nothing is written there
        below: String = "" reaches Path,
    }
}

impl LayerKind for Dir {
    const ID: &'static str = "dir";
    type Options = DirOptions;

    fn describe(_: &Spec, options: &DirOptions) -> LayerInfo {
        LayerInfo {
            storage: Storage::Directory((&options.variant).into()),
            power_cut: PowerCut::No(
                "it is on a disk of yours, and only a power cut by hand can cut that",
            ),
            ..LayerInfo::new(
                Group::ThisKernel,
                "a directory of yours, on whatever is mounted there (dir:/mnt/nas)",
            )
        }
    }

    fn check(spec: &Spec, options: &DirOptions) -> Result<(), LayerError> {
        if let Some(dir) = below(options).filter(|dir| !dir.is_absolute() || !dir.is_dir()) {
            let must = "is not the absolute path of a directory".into();
            return Err(bad(spec, "below", &dir.to_string_lossy(), must));
        }
        workdir::check(Path::new(&options.variant)).map_err(|e| match e {
            LayerError::BadDir { path, why, .. } => LayerError::BadDir {
                layer: Some(spec.to_string()),
                path,
                why,
            },
            e => e,
        })
    }

    fn missing(_: &Spec, _: &DirOptions) -> Vec<Missing> {
        Vec::new()
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        if spec.variant.is_none() {
            return Err(bad(spec, "variant", "", "has to be given".into()));
        }
        let mut work = WorkDir::shared(Path::new(&options.variant))?;
        let (dir, what) = (
            work.path().to_owned(),
            format!("remove {}", work.named().display()),
        );
        undo.push(what, move || work.remove());
        let mut place = HostPlace::new(base, spec, dir);
        if let Some(dir) = below(&options) {
            place = place.on_device_of(dir);
        }
        place.package()?;
        Ok(Box::new(place))
    }
}

/// The directory of the disk that holds the data, if the user names it.
fn below(options: &DirOptions) -> Option<&Path> {
    (!options.below.is_empty()).then(|| Path::new(&options.below))
}
