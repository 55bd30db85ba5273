//! The control connection: JSON lines between the two ends, bounded in size and time. Nothing of it
//! happens while the clock of a turn runs.

use std::{
    fmt,
    io::{self, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use layermark_model::{CpuUse, NetEnd};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{params::NetParams, place::Host};

/// A far end of another version is refused.
pub const VERSION: u32 = 1;

/// Longest line, bytes.
const LINE: usize = 16 << 10;

/// What only the two ends may know. Debug output does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl From<String> for Hidden {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Hidden {
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Compares in a time that does not depend on what is the same.
    pub fn is(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.as_bytes(), other.as_bytes());
        let differing = ours.iter().zip(theirs).fold(0, |sum, (a, b)| sum | (a ^ b));
        ours.len() == theirs.len() && std::hint::black_box(differing) == 0
    }

    /// The text of a peer without it.
    pub fn hide(&self, text: &str) -> String {
        let whole = text.replace(&self.0, "***");
        // Of one that was cut there is a part.
        let keys = ["\"secret\"", "\"token\""].map(|key| whole.find(key));
        let end = keys.into_iter().flatten().min();
        whole[..end.unwrap_or(whole.len())].to_owned()
    }
}

/// First line of every connection to the far end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "net", rename_all = "lowercase")]
pub enum Hello {
    /// This is the control connection of a trial.
    Control {
        version: u32,
        secret: Hidden,
        /// What both have to be told alike.
        params: NetParams,
        host: Host,
        /// UDP ports of the near end, one for each stream.
        ports: Vec<u16>,
    },
    /// This is one of its data connections.
    Lane { token: Hidden, number: usize },
}

/// From the near end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Ask {
    /// Are you there? Read nothing: the time to the answer is measured.
    Ping,
    /// What have you used?
    Count,
    /// So many datagrams were sent since the trial began; how many have come?
    Arrived { sent: u64 },
}

/// From the far end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// To `Control`.
    Welcome {
        /// What data connections have to say.
        token: Hidden,
        host: Host,
        /// Where connections of single transactions are taken.
        transactions: Option<u16>,
        /// Its UDP ports, one for each stream.
        ports: Vec<u16>,
    },
    /// All data connections are there.
    Ready { end: NetEnd },
    /// To `Ping`.
    Pong,
    /// To `Count`.
    Counted(Counters),
    /// To `Arrived`.
    Arrived {
        datagrams: u64,
        /// Nanoseconds from the first one since the last question to the last one.
        span_ns: u64,
    },
    /// It cannot be done.
    Refused { why: String },
}

/// What the far end has used since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub cpu: CpuUse,
    /// Bytes received over TCP streams.
    pub received: u64,
}

/// A connection that lines are read from. It reads nothing beyond a line: what follows the first one of a
/// data connection is data.
pub struct Lines {
    stream: TcpStream,
}

/// Why a line could not be read.
#[derive(Debug)]
pub enum LineError {
    /// The peer closed the connection, or the connection failed.
    Io(io::Error),
    /// Not one of ours.
    Foreign(String),
}

impl From<io::Error> for LineError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl Lines {
    pub fn new(stream: TcpStream) -> Self {
        Self { stream }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The next line, whole within the time; `None` when the peer has closed between two lines.
    pub fn next<T: DeserializeOwned>(
        &mut self,
        limit: Option<Duration>,
    ) -> Result<Option<T>, LineError> {
        let began = Instant::now();
        let (mut line, mut seen) = (Vec::with_capacity(256), [0; 1024]);
        while line.last() != Some(&b'\n') {
            let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(late(&line));
            }
            self.stream.set_read_timeout(left)?;
            let length = match self.stream.peek(&mut seen) {
                Ok(0) if line.is_empty() => return Ok(None),
                Ok(0) => return Err(foreign(&line)),
                Ok(length) => length,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(late(&line)),
                Err(e) => return Err(e.into()),
            };
            let end = seen[..length].iter().position(|byte| *byte == b'\n');
            let part = &mut seen[..end.map_or(length, |end| end + 1)];
            self.stream.read_exact(part)?;
            line.extend_from_slice(part);
            if line.len() > LINE {
                return Err(foreign(&line));
            }
        }
        serde_json::from_slice(&line)
            .map(Some)
            .map_err(|_| foreign(&line))
    }

    pub fn say(&self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        (&self.stream).write_all(&text)
    }
}

/// The time is over, in the midst of a line or before it.
fn late(line: &[u8]) -> LineError {
    if line.is_empty() {
        io::Error::from(io::ErrorKind::TimedOut).into()
    } else {
        foreign(line)
    }
}

fn foreign(line: &[u8]) -> LineError {
    let text = String::from_utf8_lossy(line);
    LineError::Foreign(text.trim_end().into())
}
