//! Pairs the costs of two layers: turn by turn within a round, block by block. The lab uses the
//! pairs to decide when to stop, the report to decide its verdicts.

use std::collections::BTreeMap;

use crate::{
    BASELINE, Cell, TrialRecord,
    flags::{CUT_OFF, MADE_AGAIN},
};

mod cost;
use cost::Times;
pub use cost::{ClockTime, Cost};

/// Two layers had turns that hardly worked about equally often if the blocks in which one had more of them than the other
/// differ in number by at most so many standard deviations of chance.
const CHANCE: f64 = 2.0;

/// A layer at a point, as indexes into the run.
pub type Site = (usize, usize);

/// The costs of a run's trials.
///
/// A group is one point in one block. An interrupted group is repeated in a later session. Then
/// only the newer session counts, because native of one session and a layer of another are not a
/// pair. If a layer has several trials in a group, the last one with a number counts, together with
/// the earlier trials whose rounds it continues.
///
/// The control is the baseline a second time. So where it had a turn in a round, a layer is compared with both.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The control, if there is one.
    control: Option<usize>,
    /// By point, then block.
    groups: BTreeMap<usize, BTreeMap<u32, Group>>,
}

#[derive(Debug, Default)]
struct Group {
    session: u32,
    /// By layer; `None` if all its trials failed.
    costs: BTreeMap<usize, Option<Cost>>,
}

/// A layer's turns beside the baseline's.
struct Compared<'a> {
    session: u32,
    block: u32,
    here: &'a Times,
    there: &'a Times,
    /// The control, if it took turns in these rounds too.
    control: Option<&'a Times>,
}

