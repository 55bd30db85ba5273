//! What the layers are, below the matrix.

use super::{Style, lines, text};
use crate::page::matrix::Matrix;

/// Most lines if not all layers can be explained: results need the room more.
const LINES: usize = 4;

/// What each layer is, in at most `room` lines. Without room for all, the `gravest`, which
/// have findings, and a command that explains the others.
pub fn layers(
    matrix: &Matrix,
    gravest: &[&str],
    style: Style,
    room: usize,
) -> anyhow::Result<String> {
    let whole = matrix.explanation();
    if whole.is_empty() {
        return Ok(String::new());
    }
    let whole = text(style, "Layers: ", "  ", &whole)?;
    if lines(&whole) <= room {
        return Ok(whole);
    }
    let each = matrix.explanations_of(gravest);
    for shown in (1..each.len()).rev() {
        let part = format!("{}; all: layermark layers", each[..shown].join("; "));
        let part = text(style, "Layers: ", "  ", &part)?;
        if lines(&part) <= room.min(LINES) {
            return Ok(part);
        }
    }
    text(style, "", "  ", "What each layer is: layermark layers")
}
