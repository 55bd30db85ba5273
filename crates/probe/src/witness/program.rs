//! A program of the user's that acknowledges items by lines of its output, and the command that looks for them after a
//! power cut.
//!
//! Both run under a guard, so that nothing they started outlives them. An item counts as acknowledged when its line has reached
//! the lab, which is never too early. It may be late where the program prints faster than the lab reads: then the answer
//! says that the program is ahead.

use std::{
    fs::{self, File},
    io,
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use layermark_model::{
    IT_SAID,
    protocol::ProgramDid,
    witness::{LONGEST_ITEM, acknowledges},
};
use regex::bytes::Regex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    mount::{MountFlags, mount},
};

use super::sync_dir;
use crate::{
    ProbeError,
    clock::monotonic_ns,
    programs::{
        ELSEWHERE, PATH,
        guard::{Guard, Guarded},
        spawn::{Program, Started},
        sys,
        tree::Tree,
        which,
    },
};

mod check;
mod output;

use output::{Came, Ends, Output};

pub use check::check;

/// How long the first item is awaited: a server may have to be set up.
const FIRST: Duration = Duration::from_secs(40);
/// How long a program that has closed its output may take to end.
const END: Duration = Duration::from_secs(2);
/// Most bytes without an acknowledgement, and most that a check prints.
const MOST_OUTPUT: usize = 16 << 20;

/// Whether a program is where commands are searched for.
pub fn is_installed(program: &str) -> bool {
    which(program, PATH).is_some()
}

/// A program at work.
pub struct Running {
    guard: Guard<Runs>,
    output: Output,
    ack: Regex,
    /// Bytes since the last acknowledgement.
    silent: usize,
}

/// Makes a program's directory, and its name durable as far as the layer lets this be done.
pub fn make(dir: &str) -> Result<(), ProbeError> {
    let dir = Path::new(dir);
    let failed = |e: io::Error| ProbeError::io("make the program's directory", dir, &e);
    fs::create_dir_all(dir).map_err(failed)?;
    for dir in dir.ancestors().take(3) {
        match sync_dir(dir) {
            Err(e) if super::is_refusal(&e) => {}
            other => other.map_err(failed)?,
        }
    }
    Ok(())
}

/// Removes it, with what the program has left.
pub fn remove(dir: &str) -> Result<(), ProbeError> {
    let dir = Path::new(dir);
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(ProbeError::io("remove", dir, &e)),
        _ => Ok(()),
    }
}

impl Running {
    /// Starts the program in its directory.
    pub fn start(dir: &str, run: &str, ack: &str) -> Result<Self, ProbeError> {
        let dir = PathBuf::from(dir);
        let ack = acknowledges(ack).map_err(|why| ProbeError::new(format!("`{ack}`: {why}")))?;
        let (output, ends) =
            Output::new().map_err(|e| ProbeError::new(format!("pipes for the program: {e}")))?;
        let ends = Arc::new(Mutex::new(Some(ends)));
        let guard = Guard::start(Runs {
            dir,
            command: run.into(),
            ends: Arc::clone(&ends),
            running: None,
        })?;
        // The program has its own copies: at its end, the pipes end.
        taken(&ends);
        Ok(Self {
            guard,
            output,
            ack,
            silent: 0,
        })
    }

    /// Waits for the next item, until the program ends or, after the first one, for the time that is `left`.
    pub fn await_item(&mut self, left: Option<Duration>) -> Result<ProgramDid, ProbeError> {
        let until = Instant::now() + left.unwrap_or(FIRST);
        let failed = |e: io::Error| ProbeError::new(format!("the program's output: {e}"));
        loop {
            if let Some(name) = self.item()? {
                self.silent = 0;
                let ahead = self.output.is_ahead();
                return Ok(ProgramDid::Item { name, ahead });
            }
            if self.silent > MOST_OUTPUT {
                let mib = MOST_OUTPUT >> 20;
                return Ok(ProgramDid::Ended(format!(
                    "it printed {mib} MiB without an acknowledgement"
                )));
            }
            match self.output.more(until).map_err(failed)? {
                Came::Bytes(n) => self.silent += n,
                Came::Nothing if left.is_some() => return Ok(ProgramDid::TimeOver),
                Came::Nothing => {
                    let seconds = FIRST.as_secs();
                    return Ok(ProgramDid::Ended(format!(
                        "it acknowledged nothing for {seconds} s"
                    )));
                }
                Came::End => {
                    let ended = self.guard.work(END, &mut || {})?;
                    self.output.last_errors().map_err(failed)?;
                    let said = it_said(&self.output.said);
                    return Ok(ProgramDid::Ended(format!("{ended}{said}")));
                }
            }
        }
    }

