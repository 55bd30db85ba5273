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
use rustix::fs::statfs;

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
    let tick = TICK.min(silence / 4);
    let body = move || {
        let (mut quiet, mut used) = (Duration::ZERO, None);
        // Counted in ticks and not by the clock, because the server also stands still when the
        // whole machine does. Once a server is known not to answer, the wait is shorter.
        while quiet < patience(silence) {
            thread::sleep(tick);
            let now = used_ns();
            let waits = !asked().is_empty() && used == now && is_in_a_file_system();
            quiet = if waits { quiet + tick } else { Duration::ZERO };
            used = now;
        }
        let path = asked().last().cloned().unwrap_or_default();
        give_up();
        lost(&path, quiet);
    };
    // If no thread can be started, calls are not watched.
    let _ = thread::Builder::new()
        .name("main's watch".into())
        .spawn(body);
}

/// CPU time of the main thread, ns.
fn used_ns() -> Option<u64> {
    Schedstat::of(&main_thread()).map(|s| s.run_ns)
}

/// Directory of the main thread in `/proc`.
fn main_thread() -> PathBuf {
    format!("/proc/self/task/{}", std::process::id()).into()
}

/// Whether the main thread is in a system call outside [`WAITS`], or waits for another thread
/// without a limit: then its call runs in that thread (see [`crate::held`]).
fn is_in_a_file_system() -> bool {
    match process::in_call(&main_thread()) {
        InCall::Runs => false,
        // The fourth argument points to the limit.
        InCall::Waits(libc::SYS_futex, arguments) => arguments.get(3) == Some(&0),
        InCall::Waits(call, _) => !WAITS.contains(&call),
        InCall::Unknown => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_others_are_told_by_their_type() {
        assert!(is_served("nfs4") && is_served("fuse.sshfs") && is_served("virtiofs"));
        assert!(!is_served("ext4") && !is_served("overlay") && !is_served(""));
        assert!(!has_server(Path::new("/proc")));
    }
}
