use layermark_model::{Missing, Spec};

use crate::{
    About, Base, Group, LayerError, LayerInfo, OtherSide, Place, PowerCut, Undo, host,
    kind::LayerKind, options::NoOptions,
};

/// The base directory itself: what every other layer is compared with.
pub(crate) struct Native;

impl LayerKind for Native {
    const ID: &'static str = "native";
    type Options = NoOptions;

    fn describe(_: &Spec, _: &NoOptions) -> LayerInfo {
        LayerInfo {
            defaults: &["native"],
            default_paths: &["native"],
            power_cut: PowerCut::MOUNTED,
            other_side: OtherSide::Yes,
            ..LayerInfo::new(
                Group::ThisKernel,
                About::of("the base directory itself", ": the baseline"),
            )
        }
    }

    fn missing(_: &Spec, _: &NoOptions) -> Vec<Missing> {
        Vec::new()
    }

    fn open(
        base: &Base,
        spec: &Spec,
        _: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        base.emptied(undo);
        let dir = &base.dir;
        let mut place = host::HostPlace::new(base, spec, dir.clone()).other_side(dir);
        place.package()?;
        Ok(Box::new(place))
    }
}
