//! The last output of a program.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
};

use layermark_model::IT_SAID;
use rustix::fs::{MemfdFlags, memfd_create};

use super::spawn::Program;

/// Number of last bytes kept of the output of a failed program.
const LAST_WORDS: u64 = 2000;

/// The standard error stream, kept in memory so that no pipe has to be read meanwhile.
pub struct LastOutput(File);

pub fn capture_stderr(program: &mut Program) -> std::io::Result<LastOutput> {
    let ours = File::from(memfd_create("stderr", MemfdFlags::CLOEXEC)?);
    program.stderr(ours.try_clone()?);
    Ok(LastOutput(ours))
}

impl LastOutput {
    /// Another handle, for a program that prints errors to another stream too.
    pub fn writer(&self) -> std::io::Result<File> {
        self.0.try_clone()
    }

    /// `; it said: ...`, or an empty text.
    pub fn text(&self) -> String {
        let mut file = &self.0;
        let size = file.metadata().map_or(0, |m| m.len());
        let mut bytes = Vec::new();
        let from = SeekFrom::Start(size.saturating_sub(LAST_WORDS));
        if file.seek(from).is_err() || file.take(LAST_WORDS).read_to_end(&mut bytes).is_err() {
            return String::new();
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        if text.is_empty() {
            String::new()
        } else {
            format!("{IT_SAID}{text}")
        }
    }
}
