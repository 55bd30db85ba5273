/// Alignment that `O_DIRECT` is content with on every device so far.
pub const ALIGN: usize = 4096;

/// Memory at a page boundary, touched when it is made.
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` bytes, none of them zero: a page of zeros could be shared and never touched.
    pub fn new(len: usize) -> Self {
        let memory = vec![0x5a; len + ALIGN];
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
}
