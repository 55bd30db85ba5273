//! Losses of sequences of operations.

use layermark_model::witness::sequence::{Basis, LossKind, LostSequence, LostThing, SequenceState};

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
