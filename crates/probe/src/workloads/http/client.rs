//! The client: a runtime with one thread on each CPU, with its share of the connections. The
//! runtimes run only during a turn, in the threads that are measured.

use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hyper::{
    Request,
    header::{CONNECTION, HOST, USER_AGENT},
};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
    time::timeout,
};

use super::{
    alarm::Alarm,
    answer::{AWAITING, Body, Errors, Expected, Wrong},
    link::{Answered, Link, Question},
};
use crate::{
    clock::monotonic_ns,
    counters::Devices,
    limits::HEARTBEAT_NS,
    run::{
        Extent, Stretch,
        drive::Span,
        recorder::Recorder,
        team::{ThreadWork, Together, all_at_once, as_if_equally_long},
    },
    workloads::ends::{PATIENCE, lock},
};

/// The request and the expected answer of all connections.
#[derive(Debug, Clone)]
pub struct Target {
    pub to: SocketAddr,
    pub question: Question,
    /// Whether connections are kept from one request to the next.
    pub keeps: bool,
    pub expected: Expected,
    /// Requests per second of all connections together; 0: as many as possible.
    pub rate: u64,
}

impl Target {
    /// Whether requests have fixed moments. Without a duration, each connection makes one request.
    fn paces(&self, extent: Extent) -> bool {
        self.rate > 0 && extent.ns > 0
    }
}

/// Results of all connections.
#[derive(Debug, Default)]
pub struct ClientWork {
    /// Requests with a correct answer, and the bytes of their bodies.
    pub stretch: Stretch,
    /// Number of new connections.
    pub connections: u64,
    /// Number of requests that were due but not started before the time was over.
    pub unsent: u64,
    pub errors: Errors,
}

/// All connections of a trial.
pub struct Client {
    crews: Vec<Crew>,
}

/// The connections of one thread.
struct Crew {
    runtime: Runtime,
    /// Each connection, with its number.
    links: Vec<(u64, Option<Link>)>,
    shared: Arc<CrewState>,
}

/// State shared by the tasks of a crew. No other thread takes the lock, so it costs almost nothing.
struct CrewState {
    target: Target,
    /// Number of connections of all crews.
    all: u64,
    log: Mutex<Log>,
    /// Number of requests and pieces of answers. While it grows, the server is not silent.
    moved: AtomicU64,
    /// Number of requests in flight.
    under_way: AtomicUsize,
}

struct Log {
    /// Latency from the moment at which a request was due.
    response: Recorder,
    /// Latency from the start of a request, at a fixed rate.
    service: Recorder,
    connections: u64,
    unsent: u64,
    ops: u64,
    bytes: u64,
    errors: Errors,
}

/// State of a connection at the end of a turn.
struct Outcome {
    number: u64,
    link: Option<Link>,
    sent: ThreadWork,
}

/// At a fixed rate, the first request is due this long after the threads are started.
const AHEAD_NS: u64 = 2_000_000;

impl Client {
    /// A client with `threads` runtimes for `connections`.
    pub fn new(target: &Target, connections: u64, threads: usize) -> io::Result<Self> {
        let threads = (threads as u64).clamp(1, connections);
        let crew = |index| {
            let numbers = (index..connections).step_by(threads as usize);
            Ok(Crew {
                runtime: Builder::new_current_thread().enable_all().build()?,
                links: numbers.map(|number| (number, None)).collect(),
                shared: Arc::new(CrewState::new(target.clone(), connections)),
            })
        };
        Ok(Self {
            crews: (0..threads).map(crew).collect::<io::Result<_>>()?,
        })
    }

    /// Makes all connections work at the same time.
    pub fn work(
        &mut self,
        extent: Extent,
        devices: &Devices,
        beat: &mut dyn FnMut(u64),
    ) -> io::Result<ClientWork> {
        // Moments count from the common start of the threads.
        let paces = self.crews[0].shared.target.paces(extent);
        let ahead = if paces { AHEAD_NS } else { 0 };
        let start = monotonic_ns() + ahead;
        let work = |crew: &mut Crew, beat: &mut dyn FnMut(u64)| crew.work(extent, start, beat);
        let Together { each, edges } = all_at_once(&mut self.crews, devices, beat, work)?;
        let mut worked = ClientWork {
            stretch: Stretch {
                elapsed_ns: if paces {
                    extent.ns
                } else {
                    as_if_equally_long(each.into_iter().flatten())
                },
                edges: Some(edges),
                ..Stretch::default()
            },
            ..ClientWork::default()
        };
        for crew in &self.crews {
            let mut log = lock(&crew.shared.log);
            worked.stretch.ops += std::mem::take(&mut log.ops);
            worked.stretch.bytes += std::mem::take(&mut log.bytes);
            worked.connections += std::mem::take(&mut log.connections);
            worked.unsent += std::mem::take(&mut log.unsent);
            worked.errors.merge(std::mem::take(&mut log.errors));
        }
        Ok(worked)
    }

