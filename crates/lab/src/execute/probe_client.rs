//! Client of a probe: exchanges lines with it. Lines are bounded, and no more is read than
//! requested, so that a faulty probe cannot fill the memory.

use std::{
    io::{ErrorKind, Read, Write},
    time::{Duration, Instant},
};

use layermark_layers::{Control, Output, Wire, in_words, served};
use layermark_model::protocol::{FromProbe, MAX_LINE, ToProbe};

use crate::Stop;

/// Bytes read at once.
const PIECE: usize = 64 << 10;

/// Characters of an unreadable line that are shown.
const SHOWN: usize = 200;

/// How long a probe may take to end after it is killed. One that waits for a server does not end.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// Interval of checks for the user's request to stop at once.
const TICK: Duration = Duration::from_millis(100);

/// Why a probe can no longer be used. After any of these it must be ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the probe ended ({0})")]
    Ended(String),
    #[error("the probe was silent for {0:?}")]
    Silent(Duration),
    #[error("the probe sent an invalid message: `{0}`")]
    Rubbish(String),
    #[error("the probe sent an unexpected message: {0}")]
    OutOfTurn(String),
    /// The probe at the other end of the work has ended. This one may wait for it for ever.
    #[error("the probe at the other end ended ({0})")]
    OtherEnded(String),
    #[error("cut off by the user")]
    CutOff,
}

/// Result of reading a line.
#[derive(Debug, PartialEq, Eq)]
enum ReadLine {
    Text(Vec<u8>),
    /// A line that is too long or incomplete: its first bytes.
    Broken(Vec<u8>),
    End,
    /// Nothing yet.
    None,
}

/// Reads lines as they arrive.
struct LineReader {
    /// `None` once output is no longer read.
    from: Option<Box<dyn Output>>,
    /// Bytes read and not yet returned.
    read: Vec<u8>,
    /// How many of these bytes are known to contain no newline.
    searched: usize,
}

impl LineReader {
    fn new(from: Box<dyn Output>) -> Self {
        Self {
            from: Some(from),
            read: Vec::new(),
            searched: 0,
        }
    }

    /// The next line. Waits up to `limit` for it.
    fn next(&mut self, limit: Duration) -> ReadLine {
        let until = Instant::now() + limit;
        loop {
            let found = self.read[self.searched..].iter().position(|b| *b == b'\n');
            let length = found.map_or(self.read.len(), |at| self.searched + at);
            if length > MAX_LINE {
                return self.broken();
            }
            if found.is_some() {
                let rest = self.read.split_off(length + 1);
                let mut line = std::mem::replace(&mut self.read, rest);
                line.pop();
                self.searched = 0;
                return ReadLine::Text(line);
            }
            self.searched = length;
            let Some(from) = self.from.as_mut() else {
                return ReadLine::End;
            };
            // Bytes that never become a line do not count as progress.
            match from.wait(until.saturating_duration_since(Instant::now())) {
                Ok(true) if length > 0 && Instant::now() >= until => return ReadLine::None,
                Ok(true) => {}
                Ok(false) => return ReadLine::None,
                Err(_) => return ReadLine::End,
            }
            // Not a longer vector: a debug build, which tests run, fills that byte by byte.
            let mut piece = vec![0; PIECE];
            let got = from.read(&mut piece);
            let n = got.as_ref().map_or(0, |n| *n);
            self.read.extend_from_slice(&piece[..n]);
            match got {
                Ok(0) if self.read.is_empty() => return ReadLine::End,
                // The incomplete last line of a failing probe is worth showing.
                Ok(0) => return self.broken(),
                Err(e) if e.kind() != ErrorKind::Interrupted => return ReadLine::End,
                _ => {}
            }
        }
    }

    fn broken(&mut self) -> ReadLine {
        self.searched = 0;
        ReadLine::Broken(std::mem::take(&mut self.read))
    }
}

/// A conversation with one probe. Dropping it ends the probe.
pub(crate) struct ProbeClient {
    stdin: Option<Box<dyn Write + Send>>,
    lines: LineReader,
    control: Box<dyn Control>,
    silence: Duration,
    /// Its answer, if it was looked for before somebody waited for it.
    heard: Option<ReadLine>,
    /// Whether the probe could be ended, once that was tried.
    ended: Option<bool>,
}

