use std::path::Path;

use layermark_model::{Missing, Spec};

use crate::{
    Base, Group, Layer, LayerError, LayerOption, Place, Storage, Undo, WorkDir,
    host::HostPlace,
    options::{bad, value},
    workdir,
};

/// A directory that the user names, on any file system.
pub(crate) struct Dir;

const OPTIONS: &[LayerOption] = &[
    LayerOption {
        name: "variant",
        values: &[],
        default: "",
        help: "the directory, such as dir:/mnt/nas; work is done in a fresh one below it",
    },
    LayerOption {
        name: "below",
        values: &[],
        default: "",
        help: "a directory on the disk where the data ends up, for a file system that does not say: \
               its device's flushes and bytes are counted. Nothing is written there",
    },
];

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
        OPTIONS
    }

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
        if let Some(dir) = below(spec).filter(|dir| !dir.is_absolute() || !dir.is_dir()) {
            let must = "is not the absolute path of a directory".into();
            return Err(bad(spec, "below", &dir.to_string_lossy(), must));
        }
        workdir::check(path(spec)).map_err(|e| match e {
            LayerError::BadDir { path, why, .. } => LayerError::BadDir {
                layer: Some(spec.to_string()),
                path,
                why,
            },
            e => e,
        })
    }

    fn storage(&self, spec: &Spec) -> Storage {
        Storage::Directory(path(spec).to_owned())
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
        let mut work = WorkDir::shared(path(spec))?;
        let (dir, what) = (
            work.path().to_owned(),
            format!("remove {}", work.named().display()),
        );
        undo.push(what, move || work.remove());
        let mut place = HostPlace::new(base, spec, dir);
        if let Some(dir) = below(spec) {
            place = place.on_device_of(dir);
        }
        place.package()?;
        Ok(Box::new(place))
    }
}

/// The directory of the disk that holds the data, if the user names it.
fn below(spec: &Spec) -> Option<&Path> {
    let dir = value(spec, OPTIONS, "below");
    (!dir.is_empty()).then(|| Path::new(dir))
}

fn path(spec: &Spec) -> &Path {
    Path::new(spec.variant.as_deref().unwrap_or_default())
}
