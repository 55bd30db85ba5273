//! Power cuts after a measurement.

use std::{path::Path, time::Duration};

use layermark_lab::{
    LabError, Stop,
    power_cut::{CutLayer, PowerCuts, power_cuts},
};
use layermark_model::{
    BASELINE, LayerRun, LayerStatus, PlanCuts, Run, Spec, witness::WitnessControl,
};

use crate::say::say;

/// Cuts the power of the run's layers, if its plan has power cuts and they were not made before.
/// `servers` are commands of file systems that are cut as well.
pub fn after(
    run: &mut Run,
    exe: &Path,
    silence: Duration,
    servers: &[Vec<String>],
    stop: &Stop,
) -> Result<(), LabError> {
    let Some(plan) = run.plan.power_cuts.clone() else {
        return Ok(());
    };
    if run.layers.iter().any(|l| !l.facts.power_cuts.is_empty()) {
        return Ok(());
    }
    let request = PowerCuts {
        dir: run.dir.clone().into(),
        exe: exe.into(),
        silence,
        cuts: plan.scaled(run.plan.scale),
        records: plan.records,
        seed: run.seed,
    };
    let layers = layers(run, &plan, servers);
    let trials = power_cuts(&request, &layers, stop, &mut |text| say(text))?;
    for trial in trials {
        let own = run.layers.iter().position(|l| l.name == trial.layer);
        run.layers[own.unwrap_or(BASELINE)]
            .facts
            .power_cuts
            .push(trial);
    }
    Ok(())
}

/// The layers of the run, those that are only cut, and the liar.
fn layers(run: &Run, plan: &PlanCuts, servers: &[Vec<String>]) -> Vec<CutLayer> {
    let mut layers: Vec<CutLayer> = Vec::new();
    let cut = |l: &&LayerRun| !l.control && l.status != LayerStatus::LeftOut;
    for layer in run.layers.iter().filter(cut) {
        let mut cut = CutLayer::new(layer.spec.clone());
        cut.name.clone_from(&layer.name);
        cut.control = layer.spec.is_native().then_some(WitnessControl::Honest);
        layers.push(cut);
    }
    layers.extend(servers.iter().map(|command| CutLayer::served(command)));
    let liar = Spec {
        variant: Some("volatile".into()),
        ..Spec::bare("overlay")
    };
    for (spec, control) in plan
        .also
        .iter()
        .map(|spec| (spec, None))
        .chain([(&liar, Some(WitnessControl::Liar))])
    {
        if !layers.iter().any(|l| l.spec == *spec) {
            let mut cut = CutLayer::new(spec.clone());
            cut.control = control;
            layers.push(cut);
        }
    }
    layers
}
