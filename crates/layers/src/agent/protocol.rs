//! Protocol between this host and an agent: frames on a virtio-serial port or a serial port of a guest, or on
//! the standard input and output of a command.
//!
//! A frame is a channel (1 byte), a length (4 bytes, little-endian) and that many bytes. Requests
//! and replies are JSON. Both ends are the same binary, so there are no versions.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddrV4},
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, SystemTime},
};

use layermark_model::{DroppedCaches, Facts};
use serde::{Deserialize, Serialize};

use crate::{Output, net::card_facts::CardFacts};

/// Longest frame either side accepts, bytes.
pub(crate) const LONGEST: usize = 1 << 20;
/// Bytes of data put into one frame.
pub(crate) const PIECE: usize = 64 << 10;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Channel {
    /// Control: an [`AgentRequest`] to the guest, an [`AgentReply`] to the host.
    Control = 1,
    /// The probe's standard input to the guest, its output to the host. An empty frame ends the
    /// stream.
    Probe = 2,
    /// The probe's standard error.
    Errors = 3,
    /// How the probe ended, in words.
    Ended = 4,
    /// Bytes of the file that [`AgentRequest::Put`] has announced.
    File = 5,
}

impl Channel {
    fn of(byte: u8) -> Option<Self> {
        let all = [
            Self::Control,
            Self::Probe,
            Self::Errors,
            Self::Ended,
            Self::File,
        ];
        all.into_iter().find(|c| *c as u8 == byte)
    }
}

/// A stream that another thread receives, piece by piece.
pub(crate) struct Pieces {
    from: Receiver<Vec<u8>>,
    rest: io::Cursor<Vec<u8>>,
}

impl From<Receiver<Vec<u8>>> for Pieces {
    fn from(from: Receiver<Vec<u8>>) -> Self {
        let rest = io::Cursor::default();
        Self { from, rest }
    }
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let got = self.rest.read(into)?;
            if got > 0 || into.is_empty() {
                return Ok(got);
            }
            match self.from.recv() {
                Ok(piece) => self.rest = io::Cursor::new(piece),
                Err(_) => return Ok(0),
            }
        }
    }
}

impl Output for Pieces {
    fn wait(&mut self, limit: Duration) -> io::Result<bool> {
        if self.rest.position() < self.rest.get_ref().len() as u64 {
            return Ok(true);
        }
        match self.from.recv_timeout(limit) {
            Ok(piece) => self.rest = io::Cursor::new(piece),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => {}
        }
        Ok(true)
    }
}

/// Name of the port in the guest's `/sys/class/virtio-ports`.
pub(crate) const PORT: &str = "layermark.0";

/// Mount point of the layer in the guest.
pub(crate) const AT: &str = "/layer";

/// Name of the device with the probe's root file system: tag of a shared directory, or serial
/// number of a disk.
pub(crate) const ROOT_TAG: &str = "root";

/// A request of this host to the guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum AgentRequest {
    /// Make a work directory below this one, and hold an open file of this name, which only those who may inspect
    /// the agent can see. Not for a guest, which mounts its layer instead.
    Enter { dir: PathBuf, secret: String },
    /// Give the network card this address and bring it up.
    Network { address: Ipv4Addr },
    /// Send data to this address until it comes back.
    Reach { to: SocketAddrV4 },
    /// Send ICMP messages to this address until one is answered.
    Ping { to: Ipv4Addr },
    /// Make this tree of files the root of the probe; `None`: the disk named [`ROOT_TAG`].
    Rootfs(Option<Mounting>),
    /// Mount the layer at [`AT`], after unmounting the earlier one.
    Mount(Mounting),
    /// Start the probe under this name.
    Start { name: String },
    /// End the probe, if there is one.
    Kill,
    /// Report the guest's clock.
    Time,
    /// Report mounts and devices of the layer.
    Facts,
    /// Write back, and drop all caches.
    DropCaches,
    /// Remove the packaged files that were never sent, and list those that changed after
    /// [`AgentRequest::Seal`].
    Changed,
    /// Write a packaged file; its bytes follow. There is no reply: the next `Seal` reports errors.
    Put {
        path: String,
        size: u64,
        /// Whether it is executable.
        runs: bool,
        /// Modification time.
        modified: SystemTime,
    },
    /// Make a packaged directory with this modification time, or a link with this text. There is no
    /// reply either.
    Make {
        path: String,
        link: Option<String>,
        modified: SystemTime,
    },
    /// Record the packaged files as they are now, and write them to their disk.
    Seal,
}

