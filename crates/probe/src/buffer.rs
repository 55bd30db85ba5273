use std::{
    mem,
    sync::{Mutex, PoisonError},
};

/// Alignment that `O_DIRECT` is content with on every device so far.
pub const ALIGN: usize = 4096;

/// Bytes that are kept for the next buffer.
const KEPT: usize = 64 << 20;

/// The largest buffer that is not in use. Touching every page of a new one takes longer than many
/// a trial that needs it.
static SPARE: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn spare() -> impl std::ops::DerefMut<Target = Vec<u8>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory at a page boundary, all of it touched before it is used.
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` bytes with anything in them.
    pub fn new(len: usize) -> Self {
        let needed = len + ALIGN;
        let mut memory = mem::take(&mut *spare());
        if memory.len() < needed {
            // Not zeros: a page of zeros could be shared and never touched.
            memory = vec![0x5a; needed];
        }
        let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self { memory, start, len }
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
        let mut spare = spare();
        if self.memory.len() > spare.len() && self.memory.len() <= KEPT {
            *spare = mem::take(&mut self.memory);
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
    fn a_shorter_one_after_a_longer_one_has_its_own_length() {
        let many: Vec<Buffer> = (1..5).map(|n| Buffer::new(n * 10_000)).collect();
        drop(many);
        let two = [Buffer::new(100), Buffer::new(200)];
        assert_eq!((two[0].bytes().len(), two[1].bytes().len()), (100, 200));
        assert_ne!(two[0].bytes().as_ptr(), two[1].bytes().as_ptr());
    }
}
