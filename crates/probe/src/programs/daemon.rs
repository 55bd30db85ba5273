//! A server installed on this machine that serves during a trial. A guard ends it with the probe.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::{fd::BorrowedFd, unix::fs::chown},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    mount::mount_bind,
};

use super::{
    PATH,
    guard::{Guard, Guarded},
    last_output::{LastOutput, capture_stderr},
    spawn::{Program, Started},
    sys,
    tree::Tree,
    user::User,
};
use crate::{ProbeError, clock::monotonic_ns, motion};

/// How long a server may take to answer.
const UP: Duration = Duration::from_secs(20);
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// Interval of checks whether it answers.
const LOOK: Duration = Duration::from_millis(2);
/// Path under which another user sees the directory, in a separate mount namespace, because only
/// root may enter those above it.
pub const SEEN: &str = "/tmp";

/// The configuration of a server.
pub struct Daemon {
    /// Its name in errors, such as `http: nginx`.
    pub name: &'static str,
    /// Its command lines, each for one process.
    pub commands: Vec<Vec<String>>,
    /// Its directory. Another user sees it at [`SEEN`].
    pub dir: PathBuf,
    /// Where it listens.
    pub at: SocketAddr,
    /// The user who runs it, if not this one.
    pub user: Option<User>,
    /// Whether it answers. An error is what it answers instead.
    pub answers: Box<dyn Fn(SocketAddr) -> Result<bool, String> + Send>,
    /// Advice for a server that does not start.
    pub hint: String,
}

/// A server, for its guard.
pub struct Served {
    daemon: Daemon,
    running: Vec<(Started, LastOutput)>,
}

impl Daemon {
    /// Starts it, and waits until it answers. The error is `EADDRINUSE` if another program has the
    /// port.
    pub fn start(self) -> Result<Guard<Served>, ProbeError> {
        let running = Vec::new();
        Guard::start(Served {
            daemon: self,
            running,
        })
    }

    /// Gives a file or directory to the user who runs it.
    pub fn give(user: Option<User>, path: &Path) -> io::Result<()> {
        user.map_or(Ok(()), |User { uid, gid }| {
            chown(path, Some(uid), Some(gid))
        })
    }

    /// Starts a process in this directory.
    fn run(&self, argv: &[String], dir: &Path) -> Result<(Started, LastOutput), ProbeError> {
        let start = || -> io::Result<_> {
            let mut program = Program::new(argv, None, dir.to_owned())?;
            program.env("PATH", PATH).user(self.user);
            let said = capture_stderr(&mut program)?;
            // vsftpd takes it for the client's connection, and prints errors there.
            program.stdin(said.writer()?);
            let process = program.prepared()?.start(monotonic_ns, &mut 0)?;
            Ok((process, said))
        };
        start().map_err(|e| ProbeError::io("start", Path::new(&argv[0]), &e))
    }
}

impl Guard<Served> {
    /// CPU time of all processes of the server, ns.
    pub fn cpu_ns(&self) -> u64 {
        motion::descendants_cpu_ns(self.pid())
    }

    /// Ends it. Fails if it had already ended.
    pub fn end(mut self) -> Result<(), ProbeError> {
        let ended = self.work(GRACE, &mut || {})?;
        self.stop()?;
        (*ended).map_or(Ok(()), |how| Err(ProbeError::new(how)))
    }
}

impl Served {
    /// Waits for the end of the asker (0) or of a process (its position, from 1); `None` if there is
    /// none in this time.
    fn ended(&self, asker: BorrowedFd<'_>, limit: Duration) -> Option<usize> {
        let mut fds = vec![PollFd::from_borrowed_fd(asker, PollFlags::RDHUP)];
        let processes = self.running.iter();
        fds.extend(processes.map(|(p, _)| PollFd::new(&p.pidfd, PollFlags::IN)));
        // Interrupted: polled again.
        let _ = poll(&mut fds, Timespec::try_from(limit).ok().as_ref());
        fds.iter().position(|fd| !fd.revents().is_empty())
    }

    /// The output of a process.
    fn said(&self, position: usize) -> String {
        let said = self.running.get(position - 1).map(|(_, said)| said.text());
        said.unwrap_or_default()
    }

    fn failed(&self, what: &str, position: usize) -> ProbeError {
        let Daemon { name, at, hint, .. } = &self.daemon;
        let said = self.said(position);
        ProbeError::new(format!("{name} for {at} {what}{said}")).hint(hint)
    }

    fn ended_early(&self, position: usize) -> ProbeError {
        // If another program has the port, binding shows it.
        let taken = TcpListener::bind(self.daemon.at).err();
        ProbeError {
            errno: taken.and_then(|e| e.raw_os_error()),
            ..self.failed("ended before it answered", position)
        }
    }
}

impl Guarded for Served {
    /// How it ended, if it ended by itself.
    type Done = Option<String>;

    fn grace(&self) -> Duration {
        GRACE
    }

    fn prepare(&mut self, _: &mut Tree, asker: BorrowedFd<'_>) -> Result<(), ProbeError> {
        let mut dir = self.daemon.dir.clone();
        if self.daemon.user.is_some() {
            let shown = sys::own_mounts().and_then(|()| Ok(mount_bind(&dir, SEEN)?));
            shown.map_err(|e| ProbeError::io("show to another user", &dir, &e))?;
            dir = SEEN.into();
        }
        for argv in &self.daemon.commands {
            self.running.push(self.daemon.run(argv, &dir)?);
        }
        let until = Instant::now() + UP;
        loop {
            match self.ended(asker, LOOK) {
                Some(0) => return Err(ProbeError::new("cancelled")),
                Some(n) => return Err(self.ended_early(n)),
                None => {}
            }
            let wrong = match (self.daemon.answers)(self.daemon.at) {
                Ok(true) => return Ok(()),
                Ok(false) if Instant::now() < until => continue,
                Ok(false) => format!("does not answer after {} s", UP.as_secs()),
                Err(what) => format!("answered {what:?}"),
            };
            return Err(self.failed(&wrong, 1));
        }
    }

    /// It serves all the time. This only checks whether it still runs.
    fn work(&mut self, _: &mut Tree, asker: BorrowedFd<'_>) -> Result<Option<String>, ProbeError> {
        let gone = self.ended(asker, Duration::ZERO).filter(|n| *n > 0);
        Ok(gone.map(|n| format!("{} ended by itself{}", self.daemon.name, self.said(n))))
    }
}
