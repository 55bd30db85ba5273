//! A program of the user's that acknowledges items by lines of its output, and the command that looks for them after a
//! power cut.
//!
//! Both run under a guard, so that nothing they started goes on. The program is read as fast as it prints, up to what a
//! pipe and one buffer hold: an item counts as acknowledged when its line has reached the lab, which is never too early.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Read, Seek, Write},
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use layermark_model::{
    protocol::{CheckJob, ProgramDid},
    witness::{ItemCheck, LONGEST_ITEM},
};
use regex::bytes::Regex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, memfd_create},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};

use super::sync_dir;
use crate::{
    ProbeError,
    clock::monotonic_ns,
    programs::{
        ELSEWHERE, PATH,
        guard::{Guard, Guarded},
        last_output::{LastOutput, capture_stderr},
        spawn::{Program, Started},
        tree::Tree,
        which,
    },
};

/// How long an item is awaited.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a program that has closed its output may take to end.
const END: Duration = Duration::from_secs(2);
/// How long a check may take.
const CHECK: Duration = Duration::from_mins(1);
/// Most bytes without an acknowledgement, and most that a check prints.
const MOST_OUTPUT: usize = 16 << 20;
/// Bytes read at once, and of the longest line that is looked at.
const CHUNK: usize = 64 << 10;

/// The lines that acknowledge an item.
///
/// # Errors
///
/// What is wrong with the expression.
pub fn acknowledges(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|e| {
        let text = e.to_string();
        text.lines().last().unwrap_or_default().trim().to_owned()
    })
}

/// Whether a program is where commands are searched for.
pub fn is_installed(program: &str) -> bool {
    which(program, PATH).is_some()
}

/// A program at work.
pub struct Running {
    guard: Guard<Runs>,
    pipe: File,
    ack: Regex,
    /// What was read and not yet looked at.
    read: Vec<u8>,
    /// Where in `read` the next line begins.
    at: usize,
    /// Bytes since the last acknowledgement.
    silent: usize,
}

impl Running {
    /// Makes the program's directory durable, and starts the program in it.
    pub fn start(dir: &str, run: &str, ack: &str) -> Result<Self, ProbeError> {
        let dir = PathBuf::from(dir);
        let ack = acknowledges(ack).map_err(|why| ProbeError::new(format!("`{ack}`: {why}")))?;
        let failed = |e: io::Error| ProbeError::io("make the program's directory", &dir, &e);
        fs::create_dir_all(&dir).map_err(failed)?;
        for dir in dir.ancestors().take(3) {
            match sync_dir(dir) {
                Err(e) if super::is_refusal(&e) => {}
                other => other.map_err(failed)?,
            }
        }
        let (pipe, out) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let out = Arc::new(Mutex::new(Some(out)));
        let guard = Guard::start(Runs {
            dir,
            command: run.into(),
            out: Arc::clone(&out),
            room: room(),
            running: None,
        })?;
        // The program has its own copy: at its end, the pipe ends.
        taken(&out);
        Ok(Self {
            guard,
            pipe: pipe.into(),
            ack,
            read: Vec::new(),
            at: 0,
            silent: 0,
        })
    }

