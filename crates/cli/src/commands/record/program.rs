//! A program under strace(1).

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use layermark_model::format_size;
use layermark_sys::packages;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use tempfile::TempDir;

use super::{
    attached::Stopped,
    interrupts::{How, Interrupts},
};
use crate::failure::{Code, Failure};

/// Calls on files, descriptors and mappings, and those by which tasks wait for each other. `?`: skipped where strace or the
/// machine does not know them.
const CALLS: &str = "trace=%file,%desc,%process,%net,futex,?munmap,?mremap,?msync,?sync,?clock_nanosleep,?nanosleep,?io_uring_enter,?io_uring_setup";

/// With children, paths of descriptors, times and no signals. Names of attributes have up to 255 bytes. So much of what is
/// read and written is in the trace, too, which adds 1.3 us to the 27 of a call: `dd bs=4k` in turn with `-s 0`.
const OPTIONS: [&str; 10] = [
    "-f",
    "-y",
    "-ttt",
    "-T",
    "-q",
    "-s",
    "255",
    "-e",
    "signal=none",
    "-e",
];

/// Bytes of a trace, unless less room is free: many times what the largest recording needs.
const MOST_TRACED: u64 = 4 << 30;
/// How often the size of a trace is looked at.
const EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Longest line of a trace that is read at once, bytes: no call with two paths or 255 buffers reaches it.
const LONGEST: u64 = 512 << 10;

/// The path of strace.
pub fn strace() -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|dir| dir.join("strace"));
    places.find(|file| file.is_file()).ok_or_else(|| Failure {
        message: "`strace` is not installed, and programs are recorded with it".into(),
        param: None,
        hint: Some(packages::sudo_install("strace")),
        code: Code::Layer,
    })
}

/// A program that has ended, and its trace.
pub struct Traced {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// How long it took.
    pub took: Duration,
    signal: Option<i32>,
    dir: TempDir,
}

impl Traced {
    /// Of what runs strace with a log in a directory of its own, since names of files are in it, and within a bound.
    fn by(
        time: Option<Duration>,
        run: impl FnOnce(&Path, &Bound) -> io::Result<(ExitStatus, Duration)>,
    ) -> Result<Self, Failure> {
        let failed = |e: io::Error| Failure::failed(format!("strace: {e}"));
        let dir = super::private().tempdir().map_err(failed)?;
        let log = dir.path().join("trace");
        let bound = Bound::of(&log, time).map_err(failed)?;
        let (status, took) = run(&log, &bound).map_err(failed)?;
        bound.held()?;
        Ok(Self {
            code: status.code(),
            took,
            signal: status.signal(),
            dir,
        })
    }

    pub fn log(&self) -> PathBuf {
        self.dir.path().join("trace")
    }

    /// Its trace.
    pub fn open(&self) -> Result<BufReader<File>, Failure> {
        let log = File::open(self.log());
        let log = log.map_err(|e| Failure::failed(format!("the trace: {e}")))?;
        Ok(BufReader::new(log))
    }

    /// Calls `each` with every line of the trace.
    pub fn lines(&self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut log = BufReader::new(File::open(self.log())?);
        let mut line = Vec::new();
        while log.by_ref().take(LONGEST).read_until(b'\n', &mut line)? > 0 {
            each(&line);
            line.clear();
        }
        Ok(())
    }

