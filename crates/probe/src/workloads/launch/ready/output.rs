//! Ready when it has printed something.

use std::{
    io::{ErrorKind, Read},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::{Child, Stdio},
};

use regex::bytes::Regex;
use rustix::fs::{OFlags, fcntl_setfl};

use super::{Found, Kind, Ready, Scene, expression};
use crate::ProbeError;

/// So much of what was printed before is looked at again with what follows, bytes.
const KEPT: usize = 64 << 10;

/// `stdout=REGEX` and `stderr=REGEX`
pub struct Output {
    error: bool,
}

impl Output {
    pub const STDOUT: Self = Self { error: false };
    pub const STDERR: Self = Self { error: true };
}

impl Kind for Output {
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
        if self.error {
            scene.command.stderr(Stdio::piped());
        } else {
            scene.command.stdout(Stdio::piped());
        }
        Ok(Box::new(Prints {
            error: self.error,
            wanted: expression(value).map_err(ProbeError::new)?,
            pipe: None,
            printed: Vec::new(),
        }))
    }
}

struct Prints {
    error: bool,
    wanted: Regex,
    pipe: Option<std::fs::File>,
    printed: Vec<u8>,
}

impl Ready for Prints {
    fn started(&mut self, child: &mut Child) {
        let pipe: Option<OwnedFd> = if self.error {
            child.stderr.take().map(Into::into)
        } else {
            child.stdout.take().map(Into::into)
        };
        // Only read when there is something: without it the read would wait for the program.
        self.pipe = pipe
            .filter(|p| fcntl_setfl(p, OFlags::NONBLOCK).is_ok())
            .map(Into::into);
    }
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.pipe.iter().map(AsFd::as_fd).collect()
    }
    fn look(&mut self) -> Result<Option<Found>, ProbeError> {
        let now = Found::now();
        let mut chunk = [0; 16 << 10];
        while let Some(pipe) = &mut self.pipe {
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
