//! The coordinator: sends an order to some hosts and collects their answers. A host that does not answer, or answers
//! what it should not, is lost, and the others go on.

use std::{
    collections::BTreeMap,
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::{Duration, Instant},
};

use layermark_lab::Stop;
use layermark_model::LostHost;

use crate::{
    frame::{self, Pieces},
    hosts,
    launchers::StartCommand,
    link::{Found, Heard, LAST_BREATH, Link},
    protocol::{Answer, FromTask, Hello, Order, ToTasks, VERSION},
};

/// Messages that may wait for the coordinator. Then the readers wait, and so do the tasks.
const WAITING: usize = 1024;
/// Most bytes of a task that are no answer.
const MOST_FOREIGN: u64 = 1 << 20;
/// How long one order may take of a task that says that it works.
const MOST_WORK: Duration = Duration::from_hours(1);
/// Interval of checks for silent hosts and for the user.
const TICK: Duration = Duration::from_millis(100);
/// Interval of checks whether launchers have ended.
const LOOK: Duration = Duration::from_millis(10);
/// Clocks are compared so many times at the start, and after each round.
const CLOCK_ROUNDS: u32 = 9;
const CLOCK_ROUNDS_AGAIN: u32 = 3;
const CLOCKS: &str = "clocks were compared";

/// A host of the fleet.
pub struct Host {
    /// Its name; unique once it has spoken.
    pub name: String,
    /// What it said first.
    pub hello: Option<Hello>,
    /// When and why it was lost.
    pub lost: Option<LostHost>,
    /// Whether that is no fault of its own: the user has stopped the run at once.
    given_up: bool,
    /// How far the coordinator's clock (nanoseconds since the fleet was started) is ahead of its monotonic clock.
    pub offset_ns: i64,
    /// Half of the shortest round trip: the error of `offset_ns`.
    pub error_ns: u64,
    /// How far its wall clock is ahead of the coordinator's, milliseconds.
    pub wall_ahead_ms: i64,
    /// How far its monotonic clock has run away since the first comparison, nanoseconds, less the errors of both.
    pub drift_ns: u64,
    /// `offset_ns` and `error_ns` of the first comparison.
    first: Option<(i64, u64)>,
    task: u32,
    /// Whether the launcher was told its name. Otherwise its task tells it.
    is_named: bool,
    link: usize,
    pieces: Pieces,
    /// Number of the order that it works on; 0 for its first message.
    awaited: Option<u64>,
    heard_at: Instant,
    ordered_at: Instant,
}

impl Host {
    /// Whether it takes part.
    pub fn is_up(&self) -> bool {
        self.lost.is_none() && self.hello.is_some()
    }

    /// When and why it was lost, unless the user has stopped the run at once.
    pub fn fault(&self) -> Option<&LostHost> {
        self.lost.as_ref().filter(|_| !self.given_up)
    }

    /// Keeps how far its clock has run away.
    fn compared(&mut self) {
        let (offset, error) = *self.first.get_or_insert((self.offset_ns, self.error_ns));
        let away = self.offset_ns.abs_diff(offset);
        self.drift_ns = self
            .drift_ns
            .max(away.saturating_sub(error + self.error_ns));
    }
}

/// An answer to an order.
pub struct Answered {
    /// Index of the host.
    pub host: usize,
    /// When its last piece was read.
    pub at: Instant,
    /// The answer.
    pub answer: Answer,
}

/// How thoroughly clocks are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockTrips {
    /// At the start.
    First,
    /// After a round.
    Again,
}

/// How clocks and the barrier behave.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Barrier {
    /// Median time from sending an order to all hosts to the last answer, nanoseconds.
    pub round_trip_ns: u64,
    /// Largest error of a host's clock, nanoseconds.
    pub clock_error_ns: u64,
}

/// Hosts, and the links to them.
pub struct Fleet {
    /// The hosts, in the order of their tasks.
    pub hosts: Vec<Host>,
    links: Vec<Link>,
    /// Hosts of each link.
    of_link: Vec<Vec<usize>>,
    by_task: BTreeMap<u32, usize>,
    heard: Receiver<Heard>,
    n: u64,
    silence: Duration,
    stop: Stop,
    begun: Instant,
}

impl Fleet {
    /// Starts launchers, and waits up to `patience` for the first word of each task. `binary`: the hash that a task's
    /// binary has to have.
    ///
    /// # Errors
    ///
    /// If a launcher cannot be started at all.
    pub fn start(
        commands: &[StartCommand],
        binary: &str,
        (silence, patience): (Duration, Duration),
        stop: &Stop,
    ) -> io::Result<Self> {
        let (send, heard) = sync_channel(WAITING);
        let mut fleet = Self::new(heard, silence, stop);
        for command in commands {
            fleet.add(&command.tasks, |link| Link::start(command, link, &send))?;
        }
        drop(send);
        fleet.greet(binary, patience);
        Ok(fleet)
    }

