//! File systems that another machine or process serves. A call there may never return, and a thread
//! in such a call keeps its process from ending: `fuse_dev.c` waits for a request that its server
//! has read, and no signal ends that wait. So the process that the user starts makes no such call:
//! see [`crate::keeper`].

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use layermark_sys::{
    process::{self, InCall, Schedstat},
    served,
};
use rustix::{fs::statfs, process::Pid};

use crate::{known_paths, mounts};

/// Interval of checks of the main thread.
const TICK: Duration = Duration::from_millis(500);

/// System calls by which the main thread waits for another thread or process, and not for a file system.
const WAITS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
];

/// Paths of the main thread's current calls. The last one is named first.
static ASKED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static GIVEN_UP: AtomicBool = AtomicBool::new(false);
/// The directory of the run, if another machine or process serves it.
static BASE: OnceLock<PathBuf> = OnceLock::new();
static LOST: AtomicBool = AtomicBool::new(false);
/// Directories for which [`lose`] was called, and the device numbers of their file systems.
static SILENT: Mutex<Vec<(PathBuf, Option<u64>)>> = Mutex::new(Vec::new());

fn asked() -> MutexGuard<'static, Vec<PathBuf>> {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether another machine or process serves file systems of this type.
pub fn is_served(fs: &str) -> bool {
    served::is_named(fs)
}

/// Whether another machine or process serves `path`. Makes a call there.
pub fn has_server(path: &Path) -> bool {
    mounts::holding(path).is_ok_and(|mount| is_served(&mount.fs))
}

/// Makes a call about `path`. If it does not return, [`watch_main`] gives the process up.
pub fn ask<T>(path: &Path, call: impl FnOnce() -> T) -> T {
    // Other threads can be abandoned without the process.
    if !is_main() {
        return call();
    }
    asked().push(path.to_owned());
    let outcome = call();
    asked().pop();
    outcome
}

/// Counts all later calls of the main thread as calls about `dir`, if another machine or process serves it.
pub fn work_in(dir: &Path) {
    if ask(dir, || has_server(dir)) {
        asked().push(dir.to_owned());
        let _ = BASE.set(dir.to_owned());
    }
}

/// Records that something in this process waits for a server that does not answer. From now on
/// nothing else waits long for it.
pub fn give_up() {
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// Records that a call in `dir`, which no process of ours serves, does not return. If `dir` is below the
/// directory of the run, that is lost. [`is_lost`] might not find out: a server with several threads
/// still answers other calls. `device` is the number of its file system, if a server has it: all of that
/// is lost.
pub fn lose(dir: &Path, device: Option<u64>) {
    give_up();
    silent().push((dir.to_owned(), device));
    let dir = known_paths::named(dir);
    if BASE.get().is_some_and(|base| dir.starts_with(base)) {
        LOST.store(true, Ordering::Relaxed);
    }
}

/// Whether `dir` is known not to answer.
pub(crate) fn is_silent(dir: &Path) -> bool {
    silent().iter().any(|(known, _)| known == dir)
}

/// Whether the server of the file system with this device number is known not to answer.
pub fn has_lost(device: u64) -> bool {
    silent().iter().any(|(_, known)| *known == Some(device))
}

fn silent() -> MutexGuard<'static, Vec<(PathBuf, Option<u64>)>> {
    SILENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the file system at `dir` answers within `limit`, even with an error. A separate thread
/// makes the call, because it may wait for a dead server for ever. A directory that [`lose`]
/// has recorded is not asked again.
pub fn answers(dir: &Path, limit: Duration) -> bool {
    if is_silent(dir) {
        return false;
    }
    let (dir, (tell, told)) = (dir.to_owned(), mpsc::channel());
    let asked = thread::Builder::new()
        .name("answers".into())
        .spawn(move || {
            let _ = statfs(&dir);
            // The receiver is gone once the limit has passed.
            let _ = tell.send(());
        });
    let answers =
        asked.is_err() || told.recv_timeout(limit) != Err(mpsc::RecvTimeoutError::Timeout);
    if !answers {
        give_up();
    }
    answers
}

/// Whether the directory of the run does not answer, and with it everything on it. Checked only
/// after [`give_up`].
pub fn is_lost() -> bool {
    let base = BASE.get().filter(|_| is_given_up());
    let Some(base) = base else { return false };
    if !LOST.load(Ordering::Relaxed) {
        let lost = !answers(base, Duration::from_secs(1));
        LOST.store(lost, Ordering::Relaxed);
    }
    LOST.load(Ordering::Relaxed)
}

/// Whether something in this process waits for a server that does not answer.
pub fn is_given_up() -> bool {
    GIVEN_UP.load(Ordering::Relaxed)
}

/// `usual`, or a few seconds if a server is known not to answer.
pub fn patience(usual: Duration) -> Duration {
    if LOST.load(Ordering::Relaxed) {
        usual.min(Duration::from_secs(1))
    } else if is_given_up() {
        usual.min(Duration::from_secs(2))
    } else {
        usual
    }
}

fn is_main() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// Starts a thread that calls `lost` when the main thread has waited in one [`ask`] for `silence`.
pub fn watch_main(silence: Duration, lost: impl FnOnce(&Path, Duration) + Send + 'static) {
    let mut wait = LongWait::of(rustix::process::getpid(), silence);
    let body = move || {
        // Once a server is known not to answer, the wait is shorter.
        while wait.quiet < patience(silence) {
            thread::sleep(wait.tick);
            wait.look(!asked().is_empty());
        }
        let path = asked().last().cloned().unwrap_or_default();
        give_up();
        lost(&path, wait.quiet);
    };
    // If no thread can be started, calls are not watched.
    let _ = thread::Builder::new()
        .name("main's watch".into())
        .spawn(body);
}

/// Watches the calling thread while it works on a file system whose server can be ended.
pub struct Watched {
    /// Dropped when the work is over.
    over: mpsc::Sender<()>,
    watch: Option<thread::JoinHandle<bool>>,
}

impl Watched {
    /// Starts a thread that calls `end` when the calling thread has waited in one call for `silence`. That has to end the
    /// call. While `waits_for_disk`, the wait does not count, for nine times as long: it may not be the server's fault. If no
    /// thread can be started, calls are not watched.
    pub(crate) fn new(
        silence: Duration,
        waits_for_disk: impl Fn() -> bool + Send + 'static,
        end: impl FnOnce() + Send + 'static,
    ) -> Self {
        let mut wait = LongWait::of(rustix::thread::gettid(), silence);
        let (over, is_over) = mpsc::channel();
        let body = move || {
            let mut left_out = Duration::ZERO;
            while wait.quiet < silence {
                match is_over.recv_timeout(wait.tick) {
                    // The kernel passes syncfs(2) on to no server in user space: it waits for a disk.
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        wait.look(!wait.is_in(libc::SYS_syncfs));
                    }
                    _ => return false,
                }
                if wait.quiet.is_zero() {
                    left_out = Duration::ZERO;
                } else if left_out < silence * 9 && waits_for_disk() {
                    left_out += wait.tick;
                    wait.quiet -= wait.tick;
                }
            }
            end();
            true
        };
        let watch = thread::Builder::new().name("server's watch".into());
        Self {
            over,
            watch: watch.spawn(body).ok(),
        }
    }

    /// Ends the watch. Returns whether a call had to be ended.
    pub fn had_to_end(self) -> bool {
        drop(self.over);
        // What it ends must not be something that is mounted later.
        self.watch.is_some_and(|watch| watch.join().unwrap_or(true))
    }
}

