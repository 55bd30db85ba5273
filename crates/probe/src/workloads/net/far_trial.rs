//! A trial on the far end's side: the near end's requests on the control connection, and the
//! threads of the data connections.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use layermark_model::random_name;
use rustix::net::Shutdown;

use super::{
    figures::NetEnd,
    near::{Counters, Welcome},
    params::{NetOp, NetParams},
    sockets,
    traffic::{self, Arrived},
    transactions,
};
use crate::{
    clock::monotonic_ns,
    usage,
    workloads::ends::{
        PATIENCE,
        control::{Request, done, refuse, serve, unknown},
        lines::{Hidden, Lines},
        lock,
        place::{self, Host, PinnedCpus},
    },
};

/// After this time without a datagram, none is on its way any more.
const QUIET: Duration = Duration::from_millis(5);

/// One trial.
pub struct FarTrial {
    pub token: Hidden,
    p: NetParams,
    host: Host,
    from: SocketAddr,
    cpus: Vec<u32>,
    /// Data connections, which are shut down when the trial is over.
    lanes: Mutex<Vec<TcpStream>>,
    came: Condvar,
    transactions: Option<TcpListener>,
    single: Mutex<Single>,
    datagrams: Vec<(OwnedFd, u16)>,
    arrived: Arrived,
    received: AtomicU64,
    /// The first error on a data connection.
    failed: Mutex<Option<io::Error>>,
}

/// Connections of single transactions.
#[derive(Default)]
struct Single {
    /// The connection of each thread, which is shut down when the trial is over.
    open: Vec<Option<Arc<TcpStream>>>,
    /// Whether no more are served.
    over: bool,
}

impl FarTrial {
    /// A trial of the far end that listens at this address.
    pub fn new(
        p: NetParams,
        at: SocketAddr,
        near: &Host,
        ports: Vec<u16>,
        from: SocketAddr,
    ) -> io::Result<Self> {
        let host = Host::here();
        let [_, cpus] = place::cpus(p.placement, p.streams as usize, near, &host);
        // Each of its threads does the same.
        let cpus = PinnedCpus::on(&cpus)?.cpus();
        let at = SocketAddr::new(at.ip(), 0);
        let transactions = match p.op {
            NetOp::Crr => Some(sockets::listen(&p, at)?),
            _ => None,
        };
        if let Some(listener) = &transactions {
            // Its connections have the same limits.
            sockets::limit(listener, PATIENCE)?;
        }
        let datagrams = ports.into_iter().take(p.lanes() as usize).map(|port| {
            let (fd, own) = sockets::datagrams(&p, at.ip())?;
            sockets::only_from(&fd, SocketAddr::new(from.ip(), port))?;
            Ok((fd, own))
        });
        Ok(Self {
            token: (random_name("") + &random_name("")).into(),
            host,
            from,
            cpus,
            lanes: Mutex::default(),
            came: Condvar::new(),
            transactions,
            single: Mutex::default(),
            datagrams: datagrams.collect::<io::Result<_>>()?,
            arrived: Arrived::default(),
            received: AtomicU64::new(0),
            failed: Mutex::default(),
            p,
        })
    }

    /// Shuts down all connections, so that no thread waits for data.
    pub fn shut_down(&self) {
        let lanes = lock(&self.lanes);
        lanes.iter().for_each(shut);
        self.transactions.iter().for_each(shut);
        let mut single = lock(&self.single);
        single.over = true;
        single.open.iter().flatten().for_each(shut);
        drop(single);
        self.datagrams.iter().for_each(|(fd, _)| shut(fd));
    }

    /// Serves the near end until it closes the control connection.
    pub fn serve(&self, lines: &mut Lines) -> io::Result<()> {
        thread::scope(|scope| {
            let start = || -> io::Result<()> {
                for (fd, _) in &self.datagrams {
                    let body = || self.work(|| self.datagrams(fd));
                    thread::Builder::new().spawn_scoped(scope, body)?;
                }
                let Some(listener) = &self.transactions else {
                    return Ok(());
                };
                let count = self.p.streams as usize;
                lock(&self.single).open.resize(count, None);
                for number in 0..count {
                    let body = move || self.work(|| self.transactions(listener, number));
                    thread::Builder::new().spawn_scoped(scope, body)?;
                }
                Ok(())
            };
            let talked = start().and_then(|()| self.talk(lines));
            self.shut_down();
            talked
        })
    }

    /// Serves a data connection until either side closes it.
    pub fn lane(&self, number: usize, stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(None)?;
        {
            let mut lanes = lock(&self.lanes);
            if lanes.len() == self.connections() {
                return Ok(());
            }
            lanes.push(stream.try_clone()?);
            self.came.notify_all();
        }
        let fd = stream.as_fd();
        let back = number >= self.p.streams as usize;
        self.work(|| match self.p.op {
            NetOp::Stream => traffic::sink(fd, &self.p, &self.received),
            NetOp::Bidir if !back => traffic::sink(fd, &self.p, &self.received),
            NetOp::Bidir | NetOp::Maerts => traffic::source(fd, &self.p),
            NetOp::Rr => transactions::answer(fd, &self.p),
            NetOp::Crr | NetOp::UdpStream | NetOp::UdpRr => Ok(()),
        });
        Ok(())
    }

