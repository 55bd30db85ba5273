use std::{
    io::{self, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    process::ChildStdout,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
};

/// The connection to a probe.
pub struct Wire {
    /// The probe's standard input.
    pub stdin: Box<dyn Write + Send>,
    /// The probe's standard output.
    pub stdout: Box<dyn Output>,
    /// The probe itself.
    pub control: Box<dyn Control>,
}

/// The output of a probe.
pub trait Output: Read + Send {
    /// Waits up to `limit`. Returns whether there is data to read, or the end of it.
    fn wait(&mut self, limit: Duration) -> io::Result<bool>;
}

impl Output for ChildStdout {
    fn wait(&mut self, limit: Duration) -> io::Result<bool> {
        readable(self, limit)
    }
}

impl Output for UnixStream {
    fn wait(&mut self, limit: Duration) -> io::Result<bool> {
        readable(self, limit)
    }
}

fn readable(fd: &impl AsFd, limit: Duration) -> io::Result<bool> {
    let limit = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    Ok(retry_on_intr(|| poll(&mut fds, Some(&limit)))? > 0)
}

/// Watches and ends a probe. Dropping it ends the probe.
pub trait Control: Send {
    /// Id of the process on this host whose CPU time is the probe's, if there is one.
    fn pid(&self) -> Option<u32>;
    /// Kills it.
    fn kill(&mut self);
    /// Waits for its end. Returns how it ended, or `None` if it still runs after `limit`.
    fn wait(&mut self, limit: Duration) -> Option<String>;
    /// The last lines of its standard error.
    fn tail(&self) -> Vec<String>;
}
