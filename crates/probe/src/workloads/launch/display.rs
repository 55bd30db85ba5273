//! A private X server without a screen, for programs with windows.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use super::sys;
use crate::ProbeError;

/// Xvfb; ended when dropped.
#[derive(Debug)]
pub struct Display {
    server: Child,
    name: String,
}

impl Display {
    /// Starts a server with a screen of `size`, such as `1280x1024`, and waits until it is there.
    /// It takes the first free display number itself.
    pub fn start(size: &str) -> Result<Self, ProbeError> {
        let lacking = |why: String| {
            ProbeError::new(format!("a private X server (Xvfb) is needed: {why}"))
                .hint("apt-get install xvfb xfonts-base")
        };
        let mut command = Command::new("Xvfb");
        sys::end_with_us(&mut command);
        let mut server = command
            .args([
                "-displayfd",
                "1",
                "-nolisten",
                "tcp",
                "-noreset",
                "-screen",
                "0",
            ])
            .arg(format!("{size}x24"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| lacking(e.to_string()))?;
        let mut number = String::new();
        if let Some(out) = server.stdout.take() {
            // Ends with the server when it cannot start.
            let _ = BufReader::new(out).read_line(&mut number);
        }
        let display = Self {
            server,
            name: format!(":{}", number.trim()),
        };
        if number.trim().parse::<u32>().is_err() {
            return Err(lacking("it ended at once".into()));
        }
        Ok(display)
    }

    /// `:7`
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    /// The directory of X sockets, which a program with a root of its own has to see.
    pub fn sockets() -> &'static Path {
        Path::new("/tmp/.X11-unix")
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        // SIGTERM lets it remove its socket and lock file.
        let pid = rustix::process::Pid::from_child(&self.server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.server.wait();
    }
}