    /// A fleet without hosts.
    pub(crate) fn new(heard: Receiver<Heard>, silence: Duration, stop: &Stop) -> Self {
        Self {
            hosts: Vec::new(),
            links: Vec::new(),
            of_link: Vec::new(),
            by_task: BTreeMap::new(),
            heard,
            n: 0,
            silence,
            stop: stop.clone(),
            begun: Instant::now(),
        }
    }

    /// Adds a link with its tasks.
    pub(crate) fn add(
        &mut self,
        tasks: &[(u32, Option<String>)],
        start: impl FnOnce(usize) -> io::Result<Link>,
    ) -> io::Result<()> {
        let link = self.links.len();
        self.links.push(start(link)?);
        let first = self.hosts.len();
        for (task, name) in tasks {
            self.by_task.insert(*task, self.hosts.len());
            self.hosts.push(Host {
                name: name.clone().unwrap_or_else(|| hosts::unnamed(*task)),
                hello: None,
                lost: None,
                given_up: false,
                offset_ns: 0,
                error_ns: 0,
                wall_ahead_ms: 0,
                drift_ns: 0,
                first: None,
                task: *task,
                is_named: name.is_some(),
                link,
                pieces: Pieces::default(),
                awaited: None,
                heard_at: Instant::now(),
                ordered_at: Instant::now(),
            });
        }
        self.of_link.push((first..self.hosts.len()).collect());
        Ok(())
    }

    /// Hosts that take part.
    pub fn up(&self) -> Vec<usize> {
        (0..self.hosts.len())
            .filter(|at| self.hosts[*at].is_up())
            .collect()
    }

    /// Waits for the first word of each task, and refuses those that are another layermark.
    pub(crate) fn greet(&mut self, binary: &str, patience: Duration) {
        let all: Vec<usize> = (0..self.hosts.len()).collect();
        for host in &mut self.hosts {
            host.awaited = Some(0);
            host.heard_at = Instant::now();
        }
        let own = env!("CARGO_PKG_VERSION");
        for answered in self.collect(&all, 0, "it was started", patience) {
            let Answer::Hello(hello) = answered.answer else {
                self.lose(
                    answered.host,
                    "it was started",
                    "its first word was no greeting",
                );
                continue;
            };
            let why = if hello.protocol != VERSION || hello.version != own {
                Some(format!(
                    "it is layermark {}, and this one is {own}: use the same binary on all hosts",
                    hello.version
                ))
            } else if hello.binary != binary {
                let short = |hash: &str| hash.chars().take(12).collect::<String>();
                Some(format!(
                    "its binary is another one (SHA-256 {}..., here {}...): use the same on all hosts",
                    short(&hello.binary),
                    short(binary)
                ))
            } else if !self.hosts[answered.host].is_named && !hosts::is_name(&hello.host) {
                Some("what it calls itself is not the name of a host".into())
            } else {
                None
            };
            match why {
                Some(why) => self.lose(answered.host, "it was started", &why),
                None => self.hosts[answered.host].hello = Some(*hello),
            }
        }
        let names = self.hosts.iter().map(|h| match &h.hello {
            Some(hello) if !h.is_named => hello.host.clone(),
            _ => h.name.clone(),
        });
        let names = hosts::each_once(names.collect::<Vec<_>>());
        for (host, name) in self.hosts.iter_mut().zip(names) {
            host.name = name;
        }
    }

    /// Records that a host is lost, and ends its task.
    pub fn lose(&mut self, host: usize, during: &str, why: &str) {
        let (link, of) = (self.hosts[host].link, &mut self.hosts[host]);
        of.awaited = None;
        if of.lost.is_some() {
            return;
        }
        of.lost = Some(LostHost {
            during: during.to_owned(),
            why: why.to_owned(),
        });
        if self.of_link[link].len() == 1 {
            self.links[link].kill();
        } else if !of.given_up {
            // A launcher of several tasks serves the others, which do not wait for room in its pipe.
            let _ = self.links[link].send(&quit(vec![of.task]), Duration::ZERO);
        }
    }

