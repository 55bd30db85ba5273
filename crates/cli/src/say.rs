//! Messages on standard error: the one place that writes them.

use std::{
    fmt::Display,
    io::{Write, stderr},
};

use layermark_model::plain;

/// Prints one or more lines, without control characters: names of files and layers, and output of
/// programs, come from outside. A terminal that has gone hears nothing, and ends nothing.
pub fn say(text: impl Display) {
    let _ = writeln!(stderr(), "{}", plain(&text.to_string()));
}
