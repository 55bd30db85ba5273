//! What power cuts say about each layer.

use layermark_model::{
    LayerRun, Run,
    witness::{ClosedFiles, SequenceCut, Storey, WitnessControl, WitnessTrial},
};

use crate::{
    group,
    statements::{
        power_cuts::{
            ControlCut, ControlFault, ControlOpen, Controls, CutEvidence, Lie, Loss, PowerCuts,
        },
        sequences,
    },
};

/// Trials of all layers.
pub fn of(run: &Run) -> Vec<WitnessTrial> {
    let of = |l: &LayerRun| l.facts.power_cuts.clone();
    run.layers.iter().flat_map(of).collect()
}

/// Names of the layers that were cut, or could not be, each once.
pub fn layers(trials: &[WitnessTrial]) -> Vec<&str> {
    group::distinct(trials.iter().map(|trial| trial.layer.as_str()))
}

/// All trials of a layer together.
#[derive(Default)]
pub struct Sum<'a> {
    pub records: u64,
    pub cuts: u64,
    /// Cuts in which the writer that lost most often lost something.
    pub losing: u64,
    pub unrecovered: u64,
    pub flushes: Option<u64>,
    pub control: Option<WitnessControl>,
    /// The user named this control as a layer.
    pub named: bool,
    /// The writer that lost something in most cuts.
    pub worst: Option<&'a WitnessTrial>,
    pub uncut: Option<&'a str>,
    pub error: Option<&'a str>,
    pub unrecovered_why: Option<&'a str>,
    /// Cuts after which an error of this machine left nobody to look.
    pub unjudged: u64,
    pub unjudged_why: Option<&'a str>,
    /// Files that were closed before a clean unmount.
    pub closed: Option<&'a ClosedFiles>,
    /// A call that the layer refuses, with its error.
    pub refused: Option<&'a str>,
    /// Records of all writers that were lost when only the guest was killed.
    pub killed_lost: Option<u64>,
    /// Why the guest could not be set up again after it was killed.
    pub killed_why: Option<&'a str>,
    /// The stack, from fsync(2) to the disk.
    pub storeys: &'a [Storey],
}

impl Sum<'_> {
    /// It is only there because it is known to lie.
    pub fn is_only_liar(&self) -> bool {
        self.control == Some(WitnessControl::Liar) && !self.named
    }

    /// It lost files that were closed before a clean unmount.
    pub fn loses_closed(&self) -> bool {
        self.closed.is_some_and(|c| c.lost.is_some_and(|n| n > 0))
    }
}

pub fn sum<'a>(trials: &'a [WitnessTrial], layer: &str) -> Sum<'a> {
    let mut sum = Sum::default();
    for trial in trials.iter().filter(|t| t.layer == layer) {
        let unseen = &trial.unseen;
        sum.records += trial.records;
        sum.cuts = sum.cuts.max(trial.cuts);
        sum.losing = sum.losing.max(trial.losing);
        sum.unrecovered = sum.unrecovered.max(unseen.unrecovered);
        sum.flushes = sum.flushes.or(trial.flushes_below);
        sum.control = sum.control.or(trial.control);
        sum.named |= trial.named;
        sum.uncut = sum.uncut.or(trial.uncut.as_deref());
        sum.error = sum.error.or(trial.error.as_deref());
        sum.closed = sum.closed.or(trial.closed.as_ref());
        sum.refused = sum.refused.or(trial.refused.as_deref());
        sum.unrecovered_why = sum.unrecovered_why.or(unseen.unrecovered_why.as_deref());
        sum.unjudged = sum.unjudged.max(unseen.unjudged);
        sum.unjudged_why = sum.unjudged_why.or(unseen.unjudged_why.as_deref());
        if let Some(killed) = &trial.guest_killed {
            let lost = killed.lost.map(|n| sum.killed_lost.unwrap_or(0) + n);
            sum.killed_lost = lost.or(sum.killed_lost);
            sum.killed_why = sum.killed_why.or(killed.why.as_deref());
        }
        if sum.storeys.is_empty() {
            sum.storeys = &trial.storeys;
        }
        let more = |known: &&WitnessTrial| known.losing >= trial.losing;
        if trial.lied() && !sum.worst.as_ref().is_some_and(more) {
            sum.worst = Some(trial);
        }
    }
    sum
}

/// What a layer lost that it had acknowledged before a power cut; absent where none was.
pub fn lie<'a>(trials: &'a [WitnessTrial], layer: &'a str) -> Option<Lie<'a>> {
    let sum = sum(trials, layer);
    let worst = sum.worst?;
    Some(Lie {
        layer,
        worst,
        first: worst.first.as_ref()?,
        records: sum.records,
        flushes: sum.flushes,
        only: only_names(trials, layer),
    })
}

