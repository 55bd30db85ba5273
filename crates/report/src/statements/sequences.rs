//! What power cuts did to sequences of operations: which layers lost what POSIX promises, and which only what Linux file
//! systems keep beyond it.

use layermark_model::{
    Run,
    witness::{
        SequenceCut, WitnessControl,
        sequence::{Basis, LostSequence, LostThing, Sequence},
    },
};

use super::power_cuts::ControlFault;
use crate::types::SequenceSample;

/// A layer under sequences of operations.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceAnswer<'a> {
    /// The layer.
    pub layer: &'a str,
    /// Sequences that were done, and whose cuts were all tried, or one of them took what was promised.
    pub sequences: u64,
    /// Power cuts after which the files were looked at.
    pub cuts: u64,
    /// Sequences that lost what POSIX promises.
    pub posix: u64,
    /// Sequences that lost only what POSIX does not promise.
    pub beyond: u64,
    /// The smallest sequence that lost what POSIX promises, and the first thing that it lost.
    pub smallest: Option<Example<'a>>,
    /// The same beyond POSIX.
    pub smallest_beyond: Option<Example<'a>>,
    /// Why it is not proved that nothing was lost, or that the layer lost it.
    pub open: Option<OpenSequences<'a>>,
}

/// A sequence and what it lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Example<'a> {
    /// The sequence.
    pub sequence: &'a str,
    /// The first thing that it lost.
    pub thing: &'a LostThing,
}

/// Why nothing is proved of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenSequences<'a> {
    /// No power was cut under them.
    NotCut(&'a str),
    /// The run was stopped before, or no sequence could be done; why.
    None(Option<&'a str>),
    /// After so many cuts nobody could look, and why. So many more are not judged, with the error of this machine.
    Partly(u64, &'a str, Option<(u64, &'a str)>),
    /// So many cuts are not judged, and the error of this machine.
    Unjudged(u64, &'a str),
    /// The run ended before all cuts of so many sequences, of so many.
    Unfinished(u64, u64),
    /// A layer that is known to lie lost nothing that POSIX promises.
    LiarLostNothing(&'a str),
    /// No power was cut under them in a layer that is known to lie.
    NoLiar,
    /// Nor in one that is known to be honest.
    NoHonest,
    /// A layer that is known to be honest lost what POSIX promises.
    HonestLost(&'a str),
    /// This layer did, and is known to be honest.
    IsHonest,
}

impl SequenceAnswer<'_> {
    /// It lost what POSIX promises, and the controls say that this can be believed.
    pub fn lied(&self) -> bool {
        self.posix > 0 && self.open.is_none()
    }
}

/// What is wrong with the controls of sequences. Where the one that is known to lie loses nothing, a loss in another
/// layer shows as well that a loss is seen.
pub fn controls_failed(cuts: &[SequenceCut]) -> Option<ControlFault<'_>> {
    let is = |control| move |cut: &&SequenceCut| cut.control == Some(control);
    if let Some(honest) = cuts
        .iter()
        .filter(is(WitnessControl::Honest))
        .find(|c| c.lied())
    {
        return Some(ControlFault::HonestLostSequence(&honest.layer));
    }
    let mut liars = cuts.iter().filter(is(WitnessControl::Liar));
    let tried = liars.find(|c| c.cuts > 0 && c.unfinished == 0)?;
    let is_blind = !cuts.iter().any(SequenceCut::lied);
    is_blind.then_some(ControlFault::LiarKeptSequences(&tried.layer))
}

/// Cuts of sequences in all layers.
pub fn cuts(run: &Run) -> Vec<SequenceCut> {
    let of = run.layers.iter().flat_map(|l| &l.facts.sequence_cuts);
    of.cloned().collect()
}

/// Which sequences the plan asks for, where it names none.
pub fn sample(run: &Run) -> Option<SequenceSample> {
    let plan = run.plan.power_cuts.as_ref()?.sequences.as_ref()?;
    let drawn = if plan.operations > 1 { plan.sample } else { 0 };
    plan.only.is_empty().then_some(SequenceSample {
        of_one: Sequence::OF_ONE as u64,
        of_two: u64::from(drawn),
        all_of_two: Sequence::OF_TWO as u64,
    })
}

/// The answer for each layer that is not only there to lie, those that lost most first.
pub fn answers(cuts: &[SequenceCut]) -> Vec<SequenceAnswer<'_>> {
    let is = |control| move |cut: &&SequenceCut| cut.control == Some(control) && cut.cuts > 0;
    let honest = cuts.iter().find(is(WitnessControl::Honest));
    let believed = match (honest, cuts.iter().find(is(WitnessControl::Liar))) {
        (Some(honest), _) if honest.lied() => Some(OpenSequences::HonestLost(&honest.layer)),
        (None, _) => Some(OpenSequences::NoHonest),
        (_, None) => Some(OpenSequences::NoLiar),
        (_, Some(liar)) if !liar.lied() => Some(OpenSequences::LiarLostNothing(&liar.layer)),
        _ => None,
    };
    let only_liar = |c: &SequenceCut| c.control == Some(WitnessControl::Liar) && !c.named;
    let told = cuts.iter().filter(|c| !only_liar(c));
    let mut all: Vec<SequenceAnswer<'_>> = told.map(|cut| answer(cut, believed)).collect();
    all.sort_by_key(|a| std::cmp::Reverse((a.posix, a.beyond)));
    all
}