/// Whether it is by chance that the one or the other had more turns in a block that hardly worked. Otherwise what was waited
/// for is a property of the layer, and so may be what its turns cost meanwhile.
fn worked_alike(compared: &[Compared<'_>]) -> bool {
    let mut more = [0.0, 0.0];
    for c in compared {
        let idle = c.here.idle_beside(c.there);
        more[0] += f64::from(u8::from(idle[0] > idle[1]));
        more[1] += f64::from(u8::from(idle[1] > idle[0]));
    }
    let [a, b]: [f64; 2] = more;
    (a - b).abs() <= CHANCE * (a + b).sqrt()
}

impl Ledger {
    /// The control's turns count with the baseline's, or no longer.
    pub fn set_control(&mut self, control: Option<usize>) {
        self.control = control;
    }

    /// Adds a trial, in the order in which they were made. Returns whether it has a usable number. Layers are not
    /// compared by the other trials of a fleet's round: [`TrialRecord::is_compared`].
    pub fn add(&mut self, record: &TrialRecord) -> bool {
        let cell = record.cell;
        if !record.is_compared() {
            return record.trial.as_ref().and_then(Cost::of).is_some();
        }
        let blocks = self.groups.entry(cell.point).or_default();
        let group = blocks.entry(cell.block).or_default();
        let cost = record.trial.as_ref().and_then(Cost::of);
        let good = cost.is_some();
        if cell.session > group.session {
            *group = Group {
                session: cell.session,
                costs: BTreeMap::new(),
            };
        }
        if cell.session == group.session {
            let kept = group.costs.entry(cell.layer).or_default();
            *kept = match (kept.take(), cost) {
                (Some(before), Some(cost)) => Some(before.followed_by(cost)),
                (before, cost) => cost.or(before),
            };
        }
        good
    }

    /// The time by which two sites are compared: without waiting if it is no part of the cost of any
    /// of their trials, so that both sides always have the same.
    pub fn time(&self, here: Site, there: Site) -> ClockTime {
        let costs = || self.costs(here, there).flat_map(|(_, a, b)| [a, b]);
        let times = [ClockTime::Clear, ClockTime::Net];
        let known = |time: &ClockTime| costs().all(|c| c.apart && c.times(*time).is_some());
        times.into_iter().find(known).unwrap_or(ClockTime::Raw)
    }

    /// Blocks in which both sites have a number, in order. `make` gets session, block, and nanoseconds
    /// per operation of both: for each round in which both have a turn, or of the whole trials. Then those of
    /// `here` and the control, if `there` is the baseline and the control took turns in these rounds.
    pub fn pairs<T>(
        &self,
        here: Site,
        there: Site,
        make: impl Fn((u32, u32), &[[f64; 2]], &[[f64; 2]]) -> T,
    ) -> Vec<T> {
        self.pairs_by(self.time(here, there), here, there, make)
    }

    /// [`Self::pairs`] by this time, of trials for which it is known.
    pub fn pairs_by<T>(
        &self,
        time: ClockTime,
        here: Site,
        there: Site,
        make: impl Fn((u32, u32), &[[f64; 2]], &[[f64; 2]]) -> T,
    ) -> Vec<T> {
        let compared: Vec<Compared<'_>> = self.compared(time, here, there).collect();
        let only_worked = worked_alike(&compared);
        let pair = |c: &Compared<'_>| {
            let control = c.control.map(|control| c.here.beside(control, only_worked));
            make(
                (c.session, c.block),
                &c.here.beside(c.there, only_worked),
                &control.unwrap_or_default(),
            )
        };
        compared.iter().map(pair).collect()
    }

    /// For the same blocks, the session, and nanoseconds and operations of both sites: for each round in
    /// which both have a turn, or of the whole trials. The control's are added to the baseline's.
    pub fn totals(&self, here: Site, there: Site) -> Vec<(u32, Vec<[[f64; 2]; 2]>)> {
        let both = self.compared(self.time(here, there), here, there);
        both.map(|c| (c.session, c.here.totals(c.there, c.control)))
            .collect()
    }

    /// Whether the control's turns count in the comparison of these sites in a block.
    pub fn counts_control(&self, here: Site, there: Site, block: u32) -> bool {
        let mut all = self.compared(self.time(here, there), here, there);
        all.any(|c| c.block == block && c.control.is_some())
    }

    fn compared(
        &self,
        time: ClockTime,
        here: Site,
        there: Site,
    ) -> impl Iterator<Item = Compared<'_>> {
        // The control itself is compared with the baseline alone.
        let control = self.control.filter(|control| {
            there.0 == BASELINE && here.0 != BASELINE && here.0 != *control && here.1 == there.1
        });
        let point = here.1;
        self.costs(here, there)
            .filter_map(move |((session, block), cost, against)| {
                let (here, there) = (cost.times(time)?, against.times(time)?);
                let of_control = control.and_then(|layer| {
                    let group = self.groups.get(&point)?.get(&block)?;
                    let cost = group.costs.get(&layer)?.as_ref()?;
                    // What it has waited may be left out only if it is not a cost of the control either.
                    let alike = time == ClockTime::Raw || cost.apart;
                    cost.times(time).filter(|_| alike)
                });
                Some(Compared {
                    session,
                    block,
                    here,
                    there,
                    control: of_control.filter(|control| here.meets_alike(there, control)),
                })
            })
    }

    /// Session and block of the blocks in which both sites have a number, with their costs.
    fn costs(&self, here: Site, there: Site) -> impl Iterator<Item = ((u32, u32), &Cost, &Cost)> {
        let groups = self.groups.get(&here.1).zip(self.groups.get(&there.1));
        groups.into_iter().flat_map(move |(ours, theirs)| {
            ours.iter().filter_map(move |(block, group)| {
                let other = theirs.get(block).filter(|o| o.session == group.session)?;
                let cost = group.costs.get(&here.0)?.as_ref()?;
                let against = other.costs.get(&there.0)?.as_ref()?;
                Some(((group.session, *block), cost, against))
            })
        })
    }

    /// Whether a trial counts: no later session has repeated its group.
    pub fn counts(&self, cell: Cell) -> bool {
        let group = self
            .groups
            .get(&cell.point)
            .and_then(|g| g.get(&cell.block));
        group.is_some_and(|g| g.session == cell.session)
    }

    /// The flag of a trial that does not count because its group was interrupted.
    pub fn cut_off(&self, cell: Cell, layers: usize) -> Option<&'static str> {
        if !self.counts(cell) {
            return Some(MADE_AGAIN);
        }
        let tried = self.tried(cell.block, cell.point);
        let whole = layers < 2 || tried.len() > 1 && tried.contains(&BASELINE);
        (!whole).then_some(CUT_OFF)
    }

    /// The layers tried at a point of a block, in its newest session.
    pub fn tried(&self, block: u32, point: usize) -> Vec<usize> {
        let group = self.groups.get(&point).and_then(|g| g.get(&block));
        group.map_or_else(Vec::new, |g| g.costs.keys().copied().collect())
    }
}

#[cfg(test)]
mod tests;
