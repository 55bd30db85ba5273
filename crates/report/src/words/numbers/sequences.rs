//! What power cuts did to sequences of operations.

use layermark_model::witness::sequence::{Basis, LossKind, LostThing};

use super::{check, each, hundred, plain_data};
use crate::{
    statements::sequences::{Example, OpenSequences, SequenceAnswer},
    words::Words,
};

#[test]
fn sequences_in_power_cuts() {
    let (place, variants) = variants!(OpenSequences<'_>:
        OpenSequences::NotCut(_), OpenSequences::None(_), OpenSequences::Partly(..), OpenSequences::Unjudged(..), OpenSequences::Unfinished(..),
        OpenSequences::LiarLostNothing(_), OpenSequences::NoLiar, OpenSequences::NoHonest, OpenSequences::HonestLost(_),
        OpenSequences::IsHonest);
    let thing = LostThing {
        path: "a/g".into(),
        kind: LossKind::Name,
        basis: Basis::Posix,
        expected: "an empty file".into(),
        found: "absent".into(),
    };
    let example = Example {
        sequence: "create a/g; fsync a",
        thing: &thing,
    };
    check(&example.words(&super::NAMES), &example, &[]);
    hundred(|d| {
        let why = [
            OpenSequences::NotCut("its files are in memory"),
            OpenSequences::None((d.n() % 2 == 0).then_some("`create a/g`: it lacks a call")),
            OpenSequences::Partly(d.n(), "mount: broken", Some((d.n(), "no loop device"))),
            OpenSequences::Unjudged(d.n(), "no loop device"),
            OpenSequences::Unfinished(d.n(), d.n()),
            OpenSequences::LiarLostNothing("overlay:volatile"),
            OpenSequences::NoLiar,
            OpenSequences::NoHonest,
            OpenSequences::HonestLost("native"),
            OpenSequences::IsHonest,
        ];
        each(plain_data(why), place, variants);
        for open in why.into_iter().map(Some).chain([None]) {
            for (posix, beyond) in [(0, 0), (d.n(), 0), (0, d.n()), (d.n(), d.n())] {
                let answer = SequenceAnswer {
                    layer: "fuse",
                    sequences: d.n(),
                    cuts: d.n(),
                    posix,
                    beyond,
                    smallest: (posix > 0).then_some(example),
                    smallest_beyond: (beyond > 0).then_some(example),
                    open,
                };
                check(&answer.words(&super::NAMES), &answer, &[]);
            }
        }
    });
}
