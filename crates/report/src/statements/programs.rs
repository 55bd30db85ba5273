//! What power cuts did to the user's programs: what each lost in which layers, and whose fault it is.

use layermark_model::{
    Run,
    witness::{LossExtent, ProgramCut, Promise, WitnessControl},
};

use crate::group;

/// A program in all layers.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramAnswer<'a> {
    /// Its name.
    pub program: &'a str,
    /// Layers in which it lost what it had acknowledged, the largest extent and loss first.
    pub lost: Vec<&'a ProgramCut>,
    /// Layers in which it lost nothing, and that is proved.
    pub kept: Vec<&'a ProgramCut>,
    /// The others, each with the reason.
    pub open: Vec<(&'a ProgramCut, Open<'a>)>,
    /// Whose loss it is.
    pub blame: Option<Blame>,
}

/// Why nothing is proved of a program in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open<'a> {
    /// No power was cut under it.
    NotCut(&'a str),
    /// Nobody could look after any cut: the layer could not be set up again after so many, the check failed after so
    /// many, so many are not judged because of an error that may be this machine's, and why.
    NotSeen {
        unrecovered: u64,
        unchecked: u64,
        unjudged: u64,
        why: &'a str,
    },
    /// The run was stopped before.
    Stopped,
    /// The check finds nothing missing in an empty directory.
    Blind,
    /// It lost nothing in the layer that is known to lie either.
    LiarLostNothing(&'a str),
    /// No power was cut under it in a layer that is known to lie.
    NoLiar,
    /// It had printed on when so many of its items, of all, were seen: it may have flushed them since.
    Ahead(u64, u64),
    /// It lost nothing in some cuts; after the others nobody could look: so many.
    Partly(u64),
}

/// Whose loss it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The program promises nothing.
    Promised,
    /// Items were missing when only the program had been killed: so many.
    Killed(u64),
    /// It loses them natively too.
    Program,
    /// Natively it keeps them.
    Layers,
    /// What it does natively is not known.
    NotKnown,
}

impl ProgramAnswer<'_> {
    /// Layers in which something is said.
    pub fn layers(&self) -> usize {
        self.lost.len() + self.kept.len() + self.open.len()
    }

    /// It promised to keep what it lost.
    pub fn is_broken(&self) -> bool {
        !self.lost.is_empty() && self.blame != Some(Blame::Promised)
    }
}

/// Cuts of programs in all layers, each with the extent of its loss.
pub fn cuts(run: &Run) -> Vec<ProgramCut> {
    let of = run.layers.iter().flat_map(|l| &l.facts.program_cuts);
    let with_extent = |cut: &ProgramCut| ProgramCut {
        extent: cut.lost_items().then(|| LossExtent::of(cut)),
        ..cut.clone()
    };
    of.map(with_extent).collect()
}

/// The answer for each program, those that lost most first.
pub fn answers(cuts: &[ProgramCut]) -> Vec<ProgramAnswer<'_>> {
    let names = group::distinct(cuts.iter().map(|c| c.program.as_str()));
    let of = |program: &&'_ str| {
        let of: Vec<&ProgramCut> = cuts.iter().filter(|c| c.program == *program).collect();
        answer(&of)
    };
    let mut all: Vec<ProgramAnswer<'_>> = names.iter().filter_map(of).collect();
    all.sort_by_key(|a| (!a.is_broken(), a.lost.is_empty()));
    all
}

