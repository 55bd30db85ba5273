//! Messages on standard error: the one place that writes them.

use std::{
    fmt::Display,
    io::{Write, stderr},
};

use layermark_model::plain;

/// Prints one or more lines without control characters, because names of files and layers and
/// output of programs are untrusted. A closed terminal is not an error.
pub fn say(text: impl Display) {
    let _ = writeln!(stderr(), "{}", plain(&text.to_string()));
}
