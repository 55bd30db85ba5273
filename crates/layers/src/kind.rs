//! A layer by its options: what the file of a layer has. Options are parsed here, and nowhere else.

use layermark_model::{Missing, Spec};

use crate::{
    Base, Layer, LayerError, LayerInfo, LayerOption, Place, Undo, info::OnDemand,
    options::LayerOptions,
};

/// A kind of layer. Stateless; only `open` changes anything.
pub(crate) trait LayerKind: Sync {
    /// Its name before the colon, such as `overlay`.
    const ID: &'static str;
    /// What the user has set, and defaults: see [`crate::options::layer_options`].
    type Options: LayerOptions;

    /// What it is and can do. Looks at nothing that may not answer.
    fn describe(spec: &Spec, options: &Self::Options) -> LayerInfo;
    /// Checks values that [`LayerOption::values`] cannot list.
    fn check(_spec: &Spec, _options: &Self::Options) -> Result<(), LayerError> {
        Ok(())
    }
    /// See [`LayerInfo::slowdown`].
    fn slowdown(_spec: &Spec, _options: &Self::Options) -> f64 {
        1.0
    }
    /// What this host lacks, each with a command that provides it.
    fn missing(spec: &Spec, options: &Self::Options) -> Vec<Missing>;
    /// Builds it: see [`Layer::open`].
    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError>;
}

impl<K: LayerKind + 'static> Layer for K {
    fn id(&self) -> &'static str {
        K::ID
    }

    fn options(&self) -> &'static [LayerOption] {
        K::Options::rows()
    }

    fn describe(&self, spec: &Spec) -> Result<LayerInfo, LayerError> {
        let options = K::Options::read(spec)?;
        let info = <K as LayerKind>::describe(spec, &options);
        let spec = spec.clone();
        Ok(LayerInfo {
            on_demand: Box::new(Described::<K> { spec, options }),
            ..info
        })
    }

    fn missing(&self, spec: &Spec) -> Vec<Missing> {
        let options = K::Options::read(spec);
        options.map_or_else(
            |_| Vec::new(),
            |options| <K as LayerKind>::missing(spec, &options),
        )
    }

    fn open(
        &self,
        base: &Base,
        spec: &Spec,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let options = K::Options::read(spec)?;
        <K as LayerKind>::open(base, spec, options, undo)
    }
}

/// A layer that was described.
struct Described<K: LayerKind> {
    spec: Spec,
    options: K::Options,
}

impl<K: LayerKind> OnDemand for Described<K> {
    fn check(&self) -> Result<(), LayerError> {
        K::check(&self.spec, &self.options)
    }

    fn slowdown(&self) -> f64 {
        K::slowdown(&self.spec, &self.options)
    }
}
