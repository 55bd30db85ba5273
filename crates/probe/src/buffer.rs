//! Memory that data is read into and written from.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Alignment that `O_DIRECT` is content with on every device so far.
pub const ALIGN: usize = 4096;

/// Bytes that are kept for the next buffer.
const KEPT: usize = 64 << 20;

/// Memory at a page boundary, touched when it is made.
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
    /// Where it goes when it is dropped, and the seed of the block in which it is used again.
    home: Option<(&'static Spare, u64)>,
}

/// The largest buffer that is not in use, with the seed of its block. The kernel takes longer to
/// give a process 16 MiB than many a trial that needs them.
#[derive(Default)]
pub struct Spare(Mutex<Option<(u64, Vec<u8>)>>);

/// The one of this process.
pub static SPARE: Spare = Spare(Mutex::new(None));

impl Spare {
    /// `len` bytes with anything in them, where an earlier trial with this seed had its own. Which
    /// pages of memory a process has may be worth a fifth of what it reads from the cache, so
    /// blocks, which are what is averaged over, have each their own.
    pub fn buffer(&'static self, seed: u64, len: usize) -> Buffer {
        let home = Some((self, seed));
        // What does not fit goes before its successor comes.
        let kept = self.lock().take();
        match kept.filter(|(block, memory)| *block == seed && memory.len() >= len + ALIGN) {
            Some((_, memory)) => Buffer::over(memory, len, home),
            None => Buffer::over(touched(len), len, home),
        }
    }

    fn keep(&self, seed: u64, memory: Vec<u8>) {
        let mut kept = self.lock();
        let better =
            |(block, other): &(u64, Vec<u8>)| *block == seed && other.len() >= memory.len();
        if memory.len() <= KEPT && !kept.as_ref().is_some_and(better) {
            *kept = Some((seed, memory));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(u64, Vec<u8>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for `len` bytes from a page boundary on, none of it zero: a page of zeros could be shared
/// and never touched.
fn touched(len: usize) -> Vec<u8> {
    vec![0x5a; len + ALIGN]
}

impl Buffer {
    /// `len` bytes of its own.
    pub fn new(len: usize) -> Self {
        Self::over(touched(len), len, None)
    }

    fn over(memory: Vec<u8>, len: usize, home: Option<(&'static Spare, u64)>) -> Self {
        let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self {
            memory,
            start,
            len,
            home,
        }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// The bytes, to write to.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some((spare, seed)) = self.home {
            spare.keep(seed, mem::take(&mut self.memory));
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
        // What would fit is given up with its block, and what does not fit is not taken.
        let other = spare.buffer(2, 100);
        assert_eq!(other.memory.len(), 100 + ALIGN);
        drop(other);
        assert_eq!(spare.buffer(2, 200).memory.len(), 200 + ALIGN);
    }
}
