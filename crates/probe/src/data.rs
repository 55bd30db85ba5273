//! The data that is written, and its verification.
//!
//! A checked block starts with a header of 32 bytes: seed, offset in the file, generation (the pass
//! that wrote it), and an XXH3 checksum over these and the rest. So a block that is altered, lost,
//! stale or in the wrong place is detected without knowing its content.

use layermark_model::Pattern;
use rand_chacha::{ChaCha8Rng, rand_core::Rng, rand_core::SeedableRng};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::own_cache;

/// Bytes of the header.
pub const HEADER: usize = 32;

/// Origin of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Seed of the file.
    pub seed: u64,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Pass that wrote it, from 1; 0 is a packaged file.
    pub generation: u64,
}

/// Writes the header. Blocks shorter than a header stay as they are.
pub fn stamp(block: &mut [u8], stamp: Stamp) {
    if block.len() < HEADER {
        return;
    }
    block[..8].copy_from_slice(&stamp.seed.to_le_bytes());
    block[8..16].copy_from_slice(&stamp.offset.to_le_bytes());
    block[16..24].copy_from_slice(&stamp.generation.to_le_bytes());
    let sum = checksum(block);
    block[24..32].copy_from_slice(&sum.to_le_bytes());
}

/// The content of the header, if the checksum is correct.
pub fn read_stamp(block: &[u8]) -> Option<Stamp> {
    let field = |at: usize| Some(u64::from_le_bytes(block.get(at..at + 8)?.try_into().ok()?));
    let stamp = Stamp {
        seed: field(0)?,
        offset: field(8)?,
        generation: field(16)?,
    };
    (field(24)? == checksum(block)).then_some(stamp)
}

fn checksum(block: &[u8]) -> u64 {
    xxh3_64_with_seed(&block[HEADER..], xxh3_64(&block[..HEADER - 8]))
}

/// Seed of one file or purpose, derived from the run's seed.
pub fn derive(seed: u64, what: &str) -> u64 {
    xxh3_64_with_seed(what.as_bytes(), seed)
}

/// Incompressible bytes, equal for equal seeds. About 2 GB/s.
pub struct Noise(ChaCha8Rng);