    /// Waits for the next item, or for the end of them.
    pub fn next(&mut self) -> Result<ProgramDid, ProbeError> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(item) = self.line()? {
                self.silent = 0;
                return Ok(ProgramDid::Item(item));
            }
            if self.silent > MOST_OUTPUT {
                let mib = MOST_OUTPUT >> 20;
                return Ok(ProgramDid::Ended(format!(
                    "it printed {mib} MiB without an acknowledgement"
                )));
            }
            if !readable(&self.pipe, until)? {
                let seconds = PATIENCE.as_secs();
                return Ok(ProgramDid::Ended(format!(
                    "it acknowledged nothing for {seconds} s"
                )));
            }
            self.read.drain(..std::mem::take(&mut self.at));
            let before = self.read.len();
            self.read.resize(before + CHUNK, 0);
            let n = self.pipe.read(&mut self.read[before..]);
            let n = n.map_err(|e| ProbeError::new(format!("the program's output: {e}")))?;
            self.read.truncate(before + n);
            self.silent += n;
            if n == 0 {
                let ended = self.guard.work(END, &mut || {})?;
                return Ok(ProgramDid::Ended(*ended));
            }
        }
    }

    /// The item of the next line that has one, among what was read.
    fn line(&mut self) -> Result<Option<String>, ProbeError> {
        while let Some(length) = self.read[self.at..].iter().position(|b| *b == b'\n') {
            let line = &self.read[self.at..self.at + length];
            self.at += length + 1;
            let Some(found) = self.ack.captures(line) else {
                continue;
            };
            let item = found
                .get(1)
                .or(found.get(0))
                .map_or(&b""[..], |m| m.as_bytes());
            let item = std::str::from_utf8(item).unwrap_or_default();
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
        // A line this long acknowledges nothing.
        if self.read.len() - self.at > CHUNK {
            self.at = self.read.len();
        }
        Ok(None)
    }

    /// Kills it, and all processes that it started.
    pub fn kill(mut self) -> Result<(), ProbeError> {
        self.guard.stop().map(|_| ())
    }
}

/// Whether there is something to read before `until`.
fn readable(pipe: &File, until: Instant) -> Result<bool, ProbeError> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(pipe, PollFlags::IN)];
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(n) => return Ok(n > 0),
            Err(Errno::INTR) => {}
            Err(e) => return Err(ProbeError::new(format!("the program's output: {e}"))),
        }
    }
}

fn taken(out: &Mutex<Option<OwnedFd>>) -> Option<OwnedFd> {
    out.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A directory for the temporary files of a program, which nobody else can enter. `None` where there is no place for it:
/// then the program has none.
fn room() -> Option<PathBuf> {
    let dir = Path::new("/tmp").join(format!("layermark-{:016x}", layermark_model::random()));
    DirBuilder::new().mode(0o700).create(&dir).ok()?;
    Some(dir)
}

/// Removes it.
fn clear(room: &mut Option<PathBuf>) {
    if let Some(dir) = room.take() {
        // Of a guest that ends with its memory, or of a file system that is full.
        let _ = fs::remove_dir_all(dir);
    }
}

/// Starts `sh -c COMMAND` in a directory.
fn shell(
    (dir, room): (&Path, Option<&Path>),
    command: &str,
    stdin: Option<File>,
    stdout: OwnedFd,
) -> Result<(Started, LastOutput), ProbeError> {
    let start = || -> io::Result<_> {
        let argv = ["sh", "-c", command].map(str::to_owned);
        let mut program = Program::new(&argv, None, dir.to_owned())?;
        program
            .env("PATH", PATH)
            .env("HOME", dir)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdout(stdout);
        if let Some(room) = room {
            program.env("TMPDIR", room);
        }
        if let Some(stdin) = stdin {
            program.stdin(stdin);
        }
        let said = capture_stderr(&mut program)?;
        Ok((program.prepared()?.start(monotonic_ns, &mut 0)?, said))
    };
    start().map_err(|e| ProbeError::io("start a shell in", dir, &e).hint(ELSEWHERE))
}

/// The program, for its guard.
struct Runs {
    dir: PathBuf,
    command: String,
    out: Arc<Mutex<Option<OwnedFd>>>,
    room: Option<PathBuf>,
    running: Option<(Started, LastOutput)>,
}

impl Guarded for Runs {
    /// How it ended.
    type Done = String;

    /// It is killed without a warning, as by a power cut.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    fn release(&mut self) {
        taken(&self.out);
    }

    fn prepare(&mut self, tree: &mut Tree, _: BorrowedFd<'_>) -> Result<(), ProbeError> {
        let out =
            taken(&self.out).ok_or_else(|| ProbeError::new("the program was started before"))?;
        let (started, said) = shell((&self.dir, self.room.as_deref()), &self.command, None, out)?;
        tree.main = Some(started.pid);
        self.running = Some((started, said));
        Ok(())
    }

    fn work(&mut self, tree: &mut Tree, _: BorrowedFd<'_>) -> Result<String, ProbeError> {
        let Some((started, said)) = &self.running else {
            return Err(ProbeError::new("no program was started"));
        };
        let mut fds = [PollFd::new(&started.pidfd, PollFlags::IN)];
        // Interrupted or not, what is known then is told.
        let _ = poll(&mut fds, Timespec::try_from(END).ok().as_ref());
        tree.reap();
        Ok(match tree.code {
            Some(code) => format!("it ended with exit code {code}{}", said.text()),
            None => "it closed its output".into(),
        })
    }

    fn tidy(&mut self) {
        clear(&mut self.room);
    }
}

