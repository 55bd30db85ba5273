//! What a disk was told, in the order in which it completed, and what a power cut does to each write.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Choice, SECTOR, choice::Kept};

/// How much of the log had been written at a moment, bytes. Marks of one disk can be compared.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Mark(pub u64);

/// A write that has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Place on the disk, bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Place of its data in the log, bytes.
    pub data: u64,
    /// It was on stable storage when it completed (`O_DSYNC`, or FUA of a block device).
    pub stable: bool,
}

/// What completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A write.
    Write(Write),
    /// A flush. It covers the writes that had completed before it began, and no others: those that
    /// completed while it was under way may still be in the cache.
    Flush {
        /// How many of the writes, counted from the first.
        covers: usize,
        /// It ended with an error. What it covers is not written and will not be: as with a page cache
        /// whose pages are clean after a failed write, later flushes succeed without it.
        failed: bool,
    },
}

/// What a power cut does to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is on stable storage.
    Stable,
    /// It is in the cache alone: it may be lost, whole or in part.
    Cached,
    /// A flush of it has failed: it is lost.
    Dropped,
}

/// The events of a disk in the order in which they completed.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// How long the log was before the first event.
    first: Mark,
    events: Vec<Event>,
    /// How long the log was after each.
    ends: Vec<Mark>,
}

/// Bytes of the log that survive, and where on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) data: u64,
}

impl Write {
    fn whole(&self) -> Piece {
        Piece {
            offset: self.offset,
            length: self.length,
            data: self.data,
        }
    }

    /// Its parts in each sector of the disk.
    fn sectors(&self) -> impl Iterator<Item = Piece> + use<> {
        let (write, end) = (*self, self.offset + self.length);
        let first = write.offset / SECTOR * SECTOR;
        (first..end).step_by(SECTOR as usize).map(move |sector| {
            let offset = sector.max(write.offset);
            Piece {
                offset,
                length: end.min(sector + SECTOR) - offset,
                data: write.data + (offset - write.offset),
            }
        })
    }
}

impl Journal {
    /// Adds what has completed; `end` is the length of the log with it.
    pub fn push(&mut self, event: Event, end: Mark) {
        self.events.push(event);
        self.ends.push(end);
    }

    /// Events in the order in which they completed.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How many events had completed at `mark`: a point at which the power can be cut.
    pub fn point(&self, mark: Mark) -> usize {
        self.ends.partition_point(|end| *end <= mark)
    }

    /// The length of the log at a point.
    pub fn mark(&self, point: usize) -> Mark {
        match point.min(self.ends.len()).checked_sub(1) {
            Some(last) => self.ends[last],
            None => self.first,
        }
    }

    /// The last point up to this one at which no write was in the cache alone.
    pub(super) fn settled(&self, point: usize) -> usize {
        let (mut last, mut written, mut settled) = (0, 0, 0);
        // Writes in the cache, by their number.
        let mut cached = BTreeSet::new();
        for (at, event) in self.events[..point.min(self.events.len())]
            .iter()
            .enumerate()
        {
            match *event {
                Event::Write(write) => {
                    if !write.stable {
                        cached.insert(written);
                    }
                    written += 1;
                }
                Event::Flush { covers, .. } => {
                    settled = covers.max(settled);
                    cached = cached.split_off(&settled);
                }
            }
            if cached.is_empty() {
                last = at + 1;
            }
        }
        last
    }

    /// The events after a point at which no write was in the cache alone.
    pub(super) fn after(&self, point: usize) -> Self {
        let before = self.events[..point].iter();
        let written = before.filter(|e| matches!(e, Event::Write(_))).count();
        let later = |event: &Event| match *event {
            Event::Flush { covers, failed } => Event::Flush {
                covers: covers.saturating_sub(written),
                failed,
            },
            write @ Event::Write(_) => write,
        };
        Self {
            first: self.mark(point),
            events: self.events[point..].iter().map(later).collect(),
            ends: self.ends[point..].to_vec(),
        }
    }

    /// Flushes that succeeded between two points.
    pub fn flushes(&self, from: usize, to: usize) -> usize {
        let events = self.events[..to.min(self.events.len())].iter().skip(from);
        events
            .filter(|e| matches!(e, Event::Flush { failed: false, .. }))
            .count()
    }

    /// Points just before and just after each flush, and one between it and the flush before.
    pub fn points(&self) -> Vec<usize> {
        let mut points = vec![0];
        let mut last = 0_usize;
        for (at, event) in self.events.iter().enumerate() {
            if matches!(event, Event::Flush { .. }) {
                points.extend([last.midpoint(at), at, at + 1]);
                last = at + 1;
            }
        }
        points.push(self.events.len());
        points.dedup();
        points
    }

    /// The writes before a point, and what a cut at that point does to them.
    pub fn fates(&self, point: usize) -> Vec<(Write, Fate)> {
        let mut writes: Vec<(Write, Fate)> = Vec::new();
        // Those before it are not in the cache any more.
        let mut settled = 0;
        for event in &self.events[..point.min(self.events.len())] {
            match *event {
                Event::Write(write) if write.stable => writes.push((write, Fate::Stable)),
                Event::Write(write) => writes.push((write, Fate::Cached)),
                Event::Flush { covers, failed } => {
                    let outcome = if failed { Fate::Dropped } else { Fate::Stable };
                    for (_, fate) in writes.iter_mut().take(covers).skip(settled) {
                        if *fate == Fate::Cached {
                            *fate = outcome;
                        }
                    }
                    settled = settled.max(covers);
                }
            }
        }
        writes
    }

    /// How many writes are only in the cache at a point.
    pub fn cached(&self, point: usize) -> usize {
        let fates = self.fates(point);
        fates.iter().filter(|(_, f)| *f == Fate::Cached).count()
    }

    /// What survives a cut, in the order in which it was written: a block that was written twice is as it
    /// was written last.
    pub(super) fn survivors(&self, point: usize, choice: Choice) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut cached = 0;
        for (write, fate) in self.fates(point) {
            match fate {
                Fate::Dropped => {}
                Fate::Stable => pieces.push(write.whole()),
                Fate::Cached => {
                    let sectors = (0..).zip(write.sectors());
                    match choice.of(cached) {
                        Kept::Whole => pieces.push(write.whole()),
                        Kept::Nothing => {}
                        Kept::Sectors(keeps) => {
                            pieces.extend(
                                sectors
                                    .filter(|(n, _)| keeps.has(*n))
                                    .map(|(_, piece)| piece),
                            );
                        }
                    }
                    cached += 1;
                }
            }
        }
        pieces
    }
}