impl Noise {
    /// The stream for `seed`.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Fills `bytes` with the next bytes of the stream.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

/// Bytes of random data before they repeat within one buffer.
pub const PERIOD: usize = 1 << 20;

/// The largest piece that file systems compress as a whole, bytes.
const COMPRESSED: u64 = 128 << 10;

/// Bytes of the data pool that writes of up to `unit` bytes cycle through: whole units, at least
/// one.
///
/// The pool is an eighth of the core's own cache. So it stays there although the written data
/// passes through the same cache. Measured with 1 MiB of cache: a pool of 128 KiB costs a write of
/// 64 KiB nothing, 512 KiB 3 %, 1 MiB 5 %. It is at least the size that a file system compresses as
/// one piece, so that incompressible data stays incompressible.
pub fn pool(unit: u64) -> u64 {
    pool_in(own_cache(), unit)
}

fn pool_in(cache: u64, unit: u64) -> u64 {
    let room = (cache / 8).clamp(COMPRESSED, PERIOD as u64);
    (room / unit).max(1) * unit
}

fn noise(bytes: &mut [u8], seed: u64) {
    let first = PERIOD.min(bytes.len());
    let (pool, rest) = bytes.split_at_mut(first);
    Noise::new(seed).fill(pool);
    for part in rest.chunks_mut(PERIOD) {
        part.copy_from_slice(&pool[..part.len()]);
    }
}

/// Fills `bytes` with a pattern; they hold records of `record` bytes.
pub fn fill(pattern: Pattern, bytes: &mut [u8], record: usize, seed: u64) {
    match pattern {
        Pattern::Random => noise(bytes, seed),
        Pattern::Zeros => bytes.fill(0),
        Pattern::A => bytes.fill(b'A'),
        Pattern::ACrlf => {
            bytes.fill(b'A');
            for record in bytes.chunks_mut(record.max(1)) {
                for (last, byte) in record.iter_mut().rev().zip([b'\n', b'\r']) {
                    *last = byte;
                }
            }
        }
        Pattern::Text => text(bytes, seed),
    }
}

const WORDS: [&str; 32] = [
    "the", "of", "file", "and", "to", "disk", "a", "in", "that", "write", "is", "was", "layer",
    "he", "for", "it", "with", "as", "record", "his", "on", "be", "cache", "at", "by", "had",
    "not", "measure", "are", "but", "page", "from",
];

fn text(bytes: &mut [u8], seed: u64) {
    let mut choice = [0u8; 256];
    let mut noise = Noise::new(seed);
    let mut at = 0;
    while at < bytes.len() {
        noise.fill(&mut choice);
        for c in choice {
            let word = WORDS[usize::from(c) % WORDS.len()].as_bytes();
            let end = if c > 240 { b"\n" } else { b" " };
            for byte in word.iter().chain(end) {
                if at == bytes.len() {
                    return;
                }
                bytes[at] = *byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_single_changed_byte_is_found(len in HEADER..5000usize, seed: u64, at: usize, change in 1u8..) {
            let mut block = vec![0; len];
            Noise::new(seed).fill(&mut block);
            let written = Stamp { seed, offset: 4096, generation: 3 };
            stamp(&mut block, written);
            prop_assert_eq!(read_stamp(&block), Some(written));
            block[at % len] ^= change;
            prop_assert_eq!(read_stamp(&block), None);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = read_stamp(&bytes);
        }
    }

    #[test]
    fn equal_seeds_give_equal_noise_and_others_do_not() {
        let make = |seed| {
            let mut b = [0; 64];
            Noise::new(seed).fill(&mut b);
            b
        };
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
    }

    #[test]
    fn a_pool_is_an_eighth_of_the_cache_in_whole_records() {
        const KIB: u64 = 1 << 10;
        for (cache, unit, expected) in [
            (1024 * KIB, 4 * KIB, 128 * KIB),
            (2048 * KIB, 64 * KIB, 256 * KIB),
            (2048 * KIB, 48 * KIB, 240 * KIB),
            (1024 * KIB, 1024 * KIB, 1024 * KIB),
            (256 * KIB, 4 * KIB, 128 * KIB),
            (64 << 20, 4 * KIB, 1024 * KIB),
        ] {
            assert_eq!(pool_in(cache, unit), expected, "{cache} {unit}");
        }
        let [mut noise, mut again] = [0, 1].map(|_| vec![0; pool(4 * KIB) as usize]);
        fill(Pattern::Random, &mut noise, 4096, 7);
        fill(Pattern::Random, &mut again, 4096, 7);
        assert_eq!(noise, again);
        let mut records: Vec<&[u8]> = noise.chunks(4096).collect();
        records.sort_unstable();
        records.dedup();
        assert_eq!(records.len(), noise.len() / 4096, "a record came twice");
    }

    #[test]
    fn patterns_are_what_they_say() {
        let make = |pattern: Pattern| {
            let mut b = vec![1; 1000];
            fill(pattern, &mut b, 100, 5);
            b
        };
        assert!(make(Pattern::Zeros).iter().all(|b| *b == 0));
        assert!(make(Pattern::A).iter().all(|b| *b == b'A'));
        let lines = make(Pattern::ACrlf);
        assert_eq!(lines.len(), 1000);
        for line in lines.chunks(100) {
            assert!(line[..98].iter().all(|b| *b == b'A') && &line[98..] == b"\r\n");
        }
        let mut short = [0; 3];
        fill(Pattern::ACrlf, &mut short, 1, 5);
        assert_eq!(&short, b"\n\n\n");
        assert!(make(Pattern::Text).is_ascii());
        assert!(
            make(Pattern::Random)
                .iter()
                .map(|b| u32::from(*b == 0))
                .sum::<u32>()
                < 30
        );
    }
}
