//! Child processes that end with layermark. This is the only place with code that runs between fork
//! and exec.
#![allow(unsafe_code)]

use std::{
    collections::VecDeque,
    ffi::{CStr, CString, OsStr},
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{CWD, Mode, OFlags, open},
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind,
        mount_bind_recursive, mount_change, move_mount, open_tree,
    },
    process::{Signal, getpid, getppid, set_parent_process_death_signal},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};

use crate::{Control, LayerError, served};

/// Directory at which a helper sees that of the layer: no path of the user's can have a meaning to it.
pub(crate) const SEEN_AT: &str = "/mnt";
/// Directories in which programs are searched; `sbin` is not in every user's `PATH`.
pub(crate) const PROGRAM_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How long a command may take: the slowest compresses an image of some GiB.
pub(crate) const LIMIT: Duration = Duration::from_mins(10);

const TAIL_LINES: usize = 20;
const TAIL_LINE: u64 = 1024;

/// A command whose process is killed when the calling thread ends. The terminal's Ctrl-C does not
/// reach it. Of the user's environment it gets only the language.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PROGRAM_PATH);
    for name in ["LANG", "LC_ALL"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.process_group(0).current_dir("/");
    let parent = getpid();
    let die_with_parent = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the call above: then no signal is sent.
        if getppid() != Some(parent) {
            return Err(io::Error::other("layermark has ended"));
        }
        Ok(())
    };
    // SAFETY: the closure makes two system calls, allocates nothing unless it fails, and touches
    // no lock; that is allowed between fork and exec.
    unsafe { command.pre_exec(die_with_parent) };
    command
}

/// Takes the terminal from the process, so that it cannot ask its user for a password.
pub(crate) fn without_terminal(command: &mut Command) {
    let leave = || {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        // Without a terminal there is nothing to leave.
        if let Ok(terminal) = open(c"/dev/tty", flags, Mode::empty()) {
            // SAFETY: the request has no argument.
            unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCNOTTY) };
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls, and touches no lock; that is allowed between fork and exec.
    unsafe { command.pre_exec(leave) };
}

/// Moves the process into this network namespace.
pub(crate) fn in_network(command: &mut Command, net: Arc<OwnedFd>) {
    let enter = move || {
        move_into_link_name_space(net.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(())
    };
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(enter) };
}

/// A change of the files that one process sees.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Shows the working directory, or the first path, at the second path too.
    Show(Option<CString>, CString),
    /// Shows the file system mounted at the first path at the second one, read-only. It looks as to a
    /// user who owns none of its files and is in none of their groups. `strangers` comes from
    /// [`strangers`]. A file system for which that is impossible is left out, unless it is needed.
    Share {
        from: CString,
        at: CString,
        strangers: Arc<OwnedFd>,
        needed: bool,
    },
    /// Shows nothing below this directory. The second string holds mount options of a tmpfs.
    Empty(CString, CString),
    /// Shows version 2 of control groups, also where the host has both versions.
    ControlGroups,
    /// Shows the first file in place of the second one.
    Cover(CString, CString),
}

impl Change {
    /// A path as a C string.
    pub(crate) fn path(path: &Path) -> io::Result<CString> {
        Ok(CString::new(path.as_os_str().as_bytes())?)
    }

    fn make(&self) -> io::Result<()> {
        let made = match self {
            Self::Show(what, at) => {
                let what = what.as_deref().unwrap_or(c".");
                return Ok(mount_bind_recursive(what, at.as_c_str())?);
            }
            Self::Share {
                from,
                at,
                strangers,
                needed,
            } => {
                return match share(from, at, strangers) {
                    Err(e) if *needed => Err(e),
                    _ => Ok(()),
                };
            }
            Self::Empty(at, options) => mount(
                c"none",
                at.as_c_str(),
                c"tmpfs",
                MountFlags::NOSUID | MountFlags::NODEV,
                Some(options.as_c_str()),
            ),
            Self::ControlGroups => mount_groups().or_else(|e| {
                // A user namespace may mount those of its own namespace only.
                // SAFETY: this flag does not touch the table of file descriptors.
                unsafe { unshare_unsafe(UnshareFlags::NEWCGROUP) }.map_err(|_| e)?;
                mount_groups()
            }),
            Self::Cover(with, at) => mount_bind(with.as_c_str(), at.as_c_str()),
        };
        match made {
            // It has been removed since.
            Err(rustix::io::Errno::NOENT) => Ok(()),
            made => Ok(made?),
        }
    }
}

