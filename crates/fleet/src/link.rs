//! A launcher's process, and its pipes. Nothing listens anywhere: all is said through them.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, Read},
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc::SyncSender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    process::{Pid, Signal, kill_process_group},
};

use crate::{frame, launchers::StartCommand};

/// Lines of standard error that are kept.
const KEPT: usize = 10;
/// Characters of a foreign line that are kept.
const SHOWN: usize = 200;
/// Bytes that are no answer, after which it is told again how many there are.
const TELL_EACH: u64 = 64 << 10;
/// Labels under which foreign bytes are counted apart.
const MOST_LABELS: usize = 20_000;
/// Stack of a reader: it needs a piece and a line.
const STACK: usize = 128 << 10;
/// Bytes read at once.
const PIECE: usize = 16 << 10;
/// How long a launcher may take to end after its input was closed, or after the last word of its tasks.
pub(crate) const LAST_BREATH: Duration = Duration::from_secs(3);

/// How long it may take after it was asked to end at once.
const LAST_WORD: Duration = Duration::from_millis(500);
/// How long its status and its last words are waited for once its output has ended.
const A_MOMENT: Duration = Duration::from_secs(1);

/// What a reader has found.
#[derive(Debug)]
pub(crate) enum Found {
    /// A frame.
    Frame(Vec<u8>),
    /// So many bytes so far that are no answer, from the task with this label, and how they begin.
    Foreign {
        label: Option<u32>,
        bytes: u64,
        shown: String,
    },
    /// The output has ended.
    End,
}

/// What was found, and where and when.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) link: usize,
    pub(crate) at: Instant,
    pub(crate) found: Found,
}

/// A launcher that was started.
pub(crate) struct Link {
    stdin: Option<OwnedFd>,
    child: Option<Child>,
    errors: Arc<Mutex<VecDeque<String>>>,
    /// Reads `errors`.
    reader: Option<JoinHandle<()>>,
}

impl Link {
    /// Starts a launcher. What it says is sent to `heard` under the number `link`.
    pub(crate) fn start(
        command: &StartCommand,
        link: usize,
        heard: &SyncSender<Heard>,
    ) -> io::Result<Self> {
        let (program, arguments) = command
            .words
            .split_first()
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // The terminal's Ctrl-C is for the coordinator, which ends the round first.
            .process_group(0)
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let errors = Arc::default();
        let kept = Arc::clone(&errors);
        let reader = thread::Builder::new()
            .name("launcher errors".into())
            .stack_size(STACK)
            .spawn(move || keep_errors(stderr, &kept))?;
        let mut started = Self::over(stdin.into(), stdout, link, heard)?;
        started.child = Some(child);
        started.errors = errors;
        started.reader = Some(reader);
        Ok(started)
    }

    /// A link over pipes that are there already.
    pub(crate) fn over(
        stdin: OwnedFd,
        stdout: impl Read + Send + 'static,
        link: usize,
        heard: &SyncSender<Heard>,
    ) -> io::Result<Self> {
        // A task that does not read must not keep the coordinator from the others.
        fcntl_setfl(&stdin, fcntl_getfl(&stdin)? | OFlags::NONBLOCK)?;
        let heard = heard.clone();
        thread::Builder::new()
            .name("fleet link".into())
            .stack_size(STACK)
            .spawn(move || listen(stdout, link, &heard))?;
        Ok(Self {
            stdin: Some(stdin),
            child: None,
            errors: Arc::default(),
            reader: None,
        })
    }