impl ProbeClient {
    pub(crate) fn new(wire: Wire, silence: Duration) -> Self {
        Self {
            stdin: Some(wire.stdin),
            lines: LineReader::new(wire.stdout),
            control: wire.control,
            silence,
            heard: None,
            ended: None,
        }
    }

    /// The probe's process on this host, if there is one.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.control.pid()
    }

    pub(crate) fn send(&mut self, message: &ToProbe) -> Result<(), Broken> {
        let mut line = serde_json::to_vec(message).map_err(|e| Broken::OutOfTurn(e.to_string()))?;
        line.push(b'\n');
        let Some(stdin) = self.stdin.as_mut() else {
            return Err(self.ended());
        };
        if stdin.write_all(&line).and_then(|()| stdin.flush()).is_err() {
            return Err(self.ended());
        }
        Ok(())
    }

    /// The next line that is not `progress`. A `progress` line restarts the time limit. `other` is
    /// the probe that this one works with.
    pub(crate) fn receive(
        &mut self,
        stop: &Stop,
        mut other: Option<&mut Self>,
    ) -> Result<FromProbe, Broken> {
        loop {
            match self.next(stop, other.as_deref_mut())? {
                FromProbe::Progress { .. } => {}
                message => return Ok(message),
            }
        }
    }

    /// Whether the probe has answered, or can no longer answer. Waits up to `limit` for that. Signs of life are no answer.
    pub(crate) fn has_answered(&mut self, limit: Duration) -> bool {
        while self.heard.is_none() {
            match self.lines.next(limit) {
                ReadLine::None => return false,
                ReadLine::Text(line) if is_progress(&line) => {}
                heard => self.heard = Some(heard),
            }
        }
        true
    }

    /// Exit status of the probe, if it ends within `limit`.
    pub(crate) fn has_ended(&mut self, limit: Duration) -> Option<String> {
        self.control.wait(limit)
    }

    fn next(&mut self, stop: &Stop, mut other: Option<&mut Self>) -> Result<FromProbe, Broken> {
        let tick = TICK.min(self.silence);
        // Counted in ticks and not by the clock, because the probe also stands still when the whole
        // machine does.
        let mut quiet = Duration::ZERO;
        let mut how = None;
        loop {
            let heard = self.heard.take();
            match heard.unwrap_or_else(|| self.lines.next(tick)) {
                ReadLine::Text(line) => {
                    return serde_json::from_slice(&line)
                        .map_err(|_| Broken::Rubbish(shown(&line)));
                }
                ReadLine::Broken(start) => return Err(Broken::Rubbish(shown(&start))),
                ReadLine::End => return Err(self.ended()),
                ReadLine::None if stop.at_once() => return Err(Broken::CutOff),
                ReadLine::None => quiet += tick,
            }
            if let Some(how) = how {
                return Err(Broken::Ended(how));
            }
            let other = other.as_mut().and_then(|o| o.has_ended(Duration::ZERO));
            if let Some(how) = other {
                return Err(Broken::OtherEnded(how));
            }
            if quiet >= self.silence {
                return Err(Broken::Silent(self.silence));
            }
            // A child of the probe may keep its output open. The last line may still be in the
            // pipe, so it is waited for once more.
            how = self.control.wait(Duration::ZERO);
        }
    }

    fn ended(&mut self) -> Broken {
        // Its output is closed, so it is about to end.
        let how = self.control.wait(Duration::from_secs(2));
        Broken::Ended(how.unwrap_or_else(|| "its output is closed".into()))
    }

    /// Asks the probe to end.
    pub(crate) fn quit(&mut self) {
        // Unread output must not keep the probe, or its guest, from ending.
        self.lines.from = None;
        if self.stdin.is_some() {
            let _ = self.send(&ToProbe::Quit);
            self.stdin = None;
        }
    }

    /// Ends the probe: requests it first, and kills it after half a second. Returns whether it has
    /// ended: one that waits in the kernel may not.
    pub(crate) fn end(&mut self) -> bool {
        if let Some(ended) = self.ended {
            return ended;
        }
        self.quit();
        let mut how = self.control.wait(Duration::from_millis(500));
        if how.is_none() {
            self.control.kill();
            how = self.control.wait(LAST_BREATH);
        }
        if how.is_none() {
            served::give_up();
        }
        *self.ended.insert(how.is_some())
    }

    /// The last lines of its standard error, to show below an error message.
    pub(crate) fn last_words(&self) -> String {
        self.control
            .tail()
            .iter()
            .fold(String::new(), |text, line| text + "\n  " + &in_words(line))
    }
}

