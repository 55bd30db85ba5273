//! What the loop of [`crate::run`] needs from files: passes over them, whole or in parts.

use std::{fs, io};

use layermark_model::{Trial, Verified};

use super::{
    job::{Amount, Job, Worked, ends_together, once},
    params::{FileParams, Op, Sync},
    prepare::{FileWork, Slot, advise, open, refused},
    rates::{self, Did},
    team::Together,
    touches,
};
use crate::{
    Context, ProbeError,
    clock::{Source, monotonic_ns},
    run::{Edge, Extent, Mark, Passes, Repeat, Stretch, drive::Stopped},
};

/// Threads that work at the same time start within a microsecond or so of each other and do not
/// end together: a pass of theirs lasts about this long at least, nanoseconds.
const TOGETHER_NS: u64 = 5_000_000;

/// One thread's pass over a short file would take less than the counters read around it, and a trial
/// have a hundred thousand of them: it lasts about this long at least, nanoseconds.
const ALONE_NS: u64 = 1_000_000;
/// Bytes of a file that is short.
const SHORT: u64 = 1 << 20;
/// Times over a file that tell how long the quickest takes ...
const FEW: u64 = 3;
/// ... unless they take this many times as long as a pass has to ...
const LONG: u64 = 10;
/// ... and more, if this part of a pass has not gone by yet.
const PART: u64 = 10;

/// One thread works in the probe's own: with a second thread that has the file open too the
/// kernel would count references on it at each call, which costs a small read 2 %.
impl Repeat for FileWork {
    fn context(&self) -> &Context {
        &self.context
    }

    fn passes(&self) -> Passes {
        let p = &self.job.p;
        Passes {
            fixed: p.passes,
            most: if once(p) { p.files } else { 0 },
            min_ms: p.min_ms,
            whole: ends_together(p),
        }
    }

    fn look(&mut self) -> Result<Option<f64>, ProbeError> {
        self.look_at_caches()
    }

    /// Of files with a thread each, those whose pass is over: the others go on with theirs.
    fn renew(&mut self) -> Result<(), ProbeError> {
        let Job { p, ops, .. } = &self.job;
        let over = |slot: &&mut Slot| slot.generation == 0 || slot.at == *ops;
        let mut over = self.slots.iter_mut().filter(over);
        over.try_for_each(|slot| renew(p, slot))
    }

    fn go(&mut self, extent: Extent, beat: &mut dyn FnMut(u64)) -> Result<Stretch, ProbeError> {
        let amount = match extent {
            Extent::Pass => Amount::Passes(self.rounds),
            Extent::Time { ns, counted } => Amount::Time { ns, counted },
        };
        let (job, slots) = (&self.job, &mut self.slots);
        let Some(team) = &self.team else {
            // Of several files each has one pass, the last file first: what an image reads ahead of one
            // belongs to a file that was read before.
            let fresh = slots.iter().rposition(|slot| slot.generation == 0);
            let slot = &mut slots[fresh.unwrap_or(0)];
            let worked = job.work(slot, amount, beat);
            let worked = worked.map_err(|s| failed(&job.p, slot, &s))?;
            return Ok(self.stretch(&[worked], worked.span.net_ns(), None));
        };
        let amount = match amount {
            Amount::Time { .. } if ends_together(&job.p) => Amount::Passes(1),
            amount => amount,
        };
        let Together { each, edges } = team.work(slots, amount, beat)?;
        let did: Vec<Did> = each.iter().map(|w| Did::of(w, job.p.unit())).collect();
        let elapsed_ns = match amount {
            Amount::Passes(_) => {
                self.seen.threads.extend(rates::of(&did));
                rates::from_first_to_last(&did)
            }
            Amount::Time { counted, .. } => {
                let elapsed_ns = rates::as_if_equally_long(&each);
                if counted {
                    rates::add(&mut self.seen.each, &did, elapsed_ns);
                }
                elapsed_ns
            }
        };
        Ok(self.stretch(&each, elapsed_ns, Some(edges)))
    }

    fn settle(&mut self, trial: &mut Trial, since: Mark) -> Result<(), ProbeError> {
        self.pay(trial, since)
    }

    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        self.prove(trial)
    }
}

impl FileWork {
    fn stretch(&self, each: &[Worked], elapsed_ns: u64, edges: Option<[Edge; 2]>) -> Stretch {
        let p = &self.job.p;
        let ops = each.iter().map(|w| w.ops).sum();
        let with_slots = each.iter().zip(&self.slots);
        Stretch {
            elapsed_ns,
            ops,
            bytes: ops * p.unit(),
            syncs: with_slots.map(|(w, slot)| syncs(p, slot.op, w)).sum(),
            over: self.slots.iter().any(|slot| slot.at == self.job.ops),
            edges,
        }
    }

