//! The far end: the side in the layer, which does what the near end asks for.

use std::{
    fs, io,
    net::{TcpListener, TcpStream},
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use layermark_model::protocol::Peer;

use super::{
    params::CoherenceParams,
    protocol::Ask,
    side::{Side, until},
};
use crate::{
    FarEnd, ProbeError,
    error::defect,
    workloads::ends::{
        control::{Answer, admit, done, refuse_with, serve},
        lines::{Hidden, Lines},
        listening::{Listening, OpenConnections, no_listener},
    },
};

/// A side that listens.
pub struct Other {
    control: Listening,
}

/// What a connection needs.
struct Shared {
    p: CoherenceParams,
    secret: Hidden,
    /// The layer's directory.
    dir: PathBuf,
}

impl Other {
    pub fn start(dir: &Path, p: CoherenceParams, peer: &Peer) -> Result<Self, ProbeError> {
        let at = peer.socket();
        let listener = TcpListener::bind(at).map_err(|e| no_listener(at, &e))?;
        let shared = Arc::new(Shared {
            p,
            secret: peer.secret.clone().into(),
            dir: dir.to_owned(),
        });
        let control = Listening::start(listener, move |stream, _: &OpenConnections| {
            // The near end reports a connection that fails.
            let _ = shared.serve(stream);
            Ok(())
        })?;
        Ok(Self { control })
    }
}

impl FarEnd for Other {
    fn port(&self) -> u16 {
        self.control.at.port()
    }

    fn end(&mut self) -> Result<(), ProbeError> {
        self.control.end()
    }
}

impl Shared {
    /// A client that does not send the secret is disconnected without an answer.
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        // An answer follows another one: see TCP_NODELAY in tcp(7).
        stream.set_nodelay(true)?;
        let mut lines = Lines::new(stream);
        if admit(&mut lines, &self.secret, &self.p).is_none() {
            return Ok(());
        }
        done(&lines, ())?;
        let mut side = Side::new(self.dir.clone(), self.p.op);
        serve(&mut lines, |lines, ask| {
            self.answer(&mut side, lines, ask).or_else(|e| {
                let at = side.dir().display();
                let mut error = ProbeError::new(format!("in the layer, in {at}: {e}"));
                error.defect = defect(&e);
                refuse_with(lines, error)
            })
        })
    }

    fn answer(&self, side: &mut Side, lines: &Lines, ask: Ask) -> io::Result<()> {
        let wait = self.p.wait();
        // Sending the answer shows whether the near end is still connected.
        let busy = &mut || lines.say(&Answer::<()>::Busy);
        match ask {
            Ask::Ping => done(lines, ()),
            Ask::Enter { name } => {
                let dir = self.dir.join(plain(&name)?);
                fs::create_dir(&dir)?;
                *side = Side::new(dir, self.p.op);
                done(lines, ())
            }
            Ask::Make { n } => {
                side.release();
                side.make(n)?;
                done(lines, true)
            }
            Ask::Before { n } => done(lines, until(wait, busy, || side.sees_before(n))?),
            Ask::Change { n } => {
                let begun = Instant::now();
                side.change(n)?;
                done(lines, begun.elapsed().as_nanos() as u64)
            }
            Ask::Watch { n } => {
                done(lines, true)?;
                done(lines, until(wait, busy, || side.sees(n))?)
            }
        }
    }
}

/// The near end has sent the secret; still, only a name is accepted, no path.
fn plain(name: &str) -> io::Result<&Path> {
    let path = Path::new(name);
    let mut parts = path.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(path),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
