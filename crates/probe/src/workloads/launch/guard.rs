//! The process between probe and program.
//!
//! Programs start other processes and orphan them. Orphans become children of the nearest ancestor
//! that has asked for them: the guard. Only the guard knows the whole tree, counts its resources,
//! and ends it. It also does so when the probe was killed, which it sees by the end of its socket.
//! When the guard itself is killed, its PID namespace ends the tree; without a namespace the probe
//! does.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    os::{
        fd::AsFd,
        unix::{fs::DirBuilderExt, net::UnixStream},
    },
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    time::Duration,
};

use layermark_model::{CpuUse, Launch, Stopped, Warmth};
use serde::{Deserialize, Serialize};

use super::{
    apart,
    counting::Counting,
    display::Display,
    inside,
    params::LaunchCache,
    ready,
    start::{LaunchSite, Started},
    sys,
    tree::Tree,
};
use crate::{ProbeError, error::panicked, motion};

/// Number of times a warm point may repeat a launch that was not warm.
const AGAIN: u64 = 2;

/// From guard to probe, one JSON object per line.
#[derive(Debug, Serialize, Deserialize)]
enum Says {
    Ready,
    Launched {
        elapsed_ns: u64,
        cpu: CpuUse,
        launch: Box<Launch>,
    },
    Ended(Stopped),
    Failed {
        message: String,
        hint: Option<String>,
    },
}

const GO: u8 = b'g';
const STOP: u8 = b's';

/// A guard that is ready to launch. When dropped, it ends with all processes it started.
pub struct Guard {
    /// The guard, or the first process of its namespace.
    pid: i32,
    socket: BufReader<UnixStream>,
    /// Whether the kernel ends all processes it started when it ends.
    apart: bool,
    /// Where it makes a home outside the layer.
    outside: Option<PathBuf>,
    /// Held for its drop, after the guard's end.
    _counting: Counting,
}

impl Guard {
    /// Starts the guard, which prepares the launch: `prepare`, uncounted launches, X server.
    pub fn start(mut site: LaunchSite, warmups: u64) -> Result<Self, ProbeError> {
        let fail = |e: io::Error| ProbeError::new(format!("cannot start the launcher: {e}"));
        let (ours, its) = UnixStream::pair().map_err(fail)?;
        // Not what strace reads.
        let mut counting = if site.p.tracing {
            Counting::default()
        } else {
            Counting::make()
        };
        let outside = site.outside.then(|| site.home.clone());
        let apart = apart::possible();
        if !apart {
            // For what a killed guard leaves.
            sys::adopt_orphans().map_err(fail)?;
        }
        let mut ours = Some(ours);
        let pid = sys::spawn(apart, &mut || {
            // Its copy: when the probe closes its end, the conversation is over.
            ours = None;
            live(&mut site, warmups, &its, &mut counting, apart);
        })
        .map_err(fail)?;
        drop(its);
        let mut guard = Self {
            pid,
            socket: BufReader::new(ours.ok_or_else(lost)?),
            apart,
            outside,
            _counting: counting,
        };
        match guard.hear()? {
            Says::Ready => Ok(guard),
            _ => Err(lost()),
        }
    }

    /// Launches. Calls `beat` each `every` while it waits.
    pub fn launch(
        &mut self,
        every: Duration,
        beat: &mut dyn FnMut(),
    ) -> Result<(u64, CpuUse, Box<Launch>), ProbeError> {
        self.tell(GO)?;
        self.beating(every, beat)?;
        match self.hear()? {
            Says::Launched {
                elapsed_ns,
                cpu,
                launch,
            } => Ok((elapsed_ns, cpu, launch)),
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

    /// Stops the program and concludes.
    pub fn stop(&mut self) -> Result<Stopped, ProbeError> {
        self.tell(STOP)?;
        match self.hear()? {
            Says::Ended(stopped) => Ok(stopped),
            _ => Err(lost()),
        }
    }

    fn tell(&mut self, word: u8) -> Result<(), ProbeError> {
        self.socket.get_mut().write_all(&[word]).map_err(|_| lost())
    }

    fn hear(&mut self) -> Result<Says, ProbeError> {
        let mut line = String::new();
        self.socket.read_line(&mut line).map_err(|_| lost())?;
        match serde_json::from_str(&line) {
            Ok(Says::Failed { message, hint }) => Err(ProbeError {
                message,
                hint,
                errno: None,
            }),
            Ok(says) => Ok(says),
            Err(_) => Err(lost()),
        }
    }
}

fn lost() -> ProbeError {
    ProbeError::new("the launcher between probe and program was killed from outside")
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.socket.get_ref().shutdown(std::net::Shutdown::Both);
        sys::wait_for(self.pid);
        // What an orderly end has done already.
        if !self.apart {
            Tree::default().stop(Duration::ZERO);
        }
        if let Some(home) = &self.outside {
            let _ = fs::remove_dir_all(home);
        }
    }
}

/// Runs the new process: the guard, or process 1 of its namespace.
fn live(
    site: &mut LaunchSite,
    warmups: u64,
    socket: &UnixStream,
    counting: &mut Counting,
    apart: bool,
) {
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
        sys::spawn(false, &mut || serve(site, warmups, socket, counting)).map(Some)
    };
    match begin() {
        Ok(Some(guard)) => apart::outlive(guard, socket, site.p.grace()),
        Ok(None) => serve(site, warmups, socket, counting),
        Err(e) => {
            let message = format!("cannot start the launcher: {e}");
            // The probe may be gone.
            let _ = say(
                socket,
                &Says::Failed {
                    message,
                    hint: None,
                },
            );
        }
    }
}

