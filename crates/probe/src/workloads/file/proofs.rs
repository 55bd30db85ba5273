//! After the clock: debt, proof of `O_DIRECT`, verification of data.

use std::{fs::File, io, os::unix::fs::FileExt};

use layermark_model::{Debt, Trial, Verified};

use super::{
    fill,
    first_write::first_record,
    job::order,
    params::{FileParams, Op},
    prepare::FileWork,
    slot::ThreadSlot,
};
use crate::{
    ProbeError,
    counters::{self, Devices},
    data::{self, Stamp},
    error::shown,
    files::evict,
    packaged::BLOCK,
    resident,
    run::Mark,
};

/// Share of the written bytes above which a second flush still had work to do.
const LEFT: f64 = 0.1;

impl FileWork {
    /// Flushes its own files. A flush of the whole file system would also pay for other layers that
    /// share it, so it is done after all have paid.
    pub fn pay(&mut self, trial: &mut Trial, since: Mark) -> Result<(), ProbeError> {
        for slot in &mut self.slots {
            let left = slot.runner.leave(&mut slot.file);
            left.map_err(|e| ProbeError::io("write", &slot.path, &e))?;
            slot.file = None;
        }
        if !self.job.p.touches() {
            return Ok(());
        }
        // Done before anything reads or flushes the files again.
        if self.job.p.direct {
            let shares = self.slots.iter().filter_map(|s| resident::share(&s.path));
            let most = shares.reduce(f64::max);
            trial.direct = trial.direct_io(most, self.job.p.op.direction());
        }
        if self.job.p.owes() {
            self.flush(|_| true)?;
            // No other layer has written.
            if trial.turns.is_empty() {
                self.context.sync(&self.dir)?;
            }
            trial.debt = Some(since.debt(&self.devices()));
        } else if self.job.p.no_debt && self.job.p.keep {
            // So that the next trial finds the same state. The rest of the file system can wait.
            // File systems below the layer cannot, because a layer may ignore a flush.
            self.flush(Op::overwrites)?;
            self.context.sync_below(&self.dir)?;
        }
        Ok(())
    }

    fn devices(&self) -> Devices {
        Devices::open(&self.context.devices)
    }

    fn flush(&self, whose: impl Fn(Op) -> bool) -> Result<(), ProbeError> {
        for slot in self.slots.iter().filter(|s| s.op.writes() && whose(s.op)) {
            let flushed = File::open(&slot.path).and_then(|file| file.sync_all());
            flushed.map_err(|e| ProbeError::io("flush", &slot.path, &e))?;
        }
        Ok(())
    }

    pub fn prove(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        if let Some(debt) = trial.debt.filter(|_| !trial.turns.is_empty()) {
            trial.debt = Some(self.rest(debt, trial)?);
        }
        self.tell_what_is_dirty(trial);
        self.sum_up(trial);
        trial.filled_with = self.job.p.filled_with().filter(|_| self.job.p.touches());
        if self.job.p.touches() && self.job.p.verify {
            trial.verified = Some(self.verify(trial)?);
        }
        self.put_back()
    }

    /// Undoes first writes. Flushed here, so that the next point finds nothing dirty.
    fn put_back(&self) -> Result<(), ProbeError> {
        let mut any = false;
        for slot in self.slots.iter().filter(|s| s.generation > 0) {
            if let Some(replaced) = &slot.replaced {
                let put = replaced.put_back(&slot.path);
                put.map_err(|e| ProbeError::io("put back a record of", &slot.path, &e))?;
                any = true;
            }
        }
        if any {
            self.context.sync(&self.dir)?;
        }
        Ok(())
    }

    /// Debt of a layer that ignores a flush.
    fn rest(&self, debt: Debt, trial: &Trial) -> Result<Debt, ProbeError> {
        let (since, devices) = (Mark::read(&self.devices()), self.devices());
        self.context.sync(&self.dir)?;
        let rest = since.debt(&devices);
        let written = self.job.p.file_size.min(trial.bytes()) * self.job.p.writers();
        Ok(match (debt.bytes, rest.bytes) {
            (Some(own), Some(more)) if more as f64 > LEFT * written as f64 => Debt {
                bytes: Some(own + more),
                seconds: debt.seconds + rest.seconds,
            },
            _ => debt,
        })
    }

    /// Records dirty data. In turns it may belong to other layers.
    fn tell_what_is_dirty(&self, trial: &mut Trial) {
        if trial.debt.is_none() || !trial.turns.is_empty() {
            return;
        }
        let written = self.job.p.file_size * self.job.p.writers();
        if let (Some(before), Some(after)) = (self.seen.dirty, counters::dirty()) {
            let more = after.saturating_sub(before);
            if more > written / 10 && more > 1 << 20 {
                trial.notes.push(format!(
                    "after syncfs {} MiB more than before the trial are dirty on this machine: below this layer, or another program's",
                    more >> 20
                ));
            }
        }
    }