/// Mounts version 2 of control groups, unless it is all that is mounted there.
fn mount_groups() -> rustix::io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match mount(c"none", c"/sys/fs/cgroup", c"cgroup2", flags, None) {
        Err(rustix::io::Errno::BUSY) => Ok(()),
        made => made,
    }
}

/// Mounts the file system at `from` a second time at `at`, with file owners that have no user id.
/// Then the kernel applies the permissions for others, even to root, because root's right to bypass
/// permissions does not cover files whose owner has no id (`mount_setattr(2)`, `MOUNT_ATTR_IDMAP`).
fn share(from: &CStr, at: &CStr, strangers: &OwnedFd) -> io::Result<()> {
    /// `struct mount_attr`
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    const RDONLY_NOSUID_NODEV: u64 = 1 | 2 | 4;
    const IDMAP: u64 = 0x0010_0000;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, from, flags)?;
    let wanted = MountAttr {
        set: RDONLY_NOSUID_NODEV | IDMAP,
        clear: 0,
        propagation: 0,
        user_namespace: u64::from(strangers.as_raw_fd().unsigned_abs()),
    };
    // SAFETY: the path and the structure outlive the call.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const wanted,
            size_of::<MountAttr>(),
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    let by_descriptor = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(&tree, c"", CWD, at, by_descriptor)?)
}

/// A user namespace that maps no user and no group of files, for [`Change::Share`]. Only root of
/// the machine can make one.
pub(crate) fn strangers() -> io::Result<OwnedFd> {
    /// A namespace needs at least one id. No file belongs to this one.
    const ONE: &str = "4294967293 4294967293 1";
    let mut waits = command("cat");
    waits
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let apart = || {
        // SAFETY: this flag does not touch the table of file descriptors.
        unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?;
        Ok(())
    };
    // SAFETY: the closure makes one system call.
    unsafe { waits.pre_exec(apart) };
    let process = Process::start_with(&mut waits)?;
    let of = |name: &str| format!("/proc/{}/{name}", process.child.id());
    fs::write(of("uid_map"), ONE)?;
    fs::write(of("gid_map"), ONE)?;
    Ok(File::open(of("ns/user"))?.into())
}

/// Changes the files that this process sees, in a mount namespace that ends with it.
pub(crate) fn with_view(command: &mut Command, changes: Vec<Change>) {
    let change = move || {
        // SAFETY: this flag does not touch the table of file descriptors.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
        mount_change(
            c"/",
            MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
        )?;
        changes.iter().try_for_each(Change::make)
    };
    // SAFETY: the closure makes system calls with paths that were made before, and touches no
    // lock; that is allowed between fork and exec.
    unsafe { command.pre_exec(change) };
}

/// Lets the process inherit this descriptor, with the same number.
pub(crate) fn inherit(command: &mut Command, descriptor: Arc<OwnedFd>) {
    let keep = move || {
        rustix::io::fcntl_setfd(descriptor.as_fd(), rustix::io::FdFlags::empty())?;
        Ok(())
    };
    // SAFETY: the closure makes one system call, in the child alone.
    unsafe { command.pre_exec(keep) };
}

/// Runs the process with `root` as its root directory.
pub(crate) fn in_root(command: &mut Command, root: &'static str) {
    let enter = move || {
        rustix::process::chroot(root)?;
        Ok(rustix::process::chdir("/")?)
    };
    // SAFETY: the closure makes two system calls, whose short paths are put on the stack.
    unsafe { command.pre_exec(enter) };
}

/// The last lines of a stream. Earlier ones are dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail {
    lines: Arc<Mutex<VecDeque<String>>>,
    ended: Arc<AtomicBool>,
}

impl Tail {
    /// Reads `stream` to its end in a separate thread.
    pub(crate) fn of(stream: impl Read + Send + 'static) -> io::Result<Self> {
        let tail = Self::default();
        let lines = tail.clone();
        thread::Builder::new()
            .name("stderr".into())
            .spawn(move || {
                lines.read(BufReader::new(stream));
                lines.ended.store(true, Ordering::Release);
            })?;
        Ok(tail)
    }

    /// Adds output that arrived by another channel.
    pub(crate) fn add(&self, bytes: &[u8]) {
        self.read(bytes);
    }

    fn read(&self, mut from: impl BufRead) {
        let mut line = Vec::new();
        loop {
            line.clear();
            match from.by_ref().take(TAIL_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => self.keep(String::from_utf8_lossy(&line).trim_end()),
            }
        }
    }

