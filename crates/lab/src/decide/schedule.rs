//! The order of a run, drawn from its seed only.
//!
//! Randomised complete blocks: each block has every point once, in a random order. At a point the
//! layers take turns one after the other, so that a slow spell of the machine affects all of them.
//! The turns of one point follow a Williams square over successive rounds, and the first rounds of
//! successive blocks follow another one. Each layer is at each position equally often, and comes
//! right after each other layer equally often. With two layers that is ABBA or BAAB.

use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

/// Stream of the generator for the points of a block. The turns of a point use the streams from 0.
const POINTS: u64 = 1 << 63;
/// Stream for the data and offsets of a point in a block.
const WORK: u64 = 1 << 62;
/// Stream for the rounds of a point in a block.
const ROUNDS: u64 = 1 << 61;

/// The order of a run with this many layers and points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    seed: u64,
    layers: usize,
    points: usize,
}

impl Schedule {
    /// The order for a seed.
    pub fn new(seed: u64, layers: usize, points: usize) -> Self {
        Self {
            seed,
            layers,
            points,
        }
    }

    /// Points of a block in random order.
    pub fn points(&self, block: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.points).collect();
        order.shuffle(&mut self.draw(POINTS | u64::from(block)));
        order
    }

    /// Layers at a point of a block, in the order of its first round.
    pub fn turns(&self, block: u32, point: usize) -> Vec<usize> {
        let rows = cycle(self.layers);
        let (cycle, row) = (u64::from(block) / rows, u64::from(block) % rows);
        // Names and rows are drawn again for each cycle, so that no layer keeps a favoured row.
        let mut random = self.draw((point as u64) << 32 | cycle);
        let mut names: Vec<usize> = (0..self.layers).collect();
        names.shuffle(&mut random);
        let mut order: Vec<u64> = (0..rows).collect();
        order.shuffle(&mut random);
        williams(self.layers, order[row as usize])
            .into_iter()
            .map(|i| names[i])
            .collect()
    }

    /// The layers in the order of a round of a block. `first` is the order of its first round,
    /// without the layers that lack the point.
    pub fn round(&self, block: u32, point: usize, first: &[usize], round: u32) -> Vec<usize> {
        let rows = cycle(first.len());
        let (cycle, row) = (u64::from(round) / rows, u64::from(round) % rows);
        let mut random = self.draw(ROUNDS | (point as u64) << 32 | u64::from(block));
        let mut names = Vec::new();
        let mut order: Vec<u64> = (0..rows).collect();
        for again in 0..=cycle {
            if again == 0 {
                // So that the first row is the order of the first round.
                names = first.to_vec();
                for (place, layer) in williams(first.len(), 0).into_iter().zip(first) {
                    names[place] = *layer;
                }
                order[1..].shuffle(&mut random);
            } else {
                names.shuffle(&mut random);
                order.shuffle(&mut random);
            }
        }
        let row = order.get(row as usize).copied().unwrap_or(0);
        let row = williams(first.len(), row);
        row.into_iter().map(|i| names[i]).collect()
    }

    /// Seed of data and offsets. It is the same for all points of a block, so that random reads and
    /// random writes use the same order, as in iozone, and it changes with the block.
    pub fn work_seed(&self, block: u32) -> u64 {
        self.draw(WORK | u64::from(block)).next_u64()
    }

    fn draw(&self, stream: u64) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(stream);
        random
    }
}

/// Number of rounds after which the turns of this many layers are balanced.
fn cycle(layers: usize) -> u64 {
    let n = layers.max(1) as u64;
    if n.is_multiple_of(2) || n == 1 {
        n
    } else {
        2 * n
    }
}

