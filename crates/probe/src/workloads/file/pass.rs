//! Passes over files, whole or in parts, for the loop of [`crate::run`].

use std::{fs, io, mem, path::Path};

use layermark_model::{Trial, Verified};

use super::{
    job::{FileJob, Worked, ends_together, failed},
    open::{advise, open, refused},
    params::{FileParams, Op, Sync},
    prepare::FileWork,
    rates::{self, Did},
    slot::ThreadSlot,
};
use crate::{
    Context, ProbeError,
    clock::{Source, monotonic_ns},
    run::{
        Edge, Extent, Mark, Passes, Repeat, Stretch,
        team::{Together, as_if_equally_long},
    },
};

/// Minimum duration of a pass with several threads, nanoseconds: they start within about a
/// microsecond of each other and do not end together.
const TOGETHER_NS: u64 = 5_000_000;

/// Minimum duration of one thread's pass over a short file, nanoseconds. A single pass would take
/// less than reading the counters around it, and a trial would have a hundred thousand passes.
const ALONE_NS: u64 = 1_000_000;
/// Maximum size of a short file, bytes.
const SHORT: u64 = 1 << 20;
/// Minimum number of passes over a file that show how long the fastest takes.
const FEW: u64 = 3;
/// Fewer passes are enough if they take this many times the minimum duration of a pass.
const LONG: u64 = 10;
/// More passes are done until they have taken this part of the minimum duration.
const PART: u64 = 10;

/// The first bytes of a new file that is flushed while it grows. For so many, ext4 takes room that new files share
/// (`mb_stream_req` of `Documentation/ABI/testing/sysfs-fs-ext4`: 16 blocks). If another layer had its turn meanwhile, either
/// file would be in many pieces, and from the fifth on each flush writes one block of ext4's own more.
const SHARED: u64 = 64 << 10;

/// A single thread's work runs in the probe's main thread. With a second thread that has the file
/// open, the kernel would count references at each call, which costs a small read 2 %.
impl Repeat for FileWork {
    fn context(&self) -> &Context {
        &self.context
    }

    fn passes(&self) -> Passes {
        let p = &self.job.p;
        Passes {
            fixed: p.passes,
            most: if p.once() { p.files } else { 0 },
            min_ms: p.min_ms,
            whole: ends_together(p),
        }
    }

    fn look(&mut self) -> Result<Option<f64>, ProbeError> {
        self.look_at_caches()
    }

    /// Threads with one file each stop at the end of their pass; the others continue with the next
    /// one.
    fn renew(&mut self, _: &mut dyn FnMut(u64)) -> Result<(), ProbeError> {
        let FileJob { p, ops, .. } = &self.job;
        let over = |slot: &&mut ThreadSlot| slot.generation == 0 || slot.at == *ops;
        let mut over = self.slots.iter_mut().filter(over);
        over.try_for_each(|slot| renew(p, slot))
    }

    fn go(&mut self, extent: Extent, beat: &mut dyn FnMut(u64)) -> Result<Stretch, ProbeError> {
        let mut extent = extent;
        if extent.is_pass() {
            extent.passes = self.rounds;
        }
        let (job, slots) = (&self.job, &mut self.slots);
        let Some(team) = &self.team else {
            // With several files, each has one pass, the last file first. So data that an image
            // reads ahead belongs to a file that was already read.
            let fresh = slots.iter().rposition(|slot| slot.generation == 0);
            let slot = &mut slots[fresh.unwrap_or(0)];
            let worked = job.work(slot, extent, beat);
            let worked = worked.map_err(|s| failed(&job.p, slot, &s))?;
            let span = worked.0.span;
            return Ok(Stretch {
                waited_ns: span.waited.ns(),
                ..self.stretch(&[worked], span.net_ns(), None)
            });
        };
        if !extent.is_pass() && ends_together(&job.p) {
            extent = Extent::PASS;
        }
        let Together { each, edges } = team.work(slots, extent, beat)?;
        let did = each.iter().map(|(done, _)| Did::of(done, job.p.unit()));
        let did: Vec<Did> = did.collect();
        let elapsed_ns = if extent.is_pass() {
            self.seen.threads.extend(rates::of(&did));
            rates::from_first_to_last(&did)
        } else {
            let elapsed_ns = as_if_equally_long(each.iter().map(|(done, _)| (done.ops, done.span)));
            if extent.counted {
                rates::add(&mut self.seen.each, &did, elapsed_ns);
            }
            elapsed_ns
        };
        Ok(self.stretch(&each, elapsed_ns, Some(edges)))
    }

    /// Not before a new file has its first [`SHARED`] bytes: see there.
    fn may_rest(&self) -> bool {
        let FileJob { p, ops, .. } = &self.job;
        let begun = |slot: &ThreadSlot| {
            slot.generation > 0 && slot.at < *ops && slot.at * p.unit() < SHARED
        };
        !p.op.makes() || !self.slots.iter().any(begun)
    }

