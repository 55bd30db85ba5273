//! Lines to and from a probe. A thread reads, so that silence can be told from work; lines and
//! their number are bounded, so that a probe gone wild cannot fill the memory.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use layermark_layers::{Control, Wire};
use layermark_model::protocol::{FromProbe, MAX_LINE, ToProbe};

use crate::Stop;

/// Lines that may wait to be looked at.
const QUEUE: usize = 64;

/// How much of a line is shown that could not be read.
const SHOWN: usize = 200;

/// How often the user's wish to stop at once is looked at while waiting.
const TICK: Duration = Duration::from_millis(100);

/// Why nothing more comes from a probe. It has to be ended after each of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the probe ended ({0})")]
    Ended(String),
    #[error("the probe was silent for {0:?}")]
    Silent(Duration),
    #[error("the probe said what cannot be understood: `{0}`")]
    Rubbish(String),
    #[error("the probe said something out of turn: {0}")]
    OutOfTurn(String),
    #[error("cut off by the user")]
    CutOff,
}

enum Line {
    Text(Vec<u8>),
    TooLong(Vec<u8>),
    End,
}

/// A conversation with one probe. Dropping it ends the probe.
pub(crate) struct Talk {
    stdin: Option<Box<dyn Write + Send>>,
    lines: Receiver<Line>,
    control: Box<dyn Control>,
    silence: Duration,
}

impl Talk {
    pub(crate) fn new(wire: Wire, silence: Duration) -> std::io::Result<Self> {
        let (sender, lines) = sync_channel(QUEUE);
        thread::Builder::new()
            .name("probe lines".into())
            .spawn(move || read_lines(wire.stdout, &sender))?;
        Ok(Self {
            stdin: Some(wire.stdin),
            lines,
            control: wire.control,
            silence,
        })
    }

    /// Process on this host whose CPU time is the probe's.
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

    /// The next line that is not `progress`. Progress is a sign of life.
    pub(crate) fn receive(&mut self, stop: &Stop) -> Result<FromProbe, Broken> {
        loop {
            match self.next(stop)? {
                FromProbe::Progress { .. } => {}
                message => return Ok(message),
            }
        }
    }

    fn next(&mut self, stop: &Stop) -> Result<FromProbe, Broken> {
        let tick = TICK.min(self.silence);
        // Counted in ticks and not by the clock: where the whole machine stood still, so did the probe.
        let mut quiet = Duration::ZERO;
        let mut how = None;
        loop {
            match self.lines.recv_timeout(tick) {
                Ok(Line::Text(line)) => {
                    return serde_json::from_slice(&line)
                        .map_err(|_| Broken::Rubbish(shown(&line)));
                }
                Ok(Line::TooLong(start)) => return Err(Broken::Rubbish(shown(&start))),
                Ok(Line::End) | Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) if stop.at_once() => return Err(Broken::CutOff),
                Err(RecvTimeoutError::Timeout) => quiet += tick,
            }
            if let Some(how) = how {
                return Err(Broken::Ended(how));
            }
            if quiet >= self.silence {
                return Err(Broken::Silent(self.silence));
            }
            // A child that it left behind may hold its output open. Its last line may still be on
            // its way, so that is waited for once more.
            how = self.control.wait(Duration::ZERO);
        }
    }

    fn ended(&mut self) -> Broken {
        // Its output is closed, so its end is near.
        let how = self.control.wait(Duration::from_secs(2));
        Broken::Ended(how.unwrap_or_else(|| "its output is closed".into()))
    }

    /// Ends the probe: it is asked to, and after half a second made to.
    pub(crate) fn end(&mut self) {
        if self.stdin.is_some() {
            let _ = self.send(&ToProbe::Quit);
            self.stdin = None;
        }
        if self.control.wait(Duration::from_millis(500)).is_none() {
            self.control.kill();
            self.control.wait(Duration::from_secs(5));
        }
    }

    /// The last lines of its standard error, to stand below an error.
    pub(crate) fn last_words(&self) -> String {
        self.control
            .tail()
            .iter()
            .fold(String::new(), |text, line| text + "\n  " + line)
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.end();
    }
}

fn read_lines(stdout: Box<dyn Read + Send>, lines: &SyncSender<Line>) {
    let mut stdout = BufReader::with_capacity(64 << 10, stdout);
    loop {
        let line = read_line(&mut stdout);
        let last = !matches!(line, Line::Text(_));
        // Nobody listens any more once the conversation has been dropped.
        if lines.send(line).is_err() || last {
            return;
        }
    }
}

fn read_line(stdout: &mut impl BufRead) -> Line {
    let mut line = Vec::new();
    loop {
        let available = match stdout.fill_buf() {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return Line::End,
        };
        if available.is_empty() {
            // What a dying probe has said by half is worth showing.
            return if line.is_empty() {
                Line::End
            } else {
                Line::TooLong(line)
            };
        }
        let end = available.iter().position(|b| *b == b'\n');
        let part = end.unwrap_or(available.len());
        if line.len() + part > MAX_LINE {
            return Line::TooLong(line);
        }
        line.extend_from_slice(&available[..part]);
        let used = end.map_or(part, |e| e + 1);
        stdout.consume(used);
        if end.is_some() {
            return Line::Text(line);
        }
    }
}

/// The beginning of a line, fit for a terminal.
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
    use super::*;

    #[test]
    fn lines_are_cut_and_bounded() {
        let mut input = &b"one\ntwo\n"[..];
        assert!(matches!(read_line(&mut input), Line::Text(l) if l == b"one"));
        assert!(matches!(read_line(&mut input), Line::Text(l) if l == b"two"));
        assert!(matches!(read_line(&mut input), Line::End));
        let mut half = &b"half"[..];
        assert!(matches!(read_line(&mut half), Line::TooLong(l) if l == b"half"));
        let mut endless = BufReader::new(std::io::repeat(b'x'));
        assert!(matches!(read_line(&mut endless), Line::TooLong(l) if l.len() <= MAX_LINE));
    }

    #[test]
    fn rubbish_is_shown_short_and_harmless() {
        assert_eq!(shown(b"a\x1b[2Jb"), "a\u{fffd}[2Jb");
        assert_eq!(shown(&[b'x'; 500]).len(), SHOWN + 3);
        assert_eq!(shown(b"\xff"), "\u{fffd}");
    }
}