/// A row of the Williams design (Williams 1949): 0, 1, n-1, 2, n-2, ... shifted by the row; an odd
/// n needs the mirror images as well.
fn williams(n: usize, row: u64) -> Vec<usize> {
    let shift = (row % n.max(1) as u64) as usize;
    let mut turns: Vec<usize> = (0..n)
        .map(|i| {
            if i % 2 == 1 {
                i.div_ceil(2)
            } else {
                (n - i / 2) % n
            }
        })
        .map(|t| (t + shift) % n)
        .collect();
    if row >= n as u64 {
        turns.reverse();
    }
    turns
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn each_layer_has_each_place_and_each_forerunner_equally_often() {
        for n in 2..=9 {
            let schedule = Schedule::new(7, n, 3);
            let cycle = cycle(n) as u32;
            for (point, start) in [(0, 0), (2, cycle), (1, 5 * cycle)] {
                let mut place = vec![vec![0; n]; n];
                let mut before = vec![vec![0; n]; n];
                for block in start..start + cycle {
                    let turns = schedule.turns(block, point);
                    for (i, layer) in turns.iter().enumerate() {
                        place[*layer][i] += 1;
                    }
                    for pair in turns.windows(2) {
                        before[pair[0]][pair[1]] += 1;
                    }
                }
                let share = cycle as usize / n;
                assert!(
                    place.iter().flatten().all(|c| *c == share),
                    "n = {n}: {place:?}"
                );
                for (a, row) in before.iter().enumerate() {
                    for (b, count) in row.iter().enumerate() {
                        assert_eq!(
                            *count,
                            if a == b { 0 } else { share },
                            "n = {n}: {before:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn two_layers_take_turns_as_abba_or_baab() {
        let schedule = Schedule::new(3, 2, 1);
        let mut coins = [0; 2];
        for pair in 0..200 {
            let (first, second) = (schedule.turns(2 * pair, 0), schedule.turns(2 * pair + 1, 0));
            assert_eq!(first, second.iter().rev().copied().collect::<Vec<_>>());
            coins[first[0]] += 1;
        }
        assert!(coins.iter().all(|c| (60..=140).contains(c)), "{coins:?}");
    }

    #[test]
    fn a_block_has_every_point_once_and_orders_differ() {
        let schedule = Schedule::new(1, 3, 12);
        let mut seen = std::collections::HashSet::new();
        for block in 0..50 {
            let order = schedule.points(block);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..12).collect::<Vec<_>>());
            seen.insert(order);
        }
        assert!(seen.len() > 45);
    }

    #[test]
    fn the_order_of_a_seed_stays_for_ever() {
        // A replay in a year must be the same run: if this test fails, replays of stored runs no
        // longer are.
        let schedule = Schedule::new(42, 3, 4);
        let points: Vec<_> = (0..3).map(|b| schedule.points(b)).collect();
        let turns: Vec<_> = (0..3).map(|b| schedule.turns(b, 1)).collect();
        assert_eq!(format!("{points:?} {turns:?}"), GOLDEN);
        assert_eq!(schedule, Schedule::new(42, 3, 4));
        assert_ne!(Schedule::new(43, 3, 4).points(0), points[0]);
    }

    const GOLDEN: &str =
        "[[2, 0, 3, 1], [3, 1, 0, 2], [0, 1, 3, 2]] [[0, 2, 1], [1, 0, 2], [0, 1, 2]]";

    #[test]
    fn in_the_rounds_of_a_block_each_layer_follows_each_other_equally_often() {
        for n in 2..=9 {
            let schedule = Schedule::new(7, n, 3);
            // A layer that lacks the point does not affect the balance.
            for first in [schedule.turns(4, 1), schedule.turns(4, 1)[..n - 1].to_vec()] {
                let rounds = cycle(first.len()) as u32;
                for start in [0, rounds, 3 * rounds] {
                    let mut follows = BTreeMap::<(usize, usize), u32>::new();
                    for round in start..start + rounds {
                        let order = schedule.round(4, 1, &first, round);
                        assert!(round > 0 || order == first, "the first round is as drawn");
                        let mut sorted = order.clone();
                        sorted.sort_unstable();
                        assert!(
                            sorted.windows(2).all(|w| w[0] < w[1]),
                            "each once: {order:?}"
                        );
                        for pair in order.windows(2) {
                            *follows.entry((pair[0], pair[1])).or_default() += 1;
                        }
                    }
                    let pairs = first.len() * (first.len() - 1);
                    assert_eq!(follows.len(), pairs, "{n} layers");
                    let times: BTreeSet<u32> = follows.into_values().collect();
                    assert!(times.len() <= 1, "{n} layers: {times:?}");
                }
            }
        }
    }

    #[test]
    fn the_order_of_rounds_belongs_to_seed_block_and_point() {
        let rounds = |seed, block, point| {
            let schedule = Schedule::new(seed, 4, 4);
            let first = [2, 0, 3, 1];
            (0..9)
                .map(|round| schedule.round(block, point, &first, round))
                .collect::<Vec<_>>()
        };
        assert_eq!(rounds(42, 1, 2), rounds(42, 1, 2));
        for other in [rounds(43, 1, 2), rounds(42, 2, 2), rounds(42, 1, 3)] {
            assert_ne!(other, rounds(42, 1, 2));
            assert_eq!(other[0], [2, 0, 3, 1]);
        }
        assert_eq!(format!("{:?}", rounds(42, 1, 2)), GOLDEN_ROUNDS);
    }

    const GOLDEN_ROUNDS: &str = "[[2, 0, 3, 1], [3, 2, 1, 0], [0, 1, 2, 3], [1, 3, 0, 2], [0, 2, 1, 3], [2, 3, 0, 1], \
         [1, 0, 3, 2], [3, 1, 2, 0], [3, 1, 2, 0]]";

    #[test]
    fn one_layer_and_no_layer_are_no_trouble() {
        assert_eq!(Schedule::new(1, 1, 1).turns(9, 0), [0]);
        assert!(Schedule::new(1, 0, 0).turns(9, 0).is_empty());
        assert_eq!(Schedule::new(1, 3, 1).round(9, 0, &[2], 5), [2]);
        assert!(Schedule::new(1, 0, 0).round(9, 0, &[], 5).is_empty());
    }
}
