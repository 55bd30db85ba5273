use std::{
    io::{Read, Write},
    time::Duration,
};

/// The way to a probe and back.
pub struct Wire {
    /// The probe's standard input.
    pub stdin: Box<dyn Write + Send>,
    /// The probe's standard output.
    pub stdout: Box<dyn Read + Send>,
    /// The probe itself.
    pub control: Box<dyn Control>,
}

/// Watches and ends a probe. Dropping it ends the probe.
pub trait Control: Send {
    /// Process on this host whose CPU time is the probe's, when there is one.
    fn pid(&self) -> Option<u32>;
    /// Ends it at once.
    fn kill(&mut self);
    /// Waits for its end; how it ended, or `None` when it is still there after `limit`.
    fn wait(&mut self, limit: Duration) -> Option<String>;
    /// The last lines of its standard error.
    fn tail(&self) -> Vec<String>;
}
