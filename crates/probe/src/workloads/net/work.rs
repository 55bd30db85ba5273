//! A trial at the near end.

use std::{net::SocketAddr, os::fd::OwnedFd, time::Duration};

use layermark_model::{CpuUse, FigureValues, Trial, protocol::Peer};

use super::{
    ceiling,
    figures::NetTrial,
    lanes::{Lane, Lanes, Link},
    near::{self, Counters, Welcome},
    params::{NetOp, NetParams},
    sockets::{self, ANSWER},
    transactions::{Dial, LOST_IN_A_ROW},
};
use crate::{
    Context, ProbeError,
    counters::Devices,
    run::{Extent, Mark, Passes, Repeat, Stretch},
    selftest,
    workloads::ends::{
        PATIENCE,
        control::{Control, Hello, Request},
        error::PeerAddress,
        lines::Lines,
        place::{self, Host, PinnedCpus},
    },
};

/// Duration of a pass of a stream, nanoseconds.
const PASS_NS: u64 = 20_000_000;

/// Minimum number of round trips in the lead-in of a stream. After a pause of some hundred
/// milliseconds the kernel begins with a small window again, which doubles each round trip.
const LEAD_IN_TRIPS: u64 = 12;
/// Round trips of a turn of a stream. One of them is idle, because a turn ends with the
/// acknowledgement of the last byte.
const TURN_TRIPS: u64 = 200;
/// Maximum duration of such a turn, nanoseconds.
const LONGEST_NS: u64 = 2_000_000_000;

/// A prepared point.
pub struct NetWork {
    p: NetParams,
    context: Context,
    peer: PeerAddress,
    devices: Devices,
    control: Control,
    lanes: Lanes,
    /// Bytes sent over TCP since the trial began. The far end must have received the same number.
    pushed: u64,
    /// Number of datagrams that have arrived since then.
    arrived: u64,
    net: NetTrial,
    _pinned: PinnedCpus,
}

impl NetWork {
    /// Opens all connections, so that a turn opens none.
    pub fn prepare(p: NetParams, to: &Peer, context: &Context) -> Result<Self, ProbeError> {
        let mut control = near::connect(&p, to)?;
        let address = control.peer;
        let host = Host::here();
        let failed = |doing: &'static str| move |e: std::io::Error| address.io(doing, &e);
        let datagrams = datagrams(&p, &control).map_err(failed("making sockets"))?;
        let ports = datagrams.iter().map(|(_, port)| *port).collect();
        let welcome: Welcome = control.open(&p, &host, ports)?;
        let [near_cpus, _] = place::cpus(p.placement, p.streams as usize, &host, &welcome.host);
        let pinned = PinnedCpus::on(&near_cpus).map_err(|e| {
            ProbeError::new(format!("net {}: {e}", p.op.id()))
                .hint("use `placement` = free; `taskset -p $$` shows which CPUs are allowed")
        })?;
        let links = links(&p, address.to, &welcome, datagrams);
        let links = links.map_err(failed("making data connections"))?;
        let mut net = NetTrial {
            far: control.answer(&mut || {})?,
            one_host: host.is(&welcome.host),
            round_trip_ns: control.round_trip(&Request::Ping)?,
            ..NetTrial::default()
        };
        net.near = if let Some(Link::Permanent(fd)) = links.first() {
            sockets::effective(fd)
        } else {
            let one = sockets::connect(&p, address.to).map_err(failed("connecting"))?;
            sockets::effective(&one)
        };
        net.near.cpus = pinned.cpus();
        let mut peer = address;
        if p.op == NetOp::UdpRr {
            let answer = ANSWER.max(4 * Duration::from_nanos(net.round_trip_ns));
            peer.patience = LOST_IN_A_ROW * answer;
            for link in &links {
                let Link::Permanent(fd) = link else { continue };
                sockets::limit(fd, answer).map_err(failed("making sockets"))?;
            }
        }
        let clock = selftest::source();
        let cpus = place::of_ceiling(p.placement, p.streams as usize, &host, &welcome.host);
        net.ceiling = ceiling::of(&p, clock, &cpus);
        let lane = |(number, link)| Lane::new(&p, number, link);
        let lanes = links.into_iter().enumerate().map(lane).collect();
        Ok(Self {
            lanes: Lanes::new(&p, clock, lanes),
            context: context.clone(),
            peer,
            devices: Devices::open(&context.devices),
            control,
            pushed: 0,
            arrived: 0,
            net,
            _pinned: pinned,
            p,
        })
    }

    /// The extent as this operation can be limited.
    fn limit(&self, extent: Extent) -> Extent {
        let limit = if extent.is_pass() && !self.p.op.transacts() {
            Extent::time(PASS_NS, true)
        } else {
            extent
        };
        let trips = match self.p.op {
            op if op.is_tcp_stream() && limit.counted => TURN_TRIPS,
            op if op.is_tcp_stream() => LEAD_IN_TRIPS,
            _ => 0,
        };
        let least = (trips * self.net.round_trip_ns).min(LONGEST_NS);
        Extent {
            ns: limit.ns.max(least),
            ..limit
        }
    }

