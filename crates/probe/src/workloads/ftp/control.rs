//! The control connection between the two ends, beside those of FTP. Nothing of it happens while the clock
//! runs.

use std::{
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use layermark_model::protocol::Peer;
use serde::{Deserialize, Serialize};

use super::{content::Sum, params::FtpParams, session::Login};
use crate::{
    ProbeError,
    workloads::ends::{
        PATIENCE,
        error::PeerAddress,
        lines::{Hidden, LineError, Lines},
    },
};

/// A far end of another version is refused.
pub const VERSION: u32 = 1;

/// First line of the near end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ftp", rename_all = "lowercase")]
pub enum Hello {
    Control {
        version: u32,
        secret: Hidden,
        params: FtpParams,
    },
}

/// From the near end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Ask {
    /// What have you used?
    Count,
    /// What has become of the files of these names? They are removed.
    Check { names: Vec<String> },
}

/// From the far end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// To `Control`.
    Welcome {
        /// Name and version of the server.
        server: String,
        port: u16,
        user: String,
        /// The password.
        token: Hidden,
        /// What names of files begin with.
        folder: String,
        /// The file that can be got; `None` where files are put.
        file: Option<Sum>,
    },
    /// To `Count`.
    Counted { cpu_ns: u64 },
    /// To `Check`, before the end: it is at work.
    Busy,
    /// To `Check`: one for each name.
    Checked { files: Vec<Sum> },
    /// It cannot be done.
    Refused { why: String },
}

/// The server, as the far end says it.
pub struct Welcome {
    pub server: String,
    pub to: SocketAddr,
    pub login: Login,
    pub file: Option<Sum>,
}

/// The near end's side of it.
pub struct Control {
    lines: Lines,
    peer: PeerAddress,
    secret: Hidden,
}

impl Control {
    pub fn connect(p: &FtpParams, peer: &Peer) -> Result<(Self, Welcome), ProbeError> {
        let to = SocketAddr::new(peer.address, peer.port);
        let address = PeerAddress {
            workload: "ftp",
            op: p.op.id(),
            to,
            patience: PATIENCE,
        };
        let stream = TcpStream::connect_timeout(&to, PATIENCE);
        let mut control = Self {
            lines: Lines::new(stream.map_err(|e| address.io("connecting", &e))?),
            peer: address,
            secret: peer.secret.clone().into(),
        };
        let hello = Hello::Control {
            version: VERSION,
            secret: control.secret.clone(),
            params: p.clone(),
        };
        match control.ask(&hello)? {
            Answer::Welcome {
                server,
                port,
                user,
                token: password,
                folder,
                file,
            } => {
                let welcome = Welcome {
                    server,
                    to: SocketAddr::new(to.ip(), port),
                    login: Login {
                        user,
                        password,
                        folder,
                    },
                    file,
                };
                Ok((control, welcome))
            }
            other => Err(control.out_of_turn(&other)),
        }
    }

    pub fn peer(&self) -> PeerAddress {
        self.peer
    }

    /// CPU time that the far end and its server have used, nanoseconds.
    pub fn count(&mut self) -> Result<u64, ProbeError> {
        match self.ask(&Ask::Count)? {
            Answer::Counted { cpu_ns } => Ok(cpu_ns),
            other => Err(self.out_of_turn(&other)),
        }
    }

    /// What has come of files.
    pub fn check(
        &mut self,
        names: Vec<String>,
        tick: &mut dyn FnMut(),
    ) -> Result<Vec<Sum>, ProbeError> {
        let wanted = names.len();
        let mut answer = self.ask(&Ask::Check { names })?;
        while answer == Answer::Busy {
            tick();
            answer = self.answer()?;
        }
        match answer {
            Answer::Checked { files } if files.len() == wanted => Ok(files),
            other => Err(self.out_of_turn(&other)),
        }
    }

    fn ask(&mut self, line: &impl Serialize) -> Result<Answer, ProbeError> {
        let said = self.lines.say(line);
        said.map_err(|e| self.peer.io("asking on the control connection", &e))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer, ProbeError> {
        match self.lines.next(Some(PATIENCE)) {
            Ok(Some(Answer::Refused { why })) => {
                let why = self.secret.hide(&why);
                Err(self.peer.error(&format!("refused: {why}")))
            }
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.peer.answer(None)),
            Err(LineError::Foreign(line)) => {
                let line = LineError::Foreign(self.secret.hide(&line));
                Err(self.peer.answer(Some(line)))
            }
            Err(e) => Err(self.peer.answer(Some(e))),
        }
    }

    fn out_of_turn(&self, answer: &Answer) -> ProbeError {
        self.peer
            .error(&format!("answered out of turn: {answer:?}"))
    }
}

/// Between two `Busy`.
pub const BUSY: Duration = Duration::from_millis(500);
