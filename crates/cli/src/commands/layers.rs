//! `layermark layers`: what can be set up here, and what is missing.

use std::process::ExitCode;

use layermark_layers::{ALL, Layer, sandbox};
use layermark_model::{Missing, Spec, nearest};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Prints every layer, or one with its options.
pub fn show(name: Option<&str>, json: bool) -> Result<ExitCode, Failure> {
    // In the sandbox, because what can be set up depends on the privilege it gets.
    sandbox::enter().map_err(Failure::failed)?;
    let chosen: Vec<&dyn Layer> = match name {
        None => ALL.to_vec(),
        Some(name) => vec![find(name)?],
    };
    if json {
        let layers: Vec<Value> = chosen.iter().map(|l| as_json(*l)).collect();
        println!(
            "{}",
            serde_json::to_string_pretty(
                &json!({ "schema": "layermark.layers/1", "layers": layers })
            )
            .map_err(Failure::failed)?
        );
        return Ok(ExitCode::SUCCESS);
    }
    for layer in &chosen {
        for (spec, missing) in states(*layer) {
            let state = if missing.is_empty() {
                "ready"
            } else {
                "missing"
            };
            println!("{:<20} {state:<8} {}", spec.to_string(), layer.about());
            for lack in missing {
                println!(
                    "{:<20} lacks {}\n{:<20} hint: {}",
                    "", lack.what, "", lack.hint
                );
            }
        }
        if name.is_some() {
            options(*layer);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> Result<&'static dyn Layer, Failure> {
    // A whole spec is fine too: `layermark layers overlay:upper`.
    let id = name.split([':', ',']).next().unwrap_or(name);
    layermark_layers::find(id).ok_or_else(|| {
        let failure = Failure::usage(format!("there is no layer `{id}`"));
        match nearest(id, ALL.iter().map(|l| l.id())) {
            Some(near) => failure.hint(format!("did you mean `{near}`? layermark layers {near}")),
            None => failure.hint("layermark layers"),
        }
    })
}

/// The layer's usual specs, each with what this machine lacks for it.
fn states(layer: &dyn Layer) -> Vec<(Spec, Vec<Missing>)> {
    let bare = Spec {
        layer: layer.id().into(),
        variant: None,
        options: std::collections::BTreeMap::new(),
    };
    let mut specs: Vec<Spec> = layer
        .default_specs()
        .iter()
        .filter_map(|s| s.parse().ok())
        .collect();
    if specs.is_empty() {
        specs.push(bare);
    }
    specs
        .into_iter()
        .map(|spec| {
            let missing = layer.missing(&spec);
            (spec, missing)
        })
        .collect()
}

fn options(layer: &dyn Layer) {
    if layer.options().is_empty() {
        return;
    }
    println!("\noptions:");
    for option in layer.options() {
        let values = if option.values.is_empty() {
            "VALUE".to_owned()
        } else {
            option.values.join("|")
        };
        let default = if option.default.is_empty() {
            String::new()
        } else {
            format!(" [default: {}]", option.default)
        };
        println!("  {}={values}\n      {}{default}", option.name, option.help);
    }
}

fn as_json(layer: &dyn Layer) -> Value {
    let options: Vec<Value> = layer
        .options()
        .iter()
        .map(
            |o| json!({ "name": o.name, "values": o.values, "default": o.default, "help": o.help }),
        )
        .collect();
    let specs: Vec<Value> = states(layer)
        .into_iter()
        .map(|(spec, missing)| json!({ "spec": spec, "ready": missing.is_empty(), "missing": missing }))
        .collect();
    json!({ "id": layer.id(), "about": layer.about(), "options": options, "specs": specs })
}
