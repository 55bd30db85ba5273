//! The control connection between the two ends, in addition to that of FTP. It is not used while
//! the clock runs.

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

/// Version of the protocol. A far end of another version is refused.
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

/// Requests of the near end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum ControlRequest {
    /// Reports its resource usage.
    Count,
    /// Verifies the files of these names and removes them.
    Check { names: Vec<String> },
}

/// Answers of the far end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// Answer to `Control`.
    Welcome {
        /// Name and version of the server.
        server: String,
        port: u16,
        user: String,
        /// The password.
        token: Hidden,
        /// Prefix of file names.
        folder: String,
        /// The file to get; `None` if files are put.
        file: Option<Sum>,
    },
    /// Answer to `Count`.
    Counted { cpu_ns: u64 },
    /// Answer to `Check` while it is still working.
    Busy,
    /// Final answer to `Check`: one sum for each name.
    Checked { files: Vec<Sum> },
    /// The request failed.
    Refused { why: String },
}

/// The server, as the far end describes it.
pub struct Welcome {
    pub server: String,
    pub to: SocketAddr,
    pub login: Login,
    pub file: Option<Sum>,
}

/// The near end's side.
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

    /// CPU time of the far end and its server, ns.
    pub fn count(&mut self) -> Result<u64, ProbeError> {
        match self.ask(&ControlRequest::Count)? {
            Answer::Counted { cpu_ns } => Ok(cpu_ns),
            other => Err(self.out_of_turn(&other)),
        }
    }

    /// Length and hash of files that were put.
    pub fn check(
        &mut self,
        names: &[String],
        tick: &mut dyn FnMut(),
    ) -> Result<Vec<Sum>, ProbeError> {
        let mut all = Vec::with_capacity(names.len());
        for names in names.chunks(AT_ONCE) {
            let mut answer = self.ask(&ControlRequest::Check {
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

/// Number of files per request, since lines are limited in length.
const AT_ONCE: usize = 100;

/// Interval of `Busy` answers.
pub const BUSY: Duration = Duration::from_millis(500);
