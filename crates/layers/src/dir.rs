use std::path::Path;

use layermark_model::{CLIENTS, Missing, Spec};

use crate::{
    About, Base, Group, LayerError, LayerInfo, OtherSide, Place, PowerCut, Storage, Undo, WorkDir,
    host::{HostPlace, PACKAGED},
    kind::LayerKind,
    options::{bad, layer_options},
    sandbox,
    workdir::{self, OnePackage, OtherPath},
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
        /// another path of the directory, such as a second mount of the same share, or the path itself for a second
        /// process: the other side of locks and changes
        other: String = "" reaches Path,
        /// the name of a work directory of layermark below the directory, whose packaged files are used in place of own
        /// ones. A fleet sets it, for one package of all hosts
        packaged: String = "",
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
            other_side: if options.other.is_empty() {
                OtherSide::No(
                    "its other side is not known: dir:DIR,other=DIR names another path of it",
                )
            } else {
                OtherSide::Yes
            },
            ..LayerInfo::new(
                Group::ThisKernel,
                About::of(
                    "a directory of yours, on whatever is mounted there",
                    " (dir:/mnt/nas)",
                ),
            )
        }
    }

    fn check(spec: &Spec, options: &DirOptions) -> Result<(), LayerError> {
        if let Some(dir) = below(options).filter(|dir| !dir.is_absolute() || !dir.is_dir()) {
            let must = "is not the absolute path of a directory".into();
            return Err(bad(spec, "below", &dir.to_string_lossy(), must));
        }
        let name = &options.packaged;
        if !name.is_empty() && (!name.starts_with(workdir::PREFIX) || name.contains('/')) {
            let must = "is not the name of a work directory of layermark".into();
            return Err(bad(spec, "packaged", name, must));
        }
        let mut dirs = std::iter::once(Path::new(&options.variant)).chain(other(options));
        dirs.try_for_each(workdir::check)
            .map_err(|e| of_layer(e, spec))
    }

    fn missing(_: &Spec, options: &DirOptions) -> Vec<Missing> {
        let mounts = (!options.packaged.is_empty()).then(sandbox::no_mounts);
        mounts.flatten().into_iter().collect()
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
        let mut place = HostPlace::new(base, spec, work.path().to_owned());
        if let Some(dir) = below(&options) {
            place = place.on_device_of(dir);
        }
        let side = other(&options).map(|dir| OtherPath::of(&work, dir));
        let package = (!options.packaged.is_empty())
            .then(|| OnePackage::mount(&work, Path::new(&options.variant), &options.packaged));
        let what = format!("remove {}", work.named().display());
        undo.push(what, move || work.remove());
        if let Some(side) = side {
            let side = side.map_err(|e| of_layer(e, spec))?;
            let clients = if side.is_one_client() { "1" } else { "2" };
            place = place.other_side(side.path()).note(CLIENTS, clients);
            undo.push(format!("unmount {}", side.path().display()), move || {
                side.close()
            });
        }
        let Some(package) = package else {
            place.package()?;
            return Ok(Box::new(place));
        };
        let package = package?;
        let refused = format!("{} has files of all hosts", package.path().display());
        undo.push(format!("unmount {}", package.path().display()), move || {
            package.close()
        });
        // They are those of others.
        let layer = spec.to_string();
        let place = place.refresher(move |_| {
            Err(LayerError::BadDir {
                layer: Some(layer.clone()),
                path: PACKAGED.into(),
                why: refused.clone(),
            })
        });
        Ok(Box::new(place))
    }
}

/// The error with the layer in which the directory was named.
fn of_layer(e: LayerError, spec: &Spec) -> LayerError {
    match e {
        LayerError::BadDir { path, why, .. } => LayerError::BadDir {
            layer: Some(spec.to_string()),
            path,
            why,
        },
        e => e,
    }
}

/// The other path of the directory, if the user names it.
fn other(options: &DirOptions) -> Option<&Path> {
    (!options.other.is_empty()).then(|| Path::new(&options.other))
}

/// The directory of the disk that holds the data, if the user names it.
fn below(options: &DirOptions) -> Option<&Path> {
    (!options.below.is_empty()).then(|| Path::new(&options.below))
}