impl Drop for ProbeClient {
    fn drop(&mut self) {
        self.end();
    }
}

fn is_progress(line: &[u8]) -> bool {
    let said = serde_json::from_slice(line);
    matches!(said, Ok(FromProbe::Progress { .. }))
}

/// The beginning of a line, safe to print on a terminal.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if line.len() > SHOWN {
        clean + "..."
    } else {
        clean
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn lines(of: impl FnOnce(&mut UnixStream) + Send + 'static) -> LineReader {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || of(&mut theirs));
        LineReader::new(Box::new(ours))
    }

    #[test]
    fn lines_are_cut_and_bounded() {
        let long = Duration::from_mins(1);
        let text = |s: &str| ReadLine::Text(s.into());
        let mut some = lines(|out| {
            out.write_all(b"one\ntw").unwrap();
            out.write_all(b"o\n\nhalf").unwrap();
        });
        for expected in [text("one"), text("two"), text("")] {
            assert_eq!(some.next(long), expected);
        }
        assert_eq!(some.next(long), ReadLine::Broken("half".into()));
        assert_eq!(some.next(long), ReadLine::End);
        let mut endless = lines(|out| while out.write_all(&[b'x'; 4096]).is_ok() {});
        let ReadLine::Broken(start) = endless.next(long) else {
            panic!("bounded");
        };
        assert!(start.len() <= MAX_LINE + PIECE, "{}", start.len());
        let mut longest = lines(|out| {
            out.write_all(&vec![b'x'; MAX_LINE]).unwrap();
            out.write_all(b"\n").unwrap();
        });
        assert!(matches!(longest.next(long), ReadLine::Text(l) if l.len() == MAX_LINE));
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut silent = LineReader::new(Box::new(ours));
        assert_eq!(silent.next(Duration::from_millis(1)), ReadLine::None);
        drop(theirs);
        assert_eq!(silent.next(Duration::from_mins(1)), ReadLine::End);
    }

    struct Nobody;

    impl Control for Nobody {
        fn pid(&self) -> Option<u32> {
            None
        }
        fn wait(&mut self, _: Duration) -> Option<String> {
            Some("gone".into())
        }
        fn kill(&mut self) {}
        fn tail(&self) -> Vec<String> {
            Vec::new()
        }
    }

    #[test]
    fn an_answer_that_was_looked_for_is_heard_once_and_signs_of_life_are_none() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut client = ProbeClient::new(
            Wire {
                stdin: Box::new(std::io::sink()),
                stdout: Box::new(ours),
                control: Box::new(Nobody),
            },
            Duration::from_secs(1),
        );
        let mut say = |message: &FromProbe| {
            let line = serde_json::to_string(message).unwrap() + "\n";
            theirs.write_all(line.as_bytes()).unwrap();
        };
        let moment = Duration::from_millis(1);
        assert!(!client.has_answered(moment));
        say(&FromProbe::Progress {
            id: 7,
            ops: 1,
            bytes: 0,
        });
        assert!(!client.has_answered(moment));
        say(&FromProbe::Ready { id: 7 });
        assert!(client.has_answered(moment) && client.has_answered(moment));
        let stop = Stop::new();
        assert_eq!(client.receive(&stop, None), Ok(FromProbe::Ready { id: 7 }));
        assert!(!client.has_answered(moment));
        drop(theirs);
        assert!(client.has_answered(moment), "its end is an answer");
        assert!(matches!(client.receive(&stop, None), Err(Broken::Ended(_))));
    }

    #[test]
    fn rubbish_is_shown_short_and_harmless() {
        assert_eq!(shown(b"a\x1b[2Jb"), "a\u{fffd}[2Jb");
        assert_eq!(shown(&[b'x'; 500]).len(), SHOWN + 3);
        assert_eq!(shown(b"\xff"), "\u{fffd}");
    }
}