    /// Removes the file of the pass before, so that the next layer's new file takes its place on the disk. If each layer
    /// had one place for all passes of a block, that would be part of the ratio: places differ by several per cent.
    fn passed(&mut self) -> Result<(), ProbeError> {
        let ops = self.job.ops;
        let over = self.slots.iter_mut().filter(|slot| slot.at == ops);
        let mut former = over.filter_map(|slot| slot.former.take());
        former.try_for_each(|path| remove(&path))
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
        let ops = each.iter().map(|(done, _)| done.ops).sum();
        let with_slots = each.iter().zip(&self.slots);
        Stretch {
            elapsed_ns,
            ops,
            bytes: ops * p.unit(),
            syncs: with_slots.map(|(w, slot)| syncs(p, slot.op, w)).sum(),
            over: self.slots.iter().any(|slot| slot.at == self.job.ops),
            edges,
            waited_ns: None,
            kernel_waited_ns: None,
        }
    }

    /// Runs before `ready`: the untimed pass before a reread. Also finds how many times threads
    /// must cover their files so that a pass is long enough.
    pub fn rehearse(&mut self) -> Result<(), ProbeError> {
        let least = if self.job.p.threads > 1 {
            TOGETHER_NS
        } else {
            ALONE_NS
        };
        self.rehearse_for(least)
    }

    /// The same with a minimum duration of a pass, ns.
    pub fn rehearse_for(&mut self, least: u64) -> Result<(), ProbeError> {
        let p = &self.job.p;
        let repeats = repeats(p);
        for (i, slot) in self.slots.iter_mut().enumerate() {
            let (mut rounds, start) = (0, monotonic_ns());
            let counts = i == 0 && repeats;
            // At least one pass, even if a busy machine has used up the time before the first
            // check. A few passes if needed, because the machine may have been busy in the first
            // one.
            let more = |rounds, now| match rounds {
                0 => counts || p.op == Op::Reread,
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
                // A tenth more, because a pass that falls just short of it would be done twice.
                self.rounds = (least + least / 10).div_ceil(quickest).max(1);
            }
            slot.recorder.clear();
            slot.checked = Verified::default();
        }
        Ok(())
    }

    /// Adds up the records of all threads. Encoding them takes a while, which does not count as
    /// debt.
    pub fn sum_up(&mut self, trial: &mut Trial) {
        let in_turns = rates::of(&self.seen.each);
        trial.threads = in_turns.or_else(|| rates::mean(&self.seen.threads));
        if !self.job.p.latency {
            return;
        }
        if let Some((ThreadSlot { recorder: all, .. }, others)) = self.slots.split_first_mut() {
            for other in others {
                all.add(&other.recorder);
            }
            trial.latency = all.latency();
        }
        self.compare_clocks(trial);
    }

    /// Compares the counter's sum over all operations with the elapsed time of `CLOCK_MONOTONIC`.
    fn compare_clocks(&self, trial: &mut Trial) {
        let [ThreadSlot { recorder: all, .. }] = &self.slots[..] else {
            return;
        };
        let plain = matches!(
            self.job.p.sync,
            Sync::None | Sync::Each | Sync::EachData | Sync::Osync | Sync::Odsync
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

/// Whether a pass may cover the files several times. Not if each pass needs a new file or an open,
/// and not if the user has fixed the number.
fn repeats(p: &FileParams) -> bool {
    let short = p.threads > 1 || (p.file_size <= SHORT && p.sync == Sync::None);
    short && p.passes == 0 && !p.once() && !p.op.makes() && !p.sync.closes()
}

/// Renews the file outside the clock. `write` gets a new file; other operations continue with the
/// open one.
fn renew(p: &FileParams, slot: &mut ThreadSlot) -> Result<(), ProbeError> {
    let op = slot.op;
    if op.packaged() || !p.touches() {
        return Ok(());
    }
    if op.makes() {
        drop(slot.file.take());
        if p.changes_places() && slot.generation > 0 {
            // Two names in turn.
            let name = ["a", "b"][slot.generation as usize % 2];
            let next = slot.path.with_extension(name);
            slot.former = Some(mem::replace(&mut slot.path, next));
        }
        remove(&slot.path)?;
    }
    // A point that closes inside the clock has no open file here.
    if slot.file.is_none() {
        let file = open(p, op, &slot.path).map_err(|e| refused(p, &slot.path, "open", &e))?;
        advise(p, op, &file);
        slot.file = Some(file);
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), ProbeError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(ProbeError::io("remove", path, &e)),
        _ => Ok(()),
    }
}

/// Number of flushing calls in the work of one thread.
fn syncs(p: &FileParams, op: Op, (done, passes): &Worked) -> u64 {
    match p.sync {
        _ if !p.touches() || !op.writes() => 0,
        Sync::None | Sync::Close => 0,
        Sync::Fsync | Sync::Fdatasync | Sync::FsyncClose => *passes,
        Sync::Each | Sync::EachData | Sync::Osync | Sync::Odsync => done.ops,
    }
}
