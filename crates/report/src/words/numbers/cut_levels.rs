//! The level that each layer reached after power cuts.

use super::{check, cut, each, hundred, plain_data};
use crate::{
    statements::{
        cut_levels::{LevelEvidence, LevelReached, LevelVerdict, NotProven},
        power_cuts::{ControlCut, ControlFault, CutEvidence, Lie},
    },
    words::Words,
};

#[test]
fn levels_of_power_cuts() {
    let (verdict, verdicts) = variants!(LevelVerdict:
        LevelVerdict::CannotTell, LevelVerdict::Lies, LevelVerdict::Kept, LevelVerdict::LosesClosed,
        LevelVerdict::KeptWhereSetUp, LevelVerdict::KeptWhereJudged, LevelVerdict::NotRecovered, LevelVerdict::FlushesReach,
        LevelVerdict::FlushesSkipped, LevelVerdict::FlushesLate);
    let (piece, pieces) = variants!(LevelEvidence<'_>:
        LevelEvidence::Unbelievable { .. }, LevelEvidence::Lie(_), LevelEvidence::Kept { .. },
        LevelEvidence::NoLiar(_), LevelEvidence::NeverSetUp(..), LevelEvidence::NeverJudged(..), LevelEvidence::Flushes(_), LevelEvidence::NotCut(_), LevelEvidence::Seen(_));
    let (open, opens) = variants!(NotProven<'_>:
        NotProven::All, NotProven::OtherMoments, NotProven::WhatItKept, NotProven::NeedsCut,
        NotProven::FlushesAlone(_));
    let all = [
        LevelVerdict::CannotTell,
        LevelVerdict::Lies,
        LevelVerdict::Kept,
        LevelVerdict::LosesClosed,
        LevelVerdict::KeptWhereSetUp,
        LevelVerdict::KeptWhereJudged,
        LevelVerdict::NotRecovered,
        LevelVerdict::FlushesReach,
        LevelVerdict::FlushesSkipped,
        LevelVerdict::FlushesLate,
    ];
    each(plain_data(all), verdict, verdicts);
    let all = [
        NotProven::All,
        NotProven::OtherMoments,
        NotProven::WhatItKept,
        NotProven::NeedsCut,
        NotProven::FlushesAlone(Some("its files are in memory")),
    ];
    each(plain_data(all), open, opens);
    hundred(|d| {
        let (worst, first) = cut(d);
        let kept = LevelEvidence::Kept {
            records: d.n(),
            cuts: d.n(),
            not_set_up: Some((d.n(), "it lacks a key")),
            not_judged: Some((d.n(), "no loop device")),
        };
        let all = [
            LevelEvidence::Unbelievable {
                fault: ControlFault::LiarNotCaught("liar"),
                losing: d.n(),
                cuts: d.n(),
            },
            LevelEvidence::Lie(Lie {
                layer: "fuse",
                worst: &worst,
                first: &first,
                records: d.n(),
                flushes: Some(d.n()),
                only: None,
            }),
            kept.clone(),
            LevelEvidence::NoLiar(ControlCut {
                layer: "liar",
                losing: d.n(),
                cuts: d.n(),
                open: None,
            }),
            LevelEvidence::NeverSetUp(d.n(), "it lacks a key"),
            LevelEvidence::NeverJudged(d.n(), "no loop device"),
            LevelEvidence::Flushes("203 device flushes for 200 syncs"),
            LevelEvidence::NotCut(None),
            LevelEvidence::Seen(CutEvidence::LostWhenKilled(d.n())),
        ];
        // "0 lost" is what the variant says.
        let none_lost = all.into_iter().map(|one| (one, vec![0.0]));
        each(none_lost.collect(), piece, pieces);
        let reached = LevelReached {
            layer: "fuse",
            level: "L3",
            verdict: LevelVerdict::KeptWhereSetUp,
            evidence: vec![kept],
            open: Some(NotProven::OtherMoments),
        };
        check(&reached.words(&super::NAMES), &reached, &[0.0]);
    });
}
