//! What the values of a trend are.

use crate::words::{Names, Text, text};

/// What its axis shows: times of the baseline, or ratios to it.
pub fn quantity(is_time: bool, names: &Names) -> Text {
    if is_time {
        return "time an operation".into();
    }
    text!("time in the layer / {}", names.natively())
}