fn answer<'a>(cut: &'a SequenceCut, believed: Option<OpenSequences<'a>>) -> SequenceAnswer<'a> {
    let posix = cut.losing(Basis::Posix);
    let unseen = &cut.unseen;
    let unjudged_why = unseen.unjudged_why.as_deref().unwrap_or_default();
    let open = match (&cut.uncut, &unseen.unrecovered_why) {
        _ if posix > 0 && cut.control == Some(WitnessControl::Honest) => {
            Some(OpenSequences::IsHonest)
        }
        // What was lost in a layer that a liar proves nothing of is lost all the same, and so it is if the power was not
        // cut under the rest.
        _ if posix > 0 => believed
            .filter(|open| matches!(open, OpenSequences::HonestLost(_) | OpenSequences::NoHonest)),
        (Some(why), _) => Some(OpenSequences::NotCut(why)),
        (None, _) if cut.cuts == 0 => {
            let why = unseen.why();
            Some(OpenSequences::None(why.or(cut.left_out_why.as_deref())))
        }
        (None, Some(why)) if unseen.unrecovered > 0 => {
            let unjudged = (unseen.unjudged > 0).then_some((unseen.unjudged, unjudged_why));
            Some(OpenSequences::Partly(unseen.unrecovered, why, unjudged))
        }
        _ if unseen.unjudged > 0 => Some(OpenSequences::Unjudged(unseen.unjudged, unjudged_why)),
        _ if cut.unfinished > 0 => {
            let all = cut.sequences + cut.unfinished;
            Some(OpenSequences::Unfinished(cut.unfinished, all))
        }
        _ => believed,
    };
    SequenceAnswer {
        layer: &cut.layer,
        sequences: cut.sequences,
        cuts: cut.cuts,
        posix,
        beyond: cut.losing(Basis::Linux),
        smallest: cut.smallest.as_ref().and_then(|s| example(s, Basis::Posix)),
        smallest_beyond: shortest(cut, Basis::Linux).and_then(|s| example(s, Basis::Linux)),
        open,
    }
}

/// The shortest of those that lost nothing worse.
fn shortest(cut: &SequenceCut, basis: Basis) -> Option<&LostSequence> {
    let of = cut.lost.iter().filter(|lost| lost.basis() == basis);
    of.min_by_key(|lost| (lost.sequence.matches(';').count(), lost.sequence.len()))
}

fn example(lost: &LostSequence, basis: Basis) -> Option<Example<'_>> {
    let thing = lost.things.iter().find(|thing| thing.basis == basis)?;
    let sequence = lost.sequence.as_str();
    Some(Example { sequence, thing })
}

