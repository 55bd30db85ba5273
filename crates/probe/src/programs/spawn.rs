//! Starts a program without copying the memory of the process that starts it.
//!
//! `std::process` can do that only when nothing has to be done between fork and exec. Otherwise it
//! forks, which takes time inside the clock that grows with the probe's memory. Here the new
//! process borrows the memory of the guard, which sleeps until the exec (`CLONE_VM` and
//! `CLONE_VFORK`, as in `posix_spawn`).
#![allow(unsafe_code)]

use std::{
    collections::BTreeMap,
    ffi::{CString, OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    ptr,
};

use super::user::User;

/// Default timer slack of programs, ns.
const SLACK_NS: libc::c_ulong = 50_000;

/// Size of the stack for the few frames between clone(2) and execve(2), bytes.
const STACK: usize = 64 << 10;

/// A program to be started. It gets its own process group and ends with the guard.
#[derive(Debug)]
pub struct Program {
    argv: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// The directory that it sees as its root.
    root: Option<PathBuf>,
    dir: PathBuf,
    user: Option<User>,
}

impl Program {
    /// Has an empty environment, no input, and output that is discarded.
    pub fn new(argv: &[String], root: Option<PathBuf>, dir: PathBuf) -> io::Result<Self> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        Ok(Self {
            argv: argv.iter().map(OsString::from).collect(),
            env: BTreeMap::new(),
            stdin: null.try_clone()?.into(),
            stdout: null.try_clone()?.into(),
            stderr: null.into(),
            root,
            dir,
            user: None,
        })
    }

    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        let (name, value) = (name.as_ref().into(), value.as_ref().into());
        self.env.insert(name, value);
        self
    }

    pub fn stdin(&mut self, from: impl Into<OwnedFd>) -> &mut Self {
        self.stdin = from.into();
        self
    }

    pub fn stdout(&mut self, to: impl Into<OwnedFd>) -> &mut Self {
        self.stdout = to.into();
        self
    }

    pub fn stderr(&mut self, to: impl Into<OwnedFd>) -> &mut Self {
        self.stderr = to.into();
        self
    }

    pub fn user(&mut self, user: Option<User>) -> &mut Self {
        self.user = user;
        self
    }

    /// Prepares everything that is possible before the clock starts.
    pub fn prepared(self) -> io::Result<Prepared> {
        let joined = |name: &OsStr, value: &OsStr| {
            let mut both = name.to_owned();
            both.push("=");
            both.push(value);
            both
        };
        let paths = self.candidates();
        let strings = |all: Vec<OsString>| -> io::Result<Vec<CString>> {
            all.iter().map(|s| c_string(s)).collect()
        };
        let env = self.env.iter().map(|(n, v)| joined(n, v)).collect();
        Ok(Prepared {
            paths: strings(paths)?,
            argv: strings(self.argv)?,
            env: strings(env)?,
            root: self.root.map(|r| c_string(r.as_os_str())).transpose()?,
            dir: c_string(self.dir.as_os_str())?,
            streams: [self.stdin, self.stdout, self.stderr],
            user: self.user,
        })
    }

    /// Candidate paths of the program: a name without a slash is searched for as in execvp(3).
    fn candidates(&self) -> Vec<OsString> {
        let name = self
            .argv
            .first()
            .map_or(OsStr::new(""), OsString::as_os_str);
        if name.as_bytes().contains(&b'/') || name.is_empty() {
            return vec![name.to_owned()];
        }
        let path = self.env.get(OsStr::new("PATH"));
        let path = path.map_or(OsStr::new(""), OsString::as_os_str);
        let dirs = std::env::split_paths(path);
        dirs.map(|dir| dir.join(Path::new(name)).into()).collect()
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(io::Error::other)
}

/// A program that is ready to be started.
#[derive(Debug)]
pub struct Prepared {
    paths: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    root: Option<CString>,
    dir: CString,
    streams: [OwnedFd; 3],
    user: Option<User>,
}

/// A started process. The caller must wait for it.
#[derive(Debug)]
pub struct Started {
    pub pid: u32,
    /// Becomes readable when it has ended.
    pub pidfd: OwnedFd,
}

/// Input of the new process: pointers into a [`Prepared`] that outlives it.
struct ExecPlan {
    paths: *const CString,
    path_count: usize,
    argv: *const *const libc::c_char,
    env: *const *const libc::c_char,
    root: *const libc::c_char,
    dir: *const libc::c_char,
    streams: [libc::c_int; 3],
    user: Option<User>,
    /// The error that kept it from running the program.
    errno: libc::c_int,
}

