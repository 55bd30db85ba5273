//! `layermark layers`: what can be set up here, and what is missing.

use std::fmt::Write as _;
use std::process::ExitCode;

use layermark_layers::{ALL, Group, Layer, LayerOption, NAMED, listed, sandbox};
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
    let chosen: Vec<&dyn Layer> = match &args.layer {
        None => ALL.to_vec(),
        Some(name) => vec![find(name)?],
    };
    let text = if args.json.json {
        let layers: Vec<Value> = chosen.iter().map(|l| as_json(*l)).collect();
        let all = json!({ "schema": "layermark.layers/1", "layers": layers });
        serde_json::to_string_pretty(&all).map_err(Failure::failed)? + "\n"
    } else {
        let mut text = in_groups(&chosen);
        if args.layer.is_some() {
            options(&mut text, chosen[0]);
        }
        text
    };
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Each group and its layers.
fn in_groups(layers: &[&dyn Layer]) -> String {
    let mut all: Vec<State> = layers.iter().flat_map(|layer| states(*layer)).collect();
    all.sort_by_key(|state| state.group);
    let mut text = String::new();
    for of_group in all.chunk_by(|a, b| a.group == b.group) {
        let line = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{line}{}:", of_group[0].group);
        for state in of_group {
            describe(&mut text, state);
        }
    }
    text
}

fn describe(text: &mut String, state: &State) {
    let ready = if state.missing.is_empty() {
        "ready"
    } else {
        "missing"
    };
    let name = state.spec.to_string();
    let _ = writeln!(text, "{name:<20} {ready:<8} {}", state.about);
    for Missing { what, hint, .. } in &state.missing {
        let _ = writeln!(text, "{:<20} lacks {what}\n{:<20} hint: {hint}", "", "");
    }
}

fn find(name: &str) -> Result<&'static dyn Layer, Failure> {
    // A whole spec is accepted too: `layermark layers overlay:upper`.
    let id = name.split([':', ',']).next().unwrap_or(name);
    layermark_layers::find(id).ok_or_else(|| layermark_layers::unknown(id).into())
}

/// A usual spec of a layer, and what this machine lacks for it.
struct State {
    spec: Spec,
    group: Group,
    about: &'static str,
    missing: Vec<Missing>,
}

fn states(layer: &dyn Layer) -> Vec<State> {
    let mut specs = listed(layer);
    if specs.is_empty() {
        specs.push(Spec::bare(layer.id()));
    }
    let state = |spec: Spec| {
        let variant = spec.variant.as_deref().unwrap_or_default();
        State {
            group: layer.group(variant),
            about: layer.about(variant),
            missing: layer.missing(&spec),
            spec,
        }
    };
    specs.into_iter().map(state).collect()
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
        let reaches = reaches(option).map_or(String::new(), |what| format!(" [reaches: {what}]"));
        let _ = write!(
            text,
            "  {}={values}\n      {}{default}{reaches}\n",
            option.name, option.help
        );
    }
}

/// What it reaches beyond the run's directory.
fn reaches(option: &LayerOption) -> Option<String> {
    let (what, with) = option.reach?;
    Some(match with {
        "" => what.to_string(),
        with => format!("{what}, with {with}"),
    })
}

fn as_json(layer: &dyn Layer) -> Value {
    let options: Vec<Value> = layer
        .options()
        .iter()
        .chain([&NAMED])
        .map(|o| {
            json!({
                "name": o.name, "values": o.values, "default": o.default, "help": o.help,
                "reaches": reaches(o),
            })
        })
        .collect();
    let specs: Vec<Value> = states(layer)
        .into_iter()
        .map(|state| {
            let default = layer.default_specs().contains(&&*state.spec.to_string());
            json!({
                "spec": state.spec, "group": state.group.to_string(), "about": state.about,
                "ready": state.missing.is_empty(), "default": default, "missing": state.missing,
            })
        })
        .collect();
    json!({ "id": layer.id(), "about": layer.about(""), "options": options, "specs": specs })
}
