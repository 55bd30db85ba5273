//! Rounds in which all layers rest before and after each turn, so that flushes that come late show whose they are.

use std::collections::{BTreeMap, BTreeSet};

use layermark_model::BASELINE;

/// Most rested rounds at a point: as many as show that flushes come after the turns of one layer and of no
/// other. The first one shows whether there is such a layer.
const RESTED_ROUNDS: u32 = 4;
/// A layer is suspected of late flushes if it has more than this many for each one after the baseline's turn.
const OTHERS: u64 = 10;

/// Rested rounds that were made at a point in the layers of a part of a block.
#[derive(Debug, Default)]
pub(crate) struct RestedRounds {
    made: u32,
    /// Layers after each of whose turns a device was flushed.
    suspects: BTreeSet<usize>,
}

impl RestedRounds {
    /// How many were made.
    pub(crate) fn made(&self) -> u32 {
        self.made
    }

    /// Whether one more may tell something: there is a suspect, and there were not many.
    pub(crate) fn go_on(&self) -> bool {
        self.made < RESTED_ROUNDS && !self.suspects.is_empty()
    }

    /// Adds a round: the flushes after each layer's turn. As many of other programs may follow as after the
    /// baseline's.
    pub(crate) fn add(&mut self, later: &BTreeMap<usize, u64>) {
        let of_others = later.get(&BASELINE).copied().unwrap_or(0);
        let follow = later.iter().filter(|(_, n)| **n > OTHERS * of_others);
        let follow: BTreeSet<usize> = follow.map(|(layer, _)| *layer).collect();
        self.suspects = match self.made {
            0 => follow,
            _ => &self.suspects & &follow,
        };
        self.made += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_suspected_while_flushes_follow_each_of_its_turns() {
        let mut rested = RestedRounds::default();
        let mut after = |later: &[(usize, u64)]| {
            rested.add(&later.iter().copied().collect());
            rested.suspects.iter().copied().collect::<Vec<_>>()
        };
        assert_eq!(after(&[(BASELINE, 0), (2, 7), (3, 1)]), [2, 3]);
        assert_eq!(after(&[(BASELINE, 0), (2, 6), (3, 0)]), [2]);
        assert_eq!(after(&[(BASELINE, 1), (2, 11)]), [2], "a stray one");
        assert_eq!(after(&[(BASELINE, 1), (2, 10)]), [0; 0], "others flush");
    }
}
