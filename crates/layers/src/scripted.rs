//! The connection of a scripted probe: a thread that speaks the protocol, in place of a process. For tests.

use std::{
    io::{self, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use layermark_model::protocol::FromProbe;

use crate::{Control, Wire};

/// Starts the thread, which reads from the first stream and writes to the second. It returns how
/// the probe ended, in words; `last_words` are the last lines that it printed. Shutting down the
/// returned streams ends the connection from inside.
///
/// # Errors
///
/// If there is no thread or no socket left.
pub fn connect(
    last_words: &[&str],
    serve: impl FnOnce(UnixStream, UnixStream) -> String + Send + 'static,
) -> io::Result<(Wire, [UnixStream; 2])> {
    let (to_probe, input) = UnixStream::pair()?;
    let (output, from_probe) = UnixStream::pair()?;
    let ends = [input.try_clone()?, output.try_clone()?];
    let inside = [input.try_clone()?, output.try_clone()?];
    let thread = thread::Builder::new()
        .name("scripted probe".into())
        .spawn(move || serve(input, output))?;
    let wire = Wire {
        stdin: Box::new(to_probe),
        stdout: Box::new(from_probe),
        control: Box::new(ScriptedControl {
            thread: Some(thread),
            ends,
            killed: false,
            ended: None,
            last_words: last_words.iter().map(ToString::to_string).collect(),
        }),
    };
    Ok((wire, inside))
}

/// Writes a message as one line.
///
/// # Errors
///
/// If the lab has closed its end.
pub fn say(out: &mut impl Write, message: &FromProbe) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

struct ScriptedControl {
    thread: Option<JoinHandle<String>>,
    /// The probe's ends of the two sockets: shutting them down wakes it up.
    ends: [UnixStream; 2],
    killed: bool,
    ended: Option<String>,
    last_words: Vec<String>,
}

impl Control for ScriptedControl {
    fn pid(&self) -> Option<u32> {
        None
    }

    fn kill(&mut self) {
        self.killed |= self.ended.is_none();
        for end in &self.ends {
            // Fails only when the other side has closed it already.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    fn wait(&mut self, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        while let Some(thread) = &self.thread {
            if thread.is_finished() {
                let how = self.thread.take().map(JoinHandle::join);
                let how = how
                    .and_then(Result::ok)
                    .unwrap_or_else(|| "panicked".into());
                self.ended = Some(if self.killed {
                    "killed by signal 9".into()
                } else {
                    how
                });
            } else if Instant::now() >= until {
                return None;
            } else {
                thread::sleep(Duration::from_micros(200));
            }
        }
        self.ended.clone()
    }

    fn tail(&self) -> Vec<String> {
        self.last_words.clone()
    }
}

impl Drop for ScriptedControl {
    fn drop(&mut self) {
        self.kill();
    }
}
