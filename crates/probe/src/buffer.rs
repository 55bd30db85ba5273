//! Buffers for reading and writing.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use layermark_model::Pattern;

use crate::data;

/// Alignment that `O_DIRECT` accepts on every device seen so far.
pub const ALIGN: usize = 4096;

/// Largest buffer that is kept for reuse, bytes.
const KEPT: usize = 64 << 20;

/// Page-aligned memory, touched when it is allocated.
pub struct Buffer {
    room: Room,
    start: usize,
    len: usize,
    /// The store that keeps it when dropped, and the seed of the block that may reuse it.
    home: Option<(&'static Spare, u64)>,
}

struct Room {
    memory: Vec<u8>,
    /// Seed of the noise that fills it completely.
    noise: Option<u64>,
}

/// The largest buffer that is not in use, with the seed of its block. Allocating 16 MiB takes the
/// kernel longer than many of the trials that need them.
#[derive(Default)]
pub struct Spare(Mutex<Option<(u64, Room)>>);

/// The buffer into which this process reads.
pub static TO_READ: Spare = Spare(Mutex::new(None));
/// The buffer from which this process writes.
pub static TO_WRITE: Spare = Spare(Mutex::new(None));

impl Spare {
    /// A buffer of `len` bytes with unspecified content, at the address that an earlier trial with
    /// this seed used. The physical pages of a buffer can change the speed of cached reads by a
    /// fifth, so each block, over which results are averaged, gets its own.
    pub fn buffer(&'static self, seed: u64, len: usize) -> Buffer {
        let home = Some((self, seed));
        let kept = self.lock().take();
        match kept {
            Some((block, room)) if block == seed && room.memory.len() >= len + ALIGN => {
                Buffer::over(room, len, home)
            }
            // Freed only after its successor was allocated, which would otherwise get the same
            // pages.
            _does_not_fit => Buffer::over(touched(len), len, home),
        }
    }

    fn keep(&self, seed: u64, room: Room) {
        let mut kept = self.lock();
        let size = room.memory.len();
        let better = |(block, other): &(u64, Room)| *block == seed && other.memory.len() >= size;
        if size <= KEPT && !kept.as_ref().is_some_and(better) {
            *kept = Some((seed, room));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(u64, Room)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `len` bytes from a page boundary, all non-zero: pages of zeros could be shared and never
/// touched.
fn touched(len: usize) -> Room {
    Room {
        memory: vec![0x5a; len + ALIGN],
        noise: None,
    }
}

impl Buffer {
    /// A buffer of `len` bytes that is not shared.
    pub fn new(len: usize) -> Self {
        Self::over(touched(len), len, None)
    }

    fn over(room: Room, len: usize, home: Option<(&'static Spare, u64)>) -> Self {
        let start = room.memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self {
            room,
            start,
            len,
            home,
        }
    }

    /// Fills it with records of `record` bytes, unless it already holds the same noise.
    pub fn fill(&mut self, pattern: Pattern, record: usize, seed: u64) {
        let noise = (pattern == Pattern::Random).then_some(seed);
        if noise.is_none() {
            data::fill(pattern, self.bytes_mut(), record, seed);
        } else if self.room.noise != noise {
            data::fill(pattern, &mut self.room.memory[self.start..], record, seed);
        }
        self.room.noise = noise;
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.room.memory[self.start..self.start + self.len]
    }

    /// The bytes, to write to.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.room.memory[self.start..self.start + self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some((spare, seed)) = self.home {
            let room = Room {
                memory: mem::take(&mut self.room.memory),
                noise: self.room.noise,
            };
            spare.keep(seed, room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_at_a_page() {
        for len in [1, 32, 4096, 1 << 20] {
            let mut b = Buffer::new(len);
            assert_eq!(b.bytes().as_ptr() as usize % ALIGN, 0);
            assert_eq!(b.bytes_mut().len(), len);
        }
    }

    #[test]
    fn only_its_own_block_uses_a_buffer_again() {
        let spare: &Spare = Box::leak(Box::default());
        let at = |b: &Buffer| b.bytes().as_ptr();
        let first = spare.buffer(1, 3 << 20);
        let second = spare.buffer(1, 1 << 20);
        let (large, small) = (at(&first), at(&second));
        assert_ne!(large, small);
        drop((second, first));
        let again = spare.buffer(1, 100);
        assert_eq!((at(&again), again.bytes().len()), (large, 100));
        drop(again);
        // A buffer that would fit is discarded when its block ends; one that does not fit is not
        // used.
        let other = spare.buffer(2, 100);
        assert_eq!(other.room.memory.len(), 100 + ALIGN);
        assert_ne!(at(&other), large);
        drop(other);
        assert_eq!(spare.buffer(2, 200).room.memory.len(), 200 + ALIGN);
    }

    #[test]
    fn noise_that_is_there_is_not_made_again() {
        let spare: &Spare = Box::leak(Box::default());
        let filled = |len, pattern, seed| {
            let mut b = spare.buffer(1, len);
            b.fill(pattern, 16, seed);
            b.bytes().to_vec()
        };
        let long = filled(3 << 20, Pattern::Random, 7);
        assert_eq!(filled(5000, Pattern::Random, 7), long[..5000]);
        assert_ne!(filled(5000, Pattern::Random, 8), long[..5000]);
        assert_eq!(filled(5000, Pattern::Zeros, 8), vec![0; 5000]);
        assert_eq!(
            filled(3 << 20, Pattern::Random, 8)[..5000],
            filled(5000, Pattern::Random, 8)
        );
    }
}
