//! The control connection between the two ends: JSON lines, bounded in size and time. It is not
//! used while the clock of a turn runs, but by `coherence`, whose times end with a message.

use std::{
    io,
    net::TcpStream,
    time::{Duration, Instant},
};

use layermark_model::Defect;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    PATIENCE,
    error::PeerAddress,
    lines::{Hidden, LineError, Lines},
    place::Host,
};
use crate::ProbeError;

/// First line of every connection to a far end. `P`: parameters that both ends need.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "hello", rename_all = "lowercase")]
pub enum Hello<P> {
    /// A control connection of a trial.
    Control {
        secret: Hidden,
        params: P,
        host: Host,
        /// UDP ports of the near end, one for each stream.
        ports: Vec<u16>,
    },
    /// A data connection of a trial.
    Lane { token: Hidden, number: usize },
}

/// Requests of the near end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Request {
    /// Answered at once without reading anything: the round-trip time is measured.
    Ping,
    /// Reports its resource usage.
    Count,
    /// `sent` datagrams were sent since the trial began. Reports how many arrived.
    Arrived { sent: u64 },
    /// Verifies the files of these names and removes them.
    Check { names: Vec<String> },
}

/// Answers of the far end. `A`: what was requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", content = "with", rename_all = "lowercase")]
pub enum Answer<A> {
    /// The result.
    Done(A),
    /// It is still working.
    Busy,
    /// The request failed.
    Refused {
        why: String,
        hint: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        defect: Option<Defect>,
    },
}

/// The near end's side.
pub struct Control {
    pub peer: PeerAddress,
    lines: Lines,
    secret: Hidden,
}

impl Control {
    /// A control connection over a connected stream.
    pub fn over(
        stream: io::Result<TcpStream>,
        peer: PeerAddress,
        secret: &str,
    ) -> Result<Self, ProbeError> {
        Ok(Self {
            lines: Lines::new(stream.map_err(|e| peer.io("connecting", &e))?),
            peer,
            secret: secret.to_owned().into(),
        })
    }

    pub fn stream(&self) -> &TcpStream {
        self.lines.stream()
    }

    /// Sends the secret and the trial's parameters. Returns the far end's description of itself.
    pub fn open<A: DeserializeOwned>(
        &mut self,
        params: impl Serialize,
        host: &Host,
        ports: Vec<u16>,
    ) -> Result<A, ProbeError> {
        let hello = Hello::Control {
            secret: self.secret.clone(),
            params,
            host: host.clone(),
            ports,
        };
        self.say(&hello)?;
        self.answer(&mut || {})
    }

    pub fn ask<A: DeserializeOwned>(&mut self, request: &Request) -> Result<A, ProbeError> {
        self.say(request)?;
        self.answer(&mut || {})
    }

    /// The shortest of several questions that are answered at once, ns.
    pub fn round_trip(&mut self, ping: &impl Serialize) -> Result<u64, ProbeError> {
        const TIMES: usize = 7;
        let mut best = Duration::MAX;
        for _ in 0..TIMES {
            let began = Instant::now();
            self.say(ping)?;
            self.answer::<()>(&mut || {})?;
            best = best.min(began.elapsed());
        }
        Ok(best.as_nanos() as u64)
    }

    pub fn say(&self, line: &impl Serialize) -> Result<(), ProbeError> {
        let said = self.lines.say(line);
        said.map_err(|e| self.peer.io("asking on the control connection", &e))
    }

    /// The next answer; an error if it is a refusal. `tick` is called while the far end works.
    /// Texts of the peer may hold the secret, so it is hidden.
    pub fn answer<A: DeserializeOwned>(&mut self, tick: &mut dyn FnMut()) -> Result<A, ProbeError> {
        loop {
            let wrong = match self.lines.next(Some(self.peer.patience)) {
                Ok(Some(Answer::Done(answer))) => return Ok(answer),
                Ok(Some(Answer::Busy)) => {
                    tick();
                    continue;
                }
                Ok(Some(Answer::Refused { why, hint, defect })) => {
                    let why = self.secret.hide(&why);
                    let mut error = self.peer.error(&format!("refused the trial: {why}"));
                    error.hint = hint.map(|hint| self.secret.hide(&hint));
                    error.defect = defect;
                    return Err(error);
                }
                Ok(None) => None,
                Err(LineError::Foreign(line)) => Some(LineError::Foreign(self.secret.hide(&line))),
                Err(e) => Some(e),
            };
            return Err(self.peer.answer(wrong));
        }
    }
}

/// The near end's host, if a control connection begins with the secret; `None` if the client is not
/// served. One that does not know the secret gets no answer.
pub fn admit<P: DeserializeOwned + PartialEq>(
    lines: &mut Lines,
    secret: &Hidden,
    params: &P,
) -> Option<Host> {
    match greeted(lines, secret, params)? {
        Hello::Control { host, .. } => Some(host),
        // Its token is not looked at here.
        Hello::Lane { .. } => None,
    }
}

/// The first line of a connection to a far end that has data connections, too. The token of these is
/// the caller's to compare.
pub fn greeted<P: DeserializeOwned + PartialEq>(
    lines: &mut Lines,
    secret: &Hidden,
    params: &P,
) -> Option<Hello<P>> {
    let hello = lines.next(Some(PATIENCE)).ok()??;
    match &hello {
        Hello::Control { secret: said, .. } if !secret.is(said) => None,
        Hello::Control { params: said, .. } if said != params => {
            let _ = refuse(lines, "it was told to serve another point");
            None
        }
        _ => Some(hello),
    }
}

/// Answers the near end's requests until it closes the connection.
pub fn serve<R: DeserializeOwned>(
    lines: &mut Lines,
    mut answer: impl FnMut(&Lines, R) -> io::Result<()>,
) -> io::Result<()> {
    loop {
        match lines.next(None) {
            Ok(Some(request)) => answer(lines, request)?,
            Ok(None) | Err(LineError::Io(_)) => return Ok(()),
            // The line is not shown, because it may hold the token.
            Err(LineError::Foreign(_)) => {
                return Err(io::Error::other(
                    "it sent a line that is not part of the protocol",
                ));
            }
        }
    }
}

/// Sends the result of a request.
pub fn done(lines: &Lines, answer: impl Serialize) -> io::Result<()> {
    lines.say(&Answer::Done(answer))
}

/// Reports that a request failed.
pub fn refuse(lines: &Lines, why: impl Into<String>) -> io::Result<()> {
    refuse_with(lines, ProbeError::new(why))
}

/// Reports the error of a request.
pub fn refuse_with(lines: &Lines, error: ProbeError) -> io::Result<()> {
    lines.say(&Answer::<()>::Refused {
        why: error.message,
        hint: error.hint,
        defect: error.defect,
    })
}

/// A request of another workload.
pub fn unknown(lines: &Lines) -> io::Result<()> {
    refuse(lines, "it does not know this request")
}