/// What a layer lost that was closed before a clean unmount.
fn lost_after_unmount<'a>(trials: &'a [WitnessTrial], layer: &'a str) -> Option<Loss<'a>> {
    let sum = sum(trials, layer);
    let closed = sum.closed.filter(|_| sum.loses_closed())?;
    Some(Loss::Closed(layer, closed))
}

/// Files that were closed before a clean unmount, as evidence.
pub fn closed<'a>(sum: &Sum<'a>) -> Option<CutEvidence<'a>> {
    sum.closed.map(CutEvidence::Closed)
}

/// Writers whose records depend on an fsync of a directory: of one with a new name, or without an old one.
const SYNC_DIRECTORIES: [&str; 3] = ["create", "rename", "sqlite"];

/// These writers, if only they lost data, while others were cut as well and lost nothing.
fn only_names<'a>(trials: &'a [WitnessTrial], layer: &str) -> Option<Vec<&'a str>> {
    let cut = trials.iter().filter(|t| t.layer == layer && t.cuts > 0);
    let (named, others): (Vec<_>, Vec<_>) =
        cut.partition(|t| SYNC_DIRECTORIES.contains(&t.writer.as_str()));
    let kept = !others.is_empty() && !others.iter().any(|t| t.lied());
    let lost = named.iter().filter(|t| t.lied());
    kept.then(|| lost.map(|t| t.writer.as_str()).collect())
}

/// What was there after only the guest was killed, and its host went on. Absent for other layers.
pub fn killed<'a>(sum: &Sum<'a>) -> Option<CutEvidence<'a>> {
    let lost = sum.killed_lost.map(CutEvidence::LostWhenKilled);
    lost.or(sum.killed_why.map(CutEvidence::NotSetUpWhenKilled))
}

/// What the layer refuses to do.
pub fn refuses<'a>(sum: &Sum<'a>) -> Option<CutEvidence<'a>> {
    sum.refused.map(CutEvidence::Refuses)
}

/// The layers that are measured because the answer is known.
pub fn controls(trials: &[WitnessTrial]) -> Controls<'_> {
    let of = |wanted: WitnessControl| {
        let names = layers(trials).into_iter();
        let mut all = names.map(|name| (name, sum(trials, name)));
        let (layer, sum) = all.find(|(_, sum)| sum.control == Some(wanted))?;
        Some(ControlCut {
            layer,
            losing: sum.losing,
            cuts: sum.cuts,
            open: control_open(&sum),
        })
    };
    Controls {
        honest: of(WitnessControl::Honest),
        lying: of(WitnessControl::Liar),
    }
}

fn control_open<'a>(sum: &Sum<'a>) -> Option<ControlOpen<'a>> {
    if let Some(why) = sum.uncut {
        return Some(ControlOpen::Uncut(Some(why)));
    }
    if sum.cuts > 0 {
        return None;
    }
    Some(match (sum.unjudged, sum.unrecovered) {
        (0, 0) => ControlOpen::Uncut(sum.error),
        (0, n) => ControlOpen::Unrecovered(n, sum.unrecovered_why.unwrap_or_default()),
        (n, _) => ControlOpen::Unjudged(n, sum.unjudged_why.unwrap_or_default()),
    })
}

/// The layer that is known to lie, if none of its cuts is judged: then nothing shows that a loss would be seen.
pub fn unseen_liar(trials: &[WitnessTrial]) -> Option<ControlCut<'_>> {
    let is_liar = |trial: &&WitnessTrial| trial.control == Some(WitnessControl::Liar);
    let is_seen = trials.iter().filter(is_liar).any(|trial| trial.cuts > 0);
    controls(trials).lying.filter(|_| !is_seen)
}

/// What is wrong with the controls: then no acquittal and no conviction can be believed.
pub fn controls_failed(trials: &[WitnessTrial]) -> Option<ControlFault<'_>> {
    layers(trials).into_iter().find_map(|name| {
        let sum = sum(trials, name);
        match sum.control? {
            WitnessControl::Liar if sum.cuts > 0 && sum.losing == 0 => {
                Some(ControlFault::LiarNotCaught(name))
            }
            WitnessControl::Honest if sum.losing > 0 => Some(ControlFault::HonestLost(name)),
            _ => None,
        }
    })
}

/// The same of writers and of sequences, each of which has controls of its own.
pub fn control_fault<'a>(
    trials: &'a [WitnessTrial],
    of_sequences: &'a [SequenceCut],
) -> Option<ControlFault<'a>> {
    controls_failed(trials).or_else(|| sequences::controls_failed(of_sequences))
}

