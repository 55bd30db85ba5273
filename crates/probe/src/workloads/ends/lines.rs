//! JSON lines between the two ends, bounded in size and time, and the secrets of the two ends.

use std::{
    fmt,
    io::{self, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Longest line, bytes.
const LINE: usize = 16 << 10;

/// A secret of the two ends. Debug output does not show it.
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

    /// Compares in constant time, so that the duration reveals nothing.
    pub fn is(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.as_bytes(), other.as_bytes());
        let differing = ours.iter().zip(theirs).fold(0, |sum, (a, b)| sum | (a ^ b));
        ours.len() == theirs.len() && std::hint::black_box(differing) == 0
    }

    /// A text of the peer, with the secret removed.
    pub fn hide(&self, text: &str) -> String {
        let whole = text.replace(&self.0, "***");
        // A truncated text may hold a part of it.
        let keys = ["\"secret\"", "\"token\""].map(|key| whole.find(key));
        let end = keys.into_iter().flatten().min();
        whole[..end.unwrap_or(whole.len())].to_owned()
    }
}

/// A connection from which lines are read. It reads nothing beyond a line, because data follows the
/// first line of a data connection.
pub struct Lines {
    stream: TcpStream,
}

/// Why a line could not be read.
#[derive(Debug)]
pub enum LineError {
    /// The peer closed the connection, or the connection failed.
    Io(io::Error),
    /// The line is not part of this protocol.
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

    /// The next line, complete within the time; `None` when the peer has closed the connection
    /// between two lines.
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

/// The error for a line that is missing or incomplete when the time is over.
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
