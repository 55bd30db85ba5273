//! Power cuts: losses of sequences of operations, and cuts of which nothing was seen.

use layermark_model::witness::{
    UnseenCuts,
    sequence::{Basis, LossKind, LostSequence, LostThing, SequenceState},
};

/// A sequence that lost the name `a/g` just after its first acknowledgement, where nothing unflushed survived.
pub fn lost_sequence(sequence: &str, basis: Basis) -> LostSequence {
    LostSequence {
        sequence: sequence.into(),
        state: SequenceState {
            acknowledged: 1,
            survives: "none".into(),
        },
        things: vec![LostThing {
            path: "a/g".into(),
            kind: LossKind::Name,
            basis,
            expected: "an empty file".into(),
            found: "absent".into(),
        }],
    }
}

/// Cuts of which nothing was seen: how many by the layer's fault and how many by this machine's, each with the first reason,
/// where it is not empty.
pub fn unseen(unrecovered: (u64, &str), unjudged: (u64, &str)) -> UnseenCuts {
    let why = |(n, why): (u64, &str)| (n > 0 && !why.is_empty()).then(|| why.to_owned());
    UnseenCuts {
        unrecovered: unrecovered.0,
        unrecovered_why: why(unrecovered),
        unjudged: unjudged.0,
        unjudged_why: why(unjudged),
        not_begun: false,
    }
}
