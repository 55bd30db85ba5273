//! Runs layermark in a child process, so that the process the user started can always end.
//!
//! A thread that waits for a FUSE server may keep its process from ending for ever, and with it
//! every process that waits for that one. The keeper makes no file system calls and passes signals
//! on. It ends with the run, or when the run can no longer end by itself.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io::{self, Read, Write},
    mem,
    os::{fd::AsFd, unix::net::UnixStream},
    process::ExitCode,
    ptr,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use layermark_sys::process::{self, Stat};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{
        Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal,
        setpgid, waitpid,
    },
};

use crate::{janitor, served};

/// Signals that are passed on.
const PASSED: [libc::c_int; 5] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGTSTP,
    libc::SIGCONT,
];
/// Interval at which the keeper checks the run. It also checks at each signal.
const TICK: Duration = Duration::from_millis(200);
/// How long a run may take to end after a request to end at once.
const LAST_WORD: Duration = Duration::from_secs(8);
/// How long a process may take to end after it is abandoned, so that it is left behind only if
/// necessary.
const LAST_BREATH: Duration = Duration::from_secs(1);
/// Exit code after Ctrl-C.
const STOPPED: u8 = 130;

/// The run's end of the socket to its keeper.
static LINE: OnceLock<UnixStream> = OnceLock::new();

/// Runs `run` in a child process, and returns its exit code. Must be called before the first thread
/// is started. If no child can be started, runs it in this process.
pub fn keep(run: impl FnOnce() -> ExitCode) -> ExitCode {
    let Ok((ours, its)) = UnixStream::pair() else {
        return run();
    };
    let keeper = getpid();
    let before = block();
    // SAFETY: the process has one thread, so the child may do what it likes.
    match unsafe { libc::fork() } {
        0 => {
            drop(ours);
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            // The terminal's Ctrl-C reaches only the keeper, which passes it on once.
            let _ = setpgid(None, None);
            // SAFETY: `before` is the mask that this thread had.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
            // It may have died before the call above: then no signal is sent.
            if getppid() != Some(keeper) {
                return ExitCode::FAILURE;
            }
            let _ = LINE.set(its);
            let code = run();
            let _ = io::stdout().flush();
            // Whatever blocks this process must not block the readers of its output.
            let_go_of_streams();
            code
        }
        pid => {
            drop(its);
            if let Some(child) = Pid::from_raw(pid).filter(|_| pid > 0) {
                return ExitCode::from(Keeper::of(child, ours).wait());
            }
            // SAFETY: as above.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
            run()
        }
    }
}

/// Lets the keeper end this process, whatever its threads wait for. Called after
/// [`crate::sandbox::enter`], since it starts a thread.
pub fn obey() {
    let Some(mut line) = LINE.get().and_then(|line| line.try_clone().ok()) else {
        return;
    };
    let listen = move || {
        let mut code = [0];
        let told = line.read(&mut code);
        leave(if told.is_ok_and(|n| n > 0) {
            code[0]
        } else {
            STOPPED
        });
    };
    // If no thread can be started, the keeper kills this process.
    let _ = thread::Builder::new().name("keeper's".into()).spawn(listen);
}

/// Abandons the run: makes the keeper end with `code`, and ends this process as far as possible.
pub fn abandon(code: u8) -> ! {
    if let Some(mut line) = LINE.get() {
        let _ = line.write_all(&[code]);
    }
    leave(code)
}

/// Ends this process and its child processes, except the janitor. A thread that waits for a file
/// system ends when that answers.
fn leave(code: u8) -> ! {
    let_go_of_streams();
    kill_below(std::process::id());
    // SAFETY: nothing of this process is needed any more.
    unsafe { libc::_exit(i32::from(code)) }
}