/// The sentence for the headline: a layer that is not a control lost what it had acknowledged or closed, or the
/// controls say that nothing can be believed.
pub fn sentence(trials: &[WitnessTrial]) -> Option<PowerCuts<'_>> {
    if let Some(why) = controls_failed(trials) {
        return Some(PowerCuts::Unbelievable(why));
    }
    let (mut lies, mut closed) = (Vec::new(), Vec::new());
    for name in layers(trials) {
        if sum(trials, name).is_only_liar() {
            continue;
        }
        match lie(trials, name) {
            Some(lie) => lies.push(Loss::Lie(lie)),
            None => closed.extend(lost_after_unmount(trials, name)),
        }
    }
    let more_lies = lies.len().saturating_sub(1);
    let more_closed = closed.len() - usize::from(lies.is_empty() && !closed.is_empty());
    Some(PowerCuts::Lost {
        first: lies.into_iter().chain(closed).next()?,
        more_lies,
        more_closed,
        controls: controls(trials),
    })
}

#[cfg(test)]
mod tests {
    use layermark_model::witness::{LostRecord, Outcome, WitnessFinding};
    use layermark_testkit::sample::unseen;

    use super::*;
    use crate::words::said;

    fn trial(layer: &str, control: Option<WitnessControl>, losing: u64) -> WitnessTrial {
        let first = LostRecord {
            finding: WitnessFinding {
                outcome: Outcome::Lost,
                sequence: 137,
                block: 136,
                text: "it is absent".into(),
                permitted: false,
            },
            at_ms: 43_203_413,
            timeline: Vec::new(),
        };
        WitnessTrial {
            layer: layer.into(),
            writer: "append".into(),
            control,
            records: 500,
            cuts: 38,
            losing,
            first: (losing > 0).then_some(first),
            flushes_below: Some(0),
            ..WitnessTrial::default()
        }
    }

    /// rclone's server was empty, and nothing was said.
    #[test]
    fn files_that_a_clean_unmount_loses_are_a_loss() {
        let with = |lost, why: Option<&str>| {
            let closed = ClosedFiles {
                files: 40,
                lost,
                why: why.map(str::to_owned),
            };
            WitnessTrial {
                closed: Some(closed),
                refused: Some("fsync of a directory: Invalid argument (os error 22)".into()),
                ..trial("rclone mount", None, 0)
            }
        };
        let absent = Some("in the layer, mounted again, its file is absent");
        let lost = [with(Some(40), absent)];
        assert_eq!(
            said(&sentence(&lost).unwrap()),
            "`rclone mount` loses what was closed just before a clean unmount: 40 of 40 files (in the layer, mounted \
             again, its file is absent). Controls: no honest one was cut; no lying one was cut"
        );
        // It kept what it had acknowledged. Another one did not, and a third is as bad as the first.
        assert_eq!(lie(&lost, "rclone mount"), None);
        let as_well = |layers: &[&str]| {
            let mut all = lost.to_vec();
            all.extend(layers.iter().map(|layer| WitnessTrial {
                layer: (*layer).into(),
                ..lost[0].clone()
            }));
            all
        };
        let all = as_well(&["sshfs"]);
        let told = said(&sentence(&all).unwrap());
        let too =
            "its file is absent); 1 other layer loses closed files as well. Controls: no honest";
        assert!(told.contains(too), "{told}");
        let mut all = as_well(&["sshfs"]);
        all.push(trial("fuse", None, 2));
        let told = said(&sentence(&all).unwrap());
        assert!(told.starts_with("`fuse` lies: record 137"), "{told}");
        let too = "0 flushes below; 2 other layers lose closed files as well. Controls: no honest";
        assert!(told.contains(too), "{told}");
        let kept = [with(Some(0), None)];
        assert_eq!(sentence(&kept), None);
        let of = sum(&kept, "rclone mount");
        let there = "40 files that were closed just before a clean unmount are there";
        assert_eq!(said(&closed(&of).unwrap()), there);
        let refused = "it refuses fsync of a directory: Invalid argument (os error 22), so it promises no new name and no rename";
        assert_eq!(said(&refuses(&of).unwrap()), refused);
        let unknown = [with(None, Some("it lacks a key"))];
        assert_eq!(sentence(&unknown), None);
        let words = said(&closed(&sum(&unknown, "rclone mount")).unwrap());
        assert_eq!(
            words,
            "what a clean unmount leaves is not known (it lacks a key)"
        );
    }