    /// Gives an order to some hosts, and collects their answers. Those that are lost have none.
    pub fn order(&mut self, to: &[usize], during: &str, order: &Order) -> Vec<Answered> {
        self.n += 1;
        let n = self.n;
        let to: Vec<usize> = to
            .iter()
            .copied()
            .filter(|h| self.hosts[*h].is_up())
            .collect();
        let mut of_links = BTreeMap::<usize, Vec<usize>>::new();
        for host in &to {
            let at = &mut self.hosts[*host];
            at.awaited = Some(n);
            at.heard_at = Instant::now();
            at.ordered_at = at.heard_at;
            of_links.entry(at.link).or_default().push(*host);
        }
        for (link, hosts) in of_links {
            let whole = hosts.len() == self.of_link[link].len();
            let tasks = hosts.iter().map(|h| self.hosts[*h].task);
            let line = ToTasks {
                n,
                to: if whole { Vec::new() } else { tasks.collect() },
                order: order.clone(),
            };
            let mut line = serde_json::to_vec(&line).unwrap_or_default();
            line.push(b'\n');
            if let Err(e) = self.links[link].send(&line, self.silence) {
                let why = match e.kind() {
                    io::ErrorKind::BrokenPipe => self.links[link].end_in_words(),
                    _ => format!("its launcher takes no orders: {e}"),
                };
                for host in hosts {
                    self.lose(host, during, &why);
                }
            }
        }
        self.collect(&to, n, during, self.silence)
    }

    /// Collects the answers to order `n`. One interrupt ends the wait for hosts that start, two any other.
    fn collect(&mut self, to: &[usize], n: u64, during: &str, limit: Duration) -> Vec<Answered> {
        let mut answers = Vec::with_capacity(to.len());
        let mut looked = Instant::now();
        loop {
            let waits = |host: &usize| self.hosts[*host].awaited == Some(n);
            if !to.iter().any(waits) {
                return answers;
            }
            match self.heard.recv_timeout(TICK) {
                Ok(heard) => answers.extend(self.take(heard, n, during)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    for host in to
                        .iter()
                        .filter(|h| self.hosts[**h].awaited == Some(n))
                        .copied()
                        .collect::<Vec<_>>()
                    {
                        self.lose(host, during, "its pipe was closed");
                    }
                }
            }
            if looked.elapsed() < TICK {
                continue;
            }
            looked = Instant::now();
            for host in to {
                let at = &self.hosts[*host];
                if at.awaited != Some(n) {
                    continue;
                }
                if self.stop.at_once() || (n == 0 && self.stop.asked()) {
                    self.hosts[*host].given_up = true;
                    self.lose(*host, during, "the run was stopped at once");
                } else if at.heard_at.elapsed() >= limit {
                    self.lose(*host, during, &format!("it did not answer for {limit:?}"));
                } else if n > 0 && at.ordered_at.elapsed() >= MOST_WORK {
                    let why = format!("it says that it works, and has for {MOST_WORK:?}");
                    self.lose(*host, during, &why);
                }
            }
        }
    }

    /// Takes what a reader has found. Returns the answer that it completes.
    fn take(&mut self, heard: Heard, n: u64, during: &str) -> Option<Answered> {
        match heard.found {
            Found::End => {
                let why = self.links[heard.link].end_in_words();
                for host in self.of_link[heard.link].clone() {
                    if self.hosts[host].lost.is_none() {
                        self.lose(host, during, &why);
                    }
                }
                None
            }
            Found::Foreign {
                label,
                bytes,
                shown,
            } => {
                let of = &self.of_link[heard.link];
                let host = match label.and_then(|task| self.by_task.get(&task)) {
                    Some(host) if of.contains(host) => *host,
                    _ if of.len() == 1 => of[0],
                    _ => return None,
                };
                if bytes > MOST_FOREIGN {
                    let why = format!("it printed {bytes} bytes that are no answer: `{shown}`");
                    self.lose(host, during, &why);
                }
                None
            }
            Found::Frame(line) => self.frame(&line, (heard.link, heard.at), n, during),
        }
    }

    fn frame(
        &mut self,
        heard: &[u8],
        (link, at): (usize, Instant),
        n: u64,
        during: &str,
    ) -> Option<Answered> {
        let frame = frame::read(heard)?;
        let host = *self.by_task.get(&frame.task)?;
        let of = &mut self.hosts[host];
        // A task of another launcher cannot speak for this one.
        if of.link != link || of.lost.is_some() {
            return None;
        }
        of.heard_at = at;
        let message = match of.pieces.add(&frame) {
            Ok(message) => message?,
            Err(wrong) => {
                self.lose(host, during, &wrong.to_string());
                return None;
            }
        };
        let said: FromTask = match serde_json::from_slice(&message) {
            Ok(said) => said,
            Err(e) => {
                self.lose(host, during, &format!("it sent what cannot be read: {e}"));
                return None;
            }
        };
        match said.answer {
            Answer::Alive => None,
            answer if of.awaited == Some(n) && said.n == n => {
                of.awaited = None;
                Some(Answered { host, at, answer })
            }
            _ => {
                self.lose(host, during, "it answered what nobody had asked");
                None
            }
        }
    }

