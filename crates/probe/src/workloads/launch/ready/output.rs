//! Ready when the program has printed a matching text.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    os::fd::{AsFd, BorrowedFd},
};

use regex::bytes::Regex;
use rustix::{
    fs::{OFlags, fcntl_setfl},
    pipe::{PipeFlags, pipe_with},
};

use super::{MOST, Ready, ReadyEvent, ReadyKind, Scene, expression};
use crate::ProbeError;

/// Bytes of earlier output that are searched again together with new output.
const KEPT: usize = 64 << 10;

/// `stdout=REGEX` and `stderr=REGEX`
pub struct Output {
    error: bool,
}

impl Output {
    pub const STDOUT: Self = Self { error: false };
    pub const STDERR: Self = Self { error: true };
}

impl ReadyKind for Output {
    fn id(&self) -> &'static str {
        if self.error { "stderr" } else { "stdout" }
    }
    fn value(&self) -> &'static str {
        "REGEX"
    }
    fn optional(&self) -> bool {
        false
    }
    fn check(&self, value: &str) -> Result<(), String> {
        expression(value).map(drop)
    }
    fn arm(&self, value: &str, scene: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
        let made = pipe_with(PipeFlags::CLOEXEC).and_then(|(read, write)| {
            // Reads only available data: otherwise the read would wait for the program.
            fcntl_setfl(&read, OFlags::NONBLOCK)?;
            Ok((read, write))
        });
        let (pipe, its) = made.map_err(|e| {
            let e = io::Error::from(e);
            ProbeError::new(format!("cannot make a pipe for `{}`: {e}", self.id()))
        })?;
        if self.error {
            scene.command.stderr(its);
        } else {
            scene.command.stdout(its);
        }
        Ok(Box::new(Prints {
            wanted: expression(value).map_err(ProbeError::new)?,
            pipe: Some(pipe.into()),
            printed: Vec::new(),
        }))
    }
}

struct Prints {
    wanted: Regex,
    pipe: Option<File>,
    printed: Vec<u8>,
}

impl Ready for Prints {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.pipe.iter().map(AsFd::as_fd).collect()
    }
    fn look(&mut self) -> Result<Option<ReadyEvent>, ProbeError> {
        let now = ReadyEvent::now();
        let mut chunk = [0; 16 << 10];
        for _ in 0..MOST {
            let Some(pipe) = &mut self.pipe else { break };
            match pipe.read(&mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(n) => self.printed.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
            if self.wanted.is_match(&self.printed) {
                return Ok(Some(now));
            }
            let old = self.printed.len().saturating_sub(KEPT);
            self.printed.drain(..old);
        }
        Ok(None)
    }
}
