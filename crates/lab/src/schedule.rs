//! The order of a run, drawn from its seed and from nothing else.
//!
//! Randomised complete blocks: each block has every point once, in an order of its own; at a point
//! the layers take turns at once, one after the other, so that a slow spell of the machine meets
//! all of them. The turns of one point follow a Williams square over successive blocks: each layer
//! stands at each place equally often, and comes right after each other layer equally often. With
//! two layers that is ABBA or BAAB.

use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

/// Streams of the generator: one for the points of a block, one for the turns of a point (from 0),
const POINTS: u64 = 1 << 63;
/// ... and one for the data and offsets of a point in a block.
const WORK: u64 = 1 << 62;

/// The order of a run of so many layers and points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    seed: u64,
    layers: usize,
    points: usize,
}

impl Schedule {
    /// The order that belongs to a seed.
    pub fn new(seed: u64, layers: usize, points: usize) -> Self {
        Self {
            seed,
            layers,
            points,
        }
    }

    /// Points of a block, in their order.
    pub fn points(&self, block: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.points).collect();
        order.shuffle(&mut self.draw(POINTS | u64::from(block)));
        order
    }

    /// Layers at a point of a block, in their order.
    pub fn turns(&self, block: u32, point: usize) -> Vec<usize> {
        let rows = self.cycle();
        let (cycle, row) = (u64::from(block) / rows, u64::from(block) % rows);
        // Names and rows are drawn afresh for each cycle, so that no layer keeps a favoured row.
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

    /// Seed of data and offsets: the same for all that is done in a block, so that random reads and
    /// random writes share one order, as in iozone, and another in the next.
    pub fn work_seed(&self, block: u32) -> u64 {
        self.draw(WORK | u64::from(block)).next_u64()
    }

    /// Blocks after which the turns are balanced.
    pub fn cycle(&self) -> u64 {
        let n = self.layers.max(1) as u64;
        if n.is_multiple_of(2) || n == 1 {
            n
        } else {
            2 * n
        }
    }

    fn draw(&self, stream: u64) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(stream);
        random
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
    use super::*;

    #[test]
    fn each_layer_has_each_place_and_each_forerunner_equally_often() {
        for n in 2..=9 {
            let schedule = Schedule::new(7, n, 3);
            let cycle = schedule.cycle() as u32;
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
        // A replay in a year must be the same run: if this fails, replays of stored runs are not.
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
    fn one_layer_and_no_layer_are_no_trouble() {
        assert_eq!(Schedule::new(1, 1, 1).turns(9, 0), [0]);
        assert!(Schedule::new(1, 0, 0).turns(9, 0).is_empty());
    }
}