    /// Why the program was not started; `None` if it was. strace's first line is its execve.
    fn not_started(&self, strace: &Path) -> io::Result<Option<String>> {
        let mut first = Vec::new();
        match File::open(self.log()) {
            Ok(log) => {
                let mut log = BufReader::new(log).take(LONGEST);
                log.read_until(b'\n', &mut first)?;
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        if !first.is_empty() {
            let line = String::from_utf8_lossy(&first);
            let line = line.trim_end();
            let error = line
                .contains(" execve(")
                .then(|| line.rsplit_once(") = -1 "));
            return Ok(error.flatten().map(|(_, error)| error.to_owned()));
        }
        let probed = traced(strace, Path::new("/dev/null"))
            .arg("true")
            .output()?;
        if probed.status.success() {
            return Ok(Some("it has said why, above".into()));
        }
        let said = String::from_utf8_lossy(&probed.stderr);
        Ok(Some(layermark_model::brief(&said)))
    }

    /// How it has ended, in words.
    pub fn shown(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "an unknown status".into(),
        }
    }
}

/// Where a program is repeated.
pub struct Elsewhere {
    /// Its current directory.
    pub dir: PathBuf,
    /// Its standard input, output and error. Without them it has no input, and nobody sees its output.
    pub standard: [Option<File>; 3],
}

/// Runs a program under strace: with this terminal, or elsewhere.
pub fn run(
    interrupts: &Interrupts,
    strace: &Path,
    argv: &[OsString],
    elsewhere: Option<Elsewhere>,
) -> Result<Traced, Failure> {
    let run = |log: &Path, bound: &Bound| {
        let mut command = traced(strace, log);
        command.args(argv);
        match elsewhere {
            Some(elsewhere) => unseen(interrupts, &mut command, elsewhere, Some(bound)),
            None => interrupts.run(&mut command, How::Here, |child| {
                bound.watch(child, interrupts.killer())
            }),
        }
    };
    let failed = |e: io::Error| Failure::failed(format!("strace: {e}"));
    let traced = Traced::by(None, run)?;
    if let Some(why) = traced.not_started(strace).map_err(failed)? {
        let program = argv.first().map(|program| program.to_string_lossy());
        return Err(Failure::failed(format!(
            "strace has not started `{}`: {why}",
            layermark_model::plain(&program.unwrap_or_default())
        ))
        .hint("see whether strace works here: strace -f true"));
    }
    Ok(traced)
}

/// Bytes of the largest trace where so many are free, in whole MiB, as they are shown.
fn most_traced(free: u64) -> u64 {
    MOST_TRACED.min(free / 2).max(1 << 20) >> 20 << 20
}

/// The largest trace of a program.
struct Bound {
    log: PathBuf,
    most: u64,
    /// How long the program is traced.
    time: Option<Duration>,
    passed: Arc<AtomicBool>,
}

impl Bound {
    /// A trace takes at most half of what is free where it is.
    fn of(log: &Path, time: Option<Duration>) -> io::Result<Self> {
        let found = rustix::fs::statvfs(log.parent().unwrap_or(log))?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        Ok(Self {
            log: log.to_owned(),
            most: most_traced(free),
            time,
            passed: Arc::default(),
        })
    }

    /// Ends the program when its trace is larger, or its time is over. Looks until the child has ended.
    fn watch(&self, child: &Child, kill: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let pid = Pid::from_child(child);
        let ended = pidfd_open(pid, PidfdFlags::empty())?;
        let (log, most, passed) = (self.log.clone(), self.most, Arc::clone(&self.passed));
        let over = self.time.map(|time| Instant::now() + time);
        let watch = move || {
            loop {
                let mut end = [PollFd::new(&ended, PollFlags::IN)];
                if poll(&mut end, Some(&EVERY)).is_ok_and(|ready| ready > 0) {
                    return;
                }
                let large = fs::metadata(&log).is_ok_and(|log| log.len() > most);
                passed.fetch_or(large, Ordering::SeqCst);
                if large || over.is_some_and(|over| Instant::now() >= over) {
                    return kill();
                }
            }
        };
        thread::Builder::new().spawn(watch).map(drop)
    }

