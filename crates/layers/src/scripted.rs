//! The scripted probe: a thread that speaks the protocol, in place of a process. For tests.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use layermark_model::{
    Pass, SelfTest, Trial, Turn,
    protocol::{FromProbe, Job, MAX_LINE, ToProbe, TurnRequest, VERSION},
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{Control, Wire};

/// What a scripted probe does when it is asked for something. What a script leaves out is answered as a
/// probe of work with one end answers it.
pub trait Script {
    /// Its first message.
    fn hello(&self) -> FromProbe {
        FromProbe::Hello {
            protocol: VERSION,
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            self_test: SelfTest::default(),
        }
    }

    /// Prepares a job.
    ///
    /// # Errors
    ///
    /// If the lab has closed its end.
    fn prepare(&mut self, job: &Job, lab: &mut Lab<'_>) -> io::Result<()> {
        lab.say(&FromProbe::Ready { id: job.id })
    }

    /// Serves the near end of a job.
    ///
    /// # Errors
    ///
    /// If it serves none, or the lab has closed its end.
    fn serve(&mut self, job: Box<Job>, _: &mut Lab<'_>) -> io::Result<()> {
        Err(not_ready("serve", job.id))
    }

    /// Takes a turn, and adds it to the trial.
    ///
    /// # Errors
    ///
    /// If the lab has closed its end.
    fn turn(
        &mut self,
        job: &Job,
        trial: &mut Trial,
        ask: TurnRequest,
        lab: &mut Lab<'_>,
    ) -> io::Result<Next>;

    /// Work between two turns.
    ///
    /// # Errors
    ///
    /// If there is none, or the lab has closed its end.
    fn between(&mut self, id: u64, _: &mut Lab<'_>) -> io::Result<()> {
        Err(not_ready("between", id))
    }

    /// Flushes the files of a job, or ends serving it: then it `is_far`.
    ///
    /// # Errors
    ///
    /// If there is no such job, or the lab has closed its end.
    fn settle(&mut self, id: u64, is_far: bool, lab: &mut Lab<'_>) -> io::Result<()> {
        if is_far {
            return Err(not_ready("settle", id));
        }
        lab.say(&FromProbe::Settled { id })
    }

    /// The trial is over.
    fn end(&mut self) {}
}

/// What follows a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The next message.
    Message,
    /// Nothing, until the lab closes its end.
    Silence,
    /// The probe ends, in these words.
    End(&'static str),
}

/// The lab, as a scripted probe speaks to it.
pub struct Lab<'a>(&'a mut dyn Write);

impl Lab<'_> {
    /// Writes a message as one line.
    ///
    /// # Errors
    ///
    /// If the lab has closed its end.
    pub fn say(&mut self, message: &FromProbe) -> io::Result<()> {
        self.write(&serde_json::to_string(message)?)
    }

    /// Writes a line that need not be a message.
    ///
    /// # Errors
    ///
    /// If the lab has closed its end.
    pub fn write(&mut self, line: &str) -> io::Result<()> {
        self.0.write_all(format!("{line}\n").as_bytes())?;
        self.0.flush()
    }
}

/// Speaks the protocol until its input ends. Returns how the probe ended, in words.
pub fn serve(script: &mut dyn Script, input: impl Read, mut output: impl Write) -> String {
    match speak(script, BufReader::new(input), &mut Lab(&mut output)) {
        Ok(how) => how.into(),
        Err(e) => format!("exit code 1 ({e})"),
    }
}

fn speak(
    script: &mut dyn Script,
    mut input: impl BufRead,
    lab: &mut Lab<'_>,
) -> io::Result<&'static str> {
    lab.say(&script.hello())?;
    let mut job: Option<(Box<Job>, Trial)> = None;
    while let Some(line) = read_line(&mut input)? {
        match serde_json::from_str(&line).map_err(io::Error::other)? {
            ToProbe::Job(new) => {
                script.prepare(&new, lab)?;
                job = Some((new, Trial::default()));
            }
            ToProbe::Serve(job) => script.serve(job, lab)?,
            ToProbe::Quit => {
                lab.say(&FromProbe::Done)?;
                return Ok("exit code 0");
            }
            ToProbe::Turn { id, ask } => {
                let Some((job, trial)) = job.as_mut().filter(|(j, _)| j.id == id) else {
                    return Err(not_ready("turn", id));
                };
                match script.turn(job, trial, ask, lab)? {
                    Next::Message => {}
                    Next::Silence => drop(io::copy(&mut input, &mut io::sink())?),
                    Next::End(how) => return Ok(how),
                }
            }
            ToProbe::Between { id, .. } => script.between(id, lab)?,
            ToProbe::Settle { id } => {
                let is_far = job.as_ref().is_none_or(|(j, _)| j.id != id);
                script.settle(id, is_far, lab)?;
            }
            ToProbe::End { id } => {
                let Some((_, trial)) = job.take().filter(|(j, _)| j.id == id) else {
                    return Err(not_ready("end", id));
                };
                script.end();
                let trial = Box::new(trial);
                lab.say(&FromProbe::Trial { id, trial })?;
            }
            ToProbe::Write { id } => return Err(not_ready("write", id)),
            ToProbe::Witness(job) | ToProbe::Look(job) => {
                return Err(not_ready("witness", job.id));
            }
            ToProbe::Program { id, .. } | ToProbe::Sequence { id, .. } => {
                return Err(not_ready("program", id));
            }
        }
    }
    Ok("exit code 0")
}

fn not_ready(what: &str, id: u64) -> io::Error {
    io::Error::other(format!("{what} for job {id}, which is not ready"))
}

fn read_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    let got = input.by_ref().take(MAX_LINE as u64).read_line(&mut line)?;
    Ok((got > 0).then_some(line))
}

/// Adds a turn to a trial of one pass.
pub fn count(trial: &mut Trial, turn: Turn) {
    if trial.passes.is_empty() {
        trial.passes.push(Pass::default());
    }
    let sum = &mut trial.passes[0];
    sum.elapsed_ns += turn.elapsed_ns;
    sum.ops += turn.ops;
    sum.bytes += turn.bytes;
}

/// A standard normal deviate that belongs to a seed and a number: the sum of twelve uniform ones, less six.
pub fn normal(seed: u64, number: u64) -> f64 {
    let sum: f64 = (0..12u64)
        .map(|n| {
            let bytes = [number.to_le_bytes(), n.to_le_bytes()].concat();
            (xxh3_64_with_seed(&bytes, seed) >> 11) as f64 / (1u64 << 53) as f64
        })
        .sum();
    sum - 6.0
}

/// Starts the thread. `last_words` are the last lines that the probe printed. Shutting down the
/// returned streams ends the connection from inside.
///
/// # Errors
///
/// If there is no thread or no socket left.
pub fn connect(
    last_words: &[&str],
    mut script: impl Script + Send + 'static,
) -> io::Result<(Wire, [UnixStream; 2])> {
    let (to_probe, input) = UnixStream::pair()?;
    let (output, from_probe) = UnixStream::pair()?;
    let ends = [input.try_clone()?, output.try_clone()?];
    let inside = [input.try_clone()?, output.try_clone()?];
    let thread = thread::Builder::new()
        .name("scripted probe".into())
        .spawn(move || serve(&mut script, input, output))?;
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
