//! Alternatives of a layer beside each other.

use crate::words::{Text, text};

/// The title of the table of this reference.
pub fn compared_with(reference: &str) -> Text {
    text!("Compared with {}", Text::code(reference))
}

/// What all alternatives have in common; may be empty.
pub fn all_of_them(what: &str) -> Text {
    if what.is_empty() {
        return Text::default();
    }
    text!("All of them: {what}.")
}

/// The head of a column of ratios with intervals of this level.
pub fn ratio_head(level: f64) -> Text {
    text!("ratio ({} %)", (level * 100.0).round())
}