    /// The item of the next line that has one, among what was read.
    fn item(&mut self) -> Result<Option<String>, ProbeError> {
        while let Some(line) = self.output.line() {
            let found = self.ack.captures(&line);
            let item = found.and_then(|found| found.get(1).or(found.get(0)));
            // An expression that finds nothing in a line, such as `.*` in an empty one, finds no item.
            let Some(item) = item.filter(|item| !item.is_empty()) else {
                self.output.keep(&line);
                continue;
            };
            let item = std::str::from_utf8(item.as_bytes()).unwrap_or_default();
            let printable = !item.is_empty() && !item.contains(char::is_control);
            if !printable || item.len() > LONGEST_ITEM {
                let wrong = format!(
                    "it acknowledged an item whose name is not text of 1 to {LONGEST_ITEM} bytes"
                );
                return Err(
                    ProbeError::new(wrong).hint("--ack 'REGEX', whose first group is the item")
                );
            }
            return Ok(Some(item.to_owned()));
        }
        Ok(None)
    }

    /// Kills it, and all processes that it started.
    pub fn kill(mut self) -> Result<(), ProbeError> {
        self.guard.stop().map(|_| ())
    }
}

fn taken<T>(of: &Mutex<Option<T>>) -> Option<T> {
    of.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn it_said(line: &str) -> String {
    match line {
        "" => String::new(),
        line => format!("{IT_SAID}{line}"),
    }
}

/// Where a program's own file system for temporary files may be.
const ROOMS: [&str; 2] = ["/dev/shm", "/mnt"];

/// A file system in memory that only this process and its children see. `None` where nothing can be mounted.
fn room(dir: &Path) -> Option<&'static str> {
    let dir = fs::canonicalize(dir).ok()?;
    let is_free = |at: &&&str| Path::new(at).is_dir() && !dir.starts_with(at);
    let at = ROOMS.iter().find(is_free)?;
    sys::own_mounts().ok()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", *at, "tmpfs", flags, c"mode=0700,size=256m").ok()?;
    Some(at)
}

/// Starts `sh -c COMMAND` in a directory. Its output and its errors go where `out` says.
fn shell(
    dir: &Path,
    command: &str,
    stdin: Option<File>,
    [out, err]: [&OwnedFd; 2],
) -> Result<Started, ProbeError> {
    let start = || -> io::Result<_> {
        let argv = ["sh", "-c", command].map(str::to_owned);
        let mut program = Program::new(&argv, None, dir.to_owned())?;
        program
            .env("PATH", PATH)
            .env("HOME", dir)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdout(out.try_clone()?)
            .stderr(err.try_clone()?);
        if let Some(room) = room(dir) {
            program.env("TMPDIR", room);
        }
        if let Some(stdin) = stdin {
            program.stdin(stdin);
        }
        program.prepared()?.start(monotonic_ns, &mut 0)
    };
    start().map_err(|e| ProbeError::io("start a shell in", dir, &e).hint(ELSEWHERE))
}

/// The program, for its guard.
struct Runs {
    dir: PathBuf,
    command: String,
    ends: Arc<Mutex<Option<Ends>>>,
    running: Option<Started>,
}

impl Guarded for Runs {
    /// How it ended.
    type Done = String;

