//! The correct answer, and errors of an answer.

use std::{collections::BTreeMap, io};

use hyper::StatusCode;
use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::{ProbeError, workloads::ends::error::PeerAddress};

/// The requested file: bytes from the seed.
pub fn file(seed: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// The answer expected to each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    pub status: StatusCode,
    /// `None`: a page that is generated for each request, so that its content is unknown.
    pub body: Option<Body>,
}

impl Expected {
    /// Compares an answer with the expected one.
    pub fn check(&self, status: StatusCode, body: Body) -> Result<(), Wrong> {
        if status != self.status {
            return Err(Wrong::Status(status));
        }
        let Some(expected) = self.body else {
            return Ok(());
        };
        let (length, expected_length) = (body.length, expected.length);
        if length != expected_length {
            return Err(Wrong::Length {
                length,
                expected: expected_length,
            });
        }
        (body.hash == expected.hash)
            .then_some(())
            .ok_or(Wrong::Hash)
    }
}

/// Length and hash of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    pub length: u64,
    pub hash: u64,
}

impl Body {
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            length: bytes.len() as u64,
            hash: xxh3_64(bytes),
        }
    }
}

/// A body as it arrives. A body that arrives in one piece is hashed at once, which is cheaper than
/// piece by piece.
#[derive(Default)]
pub struct Reading {
    whole: Option<Body>,
    pieces: Option<Box<Xxh3>>,
    length: u64,
}

impl Reading {
    /// Adds a piece. `whole`: the piece has the whole expected body.
    pub fn take(&mut self, piece: &[u8], whole: bool) {
        if self.length == 0 && whole {
            self.whole = Some(Body::of(piece));
        } else {
            self.pieces.get_or_insert_default().update(piece);
        }
        self.length += piece.len() as u64;
    }

    /// Number of bytes so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn body(&self) -> Body {
        match self.whole {
            Some(body) if body.length == self.length => body,
            _ => Body {
                length: self.length,
                hash: self.pieces.as_ref().map_or(0, |pieces| pieces.digest()),
            },
        }
    }
}

/// The action between a request and its answer, for messages.
pub const AWAITING: &str = "waiting for an answer";

/// The reason that a request has no correct answer.
#[derive(Debug)]
pub enum Wrong {
    /// The connection failed.
    Io(&'static str, io::Error),
    /// The server closed the connection without an answer.
    Unanswered,
    /// The server closed the connection before the answer was complete.
    Cut {
        length: u64,
    },
    Status(StatusCode),
    Length {
        length: u64,
        expected: u64,
    },
    Hash,
    /// The answer is not HTTP.
    Foreign(String),
    /// Data followed the answer.
    More,
}

impl Wrong {
    /// From an error of hyper after `length` bytes of a body.
    pub fn hyper(doing: &'static str, length: u64, e: &hyper::Error) -> Self {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(e);
        while let Some(at) = cause {
            if let Some(io) = at.downcast_ref::<io::Error>() {
                if io.kind() == io::ErrorKind::UnexpectedEof {
                    return Self::cut(doing, length);
                }
                let kind = io.kind();
                let error = io
                    .raw_os_error()
                    .map_or_else(|| kind.into(), io::Error::from_raw_os_error);
                return Self::Io(doing, error);
            }
            cause = at.source();
        }
        if e.is_incomplete_message() || e.is_closed() || e.is_canceled() {
            return Self::cut(doing, length);
        }
        if e.is_parse() {
            return Self::Foreign(e.to_string());
        }
        Self::Io(doing, io::Error::other(e.to_string()))
    }

    fn cut(doing: &'static str, length: u64) -> Self {
        if doing == AWAITING {
            Self::Unanswered
        } else {
            Self::Cut { length }
        }
    }

    /// Whether the connection ended before the header of an answer arrived.
    pub fn is_before_an_answer(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match self {
            Self::Unanswered => true,
            Self::Io(AWAITING, e) => matches!(e.kind(), BrokenPipe | ConnectionReset),
            _ => false,
        }
    }

