//! What the matrix of a run that goes on means.

use crate::{
    page::sign::Sign,
    words::{Text, text},
};

/// The line above it, before and after the first look.
pub fn heading(blocks: Option<usize>) -> Text {
    let Some(blocks) = blocks else {
        return "so far; \u{b1}: not decided".into();
    };
    let [same, means] = [Sign::Same.shown(), Sign::Same.meaning()];
    text!("so far, after {blocks} blocks: {same} {means}; \u{b1}: not decided")
}
