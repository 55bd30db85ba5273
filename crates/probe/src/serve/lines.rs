//! Reads lines of a job's input.

use std::io::{self, BufRead};

use layermark_model::protocol::MAX_LINE;

use super::SHOWN;

/// Result of reading a line.
pub enum JobLine {
    Complete,
    /// The line is too long. `line` holds its beginning; the rest was skipped.
    TooLong,
    End,
}

/// Reads lines of bounded length.
pub struct BoundedLines<R> {
    pub input: R,
    /// The last line, or its beginning.
    pub line: Vec<u8>,
}

impl<R: BufRead> BoundedLines<R> {
    /// Reads the next line into `line`.
    pub fn next(&mut self) -> io::Result<JobLine> {
        self.line.clear();
        let mut too_long = false;
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if bytes.is_empty() {
                // A last line without a line end was cut off, so it is ignored.
                return Ok(JobLine::End);
            }
            let end = bytes.iter().position(|b| *b == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            too_long |= self.line.len() + part.len() > MAX_LINE;
            if too_long {
                self.line.truncate(SHOWN * 4);
            } else {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(if too_long {
                    JobLine::TooLong
                } else {
                    JobLine::Complete
                });
            }
        }
    }
}
