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
        control::{self, Reply},
        error::PeerAddress,
        lines::Hidden,
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
pub type Control = control::Control<Answer>;

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
        let mut control = Self::over(stream, address, &peer.secret)?;
        let hello = Hello::Control {
            version: VERSION,
            secret: control.secret(),
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
        names: &[String],
        tick: &mut dyn FnMut(),
    ) -> Result<Vec<Sum>, ProbeError> {
        let mut all = Vec::with_capacity(names.len());
        for names in names.chunks(AT_ONCE) {
            let mut answer = self.ask(&Ask::Check {
                names: names.to_vec(),
            })?;
            while answer == Answer::Busy {
                tick();
                answer = self.answer()?;
            }
            match answer {
                Answer::Checked { files } if files.len() == names.len() => all.extend(files),
                other => return Err(self.out_of_turn(&other)),
            }
        }
        Ok(all)
    }
}

impl Reply for Answer {
    fn refusal(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::Refused { why } => Some((why, None)),
            _ => None,
        }
    }
}

/// Files asked about in a line, which has a longest length.
const AT_ONCE: usize = 100;

/// Between two `Busy`.
pub const BUSY: Duration = Duration::from_millis(500);
