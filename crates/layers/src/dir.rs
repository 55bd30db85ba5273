use std::path::Path;

use layermark_model::{Missing, Spec};

use crate::{
    Base, Group, Layer, LayerError, LayerOption, Place, Storage, Undo, WorkDir,
    host::HostPlace,
    options::{bad, layer_options},
    workdir,
};

/// A directory that the user names, on any file system.
pub(crate) struct Dir;

layer_options! {
    struct DirOptions {
        /// the directory, such as dir:/mnt/nas; work is done in a fresh one below it
        variant: String = "" reaches Path,
        /// a directory on the disk where the data ends up, for a file system that does not say: its device's flushes
        /// and bytes are counted. Nothing is written there
        below: String = "" reaches Path,
    }
}

impl Layer for Dir {
    fn id(&self) -> &'static str {
        "dir"
    }

    fn group(&self, _: &str) -> Group {
        Group::ThisKernel
    }

    fn about(&self, _: &str) -> &'static str {
        "a directory of yours, on whatever is mounted there (dir:/mnt/nas)"
    }

    fn options(&self) -> &'static [LayerOption] {
        &DirOptions::ROWS
    }

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
        let options = DirOptions::of(spec)?;
        if let Some(dir) = below(&options).filter(|dir| !dir.is_absolute() || !dir.is_dir()) {
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

    fn storage(&self, spec: &Spec) -> Storage {
        let dir = DirOptions::of(spec).map(|o| o.variant);
        Storage::Directory(dir.unwrap_or_default().into())
    }

    fn uncut(&self, _: &Spec) -> Option<&'static str> {
        Some("it is on a disk of yours, and only a power cut by hand can cut that")
    }

    fn missing(&self, _: &Spec) -> Vec<Missing> {
        Vec::new()
    }

    fn open(
        &self,
        base: &Base,
        spec: &Spec,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        if spec.variant.is_none() {
            return Err(bad(spec, "variant", "", "has to be given".into()));
        }
        let options = DirOptions::of(spec)?;
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
