//! The near end's side of a control connection. It is not used while the clock of a turn runs.

use std::{fmt::Debug, io, marker::PhantomData, net::TcpStream};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    error::PeerAddress,
    lines::{Hidden, LineError, Lines},
};
use crate::ProbeError;

/// An answer of a far end.
pub trait Reply: DeserializeOwned + Debug {
    /// The reason and a hint, if it is a refusal.
    fn refusal(&self) -> Option<(&str, Option<&str>)>;
}

/// A control connection with answers of type `A`.
pub struct Control<A> {
    pub peer: PeerAddress,
    lines: Lines,
    secret: Hidden,
    answers: PhantomData<fn() -> A>,
}

impl<A: Reply> Control<A> {
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
            answers: PhantomData,
        })
    }

    pub fn secret(&self) -> Hidden {
        self.secret.clone()
    }

    pub fn stream(&self) -> &TcpStream {
        self.lines.stream()
    }

    pub fn ask(&mut self, line: &impl Serialize) -> Result<A, ProbeError> {
        let said = self.lines.say(line);
        said.map_err(|e| self.peer.io("asking on the control connection", &e))?;
        self.answer()
    }

    /// The next answer; an error if it is a refusal. Texts of the peer may hold the secret, so it
    /// is hidden.
    pub fn answer(&mut self) -> Result<A, ProbeError> {
        let answer: A = match self.lines.next(Some(self.peer.patience)) {
            Ok(Some(answer)) => answer,
            Ok(None) => return Err(self.peer.answer(None)),
            Err(LineError::Foreign(line)) => {
                let line = LineError::Foreign(self.secret.hide(&line));
                return Err(self.peer.answer(Some(line)));
            }
            Err(e) => return Err(self.peer.answer(Some(e))),
        };
        let Some((why, hint)) = answer.refusal() else {
            return Ok(answer);
        };
        let why = self.secret.hide(why);
        let error = self.peer.error(&format!("refused the trial: {why}"));
        Err(match hint {
            Some(hint) => error.hint(self.secret.hide(hint)),
            None => error,
        })
    }

    /// The error for an answer to another request.
    pub fn out_of_turn(&self, answer: &A) -> ProbeError {
        self.peer
            .error(&format!("answered out of turn: {answer:?}"))
    }
}