    fn keep(&self, line: &str) {
        if line.is_empty() {
            return;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect()
    }
}

impl Tail {
    /// All lines up to the end of the stream. Waits a short time for the end.
    fn whole(&self) -> Vec<String> {
        for _ in 0..100 {
            if self.ended.load(Ordering::Acquire) {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.lines()
    }
}

/// A child process and its output. It is ended on drop.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    tail: Tail,
    /// When it was killed.
    killed: Option<Instant>,
}

impl Process {
    /// Starts `command` with pipes for all three streams.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self::start_with(command)
    }

    /// Starts `command` with the streams it has.
    pub(crate) fn start_with(command: &mut Command) -> io::Result<Self> {
        let mut child = command.spawn()?;
        let tail = match child.stderr.take() {
            Some(stderr) => Tail::of(stderr)?,
            None => Tail::default(),
        };
        Ok(Self {
            child,
            tail,
            killed: None,
        })
    }

    /// The last lines of its standard error. Waits a short time for the end of it.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.tail.whole()
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Whether it has ended by a signal that a fault of its own raises.
    pub(crate) fn crashed(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        let ended = self.child.try_wait().ok().flatten();
        let own = [
            Signal::ABORT,
            Signal::BUS,
            Signal::FPE,
            Signal::ILL,
            Signal::SEGV,
        ];
        ended
            .and_then(|status| status.signal())
            .is_some_and(|signal| own.iter().any(|of| of.as_raw() == signal))
    }
}

impl Control for Process {
    fn pid(&self) -> Option<u32> {
        Some(self.child.id())
    }

    fn kill(&mut self) {
        // Fails only when it has ended and been waited for.
        let _ = self.child.kill();
        self.killed.get_or_insert_with(Instant::now);
    }

    fn wait(&mut self, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(ending(status)),
                Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
                Ok(None) => return None,
                Err(e) => return Some(format!("cannot wait for it: {e}")),
            }
        }
    }

    fn tail(&self) -> Vec<String> {
        self.tail.lines()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        // A process in an uninterruptible wait must not hang us for ever.
        let waited = self.killed.map_or(Duration::ZERO, |at| at.elapsed());
        let limit = served::patience(Duration::from_secs(10));
        let _ = self.wait(limit.saturating_sub(waited));
    }
}

/// How a process ended, in words.
pub(crate) fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// The program's path, searched in [`PROGRAM_PATH`].
pub(crate) fn program(name: &str) -> Option<std::path::PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let runs = |p: &Path| {
        p.metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    PROGRAM_PATH
        .split(':')
        .map(|dir| Path::new(dir).join(name))
        .find(|p| runs(p))
}

/// CPU time of all threads of a process since it started, including ended threads, ns.
///
/// # Errors
///
/// The process has ended.
pub fn cpu_ns(pid: u32) -> io::Result<u64> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    let mut clock = 0;
    // SAFETY: `clock` outlives the call.
    let failed = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if failed != 0 {
        return Err(io::Error::from_raw_os_error(failed));
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` outlives the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// Runs a command to its end. Returns the first line it printed, or an error with its last lines.
pub(crate) fn run(layer: &str, command: &mut Command) -> Result<String, LayerError> {
    let lines = lines(layer, command)?;
    Ok(lines.into_iter().next().unwrap_or_default())
}

/// The same; returns the last lines it printed, those of its standard error at the end.
pub(crate) fn lines(layer: &str, command: &mut Command) -> Result<Vec<String>, LayerError> {
    lines_within(layer, command, LIMIT)
}

/// The same; ends a command that takes longer.
pub(crate) fn lines_within(
    layer: &str,
    command: &mut Command,
    limit: Duration,
) -> Result<Vec<String>, LayerError> {
    let program = Path::new(command.get_program()).to_path_buf();
    let mut process = Process::start(command).map_err(LayerError::io(layer, "run", &program))?;
    drop(process.child.stdin.take());
    let said = match process.child.stdout.take() {
        Some(out) => Tail::of(out).map_err(LayerError::io(layer, "run", &program))?,
        None => Tail::default(),
    };
    let status = process.wait(limit);
    // The readers see the end of the pipes a moment after the process has ended.
    let tail = [said.whole(), process.tail.whole()].concat();
    let program = program
        .file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    match status.as_deref() {
        Some("exit code 0") => Ok(tail),
        Some(status) => Err(LayerError::Program {
            layer: layer.into(),
            program,
            status: status.into(),
            tail,
        }),
        None => Err(LayerError::Slow {
            layer: layer.into(),
            what: program,
            after: limit,
            tail,
        }),
    }
}
