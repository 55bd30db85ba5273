//! The client: a control connection that is logged in, and transfers over it, in passive mode and binary
//! (RFC 959, 2428, 3659).

use std::{
    io,
    net::{SocketAddr, TcpStream},
};

use serde::{Deserialize, Serialize};

use super::{
    content::{Content, PIECE, Received, Room, Tick, touched},
    replies::{self, Replies, ReplyError},
};
use crate::{
    ProbeError,
    clock::monotonic_ns,
    workloads::ends::{
        error::PeerAddress,
        lines::{Hidden, LineError},
    },
};

/// Login data of a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Login {
    pub user: String,
    pub password: Hidden,
    /// Prefix of file names: empty, or a directory and a slash.
    pub folder: String,
}

impl Login {
    fn password_text(&self) -> &str {
        str::from_utf8(self.password.as_bytes()).unwrap_or_default()
    }
}

/// Durations of the phases of a transfer, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Phases {
    /// Until the data connection.
    pub passive: u64,
    /// From the command to the first byte, or to the permission to send it.
    pub first_byte: u64,
    /// Until the last byte.
    pub data: u64,
    /// Until the reply that the transfer is complete.
    pub complete: u64,
}

/// A client that is logged in.
pub struct Session {
    replies: Replies,
    peer: PeerAddress,
    password: Hidden,
    folder: String,
    /// Whether the server does not support EPSV.
    old: bool,
    piece: Vec<u8>,
    pub connect_ns: u64,
    pub login_ns: u64,
}

/// The time limit of a reply after a flush is this many times longer than that of others. It must
/// stay below the minute after which a silent probe counts as hung.
const FLUSH: u32 = 10;

impl Session {
    /// Connects and logs in.
    pub fn open(peer: PeerAddress, login: &Login) -> Result<Self, ProbeError> {
        let began = monotonic_ns();
        let stream = connect(peer, peer.to).map_err(|e| peer.io("connecting", &e))?;
        let mut session = Self {
            replies: Replies::new(stream),
            peer,
            password: login.password.clone(),
            folder: login.folder.clone(),
            old: false,
            piece: touched(PIECE as u64),
            connect_ns: 0,
            login_ns: 0,
        };
        session.reply("the greeting", &[220])?;
        let connected = monotonic_ns();
        session.connect_ns = connected - began;
        session.say("USER", &["USER ", &login.user])?;
        if session.reply("the reply to USER", &[331, 230])? == 331 {
            session.say("PASS", &["PASS ", login.password_text()])?;
            session.reply("the reply to PASS", &[230, 202])?;
        }
        session.login_ns = monotonic_ns() - connected;
        session.say("TYPE", &["TYPE I"])?;
        session.reply("the reply to TYPE", &[200])?;
        Ok(session)
    }

    /// Size of a file, bytes (RFC 3659).
    pub fn size(&mut self, name: &str) -> Result<u64, ProbeError> {
        self.say_of("SIZE ", name)?;
        self.reply("the reply to SIZE", &[213])?;
        let text = self.replies.text();
        let size = text.split_whitespace().nth(1).and_then(|s| s.parse().ok());
        size.ok_or_else(|| self.peer.error(&format!("answered SIZE with {text:?}")))
    }

    /// Gets a file. The caller runs the clock.
    pub fn get(
        &mut self,
        name: &str,
        room: Room,
        tick: &mut Tick<'_>,
    ) -> Result<(Received, Phases), ProbeError> {
        let began = monotonic_ns();
        let data = self.passive()?;
        let connected = monotonic_ns();
        self.say_of("RETR ", name)?;
        self.reply("the reply to RETR", &[150, 125])?;
        let received = room.receive(&data, &mut self.piece, tick);
        let received = received.map_err(|e| self.peer.io("receiving a file", &e))?;
        let last = monotonic_ns();
        // Some servers wait until their last byte is acknowledged, which the kernel delays by 40 ms while
        // this end is open.
        drop(data);
        self.reply("the end of RETR", &[226, 250])?;
        // For an empty file the end is the first event.
        let first = if received.bytes == 0 {
            last
        } else {
            received.first_ns
        };
        let phases = Phases {
            passive: connected - began,
            first_byte: first.saturating_sub(connected),
            data: last.saturating_sub(first),
            complete: monotonic_ns() - last,
        };
        Ok((received, phases))
    }

