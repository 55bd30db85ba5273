use layermark_model::{Missing, Spec};

use crate::{Base, Group, Layer, LayerError, LayerOption, Place, Undo, host};

/// The base directory itself: what every other layer is compared with.
pub(crate) struct Native;

impl Layer for Native {
    fn id(&self) -> &'static str {
        "native"
    }

    fn group(&self, _: &str) -> Group {
        Group::ThisKernel
    }

    fn about(&self, _: &str) -> &'static str {
        "the base directory itself: the baseline"
    }

    fn options(&self) -> &'static [LayerOption] {
        &[]
    }

    fn default_specs(&self) -> &'static [&'static str] {
        &["native"]
    }

    fn default_paths(&self) -> &'static [&'static str] {
        &["native"]
    }

    fn uncut(&self, _: &Spec) -> Option<&'static str> {
        None
    }

    fn has_other_side(&self, _: &Spec) -> bool {
        true
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
        base.emptied(undo);
        let dir = &base.dir;
        let mut place = host::HostPlace::new(base, spec, dir.clone()).other_side(dir);
        place.package()?;
        Ok(Box::new(place))
    }
}
