//! The operations that a thread repeats.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::{
    kind::LockOp,
    sys::{lock, unlock},
};
use crate::run::drive::Step;

/// Locks and unlocks.
pub struct LockUnlock<'a> {
    pub op: LockOp,
    pub file: &'a File,
}

impl Step for LockUnlock<'_> {
    fn run(&mut self, _: u64) -> io::Result<()> {
        lock(self.op, self.file)?;
        unlock(self.op, self.file)
    }
}

/// Locks, adds 1 to the number in the file, and unlocks. Two threads that hold the lock at once
/// read the same number.
pub struct Count<'a> {
    pub op: LockOp,
    pub file: &'a File,
}

impl Step for Count<'_> {
    fn run(&mut self, _: u64) -> io::Result<()> {
        lock(self.op, self.file)?;
        let next = counter(self.file)?.wrapping_add(1);
        self.file.write_all_at(&next.to_le_bytes(), 0)?;
        unlock(self.op, self.file)
    }
}

/// The number in the file.
pub fn counter(file: &File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(u64::from_le_bytes(bytes))
}
