//! The process between probe and programs.
//!
//! Programs start other processes and orphan them. Orphans become children of the nearest ancestor
//! that has requested them: the guard. Only the guard knows the whole tree, counts its resources,
//! and ends it. It also does so after the probe was killed, which closes its socket. When the guard
//! itself is killed, its PID namespace ends the tree; without a namespace the probe does.

use std::{
    fs::OpenOptions,
    io::{self, BufRead, BufReader, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use layermark_model::{Defect, Stopped};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{apart, sys, tree::Tree};
use crate::{ProbeError, error::panicked, motion};

/// Programs that a guard starts.
///
/// The guard works on its copy of this; the probe keeps the other one until the guard has ended.
pub trait Guarded: Send {
    /// Result of the work.
    type Done: Serialize + DeserializeOwned;
    /// Time between SIGTERM and SIGKILL for the started processes.
    fn grace(&self) -> Duration;
    /// Work before the clock starts. The other end of `asker` is closed when no process waits for
    /// the result any more.
    fn prepare(&mut self, tree: &mut Tree, asker: BorrowedFd<'_>) -> Result<(), ProbeError>;
    /// The measured work, which may be repeated. All started processes are stopped afterwards in any
    /// case.
    fn work(&mut self, tree: &mut Tree, asker: BorrowedFd<'_>) -> Result<Self::Done, ProbeError>;
    /// What follows the work, after everything was stopped on request. Returns texts for the probe that say
    /// what the work has left.
    fn conclude(&mut self, _: &mut Tree, _: BorrowedFd<'_>) -> Result<Vec<String>, ProbeError> {
        Ok(Vec::new())
    }
    /// Prepares the work again.
    fn renew(&mut self, _: &mut Tree, _: BorrowedFd<'_>) -> Result<(), ProbeError> {
        Ok(())
    }
    /// Closes what only the guard uses. Called in the process that waits for the guard.
    fn release(&mut self) {}
    /// Removes its files outside the layer. Called in the guard, and in the probe in case the guard
    /// was killed.
    fn tidy(&mut self) {}
    /// Masks secrets in a text before it is shown.
    fn masked(&self, text: String) -> String {
        text
    }
}

/// From guard to probe, one JSON object per line.
#[derive(Debug, Serialize, Deserialize)]
enum Says<D> {
    Ready,
    Done(Box<D>),
    Ended(Concluded),
    Failed {
        message: String,
        hint: Option<String>,
        errno: Option<i32>,
        defect: Option<Defect>,
    },
}

/// How the programs ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct Concluded {
    /// How those were stopped that had not ended.
    pub stopped: Stopped,
    /// Result of [`Guarded::conclude`].
    pub outcome: Vec<String>,
}

const GO: u8 = b'g';
const CONCLUDE: u8 = b'c';
const RENEW: u8 = b'r';
const STOP: u8 = b's';

/// A guard that is ready to work. When dropped, it ends with all processes it started.
pub struct Guard<G: Guarded> {
    /// Process id of the guard, or of the first process of its namespace.
    pid: i32,
    socket: BufReader<UnixStream>,
    /// Whether the kernel ends all its processes when it ends.
    apart: bool,
    programs: G,
}

impl<G: Guarded> Guard<G> {
    /// Starts the guard, which prepares the work.
    pub fn start(mut programs: G) -> Result<Self, ProbeError> {
        let fail = |e: io::Error| ProbeError::new(format!("cannot start the launcher: {e}"));
        let (ours, its) = UnixStream::pair().map_err(fail)?;
        let apart = apart::possible();
        if !apart {
            // Adopts the processes of a guard that is killed.
            sys::adopt_orphans().map_err(fail)?;
        }
        let mut ours = Some(ours);
        let pid = sys::spawn(apart, &mut || {
            // The copy of this end: when the probe closes its own, the connection ends.
            ours = None;
            live(&mut programs, &its, apart);
        })
        .map_err(fail)?;
        drop(its);
        let mut guard = Self {
            pid,
            socket: BufReader::new(ours.ok_or_else(lost)?),
            apart,
            programs,
        };
        match guard.hear()? {
            Says::Ready => Ok(guard),
            _ => Err(lost()),
        }
    }

    /// Process id of the guard, or of the first process of its namespace. All started processes are
    /// its descendants.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Makes it work. Calls `beat` at the interval `every` while it waits.
    pub fn work(
        &mut self,
        every: Duration,
        beat: &mut dyn FnMut(),
    ) -> Result<Box<G::Done>, ProbeError> {
        self.tell(GO)?;
        self.beating(every, beat)?;
        match self.hear()? {
            Says::Done(done) => Ok(done),
            _ => Err(lost()),
        }
    }

    /// Waits until there is something to read.
    fn beating(&mut self, every: Duration, beat: &mut dyn FnMut()) -> Result<(), ProbeError> {
        let socket = self.socket.get_ref();
        socket.set_read_timeout(Some(every)).map_err(|_| lost())?;
        let mut used = 0;
        while let Err(e) = self.socket.fill_buf() {
            match e.kind() {
                // Starting a program from a dead server never returns.
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    if motion::goes_on(self.pid.unsigned_abs(), &mut used) {
                        beat();
                    }
                }
                io::ErrorKind::Interrupted => {}
                _ => return Err(lost()),
            }
        }
        self.socket
            .get_ref()
            .set_read_timeout(None)
            .map_err(|_| lost())
    }

    /// Runs [`Guarded::renew`].
    pub fn renew(&mut self) -> Result<(), ProbeError> {
        self.tell(RENEW)?;
        match self.hear()? {
            Says::Ready => Ok(()),
            _ => Err(lost()),
        }
    }

    /// Stops the programs and runs [`Guarded::conclude`]. Further work may follow.
    pub fn conclude(&mut self) -> Result<Concluded, ProbeError> {
        self.concluded(CONCLUDE)
    }

    /// Like [`Self::conclude`], and ends the guard.
    pub fn stop(&mut self) -> Result<Concluded, ProbeError> {
        self.concluded(STOP)
    }

    fn concluded(&mut self, word: u8) -> Result<Concluded, ProbeError> {
        self.tell(word)?;
        match self.hear()? {
            Says::Ended(concluded) => Ok(concluded),
            _ => Err(lost()),
        }
    }

    fn tell(&mut self, word: u8) -> Result<(), ProbeError> {
        self.socket.get_mut().write_all(&[word]).map_err(|_| lost())
    }

    fn hear(&mut self) -> Result<Says<G::Done>, ProbeError> {
        let mut line = String::new();
        self.socket.read_line(&mut line).map_err(|_| lost())?;
        match serde_json::from_str(&line) {
            Ok(Says::Failed {
                message,
                hint,
                errno,
                defect,
            }) => Err(ProbeError {
                message,
                hint,
                errno,
                defect,
            }),
            Ok(says) => Ok(says),
            Err(_) => Err(lost()),
        }
    }
}

fn lost() -> ProbeError {
    ProbeError::new("the launcher between probe and program was killed from outside")
}

impl<G: Guarded> Drop for Guard<G> {
    fn drop(&mut self) {
        let _ = self.socket.get_ref().shutdown(std::net::Shutdown::Both);
        sys::wait_for(self.pid);
        // After an orderly end this is already done.
        if !self.apart {
            Tree::default().stop(Duration::ZERO);
        }
        self.programs.tidy();
    }
}

/// Runs the new process: the guard, or process 1 of its namespace.
fn live<G: Guarded>(programs: &mut G, socket: &UnixStream, apart: bool) {
    let mut begin = || -> io::Result<Option<i32>> {
        // The lab must not mistake this end of the pipe for the probe's.
        let null = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        if !apart {
            return Ok(None);
        }
        apart::enter()?;
        sys::spawn(false, &mut || serve(programs, socket)).map(Some)
    };
    match begin() {
        Ok(Some(guard)) => {
            programs.release();
            apart::outlive(guard, socket, programs.grace());
        }
        Ok(None) => serve(programs, socket),
        Err(e) => {
            let message = format!("cannot start the launcher: {e}");
            // The probe may have ended.
            let _ = say::<G>(
                socket,
                &Says::Failed {
                    message,
                    hint: None,
                    errno: None,
                    defect: None,
                },
            );
        }
    }
}

/// The main loop of the guard.
fn serve<G: Guarded>(programs: &mut G, socket: &UnixStream) {
    let mut tree = Tree::default();
    let result = catch_unwind(AssertUnwindSafe(|| {
        sys::become_guard()
            .map_err(|e| ProbeError::new(format!("cannot become the launcher: {e}")))?;
        programs.prepare(&mut tree, socket.as_fd())?;
        say::<G>(socket, &Says::Ready)?;
        loop {
            let asked = hear(socket);
            match asked {
                Some(GO) => {
                    let done = programs.work(&mut tree, socket.as_fd())?;
                    say::<G>(socket, &Says::Done(Box::new(done)))?;
                }
                Some(RENEW) => {
                    programs.renew(&mut tree, socket.as_fd())?;
                    say::<G>(socket, &Says::Ready)?;
                }
                Some(CONCLUDE | STOP) => {
                    let stopped = tree.stop(programs.grace());
                    let outcome = programs.conclude(&mut tree, socket.as_fd())?;
                    say::<G>(socket, &Says::Ended(Concluded { stopped, outcome }))?;
                }
                _ => return Ok(()),
            }
            if asked == Some(STOP) {
                return Ok(());
            }
        }
    }))
    .unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
    tree.stop(programs.grace());
    programs.tidy();
    if let Err(ProbeError {
        message,
        hint,
        errno,
        defect,
    }) = result
    {
        let message = programs.masked(message);
        let hint = hint.map(|hint| programs.masked(hint));
        // The probe may have ended.
        let _ = say::<G>(
            socket,
            &Says::Failed {
                message,
                hint,
                errno,
                defect,
            },
        );
    }
}

fn say<G: Guarded>(mut socket: &UnixStream, says: &Says<G::Done>) -> Result<(), ProbeError> {
    let mut line = serde_json::to_vec(says).map_err(|e| ProbeError::new(e.to_string()))?;
    line.push(b'\n');
    socket.write_all(&line).map_err(|_| lost())
}

/// The next command byte; `None` at the end.
fn hear(mut socket: &UnixStream) -> Option<u8> {
    let mut word = [0];
    socket.read_exact(&mut word).ok().map(|()| word[0])
}
