//! What is said to a person on standard error: the one place where such text leaves.

use std::fmt::Display;

use layermark_model::plain;

/// Prints a line, or several, without anything that drives a terminal: names of files and layers,
/// and what programs said, come from outside.
pub fn say(text: impl Display) {
    eprintln!("{}", plain(&text.to_string()));
}
