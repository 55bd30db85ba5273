use layermark_model::{Spec, nearest};

use crate::{ALL, LayerError, find};

/// One option of a layer; parsing, help and docs come from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerOption {
    /// Name before the `=`; `variant` is what follows the colon.
    pub name: &'static str,
    /// What it takes; empty: any text, checked by the layer.
    pub values: &'static [&'static str],
    /// Used when it is not given; empty for a variant that has to be given.
    pub default: &'static str,
    /// One line of help.
    pub help: &'static str,
}

/// Checks that the layer, its variant, its options and their values exist.
pub fn check(spec: &Spec) -> Result<(), LayerError> {
    let Some(layer) = find(&spec.layer) else {
        return Err(LayerError::UnknownLayer {
            name: spec.layer.clone(),
            nearest: nearest(&spec.layer, ALL.iter().map(|l| l.id())).map(str::to_owned),
        });
    };
    let options = layer.options();
    check_variant(spec, options)?;
    for (name, value) in &spec.options {
        let Some(option) = named(options, name).filter(|o| o.name != "variant") else {
            let known: Vec<&str> = names(options).collect();
            return Err(LayerError::UnknownOption {
                layer: spec.layer.clone(),
                option: name.clone(),
                nearest: nearest(name, known.iter().copied()).map(str::to_owned),
                known,
            });
        };
        check_value(spec, option, value)?;
    }
    layer.check(spec)
}

fn check_variant(spec: &Spec, options: &'static [LayerOption]) -> Result<(), LayerError> {
    let option = named(options, "variant");
    match (option, &spec.variant) {
        (Some(option), Some(value)) => check_value(spec, option, value),
        (Some(option), None) if option.default.is_empty() => Err(bad(
            spec,
            "variant",
            "",
            format!("has to be given: {}", option.help),
        )),
        (None, Some(value)) => Err(bad(
            spec,
            "variant",
            value,
            "is not known: the layer has no variants".into(),
        )),
        _ => Ok(()),
    }
}

fn check_value(spec: &Spec, option: &LayerOption, value: &str) -> Result<(), LayerError> {
    if option.values.is_empty() || option.values.contains(&value) {
        return Ok(());
    }
    let must = format!("is not one of {}", option.values.join(", "));
    let mut e = bad(spec, option.name, value, must);
    if let LayerError::BadValue { nearest: near, .. } = &mut e {
        *near = nearest(value, option.values.iter().copied()).map(str::to_owned);
    }
    Err(e)
}

fn named(options: &'static [LayerOption], name: &str) -> Option<&'static LayerOption> {
    options.iter().find(|o| o.name == name)
}

fn names(options: &'static [LayerOption]) -> impl Iterator<Item = &'static str> {
    options.iter().map(|o| o.name).filter(|n| *n != "variant")
}

/// The error for a value that an option does not take.
pub(crate) fn bad(spec: &Spec, option: &str, value: &str, must: String) -> LayerError {
    LayerError::BadValue {
        layer: spec.to_string(),
        option: option.into(),
        value: value.into(),
        must,
        nearest: None,
    }
}

/// The value of an option: as given, else its default.
pub(crate) fn value<'a>(spec: &'a Spec, options: &'static [LayerOption], name: &str) -> &'a str {
    let given = match name {
        "variant" => spec.variant.as_ref(),
        _ => spec.options.get(name),
    };
    given.map_or_else(
        || named(options, name).map_or("", |o| o.default),
        String::as_str,
    )
}

/// Whether a switch with the values `on` and `off` is on.
pub(crate) fn on(spec: &Spec, options: &'static [LayerOption], name: &str) -> bool {
    value(spec, options, name) == "on"
}
