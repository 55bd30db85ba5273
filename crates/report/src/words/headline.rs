//! The sentence for the whole run.

use crate::words::{Text, text};

/// Precedes a headline about figures that other programs disturbed, since it is quoted alone.
pub const BUSY: &str = "Measured on a busy machine: ";

/// A sentence with a capital letter, or with what limits it.
pub fn qualified(sentence: Text, busy: bool) -> Text {
    if busy {
        text!("{BUSY}{sentence}")
    } else {
        sentence.capitalised()
    }
}
