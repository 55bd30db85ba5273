//! In what order records come.

use crate::permutation::Permutation;

/// Which record the `i`th operation of a pass goes to.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// First to last.
    Sequential,
    /// Each once, in this order.
    Random(Permutation),
}

impl Order {
    /// The record of operation `i`, from 0.
    #[inline]
    pub fn at(&self, i: u64) -> u64 {
        match self {
            Self::Sequential => i,
            Self::Random(permutation) => permutation.at(i),
        }
    }
}
