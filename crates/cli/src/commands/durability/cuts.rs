//! Power cuts after a measurement.

use std::{path::Path, time::Duration};

use layermark_lab::{
    LabError, Stop,
    power_cut::{CutLayer, Cuts, PowerCuts, planned, power_cuts},
};
use layermark_model::{
    BASELINE, LayerRun, LayerStatus, PlanCuts, Run, Spec, witness::WitnessControl,
};

use layermark_store::Store;

use crate::say::say;

/// Cuts the power of the run's layers, if its plan has power cuts, but for those that were cut before.
/// `servers` are commands of file systems that are cut as well. What was done to each layer is stored at once.
pub fn after(
    run: &mut Run,
    store: &mut Store,
    exe: &Path,
    silence: Duration,
    servers: &[Vec<String>],
    stop: &Stop,
) -> Result<(), LabError> {
    let Some(plan) = run.plan.power_cuts.clone() else {
        return Ok(());
    };
    let mut layers = layers(run, &plan, servers);
    layers.retain(|layer| !was_cut(run, &layer.name));
    if layers.is_empty() {
        return Ok(());
    }
    let request = PowerCuts {
        dir: run.dir.clone().into(),
        exe: exe.into(),
        silence,
        cuts: plan.scaled(run.plan.scale),
        records: plan.records,
        seed: run.seed,
        programs: plan.programs.clone(),
        sequences: plan
            .sequences
            .as_ref()
            .map_or_else(Vec::new, |s| planned(s, run.seed)),
    };
    power_cuts(&request, &layers, stop, &|text| say(text), &mut |cuts| {
        add(run, cuts);
        // Cuts take minutes: those of a layer survive the end of this process.
        Ok(store.update(run)?)
    })
}

/// Whether what was done to a layer is stored, and not only that nothing was.
fn was_cut(run: &Run, name: &str) -> bool {
    run.layers.iter().map(|l| &l.facts).any(|facts| {
        let mut writers = facts.power_cuts.iter();
        writers.any(|cut| cut.layer == name && !cut.not_begun)
            || facts
                .program_cuts
                .iter()
                .any(|cut| cut.layer == name && !cut.not_begun)
            || facts
                .sequence_cuts
                .iter()
                .any(|cut| cut.layer == name && !cut.not_begun)
    })
}

/// Forgets that layers were not begun which now are, or are not again.
fn forget_not_begun(run: &mut Run, cuts: &Cuts) {
    let begun = |layer: &str| cuts.writers.iter().any(|cut| cut.layer == layer);
    for layer in &mut run.layers {
        let facts = &mut layer.facts;
        facts
            .power_cuts
            .retain(|cut| !(cut.not_begun && begun(&cut.layer)));
        facts
            .program_cuts
            .retain(|cut| !(cut.not_begun && begun(&cut.layer)));
        facts
            .sequence_cuts
            .retain(|cut| !(cut.not_begun && begun(&cut.layer)));
    }
}

/// Adds what power cuts did to the facts of their layers.
fn add(run: &mut Run, cuts: Cuts) {
    forget_not_begun(run, &cuts);
    for trial in cuts.writers {
        let own = own(run, &trial.layer);
        run.layers[own].facts.power_cuts.push(trial);
    }
    for cut in cuts.programs {
        let own = own(run, &cut.layer);
        run.layers[own].facts.program_cuts.push(cut);
    }
    for cut in cuts.sequences {
        let own = own(run, &cut.layer);
        run.layers[own].facts.sequence_cuts.push(cut);
    }
}

/// The layer of this name, or the baseline, which has those that are only cut.
fn own(run: &Run, name: &str) -> usize {
    let own = run.layers.iter().position(|l| l.name == name);
    own.unwrap_or(BASELINE)
}

/// The layers of the run, those that are only cut, and the controls: native, and the liar.
fn layers(run: &Run, plan: &PlanCuts, servers: &[Vec<String>]) -> Vec<CutLayer> {
    let honest = Spec::bare("native");
    let liar = Spec {
        variant: Some("volatile".into()),
        ..Spec::bare("overlay")
    };
    let known = |spec: &Spec| match spec {
        spec if spec.is_native() => Some(WitnessControl::Honest),
        spec if spec.unlabelled() == liar => Some(WitnessControl::Liar),
        _ => None,
    };
    let cut = |spec: &Spec, name: &str, named: bool| CutLayer {
        name: name.to_owned(),
        control: known(spec),
        named: named && spec.unlabelled() == liar,
        ..CutLayer::new(spec.clone())
    };
    let own = |l: &&LayerRun| !l.control && l.status != LayerStatus::LeftOut;
    let own = run.layers.iter().filter(own);
    let mut layers: Vec<CutLayer> = own.map(|l| cut(&l.spec, &l.name, true)).collect();
    layers.extend(servers.iter().map(|command| CutLayer::served(command)));
    let also = plan.also.iter().map(|spec| (spec, true));
    for (spec, named) in also.chain([(&honest, false), (&liar, false)]) {
        let is_cut = |l: &CutLayer| l.server.is_empty() && l.spec.unlabelled() == *spec;
        if !layers.iter().any(is_cut) {
            layers.push(cut(spec, &spec.name(), named));
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use layermark_model::witness::WitnessTrial;
    use layermark_testkit::sample::Sample;

    use super::*;

    /// A run that was killed between two layers was never cut to its end.
    #[test]
    fn a_layer_is_cut_that_was_not_cut_before() {
        let (mut run, _) = Sample::default().build();
        let cut = WitnessTrial {
            layer: "overlay:volatile".into(),
            ..WitnessTrial::default()
        };
        // A layer that is only cut is kept with the baseline.
        run.layers[BASELINE].facts.power_cuts.push(cut);
        assert!(was_cut(&run, "overlay:volatile"));
        assert!(!was_cut(&run, "native") && !was_cut(&run, "fuse"));
    }

    /// Nothing said that the layers behind a Ctrl-C had not been cut.
    #[test]
    fn a_layer_that_was_not_begun_is_cut_when_the_run_goes_on() {
        let (mut run, _) = Sample::default().build();
        let writers = |not_begun| Cuts {
            writers: vec![WitnessTrial {
                layer: "overlay:volatile".into(),
                not_begun,
                ..WitnessTrial::default()
            }],
            ..Cuts::default()
        };
        let rows = |run: &Run| {
            let all = run.layers.iter().map(|l| l.facts.power_cuts.len());
            all.sum::<usize>()
        };
        // Twice, if the run was ended again.
        for _ in 0..2 {
            add(&mut run, writers(true));
            assert!(!was_cut(&run, "overlay:volatile"));
            assert_eq!(rows(&run), 1);
        }
        add(&mut run, writers(false));
        assert!(was_cut(&run, "overlay:volatile"));
        assert_eq!(rows(&run), 1);
    }
}
