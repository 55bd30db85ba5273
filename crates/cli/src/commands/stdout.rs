//! Text on standard output: the one place that writes it.

use std::io::{self, Write};

use layermark_model::plain;

use crate::failure::Failure;

/// Prints text or JSON, with a line break at the end.
pub fn print(text: &str) -> Result<(), Failure> {
    write(plain(text).as_bytes())
}

/// Prints bytes as they are.
pub fn write(text: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        // A closed pipe is not an error: `layermark report | head`.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| Failure::failed(format!("standard output: {e}"))),
    }
}