    fn verify(&self, trial: &mut Trial) -> Result<Verified, ProbeError> {
        let mut sum = Verified::default();
        let mut first_bad = None;
        // With several files, the last ones may not have had their turn.
        for slot in self.slots.iter().filter(|s| s.generation > 0) {
            sum.records += slot.checked.records;
            sum.bad += slot.checked.bad;
            let fail = |e: &io::Error| ProbeError::io("verify", &slot.path, e);
            let file = File::open(&slot.path).map_err(|e| fail(&e))?;
            // Read from below the cache if possible.
            if slot.op.writes() {
                evict(&file).map_err(|e| fail(&e))?;
                fill::forget(&slot.path);
            }
            let mut check = Check {
                file: &file,
                sum: &mut sum,
                first_bad: None,
            };
            match slot.op {
                Op::RecordRewrite => check.record(0, &self.job.p, slot, slot.generation),
                Op::FirstWrite => {
                    check.record(first_record(&self.job.p, slot.seed), &self.job.p, slot, 1)
                }
                op if op.writes() => check.records(&self.job.p, slot),
                _ => check.packaged(self.job.p.file_size),
            }
            .map_err(|e| fail(&e))?;
            first_bad = first_bad.or(check.first_bad.map(|at| (at, shown(&slot.path))));
        }
        let read: u64 = self.slots.iter().map(|s| s.checked.bad).sum();
        if read > 0 {
            trial.notes.push(format!(
                "wrong data: {read} blocks were wrong when they were read inside the trial"
            ));
        }
        if let Some((at, path)) = first_bad {
            trial.notes.push(format!(
                "wrong data: {} of {} records, the first at byte {at} of {path}",
                sum.bad, sum.records
            ));
        }
        Ok(sum)
    }
}

/// Verifies the records of one file, in a second pass.
struct Check<'a> {
    file: &'a File,
    sum: &'a mut Verified,
    first_bad: Option<u64>,
}

impl Check<'_> {
    fn count(&mut self, good: bool, at: u64) {
        self.sum.records += 1;
        if !good {
            self.sum.bad += 1;
            self.first_bad.get_or_insert(at);
        }
    }

    /// One record that pass `generation` wrote.
    fn record(
        &mut self,
        at: u64,
        p: &FileParams,
        slot: &ThreadSlot,
        generation: u64,
    ) -> io::Result<()> {
        let mut block = vec![0; p.unit() as usize];
        let n = read_at(self.file, &mut block, at)?;
        let expected = Stamp {
            seed: slot.seed,
            offset: at,
            generation,
        };
        self.count(
            n == block.len() && data::read_stamp(&block) == Some(expected),
            at,
        );
        Ok(())
    }

    /// Verifies every record that was written. Each pass writes each record once; the last pass may
    /// be incomplete.
    fn records(&mut self, p: &FileParams, slot: &ThreadSlot) -> io::Result<()> {
        let record = p.unit() as usize;
        let mut chunk = vec![0; record * (1usize << 20).div_ceil(record)];
        let end = p.file_size / p.unit() * p.unit();
        let order = order(p, slot.op, slot.seed, slot.generation);
        let mut again = vec![false; (end / p.unit()) as usize];
        for i in 0..slot.at {
            again[order.at(i) as usize] = true;
        }
        // Before the first pass no record was marked, and a new file is empty.
        let before = slot.generation - 1;
        let earlier = (before > 0 && !slot.op.makes()).then_some(before);
        let generation = |at: u64| {
            let this = again[(at / p.unit()) as usize];
            if this { Some(slot.generation) } else { earlier }
        };
        let (seed, wanted) = (slot.seed, |at| generation(at).is_some());
        self.blocks(end, record, &mut chunk, wanted, |stamp, offset| {
            let expected = generation(offset).map(|generation| Stamp {
                seed,
                offset,
                generation,
            });
            stamp == expected
        })
    }

    /// Blocks of a packaged file have their own checksums, whatever the record size.
    fn packaged(&mut self, size: u64) -> io::Result<()> {
        let mut chunk = vec![0; 256 * BLOCK];
        self.blocks(
            size,
            BLOCK,
            &mut chunk,
            |_| true,
            |stamp, at| stamp.is_some_and(|s| s.offset == at && s.generation == 0),
        )
    }

    fn blocks(
        &mut self,
        end: u64,
        block: usize,
        chunk: &mut [u8],
        wanted: impl Fn(u64) -> bool,
        good: impl Fn(Option<Stamp>, u64) -> bool,
    ) -> io::Result<()> {
        let mut at = 0;
        while at < end {
            let want = (end - at).min(chunk.len() as u64) as usize;
            let n = read_at(self.file, &mut chunk[..want], at)?;
            for (i, bytes) in chunk[..want].chunks(block).enumerate() {
                let start = i * block;
                let offset = at + start as u64;
                if !wanted(offset) {
                    continue;
                }
                // Data beyond the end of a truncated file is missing. A tail shorter than a header
                // has no checksum and only has to exist.
                let there = start + bytes.len() <= n;
                self.count(
                    there && (bytes.len() < data::HEADER || good(data::read_stamp(bytes), offset)),
                    offset,
                );
            }
            at += want as u64;
        }
        Ok(())
    }
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], at + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