    /// Writes a line. Waits up to `limit` for room in the pipe.
    pub(crate) fn send(&mut self, line: &[u8], limit: Duration) -> io::Result<()> {
        let stdin = self.stdin.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        let until = Instant::now() + limit;
        let mut left = line;
        while !left.is_empty() {
            match rustix::io::write(stdin, left) {
                Ok(n) => left = &left[n..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let now = Instant::now();
                    let wait = until.checked_duration_since(now);
                    let wait = wait.ok_or(io::ErrorKind::TimedOut)?;
                    let wait = Timespec {
                        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                        tv_nsec: wait.subsec_nanos().into(),
                    };
                    let mut fds = [PollFd::new(stdin, PollFlags::OUT)];
                    rustix::io::retry_on_intr(|| poll(&mut fds, Some(&wait)))?;
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// How the launcher ended, and its last words on standard error. Waits a moment for both.
    pub(crate) fn end_in_words(&mut self) -> String {
        let how = match &mut self.child {
            None => "its pipe was closed".into(),
            Some(child) => match wait(child, A_MOMENT) {
                Some(status) => format!("its launcher ended ({status})"),
                None => "its launcher closed its output".into(),
            },
        };
        // What it started may keep the pipe open for as long as it likes.
        let read = |reader: &JoinHandle<()>| reader.is_finished().then_some(());
        let _ = within(A_MOMENT, || self.reader.as_ref().map_or(Some(()), read));
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let said: Vec<&str> = errors.iter().map(String::as_str).collect();
        if said.is_empty() {
            how
        } else {
            format!("{how}: {}", said.join("; "))
        }
    }

    /// Kills the launcher.
    pub(crate) fn kill(&mut self) {
        self.stdin = None;
        if let Some(child) = &self.child {
            signal(child, Signal::KILL);
        }
    }

    /// Waits for the launcher until then, since its tasks remove their directories; kills one that does not end.
    pub(crate) fn end(&mut self, until: Instant) {
        self.close();
        let Some(mut child) = self.child.take() else {
            return;
        };
        let left = until.saturating_duration_since(Instant::now());
        if wait(&mut child, left).is_none() {
            // A launcher passes it on to tasks elsewhere.
            signal(&child, Signal::TERM);
            if wait(&mut child, LAST_WORD).is_none() {
                signal(&child, Signal::KILL);
                let _ = child.wait();
            }
        }
    }

    /// Whether the launcher has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Closes the launcher's input.
    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end(Instant::now() + LAST_BREATH);
    }
}

/// Sends a signal to the launcher and what it has started here.
fn signal(child: &Child, signal: Signal) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, signal);
    }
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    within(limit, || child.try_wait().ok().flatten())
}

