//! A trial: changes on one side, one after the other, each until the other side sees it.

use std::{
    io,
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

use layermark_model::{FigureValues, Pass, Trial, Turn, Verified, protocol::Peer};
use serde::de::DeserializeOwned;

use super::{
    figures::Changes,
    params::{CoherenceParams, Watcher},
    protocol::Ask,
    side::{Side, until},
};
use crate::{
    Beat, Context, ProbeError, TurnRequest, Turned, Work,
    counters::Devices,
    run::{Edge, Used, recorder::Recorder},
    workloads::{
        ends::{PATIENCE, control::Control, error::PeerAddress, place::Host},
        work_dir::WorkDir,
    },
};

/// Most changes of a trial.
const MOST: u64 = 200;
/// Shorter times count as this: what a message takes, and what it waits for a CPU, is a part of it.
const RESOLUTION_NS: u64 = 1_000_000;

/// A prepared point.
pub struct CoherenceWork {
    p: CoherenceParams,
    /// A trial is at least this long, unless it has [`MOST`] changes.
    min: Duration,
    devices: Devices,
    here: Side,
    control: Control,
    recorder: Recorder,
    done: Changes,
    /// Declared last, since the others use it.
    _work: WorkDir,
}

impl CoherenceWork {
    pub fn prepare(
        dir: &Path,
        p: CoherenceParams,
        peer: &Peer,
        context: &Context,
    ) -> Result<Self, ProbeError> {
        let work = WorkDir::named(dir);
        let to = peer.socket();
        let address = PeerAddress {
            workload: "coherence",
            op: p.op.id(),
            to,
            patience: PATIENCE,
        };
        let stream = TcpStream::connect_timeout(&to, PATIENCE).and_then(|stream| {
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        let mut control = Control::over(stream, address, &peer.secret)?;
        let () = control.open(&p, &Host::here(), Vec::new())?;
        let mut made = Self {
            min: context.min,
            devices: Devices::open(&context.devices),
            here: Side::new(work.path().to_owned(), p.op),
            control,
            recorder: Recorder::new(),
            done: Changes {
                wait: p.wait.clone(),
                ..Changes::default()
            },
            p,
            _work: work,
        };
        made.enter()?;
        made.done.round_trip_ns = made.control.round_trip(&Ask::Ping)?;
        Ok(made)
    }

    fn ask<A: DeserializeOwned>(
        &mut self,
        ask: &Ask,
        tick: &mut dyn FnMut(),
    ) -> Result<A, ProbeError> {
        self.control.say(ask)?;
        self.control.answer(tick)
    }

    /// The directory is made in the layer, where some file systems remember for minutes which names there are. This host
    /// has to see it.
    fn enter(&mut self) -> Result<(), ProbeError> {
        let name = self.here.dir().file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let () = self.ask(&Ask::Enter { name }, &mut || {})?;
        if self.looks(&mut || {}, |here| Ok(here.dir().is_dir()))? {
            return Ok(());
        }
        let (dir, wait) = (self.here.dir().display(), &self.p.wait);
        Err(ProbeError::new(format!(
            "{dir} was made in the layer and not seen on this host within {wait}"
        ))
        .hint("a longer `wait`, if the layer writes later"))
    }

    fn here(&self, doing: &str) -> impl FnOnce(io::Error) -> ProbeError + use<> {
        let (doing, dir) = (doing.to_owned(), self.here.dir().to_owned());
        move |e| ProbeError::io(&doing, &dir, &e)
    }

    /// One change; `None`: it was not seen.
    fn change(&mut self, n: u64, tick: &mut dyn FnMut()) -> Result<Option<u64>, ProbeError> {
        let seen = match self.p.seen {
            Watcher::Layer => self.change_here(n, tick),
            Watcher::Host => self.change_there(n, tick),
        };
        let message_ns = self.done.round_trip_ns / 2;
        Ok(seen?.map(|ns| ns.saturating_sub(message_ns).max(RESOLUTION_NS)))
    }

    fn change_here(&mut self, n: u64, tick: &mut dyn FnMut()) -> Result<Option<u64>, ProbeError> {
        self.make(n, tick)?;
        let before = self.ask(&Ask::Before { n }, tick)?;
        self.has_seen(before, Watcher::Layer)?;
        // A change is waited for before it is made. A lock is tried once it is held, or it would be free.
        let is_lock = self.p.op.lock().is_some();
        if !is_lock {
            let _: bool = self.ask(&Ask::Watch { n }, tick)?;
        }
        self.here.change(n).map_err(self.here("change a file in"))?;
        let changed = Instant::now();
        if is_lock {
            let _: bool = self.ask(&Ask::Watch { n }, tick)?;
        }
        let seen: bool = self.control.answer(tick)?;
        Ok(seen.then(|| changed.elapsed().as_nanos() as u64))
    }

    /// The other side knows how long its change took, and this one when it asked for it.
    fn change_there(&mut self, n: u64, tick: &mut dyn FnMut()) -> Result<Option<u64>, ProbeError> {
        self.make(n, tick)?;
        let asked = Instant::now();
        self.control.say(&Ask::Change { n })?;
        // As in `change_here`.
        let is_lock = self.p.op.lock().is_some();
        let held = is_lock
            .then(|| self.control.answer(&mut *tick))
            .transpose()?;
        let seen = self.looks(tick, |here| here.sees(n))?;
        let passed = asked.elapsed().as_nanos() as u64;
        let took: u64 = match held {
            Some(took) => took,
            None => self.control.answer(tick)?,
        };
        Ok(seen.then(|| passed.saturating_sub(took)))
    }

    /// Has what is changed made in the layer, as a program there does that works on it, and waits until it is seen here.
    fn make(&mut self, n: u64, tick: &mut dyn FnMut()) -> Result<(), ProbeError> {
        self.here.release();
        let _: bool = self.ask(&Ask::Make { n }, tick)?;
        let before = self.looks(tick, |here| here.sees_before(n))?;
        self.has_seen(before, Watcher::Host)
    }

    /// Whether this side sees something in time.
    fn looks(
        &mut self,
        tick: &mut dyn FnMut(),
        mut look: impl FnMut(&mut Side) -> io::Result<bool>,
    ) -> Result<bool, ProbeError> {
        let mut tick = || {
            tick();
            Ok(())
        };
        let seen = until(self.p.wait(), &mut tick, || look(&mut self.here));
        seen.map_err(self.here("look in"))
    }

    /// An error if a side has not seen the state before a change.
    fn has_seen(&self, before: bool, side: Watcher) -> Result<(), ProbeError> {
        if before {
            return Ok(());
        }
        let (at, wait) = (side.place(), &self.p.wait);
        Err(self.unseen(&format!(
            "the state before the change was not seen {at} within {wait}"
        )))
    }

    fn unseen(&self, what: &str) -> ProbeError {
        ProbeError::new(format!("{}: {what}", self.p.op.id()))
            .hint("a longer `wait` shows whether it is ever seen")
    }
}

impl Work for CoherenceWork {
    /// As many changes as the trial is long. None follows one that was not seen.
    fn turn(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        let before = Edge::read(&self.devices);
        let begun = Instant::now();
        let mut elapsed_ns = 0;
        for n in 0..MOST {
            if begun.elapsed() >= self.min && n > 0 {
                break;
            }
            let Some(ns) = self.change(n, &mut || beat(n, 0))? else {
                self.done.absent += 1;
                break;
            };
            elapsed_ns += ns;
            self.recorder.record(ns);
            self.done.seen += 1;
            self.done.longest_ns = self.done.longest_ns.max(Some(ns));
        }
        if self.done.seen == 0 {
            // How long it really takes is not known, only that it is longer.
            trial.not_seen = true;
            elapsed_ns = self.p.wait().as_nanos() as u64;
        }
        let mut used = Used::default();
        used.add(&before, &Edge::read(&self.devices));
        used.count(trial);
        let ops = self.done.seen.max(1);
        trial.passes.push(Pass {
            elapsed_ns,
            ops,
            bytes: 0,
            ..Pass::default()
        });
        Ok(Turned {
            turn: Turn {
                round: ask.round,
                elapsed_ns,
                ops,
                bytes: 0,
                ..Turn::default()
            },
            cpu: used.cpu,
            device: used.device,
            ..Turned::default()
        })
    }

    /// A few bytes were written, and no flush of them is a part of this work.
    fn settle(&mut self, _: &mut Trial) -> Result<(), ProbeError> {
        Ok(())
    }

    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        trial.latency = self.recorder.latency();
        trial.figures = FigureValues::of(&self.done);
        trial.verified = Some(Verified {
            records: self.done.seen,
            bad: 0,
        });
        Ok(())
    }
}
