//! `layermark layers`: what can be set up here, and what is missing.

use std::fmt::Write as _;
use std::process::ExitCode;

use layermark_layers::{ALL, Layer, LayerInfo, LayerOption, NAMED, listed, sandbox};
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
    let text = if args.json.json {
        let layers = chosen.iter().map(|l| as_json(*l));
        let layers: Vec<Value> = layers.collect::<Result<_, Failure>>()?;
        let all = json!({ "schema": "layermark.layers/1", "layers": layers });
        serde_json::to_string_pretty(&all).map_err(Failure::failed)? + "\n"
    } else {
        let mut text = in_groups(&chosen)?;
        if let Some(layer) = chosen.pop().filter(|_| args.layer.is_some()) {
            capabilities(&mut text, &states(layer)?);
            options(&mut text, layer);
        }
        text
    };
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Each group and its layers.
fn in_groups(layers: &[&dyn Layer]) -> Result<String, Failure> {
    let mut all = Vec::new();
    for layer in layers {
        all.extend(states(*layer)?);
    }
    all.sort_by_key(|state| state.info.group);
    let mut text = String::new();
    for of_group in all.chunk_by(|a, b| a.info.group == b.info.group) {
        let line = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{line}{}:", of_group[0].info.group);
        for state in of_group {
            describe(&mut text, state);
        }
    }
    Ok(text)
}

fn describe(text: &mut String, state: &State) {
    let ready = if state.missing.is_empty() {
        "ready"
    } else {
        "missing"
    };
    let name = state.spec.to_string();
    let _ = writeln!(text, "{name:<20} {ready:<8} {}", state.info.about);
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
    info: LayerInfo,
    missing: Vec<Missing>,
}

fn states(layer: &dyn Layer) -> Result<Vec<State>, Failure> {
    let mut specs = listed(layer);
    if specs.is_empty() {
        specs.push(Spec::bare(layer.id()));
    }
    let state = |spec: Spec| {
        Ok(State {
            info: layer.describe(&spec)?,
            missing: layer.missing(&spec),
            spec,
        })
    };
    specs.into_iter().map(state).collect()
}

/// What the variants cannot do, and why; those of one reason together.
fn capabilities(text: &mut String, states: &[State]) {
    let mut absent: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for state in states {
        for (what, why) in state.info.capabilities() {
            let Some(why) = why else { continue };
            let known = absent.iter_mut().find(|(w, y, _)| (*w, *y) == (what, why));
            match known {
                Some((.., specs)) => specs.push(state.spec.to_string()),
                None => absent.push((what, why, vec![state.spec.to_string()])),
            }
        }
    }
    if !absent.is_empty() {
        *text += "\nnot for:\n";
    }
    for (what, why, specs) in absent {
        let which = if specs.len() == states.len() {
            String::new()
        } else {
            format!(" ({})", specs.join(" "))
        };
        let _ = writeln!(text, "  {what}{which}: {why}");
    }
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

fn as_json(layer: &dyn Layer) -> Result<Value, Failure> {
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
    let whole = layer.describe(&Spec::bare(layer.id()))?;
    let specs: Vec<Value> = states(layer)?
        .into_iter()
        .map(|state| {
            let default = whole.defaults.contains(&&*state.spec.to_string());
            let absent = state.info.capabilities().into_iter();
            let absent = absent.filter_map(|(what, why)| Some((what.to_owned(), why?.into())));
            json!({
                "spec": state.spec, "group": state.info.group.to_string(), "about": state.info.about.to_string(),
                "ready": state.missing.is_empty(), "default": default, "missing": state.missing,
                "not_for": absent.collect::<serde_json::Map<String, Value>>(),
            })
        })
        .collect();
    Ok(
        json!({ "id": layer.id(), "about": whole.about.to_string(), "options": options, "specs": specs }),
    )
}