/// The guard's whole life.
fn serve(site: &mut LaunchSite, warmups: u64, socket: &UnixStream, counting: &mut Counting) {
    let mut tree = Tree::default();
    let result = catch_unwind(AssertUnwindSafe(|| {
        prepare(site, counting, &mut tree)?;
        warm_up(site, warmups, &mut tree, socket)?;
        say(socket, &Says::Ready)?;
        if hear(socket) != Some(GO) {
            return Ok(());
        }
        let mut done = launch(site, &mut tree, counting, socket)?;
        site.mask(&mut done.launch);
        say(
            socket,
            &Says::Launched {
                elapsed_ns: done.elapsed_ns,
                cpu: done.cpu,
                launch: Box::new(done.launch),
            },
        )?;
        let asked = hear(socket) == Some(STOP);
        let stopped = tree.stop(site.p.grace());
        if asked {
            let conclude = site.p.conclude.clone();
            site.aside("conclude", &conclude, &mut tree, socket.as_fd())?;
            say(socket, &Says::Ended(stopped))?;
        }
        Ok(())
    }))
    .unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
    tree.stop(site.p.grace());
    // Here as well as in the probe: whichever is left removes what they created.
    *counting = Counting::default();
    site.display = None;
    if site.outside {
        let _ = fs::remove_dir_all(&site.home);
    }
    if let Err(ProbeError { message, hint, .. }) = result {
        let message = site.masked(message);
        let hint = hint.map(|hint| site.masked(hint));
        // The probe may be gone.
        let _ = say(socket, &Says::Failed { message, hint });
    }
}

fn prepare(
    site: &mut LaunchSite,
    counting: &mut Counting,
    tree: &mut Tree,
) -> Result<(), ProbeError> {
    sys::become_guard().map_err(|e| ProbeError::new(format!("cannot become the launcher: {e}")))?;
    if site.outside {
        let made = DirBuilder::new().mode(0o700).create(&site.home);
        made.map_err(|e| ProbeError::io("make", &site.home, &e))?;
    }
    if site.p.listing {
        inside::room(site.user)?;
    }
    if ready::parse(&site.p.ready)?.0.needs_display() {
        let display = Display::start(&site.p.screen, &site.home, site.user)?;
        tree.spared.insert(display.pid());
        site.display = Some(display);
    }
    // Last, since the package must see the directory that the X server has created.
    if let Some(root) = &site.root {
        inside::mounts(root, site.user, site.display.is_some())?;
    }
    counting.enter();
    Ok(())
}

/// Uncounted launches, and what precedes the one that counts.
fn warm_up(
    site: &LaunchSite,
    warmups: u64,
    tree: &mut Tree,
    socket: &UnixStream,
) -> Result<(), ProbeError> {
    let text = site.p.prepare.clone();
    for _ in 0..warmups {
        site.aside("prepare", &text, tree, socket.as_fd())?;
        let made = site.launch(tree, &mut Counting::default(), socket.as_fd());
        tree.stop(site.p.grace());
        made?;
    }
    site.aside("prepare", &text, tree, socket.as_fd())
}

/// The launch that counts. Repeated when it is not as warm as requested.
fn launch(
    site: &LaunchSite,
    tree: &mut Tree,
    counting: &mut Counting,
    socket: &UnixStream,
) -> Result<Started, ProbeError> {
    let mut remade = 0;
    loop {
        let mut done = site.launch(tree, counting, socket.as_fd())?;
        let cold = done.launch.warmth() == Warmth::Cold;
        if site.p.cache == LaunchCache::Warm && cold && remade < AGAIN && !site.p.tracing {
            tree.stop(site.p.grace());
            site.aside("conclude", &site.p.conclude, tree, socket.as_fd())?;
            site.aside("prepare", &site.p.prepare, tree, socket.as_fd())?;
            remade += 1;
            continue;
        }
        done.launch.remade = remade;
        return Ok(done);
    }
}

fn say(mut socket: &UnixStream, says: &Says) -> Result<(), ProbeError> {
    let mut line = serde_json::to_vec(says).map_err(|e| ProbeError::new(e.to_string()))?;
    line.push(b'\n');
    socket.write_all(&line).map_err(|_| lost())
}

/// The next word; `None` at the end.
fn hear(mut socket: &UnixStream) -> Option<u8> {
    let mut word = [0];
    socket.read_exact(&mut word).ok().map(|()| word[0])
}