    /// An error if the program was ended.
    fn held(&self) -> Result<(), Failure> {
        if !self.passed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let most = format_size(self.most);
        Err(Failure::failed(format!(
            "the recording was ended: the trace of the program's calls has more than {most}"
        ))
        .hint(if self.most < MOST_TRACED {
            "record a part of its work, or give the trace more room: TMPDIR=DIR layermark record"
        } else {
            "record a part of its work: layermark record -- PROGRAM"
        }))
    }
}

/// strace with the options of a recording, and without a program.
fn traced(strace: &Path, log: &Path) -> Command {
    let mut command = with_options(strace, log);
    // It has no effect on a program that runs already.
    command.arg("--seccomp-bpf").arg("--");
    command
}

fn with_options(strace: &Path, log: &Path) -> Command {
    let mut command = Command::new(strace);
    command.args(OPTIONS).arg(CALLS).arg("-o").arg(log);
    command
}

/// Traces a program that was stopped, until it ends, a signal comes, or `time` is over. It goes on in any case.
pub fn attach(
    interrupts: &Interrupts,
    strace: &Path,
    stopped: Stopped,
    time: Option<Duration>,
) -> Result<Traced, Failure> {
    let run = |log: &Path, bound: &Bound| {
        let mut command = with_options(strace, log);
        for pid in stopped.pids() {
            command.arg("-p").arg(pid.to_string());
        }
        interrupts.run(&mut command, How::Attached, |child| {
            stopped.go_on(child)?;
            bound.watch(child, interrupts.killer())
        })
    };
    let traced = Traced::by(time, run)?;
    if fs::metadata(traced.log()).map_or(0, |log| log.len()) == 0 {
        let why = "strace has traced nothing: it has said why, or the program has made no call";
        return Err(Failure::failed(why)
            .hint("see whether it may attach: strace -p PID, as root where ptrace is restricted"));
    }
    Ok(traced)
}

/// A program by itself, as [`run`] runs it elsewhere. Returns how long it took.
pub fn alone(
    interrupts: &Interrupts,
    argv: &[OsString],
    elsewhere: Elsewhere,
) -> io::Result<(ExitStatus, Duration)> {
    let none = OsString::new();
    let (program, rest) = argv.split_first().unwrap_or((&none, &[]));
    unseen(
        interrupts,
        Command::new(program).args(rest),
        elsewhere,
        None,
    )
}

/// Runs a command elsewhere. Output to a pipe is read and thrown away: to `/dev/null`, programs such as tar and grep
/// do not write, nor read what they would have written.
fn unseen(
    interrupts: &Interrupts,
    command: &mut Command,
    elsewhere: Elsewhere,
    bound: Option<&Bound>,
) -> io::Result<(ExitStatus, Duration)> {
    let Elsewhere { dir, standard } = elsewhere;
    let [input, out, err] = standard.map(|file| file.map(Stdio::from));
    command.current_dir(&dir).env("PWD", &dir);
    command
        .stdin(input.unwrap_or_else(Stdio::null))
        .stdout(out.unwrap_or_else(Stdio::piped))
        .stderr(err.unwrap_or_else(Stdio::piped));
    interrupts.run(command, How::Apart, |child| {
        if let Some(bound) = bound {
            bound.watch(child, interrupts.killer())?;
        }
        if let Some(out) = child.stdout.take() {
            drain(out)?;
        }
        child.stderr.take().map_or(Ok(()), drain)
    })
}

/// Reads up to the end. Nobody waits for this: a process that the program has left may keep its end open.
fn drain(mut from: impl io::Read + Send + 'static) -> io::Result<()> {
    let read = move || {
        let mut buffer = vec![0; 64 << 10];
        while matches!(from.read(&mut buffer), Ok(1..)) {}
    };
    thread::Builder::new().spawn(read).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program would go on, and its trace is too large.
    #[test]
    fn a_program_with_too_large_a_trace_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let bound = |most| Bound {
            log: dir.path().join("trace"),
            most,
            time: None,
            passed: Arc::default(),
        };
        let interrupts = Interrupts::caught().unwrap();
        let run = |bound: &Bound, script: &str| {
            let mut shell = Command::new("sh");
            let out = File::create(&bound.log).unwrap();
            shell.args(["-c", script]).stdout(out);
            let watched = |child: &mut Child| bound.watch(child, interrupts.killer());
            interrupts.run(&mut shell, How::Apart, watched).unwrap().0
        };
        let small = bound(10_000);
        let status = run(&small, "head -c 20000 /dev/zero; exec sleep 1000");
        assert_eq!(status.code(), None, "it was killed");
        let failure = small.held().unwrap_err();
        assert!(
            failure.message.contains("more than 10000"),
            "{}",
            failure.message
        );
        let large = bound(1 << 30);
        assert_eq!(run(&large, "echo x").code(), Some(0));
        assert!(large.held().is_ok() && !interrupts.any());
    }

    #[test]
    fn a_trace_takes_at_most_half_of_what_is_free() {
        for (free, most) in [
            (0, 1 << 20),
            (10 << 20, 5 << 20),
            ((11 << 20) + 1, 5 << 20),
            (100 << 30, MOST_TRACED),
        ] {
            assert_eq!(most_traced(free), most, "{free}");
        }
    }
}
