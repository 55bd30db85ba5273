//! `layermark layers`: what can be set up here, and what is missing.

use std::fmt::Write as _;
use std::process::ExitCode;

use layermark_layers::{ALL, Layer, NAMED, listed, sandbox};
use layermark_model::{Missing, Spec};
use serde_json::{Value, json};

use super::{complete, stdout};
use crate::{common_args::JsonArg, failure::Failure};

#[derive(Debug, clap::Args)]
pub struct LayersArgs {
    /// Only this layer, with its options
    #[arg(add = complete::layer_names())]
    layer: Option<String>,
    #[command(flatten)]
    pub json: JsonArg,
}

/// Prints every layer, or one with its options.
pub fn show(args: &LayersArgs) -> Result<ExitCode, Failure> {
    // In the sandbox, because its privileges decide which layers can be set up.
    sandbox::enter().map_err(Failure::failed)?;
    let mut chosen: Vec<&dyn Layer> = match &args.layer {
        None => ALL.to_vec(),
        Some(name) => vec![find(name)?],
    };
    chosen.sort_by_key(|layer| layer.group());
    if args.json.json {
        let layers: Vec<Value> = chosen.iter().map(|l| as_json(*l)).collect();
        let text = serde_json::to_string_pretty(
            &json!({ "schema": "layermark.layers/1", "layers": layers }),
        );
        stdout::print(&(text.map_err(Failure::failed)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for of_group in chosen.chunk_by(|a, b| a.group() == b.group()) {
        let lines = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{lines}{}:", of_group[0].group());
        for layer in of_group {
            describe(&mut text, *layer);
            if args.layer.is_some() {
                options(&mut text, *layer);
            }
        }
    }
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(text: &mut String, layer: &dyn Layer) {
    for (spec, missing) in states(layer) {
        let state = if missing.is_empty() {
            "ready"
        } else {
            "missing"
        };
        let name = spec.to_string();
        let _ = writeln!(text, "{name:<20} {state:<8} {}", about(layer, &spec));
        for Missing { what, hint, .. } in missing {
            let _ = writeln!(text, "{:<20} lacks {what}\n{:<20} hint: {hint}", "", "");
        }
    }
}

fn find(name: &str) -> Result<&'static dyn Layer, Failure> {
    // A whole spec is accepted too: `layermark layers overlay:upper`.
    let id = name.split([':', ',']).next().unwrap_or(name);
    layermark_layers::find(id).ok_or_else(|| layermark_layers::unknown(id).into())
}

fn about(layer: &dyn Layer, spec: &Spec) -> &'static str {
    layer.about(spec.variant.as_deref().unwrap_or_default())
}

/// The layer's usual specs, each with what this machine lacks for it.
fn states(layer: &dyn Layer) -> Vec<(Spec, Vec<Missing>)> {
    let mut specs = listed(layer);
    if specs.is_empty() {
        specs.push(Spec::bare(layer.id()));
    }
    specs
        .into_iter()
        .map(|spec| {
            let missing = layer.missing(&spec);
            (spec, missing)
        })
        .collect()
}

fn options(text: &mut String, layer: &dyn Layer) {
    *text += "\noptions:\n";
    for option in layer.options().iter().chain([&NAMED]) {
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
        let _ = write!(
            text,
            "  {}={values}\n      {}{default}\n",
            option.name, option.help
        );
    }
}

fn as_json(layer: &dyn Layer) -> Value {
    let options: Vec<Value> = layer
        .options()
        .iter()
        .chain([&NAMED])
        .map(
            |o| json!({ "name": o.name, "values": o.values, "default": o.default, "help": o.help }),
        )
        .collect();
    let specs: Vec<Value> = states(layer)
        .into_iter()
        .map(|(spec, missing)| {
            let default = layer.default_specs().contains(&&*spec.to_string());
            json!({ "spec": spec, "about": about(layer, &spec), "ready": missing.is_empty(), "default": default, "missing": missing })
        })
        .collect();
    json!({ "id": layer.id(), "group": layer.group().to_string(), "about": layer.about(""), "options": options, "specs": specs })
}
