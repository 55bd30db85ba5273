//! The probe: a process of the agent whose three streams are forwarded to the host.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    agent::protocol::{self, Channel, PIECE},
    child,
};

/// The connection to the host.
pub(crate) type Port = Arc<Mutex<File>>;

pub(crate) struct Probe {
    child: Arc<Mutex<Child>>,
    stdin: Option<ChildStdin>,
    watch: Option<JoinHandle<()>>,
}

impl Probe {
    /// Starts `PROGRAM probe`.
    pub(crate) fn start(port: &Port, program: &mut Command) -> io::Result<Self> {
        let mut child = program
            .arg("probe")
            .env_clear()
            .env("PATH", child::PROGRAM_PATH)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (stdin, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        // Ends the process where a thread cannot be started.
        let mut probe = Self {
            child: child.clone(),
            stdin,
            watch: None,
        };
        let output = output.map(|o| pump(port, Channel::Probe, o)).transpose()?;
        let errors = errors.map(|e| pump(port, Channel::Errors, e)).transpose()?;
        let (watched, port) = (child, port.clone());
        let watch = thread::Builder::new().spawn(move || {
            for pump in [output, errors].into_iter().flatten() {
                let _ = pump.join();
            }
            let how = end_of(&watched);
            let mut port = port.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = protocol::send(&mut *port, Channel::Ended, how.as_bytes());
        })?;
        probe.watch = Some(watch);
        Ok(probe)
    }

    /// Writes to its input. Data that it no longer reads is dropped.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            self.stdin = None;
        } else if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It may have ended already.
        let _ = self
            .child
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .kill();
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
    }
}

/// Forwards the probe's output to the host until it ends.
fn pump(
    port: &Port,
    channel: Channel,
    mut from: impl Read + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let port = port.clone();
    thread::Builder::new().spawn(move || {
        let mut piece = vec![0; PIECE];
        loop {
            let got = from.read(&mut piece).unwrap_or(0);
            if got == 0 && channel == Channel::Errors {
                return;
            }
            let mut port = port.lock().unwrap_or_else(PoisonError::into_inner);
            if protocol::send(&mut *port, channel, &piece[..got]).is_err() || got == 0 {
                return;
            }
        }
    })
}

/// Waits for its end without holding the lock for long, so that it can be killed meanwhile.
fn end_of(child: &Mutex<Child>) -> String {
    loop {
        let mut held = child.lock().unwrap_or_else(PoisonError::into_inner);
        match held.try_wait() {
            Ok(Some(status)) if status.core_dumped() => return format!("{status}"),
            Ok(Some(status)) => return child::ending(status),
            Ok(None) => {}
            Err(e) => return format!("cannot wait for it: {e}"),
        }
        drop(held);
        thread::sleep(Duration::from_millis(1));
    }
}