    /// The kind of error, for counting errors of a turn.
    fn kind(&self) -> String {
        match self {
            Self::Io(doing, e) => format!("{doing}: {}", e.kind()),
            Self::Unanswered => "requests without an answer".into(),
            Self::Cut { .. } => "answers that were cut".into(),
            Self::Status(status) => format!("status {status}"),
            Self::Length { .. } => "bodies of another length".into(),
            Self::Hash => "bodies with other bytes".into(),
            Self::Foreign(_) => "answers that are not HTTP".into(),
            Self::More => "answers with data after them".into(),
        }
    }

    /// The error of the trial.
    pub fn error(&self, peer: PeerAddress) -> ProbeError {
        match self {
            Self::Io(doing, e) => peer.io(doing, e),
            Self::Unanswered => peer
                .error("closed the connection instead of an answer")
                .hint("the server ended, or gave the request up: its error log tells why"),
            Self::Cut { length } => peer
                .error(&format!("closed the connection after {length} bytes of a body"))
                .hint("the server ended, or gave the request up: its error log tells why"),
            Self::Status(status) => peer
                .error(&format!("answered with status {status}"))
                .hint("`curl -i` with the same URL shows the whole answer"),
            Self::Length { length, expected } => peer
                .error(&format!("sent a body of {length} bytes where {expected} are expected"))
                .hint("something between the two ends changes what is sent: a proxy, a filter"),
            Self::Hash => peer
                .error("sent a body of the right length with wrong bytes")
                .hint("something between the two ends changes what is sent: a proxy, a filter, bad memory"),
            Self::Foreign(why) => peer
                .error(&format!("speaks another protocol than HTTP: {why}"))
                .hint(format!(
                    "another server has the port: `ss -ltnp 'sport = :{}'` at the far end shows which",
                    peer.to.port()
                )),
            Self::More => peer
                .error("sent more than its answer has")
                .hint("the header Content-Length of the server is wrong"),
        }
    }
}

/// Errors of a turn.
#[derive(Debug, Default)]
pub struct Errors {
    first: Option<Wrong>,
    counts: BTreeMap<String, u64>,
}

impl Errors {
    pub fn add(&mut self, wrong: Wrong) {
        *self.counts.entry(wrong.kind()).or_default() += 1;
        self.first.get_or_insert(wrong);
    }

    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    pub fn merge(&mut self, other: Self) {
        for (kind, count) in other.counts {
            *self.counts.entry(kind).or_default() += count;
        }
        self.first = self.first.take().or(other.first);
    }

    /// The error that ends the trial: its other results are discarded. `answered` is the number of
    /// requests with a correct answer before it.
    pub fn error(&self, peer: PeerAddress, answered: u64) -> Option<ProbeError> {
        let first = self.first.as_ref()?.error(peer);
        let kinds = self.counts.iter();
        let kinds: Vec<String> = kinds
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        let failed = self.count();
        Some(ProbeError {
            message: format!(
                "{}; {failed} of {} requests failed ({})",
                first.message,
                answered + failed,
                kinds.join(", ")
            ),
            ..first
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_the_same_hash_however_it_comes() {
        let bytes = file(7, 10_000);
        assert_eq!(file(7, 10_000), bytes);
        assert_ne!(file(8, 10_000), bytes);
        let whole = Body::of(&bytes);
        for size in [1, 777, 9_999, 10_000] {
            let mut reading = Reading::default();
            for piece in bytes.chunks(size) {
                reading.take(piece, piece.len() == bytes.len());
            }
            assert_eq!(reading.body(), whole, "pieces of {size}");
        }
        // Data after a piece that was taken for the whole body is detected.
        let mut reading = Reading::default();
        reading.take(&bytes, true);
        reading.take(b"x", false);
        assert_ne!(reading.body(), whole);
    }
}
