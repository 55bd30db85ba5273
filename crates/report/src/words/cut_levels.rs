//! The level that each layer reached after power cuts.

use crate::{
    number::count,
    statements::{
        cut_levels::{LevelEvidence, LevelReached, LevelVerdict, NotProven},
        power_cuts::Controls,
    },
    words::{Names, Text, Words, power_cuts::lying_control, text},
};

const NOT_CUT: &str = "no power was cut";
const BY_HAND: &str = "whether it keeps them needs a real power cut: layermark durability record";

/// What decided a verdict of each level.
const LEVELS: [(&str, &str); 4] = [
    ("L0", "the configuration"),
    ("L1", "how long flushes take"),
    ("L2", "flushes that the device counted"),
    ("L3", "records after power cuts"),
];

/// What the levels mean that were reached.
fn legend(reached: &[LevelReached]) -> Text {
    let shown = |(level, _): &&(&str, &str)| reached.iter().any(|of| of.level == *level);
    let shown = LEVELS.iter().filter(shown);
    Text::joined(shown.map(|(level, by)| text!("{level}: {by}")), "; ")
}

/// What the controls showed, and which levels decided.
pub fn what_decided(controls: &Controls, levels: &[LevelReached], names: &Names) -> Text {
    text!(
        "{}. What decided: {}.",
        controls.words(names),
        legend(levels)
    )
}

impl LevelReached<'_> {
    /// The evidence alone.
    pub fn evidence(&self, names: &Names) -> Text {
        Text::joined(self.evidence.iter().map(|e| e.words(names)), "; ")
    }
}

/// One sentence, without a full stop. Who lies is told so by the evidence.
impl Words for LevelReached<'_> {
    fn words(&self, names: &Names) -> Text {
        let evidence = self.evidence(names);
        if self.verdict == LevelVerdict::Lies {
            return evidence;
        }
        let open = self
            .open
            .map(|open| text!("; not proven: {}", open.words(names)));
        text!(
            "{}: {}: {evidence}{}",
            Text::code(self.layer),
            self.verdict.words(names),
            open.unwrap_or_default()
        )
    }
}

impl Words for LevelVerdict {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::CannotTell => "cannot tell",
            Self::Lies => "lies",
            Self::Kept => "kept",
            Self::LosesClosed => "loses closed files",
            Self::KeptWhereSetUp => "kept where it was set up again",
            Self::KeptWhereJudged => "kept where it was judged",
            Self::NotRecovered => "not recovered",
            Self::FlushesReach => "flushes reach it",
            Self::FlushesSkipped => "flushes are skipped",
            Self::FlushesLate => "flushes come late",
        }
        .into()
    }
}

impl Words for LevelEvidence<'_> {
    fn words(&self, names: &Names) -> Text {
        let power_cuts = |n: u64| count(n as usize, "power cut");
        match self {
            Self::Unbelievable {
                fault,
                losing,
                cuts,
            } => {
                let cuts = count(*cuts as usize, "cut");
                let fault = fault.words(names);
                text!("{fault}; here data was lost in {losing} of {cuts}")
            }
            Self::Lie(lie) => lie.words(names),
            Self::Kept {
                records,
                cuts,
                not_set_up,
                not_judged,
            } => {
                let cuts = power_cuts(*cuts);
                let not = not_set_up
                    .map(|(n, why)| text!("; after {n} more it could not be set up again ({why})"));
                let not = not.unwrap_or_default();
                let open = not_judged.map(|(n, why)| {
                    let are = if n == 1 { "is" } else { "are" };
                    text!("; {n} more {are} not judged, because of an error that may be this machine's: {why}")
                });
                let open = open.unwrap_or_default();
                text!("{records} records acknowledged, 0 lost in {cuts}{not}{open}")
            }
            Self::NoLiar(liar) => text!(
                "nothing shows that a loss would be seen, because {}",
                lying_control(liar)
            ),
            Self::NeverSetUp(cuts, why) => {
                let cuts = power_cuts(*cuts);
                text!("after {cuts} it could not be set up again: {why}")
            }
            Self::NeverJudged(cuts, why) => {
                let are = if *cuts == 1 { "is" } else { "are" };
                let cuts = power_cuts(*cuts);
                text!(
                    "{cuts} {are} not judged, because of an error that may be this machine's: {why}"
                )
            }
            Self::Flushes(because) => (*because).into(),
            Self::NotCut(why) => why.unwrap_or(NOT_CUT).into(),
            Self::Seen(seen) => seen.words(names),
        }
    }
}

impl Words for NotProven<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::All => "all".into(),
            Self::OtherMoments => {
                "cuts at other moments, and what the disk below does with a flush".into()
            }
            Self::WhatItKept => "what it kept".into(),
            Self::NeedsCut => BY_HAND.into(),
            Self::FlushesAlone(why) => text!("{BY_HAND} ({})", why.unwrap_or(NOT_CUT)),
        }
    }
}
