//! A prepared point: clients that are logged in, and their transfers.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use layermark_model::{FigureValues, Trial, Verified, protocol::Peer};

use super::{
    content::{Content, Received, Room, Sum, touched},
    control,
    figures::FtpTrial,
    params::{FtpOp, FtpParams, Sink},
    server::FILE,
    session::{Phases, Session},
};
use crate::{
    Context, ProbeError,
    clock::monotonic_ns,
    counters::Devices,
    limits::HEARTBEAT_NS,
    run::{
        Extent, Mark, Passes, Repeat, Stretch,
        drive::Span,
        recorder::Recorder,
        team::{ThreadWork, Together, all_at_once, as_if_equally_long},
    },
    workloads::{
        ends::{
            control::{Control, Request},
            error::PeerAddress,
        },
        work_dir::WorkDir,
    },
};

/// Transfers of each client per pass, if a trial is one stretch of passes.
const PASS: u64 = 4;

/// A prepared point.
pub struct FtpWork {
    p: FtpParams,
    context: Context,
    devices: Devices,
    control: Control,
    clients: Vec<Client>,
    give: Give,
    /// Expected length and hash of every transfer.
    expected: Sum,
    checked: u64,
    ftp: FtpTrial,
    /// Files of this end.
    work: WorkDir,
}

/// Parameters of a client's transfers.
struct Give {
    sink: Sink,
    /// Content to put.
    content: Option<Content>,
    length: u64,
    dir: PathBuf,
}

/// One client, with its transfers since the last check.
struct Client {
    number: usize,
    session: Session,
    /// Transfers since the start of the trial.
    transfers: u64,
    received: Vec<Received>,
    put: Vec<String>,
    /// Memory for received data.
    spare: Vec<Vec<u8>>,
    recorder: Recorder,
    phases: Vec<Phases>,
}

impl FtpWork {
    /// Sets the rate of the same clients without the path.
    pub fn ceiling(mut self, ceiling: Option<u64>) -> Self {
        self.ftp.ceiling = ceiling;
        self
    }

    /// Logs the clients in.
    pub fn connect(
        dir: &Path,
        p: FtpParams,
        peer: &Peer,
        context: &Context,
    ) -> Result<Self, ProbeError> {
        let (control, welcome) = control::connect(&p, peer)?;
        let work = WorkDir::new(dir)?;
        let data = match p.op {
            FtpOp::Get => None,
            FtpOp::Put => {
                let path = work.path().join(FILE);
                let made = Content::make(p.source, p.file_size, context.seed, &path);
                Some(made.map_err(|e| ProbeError::io("make", &path, &e))?)
            }
        };
        let expected = data.as_ref().map(Content::sum).or(welcome.file);
        let expected = expected.ok_or_else(|| {
            let peer = control.peer;
            peer.error("does not say what can be got")
        })?;
        let server = PeerAddress {
            to: SocketAddr::new(peer.address, welcome.port),
            ..control.peer
        };
        let client = |number| {
            let mut session = Session::open(server, &welcome.login)?;
            if p.op == FtpOp::Get {
                has_length(server, session.size(FILE)?, expected.bytes)?;
            }
            let spare = match (p.op, p.sink) {
                (FtpOp::Get, Sink::Memory) => p.transfers(),
                _ => 0,
            };
            Ok(Client {
                number,
                session,
                transfers: 0,
                received: Vec::with_capacity(p.transfers() as usize),
                put: Vec::with_capacity(p.transfers() as usize),
                spare: (0..spare).map(|_| touched(p.file_size)).collect(),
                recorder: Recorder::new(),
                phases: Vec::new(),
            })
        };
        let clients = (0..p.clients as usize).map(client);
        Ok(Self {
            clients: clients.collect::<Result<_, ProbeError>>()?,
            context: context.clone(),
            devices: Devices::open(&context.devices),
            control,
            give: Give {
                sink: p.sink,
                content: data,
                length: p.file_size,
                dir: work.path().to_owned(),
            },
            expected,
            checked: 0,
            ftp: FtpTrial {
                server: welcome.server,
                ..FtpTrial::default()
            },
            work,
            p,
        })
    }

    /// Verifies the data received since the last check, outside the clock. `tick` is called from
    /// time to time.
    fn check(&mut self, tick: &mut dyn FnMut()) -> Result<(), ProbeError> {
        let mut wrong = Vec::new();
        let mut looked = 0;
        for client in &mut self.clients {
            let mut sums = Vec::with_capacity(client.received.len());
            for received in client.received.drain(..) {
                let looked = received.sum(tick);
                let (sum, memory) =
                    looked.map_err(|e| ProbeError::io("read again", self.work.path(), &e))?;
                client.spare.extend(memory);
                sums.push(sum);
            }
            if !client.put.is_empty() {
                let names = std::mem::take(&mut client.put);
                sums.extend(control::check(&mut self.control, &names, tick)?);
            }
            looked += sums.len() as u64;
            wrong.extend(sums.into_iter().filter(|sum| *sum != self.expected));
        }
        self.checked += looked;
        let Some(first) = wrong.first() else {
            return Ok(());
        };
        let (count, length) = (wrong.len(), self.expected.bytes);
        let what = if first.bytes == length {
            format!("the first of them has all {length} bytes and another hash")
        } else {
            format!("the first of them has {} of {length} bytes", first.bytes)
        };
        let what = format!("{count} of {looked} files arrived with different content: {what}");
        Err(self.control.peer.error(&what).hint(
            "the path alters or loses data: `ip -s link` shows errors, `dmesg` may tell more",
        ))
    }

