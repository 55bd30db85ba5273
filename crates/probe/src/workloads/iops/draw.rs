//! Draws the next I/O from the seed, one at a time as in Iometer.

use rand_chacha::{ChaCha8Rng, rand_core::Rng, rand_core::SeedableRng};

use super::spec::AccessSpec;
use crate::queue::QueuedIo;

/// The sequence of I/Os of one worker. Allocates nothing after its creation.
pub struct Draw {
    lines: Vec<Choice>,
    noise: ChaCha8Rng,
    /// End of the last I/O.
    behind: u64,
    file_size: u64,
}

struct Choice {
    /// Cumulative share up to this line, percent.
    upto: u64,
    size: u64,
    read: u64,
    random: u64,
    /// Bytes between two places, and number of places.
    step: u64,
    places: u64,
    burst: u64,
    delay_ns: u64,
    /// I/Os of this line since its last delay.
    since: u64,
}

/// An I/O, and the delay after it.
pub struct Drawn {
    pub op: QueuedIo,
    /// Time without a new I/O after its completion, ns.
    pub delay_ns: u64,
}

impl Draw {
    /// Worker `index` of `workers`: sequential I/O starts at its own part of the file.
    pub fn new(spec: &AccessSpec, file_size: u64, seed: u64, index: u64, workers: u64) -> Self {
        let mut upto = 0;
        let lines = spec
            .0
            .iter()
            .map(|line| {
                upto += line.share;
                Choice {
                    upto,
                    size: line.size,
                    read: line.read,
                    random: line.random,
                    step: line.step(),
                    places: (file_size - line.size) / line.step() + 1,
                    burst: line.burst,
                    delay_ns: line.delay_ms * 1_000_000,
                    since: 0,
                }
            })
            .collect();
        Self {
            lines,
            noise: ChaCha8Rng::seed_from_u64(seed),
            behind: file_size / workers * index,
            file_size,
        }
    }

    /// A number below 100, from some bits of a word.
    fn percent(word: u64, shift: u32) -> u64 {
        (((word >> shift) & 0xffff) * 100) >> 16
    }

    /// Draws the next I/O.
    #[inline]
    pub fn next(&mut self) -> Drawn {
        let word = self.noise.next_u64();
        let which = Self::percent(word, 0);
        let found = self.lines.iter().position(|l| which < l.upto);
        let line = &mut self.lines[found.unwrap_or(0)];
        let at = if Self::percent(word, 16) < line.random {
            // The high word of a product: all places have the same probability, up to 2^-64 times
            // their number.
            let place = (u128::from(self.noise.next_u64()) * u128::from(line.places)) >> 64;
            place as u64 * line.step
        } else {
            let at = self.behind.next_multiple_of(line.step);
            if at + line.size > self.file_size {
                0
            } else {
                at
            }
        };
        self.behind = at + line.size;
        line.since += 1;
        let mut delay_ns = 0;
        if line.since >= line.burst {
            line.since = 0;
            delay_ns = line.delay_ns;
        }
        Drawn {
            op: QueuedIo {
                at,
                len: line.size as u32,
                write: Self::percent(word, 32) >= line.read,
                number: 0,
            },
            delay_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn draw(text: &str, size: u64, seed: u64) -> Draw {
        Draw::new(&AccessSpec::parse(text).unwrap(), size, seed, 0, 1)
    }

    #[test]
    fn shares_come_out_as_asked() {
        let mut draw = draw(
            "4K 67% read 100% random; 64K 100% read 0% random @20%",
            MIB,
            7,
        );
        let all: Vec<QueuedIo> = (0..100_000).map(|_| draw.next().op).collect();
        let count = |f: &dyn Fn(&QueuedIo) -> bool| all.iter().filter(|op| f(op)).count() as f64;
        let large = count(&|op| op.len == 65536);
        assert!((large / 1e5 - 0.2).abs() < 0.01, "{large}");
        let small = 1e5 - large;
        let read = count(&|op| op.len == 4096 && !op.write);
        assert!((read / small - 0.67).abs() < 0.01, "{read} of {small}");
        assert!(!all.iter().any(|op| op.len == 65536 && op.write));
        assert!(
            all.iter()
                .all(|op| op.at + u64::from(op.len) <= MIB && op.at % 4096 == 0)
        );
        let places: std::collections::BTreeSet<u64> = all
            .iter()
            .filter(|op| op.len == 4096)
            .map(|op| op.at)
            .collect();
        assert_eq!(places.len(), 256, "every place is used");
    }

    #[test]
    fn sequential_goes_on_behind_the_last_and_starts_again_at_the_end() {
        let mut one = draw("4K sequential", 4 * 4096, 1);
        let at: Vec<u64> = (0..6).map(|_| one.next().op.at / 4096).collect();
        assert_eq!(at, [0, 1, 2, 3, 0, 1]);
        let spec = AccessSpec::parse("4K sequential").unwrap();
        let mut second = Draw::new(&spec, 4 * 4096, 1, 1, 2);
        assert_eq!(second.next().op.at, 2 * 4096, "each worker in its own part");
    }

    #[test]
    fn equal_seeds_draw_equally_and_places_keep_the_alignment() {
        let of = |seed| -> Vec<QueuedIo> {
            let mut draw = draw("2K 50% read 50% random align 512", 10_000, seed);
            (0..1000).map(|_| draw.next().op).collect()
        };
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
        assert!(
            of(3)
                .iter()
                .all(|op| op.at % 512 == 0 && op.at <= 10_000 - 2048)
        );
        assert!(of(3).iter().any(|op| op.at % 2048 != 0));
    }

    #[test]
    fn a_delay_comes_after_each_burst() {
        let mut draw = draw("4K burst 3 delay 2ms", MIB, 1);
        let delays: Vec<u64> = (0..6).map(|_| draw.next().delay_ns).collect();
        assert_eq!(delays, [0, 0, 2_000_000, 0, 0, 2_000_000]);
    }
}