fn answer<'a>(cuts: &[&'a ProgramCut]) -> Option<ProgramAnswer<'a>> {
    let program = cuts.first()?.program.as_str();
    let is = |control| move |cut: &&&ProgramCut| cut.control == Some(control) && cut.cuts > 0;
    let control = match cuts.iter().find(is(WitnessControl::Liar)) {
        None => Some(Open::NoLiar),
        Some(liar) if !liar.lost_items() => Some(Open::LiarLostNothing(&liar.layer)),
        Some(_) => None,
    };
    let mut answer = ProgramAnswer {
        program,
        lost: Vec::new(),
        kept: Vec::new(),
        open: Vec::new(),
        blame: None,
    };
    let only_liar = |c: &ProgramCut| c.control == Some(WitnessControl::Liar) && !c.named;
    for cut in cuts.iter().copied().filter(|c| !only_liar(c)) {
        if cut.lost_items() {
            answer.lost.push(cut);
        } else if let Some(open) = open(cut, control) {
            answer.open.push((cut, open));
        } else {
            answer.kept.push(cut);
        }
    }
    let size = |c: &&ProgramCut| {
        (
            LossExtent::of(c),
            std::cmp::Reverse((c.window_ns, c.most_lost)),
        )
    };
    answer.lost.sort_by_key(size);
    answer.blame = (!answer.lost.is_empty()).then(|| blame(cuts, &answer));
    Some(answer)
}

/// Share of the items that may be seen late.
const MOST_AHEAD: f64 = 0.1;

/// Why nothing is proved of a program that lost nothing. `control`: what its cuts in a lying layer leave open.
fn open<'a>(cut: &'a ProgramCut, control: Option<Open<'a>>) -> Option<Open<'a>> {
    let unseen = cut.unseen.count() + cut.unchecked;
    if let Some(why) = &cut.uncut {
        return Some(Open::NotCut(why));
    }
    if cut.cuts == 0 {
        let why = cut.unchecked_why.as_deref().or(cut.unseen.why());
        return Some(why.map_or(Open::Stopped, |why| Open::NotSeen {
            unrecovered: cut.unseen.unrecovered,
            unchecked: cut.unchecked,
            unjudged: cut.unseen.unjudged,
            why,
        }));
    }
    let ahead = cut.ahead as f64 > MOST_AHEAD * cut.items as f64;
    let own = [
        cut.blind.then_some(Open::Blind),
        ahead.then_some(Open::Ahead(cut.ahead, cut.items)),
        control,
        (unseen > 0).then_some(Open::Partly(unseen)),
    ];
    own.into_iter().flatten().next()
}

fn blame(cuts: &[&ProgramCut], answer: &ProgramAnswer<'_>) -> Blame {
    if answer.lost.iter().all(|c| c.promises == Promise::Nothing) {
        return Blame::Promised;
    }
    let honest = |c: &&&ProgramCut| c.control == Some(WitnessControl::Honest);
    let native = cuts.iter().find(honest);
    // Missing without a power cut, natively: no layer had a part in it.
    if let Some(killed) = native.map(|c| c.lost_when_killed).filter(|n| *n > 0) {
        return Blame::Killed(killed);
    }
    if native.is_some_and(|c| c.lost_items()) {
        Blame::Program
    } else if answer
        .kept
        .iter()
        .any(|c| c.control == Some(WitnessControl::Honest))
    {
        Blame::Layers
    } else {
        Blame::NotKnown
    }
}

#[cfg(test)]
mod tests {
    use layermark_testkit::sample::unseen;

    use super::*;

    fn cut(layer: &str, control: Option<WitnessControl>, losing: u64) -> ProgramCut {
        ProgramCut {
            layer: layer.into(),
            program: "queue".into(),
            control,
            items: 100,
            cuts: 38,
            losing,
            most_lost: losing.min(1) * 7,
            most_of: losing.min(1) * 100,
            window_ns: losing * 1_000_000,
            ..ProgramCut::default()
        }
    }

    fn native(losing: u64) -> ProgramCut {
        cut("native", Some(WitnessControl::Honest), losing)
    }

    fn liar(losing: u64) -> ProgramCut {
        cut("overlay:volatile", Some(WitnessControl::Liar), losing)
    }

