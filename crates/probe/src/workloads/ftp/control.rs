//! The control connection between the two ends, in addition to that of FTP.

use std::{net::TcpStream, time::Duration};

use layermark_model::protocol::Peer;
use serde::{Deserialize, Serialize};

use super::{content::Sum, params::FtpParams, session::Login};
use crate::{
    ProbeError,
    workloads::ends::{
        PATIENCE,
        control::{Control, Request},
        error::PeerAddress,
        place::Host,
    },
};

/// The server, as the far end describes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Welcome {
    /// Its name and version.
    pub server: String,
    pub port: u16,
    pub login: Login,
    /// The file to get; `None` if files are put.
    pub file: Option<Sum>,
}

pub fn connect(p: &FtpParams, peer: &Peer) -> Result<(Control, Welcome), ProbeError> {
    let to = peer.socket();
    let address = PeerAddress {
        workload: "ftp",
        op: p.op.id(),
        to,
        patience: PATIENCE,
    };
    let stream = TcpStream::connect_timeout(&to, PATIENCE);
    let mut control = Control::over(stream, address, &peer.secret)?;
    let welcome = control.open(p, &Host::here(), Vec::new())?;
    Ok((control, welcome))
}

/// Length and hash of files that were put.
pub fn check(
    control: &mut Control,
    names: &[String],
    tick: &mut dyn FnMut(),
) -> Result<Vec<Sum>, ProbeError> {
    let mut all = Vec::with_capacity(names.len());
    for names in names.chunks(AT_ONCE) {
        control.say(&Request::Check {
            names: names.to_vec(),
        })?;
        let files: Vec<Sum> = control.answer(tick)?;
        if files.len() != names.len() {
            let (some, all) = (files.len(), names.len());
            return Err(control
                .peer
                .error(&format!("verified {some} of {all} files")));
        }
        all.extend(files);
    }
    Ok(all)
}

/// Number of files per request, since lines are limited in length.
const AT_ONCE: usize = 100;

/// Interval of `Busy` answers.
pub const BUSY: Duration = Duration::from_millis(500);