    /// Puts a file.
    pub fn put(
        &mut self,
        name: &str,
        content: &Content,
        tick: &mut Tick<'_>,
    ) -> Result<Phases, ProbeError> {
        let began = monotonic_ns();
        let data = self.passive()?;
        let connected = monotonic_ns();
        self.say_of("STOR ", name)?;
        self.reply("the reply to STOR", &[150, 125])?;
        let allowed = monotonic_ns();
        let sent = content.send(&data, tick);
        sent.map_err(|e| self.peer.io("sending a file", &e))?;
        drop(data);
        let last = monotonic_ns();
        self.stored()?;
        Ok(Phases {
            passive: connected - began,
            first_byte: allowed - connected,
            data: last - allowed,
            complete: monotonic_ns() - last,
        })
    }

    /// Waits until the server has stored a file, which it may flush first.
    fn stored(&mut self) -> Result<(), ProbeError> {
        let patience = self.peer.patience;
        self.peer.patience = patience * FLUSH;
        let waits = self.replies.set_patience(self.peer.patience);
        let stored = waits
            .map_err(|e| self.peer.io("waiting for the end of STOR", &e))
            .and_then(|()| self.reply("the end of STOR", &[226, 250]));
        self.peer.patience = patience;
        stored?;
        let waits = self.replies.set_patience(patience);
        waits.map_err(|e| self.peer.io("waiting for replies", &e))
    }

    /// Opens a data connection, only to the server's own address.
    fn passive(&mut self) -> Result<TcpStream, ProbeError> {
        let own = self.peer.to.ip();
        let mut at = None;
        if !self.old {
            self.say("EPSV", &["EPSV"])?;
            match self.reply("the reply to EPSV", &[229, 500, 501, 502, 522])? {
                229 => {
                    let port = replies::extended(&self.replies.text());
                    at = Some(port.map(|port| SocketAddr::new(own, port)));
                }
                _ => self.old = true,
            }
        }
        if self.old {
            self.say("PASV", &["PASV"])?;
            self.reply("the reply to PASV", &[227])?;
            at = Some(replies::passive(&self.replies.text()));
        }
        let Some(Some(at)) = at else {
            let text = self.shown();
            return Err(self
                .peer
                .error(&format!("names no port for data: it said {text:?}")));
        };
        if at.ip() != own {
            return Err(self
                .peer
                .error(&format!(
                    "wants the data to come from another host, {at}: refused"
                ))
                .hint("the server is behind a translation of addresses: let it answer EPSV"));
        }
        connect(self.peer, at).map_err(|e| self.peer.io("making the data connection", &e))
    }

    fn say(&mut self, command: &str, line: &[&str]) -> Result<(), ProbeError> {
        let said = self.replies.say(line);
        said.map_err(|e| self.peer.io(&format!("sending {command}"), &e))
    }

    /// Sends a command with a file name.
    fn say_of(&mut self, command: &str, name: &str) -> Result<(), ProbeError> {
        let said = self.replies.say(&[command, &self.folder, name]);
        said.map_err(|e| self.peer.io(&format!("sending {}", command.trim_end()), &e))
    }

    /// The code of the next reply, which must be one of these.
    fn reply(&mut self, what: &str, codes: &[u16]) -> Result<u16, ProbeError> {
        let error = match self.replies.next() {
            Ok(code) if codes.contains(&code) => return Ok(code),
            Ok(530) if what.ends_with("PASS") => self
                .peer
                .error(&format!("refused the login: {}", self.shown()))
                .hint("the server is not the one that this trial has started, or it changed its accounts"),
            Ok(_) => self.peer.error(&format!("said {:?} instead of {what}", self.shown())),
            Err(ReplyError::Io(e)) => self.peer.io(&format!("waiting for {what}"), &e),
            Err(ReplyError::Closed) => {
                let e = io::ErrorKind::ConnectionReset.into();
                self.peer.io(&format!("waiting for {what}"), &e)
            }
            Err(ReplyError::Foreign(line)) => {
                let line = self.password.hide(&line);
                self.peer.answer(Some(LineError::Foreign(line)))
            }
        };
        Err(error)
    }

    /// The last reply, with the password hidden.
    fn shown(&self) -> String {
        let text = self.password.hide(&self.replies.text());
        text.chars().take(100).collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Saves the server a time-out.
        let _ = self.replies.say(&["QUIT"]);
    }
}

/// A connection on which no call waits longer than the peer may be silent.
fn connect(peer: PeerAddress, to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, peer.patience)?;
    stream.set_read_timeout(Some(peer.patience))?;
    stream.set_write_timeout(Some(peer.patience))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