    /// Latencies of the counted requests: from when they were due, and from when they were started.
    pub fn latencies(&self) -> [Recorder; 2] {
        let mut sums = [Recorder::new(), Recorder::new()];
        for crew in &self.crews {
            let log = lock(&crew.shared.log);
            sums[0].add(&log.response);
            sums[1].add(&log.service);
        }
        sums
    }
}

/// The request of each connection.
pub fn question(authority: &str, path: &str, keeps: bool) -> Result<Question, hyper::http::Error> {
    let agent = concat!("layermark/", env!("CARGO_PKG_VERSION"));
    let connection = if keeps { "keep-alive" } else { "close" };
    Request::get(path)
        .header(HOST, authority)
        .header(USER_AGENT, agent)
        .header(CONNECTION, connection)
        .body(http_body_util::Empty::new())
}

/// Makes a single request and returns its answer without checking it. Gives up after [`PATIENCE`]
/// without data.
pub fn ask_once(to: SocketAddr, question: &Question) -> Result<Answered, Wrong> {
    let failed = |e| Wrong::Io("starting a runtime", e);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    runtime.block_on(async {
        let moved = AtomicU64::new(0);
        let mut exchange = pin!(async {
            let mut link = Link::connect(to).await?;
            link.ask(question.clone(), None, &moved).await
        });
        let mut before = 0;
        loop {
            if let Ok(answered) = timeout(PATIENCE, exchange.as_mut()).await {
                return answered;
            }
            let now = moved.load(Ordering::Relaxed);
            if now == before {
                return Err(Wrong::Io(AWAITING, io::ErrorKind::TimedOut.into()));
            }
            before = now;
        }
    })
}

impl Crew {
    fn work(
        &mut self,
        extent: Extent,
        start: u64,
        beat: &mut dyn FnMut(u64),
    ) -> io::Result<Vec<ThreadWork>> {
        let Self {
            runtime,
            links,
            shared,
        } = self;
        let numbers: Vec<u64> = links.iter().map(|(number, _)| *number).collect();
        let (outcomes, paused) = runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for (number, link) in links.drain(..) {
                tasks.spawn(Arc::clone(shared).work(number, link, extent, start));
            }
            shared.watch(tasks, numbers.len(), beat).await
        })?;
        let mut sent = Vec::with_capacity(outcomes.len());
        for Outcome {
            number,
            link,
            sent: (ops, mut span),
        } in outcomes
        {
            links.push((number, link));
            span.paused = paused;
            sent.push((ops, span));
        }
        // Connections that were given up.
        for number in numbers {
            if links.iter().all(|(known, _)| *known != number) {
                links.push((number, None));
            }
        }
        Ok(sent)
    }
}

impl CrewState {
    fn new(target: Target, all: u64) -> Self {
        Self {
            target,
            all,
            log: Mutex::new(Log {
                response: Recorder::new(),
                service: Recorder::new(),
                connections: 0,
                unsent: 0,
                ops: 0,
                bytes: 0,
                errors: Errors::default(),
            }),
            moved: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
        }
    }

    /// Waits for all connections, and gives up those on which no data arrives any more. Returns
    /// their results, and the time spent on progress lines, ns, in which no connection could work.
    async fn watch(
        &self,
        mut tasks: JoinSet<Outcome>,
        count: usize,
        beat: &mut dyn FnMut(u64),
    ) -> io::Result<(Vec<Outcome>, u64)> {
        let (mut outcomes, mut paused) = (Vec::with_capacity(count), 0);
        let (mut last, mut last_ns) = (0, monotonic_ns());
        loop {
            match timeout(Duration::from_nanos(HEARTBEAT_NS), tasks.join_next()).await {
                Ok(Some(Ok(outcome))) => outcomes.push(outcome),
                Ok(Some(Err(panic))) => return Err(io::Error::other(panic)),
                Ok(None) => return Ok((outcomes, paused)),
                Err(_) => {
                    let before = monotonic_ns();
                    beat(lock(&self.log).ops);
                    let now = monotonic_ns();
                    paused += now - before;
                    let waits = self.under_way.load(Ordering::Relaxed) > 0;
                    let moved = self.moved.load(Ordering::Relaxed);
                    if !waits || moved != last {
                        (last, last_ns) = (moved, now);
                    } else if now - last_ns >= PATIENCE.as_nanos() as u64 {
                        let silent = io::ErrorKind::TimedOut.into();
                        let wrong = Wrong::Io(AWAITING, silent);
                        lock(&self.log).errors.add(wrong);
                        self.under_way.store(0, Ordering::Relaxed);
                        return Ok((outcomes, paused));
                    }
                }
            }
        }
    }