impl Prepared {
    /// Starts it. The clock is read into `start_ns` just before the process is created.
    pub fn start(self, clock: fn() -> u64, start_ns: &mut u64) -> io::Result<Started> {
        let pointers = |all: &[CString]| -> Vec<*const libc::c_char> {
            let all = all.iter().map(|s| s.as_ptr());
            all.chain([ptr::null()]).collect()
        };
        let (argv, env) = (pointers(&self.argv), pointers(&self.env));
        let mut plan = ExecPlan {
            paths: self.paths.as_ptr(),
            path_count: self.paths.len(),
            argv: argv.as_ptr(),
            env: env.as_ptr(),
            root: self.root.as_ref().map_or(ptr::null(), |r| r.as_ptr()),
            dir: self.dir.as_ptr(),
            streams: [0, 1, 2].map(|n| self.streams[n].as_raw_fd()),
            user: self.user,
            errno: 0,
        };
        let mut stack = vec![0_u128; STACK / size_of::<u128>()];
        let top = stack.as_mut_ptr_range().end;
        let mut pidfd: libc::c_int = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let blocked = Signals::block()?;
        *start_ns = clock();
        // SAFETY: the child runs `become_program` on its own stack, which lives until this thread
        // continues. By then the child has called execve(2) or _exit(2). It only makes system calls
        // on what `plan` points to, all of which outlives the call. No signal handler of ours can
        // run in it: all signals are blocked.
        let pid = unsafe {
            libc::clone(
                become_program,
                top.cast(),
                flags,
                (&raw mut plan).cast(),
                &raw mut pidfd,
            )
        };
        let failed = io::Error::last_os_error();
        drop(blocked);
        if pid < 0 {
            return Err(failed);
        }
        // SAFETY: clone(2) has stored a new descriptor there, which has no other owner.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        // SAFETY: a live variable; the other process that wrote to it has ended.
        let errno = unsafe { ptr::read_volatile(&raw const plan.errno) };
        if errno != 0 {
            super::sys::wait_for(pid);
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(Started {
            pid: pid.cast_unsigned(),
            pidfd,
        })
    }
}

/// Blocks all signals until dropped.
struct Signals(libc::sigset_t);

impl Signals {
    fn block() -> io::Result<Self> {
        // SAFETY: a zeroed set is a valid place for a set, and both sets are live variables.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            match libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) {
                0 => Ok(Self(before)),
                e => Err(io::Error::from_raw_os_error(e)),
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the set was filled by the call that blocked the signals.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

/// The new process. Allocates nothing, takes no lock, and never returns.
extern "C" fn become_program(plan: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the plan of `Prepared::start`, which sleeps until this process is another program.
    unsafe {
        let plan = plan.cast::<ExecPlan>();
        (*plan).errno = steps(&*plan);
        libc::_exit(127)
    }
}

/// Returns the error number of the step that failed; does not return on success.
///
/// # Safety
///
/// What the plan points to is alive, and nothing else uses this process's streams and credentials.
unsafe fn steps(plan: &ExecPlan) -> libc::c_int {
    // SAFETY: system calls on live strings and descriptors. Credentials are changed by the system
    // calls themselves: the C library's functions would have all threads of the guard do the same.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        for (to, from) in (0..).zip(plan.streams) {
            if libc::dup2(from, to) < 0 {
                return errno();
            }
        }
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS);
        if !plan.root.is_null() && libc::chroot(plan.root) < 0 {
            return errno();
        }
        if libc::chdir(plan.dir) < 0 {
            return errno();
        }
        if let Some(User { uid, gid }) = plan.user
            && (libc::syscall(libc::SYS_setgroups, 0, ptr::null::<libc::gid_t>()) < 0
                || libc::syscall(libc::SYS_setresgid, gid, gid, gid) < 0
                || libc::syscall(libc::SYS_setresuid, uid, uid, uid) < 0)
        {
            return errno();
        }
        // A change of the user would clear it.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        let mut why = libc::ENOENT;
        for n in 0..plan.path_count {
            libc::execve((*plan.paths.add(n)).as_ptr(), plan.argv, plan.env);
            match errno() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => why = libc::EACCES,
                other => return other,
            }
        }
        why
    }
}

/// The C library's own: it allocates nothing.
unsafe fn errno() -> libc::c_int {
    // SAFETY: the address of a variable of this thread, or of the one that it stands in for.
    unsafe { *libc::__errno_location() }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::clock::monotonic_ns;

    fn run(argv: &[&str], env: &[(&str, &str)]) -> io::Result<(i32, String)> {
        let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
        let mut program = Program::new(&argv, None, "/".into())?;
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        program.stdout(write);
        for (name, value) in env {
            program.env(name, value);
        }
        let mut start_ns = 0;
        let before = monotonic_ns();
        let started = program.prepared()?.start(monotonic_ns, &mut start_ns)?;
        assert!(start_ns >= before && start_ns <= monotonic_ns());
        let mut said = String::new();
        File::from(read).read_to_string(&mut said)?;
        let pid = rustix::process::Pid::from_raw(started.pid.cast_signed());
        let ended = rustix::process::waitpid(pid, rustix::process::WaitOptions::empty())?;
        let status = ended.and_then(|(_, s)| s.exit_status()).unwrap_or(-1);
        Ok((status, said))
    }

    #[test]
    fn a_program_is_found_and_has_what_it_was_given_and_nothing_else() {
        let path = ("PATH", "/nowhere:/usr/bin:/bin");
        let script = "echo $X; pwd; kill -PIPE $$";
        let (code, said) = run(&["sh", "-c", script], &[path, ("X", "a b")]).unwrap();
        assert_eq!((code, said.as_str()), (-1, "a b\n/\n"), "ended by SIGPIPE");
        let (code, said) = run(&["env"], &[path]).unwrap();
        assert_eq!((code, said), (0, "PATH=/nowhere:/usr/bin:/bin\n".into()));
        let (code, _) = run(&["/bin/sh", "-c", "exit 7"], &[]).unwrap();
        assert_eq!(code, 7);
    }

    #[test]
    fn what_is_no_program_is_told() {
        let errno = |argv: &[&str]| run(argv, &[("PATH", "/bin")]).unwrap_err().raw_os_error();
        assert_eq!(errno(&["no-such-program"]), Some(libc::ENOENT));
        assert_eq!(errno(&["/etc/passwd"]), Some(libc::EACCES));
        assert_eq!(errno(&["/etc"]), Some(libc::EACCES));
        assert!(run(&["a\0b"], &[]).is_err());
    }
}