#[cfg(test)]
pub(crate) mod tests {
    use layermark_testkit::sample::{self, unseen};

    use super::*;

    /// A layer of whose 200 sequences these lost something.
    pub(crate) fn cut(
        layer: &str,
        control: Option<WitnessControl>,
        lost: &[(&str, Basis)],
    ) -> SequenceCut {
        let lost = lost
            .iter()
            .map(|(text, basis)| sample::lost_sequence(text, *basis));
        let lost: Vec<LostSequence> = lost.collect();
        SequenceCut {
            layer: layer.into(),
            control,
            sequences: 200,
            cuts: 800,
            smallest: lost.first().cloned(),
            lost,
            ..SequenceCut::default()
        }
    }

    pub(crate) const POSIX: (&str, Basis) = ("create a/g; fsync a", Basis::Posix);
    pub(crate) const BEYOND: (&str, Basis) = ("create a/g; syncfs", Basis::Linux);

    fn native(lost: &[(&str, Basis)]) -> SequenceCut {
        cut("native", Some(WitnessControl::Honest), lost)
    }

    fn liar(lost: &[(&str, Basis)]) -> SequenceCut {
        cut("overlay:volatile", Some(WitnessControl::Liar), lost)
    }

    #[test]
    fn what_posix_does_not_promise_is_never_a_lie() {
        let all = [native(&[]), cut("fuse", None, &[BEYOND]), liar(&[POSIX])];
        let answers = answers(&all);
        assert_eq!(answers.len(), 2);
        assert_eq!(
            (answers[0].layer, answers[0].posix, answers[0].beyond),
            ("fuse", 0, 1)
        );
        assert!(answers.iter().all(|a| !a.lied() && a.open.is_none()));
        assert_eq!(answers[0].smallest, None);
        assert_eq!(answers[0].smallest_beyond.unwrap().sequence, BEYOND.0);
    }

    #[test]
    fn a_layer_is_convicted_only_where_the_honest_control_kept_all() {
        let lossy = || cut("fuse", None, &[POSIX]);
        let of = |all: &[SequenceCut]| {
            let answers = answers(all);
            let found = answers.iter().find(|a| a.layer == "fuse").unwrap();
            (found.lied(), found.open.is_some())
        };
        assert_eq!(of(&[native(&[]), lossy(), liar(&[POSIX])]), (true, false));
        // A loss is a loss, whatever the liar did.
        assert_eq!(of(&[native(&[]), lossy(), liar(&[])]), (true, false));
        assert_eq!(
            of(&[native(&[POSIX]), lossy(), liar(&[POSIX])]),
            (false, true)
        );
        // Nor where it was not cut: what the disk itself keeps is not known.
        let uncut = SequenceCut {
            cuts: 0,
            ..native(&[])
        };
        assert_eq!(of(&[uncut, lossy(), liar(&[POSIX])]), (false, true));
        assert_eq!(of(&[lossy(), liar(&[POSIX])]), (false, true));
    }

    /// Why the rest was not cut hid it.
    #[test]
    fn a_loss_before_the_probe_broke_is_a_loss() {
        let broken = |lost: &[(&str, Basis)]| SequenceCut {
            uncut: Some("after 119 of 179 sequences: the probe ended".into()),
            ..cut("fuse", None, lost)
        };
        let open = |lost: &[(&str, Basis)]| {
            let all = [native(&[]), broken(lost), liar(&[POSIX])];
            let answers = answers(&all);
            let found = answers.iter().find(|a| a.layer == "fuse").unwrap();
            (found.lied(), format!("{:?}", found.open))
        };
        assert_eq!(open(&[POSIX]), (true, "None".into()));
        let (lied, why) = open(&[]);
        assert!(!lied && why.contains("NotCut(\"after 119"), "{why}");
    }