    /// It is killed without a warning, as by a power cut.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    fn release(&mut self) {
        taken(&self.ends);
    }

    fn prepare(&mut self, tree: &mut Tree, _: BorrowedFd<'_>) -> Result<(), ProbeError> {
        let [out, err] =
            taken(&self.ends).ok_or_else(|| ProbeError::new("the program was started before"))?;
        let started = shell(&self.dir, &self.command, None, [&out, &err])?;
        tree.main = Some(started.pid);
        self.running = Some(started);
        Ok(())
    }

    fn work(&mut self, tree: &mut Tree, _: BorrowedFd<'_>) -> Result<String, ProbeError> {
        let Some(started) = &self.running else {
            return Err(ProbeError::new("no program was started"));
        };
        let mut fds = [PollFd::new(&started.pidfd, PollFlags::IN)];
        // Interrupted or not: the text says what is known then.
        let _ = poll(&mut fds, Timespec::try_from(END).ok().as_ref());
        tree.reap();
        Ok(match tree.code {
            Some(code) => format!("it ended with exit code {code}"),
            None => "it closed its output".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use layermark_model::witness::CutProgram;

    use super::*;

    fn started(dir: &Path, run: &str) -> Running {
        let dir = dir.join("work").to_string_lossy().into_owned();
        make(&dir).unwrap();
        Running::start(&dir, run, CutProgram::ACK).unwrap()
    }

    fn all(running: &mut Running) -> (Vec<String>, String) {
        let mut items = Vec::new();
        loop {
            match running.await_item(None).unwrap() {
                ProgramDid::Item { name, .. } => items.push(name),
                ProgramDid::Ended(why) => return (items, why),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn lines_that_acknowledge_are_items_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let run = "echo ready; echo ack a; echo ack no >&2; echo ack b and more; printf gone >&2; printf 'ack c'; exit 3";
        let mut running = started(dir.path(), run);
        let (items, why) = all(&mut running);
        // The last line never ended.
        assert_eq!(items, ["a", "b"]);
        assert!(
            why.starts_with("it ended with exit code 3") && why.ends_with("gone"),
            "{why}"
        );
        running.kill().unwrap();
    }

    /// An empty line left the whole program uncut.
    #[test]
    fn each_line_that_is_not_empty_may_be_an_item() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("work").to_string_lossy().into_owned();
        make(&work).unwrap();
        let mut running = Running::start(&work, "echo; echo a b; echo; echo c", ".*").unwrap();
        let (items, why) = all(&mut running);
        assert_eq!(items, ["a b", "c"]);
        assert_eq!(why, "it ended with exit code 0");
        running.kill().unwrap();
    }

    /// It acknowledges without end: no more is read than the lab requests.
    #[test]
    fn a_program_that_never_ends_is_killed_with_what_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let run = "(while :; do date > beat; sleep 0.01; done) & while :; do echo ack x; done";
        let mut running = started(dir.path(), run);
        for _ in 0..1000 {
            let next = running.await_item(None).unwrap();
            let is_x = matches!(&next, ProgramDid::Item { name, .. } if name == "x");
            assert!(is_x, "{next:?}");
        }
        let pid = running.guard.pid();
        running.kill().unwrap();
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn output_without_an_acknowledgement_has_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut running = started(dir.path(), "yes nothing");
        let why = "it printed 16 MiB without an acknowledgement";
        assert_eq!(
            running.await_item(None).unwrap(),
            ProgramDid::Ended(why.into())
        );
        let mut running = started(dir.path(), "tr '\\0' x < /dev/zero");
        assert_eq!(
            running.await_item(None).unwrap(),
            ProgramDid::Ended(why.into())
        );
        let mut running = started(
            dir.path(),
            "head -c 300 /dev/zero | tr '\\0' x | sed 's/^/ack /'; echo",
        );
        let wrong = running.await_item(None).unwrap_err().message;
        assert!(wrong.contains("1 to 256 bytes"), "{wrong}");
    }

    /// It hangs, or waits for what never comes: its time ends all the same.
    #[test]
    fn a_program_that_hangs_is_awaited_no_longer_than_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let mut running = started(dir.path(), "echo ack 1; sleep 1000");
        let mut next = |left| {
            running
                .await_item(Some(Duration::from_millis(left)))
                .unwrap()
        };
        let is_first = matches!(next(60_000), ProgramDid::Item { name, .. } if name == "1");
        assert!(is_first);
        assert_eq!(next(1), ProgramDid::TimeOver);
        running.kill().unwrap();
    }

    /// Of many items that are printed at once the first ones are seen late; one that is awaited is not.
    #[test]
    fn a_program_that_is_ahead_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut running = started(dir.path(), "printf 'ack %s\\n' $(seq 30); sleep 100");
        let mut ahead = || {
            let next = running.await_item(None).unwrap();
            matches!(next, ProgramDid::Item { ahead: true, .. })
        };
        let seen: Vec<bool> = (0..30).map(|_| ahead()).collect();
        assert_eq!(seen, [[true; 20].as_slice(), &[false; 10]].concat());
    }
}
