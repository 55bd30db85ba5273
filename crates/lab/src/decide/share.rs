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
/// A block has at least this many rounds, unless its turn length allows fewer.
pub(crate) const LEAST_ROUNDS: u32 = 8;
/// Fewest blocks and rounds from which the noise of a layer is known.
const KNOWN: usize = 4;

/// Variances of the logarithm of a layer's ratio at a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Noise {
    /// Of a block, by what it holds constant: files, buffers, their place on the disk.
    pub block: f64,
    /// Of the mean of as many rounds as a first block has.
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

/// Rounds of a first block, whatever rounds these blocks had: in an older run the first ones may have been longer.
///
/// `turn_ns` is the mean duration of a turn of all layers, ns: a block ends when the turns of all of them have taken
/// their share, so each layer has as many rounds as the others.
fn rounds_of_first(blocks: &[BlockNoise], turn_ns: f64) -> Option<f64> {
    let most = blocks.iter().map(|b| b.rounds).max()?;
    let by_time = FIRST_NS as f64 / Some(turn_ns).filter(|ns| *ns > 0.0)?;
    Some(by_time.max(f64::from(LEAST_ROUNDS)).min(most as f64))
}

impl Noise {
    /// The noise of these blocks, at a point where a turn of all layers takes `turn_ns` on average. `None` if there are too
    /// few, or if their rounds do not vary.
    pub(crate) fn of(blocks: &[BlockNoise], turn_ns: f64) -> Option<Self> {
        let mut sessions: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let known = blocks.iter().filter(|b| b.rounds >= KNOWN);
        let known: Vec<BlockNoise> = known.copied().collect();
        for block in &known {
            sessions.entry(block.session).or_default().push(block.d);
        }
        let (first, n) = (rounds_of_first(&known, turn_ns)?, known.len());
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
        let explained: Vec<f64> = known.iter().map(|b| b.variance).collect();
        let of_round = known.iter().map(|b| b.variance * b.rounds as f64);
        let of_round: Vec<f64> = of_round.collect();
        let noise = Self {
            block: (all - mean(&explained)?).max(0.0),
            rounds: mean(&of_round)? / first,
        };
        (noise.rounds > 0.0).then_some(noise)
    }
}

/// Nanoseconds of turns in each layer of a block at a point that has had so many blocks.
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

    fn noise_of(blocks: &[BlockNoise]) -> Option<Noise> {
        Noise::of(blocks, 2e6)
    }

    #[test]
    fn the_first_blocks_are_short_whatever_is_known() {
        let noise = noise_of(&blocks(0.0, 0.1, 13));
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
        let quiet = noise_of(&blocks(0.001, 0.1, 13)).unwrap();
        let noisy = noise_of(&blocks(0.1, 0.1, 13)).unwrap();
        assert!(quiet.block <= quiet.rounds && noisy.block > 4.0 * noisy.rounds);
        assert_eq!(share_ns(8, &[quiet, quiet, noisy]), FULL_NS);
        assert_eq!(share_ns(8, &[quiet, noisy, noisy]), LEAST_NS);
    }

    #[test]
    fn the_answer_does_not_depend_on_the_rounds_that_it_leads_to() {
        let mut mixed = blocks(0.06, 0.1, 13);
        let short = noise_of(&mixed).unwrap();
        mixed.extend(blocks(0.06, 0.1, 8).into_iter().map(|b| BlockNoise {
            session: b.session + 3,
            ..b
        }));
        let longer = noise_of(&mixed).unwrap();
        assert!((short.rounds - longer.rounds).abs() < 1e-12);
        assert!(short.block > short.rounds && longer.block > longer.rounds);
    }

    /// The rounds of the first block were the measure, so that a run with first blocks of 25 rounds was given short shares
    /// where one of 13 was not.
    #[test]
    fn the_first_blocks_of_an_older_run_may_have_been_longer() {
        // As much as the mean of 13 to 25 rounds of 10 %.
        let short = noise_of(&blocks(0.021, 0.1, 13)).unwrap();
        let long = noise_of(&blocks(0.021, 0.1, 25)).unwrap();
        assert!((short.rounds - 0.1 * 0.1 / 13.0).abs() < 1e-9, "{short:?}");
        assert!((short.rounds - long.rounds).abs() < 1e-9, "{long:?}");
        assert_eq!([short, long].map(|n| share_ns(8, &[n])), [FULL_NS; 2]);
        // Of turns of 10 ms a first block has eight, and of turns that take up all of it no more than there were.
        let of = |turn_ns: f64, rounds| rounds_of_first(&blocks(0.0, 0.1, rounds), turn_ns);
        let found = [of(1e7, 8), of(1e7, 25), of(5e5, 25), of(3e7, 5)];
        assert_eq!(found, [Some(8.0), Some(8.0), Some(25.0), Some(5.0)]);
        assert_eq!(of(0.0, 8), None);
    }

    #[test]
    fn set_ups_and_a_disturbed_block_are_not_the_noise_of_blocks() {
        let mut disturbed = blocks(0.01, 0.1, 13);
        disturbed[5].d += 3.0;
        let noise = noise_of(&disturbed).unwrap();
        assert!(noise.block <= noise.rounds, "{noise:?}");
    }

    #[test]
    fn too_little_is_known_of_few_blocks_few_rounds_or_no_variance() {
        let all = blocks(0.1, 0.1, 13);
        assert_eq!(noise_of(&all[..4]).map(|n| n.block > 0.0), None);
        assert_eq!(noise_of(&blocks(0.1, 0.1, 1)), None);
        assert_eq!(noise_of(&blocks(0.1, 0.0, 13)), None);
        assert_eq!(noise_of(&[]), None);
    }
}
