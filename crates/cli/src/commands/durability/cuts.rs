//! Power cuts after a measurement.

use std::{path::Path, time::Duration};

use layermark_lab::{
    LabError, Stop,
    power_cut::{CutLayer, Cuts, PowerCuts, planned, power_cuts},
};
use layermark_model::{
    BASELINE, LayerRun, LayerStatus, PlanCuts, Run, Spec,
    witness::{ProgramCut, WitnessControl, WitnessTrial},
};

use layermark_store::Store;

use crate::say::say;

/// Cuts the power of the run's layers, if its plan has power cuts, but for what was cut before.
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
    // Layers that lack everything are cut together, and each of the others alone, under what it lacks.
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    for layer in layers(run, &plan, servers) {
        match left(run, &layer.name) {
            Left::All => whole.push(layer),
            Left::Nothing => {}
            Left::Part(part) => parts.push((part.of(&request), vec![layer])),
        }
    }
    for (request, layers) in parts.into_iter().chain([(request, whole)]) {
        if layers.is_empty() {
            continue;
        }
        power_cuts(&request, &layers, stop, &|text| say(text), &mut |cuts| {
            add(run, cuts);
            // Cuts take minutes: those of a layer survive the end of this process.
            Ok(store.update(run)?)
        })?;
    }
    Ok(())
}

/// Whether power cuts of the run's plan are left that can be made when it is resumed: not those of the user's file
/// systems, whose commands are not stored.
pub fn are_left(run: &Run) -> bool {
    run.plan.power_cuts.as_ref().is_some_and(|plan| {
        let layers = layers(run, plan, &[]);
        let mut left = layers.iter().map(|layer| left(run, &layer.name));
        left.any(|left| left != Left::Nothing)
    })
}

/// Whether a stored result says that cuts were not begun.
pub fn some_not_begun(run: &Run) -> bool {
    run.layers.iter().map(|l| &l.facts).any(|facts| {
        let writers = facts.power_cuts.iter().map(|cut| &cut.unseen);
        let programs = facts.program_cuts.iter().map(|cut| &cut.unseen);
        let sequences = facts.sequence_cuts.iter().map(|cut| &cut.unseen);
        let mut all = writers.chain(programs).chain(sequences);
        all.any(|unseen| unseen.not_begun)
    })
}

/// Whether a file system of the user's could not be set up.
pub fn some_failed(run: &Run, servers: &[Vec<String>]) -> bool {
    let names: Vec<String> = servers.iter().map(|s| CutLayer::served(s).name).collect();
    let mut all = run.layers.iter().flat_map(|l| &l.facts.power_cuts);
    all.any(|cut| cut.uncut.is_some() && !cut.unseen.not_begun && names.contains(&cut.layer))
}

/// What is left to do to a layer.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    All,
    Part(Part),
    Nothing,
}

/// What was not begun in a layer of which something was.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    sequences: bool,
    /// Names.
    programs: Vec<String>,
}

impl Part {
    /// The request without what was done.
    fn of(&self, whole: &PowerCuts) -> PowerCuts {
        let mut request = PowerCuts {
            records: 0,
            ..whole.clone()
        };
        request.programs.retain(|p| self.programs.contains(&p.name));
        if !self.sequences {
            request.sequences.clear();
        }
        request
    }
}

/// What is left to do to a layer, by what is stored of it.
fn left(run: &Run, name: &str) -> Left {
    let facts = || run.layers.iter().map(|l| &l.facts);
    let of = |cut: &&WitnessTrial| cut.layer == name;
    let mut writers = facts().flat_map(|f| &f.power_cuts).filter(of);
    // Writers are first.
    if writers.next().is_none_or(|cut| cut.unseen.not_begun) {
        return Left::All;
    }
    let sequences = facts().flat_map(|f| &f.sequence_cuts);
    let mut sequences = sequences.filter(|cut| cut.layer == name);
    let programs = facts().flat_map(|f| &f.program_cuts);
    let programs = programs.filter(|cut| cut.layer == name && cut.unseen.not_begun);
    let part = Part {
        sequences: sequences.any(|cut| cut.unseen.not_begun),
        programs: programs.map(|cut| cut.program.clone()).collect(),
    };
    if part.sequences || !part.programs.is_empty() {
        Left::Part(part)
    } else {
        Left::Nothing
    }
}