    /// A connection's turn. After an error it makes no further request.
    async fn work(
        self: Arc<Self>,
        number: u64,
        mut link: Option<Link>,
        extent: Extent,
        start: u64,
    ) -> Outcome {
        let mut span = Span {
            start: monotonic_ns(),
            ..Span::default()
        };
        let mut ops = 0;
        let result = if self.target.paces(extent) {
            self.paced(&mut link, number, extent, start, &mut ops).await
        } else {
            self.at_will(&mut link, extent, span.start, &mut ops).await
        };
        if let Err(wrong) = result {
            link = None;
            lock(&self.log).errors.add(wrong);
        }
        span.end = monotonic_ns();
        Outcome {
            number,
            link,
            sent: (ops, span),
        }
    }

    /// Makes one request after the other, without pauses.
    async fn at_will(
        &self,
        link: &mut Option<Link>,
        extent: Extent,
        start: u64,
        ops: &mut u64,
    ) -> Result<(), Wrong> {
        let until = start.saturating_add(extent.ns);
        let mut last = start;
        while *ops == 0 || last < until {
            let body = self.exchange(link).await?;
            let now = monotonic_ns();
            let mut log = lock(&self.log);
            if extent.counted {
                log.response.record(now - last);
            }
            log.ops += 1;
            log.bytes += body.length;
            last = now;
            *ops += 1;
        }
        Ok(())
    }

    /// Makes requests at fixed moments. A request that starts late counts its latency from the
    /// moment at which it was due.
    async fn paced(
        &self,
        link: &mut Option<Link>,
        number: u64,
        extent: Extent,
        start: u64,
        ops: &mut u64,
    ) -> Result<(), Wrong> {
        let alarm = Alarm::new().map_err(|e| Wrong::Io("making a timer", e))?;
        let until = start.saturating_add(extent.ns);
        let due = |nth: u64| {
            let index = u128::from(nth) * u128::from(self.all) + u128::from(number);
            start + (index * 1_000_000_000 / u128::from(self.target.rate)) as u64
        };
        let mut nth = 0;
        while due(nth) < until {
            let mut begun = monotonic_ns();
            if begun >= until {
                break;
            }
            if begun < due(nth) {
                let waited = alarm.wait(due(nth)).await;
                waited.map_err(|e| Wrong::Io("waiting for a moment", e))?;
                begun = monotonic_ns();
            }
            let body = self.exchange(link).await?;
            let now = monotonic_ns();
            let mut log = lock(&self.log);
            if extent.counted {
                log.response.record(now.saturating_sub(due(nth)));
                log.service.record(now - begun);
            }
            log.ops += 1;
            log.bytes += body.length;
            nth += 1;
            *ops += 1;
        }
        lock(&self.log).unsent += self.moments(number, extent).saturating_sub(nth);
        Ok(())
    }

    /// Number of requests of a connection in a stretch. The moments of a rate are dealt to the
    /// connections in turn.
    fn moments(&self, number: u64, extent: Extent) -> u64 {
        let all = (u128::from(extent.ns) * u128::from(self.target.rate)).div_ceil(1_000_000_000);
        let own = all.saturating_sub(u128::from(number));
        own.div_ceil(u128::from(self.all)) as u64
    }

    /// Makes a request and checks its answer.
    async fn exchange(&self, kept: &mut Option<Link>) -> Result<Body, Wrong> {
        self.moved.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let body = self.answered(kept).await;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        body
    }

    async fn answered(&self, kept: &mut Option<Link>) -> Result<Body, Wrong> {
        let open = match kept {
            Some(link) => link.is_open().await,
            None => false,
        };
        let asked = if open {
            self.ask(kept).await
        } else {
            self.ask_anew(kept).await
        };
        // A server may close a kept connection at any moment, even while a request is on its way.
        // The request is then repeated once, as in ab (RFC 9112, section 9.3.1).
        let answered = match asked {
            Err(wrong) if open && wrong.is_before_an_answer() => self.ask_anew(kept).await?,
            asked => asked?,
        };
        self.target.expected.check(answered.status, answered.body)?;
        if !self.target.keeps
            && let Some(link) = kept.take()
        {
            link.closed().await?;
        }
        Ok(answered.body)
    }

    /// Makes the request over a new connection.
    async fn ask_anew(&self, kept: &mut Option<Link>) -> Result<Answered, Wrong> {
        *kept = Some(Link::connect(self.target.to).await?);
        lock(&self.log).connections += 1;
        self.ask(kept).await
    }

    async fn ask(&self, kept: &mut Option<Link>) -> Result<Answered, Wrong> {
        let Some(link) = kept else {
            return Err(Wrong::Unanswered);
        };
        let length = self.target.expected.body.map(|body| body.length);
        let question = self.target.question.clone();
        link.ask(question, length, &self.moved).await
    }
}