    #[test]
    fn a_lie_about_directories_alone_says_so() {
        let of = |writer: &str, losing| WitnessTrial {
            writer: writer.into(),
            ..trial("vm:share=nfs", None, losing)
        };
        let mut all = vec![of("append", 0), of("create", 0), of("rename", 2)];
        all.push(of("sqlite", 1));
        let told = said(&lie(&all, "vm:share=nfs").unwrap());
        let names = "; only writers that sync a directory lost data (`rename` and `sqlite`)";
        assert!(told.ends_with(names), "{told}");
        // Not where another writer lost data, or none was cut.
        all.push(of("mmap", 1));
        let told = said(&lie(&all, "vm:share=nfs").unwrap());
        assert!(told.ends_with("0 flushes below"), "{told}");
        let told = [of("rename", 2)];
        let told = said(&lie(&told, "vm:share=nfs").unwrap());
        assert!(told.ends_with("0 flushes below"), "{told}");
    }

    #[test]
    fn a_lie_is_one_sentence_with_its_evidence_and_the_controls() {
        let honest = trial("native", Some(WitnessControl::Honest), 0);
        let liar = trial("overlay:volatile", Some(WitnessControl::Liar), 38);
        let all = [
            honest.clone(),
            trial("vm:cache=unsafe", None, 38),
            liar.clone(),
        ];
        assert_eq!(
            said(&sentence(&all).unwrap()),
            "`vm:cache=unsafe` lies: record 137 of `append`, fsync returned at 12:00:03.413 UTC, is lost after a \
             power cut (it is absent); data was lost in 38 of 38 cuts; 500 records acknowledged, 0 flushes below. \
             Controls: `native` (honest) lost data in 0 of 38 cuts; `overlay:volatile` (lying) lost data in 38 of 38 \
             cuts"
        );
        // Controls that came out wrong convict nobody.
        let lost = trial("native", Some(WitnessControl::Honest), 1);
        let told = [lost, trial("fuse", None, 38)];
        let told = said(&sentence(&told).unwrap());
        assert!(
            told.ends_with("`native` is known to be honest and lost data"),
            "{told}"
        );
        // A liar that is only there as one convicts nobody. One that the user named is convicted, and is the
        // control as well.
        assert_eq!(sentence(&[honest.clone(), liar.clone()]), None);
        let named = WitnessTrial {
            named: true,
            ..liar
        };
        let told = [honest, named];
        let told = said(&sentence(&told).unwrap());
        assert!(
            told.starts_with("`overlay:volatile` lies: record 137"),
            "{told}"
        );
        assert!(
            told.ends_with("`overlay:volatile` (lying) lost data in 38 of 38 cuts"),
            "{told}"
        );
        let uncut = WitnessTrial {
            uncut: Some("it lacks root".into()),
            ..trial("native", Some(WitnessControl::Honest), 0)
        };
        let told = [uncut];
        let told = said(&controls(&told));
        assert!(
            told.starts_with("Controls: `native` (honest) was not cut: it lacks root;"),
            "{told}"
        );
        assert!(told.ends_with("no lying one was cut"), "{told}");
    }

    /// "Lost data in 0 of 0 cuts" was said of it, and other layers were acquitted by it.
    #[test]
    fn a_control_whose_cuts_nobody_judged_says_so() {
        let liar = WitnessTrial {
            cuts: 0,
            ..trial("overlay:volatile", Some(WitnessControl::Liar), 0)
        };
        let of = |liar: WitnessTrial| {
            let all = [liar];
            let is_unseen = unseen_liar(&all).is_some();
            let told = said(&controls(&all));
            let (_, told) = told.split_once("; ").unwrap();
            (is_unseen, told.to_owned())
        };
        let name = "`overlay:volatile` (lying)";
        let unjudged = WitnessTrial {
            unseen: unseen((0, ""), (38, "no loop device")),
            ..liar.clone()
        };
        let why = "has no cut that is judged: 38 are not (no loop device)";
        assert_eq!(of(unjudged), (true, format!("{name} {why}")));
        let unrecovered = WitnessTrial {
            unseen: unseen((1, "it lacks a key"), (0, "")),
            ..liar.clone()
        };
        let why = "could not be set up again after 1 cut (it lacks a key)";
        assert_eq!(of(unrecovered), (true, format!("{name} {why}")));
        assert_eq!(of(liar), (true, format!("{name} was not cut")));
        let caught = trial("overlay:volatile", Some(WitnessControl::Liar), 38);
        let told = format!("{name} lost data in 38 of 38 cuts");
        assert_eq!(of(caught), (false, told));
        assert_eq!(unseen_liar(&[trial("native", None, 0)]), None);
    }
}