/// Runs a check, and reads its answer.
pub fn check(job: &CheckJob) -> Result<ItemCheck, ProbeError> {
    let dir = PathBuf::from(&job.dir);
    fs::create_dir_all(&dir).map_err(|e| ProbeError::io("make", &dir, &e))?;
    let mut guard = Guard::start(Checks {
        dir,
        command: job.check.clone(),
        items: job.items.clone(),
        room: room(),
    })?;
    let said = guard.work(CHECK, &mut || {})?;
    guard.stop()?;
    Ok(*said)
}

/// A check, for its guard.
struct Checks {
    dir: PathBuf,
    command: String,
    items: Vec<String>,
    room: Option<PathBuf>,
}

impl Checks {
    /// The items, a line each.
    fn input(&self) -> io::Result<File> {
        let mut file = File::from(memfd_create("items", MemfdFlags::CLOEXEC)?);
        for item in &self.items {
            file.write_all(item.as_bytes())?;
            file.write_all(b"\n")?;
        }
        file.rewind()?;
        Ok(file)
    }

    /// All that it prints, and its exit code.
    fn run(&self, tree: &mut Tree) -> Result<(Vec<u8>, i32, String), ProbeError> {
        let failed = |e: io::Error| ProbeError::new(format!("the check's output: {e}"));
        let (pipe, out) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let (started, said) = shell(
            (&self.dir, self.room.as_deref()),
            &self.command,
            Some(self.input().map_err(failed)?),
            out,
        )?;
        tree.main = Some(started.pid);
        let (mut pipe, mut printed) = (File::from(pipe), Vec::new());
        let until = Instant::now() + CHECK;
        let too_long = || {
            ProbeError::new(format!(
                "the check did not end in {} s{}",
                CHECK.as_secs(),
                said.text()
            ))
        };
        loop {
            if !readable(&pipe, until)? {
                return Err(too_long());
            }
            let before = printed.len();
            printed.resize(before + CHUNK, 0);
            let n = pipe.read(&mut printed[before..]).map_err(failed)?;
            printed.truncate(before + n);
            if printed.len() > MOST_OUTPUT {
                let mib = MOST_OUTPUT >> 20;
                return Err(ProbeError::new(format!(
                    "the check printed more than {mib} MiB"
                )));
            }
            if n == 0 {
                break;
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(&started.pidfd, PollFlags::IN)];
        let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        tree.reap();
        let code = tree.code.ok_or_else(too_long)?;
        Ok((printed, code, said.text()))
    }
}

impl Guarded for Checks {
    type Done = ItemCheck;

    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    fn prepare(&mut self, _: &mut Tree, _: BorrowedFd<'_>) -> Result<(), ProbeError> {
        Ok(())
    }

    fn work(&mut self, tree: &mut Tree, _: BorrowedFd<'_>) -> Result<ItemCheck, ProbeError> {
        let (printed, code, said) = self.run(tree)?;
        if !(0..=1).contains(&code) {
            return Err(
                ProbeError::new(format!("the check ended with exit code {code}{said}"))
                    .hint("it has to end with 0, or with 1 where something is missing"),
            );
        }
        Ok(answer(&printed, code == 1, said))
    }