    /// What a layer loses is its own only where the program keeps it natively.
    #[test]
    fn a_loss_is_the_layers_only_where_natively_nothing_is_lost() {
        let blame = |all: &[ProgramCut]| answers(all)[0].blame;
        let lossy = cut("fuse", None, 5);
        let with = |native: ProgramCut| [native, lossy.clone(), liar(38)];
        assert_eq!(blame(&with(native(0))), Some(Blame::Layers));
        assert_eq!(blame(&with(native(2))), Some(Blame::Program));
        assert_eq!(blame(&[lossy.clone(), liar(38)]), Some(Blame::NotKnown));
        let uncut = ProgramCut {
            cuts: 0,
            uncut: Some("x".into()),
            ..native(0)
        };
        assert_eq!(blame(&with(uncut)), Some(Blame::NotKnown));
        // One cut that was seen, and many that were not, acquit nobody.
        let partly = ProgramCut {
            cuts: 1,
            unchecked: 37,
            ..native(0)
        };
        assert_eq!(blame(&with(partly)), Some(Blame::NotKnown));
        let early = ProgramCut {
            lost_when_killed: 3,
            ..native(2)
        };
        assert_eq!(blame(&with(early)), Some(Blame::Killed(3)));
        // Missing without a cut in one layer only: it is the layer.
        let killed = ProgramCut {
            lost_when_killed: 3,
            ..lossy.clone()
        };
        assert_eq!(blame(&[native(0), killed, liar(38)]), Some(Blame::Layers));
        let careless = ProgramCut {
            promises: Promise::Nothing,
            ..lossy.clone()
        };
        let all = [native(0), careless];
        assert_eq!(answers(&all)[0].blame, Some(Blame::Promised));
        assert!(!answers(&all)[0].is_broken());
        assert_eq!(blame(&[native(0), liar(38)]), None);
    }

    /// Scripts had the rule as well.
    #[test]
    fn each_loss_has_its_extent_in_the_report() {
        let (mut run, _) = layermark_testkit::sample::Sample::default().build();
        run.layers[0].facts.program_cuts = vec![native(0), liar(38)];
        let extents: Vec<_> = cuts(&run).into_iter().map(|cut| cut.extent).collect();
        assert_eq!(extents, [None, Some(LossExtent::Time)]);
    }

    #[test]
    fn nothing_lost_is_proved_only_where_a_loss_would_show() {
        fn open(all: &[ProgramCut]) -> Vec<(&str, Open<'_>)> {
            let answers = answers(all);
            let open = answers.into_iter().flat_map(|answer| answer.open);
            open.map(|(cut, why)| (cut.layer.as_str(), why)).collect()
        }
        let fuse = || cut("fuse", None, 0);
        assert!(open(&[native(0), fuse(), liar(38)]).is_empty());
        let uncaught = Open::LiarLostNothing("overlay:volatile");
        let both = |why| [("native", why), ("fuse", why)];
        assert_eq!(open(&[native(0), fuse(), liar(0)]), both(uncaught));
        assert_eq!(open(&[native(0), fuse()]), both(Open::NoLiar));
        let of = |why: Open<'static>, fuse: ProgramCut| {
            let all = [native(0), fuse, liar(38)];
            let found: Vec<bool> = open(&all).into_iter().map(|o| o == ("fuse", why)).collect();
            assert_eq!(found, [true], "{why:?}");
        };
        let blind = true;
        of(Open::Blind, ProgramCut { blind, ..fuse() });
        of(
            Open::Ahead(30, 100),
            ProgramCut {
                ahead: 30,
                ..fuse()
            },
        );
        of(
            Open::Partly(4),
            ProgramCut {
                unseen: unseen((4, ""), (0, "")),
                ..fuse()
            },
        );
        of(Open::Stopped, ProgramCut { cuts: 0, ..fuse() });
        let not_seen = ProgramCut {
            cuts: 0,
            unchecked: 36,
            unseen: unseen((2, ""), (0, "")),
            unchecked_why: Some("it crashed".into()),
            ..fuse()
        };
        let why = Open::NotSeen {
            unrecovered: 2,
            unchecked: 36,
            unjudged: 0,
            why: "it crashed",
        };
        of(why, not_seen);
    }

    #[test]
    fn a_liar_that_the_user_named_is_among_the_layers() {
        let named = ProgramCut {
            named: true,
            ..liar(38)
        };
        let all = [native(0), named];
        let answers = answers(&all);
        assert_eq!(answers[0].lost.len(), 1);
        assert_eq!(answers[0].layers(), 2);
    }
}
