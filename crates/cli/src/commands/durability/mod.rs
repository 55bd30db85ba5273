//! `layermark durability`: does a layer keep what it acknowledged?

mod check;
mod log;
mod record;
pub mod selftest;

use std::process::ExitCode;

use layermark_lab::{
    LabError, Stop,
    power_cut::{CutLayer, PowerCuts, power_cuts},
};
use layermark_model::{BASELINE, Run, Settings, Spec, witness::WitnessControl};
use serde_json::{Map, Value};

use super::{
    measure::{exe, go_on},
    run::new_order,
};
use crate::{
    args::{ByHand, DurabilityArgs},
    failure::Failure,
    say::say,
};

pub fn wants_json(args: &DurabilityArgs) -> bool {
    match &args.by_hand {
        Some(ByHand::Check(check)) => check.json.json,
        Some(ByHand::Record(_)) => false,
        None => args.common.out.json.json,
    }
}

pub fn main(args: &DurabilityArgs) -> Result<ExitCode, Failure> {
    match &args.by_hand {
        Some(ByHand::Record(args)) => record::until_the_power_is_cut(args),
        Some(ByHand::Check(args)) => check::after_the_power_cut(args),
        None => of_layers(args),
    }
}

/// Counts flushes, then cuts the power.
fn of_layers(args: &DurabilityArgs) -> Result<ExitCode, Failure> {
    if args.common.layers.is_empty() {
        return Err(Failure::usage("durability: no layer").hint(
            "layermark durability -l overlay:upper; all that can be set up: layermark layers",
        ));
    }
    let order = new_order(appends(), &args.common)?;
    let exe = exe()?;
    let mut cut = |run: &mut Run, stop: &Stop| -> Result<(), LabError> {
        if args.cuts == 0 {
            return Ok(());
        }
        let request = PowerCuts {
            dir: run.dir.clone().into(),
            exe: exe.clone(),
            silence: args.common.silence,
            cuts: args.cuts,
            records: args.records,
            seed: run.seed,
        };
        let trials = power_cuts(&request, &layers(run), stop, &mut |text| say(text))?;
        for trial in trials {
            let own = run.layers.iter().position(|l| l.name == trial.layer);
            let at = own.unwrap_or(BASELINE);
            run.layers[at].facts.power_cuts.push(trial);
        }
        Ok(())
    };
    go_on(order, &args.common, None, Some(&mut cut))
}

/// Writes of 4 KiB at the end of a file, each followed by fsync.
fn appends() -> Settings {
    let params = [("op", "append"), ("record", "4K"), ("sync", "each")];
    let params = params.map(|(key, value)| (key.to_owned(), Value::from(value)));
    Settings {
        workload: "file".into(),
        label: None,
        params: Map::from_iter(params),
    }
}

/// The layers of the run, and the two controls.
fn layers(run: &Run) -> Vec<CutLayer> {
    let mut layers: Vec<CutLayer> = Vec::new();
    for layer in run.layers.iter().filter(|l| !l.control) {
        let mut cut = CutLayer::new(layer.spec.clone());
        cut.name.clone_from(&layer.name);
        cut.control = layer.spec.is_native().then_some(WitnessControl::Honest);
        layers.push(cut);
    }
    let liar = Spec {
        variant: Some("volatile".into()),
        ..Spec::bare("overlay")
    };
    if !layers.iter().any(|l| l.spec == liar) {
        let mut cut = CutLayer::new(liar);
        cut.control = Some(WitnessControl::Liar);
        layers.push(cut);
    }
    layers
}
