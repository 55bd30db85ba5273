//! Differences from iozone.

use crate::{
    statements::fidelity::Fidelity,
    words::{Names, Text, Words},
};

impl Words for Fidelity {
    fn words(&self, _: &Names) -> Text {
        let text = match self {
            Self::ShortCells => {
                "short cells of the matrix are repeated until they have lasted 1 ms (`min_ms`), and the median of the passes counts; iozone makes one pass, of microseconds for a file of 64 kB"
            }
            Self::Clock => {
                "the clock's resolution is not taken off: iozone subtracts 1 us from each measurement"
            }
            Self::Turns => {
                "layers take turns at each cell, so its tests do not follow each other on one file: reads have a packaged one that is warm, writes a new one, and rewrites one that is kept for all cells of its size and is on the disk before each"
            }
            Self::Fwrite => {
                "`fwrite` writes a new file, as iozone's manual says; iozone itself goes over the one that the tests before have left, which here is `re-fwrite`"
            }
            Self::Threads => {
                "with threads all of them count in the minimum, also one that moved nothing; the pass ends with the last thread, not with the first; the figure until the first was through is listed too"
            }
        };
        text.into()
    }
}