    /// Number of permanent data connections.
    fn connections(&self) -> usize {
        match self.p.op {
            NetOp::Crr | NetOp::UdpStream | NetOp::UdpRr => 0,
            _ => self.p.lanes() as usize,
        }
    }

    /// Runs a thread's work on its CPUs.
    fn work(&self, work: impl FnOnce() -> io::Result<()>) {
        if let Err(e) = PinnedCpus::on(&self.cpus).and_then(|_pinned| work()) {
            lock(&self.failed).get_or_insert(e);
        }
    }

    fn datagrams(&self, fd: &OwnedFd) -> io::Result<()> {
        match self.p.op {
            NetOp::UdpRr => transactions::answer_datagrams(fd.as_fd(), &self.p),
            _ => traffic::sink_datagrams(fd.as_fd(), &self.p, &self.arrived),
        }
    }

    /// Serves connections of single transactions until the listener is shut down.
    fn transactions(&self, listener: &TcpListener, thread: usize) -> io::Result<()> {
        loop {
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                // The listener has the same time limit as its connections.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => return Ok(()),
            };
            if from.ip() != self.from.ip() {
                continue;
            }
            let stream = Arc::new(stream);
            {
                let mut single = lock(&self.single);
                if single.over {
                    return Ok(());
                }
                single.open[thread] = Some(Arc::clone(&stream));
            }
            let token = self.token.as_bytes();
            // The near end detects a connection that fails.
            let _ = transactions::answer_once(stream.as_fd(), &self.p, token, PATIENCE);
            lock(&self.single).open[thread] = None;
        }
    }

    fn talk(&self, lines: &mut Lines) -> io::Result<()> {
        let port = |listener: &TcpListener| Some(listener.local_addr().ok()?.port());
        let welcome = Welcome {
            token: self.token.clone(),
            host: self.host.clone(),
            transactions: self.transactions.as_ref().and_then(port),
            ports: self.datagrams.iter().map(|(_, port)| *port).collect(),
        };
        done(lines, welcome)?;
        let Some(end) = self.all_there() else {
            return refuse(lines, "its data connections did not come");
        };
        done(lines, end)?;
        serve(lines, |lines, request| match request {
            Request::Ping => done(lines, ()),
            Request::Count => self.count(lines),
            Request::Arrived { sent } => done(lines, self.arrived(sent)),
            Request::Check { .. } => unknown(lines),
        })
    }

    /// Waits for all data connections. Returns the buffers of the first.
    fn all_there(&self) -> Option<NetEnd> {
        let lanes = lock(&self.lanes);
        let missing = |lanes: &mut Vec<TcpStream>| lanes.len() < self.connections();
        let waited = self.came.wait_timeout_while(lanes, PATIENCE, missing);
        let (lanes, time) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        if time.timed_out() {
            return None;
        }
        let tcp = lanes.first().map(sockets::effective);
        let listener = || self.transactions.as_ref().map(sockets::effective);
        let udp = || Some(sockets::effective(&self.datagrams.first()?.0));
        Some(NetEnd {
            cpus: self.cpus.clone(),
            ..tcp.or_else(listener).or_else(udp)?
        })
    }

    fn count(&self, lines: &Lines) -> io::Result<()> {
        self.arrived.begin();
        if let Some(e) = &*lock(&self.failed) {
            return refuse(lines, format!("its data connection failed: {e}"));
        }
        let counters = Counters {
            cpu: usage::now().cpu,
            received: self.received.load(Ordering::Relaxed),
        };
        done(lines, counters)
    }

    /// Waits until all datagrams have arrived, or until none has arrived for a while. Returns their
    /// number, and the time from the first one since the last request to the last one, ns.
    fn arrived(&self, sent: u64) -> (u64, u64) {
        let began = Instant::now();
        loop {
            let datagrams = self.arrived.datagrams.load(Ordering::Acquire);
            let last_ns = self.arrived.last_ns.load(Ordering::Relaxed);
            let idle_ns = monotonic_ns().saturating_sub(last_ns);
            let waited = began.elapsed();
            // On a busy machine they may have to wait longer to be received.
            let quiet = waited.min(Duration::from_nanos(idle_ns)) >= QUIET && !self.some_wait();
            if datagrams >= sent || quiet || waited >= PATIENCE / 2 {
                let span_ns = last_ns.saturating_sub(self.arrived.begin());
                return (datagrams, span_ns);
            }
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// Whether datagrams have arrived that are not yet received.
    fn some_wait(&self) -> bool {
        let waits = |fd: &OwnedFd| rustix::io::ioctl_fionread(fd).is_ok_and(|next| next > 0);
        self.datagrams.iter().any(|(fd, _)| waits(fd))
    }
}

fn shut(fd: impl AsFd) {
    let _ = rustix::net::shutdown(fd, Shutdown::Both);
}