/// How long a thread has waited in one call of a file system, counted in ticks and not by the clock, because the server also
/// stands still when the whole machine does.
struct LongWait {
    /// Its directory in `/proc`.
    thread: PathBuf,
    tick: Duration,
    /// CPU time when it was last looked at, ns.
    used: Option<u64>,
    quiet: Duration,
}

impl LongWait {
    /// Of a thread of this process.
    fn of(thread: Pid, silence: Duration) -> Self {
        Self {
            thread: format!("/proc/self/task/{thread}").into(),
            tick: TICK.min(silence / 4),
            used: None,
            quiet: Duration::ZERO,
        }
    }

    /// Looks at the thread, a tick after the last time. `may_wait`: its calls are about a file system.
    fn look(&mut self, may_wait: bool) {
        let now = Schedstat::of(&self.thread).map(|s| s.run_ns);
        let waits = may_wait && self.used == now && self.is_in_a_file_system();
        self.quiet = if waits {
            self.quiet + self.tick
        } else {
            Duration::ZERO
        };
        self.used = now;
    }

    fn is_in(&self, call: libc::c_long) -> bool {
        matches!(process::in_call(&self.thread), InCall::Waits(now, _) if now == call)
    }

    /// Whether the thread is in a system call outside [`WAITS`], or waits for another thread without a limit: then its call
    /// runs in that thread (see [`crate::held`]).
    fn is_in_a_file_system(&self) -> bool {
        match process::in_call(&self.thread) {
            InCall::Runs => false,
            // The fourth argument points to the limit.
            InCall::Waits(libc::SYS_futex, arguments) => arguments.get(3) == Some(&0),
            InCall::Waits(call, _) => !WAITS.contains(&call),
            InCall::Unknown => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// It waited for ever in a call of the file system that it looked after.
    #[test]
    fn a_call_that_waits_too_long_is_ended_and_no_other() {
        let silence = Duration::from_millis(20);
        let (mut answer, server) = io::pipe().unwrap();
        let watched = Watched::new(silence, || false, move || drop(server));
        io::Read::read_to_end(&mut answer, &mut Vec::new()).unwrap();
        assert!(watched.had_to_end());
        let watched = Watched::new(
            Duration::from_mins(10),
            || false,
            || panic!("nothing waits"),
        );
        assert!(!watched.had_to_end());
    }

    /// A server was killed, and blamed, for a disk that did not answer it.
    #[test]
    fn a_server_that_waits_for_a_disk_is_ended_later() {
        let silence = Duration::from_millis(200);
        let (mut answer, server) = io::pipe().unwrap();
        let (mut looks, mut server) = (0, Some(server));
        let (look, looked) = mpsc::channel();
        let waits = move || {
            let _ = look.send(());
            true
        };
        let watched = Watched::new(silence, waits, || panic!("it waits for a disk"));
        thread::scope(|scope| {
            // Three times as often as a wait that counts is looked at.
            scope.spawn(move || {
                while looks < 12 && looked.recv().is_ok() {
                    looks += 1;
                }
                drop(server.take());
            });
            io::Read::read_to_end(&mut answer, &mut Vec::new()).unwrap();
        });
        assert!(!watched.had_to_end());
        // What looks like a disk may be the server itself.
        let silence = Duration::from_millis(5);
        let (mut answer, server) = io::pipe().unwrap();
        let watched = Watched::new(silence, || true, move || drop(server));
        io::Read::read_to_end(&mut answer, &mut Vec::new()).unwrap();
        assert!(watched.had_to_end());
    }

    #[test]
    fn file_systems_of_others_are_told_by_their_type() {
        assert!(is_served("nfs4") && is_served("fuse.sshfs") && is_served("virtiofs"));
        assert!(!is_served("ext4") && !is_served("overlay") && !is_served(""));
        assert!(!has_server(Path::new("/proc")));
    }
}
