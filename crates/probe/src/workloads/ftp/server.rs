//! Our own server: one file to get, or any number to put, in passive mode and binary. It serves
//! only clients that send the trial's user and password.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    path::PathBuf,
    sync::Mutex,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    content::{Content, PIECE, Received, Room, Sum, Tick, touched},
    params::Sink,
    session::Login,
};
use crate::workloads::ends::{PATIENCE, lines::Hidden, lock};

/// Name of the file to get.
pub const FILE: &str = "file";

/// Longest command, bytes.
const COMMAND: u64 = 512;

/// The content of the server.
pub struct Site {
    pub login: Login,
    /// The content to get.
    pub content: Option<Content>,
    /// Destination of files that are put.
    pub sink: Sink,
    /// Length of files that are put, bytes.
    pub length: u64,
    /// Directory of files that are put.
    pub dir: PathBuf,
    /// Files that were put and not yet verified.
    pub stored: Mutex<BTreeMap<String, Received>>,
    /// Memory for reuse.
    pub spare: Mutex<Vec<Vec<u8>>>,
}

impl Site {
    /// Serves a connection until either side ends it.
    pub fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut visit = Visit {
            site: self,
            input: BufReader::new(stream),
            stream,
            local: stream.local_addr()?.ip(),
            from: stream.peer_addr()?.ip(),
            user: String::new(),
            known: false,
            data: None,
            piece: Vec::new(),
        };
        visit.reply("220 layermark")?;
        while let Some(line) = visit.command()? {
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            if !visit.obey(&word.to_ascii_uppercase(), rest)? {
                break;
            }
        }
        Ok(())
    }

    /// Removes a file that was put. Returns its length and hash.
    pub fn take(&self, name: &str, tick: &mut Tick<'_>) -> io::Result<Sum> {
        let received = lock(&self.stored).remove(name);
        let received = received.ok_or(io::ErrorKind::NotFound)?;
        let (sum, memory) = received.sum(tick)?;
        lock(&self.spare).extend(memory);
        Ok(sum)
    }
}

/// One control connection.
struct Visit<'a> {
    site: &'a Site,
    input: BufReader<&'a TcpStream>,
    stream: &'a TcpStream,
    local: IpAddr,
    from: IpAddr,
    user: String,
    known: bool,
    /// Listener for the next data connection.
    data: Option<TcpListener>,
    piece: Vec<u8>,
}

impl Visit<'_> {
    /// The next command; `None` at the end.
    fn command(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::with_capacity(64);
        let mut bounded = (&mut self.input).take(COMMAND);
        bounded.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line);
        Ok(Some(text.trim_end().into()))
    }

    fn reply(&mut self, line: &str) -> io::Result<()> {
        self.stream.write_all(format!("{line}\r\n").as_bytes())
    }

    /// Carries out a command. Returns whether the connection stays open.
    fn obey(&mut self, word: &str, rest: &str) -> io::Result<bool> {
        match word {
            "USER" => {
                rest.clone_into(&mut self.user);
                self.reply("331 Password, please")?;
            }
            "PASS" => {
                let Login { user, password, .. } = &self.site.login;
                self.known = self.user == *user && password.is(&Hidden::from(rest.to_owned()));
                if !self.known {
                    self.reply("530 Login incorrect")?;
                    return Ok(false);
                }
                // Between two turns no command arrives.
                self.stream.set_read_timeout(None)?;
                self.reply("230 Welcome")?;
                self.piece = touched(PIECE as u64);
            }
            "QUIT" => {
                self.reply("221 Goodbye")?;
                return Ok(false);
            }
            _ if !self.known => self.reply("530 Log in first")?,
            "NOOP" | "MODE" | "STRU" => self.reply("200 Fine")?,
            "SYST" => self.reply("215 UNIX Type: L8")?,
            "FEAT" => self.reply("211-Features:\r\n EPSV\r\n SIZE\r\n211 End")?,
            "PWD" => self.reply("257 \"/\" is the only directory")?,
            "CWD" if rest == "/" => self.reply("250 Fine")?,
            "TYPE" if matches!(rest, "I" | "i" | "L 8") => self.reply("200 Binary")?,
            "TYPE" => self.reply("504 Binary only: TYPE I")?,
            "EPSV" | "PASV" => self.listen(word == "EPSV")?,
            "SIZE" => match self.site.content.as_ref().filter(|_| file(rest)) {
                Some(content) => self.reply(&format!("213 {}", content.length))?,
                None => self.reply("550 No such file")?,
            },
            "RETR" => self.send(rest)?,
            "STOR" => self.store(rest)?,
            _ => self.reply("502 Not implemented")?,
        }
        Ok(true)
    }

    /// Listens for a data connection, at the address of the control connection.
    fn listen(&mut self, extended: bool) -> io::Result<()> {
        let listener = TcpListener::bind(SocketAddr::new(self.local, 0))?;
        let port = listener.local_addr()?.port();
        let [high, low] = port.to_be_bytes();
        self.data = Some(listener);
        match self.local {
            _ if extended => self.reply(&format!("229 Extended passive mode (|||{port}|)")),
            IpAddr::V4(own) => {
                let [a, b, c, d] = own.octets();
                self.reply(&format!("227 Passive mode ({a},{b},{c},{d},{high},{low})"))
            }
            IpAddr::V6(_) => self.reply("522 Use EPSV"),
        }
    }

    /// The data connection. Only the client's host may connect.
    fn accept(&mut self) -> io::Result<Option<TcpStream>> {
        let Some(listener) = self.data.take() else {
            return Ok(None);
        };
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Ok(None);
            }
            let mut fds = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
            match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
                Ok(_) => {}
            }
            let (stream, from) = listener.accept()?;
            if from.ip() == self.from {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(Some(stream));
            }
        }
    }

    fn send(&mut self, name: &str) -> io::Result<()> {
        let Some(content) = self.site.content.as_ref().filter(|_| file(name)) else {
            return self.reply("550 No such file");
        };
        let Some(data) = self.accept()? else {
            return self.reply("425 No data connection");
        };
        self.reply(&format!("150 {} bytes", content.length))?;
        let sent = content.send(&data, &mut || {});
        drop(data);
        self.ended(sent)
    }

    fn store(&mut self, name: &str) -> io::Result<()> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let free = !lock(&self.site.stored).contains_key(name);
        if self.site.content.is_some() || name.is_empty() || !name.chars().all(plain) || !free {
            return self.reply("553 Not under that name");
        }
        let Some(data) = self.accept()? else {
            return self.reply("425 No data connection");
        };
        let Site {
            sink,
            length,
            dir,
            spare,
            ..
        } = self.site;
        let memory = lock(spare).pop();
        let room = Room::new(*sink, *length, dir.join(name), memory);
        self.reply("150 Go on")?;
        let received = room.receive(&data, &mut self.piece, &mut || {});
        drop(data);
        let received = received.map(|received| {
            lock(&self.site.stored).insert(name.to_owned(), received);
        });
        self.ended(received)
    }

    fn ended(&mut self, how: io::Result<()>) -> io::Result<()> {
        match how {
            Ok(()) => self.reply("226 Complete"),
            Err(e) => self.reply(&format!("426 {e}")),
        }
    }
}

/// Whether it is the name of the file to get.
fn file(name: &str) -> bool {
    name.trim_start_matches('/') == FILE
}
