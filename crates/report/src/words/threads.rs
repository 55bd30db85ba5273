//! How evenly threads progressed.

use crate::{
    number,
    types::ThreadsRow,
    words::{Names, Text, Words, text},
};

/// The remark next to a result.
impl Words for ThreadsRow {
    fn words(&self, _: &Names) -> Text {
        let rate = |bytes| number::value(bytes, "B/s");
        text!(
            "{} threads at {} to {}, mean {}; together {} until the first was through, when the last had done {}",
            self.count,
            rate(self.slowest),
            rate(self.fastest),
            rate(self.mean),
            rate(self.stonewall),
            number::percent(self.least_done)
        )
    }
}
