//! How long a block takes turns at a point: briefly at first, then as long as its noise needs.

use std::collections::BTreeMap;

use layermark_stats::{FEWEST_BLOCKS, Trimmed, mean, median};

use crate::decide::guess::MIN_MS;

/// The turns of a block last this long, times the number of layers, once [`FEWEST_BLOCKS`] are made.
pub(crate) const FULL_NS: u64 = MIN_MS * 1_000_000;
/// The same in the first blocks: 13 turns of 2 ms. Half of the rounds makes the error of a block up to 1.39 times as large,
/// and less where what it holds constant is part of the noise.
const FIRST_NS: u64 = 26_000_000;
/// The same where more rounds do not help, so that there are more blocks.
const LEAST_NS: u64 = 16_000_000;
/// Fewest blocks and rounds from which the noise of a layer is known.
const KNOWN: usize = 4;

/// Variances of the logarithm of a layer's ratio at a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Noise {
    /// Of a block, by what it holds constant: files, buffers, their place on the disk.
    pub block: f64,
    /// Of the mean of as many rounds as the first block had.
    pub rounds: f64,
}

/// A block of a layer, summarised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockNoise {
    pub session: u32,
    /// Its d.
    pub d: f64,
    /// Variance of `d` that its rounds explain.
    pub variance: f64,
    pub rounds: usize,
}

impl Noise {
    /// The noise of these blocks. `None` if there are too few, or if their rounds do not vary.
    pub(crate) fn of(blocks: &[BlockNoise]) -> Option<Self> {
        let mut sessions: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let known = || blocks.iter().filter(|b| b.rounds >= KNOWN);
        for block in known() {
            sessions.entry(block.session).or_default().push(block.d);
        }
        let first = known().next()?.rounds as f64;
        let n = known().count();
        let free = n - sessions.len();
        if free < KNOWN {
            return None;
        }
        // From the middle of its session, so that one disturbed block changes no other.
        let off = |d: Vec<f64>| {
            let middle = median(&d).unwrap_or(0.0);
            d.into_iter().map(move |d| d - middle)
        };
        let off: Vec<f64> = sessions.into_values().flat_map(off).collect();
        let of = Trimmed::of(&off)?;
        let all = of.variance / of.kept as f64 * n as f64 * n as f64 / free as f64;
        let explained: Vec<f64> = known().map(|b| b.variance).collect();
        let of_round: Vec<f64> = known().map(|b| b.variance * b.rounds as f64).collect();
        let noise = Self {
            block: (all - mean(&explained)?).max(0.0),
            rounds: mean(&of_round)? / first,
        };
        (noise.rounds > 0.0).then_some(noise)
    }
}

/// Nanoseconds of turns in each layer of a block at a point, of which so many blocks were made.
///
/// In the first ones there are few rounds, so that every point has enough blocks for a word early. Then there are
/// more, unless what a block holds constant is the larger part of the noise in half of the layers. Depends on
/// the width of intervals alone, so nothing ends because a difference was found.
pub(crate) fn share_ns(made: usize, layers: &[Noise]) -> u64 {
    if made < FEWEST_BLOCKS {
        return FIRST_NS;
    }
    let parts: Vec<f64> = layers.iter().map(|n| n.block / n.rounds).collect();
    match median(&parts) {
        Some(part) if part > 1.0 => LEAST_NS,
        _ => FULL_NS,
    }
}

#[cfg(test)]
mod reanalysis;
#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve blocks of this many rounds in three sessions, whose d swings by `swing`.
    fn blocks(swing: f64, of_round: f64, rounds: usize) -> Vec<BlockNoise> {
        let block = |at: u32| BlockNoise {
            session: at / 4,
            d: f64::from(at / 4) + swing * [1.0, -0.7, 0.6, -0.9][at as usize % 4],
            variance: of_round * of_round / rounds as f64,
            rounds,
        };
        (0..12).map(block).collect()
    }

    #[test]
    fn the_first_blocks_are_short_whatever_is_known() {
        let noise = Noise::of(&blocks(0.0, 0.1, 13));
        let shares = [0, 7, 8, 100].map(|made| share_ns(made, &[noise.unwrap()]));
        assert_eq!(shares, [FIRST_NS, FIRST_NS, FULL_NS, FULL_NS]);
        assert_eq!(share_ns(8, &[]), FULL_NS, "nothing is known");
        assert_eq!(
            [LEAST_NS, FIRST_NS, FULL_NS],
            [16, 26, 50].map(|ms| ms * 1_000_000)
        );
    }

    #[test]
    fn more_rounds_where_they_are_the_noise_and_more_blocks_where_they_are_not() {
        let quiet = Noise::of(&blocks(0.001, 0.1, 13)).unwrap();
        let noisy = Noise::of(&blocks(0.1, 0.1, 13)).unwrap();
        assert!(quiet.block <= quiet.rounds && noisy.block > 4.0 * noisy.rounds);
        assert_eq!(share_ns(8, &[quiet, quiet, noisy]), FULL_NS);
        assert_eq!(share_ns(8, &[quiet, noisy, noisy]), LEAST_NS);
    }

    #[test]
    fn the_answer_does_not_depend_on_the_rounds_that_it_leads_to() {
        let mut mixed = blocks(0.06, 0.1, 13);
        let short = Noise::of(&mixed).unwrap();
        mixed.extend(blocks(0.06, 0.1, 8).into_iter().map(|b| BlockNoise {
            session: b.session + 3,
            ..b
        }));
        let longer = Noise::of(&mixed).unwrap();
        assert!((short.rounds - longer.rounds).abs() < 1e-12);
        assert!(short.block > short.rounds && longer.block > longer.rounds);
    }

    #[test]
    fn set_ups_and_a_disturbed_block_are_not_the_noise_of_blocks() {
        let mut disturbed = blocks(0.01, 0.1, 13);
        disturbed[5].d += 3.0;
        let noise = Noise::of(&disturbed).unwrap();
        assert!(noise.block <= noise.rounds, "{noise:?}");
    }

    #[test]
    fn too_little_is_known_of_few_blocks_few_rounds_or_no_variance() {
        let all = blocks(0.1, 0.1, 13);
        assert_eq!(Noise::of(&all[..4]).map(|n| n.block > 0.0), None);
        assert_eq!(Noise::of(&blocks(0.1, 0.1, 1)), None);
        assert_eq!(Noise::of(&blocks(0.1, 0.0, 13)), None);
        assert_eq!(Noise::of(&[]), None);
    }
}
