//! The level that each layer reached after power cuts: the verdict, its evidence, and what is not proven.

use layermark_model::witness::WitnessTrial;

use crate::{
    facts::power_cuts::{closed, controls_failed, killed, lie, refuses, sum, unseen_liar},
    statements::power_cuts::{ControlCut, ControlFault, CutEvidence, Lie},
    types::{Durability, DurabilityVerdict, Holds},
};

/// What is known of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelReached<'a> {
    /// The layer.
    pub layer: &'a str,
    /// The level of evidence: `L0`, `L1`, `L2`; `L3` after power cuts.
    pub level: &'a str,
    /// The verdict.
    pub verdict: LevelVerdict,
    /// Its evidence.
    pub evidence: Vec<LevelEvidence<'a>>,
    /// What is not proven.
    pub open: Option<NotProven<'a>>,
}

/// What a layer does with what it acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelVerdict {
    /// Nothing is known.
    CannotTell,
    /// It lost what fsync had acknowledged.
    Lies,
    /// It kept all of it.
    Kept,
    /// It kept all of it, and lost what was closed before a clean unmount.
    LosesClosed,
    /// It kept all of it after those cuts after which it could be set up again.
    KeptWhereSetUp,
    /// It kept all of it after those cuts that could be judged on this machine.
    KeptWhereJudged,
    /// It could never be set up again.
    NotRecovered,
    /// Nothing was cut; flushes reach the device.
    FlushesReach,
    /// Nothing was cut; they do not.
    FlushesSkipped,
    /// Nothing was cut; they come after the answer.
    FlushesLate,
}

impl LevelVerdict {
    /// Whether it keeps what fsync acknowledged.
    pub fn holds(self) -> Holds {
        match self {
            // Closing a file promises nothing that fsync does.
            Self::Kept | Self::LosesClosed => Holds::Yes,
            Self::Lies => Holds::No,
            _ => Holds::Open,
        }
    }
}

/// Evidence for a [`LevelVerdict`].
#[derive(Debug, Clone, PartialEq)]
pub enum LevelEvidence<'a> {
    /// The controls are wrong. The layer itself lost data in so many of all cuts.
    Unbelievable {
        /// What is wrong.
        fault: ControlFault<'a>,
        /// Cuts with loss.
        losing: u64,
        /// All cuts.
        cuts: u64,
    },
    /// What it lost.
    Lie(Lie<'a>),
    /// It kept all records.
    Kept {
        /// Acknowledged records.
        records: u64,
        /// Power cuts.
        cuts: u64,
        /// Further cuts after which it could not be set up again, and why.
        not_set_up: Option<(u64, &'a str)>,
        /// Further cuts that are not judged, and the error of this machine.
        not_judged: Option<(u64, &'a str)>,
    },
    /// No cut of the layer that is known to lie is judged.
    NoLiar(ControlCut<'a>),
    /// It could not be set up again after any of so many cuts, and why.
    NeverSetUp(u64, &'a str),
    /// None of so many cuts is judged, by an error of this machine.
    NeverJudged(u64, &'a str),
    /// What the counts of flushes say of it.
    Flushes(&'a str),
    /// Nothing was cut, for this reason; `None`: it is not known.
    NotCut(Option<&'a str>),
    /// What else was seen.
    Seen(CutEvidence<'a>),
}

/// What the evidence leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotProven<'a> {
    /// All of it.
    All,
    /// Cuts at other moments, and the disk below.
    OtherMoments,
    /// What a layer kept that could not be set up again.
    WhatItKept,
    /// Whether it keeps anything: the evidence says that nothing was cut.
    NeedsCut,
    /// Whether flushes are enough, as nothing was cut, for this reason; `None`: it is not known.
    FlushesAlone(Option<&'a str>),
}

/// What is known of `layer`. `flushes`: what was counted of its own.
pub fn level_reached<'a>(
    trials: &'a [WitnessTrial],
    layer: &'a str,
    flushes: Option<&'a Durability>,
) -> LevelReached<'a> {
    let sum = sum(trials, layer);
    let reached = |verdict, first: Vec<LevelEvidence<'a>>, open| {
        let seen = [killed(&sum), refuses(&sum), closed(&sum)];
        let seen = seen.into_iter().flatten().map(LevelEvidence::Seen);
        LevelReached {
            layer,
            level: "L3",
            verdict,
            evidence: first.into_iter().chain(seen).collect(),
            open,
        }
    };
    if let Some(fault) = controls_failed(trials).filter(|_| sum.cuts > 0) {
        let (losing, cuts) = (sum.losing, sum.cuts);
        return LevelReached {
            evidence: vec![LevelEvidence::Unbelievable {
                fault,
                losing,
                cuts,
            }],
            ..reached(LevelVerdict::CannotTell, Vec::new(), Some(NotProven::All))
        };
    }
    if let Some(lie) = lie(trials, layer) {
        return reached(LevelVerdict::Lies, vec![LevelEvidence::Lie(lie)], None);
    }
    let not_set_up =
        (sum.unrecovered > 0).then(|| (sum.unrecovered, sum.unrecovered_why.unwrap_or_default()));
    let not_judged =
        (sum.unjudged > 0).then(|| (sum.unjudged, sum.unjudged_why.unwrap_or_default()));
    if sum.cuts > 0 {
        let kept = LevelEvidence::Kept {
            records: sum.records,
            cuts: sum.cuts,
            not_set_up,
            not_judged,
        };
        if let Some(liar) = unseen_liar(trials) {
            let evidence = vec![kept, LevelEvidence::NoLiar(liar)];
            let open = Some(NotProven::WhatItKept);
            return reached(LevelVerdict::CannotTell, evidence, open);
        }
        let verdict = match (not_set_up, not_judged) {
            (Some(_), _) => LevelVerdict::KeptWhereSetUp,
            (None, Some(_)) => LevelVerdict::KeptWhereJudged,
            (None, None) if sum.loses_closed() => LevelVerdict::LosesClosed,
            (None, None) => LevelVerdict::Kept,
        };
        return reached(verdict, vec![kept], Some(NotProven::OtherMoments));
    }
    let none_judged = not_judged.map(|(cuts, why)| LevelEvidence::NeverJudged(cuts, why));
    if let Some((cuts, why)) = not_set_up {
        let never = [Some(LevelEvidence::NeverSetUp(cuts, why)), none_judged];
        return reached(
            LevelVerdict::NotRecovered,
            never.into_iter().flatten().collect(),
            Some(NotProven::WhatItKept),
        );
    }
    if let Some(none) = none_judged {
        let open = Some(NotProven::WhatItKept);
        return reached(LevelVerdict::CannotTell, vec![none], open);
    }
    let why = sum.uncut.or(sum.error);
    let Some(flushes) = flushes else {
        let not_cut = vec![LevelEvidence::NotCut(why)];
        let open = Some(NotProven::NeedsCut);
        return LevelReached {
            level: "L0",
            ..reached(LevelVerdict::CannotTell, not_cut, open)
        };
    };
    let verdict = match flushes.verdict {
        DurabilityVerdict::Honoured => LevelVerdict::FlushesReach,
        DurabilityVerdict::Absorbed => LevelVerdict::FlushesSkipped,
        DurabilityVerdict::Late => LevelVerdict::FlushesLate,
        _ => LevelVerdict::CannotTell,
    };
    let because = flushes.because.as_deref().map(LevelEvidence::Flushes);
    let open = Some(NotProven::FlushesAlone(why));
    LevelReached {
        level: flushes.level.as_deref().unwrap_or_default(),
        ..reached(verdict, because.into_iter().collect(), open)
    }
}
