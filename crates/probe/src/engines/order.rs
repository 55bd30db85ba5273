//! The order of records.

use crate::permutation::Permutation;

/// The record that operation `i` of a pass accesses.
#[derive(Debug, Clone, Copy)]
pub enum RecordOrder {
    /// First to last.
    Sequential,
    /// Last to first; the number of records.
    Backward(u64),
    /// Each once, in random order.
    Random(Permutation),
    /// Every n-th record, then every n-th from the second record on, and so on.
    Stride(Stride),
    /// Back and forth over a fixed distance.
    Seek(Seek),
    /// The first one only.
    First,
}

impl RecordOrder {
    /// The record of operation `i`, from 0.
    #[inline]
    pub fn at(&self, i: u64) -> u64 {
        match self {
            Self::Sequential => i,
            Self::Backward(n) => n - 1 - i,
            Self::Random(permutation) => permutation.at(i),
            Self::Stride(stride) => stride.at(i),
            Self::Seek(seek) => seek.at(i),
            Self::First => 0,
        }
    }
}

/// Records 0, s, 2s, ... to the end of the file, then 1, 1 + s, ... and so on: the first record
/// advances by one each time the end is reached, as in iozone's stride read. Each record comes
/// once. In a file with no more records than the stride they come in sequence.
#[derive(Debug, Clone, Copy)]
pub struct Stride {
    step: u64,
    /// Records of one run through the file, for the shorter runs.
    each: u64,
    /// Number of runs with one record more.
    longer: u64,
    /// Operations of the longer runs together.
    of_longer: u64,
}

impl Stride {
    /// The order over `n` records; a step of 0 counts as 1.
    pub fn new(n: u64, step: u64) -> Self {
        let step = step.max(1);
        let (each, longer) = (n / step, n % step);
        Self {
            step,
            each,
            longer,
            of_longer: longer * (each + 1),
        }
    }

    #[inline]
    fn at(&self, i: u64) -> u64 {
        let (way, turn) = if i < self.of_longer {
            (i / (self.each + 1), i % (self.each + 1))
        } else {
            // `each` is 0 here only beyond the end of a file that has fewer records than the step.
            let rest = i - self.of_longer;
            let each = self.each.max(1);
            (self.longer + rest / each, rest % each)
        };
        way + turn * self.step
    }
}

/// Records 0, d, 1, d + 1, 2, d + 2, ...: the step is d records forward, then d - 1 back. No record
/// comes twice. When the pairs meet, the order continues after them.
#[derive(Debug, Clone, Copy)]
pub struct Seek {
    distance: u64,
}

impl Seek {
    /// Over a distance of this many records, at least 1.
    pub fn new(distance: u64) -> Self {
        Self {
            distance: distance.max(1),
        }
    }

    /// Number of operations in a file of `n` records.
    pub fn ops(self, n: u64) -> u64 {
        let pairs = 2 * self.distance;
        n / pairs * pairs
    }

    #[inline]
    fn at(self, i: u64) -> u64 {
        let pairs = 2 * self.distance;
        let (block, turn) = (i / pairs, i % pairs);
        block * pairs + turn / 2 + (turn % 2) * self.distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(order: RecordOrder, ops: u64) -> Vec<u64> {
        (0..ops).map(|i| order.at(i)).collect()
    }

    fn once_each(mut records: Vec<u64>) -> bool {
        records.sort_unstable();
        records.windows(2).all(|w| w[0] + 1 == w[1]) && records.first().is_none_or(|r| *r == 0)
    }

    #[test]
    fn orders_are_what_they_say() {
        assert_eq!(records(RecordOrder::Sequential, 3), [0, 1, 2]);
        assert_eq!(records(RecordOrder::Backward(3), 3), [2, 1, 0]);
        assert_eq!(records(RecordOrder::First, 3), [0, 0, 0]);
        let stride = RecordOrder::Stride(Stride::new(10, 4));
        assert_eq!(records(stride, 10), [0, 4, 8, 1, 5, 9, 2, 6, 3, 7]);
        assert_eq!(
            records(RecordOrder::Stride(Stride::new(3, 17)), 3),
            [0, 1, 2]
        );
        let seek = Seek::new(3);
        assert_eq!(seek.ops(13), 12);
        let expected = [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11];
        assert_eq!(records(RecordOrder::Seek(seek), 12), expected);
    }

    proptest! {
        #[test]
        fn each_record_comes_once(n in 1u64..3000, step in 0u64..4000) {
            prop_assert!(once_each(records(RecordOrder::Stride(Stride::new(n, step)), n)));
            prop_assert!(once_each(records(RecordOrder::Backward(n), n)));
            let seek = Seek::new(step);
            prop_assert!(once_each(records(RecordOrder::Seek(seek), seek.ops(n))));
        }
    }
}