/// Forgets that something was not begun which now was, or was not again.
fn forget_not_begun(run: &mut Run, cuts: &Cuts) {
    let writers = |layer: &str| cuts.writers.iter().any(|cut| cut.layer == layer);
    let sequences = |layer: &str| cuts.sequences.iter().any(|cut| cut.layer == layer);
    let program = |old: &ProgramCut| {
        let mut all = cuts.programs.iter();
        all.any(|cut| (&cut.layer, &cut.program) == (&old.layer, &old.program))
    };
    for layer in &mut run.layers {
        let facts = &mut layer.facts;
        facts
            .power_cuts
            .retain(|cut| !(cut.unseen.not_begun && writers(&cut.layer)));
        facts
            .program_cuts
            .retain(|cut| !(cut.unseen.not_begun && program(cut)));
        facts
            .sequence_cuts
            .retain(|cut| !(cut.unseen.not_begun && sequences(&cut.layer)));
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
    use layermark_model::witness::{
        CutProgram, Promise, SequenceCut, UnseenCuts, sequence::Sequence,
    };
    use layermark_testkit::sample::Sample;

    use super::*;

    fn begun(is_begun: bool) -> UnseenCuts {
        UnseenCuts {
            not_begun: !is_begun,
            ..UnseenCuts::default()
        }
    }

    fn writers(not_begun: bool) -> Cuts {
        Cuts {
            writers: vec![WitnessTrial {
                layer: "overlay:volatile".into(),
                unseen: begun(!not_begun),
                ..WitnessTrial::default()
            }],
            ..Cuts::default()
        }
    }

    fn program(name: &str, not_begun: bool) -> ProgramCut {
        ProgramCut {
            layer: "overlay:volatile".into(),
            program: name.into(),
            unseen: begun(!not_begun),
            ..ProgramCut::default()
        }
    }

    /// A run that was killed between two layers was never cut to its end.
    #[test]
    fn a_layer_is_cut_that_was_not_cut_before() {
        let (mut run, _) = Sample::default().build();
        // A layer that is only cut is kept with the baseline.
        add(&mut run, writers(false));
        assert_eq!(left(&run, "overlay:volatile"), Left::Nothing);
        assert_eq!(left(&run, "native"), Left::All);
        assert_eq!(left(&run, "fuse"), Left::All);
    }

    /// Nothing said that the layers behind a Ctrl-C had not been cut.
    #[test]
    fn a_layer_that_was_not_begun_is_cut_when_the_run_goes_on() {
        let (mut run, _) = Sample::default().build();
        let rows = |run: &Run| {
            let all = run.layers.iter().map(|l| l.facts.power_cuts.len());
            all.sum::<usize>()
        };
        // Twice, if the run was ended again.
        for _ in 0..2 {
            add(&mut run, writers(true));
            assert_eq!(left(&run, "overlay:volatile"), Left::All);
            assert!(some_not_begun(&run));
            assert_eq!(rows(&run), 1);
        }
        add(&mut run, writers(false));
        assert_eq!(left(&run, "overlay:volatile"), Left::Nothing);
        assert!(!some_not_begun(&run));
        assert_eq!(rows(&run), 1);
    }

    /// Ctrl-C between two programs: the second was never cut, since its layer had results.
    #[test]
    fn what_was_not_begun_in_a_layer_is_cut_without_the_rest() {
        let (mut run, _) = Sample::default().build();
        let begun = Cuts {
            programs: vec![program("queue", false), program("db", true)],
            ..writers(false)
        };
        add(&mut run, begun);
        let Left::Part(part) = left(&run, "overlay:volatile") else {
            panic!("{:?}", left(&run, "overlay:volatile"));
        };
        assert_eq!(
            (part.sequences, &part.programs[..]),
            (false, &["db".to_owned()][..])
        );
        let named = |name: &str| CutProgram {
            name: name.into(),
            run: "true".into(),
            check: "true".into(),
            ack: CutProgram::ACK.into(),
            promises: Promise::Kept,
            time_ms: CutProgram::TIME_MS,
            parallel_checks: false,
        };
        let whole = PowerCuts {
            dir: "/".into(),
            exe: "/".into(),
            silence: Duration::ZERO,
            cuts: 38,
            records: 500,
            seed: 1,
            programs: vec![named("queue"), named("db")],
            sequences: Sequence::all_of_one(),
        };
        let request = part.of(&whole);
        assert_eq!((request.records, request.cuts), (0, 38));
        assert!(request.sequences.is_empty());
        assert_eq!(request.programs, [named("db")]);
        // Its result takes the place of its row alone.
        let done = Cuts {
            programs: vec![program("db", false)],
            ..Cuts::default()
        };
        add(&mut run, done);
        assert_eq!(left(&run, "overlay:volatile"), Left::Nothing);
        let rows = run.layers.iter().flat_map(|l| &l.facts.program_cuts);
        let rows: Vec<(&str, bool)> = rows.map(|c| (&*c.program, c.unseen.not_begun)).collect();
        assert_eq!(rows, [("queue", false), ("db", false)]);
    }

    #[test]
    fn sequences_that_were_not_begun_are_left() {
        let (mut run, _) = Sample::default().build();
        let sequences = |not_begun: bool| SequenceCut {
            layer: "overlay:volatile".into(),
            unseen: begun(!not_begun),
            ..SequenceCut::default()
        };
        let begun = Cuts {
            sequences: vec![sequences(true)],
            ..writers(false)
        };
        add(&mut run, begun);
        let part = Part {
            sequences: true,
            programs: Vec::new(),
        };
        assert_eq!(left(&run, "overlay:volatile"), Left::Part(part));
    }

    /// Nobody stores the command of a file system of the user's.
    #[test]
    fn a_file_system_of_the_users_cannot_be_cut_later() {
        let (mut run, _) = Sample::default().build();
        let plan = PlanCuts {
            cuts: 3,
            records: 5,
            also: Vec::new(),
            programs: Vec::new(),
            sequences: None,
        };
        assert!(!are_left(&run));
        run.plan.power_cuts = Some(plan.clone());
        assert!(are_left(&run));
        let own = layers(&run, &plan, &[]);
        for layer in own.into_iter().map(|l| l.name).chain(["bindfs".into()]) {
            let trial = WitnessTrial {
                unseen: begun(layer != "bindfs"),
                layer,
                ..WitnessTrial::default()
            };
            run.layers[BASELINE].facts.power_cuts.push(trial);
        }
        assert!(some_not_begun(&run) && !are_left(&run));
        let servers = [vec!["bindfs".to_owned()]];
        assert!(!some_failed(&run, &servers), "it was not begun");
        let failed = WitnessTrial {
            layer: "bindfs".into(),
            uncut: Some("it did not answer".into()),
            ..WitnessTrial::default()
        };
        run.layers[BASELINE].facts.power_cuts.push(failed);
        assert!(some_failed(&run, &servers) && !some_failed(&run, &[]));
    }
}
