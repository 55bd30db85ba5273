//! Ready when it answers a request with success (2xx) or a redirection (3xx).

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use super::{
    Ready, ReadyEvent, ReadyKind, Scene, WAKE_NS,
    port::{EVERY_NS, unheard},
};
use crate::ProbeError;

const PATIENCE: Duration = Duration::from_millis(50);
/// A status line is shorter than this, bytes.
const LONGEST: usize = 8192;

/// `http=URL`
pub struct Http;

impl ReadyKind for Http {
    fn id(&self) -> &'static str {
        "http"
    }
    fn value(&self) -> &'static str {
        "URL"
    }
    fn optional(&self) -> bool {
        false
    }
    fn check(&self, value: &str) -> Result<(), String> {
        split(value).map(drop)
    }
    fn error_ns(&self) -> u64 {
        EVERY_NS + WAKE_NS
    }
    fn arm(&self, value: &str, _: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
        let (host, path) = split(value).map_err(ProbeError::new)?;
        let name = if host.contains(':') && !host.ends_with(']') {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        let found = name.to_socket_addrs().ok().and_then(|mut all| all.next());
        let at =
            found.ok_or_else(|| ProbeError::new(format!("cannot find the host of {value}")))?;
        unheard(at)?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAccept: */*\r\n\r\n"
        );
        Ok(Box::new(Answers {
            at,
            request,
            asked: None,
            answer: Vec::new(),
        }))
    }
}

/// Host with port, and path.
fn split(url: &str) -> Result<(&str, &str), String> {
    let rest = url.strip_prefix("http://").ok_or("use an http:// URL")?;
    if rest.chars().any(|c| c.is_control() || c == ' ') {
        return Err("a URL has no spaces".into());
    }
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if host.is_empty() {
        return Err("it names no host".into());
    }
    Ok((host, if path.is_empty() { "/" } else { path }))
}

struct Answers {
    at: SocketAddr,
    request: String,
    asked: Option<TcpStream>,
    answer: Vec<u8>,
}

impl Answers {
    fn ask(&mut self) -> Option<TcpStream> {
        self.answer.clear();
        let mut stream = TcpStream::connect_timeout(&self.at, PATIENCE).ok()?;
        stream.write_all(self.request.as_bytes()).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(stream)
    }
}

impl Ready for Answers {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.asked.iter().map(AsFd::as_fd).collect()
    }
    fn every_ns(&self) -> Option<u64> {
        self.asked.is_none().then_some(EVERY_NS)
    }
    fn look(&mut self) -> Result<Option<ReadyEvent>, ProbeError> {
        let now = ReadyEvent::now();
        let Some(stream) = &mut self.asked else {
            self.asked = self.ask();
            return Ok(None);
        };
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk) {
            Ok(n) if n > 0 => self.answer.extend_from_slice(&chunk[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(None);
            }
            _ => self.asked = None,
        }
        match status(&self.answer) {
            Some(200..=399) => Ok(Some(now)),
            // Not ready yet: sends another request.
            Some(_) => {
                self.asked = None;
                Ok(None)
            }
            None => {
                if self.answer.len() > LONGEST {
                    self.asked = None;
                }
                Ok(None)
            }
        }
    }
}

/// The status code of a complete status line.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|b| *b == b'\n').next()?;
    if line.len() == answer.len() {
        return None;
    }
    let text = std::str::from_utf8(line).ok()?;
    text.strip_prefix("HTTP/")?
        .split(' ')
        .nth(1)?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_urls_and_status_lines() {
        assert_eq!(split("http://a:1/b?c"), Ok(("a:1", "/b?c")));
        assert_eq!(split("http://a"), Ok(("a", "/")));
        assert!(split("https://a").is_err() && split("http:///x").is_err());
        assert!(split("http://a/x y").is_err());
        assert_eq!(status(b"HTTP/1.1 200 OK\r\n"), Some(200));
        assert_eq!(status(b"HTTP/1.1 503\r\n"), Some(503));
        assert_eq!(status(b"HTTP/1.1 20"), None);
        assert_eq!(status(b"SSH-2.0\r\n"), None);
    }
}