/// Asks until there is an answer, for that long.
fn within<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= until {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Reads lines, none longer than a frame may be, and sends what they are.
fn listen(output: impl Read, link: usize, heard: &SyncSender<Heard>) {
    let tell = |found| {
        let at = Instant::now();
        heard.send(Heard { link, at, found }).is_ok()
    };
    let mut foreign = BTreeMap::<Option<u32>, Foreign>::new();
    each_line(output, |line, whole| {
        if whole && frame::read(line).is_some() {
            return tell(Found::Frame(line.to_vec()));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return true;
        }
        let label = label_of(line)
            .filter(|l| foreign.contains_key(&Some(*l)) || foreign.len() < MOST_LABELS);
        let of = foreign.entry(label).or_default();
        if of.bytes == 0 {
            of.shown = shown(line);
        }
        of.bytes += line.len() as u64 + 1;
        if of.bytes < of.told + TELL_EACH && of.told > 0 {
            return true;
        }
        of.told = of.bytes;
        tell(Found::Foreign {
            label,
            bytes: of.bytes,
            shown: of.shown.clone(),
        })
    });
    tell(Found::End);
}

/// Foreign bytes under one label.
#[derive(Default)]
struct Foreign {
    bytes: u64,
    told: u64,
    shown: String,
}

/// Calls `line` with each line, or with each piece of one that is too long and then not `whole`. Ends when that returns
/// `false`, or at the end.
fn each_line(mut output: impl Read, mut line: impl FnMut(&[u8], bool) -> bool) {
    const MOST: usize = frame::LONGEST + 20;
    let mut piece = vec![0; PIECE];
    let mut kept: Vec<u8> = Vec::with_capacity(MOST);
    let mut cut = false;
    loop {
        let n = match output.read(&mut piece) {
            Ok(0) => return,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let mut rest = &piece[..n];
        while !rest.is_empty() {
            let end = rest.iter().position(|b| *b == b'\n');
            let room = MOST - kept.len();
            let take = end.unwrap_or(rest.len()).min(room);
            kept.extend_from_slice(&rest[..take]);
            rest = &rest[take..];
            let ended = rest.first() == Some(&b'\n');
            if ended || kept.len() == MOST {
                if !line(&kept, ended && !cut) {
                    return;
                }
                kept.clear();
                cut = !ended;
            }
            if ended {
                rest = &rest[1..];
            }
        }
    }
}

/// The number that a launcher has put before a line.
fn label_of(line: &[u8]) -> Option<u32> {
    let colon = line.iter().take(8).position(|b| *b == b':')?;
    std::str::from_utf8(&line[..colon])
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// The beginning of a line, safe to print.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let clean = text.chars().take(SHOWN);
    clean
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// Keeps the last lines of standard error.
fn keep_errors(errors: impl Read, kept: &Mutex<VecDeque<String>>) {
    each_line(errors, |line, _| {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(shown(line));
        true
    });
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn foreign_output_is_counted_and_thrown_away() {
        let (send, heard) = sync_channel(16);
        let (ours, theirs) = io::pipe().unwrap();
        let (unused, _keep) = io::pipe().unwrap();
        let _link = Link::over(unused.into(), ours, 3, &send).unwrap();
        drop(send);
        thread::Builder::new()
            .spawn(move || {
                use io::Write;
                let mut theirs = theirs;
                theirs.write_all(b"motd\n1: @lm 1 0. {}\n").unwrap();
                // One line of 64 MB, and many short ones.
                let piece = vec![b'x'; 1 << 20];
                for _ in 0..64 {
                    theirs.write_all(&piece).unwrap();
                }
                theirs.write_all(b"\n@lm 1 1. {}\n").unwrap();
            })
            .unwrap();
        let (mut frames, mut most, mut first) = (0, 0, String::new());
        for heard in heard {
            assert_eq!(heard.link, 3);
            match heard.found {
                Found::Frame(_) => frames += 1,
                Found::Foreign {
                    bytes,
                    shown,
                    label,
                } => {
                    assert_eq!(label, None);
                    (most, first) = (bytes, shown);
                }
                Found::End => break,
            }
        }
        assert_eq!((frames, &*first), (2, "motd"));
        assert!(most > 63 << 20, "{most}");
    }

    #[test]
    fn last_words_that_come_after_the_end_are_heard() {
        let (send, heard) = sync_channel(16);
        let late = "(exec >&-; sleep 0.2; echo no such node >&2) & exit 3";
        let command = StartCommand {
            words: ["sh", "-c", late].map(Into::into).to_vec(),
            tasks: vec![(0, None)],
        };
        let mut link = Link::start(&command, 0, &send).unwrap();
        while !matches!(heard.recv().unwrap().found, Found::End) {}
        let said = link.end_in_words();
        assert_eq!(said, "its launcher ended (exit status: 3): no such node");
    }

    #[test]
    fn a_task_that_does_not_read_is_not_waited_for() {
        let (send, _heard) = sync_channel(1);
        let (theirs, ours) = io::pipe().unwrap();
        let (nothing, _keep) = io::pipe().unwrap();
        let mut link = Link::over(ours.into(), nothing, 0, &send).unwrap();
        let begun = Instant::now();
        let long = vec![b'x'; 1 << 20];
        let e = link.send(&long, Duration::from_millis(50)).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(5));
        drop(theirs);
        assert!(link.send(b"x", Duration::from_millis(50)).is_err());
    }
}