    fn tidy(&mut self) {
        clear(&mut self.room);
    }
}

/// What a check has printed: `lost ITEM` and `torn ITEM`; other lines are its own.
fn answer(printed: &[u8], fault: bool, said: String) -> ItemCheck {
    let text = String::from_utf8_lossy(printed);
    let of = |word: &str| {
        let items = text.lines().filter_map(|line| line.strip_prefix(word));
        items.map(str::to_owned).collect()
    };
    ItemCheck {
        lost: of("lost "),
        torn: of("torn "),
        fault,
        said,
    }
}

#[cfg(test)]
mod tests {
    use layermark_model::witness::CutProgram;

    use super::*;

    fn started(dir: &Path, run: &str) -> Running {
        let dir = dir.join("work").to_string_lossy().into_owned();
        Running::start(&dir, run, CutProgram::ACK).unwrap()
    }

    fn all(running: &mut Running) -> (Vec<String>, String) {
        let mut items = Vec::new();
        loop {
            match running.next().unwrap() {
                ProgramDid::Item(item) => items.push(item),
                ProgramDid::Ended(why) => return (items, why),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn lines_that_acknowledge_are_items_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let run =
            "echo ready; echo ack a; echo ack b and more; printf 'ack c'; echo gone >&2; exit 3";
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

    /// 1 GB of acknowledgements: only as much is read as is asked for.
    #[test]
    fn a_program_that_never_ends_is_killed_with_what_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let run = "(while :; do date > beat; sleep 0.01; done) & while :; do echo ack x; done";
        let mut running = started(dir.path(), run);
        for _ in 0..1000 {
            assert_eq!(running.next().unwrap(), ProgramDid::Item("x".into()));
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
        assert_eq!(running.next().unwrap(), ProgramDid::Ended(why.into()));
        let mut running = started(dir.path(), "tr '\\0' x < /dev/zero");
        assert_eq!(running.next().unwrap(), ProgramDid::Ended(why.into()));
        let mut running = started(
            dir.path(),
            "head -c 300 /dev/zero | tr '\\0' x | sed 's/^/ack /'; echo",
        );
        let wrong = running.next().unwrap_err().message;
        assert!(wrong.contains("1 to 256 bytes"), "{wrong}");
    }

    fn checked(dir: &Path, check: &str, items: &[&str]) -> Result<ItemCheck, ProbeError> {
        super::check(&CheckJob {
            dir: dir.to_string_lossy().into_owned(),
            check: check.into(),
            items: items.iter().map(|i| (*i).to_owned()).collect(),
        })
    }

    #[test]
    fn a_check_gets_the_items_and_names_those_that_are_missing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "").unwrap();
        let check = "while read -r i; do [ -e \"$i\" ] || { echo \"lost $i\"; bad=1; }; done; exit ${bad:-0}";
        let said = checked(dir.path(), check, &["a", "b", "c d"]).unwrap();
        assert_eq!(said.lost, ["b", "c d"]);
        assert!(said.fault && said.torn.is_empty());
        assert!(checked(dir.path(), check, &["a"]).unwrap().is_clean());
        let torn = checked(dir.path(), "echo torn a; echo well", &["a"]).unwrap();
        assert_eq!((torn.torn, torn.fault), (vec!["a".to_owned()], false));
    }

    #[test]
    fn a_check_that_crashes_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for (check, why) in [
            ("kill -SEGV $$", "exit code 139"),
            ("nowhere", "exit code 127"),
        ] {
            let e = checked(dir.path(), check, &["a"]).unwrap_err();
            assert!(e.message.contains(why), "{}", e.message);
        }
        let e = checked(dir.path(), "yes", &["a"]).unwrap_err();
        assert!(e.message.contains("more than 16 MiB"), "{}", e.message);
    }
}