/// Parameters of a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mounting {
    /// File system type.
    pub(crate) fs: String,
    /// `None`: the only disk.
    pub(crate) source: Option<String>,
    /// Options of the file system, comma separated.
    pub(crate) options: String,
}

/// A reply of the guest to this host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum AgentReply {
    /// The work directory that was made.
    Entered {
        dir: PathBuf,
        /// Numbers of the agent's descriptors: of this directory, and of the file with the secret name. `None` if
        /// its kernel has no such files.
        held: Option<[i32; 2]>,
    },
    /// The agent is running; its first message.
    Ready {
        /// The guest's kernel.
        kernel: String,
        /// Seconds since its kernel started.
        up_s: f64,
        /// Optional modules that could not be loaded.
        refused: Vec<String>,
    },
    /// Done.
    Done,
    /// The request failed: what failed, and why.
    Failed(String),
    /// Reading of `CLOCK_MONOTONIC`, the probe's clock, ns.
    Time { ns: u64 },
    /// The guest's facts about the layer and its clock, and about its network card after
    /// [`AgentRequest::Network`].
    Facts {
        facts: Box<Facts>,
        clock: String,
        card: Option<CardFacts>,
    },
    /// The caches that were dropped.
    DroppedCaches(DroppedCaches),
    /// Packaged files that have changed, below `packaged`.
    Changed { paths: Vec<String> },
}

/// Writes a frame and flushes it.
pub(crate) fn send(out: &mut impl Write, channel: Channel, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    // One call for a short frame, because each call is a message to the other side.
    let mut frame = Vec::with_capacity(5 + bytes.len());
    frame.push(channel as u8);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(bytes);
    out.write_all(&frame)?;
    out.flush()
}

/// Writes a message as a frame.
pub(crate) fn say(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    send(out, Channel::Control, &serde_json::to_vec(message)?)
}

/// Reads a frame; `None` at the end.
pub(crate) fn receive(from: &mut impl Read) -> io::Result<Option<(Channel, Vec<u8>)>> {
    let mut head = [0; 5];
    match from.read(&mut head[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut head[1..])?,
    }
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let channel = Channel::of(head[0]).filter(|_| length <= LONGEST);
    let Some(channel) = channel else {
        let text = format!("a frame begins with {head:?}, which is not ours");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    };
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(Some((channel, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_read_back_and_rubbish_is_refused() {
        let mut bytes = Vec::new();
        say(&mut bytes, &AgentRequest::Time).unwrap();
        send(&mut bytes, Channel::Probe, b"").unwrap();
        send(&mut bytes, Channel::File, &[7; 3]).unwrap();
        let mut from = bytes.as_slice();
        let (channel, text) = receive(&mut from).unwrap().unwrap();
        assert_eq!(channel, Channel::Control);
        assert_eq!(
            serde_json::from_slice::<AgentRequest>(&text).unwrap(),
            AgentRequest::Time
        );
        assert_eq!(receive(&mut from).unwrap(), Some((Channel::Probe, vec![])));
        assert_eq!(
            receive(&mut from).unwrap(),
            Some((Channel::File, vec![7; 3]))
        );
        assert_eq!(receive(&mut from).unwrap(), None);
        for rubbish in [
            &b"[    0.000000] Linux"[..],
            &[1, 0xff, 0xff, 0xff, 0xff],
            &[2, 9],
        ] {
            assert!(receive(&mut &*rubbish).is_err());
        }
    }
}
