//! What a program prints: lines of its output, which may acknowledge something, and its errors, which do not.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Instant,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    pipe::{PipeFlags, fcntl_setpipe_size, pipe_with},
};

/// Bytes of the longest line that is looked at.
const LONGEST_LINE: usize = 64 << 10;
/// Size of the pipe, and bytes read at once: little, so that a program is not far ahead of what is read.
const PIPE: usize = 4096;
/// So many lines behind an item: the program may have flushed it since.
const AHEAD: usize = 10;
/// Bytes kept of the last line that is no answer.
const LAST_LINE: usize = 500;

/// The ends at which a program writes: its output and its errors.
pub(super) type Ends = [OwnedFd; 2];

/// The ends at which it is read.
pub(super) struct Output {
    lines: Stream,
    /// `None` once they have ended.
    errors: Option<Stream>,
    /// The last line that acknowledged nothing.
    pub(super) said: String,
}

/// What came before the end of a wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// So many bytes.
    Bytes(usize),
    Nothing,
    /// The output has ended.
    End,
}

struct Stream {
    pipe: File,
    /// What was read and not yet looked at.
    read: Vec<u8>,
    /// Where in `read` the next line begins.
    at: usize,
}

impl Output {
    /// Two pipes, and their other ends.
    pub(super) fn new() -> io::Result<(Self, Ends)> {
        let pipe = || -> io::Result<_> {
            let (pipe, end) = pipe_with(PipeFlags::CLOEXEC)?;
            fcntl_setpipe_size(&pipe, PIPE)?;
            Ok((Stream::new(pipe.into()), end))
        };
        let ((lines, out), (errors, err)) = (pipe()?, pipe()?);
        let this = Self {
            lines,
            errors: Some(errors),
            said: String::new(),
        };
        Ok((this, [out, err]))
    }

    /// The next whole line of the output, without its end.
    pub(super) fn line(&mut self) -> Option<Vec<u8>> {
        self.lines.line()
    }

    /// Whether many lines were read that nobody has looked at yet.
    pub(super) fn is_ahead(&self) -> bool {
        let behind = self.lines.read[self.lines.at..].iter();
        let mut ends = behind.filter(|byte| **byte == b'\n');
        ends.nth(AHEAD - 1).is_some()
    }

    /// Keeps the beginning of a line that acknowledges nothing.
    pub(super) fn keep(&mut self, line: &[u8]) {
        keep_last(line, &mut self.said);
    }

    /// Waits for output, but not after `until`. Errors that come meanwhile are read too.
    pub(super) fn more(&mut self, until: Instant) -> io::Result<Came> {
        let [is_out, is_err] = self.ready(until)?;
        if is_err {
            let n = self.read_errors()?;
            if !is_out {
                return Ok(Came::Bytes(n));
            }
        }
        if !is_out {
            return Ok(Came::Nothing);
        }
        Ok(match self.lines.more()? {
            0 => Came::End,
            n => Came::Bytes(n),
        })
    }

    /// Reads what is left of the errors of a program that has ended.
    pub(super) fn last_errors(&mut self) -> io::Result<()> {
        let now = Instant::now();
        while self.errors.is_some() && self.ready(now)?[1] {
            self.read_errors()?;
        }
        Ok(())
    }

    fn read_errors(&mut self) -> io::Result<usize> {
        let Some(mut errors) = self.errors.take() else {
            return Ok(0);
        };
        let n = errors.more()?;
        while let Some(line) = errors.line() {
            self.keep(&line);
        }
        if n == 0 {
            // The last line may have no end.
            let rest = errors.rest();
            self.keep(&rest);
        } else {
            self.errors = Some(errors);
        }
        Ok(n)
    }

    /// Whether there is output, and whether there are errors; neither: `until` came first.
    fn ready(&self, until: Instant) -> io::Result<[bool; 2]> {
        let errors = self.errors.as_ref().map(|errors| errors.pipe.as_fd());
        ready([Some(self.lines.pipe.as_fd()), errors], until)
    }
}

/// Which of these can be read, or have ended; none: `until` came first.
pub(super) fn ready<const N: usize>(
    of: [Option<BorrowedFd<'_>>; N],
    until: Instant,
) -> io::Result<[bool; N]> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let fds = of.iter().flatten();
        let mut fds: Vec<_> = fds
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) => {
                let mut fds = fds.iter();
                let mut is_ready = || fds.next().is_some_and(|fd| !fd.revents().is_empty());
                return Ok(of.map(|fd| fd.is_some() && is_ready()));
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Reads what a pipe has. 0: nobody can write to it any more.
pub(super) fn read_more(pipe: &mut File, read: &mut Vec<u8>) -> io::Result<usize> {
    let before = read.len();
    read.resize(before + PIPE, 0);
    let n = pipe.read(&mut read[before..]);
    read.truncate(before + n.as_ref().map_or(0, |n| *n));
    n
}

/// Keeps the beginning of a line that is no answer.
pub(super) fn keep_last(line: &[u8], said: &mut String) {
    let text = String::from_utf8_lossy(&line[..line.len().min(LAST_LINE)]);
    if !text.trim().is_empty() {
        text.trim().clone_into(said);
    }
}

impl Stream {
    fn new(pipe: File) -> Self {
        Self {
            pipe,
            read: Vec::new(),
            at: 0,
        }
    }

    /// Reads once. 0: nobody can write to it any more.
    fn more(&mut self) -> io::Result<usize> {
        self.read.drain(..std::mem::take(&mut self.at));
        read_more(&mut self.pipe, &mut self.read)
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let rest = &self.read[self.at..];
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
            // A line this long acknowledges nothing.
            if rest.len() > LONGEST_LINE {
                self.at = self.read.len();
            }
            return None;
        };
        let line = rest[..length].to_vec();
        self.at += length + 1;
        Some(line)
    }

    /// What has no end yet.
    fn rest(&mut self) -> Vec<u8> {
        self.read.split_off(std::mem::take(&mut self.at))
    }
}
