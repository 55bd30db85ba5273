use std::path::Path;

use layermark_model::{Missing, Spec};

use crate::{
    Base, Layer, LayerError, LayerOption, Place, Storage, Undo, WorkDir, host::HostPlace,
    options::bad, workdir,
};

/// A directory that the user names, on whatever is mounted there.
pub(crate) struct Dir;

const OPTIONS: &[LayerOption] = &[LayerOption {
    name: "variant",
    values: &[],
    default: "",
    help: "the directory, such as dir:/mnt/nas; work is done in a fresh one below it",
}];

impl Layer for Dir {
    fn id(&self) -> &'static str {
        "dir"
    }

    fn about(&self, _: &str) -> &'static str {
        "a directory of yours, on whatever is mounted there (dir:/mnt/nas)"
    }

    fn options(&self) -> &'static [LayerOption] {
        OPTIONS
    }

    fn default_specs(&self) -> &'static [&'static str] {
        &[]
    }

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
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
        let place = HostPlace::new(base, spec, dir);
        place.package()?;
        Ok(Box::new(place))
    }
}

fn path(spec: &Spec) -> &Path {
    Path::new(spec.variant.as_deref().unwrap_or_default())
}