    /// CPU time of the far end and its server, ns.
    fn count(&mut self) -> Result<u64, ProbeError> {
        self.control.ask(&Request::Count)
    }
}

/// Checks the length that the server reports before the first transfer.
fn has_length(server: PeerAddress, said: u64, expected: u64) -> Result<(), ProbeError> {
    if said == expected {
        return Ok(());
    }
    Err(server.error(&format!(
        "says that the file has {said} bytes, and it was made with {expected}"
    )))
}

impl Give {
    /// One transfer, on the clock.
    fn transfer(&self, client: &mut Client, tick: &mut dyn FnMut()) -> Result<Phases, ProbeError> {
        let name = format!("{}-{}", client.number, client.transfers);
        client.transfers += 1;
        let Some(content) = &self.content else {
            let memory = client.spare.pop();
            let room = Room::new(self.sink, self.length, self.dir.join(name), memory);
            let (received, phases) = client.session.get(FILE, room, tick)?;
            client.received.push(received);
            return Ok(phases);
        };
        let phases = client.session.put(&name, content, tick)?;
        client.put.push(name);
        Ok(phases)
    }

    /// Runs the transfers of a client in a stretch, at most this many.
    fn work(
        &self,
        client: &mut Client,
        extent: Extent,
        most: u64,
        beat: &mut dyn FnMut(u64),
    ) -> Result<ThreadWork, ProbeError> {
        let start = monotonic_ns();
        let (mut last_beat, mut paused, mut ops) = (start, 0, 0);
        let mut before = start;
        loop {
            let mut tick = || {
                let now = monotonic_ns();
                if now - last_beat >= HEARTBEAT_NS {
                    beat(ops);
                    last_beat = monotonic_ns();
                    paused += last_beat - now;
                }
            };
            let phases = self.transfer(client, &mut tick)?;
            tick();
            ops += 1;
            let now = monotonic_ns();
            if extent.counted {
                client.recorder.record(now - before);
                client.phases.push(phases);
            }
            let span = Span {
                start,
                end: now,
                paused,
                ..Span::default()
            };
            if ops >= most || span.net_ns() >= extent.ns {
                return Ok((ops, span));
            }
            before = now;
        }
    }
}

impl Repeat for FtpWork {
    fn context(&self) -> &Context {
        &self.context
    }

    fn passes(&self) -> Passes {
        Passes::default()
    }

    fn go(&mut self, extent: Extent, beat: &mut dyn FnMut(u64)) -> Result<Stretch, ProbeError> {
        let most = extent.ops(PASS).min(self.p.transfers());
        let before = extent.counted.then(|| self.count()).transpose()?;
        let give = &self.give;
        let done = all_at_once(&mut self.clients, &self.devices, beat, |client, beat| {
            Ok(give.work(client, extent, most, beat))
        });
        let Together { each, edges } =
            done.map_err(|e| ProbeError::new(format!("cannot start the clients: {e}")))?;
        let each: Vec<ThreadWork> = each.into_iter().collect::<Result<_, _>>()?;
        if let Some(before) = before {
            self.ftp.far_cpu_ns += self.count()?.saturating_sub(before);
        }
        let ops = each.iter().map(|(ops, _)| ops).sum();
        let mut last_beat = monotonic_ns();
        self.check(&mut || {
            if monotonic_ns() - last_beat >= HEARTBEAT_NS {
                beat(ops);
                last_beat = monotonic_ns();
            }
        })?;
        Ok(Stretch {
            elapsed_ns: as_if_equally_long(each.into_iter()),
            ops,
            bytes: ops * self.p.file_size,
            over: extent.is_pass(),
            edges: Some(edges),
            ..Stretch::default()
        })
    }

    /// The files are already removed.
    fn settle(&mut self, _: &mut Trial, _: Mark) -> Result<(), ProbeError> {
        Ok(())
    }

    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        let mut sum = Recorder::new();
        let mut phases = Vec::new();
        for client in &mut self.clients {
            sum.add(&client.recorder);
            phases.append(&mut client.phases);
        }
        trial.latency = sum.latency();
        trial.verified = Some(Verified {
            records: self.checked,
            bad: 0,
        });
        let of = |part: fn(&Phases) -> u64| median(phases.iter().map(part));
        let session = |part: fn(&Session) -> u64| {
            median(self.clients.iter().map(|client| part(&client.session)))
        };
        trial.figures = FigureValues::of(&FtpTrial {
            connect_ns: session(|s| s.connect_ns),
            login_ns: session(|s| s.login_ns),
            passive_ns: of(|p| p.passive),
            first_byte_ns: of(|p| p.first_byte),
            data_ns: of(|p| p.data),
            complete_ns: of(|p| p.complete),
            ..std::mem::take(&mut self.ftp)
        });
        Ok(())
    }
}

fn median(all: impl Iterator<Item = u64>) -> u64 {
    let mut all: Vec<u64> = all.collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}
