use std::path::Path;

use layermark_model::{Missing, Spec};

use crate::{
    Base, Layer, LayerError, LayerOption, Place, Undo, host::HostPlace, janitor, options::bad,
    tree, workdir,
};

/// A directory that the user names: whatever is mounted there.
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

    fn about(&self) -> &'static str {
        "a directory of yours, on whatever is mounted there (dir:/mnt/nas)"
    }

    fn options(&self) -> &'static [LayerOption] {
        OPTIONS
    }

    fn default_specs(&self) -> &'static [&'static str] {
        &[]
    }

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
        let named = path(spec);
        if named.is_dir() {
            return Ok(());
        }
        let why = match named.metadata() {
            Ok(_) => "it is not a directory".to_owned(),
            Err(e) => workdir::in_words(&e),
        };
        Err(LayerError::BadDir {
            path: named.into(),
            why,
        })
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
        self.check(spec)?;
        let unusable = |e: std::io::Error| LayerError::BadDir {
            path: path(spec).into(),
            why: workdir::in_words(&e),
        };
        let parent = path(spec).canonicalize().map_err(unusable)?;
        // What a dead run has left there; not being able to is no reason not to run.
        let _ = workdir::reap(&parent);
        let dir = workdir::fresh(&parent, janitor::watch).map_err(unusable)?;
        let lock = workdir::mark(&dir).map_err(|e| {
            let _ = tree::remove(&dir);
            unusable(e)
        })?;
        let (made, what) = (dir.clone(), format!("remove {}", dir.display()));
        // Marker last, and locked until then: whoever comes across a half-removed one can go on.
        undo.push(what, move || {
            let removed = tree::remove_marked(&made);
            drop(lock);
            removed
        });
        let place = HostPlace::new(base, spec, dir);
        place.package()?;
        Ok(Box::new(place))
    }
}

fn path(spec: &Spec) -> &Path {
    Path::new(spec.variant.as_deref().unwrap_or_default())
}