fn let_go_of_streams() {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Descendants that end by themselves after layermark, because they clean up.
static SPARED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Processes that are spared: until this is dropped, because another process may get the number then.
pub(crate) struct Spared(u32);

/// Spares a process that cleans up when layermark ends: one that tears down a place, or its agent.
pub(crate) fn spare(pid: u32) -> Spared {
    spared().push(pid);
    Spared(pid)
}

fn spared() -> MutexGuard<'static, Vec<u32>> {
    SPARED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Spared {
    fn drop(&mut self) {
        spared().retain(|pid| *pid != self.0);
    }
}

/// Kills all descendants of a process, except the janitor and those that are spared.
fn kill_below(pid: u32) {
    for child in process::children(pid) {
        if janitor::pid() == Some(child) || spared().contains(&child) {
            continue;
        }
        kill_below(child);
        if let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The signals for which [`Keeper::wait`] waits.
fn signals() -> libc::sigset_t {
    // SAFETY: sigemptyset makes it whole.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: `set` outlives the calls, and these are signals.
    unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in PASSED.into_iter().chain([libc::SIGCHLD]) {
            libc::sigaddset(&raw mut set, signal);
        }
    }
    set
}

/// Blocks these signals. Returns the previous mask.
fn block() -> libc::sigset_t {
    let set = signals();
    // SAFETY: the call below makes it whole.
    let mut before: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: both sets outlive the call.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
    before
}

/// The next of these signals. Waits up to [`TICK`] for it.
fn next_signal() -> Option<libc::c_int> {
    let set = signals();
    let limit = libc::timespec {
        tv_sec: 0,
        tv_nsec: libc::c_long::from(TICK.subsec_nanos()),
    };
    // SAFETY: `set` and `limit` outlive the call.
    let got = unsafe { libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const limit) };
    (got > 0).then_some(got)
}

struct Keeper {
    child: Pid,
    line: UnixStream,
    /// How many times the user has asked to end.
    asked: u32,
    /// When the run is abandoned, and the exit code for that.
    end: Option<(Instant, u8)>,
    /// When the run's first thread was found ended while others were not.
    half: Option<Instant>,
}

impl Keeper {
    fn of(child: Pid, line: UnixStream) -> Self {
        Self {
            child,
            line,
            asked: 0,
            end: None,
            half: None,
        }
    }

    /// Waits for the run's end. Returns its exit code.
    fn wait(mut self) -> u8 {
        loop {
            if let Some(signal) = next_signal() {
                self.pass_on(signal);
            }
            if let Some(code) = self.ended() {
                return code;
            }
            self.hear();
            if let Some((_, code)) = self.end.filter(|(at, _)| *at <= Instant::now()) {
                return self.give_up(code);
            }
        }
    }

    fn pass_on(&mut self, signal: libc::c_int) {
        match signal {
            libc::SIGTSTP => {
                let _ = kill_process(self.child, Signal::STOP);
                let _ = kill_process(getpid(), Signal::STOP);
            }
            libc::SIGCONT => drop(kill_process(self.child, Signal::CONT)),
            libc::SIGINT | libc::SIGTERM | libc::SIGHUP => {
                self.asked += 1;
                if self.asked == 2 {
                    self.end
                        .get_or_insert((Instant::now() + LAST_WORD, STOPPED));
                }
                if let Some(signal) = Signal::from_named_raw(signal) {
                    let _ = kill_process(self.child, signal);
                }
            }
            _ => {}
        }
    }

    /// The exit code of a run that has ended.
    fn ended(&mut self) -> Option<u8> {
        match waitpid(Some(self.child), WaitOptions::NOHANG) {
            Ok(None) => {}
            Ok(Some((_, status))) => {
                let signal = status.terminating_signal().map(|n| 128 + n);
                let code = status.exit_status().or(signal);
                return Some(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
            }
            Err(_) => return Some(1),
        }
        let code = exit_code_of_first_thread(self.child)?;
        let since = *self.half.get_or_insert_with(Instant::now);
        (since.elapsed() >= LAST_BREATH).then_some(code)
    }

    /// Checks whether the run has abandoned itself.
    fn hear(&mut self) {
        let mut code = [0];
        let ready = readable(self.line.as_fd());
        if ready && self.line.read(&mut code).is_ok_and(|n| n > 0) {
            self.end = Some((Instant::now() + LAST_BREATH, code[0]));
        }
    }

    /// Leaves the run behind. It ends when the file system that it waits for answers.
    fn give_up(&mut self, code: u8) -> u8 {
        let _ = self.line.write_all(&[code]);
        let until = Instant::now() + LAST_BREATH;
        while Instant::now() < until {
            if let Some(code) = self.ended() {
                return code;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = kill_process(self.child, Signal::KILL);
        code
    }
}

fn readable(line: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&line, PollFlags::IN)];
    poll(&mut polled, Some(&rustix::time::Timespec::default())).is_ok_and(|n| n > 0)
        && polled[0].revents().contains(PollFlags::IN)
}

/// The exit code of a process whose first thread has ended while another has not, so it cannot be
/// waited for.
fn exit_code_of_first_thread(pid: Pid) -> Option<u8> {
    let stat = Stat::of(pid.as_raw_nonzero().get().cast_unsigned())?;
    let status = Some(stat.exit_status).filter(|_| stat.state == 'Z')?;
    Some(match status & 0x7f {
        0 => u8::try_from(status >> 8 & 0xff).unwrap_or(1),
        signal => u8::try_from(128 + signal).unwrap_or(1),
    })
}

/// Evaluates `call` in a child process. `None` when the child has not ended within `limit`; it is
/// then left behind. Must be called before the first thread is started.
pub fn asked_apart(limit: Duration, call: impl FnOnce() -> bool) -> Option<bool> {
    // SAFETY: the process has one thread, so the child may do what it likes. It ends with `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let_go_of_streams();
        // Other processes wait until these are closed. SAFETY: nothing in this child uses a
        // descriptor that it has not opened.
        unsafe { libc::syscall(libc::SYS_close_range, 3, i64::from(u32::MAX), 0) };
        let code = i32::from(!call());
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(code) }
    }
    let Some(child) = Pid::from_raw(pid).filter(|_| pid > 0) else {
        return Some(call());
    };
    let until = Instant::now() + limit;
    let mut pause = Duration::from_micros(50);
    loop {
        match waitpid(Some(child), WaitOptions::NOHANG) {
            Ok(None) if Instant::now() < until => thread::sleep(pause),
            Ok(None) => {
                let _ = kill_process(child, Signal::KILL);
                served::give_up();
                return None;
            }
            Ok(Some((_, status))) => return Some(status.exit_status() == Some(0)),
            Err(_) => return Some(true),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
