//! Messages on standard error: the one place that writes them.

use std::fmt::Display;

use layermark_model::plain;

/// Prints one or more lines, without control characters: names of files and layers, and output of
/// programs, come from outside.
pub fn say(text: impl Display) {
    eprintln!("{}", plain(&text.to_string()));
}
