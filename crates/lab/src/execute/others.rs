//! Detects bytes that devices wrote in a layer's turns and that the layer itself cannot have
//! written.
//!
//! The layers of a block share devices, and the kernel decides when to write back. Data that one
//! layer has left dirty may be written in the turns of another and slow it.

use layermark_model::{ForeignWrites, Trial, Turn};

/// Bytes that a device may write in a turn without disturbing it, such as a journal's commit or a
/// log.
const LITTLE: u64 = 64 << 10;
/// Bytes per second that a device may write without disturbing a turn: a twentieth of the rate of a
/// slow SSD.
const LITTLE_A_SECOND: u64 = 10 << 20;

/// Bytes that a layer may write for each byte that the application writes. Journals and
/// copy-on-write file systems also write metadata.
const TIMES: u64 = 2;
/// The least number of bytes allowed per operation: a block of data and one of metadata.
const AN_OPERATION: u64 = 8 << 10;
/// The least number of bytes allowed per operation with a flush: a commit of the journal.
const A_COMMIT: u64 = 32 << 10;

/// A turn, and the bytes that its devices wrote in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub turn: Turn,
    pub bytes: u64,
}

/// What a point may write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    /// Bytes on disk in addition to its packaged files.
    pub files: u64,
    /// Bytes of a turn that do not count, because they were written for operations in flight at its
    /// ends.
    pub under_way: u64,
}

/// Whether other work was written in the turns of a trial. `own` is `None` for a point that only
/// reads.
pub(crate) fn wrote(turns: &[Written], own: Option<Own>, trial: &Trial) -> Option<ForeignWrites> {
    let least = if trial.syncs > 0 {
        A_COMMIT
    } else {
        AN_OPERATION
    };
    // Data not yet written back may follow in any later turn of its own.
    let mut owed = TIMES * own.map_or(0, |own| own.files);
    let mut found = ForeignWrites::default();
    for Written { turn, bytes } in turns {
        if let Some(own) = own {
            let most = turn
                .bytes
                .saturating_add(own.under_way)
                .saturating_mul(TIMES);
            owed = owed.saturating_add(most.max(turn.ops.saturating_mul(least)));
        }
        let foreign = bytes.saturating_sub(owed);
        owed = owed.saturating_sub(*bytes);
        let seconds = turn.elapsed_ns as f64 / 1e9;
        if foreign > LITTLE.max((seconds * LITTLE_A_SECOND as f64) as u64) {
            found.turns += 1;
            found.bytes += foreign;
        }
    }
    (found.turns > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Turns of 10 ms with 100 operations of 4 KiB, in which devices wrote these bytes.
    fn turns(written: &[u64]) -> Vec<Written> {
        let turn = Turn {
            elapsed_ns: 10_000_000,
            ops: 100,
            bytes: 100 * 4096,
            ..Turn::default()
        };
        let with = |bytes: &u64| Written {
            turn,
            bytes: *bytes,
        };
        written.iter().map(with).collect()
    }

    fn own(under_way: u64) -> Own {
        let files = 0;
        Own { files, under_way }
    }

    fn trial(syncs: u64) -> Trial {
        Trial {
            syncs,
            ..Trial::default()
        }
    }

    #[test]
    fn a_layer_that_reads_writes_nothing_but_a_commit_now_and_then() {
        let found = wrote(&turns(&[0, 2 * MIB, 20 << 10, MIB]), None, &trial(0));
        let (turns_of_others, bytes) = (2, 3 * MIB);
        assert_eq!(
            found,
            Some(ForeignWrites {
                turns: turns_of_others,
                bytes
            })
        );
        assert_eq!(wrote(&turns(&[60 << 10; 9]), None, &trial(0)), None);
        // In one stretch of a second, an almost idle device writes this much.
        let mut long = turns(&[2 * MIB]);
        long[0].turn.elapsed_ns = 1_000_000_000;
        assert_eq!(wrote(&long, None, &trial(0)), None);
    }

    #[test]
    fn what_a_layer_wrote_may_reach_the_device_in_a_later_turn_of_its_own() {
        // Each may write 800 KiB.
        assert_eq!(
            wrote(&turns(&[0, 0, 0, 3 * MIB]), Some(own(0)), &trial(0)),
            None
        );
        // A queue fills and drains by this much outside the counted part.
        let queue = Some(own(2 * MIB));
        assert_eq!(wrote(&turns(&[3 * MIB; 4]), queue, &trial(0)), None);
        let found = wrote(&turns(&[3 * MIB, 0, 0, 0]), Some(own(0)), &trial(0));
        assert_eq!(found.map(|f| f.turns), Some(1));
        // Its file was made before the first turn.
        let made = Some(Own {
            files: 2 * MIB,
            under_way: 0,
        });
        assert_eq!(wrote(&turns(&[3 * MIB, 0, 0, 0]), made, &trial(0)), None);
        // A commit is larger than what it commits.
        assert_eq!(
            wrote(&turns(&[3 * MIB; 4]), Some(own(0)), &trial(400)),
            None
        );
    }
}