    /// The coordinator's clock: nanoseconds since the fleet was started.
    pub fn now_ns(&self, at: Instant) -> i64 {
        let ns = at.saturating_duration_since(self.begun).as_nanos();
        i64::try_from(ns).unwrap_or(i64::MAX)
    }

    /// Compares the clocks of all hosts with the coordinator's, and keeps how far each has run away from it.
    pub fn compare_clocks(&mut self, trips: ClockTrips) -> Barrier {
        let mut took = Vec::new();
        let all = match trips {
            ClockTrips::First => CLOCK_ROUNDS,
            ClockTrips::Again => CLOCK_ROUNDS_AGAIN,
        };
        for round in 0..all {
            let up = self.up();
            let (sent, wall) = (Instant::now(), layermark_lab::now_ms());
            let answers = self.order(&up, CLOCKS, &Order::Clock);
            let last = answers.iter().map(|a| a.at).max();
            took.extend(last.map(|last| last.saturating_duration_since(sent).as_nanos() as u64));
            for answered in answers {
                let Answer::Clock { ns, wall_ms } = answered.answer else {
                    self.lose(answered.host, CLOCKS, "it did not tell the time");
                    continue;
                };
                let trip = answered.at.saturating_duration_since(sent).as_nanos() as u64;
                let middle = self.now_ns(sent) + signed(trip / 2);
                let host = &mut self.hosts[answered.host];
                if round == 0 || trip / 2 < host.error_ns {
                    host.error_ns = trip / 2;
                    host.offset_ns = middle.saturating_sub(signed(ns));
                    host.wall_ahead_ms = wall_ms.saturating_sub(wall + signed(trip / 2_000_000));
                }
            }
        }
        took.sort_unstable();
        for host in self.hosts.iter_mut().filter(|h| h.is_up()) {
            host.compared();
        }
        let errors = self.up().into_iter().map(|h| self.hosts[h].error_ns);
        Barrier {
            round_trip_ns: took.get(took.len() / 2).copied().unwrap_or(0),
            clock_error_ns: errors.max().unwrap_or(0),
        }
    }

    /// Waves of hosts that can work at the same time without slowing each other: one of each machine. `first` hosts
    /// begin with this one of each.
    pub fn waves(&self, first: usize) -> Vec<Vec<usize>> {
        let mut machines = BTreeMap::<String, Vec<usize>>::new();
        for at in self.up() {
            let host = &self.hosts[at];
            let boot = host.hello.as_ref().map(|h| h.boot.clone());
            let boot = boot.filter(|b| !b.is_empty());
            machines
                .entry(boot.unwrap_or_else(|| format!("of {}", host.name)))
                .or_default()
                .push(at);
        }
        let most = machines.values().map(Vec::len).max().unwrap_or(0);
        let wave = |n: usize| {
            let of = |hosts: &Vec<usize>| {
                let at = (n + first) % most;
                hosts.get(at).copied()
            };
            machines.values().filter_map(of).collect::<Vec<_>>()
        };
        let waves = (0..most).map(wave);
        waves.filter(|wave| !wave.is_empty()).collect()
    }
}

impl Drop for Fleet {
    /// Tells all tasks to end, then waits for their launchers: as long as they say that they remove their files, and for
    /// no longer than a host may be silent.
    fn drop(&mut self) {
        let line = quit(Vec::new());
        for link in &mut self.links {
            let _ = link.send(&line, Duration::from_millis(100));
            link.close();
        }
        let begun = Instant::now();
        let soon = begun + LAST_BREATH;
        // The user may lose patience meanwhile.
        let (stop, silence) = (self.stop.clone(), self.silence.max(LAST_BREATH));
        let last = || {
            if stop.at_once() {
                soon
            } else {
                begun + silence
            }
        };
        let mut until = vec![soon; self.links.len()];
        loop {
            let now = Instant::now();
            let mut links = self.links.iter_mut().zip(&until);
            if now >= last() || links.all(|(link, until)| now >= *until || link.has_ended()) {
                break;
            }
            match self.heard.recv_timeout(LOOK) {
                Ok(heard) if matches!(heard.found, Found::Frame(_)) => {
                    until[heard.link] = heard.at + LAST_BREATH;
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Readers must not wait for room while their launchers are waited for.
        let (_, nobody) = sync_channel(0);
        self.heard = nobody;
        for (link, until) in self.links.iter_mut().zip(until) {
            link.end(until.min(last()));
        }
    }
}

/// The line that ends these tasks, or all. It is short, so a pipe takes all of it or nothing.
fn quit(to: Vec<u32>) -> Vec<u8> {
    let line = ToTasks {
        n: u64::MAX,
        to,
        order: Order::Quit,
    };
    let mut line = serde_json::to_vec(&line).unwrap_or_default();
    line.push(b'\n');
    line
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