    /// Determines how many datagrams have arrived, and how long that took.
    fn arrive(&mut self, done: &mut Stretch, counted: bool) -> Result<(), ProbeError> {
        let sent = self.arrived + done.ops;
        let (arrived, span_ns): (u64, u64) = self.control.ask(&Request::Arrived { sent })?;
        let came = arrived.saturating_sub(self.arrived);
        self.arrived = arrived;
        let sent = done.ops;
        if counted {
            self.net.sent += sent;
            self.net.lost += sent.saturating_sub(came);
        }
        if came == 0 && counted {
            let none = format!("received none of {sent} datagrams");
            return Err(self.peer.error(&none).hint(
                "a smaller `message` is not cut into several packets; a firewall may drop UDP",
            ));
        }
        done.ops = came;
        // The first one starts the span. A single one has no span, and gets the sender's time.
        if came > 1 {
            let span = span_ns as f64 * came as f64 / (came - 1) as f64;
            done.elapsed_ns = (span.round() as u64).max(1);
        }
        Ok(())
    }

    fn count(&mut self) -> Result<Counters, ProbeError> {
        self.control.ask(&Request::Count)
    }

    /// Adds the far end's resource usage in a turn.
    fn count_far(&mut self, before: &Counters, after: &Counters) {
        let sum = &mut self.net.far_cpu;
        let since = |a: u64, b: u64| b.saturating_sub(a);
        *sum = CpuUse {
            user_ns: sum.user_ns + since(before.cpu.user_ns, after.cpu.user_ns),
            sys_ns: sum.sys_ns + since(before.cpu.sys_ns, after.cpu.sys_ns),
        };
    }

    /// Compares the bytes sent with those that the far end has counted.
    fn compare(&mut self) -> Result<(), ProbeError> {
        let received = self.count()?.received;
        if received == self.pushed {
            return Ok(());
        }
        let sent = self.pushed;
        Err(self.peer.error(&format!(
            "received {received} of {sent} bytes that were acknowledged"
        )))
    }
}

impl Repeat for NetWork {
    fn context(&self) -> &Context {
        &self.context
    }

    fn passes(&self) -> Passes {
        Passes::default()
    }

    /// It opens the window, which a single long message does not.
    fn always_leads_in(&self) -> bool {
        self.p.op.is_tcp_stream()
    }

    fn go(&mut self, extent: Extent, beat: &mut dyn FnMut(u64)) -> Result<Stretch, ProbeError> {
        let limit = self.limit(extent);
        let lost = self.lanes.lost();
        let before = limit.counted.then(|| self.count()).transpose()?;
        let done = self.lanes.work(limit, &self.devices, beat);
        let mut done = done.map_err(|e| self.peer.io("in a turn", &e))?;
        match self.p.op {
            NetOp::UdpStream => self.arrive(&mut done, limit.counted)?,
            NetOp::UdpRr if limit.counted => {
                let lost = self.lanes.lost() - lost;
                self.net.sent += done.ops + lost;
                self.net.lost += lost;
            }
            NetOp::Stream => self.pushed += done.ops * self.p.message,
            _ => {}
        }
        if let Some(before) = before {
            let after = self.count()?;
            self.count_far(&before, &after);
        }
        Ok(Stretch {
            bytes: done.ops * self.p.op_bytes(),
            over: extent.is_pass(),
            ..done
        })
    }

    /// Everything has been received. This is the last request to the far end, which stops next.
    fn settle(&mut self, _: &mut Trial, _: Mark) -> Result<(), ProbeError> {
        if self.p.op == NetOp::Stream {
            self.compare()?;
        }
        Ok(())
    }

    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        trial.latency = self.lanes.latency();
        trial.figures = FigureValues::of(&self.net);
        Ok(())
    }
}

/// The UDP sockets of this end, if the operation has any.
fn datagrams(p: &NetParams, control: &Control) -> std::io::Result<Vec<(OwnedFd, u16)>> {
    if !p.op.is_udp() {
        return Ok(Vec::new());
    }
    let own = near::own_address(control).map_err(std::io::Error::other)?;
    let each = (0..p.lanes()).map(|_| sockets::datagrams(p, own));
    each.collect()
}

/// The data connections.
fn links(
    p: &NetParams,
    far: SocketAddr,
    welcome: &Welcome,
    datagrams: Vec<(OwnedFd, u16)>,
) -> std::io::Result<Vec<Link>> {
    let port = |port: u16| SocketAddr::new(far.ip(), port);
    let tcp = |number: u64| -> std::io::Result<Link> {
        if let Some(transactions) = welcome.transactions {
            return Ok(Link::Dialled {
                dial: Dial::To(port(transactions)),
                token: welcome.token.clone(),
            });
        }
        let lines = Lines::new(sockets::connect(p, far)?);
        lines.say(&Hello::<NetParams>::Lane {
            token: welcome.token.clone(),
            number: number as usize,
        })?;
        let stream = lines.into_stream();
        sockets::limit(&stream, PATIENCE)?;
        Ok(Link::Permanent(stream.into()))
    };
    if !p.op.is_udp() {
        return (0..p.lanes()).map(tcp).collect();
    }
    let udp = |((fd, _), to): ((OwnedFd, u16), &u16)| -> std::io::Result<Link> {
        sockets::only_from(&fd, port(*to))?;
        sockets::limit(&fd, PATIENCE)?;
        Ok(Link::Permanent(fd))
    };
    datagrams.into_iter().zip(&welcome.ports).map(udp).collect()
}