    /// Before `ready`: the untimed pass that a second reading follows, and in iozone's matrix, where
    /// tests go over one file in turn, a random one; and how often threads go over their files in one
    /// pass to be long enough under way.
    pub fn rehearse(&mut self) -> Result<(), ProbeError> {
        let least = if self.job.p.threads > 1 {
            TOGETHER_NS
        } else {
            ALONE_NS
        };
        self.rehearse_for(least)
    }

    /// With a pass that takes at least so many nanoseconds.
    pub fn rehearse_for(&mut self, least: u64) -> Result<(), ProbeError> {
        let p = &self.job.p;
        let repeats = repeats(p);
        for (i, slot) in self.slots.iter_mut().enumerate() {
            let (mut rounds, start) = (0, monotonic_ns());
            let counts = i == 0 && repeats;
            // Once at least: a busy machine may have taken all the time before the first look at
            // it. And a few times if need be: it may have taken it in the first round.
            let more = |rounds, now| match rounds {
                0 => counts || p.op == Op::Reread || (p.op == Op::RandRead && p.keep),
                1..FEW => counts && now - start < LONG * least,
                _ => counts && now - start < least / PART,
            };
            let mut quickest = u64::MAX;
            while more(rounds, monotonic_ns()) {
                let span = self.job.rehearse(slot).map_err(|s| failed(p, slot, &s))?;
                quickest = quickest.min(span.net_ns());
                rounds += 1;
            }
            if counts {
                // A tenth more: what falls just short of it would be made twice.
                self.rounds = (least + least / 10).div_ceil(quickest).max(1);
            }
            slot.recorder.clear();
            slot.checked = Verified::default();
        }
        Ok(())
    }

    /// Adds up what the threads recorded. Encoding it takes a while, which is no debt.
    pub fn sum_up(&mut self, trial: &mut Trial) {
        let in_turns = rates::of(&self.seen.each);
        trial.threads = in_turns.or_else(|| rates::mean(&self.seen.threads));
        if !self.job.p.latency {
            return;
        }
        if let Some((Slot { recorder: all, .. }, others)) = self.slots.split_first_mut() {
            for other in others {
                all.add(&other.recorder);
            }
            trial.latency = all.latency();
        }
        self.compare_clocks(trial);
    }

    /// The counter's sum over all operations against `CLOCK_MONOTONIC`'s elapsed time.
    fn compare_clocks(&self, trial: &mut Trial) {
        let [Slot { recorder: all, .. }] = &self.slots[..] else {
            return;
        };
        let plain = matches!(
            self.job.p.sync,
            Sync::None | Sync::Each | Sync::Osync | Sync::Odsync
        );
        let elapsed = trial.elapsed_ns() as f64;
        if !plain || !matches!(self.job.clock, Some(Source::Tsc { .. })) || elapsed < 10e6 {
            return;
        }
        let off = all.total_ns() / elapsed - 1.0;
        if off.abs() > 0.02 {
            let source = self.job.clock.map_or("", Source::name);
            trial.notes.push(format!(
                "clocks disagree: {source} is off by {:.1} % of CLOCK_MONOTONIC",
                off * 100.0
            ));
        }
    }
}

/// Whether a pass may go over the files several times: not where each needs a new file or an
/// opening, nor where the user has said how often.
fn repeats(p: &FileParams) -> bool {
    let short = p.threads > 1 || (p.file_size <= SHORT && p.sync == Sync::None);
    short && p.passes == 0 && !once(p) && !p.op.makes() && !p.sync.closes()
}

/// Outside the clock. A write goes to a file that was not there before; others go on with the
/// open one.
fn renew(p: &FileParams, slot: &mut Slot) -> Result<(), ProbeError> {
    let op = slot.op;
    if op.packaged() || !touches(p) {
        return Ok(());
    }
    if op.makes() {
        drop(slot.file.take());
        match fs::remove_file(&slot.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(ProbeError::io("remove", &slot.path, &e));
            }
            _ => {}
        }
    }
    // A point that closes inside the clock comes here without an open file.
    if slot.file.is_none() {
        let file = open(p, op, &slot.path).map_err(|e| refused(p, &slot.path, "open", &e))?;
        advise(p, op, &file);
        slot.file = Some(file);
    }
    Ok(())
}

/// Calls that flush in what one thread did.
fn syncs(p: &FileParams, op: Op, worked: &Worked) -> u64 {
    match p.sync {
        _ if !touches(p) || !op.writes() => 0,
        Sync::None | Sync::Close => 0,
        Sync::Fsync | Sync::Fdatasync | Sync::FsyncClose => worked.passes,
        Sync::Each | Sync::Osync | Sync::Odsync => worked.ops,
    }
}

pub fn failed(p: &FileParams, slot: &Slot, stopped: &Stopped) -> ProbeError {
    let what = if slot.op.writes() { "write" } else { "read" };
    if stopped.at == 0 {
        return refused(p, &slot.path, what, &stopped.error);
    }
    ProbeError::io(
        &format!("{what} record {} of", stopped.at),
        &slot.path,
        &stopped.error,
    )
}
