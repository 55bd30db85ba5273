//! What the values of a trend are.

use crate::{
    history::Trend,
    words::{Names, Text, text},
};

/// What its axis shows.
pub fn quantity(of: &Trend) -> Text {
    if of.is_time {
        return "time an operation".into();
    }
    let names = Names {
        baseline: &of.baseline,
    };
    text!("time in the layer / {}", names.natively())
}
