//! Replies of an FTP server (RFC 959, section 4.2), bounded in size. Nothing is allocated for a short one.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

/// Longest reply, bytes.
const REPLY: usize = 16 << 10;

/// A control connection on the client's side.
pub struct Replies {
    stream: TcpStream,
    /// Received bytes that are not yet part of a reply.
    ahead: Vec<u8>,
    text: Vec<u8>,
}

/// The reason for a missing reply.
#[derive(Debug)]
pub enum ReplyError {
    Io(io::Error),
    /// The server has closed the connection.
    Closed,
    /// Not a reply of FTP.
    Foreign(String),
}

impl From<io::Error> for ReplyError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl Replies {
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            ahead: Vec::with_capacity(REPLY),
            text: Vec::with_capacity(REPLY),
        }
    }

    /// Sets how long it waits for a piece of a reply.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))
    }

    /// Sends a line.
    pub fn say(&mut self, line: &[&str]) -> io::Result<()> {
        self.text.clear();
        for word in line {
            self.text.extend_from_slice(word.as_bytes());
        }
        self.text.extend_from_slice(b"\r\n");
        (&self.stream).write_all(&self.text)
    }

    /// The code of the next reply, whose last line is [`Self::text`].
    pub fn next(&mut self) -> Result<u16, ReplyError> {
        let mut seen = 0;
        let first = self.line(&mut seen)?;
        // `123-` begins a reply of several lines; its last line begins with `123 `.
        let more = first.is_some() && self.text.get(3) == Some(&b'-');
        while more && (self.line(&mut seen)? != first || self.text.get(3) == Some(&b'-')) {}
        first.ok_or_else(|| ReplyError::Foreign(self.text()))
    }

    /// The last line that was read, until the next is sent.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).trim_end().into()
    }

    /// Reads a line. Returns the code at its beginning, if there is one.
    fn line(&mut self, seen: &mut usize) -> Result<Option<u16>, ReplyError> {
        loop {
            if let Some(end) = self.ahead.iter().position(|byte| *byte == b'\n') {
                self.text.clear();
                self.text.extend(self.ahead.drain(..=end));
                *seen += self.text.len();
                if *seen > REPLY {
                    return Err(ReplyError::Foreign(self.text()));
                }
                return Ok(code(&self.text));
            }
            if self.ahead.len() >= REPLY {
                return Err(self.foreign());
            }
            let mut piece = [0; 1024];
            match self.stream.read(&mut piece) {
                Ok(0) if self.ahead.is_empty() => return Err(ReplyError::Closed),
                Ok(0) => return Err(self.foreign()),
                Ok(n) => self.ahead.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // An incomplete line.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && !self.ahead.is_empty() => {
                    return Err(self.foreign());
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn foreign(&self) -> ReplyError {
        ReplyError::Foreign(String::from_utf8_lossy(&self.ahead).into())
    }
}

/// Three digits, and a space or a hyphen.
fn code(line: &[u8]) -> Option<u16> {
    let (digits, rest) = line.split_at_checked(3)?;
    let number = digits.iter().all(u8::is_ascii_digit);
    let ends = matches!(rest.first(), Some(b' ' | b'-' | b'\r' | b'\n'));
    (number && ends).then(|| {
        digits
            .iter()
            .fold(0, |sum, d| sum * 10 + u16::from(d - b'0'))
    })
}

/// The port of a reply to EPSV: `229 words (|||PORT|)` (RFC 2428).
pub fn extended(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once('(')?;
    let inner = rest.split_once(')')?.0;
    let mark = inner.chars().next()?;
    let fields: Vec<&str> = inner.split(mark).collect();
    match fields[..] {
        ["", "", "", port, ""] => port.parse().ok().filter(|port| *port > 0),
        _ => None,
    }
}

/// The address of a reply to PASV: `227 words (h1,h2,h3,h4,p1,p2)`.
pub fn passive(text: &str) -> Option<SocketAddr> {
    let (_, rest) = text.split_once('(')?;
    let inner = rest.split_once(')')?.0;
    let fields: Vec<u8> = inner
        .split(',')
        .map_while(|f| f.trim().parse().ok())
        .collect();
    match fields[..] {
        [a, b, c, d, high, low] => {
            let port = u16::from_be_bytes([high, low]);
            let address = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
            (port > 0).then(|| SocketAddr::new(address, port))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread, time::Duration};

    use super::*;

    /// The replies in these bytes.
    fn read(bytes: &'static [u8]) -> Vec<Result<(u16, String), String>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            // In pieces, as a network may deliver them.
            for piece in bytes.chunks(7) {
                let _ = stream.write_all(piece);
            }
        });
        let stream = TcpStream::connect(to).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut replies = Replies::new(stream);
        let mut all = Vec::new();
        loop {
            match replies.next() {
                Ok(code) => all.push(Ok((code, replies.text()))),
                Err(ReplyError::Closed) => break,
                Err(ReplyError::Foreign(line)) => {
                    all.push(Err(line));
                    break;
                }
                Err(ReplyError::Io(e)) => panic!("{e}"),
            }
        }
        drop(replies);
        server.join().unwrap();
        all
    }

    #[test]
    fn replies_of_one_line_and_of_many_are_read() {
        let all = read(
            b"220 ready\r\n211-Features:\r\n SIZE\r\n226 no end\r\n211-more\r\n211 End\r\n230\r\n",
        );
        let texts: Vec<_> = all.into_iter().map(Result::unwrap).collect();
        let expected = [(220, "220 ready"), (211, "211 End"), (230, "230")];
        assert_eq!(texts, expected.map(|(code, text)| (code, text.to_owned())));
    }

    #[test]
    fn what_is_no_reply_is_shown() {
        assert_eq!(read(b"SSH-2.0-x\r\n"), [Err("SSH-2.0-x".to_owned())]);
        assert_eq!(
            read(b"220 ready\r\n22"),
            [Ok((220, "220 ready".into())), Err("22".into())]
        );
        assert!(read(Box::leak(vec![b'x'; REPLY + 1].into_boxed_slice()))[0].is_err());
    }

    #[test]
    fn addresses_of_data_connections_are_read() {
        assert_eq!(
            extended("229 Entering Extended Passive Mode (|||47436|)"),
            Some(47436)
        );
        assert_eq!(extended("229 (!!!21!)"), Some(21));
        for bad in [
            "229 ok",
            "229 (|||0|)",
            "229 (|1|10.0.0.1|21|)",
            "229 (|||70000|)",
            "229 (",
            "229 ()",
        ] {
            assert_eq!(extended(bad), None, "{bad}");
        }
        let at = passive("227 Entering Passive Mode (10,77,0,2,200,10).").unwrap();
        assert_eq!(at.to_string(), "10.77.0.2:51210");
        for bad in [
            "227 ok",
            "227 (1,2,3,4,5)",
            "227 (1,2,3,4,0,0)",
            "227 (1,2,3,400,5,6)",
            "227 (1,2,3,4,5,6,7)",
        ] {
            assert_eq!(passive(bad), None, "{bad}");
        }
    }
}