    /// It said "yes" of a run that was stopped while it cut.
    #[test]
    fn nothing_is_proved_of_sequences_that_were_not_cut() {
        let stopped = SequenceCut {
            sequences: 103,
            unfinished: 68,
            ..cut("fuse", None, &[])
        };
        let all = [native(&[]), stopped.clone(), liar(&[POSIX])];
        let found = answers(&all);
        let fuse = found.iter().find(|a| a.layer == "fuse").unwrap();
        assert_eq!(fuse.open, Some(OpenSequences::Unfinished(68, 171)));
        // A loss is one, whatever was not tried.
        let lost = SequenceCut {
            unfinished: 68,
            ..cut("fuse", None, &[POSIX])
        };
        let all = [native(&[]), lost, liar(&[POSIX])];
        let found = answers(&all);
        assert!(found.iter().any(|a| a.layer == "fuse" && a.lied()));
    }

    #[test]
    fn wrong_controls_are_a_fault() {
        let fuse = |lost: &[(&str, Basis)]| cut("fuse", None, lost);
        let fault = |all: &[SequenceCut]| format!("{:?}", controls_failed(all));
        assert_eq!(
            fault(&[native(&[BEYOND]), fuse(&[]), liar(&[POSIX])]),
            "None"
        );
        let lossy = fault(&[native(&[POSIX]), fuse(&[]), liar(&[POSIX])]);
        assert_eq!(lossy, "Some(HonestLostSequence(\"native\"))");
        let blind = fault(&[native(&[]), fuse(&[]), liar(&[BEYOND])]);
        assert_eq!(blind, "Some(LiarKeptSequences(\"overlay:volatile\"))");
        // What another layer lost was seen. And a liar that was not cut to the end says nothing.
        assert_eq!(fault(&[native(&[]), fuse(&[POSIX]), liar(&[])]), "None");
        let stopped = SequenceCut {
            unfinished: 3,
            ..liar(&[])
        };
        assert_eq!(fault(&[native(&[]), fuse(&[]), stopped]), "None");
    }

    #[test]
    fn nothing_lost_is_proved_only_where_a_liar_loses_and_all_was_looked_at() {
        let kept = || cut("fuse", None, &[]);
        let open = |all: &[SequenceCut]| {
            let answers = answers(all);
            let found = answers.iter().find(|a| a.layer == "fuse").unwrap();
            format!("{:?}", found.open)
        };
        assert_eq!(open(&[native(&[]), kept(), liar(&[POSIX])]), "None");
        let uncaught = open(&[native(&[]), kept(), liar(&[BEYOND])]);
        assert!(uncaught.contains("LiarLostNothing"), "{uncaught}");
        assert!(open(&[native(&[]), kept()]).contains("NoLiar"));
        let partly = SequenceCut {
            unseen: unseen((3, "mount: broken"), (0, "")),
            ..kept()
        };
        assert!(open(&[native(&[]), partly.clone(), liar(&[POSIX])]).contains("Partly(3"));
        // Those that are not judged were hidden by those after which nobody could look.
        let both = SequenceCut {
            unseen: unseen((3, "mount: broken"), (2, "no loop device")),
            ..partly
        };
        let open_of = open(&[native(&[]), both, liar(&[POSIX])]);
        let words = "Partly(3, \"mount: broken\", Some((2, \"no loop device\")))";
        assert!(open_of.contains(words), "{open_of}");
        let unjudged = SequenceCut {
            unseen: unseen((0, ""), (3, "no loop device")),
            ..kept()
        };
        let open_of = open(&[native(&[]), unjudged.clone(), liar(&[POSIX])]);
        assert!(open_of.contains("Unjudged(3, \"no loop"), "{open_of}");
        let none = SequenceCut {
            cuts: 0,
            ..unjudged
        };
        let open_of = open(&[native(&[]), none, liar(&[POSIX])]);
        assert!(open_of.contains("None(Some(\"no loop"), "{open_of}");
        let uncut = SequenceCut {
            cuts: 0,
            uncut: Some("its files are in memory".into()),
            ..kept()
        };
        assert!(open(&[native(&[]), uncut, liar(&[POSIX])]).contains("in memory"));
    }
}
