//! Pairs the costs of two layers: turn by turn within a round, block by block. The lab uses the
//! pairs to decide when to stop, the report to decide its verdicts.

use std::collections::BTreeMap;

use crate::{
    BASELINE, Cell, Trial, TrialRecord, Turn,
    flags::{CUT_OFF, MADE_AGAIN},
};

/// A turn of which less than one in so many parts is cost, and the rest was waited for a CPU, says little: what is left is two
/// to four times what the same work takes elsewhere.
const LEAST_PART: u64 = 8;
/// The fewest rounds of a block that stand for it without those that have such a turn.
const FEWEST_ROUNDS: usize = 3;
/// Two layers had such turns about equally often if the blocks in which one had more than the other differ in number by at
/// most so many standard deviations of chance.
const CHANCE: f64 = 2.0;

/// A layer at a point, as indexes into the run.
pub type Site = (usize, usize);

/// Which time of a trial is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockTime {
    /// All time on the clock.
    Raw,
    /// Without the time that the thread on the clock waited for a CPU.
    Net,
    /// Also without the time that the kernel's threads waited beside other programs: [`Trial::clear_ns`].
    Clear,
}

/// The cost of a trial: nanoseconds per operation, in total and for each turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    raw: Times,
    /// `None` if not all of its waiting is known.
    net: Option<Times>,
    /// `None` if the waiting of the kernel's threads is not known as well.
    clear: Option<Times>,
    /// Whether the waiting is no part of the layer's cost: [`crate::Waiting::apart`].
    apart: bool,
}

impl Cost {
    /// `None` for a trial without a usable number.
    pub fn of(trial: &Trial) -> Option<Self> {
        // At a fixed pace a turn's length says nothing about the layer.
        let turns = |ns: &dyn Fn(&Turn) -> Option<u64>| {
            let turns = trial.turns.iter().filter(|_| trial.response_ns.is_none());
            let turns = turns.filter_map(|t| TurnTime::of(t, ns(t)?));
            let mut turns: Vec<TurnTime> = turns.collect();
            turns.sort_by_key(|t| t.round);
            turns
        };
        let ops = trial.ops() as f64;
        let elapsed_ns = trial.elapsed_ns();
        let all_ns = trial.response_ns.map_or(elapsed_ns as f64, |ns| ns * ops);
        let raw = Times {
            ns_per_op: trial.ns_per_op().filter(|ns| is_usable(*ns))?,
            whole: [all_ns, ops],
            turns: turns(&|t| Some(t.elapsed_ns)),
        };
        let net = || {
            let waited_ns = trial.waited_ns()?;
            Some(Times {
                ns_per_op: trial.net_ns_per_op().filter(|ns| is_usable(*ns))?,
                whole: [(elapsed_ns - waited_ns) as f64, ops],
                turns: turns(&Turn::net_ns),
            })
        };
        let clear = || {
            let waited_ns = trial.waited_ns()?.saturating_add(trial.kernel_waited_ns()?);
            Some(Times {
                ns_per_op: trial.clear_ns_per_op().filter(|ns| is_usable(*ns))?,
                whole: [elapsed_ns.checked_sub(waited_ns)? as f64, ops],
                turns: turns(&|t| trial.clear_ns(t)),
            })
        };
        let (net, clear) = (net(), clear());
        Some(Self {
            apart: net.is_some() && trial.waiting.is_some_and(|w| w.apart),
            raw,
            net,
            clear,
        })
    }

    /// Nanoseconds per operation of each turn, or of the whole trial if it has none. `None` if this
    /// time is not known.
    pub fn turns(&self, time: ClockTime) -> Option<Vec<f64>> {
        let times = self.times(time)?;
        let turns: Vec<f64> = times.turns.iter().map(TurnTime::cost).collect();
        Some(if turns.is_empty() {
            vec![times.ns_per_op]
        } else {
            turns
        })
    }

    /// The trial's value; finite and above 0. `None` if this time is not known.
    pub fn ns_per_op(&self, time: ClockTime) -> Option<f64> {
        self.times(time).map(|times| times.ns_per_op)
    }

    /// The time that is the layer's cost.
    pub fn time(&self) -> ClockTime {
        match (self.apart, &self.clear) {
            (false, _) => ClockTime::Raw,
            (true, None) => ClockTime::Net,
            (true, Some(_)) => ClockTime::Clear,
        }
    }

    fn times(&self, time: ClockTime) -> Option<&Times> {
        match time {
            ClockTime::Raw => Some(&self.raw),
            ClockTime::Net => self.net.as_ref(),
            ClockTime::Clear => self.clear.as_ref(),
        }
    }

    /// Appends the next trial. A divided block has one baseline trial in each part, and each part
    /// continues the round numbers. A trial whose rounds do not continue replaces the earlier one.
    fn followed_by(self, next: Self) -> Self {
        let goes_on = match (self.raw.turns.last(), next.raw.turns.first()) {
            (Some(last), Some(first)) => first.round > last.round,
            _ => false,
        };
        if !goes_on {
            return next;
        }
        let both = self.net.zip(next.net);
        Self {
            raw: self.raw.followed_by(next.raw),
            apart: both.is_some() && self.apart && next.apart,
            net: both.map(|(own, next)| own.followed_by(next)),
            clear: self
                .clear
                .zip(next.clear)
                .map(|(own, next)| own.followed_by(next)),
        }
    }
}

fn is_usable(ns: f64) -> bool {
    ns.is_finite() && ns > 0.0
}

/// The times of a trial.
#[derive(Debug, Clone, PartialEq)]
struct Times {
    /// The trial's value; finite and above 0.
    ns_per_op: f64,
    /// Nanoseconds and operations of the whole trial.
    whole: [f64; 2],
    /// Turns with a usable number, in order of rounds.
    turns: Vec<TurnTime>,
}

/// Nanoseconds and operations of a turn.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TurnTime {
    round: u32,
    total: [f64; 2],
    /// Whether it worked for at least [`LEAST_PART`] of its time.
    worked: bool,
}

impl TurnTime {
    fn of(turn: &Turn, ns: u64) -> Option<Self> {
        let total = [ns as f64, turn.ops as f64];
        is_usable(total[0] / total[1]).then_some(Self {
            round: turn.round,
            total,
            worked: ns >= turn.elapsed_ns / LEAST_PART,
        })
    }

    fn cost(&self) -> f64 {
        self.total[0] / self.total[1]
    }
}

impl Times {
    fn followed_by(self, next: Self) -> Self {
        let mut turns = self.turns;
        turns.extend(next.turns);
        Self { turns, ..next }
    }

    /// The turns of rounds in which both have one.
    fn rounds<'a>(&'a self, other: &'a Self) -> Vec<(&'a TurnTime, &'a TurnTime)> {
        let mut rest = other.turns.iter().peekable();
        let mut both = Vec::new();
        for turn in &self.turns {
            while rest.next_if(|t| t.round < turn.round).is_some() {}
            if let Some(there) = rest.next_if(|t| t.round == turn.round) {
                both.push((turn, there));
            }
        }
        both
    }

    /// This cost and the other's, for each round in which both have a turn; of enough rounds without those in which one
    /// hardly worked, if only the others are asked for. Without such rounds (a launch, a copy-up, an older run), one pair of
    /// the whole trials.
    fn beside(&self, other: &Self, only_worked: bool) -> Vec<[f64; 2]> {
        let mut both = self.rounds(other);
        let worked = |(t, there): &(&TurnTime, &TurnTime)| t.worked && there.worked;
        if only_worked && both.iter().filter(|round| worked(round)).count() >= FEWEST_ROUNDS {
            both.retain(worked);
        }
        let both = both.into_iter();
        let mut costs: Vec<[f64; 2]> = both.map(|(t, there)| [t.cost(), there.cost()]).collect();
        if costs.is_empty() {
            costs.push([self.ns_per_op, other.ns_per_op]);
        }
        costs
    }

    /// Nanoseconds and operations of both, for each round in which both have a turn. Without such
    /// rounds, one pair of the whole trials. Those of `more` are added to the other's.
    fn totals(&self, other: &Self, more: Option<&Self>) -> Vec<[[f64; 2]; 2]> {
        let with = |total: [f64; 2], more: Option<[f64; 2]>| {
            let [ns, ops] = more.unwrap_or_default();
            [total[0] + ns, total[1] + ops]
        };
        let in_round = |round: u32| {
            let turns = &more?.turns;
            let at = turns.binary_search_by_key(&round, |t| t.round).ok()?;
            Some(turns[at].total)
        };
        let both = self.rounds(other).into_iter();
        let mut totals: Vec<_> = both
            .map(|(t, there)| [t.total, with(there.total, in_round(t.round))])
            .collect();
        if totals.is_empty() {
            totals.push([self.whole, with(other.whole, more.map(|m| m.whole))]);
        }
        totals
    }

    /// Whether it took turns with the second as it did with the first: in common rounds with both, or with neither.
    fn meets_alike(&self, first: &Self, second: &Self) -> bool {
        self.rounds(first).is_empty() == self.rounds(second).is_empty()
    }
}

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
        let mut idle = [0, 0];
        for (t, there) in c.here.rounds(c.there) {
            idle[0] += u32::from(!t.worked);
            idle[1] += u32::from(!there.worked);
        }
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
mod tests {
    use super::*;
    use crate::Pass;

    fn trial(ns: u64, turns: &[(u32, u64)]) -> Trial {
        let turn = |(round, ns): &(u32, u64)| Turn {
            round: *round,
            elapsed_ns: *ns,
            ops: 1,
            ..Turn::default()
        };
        Trial {
            passes: vec![Pass {
                elapsed_ns: ns,
                ops: 1,
                ..Pass::default()
            }],
            turns: turns.iter().map(turn).collect(),
            ..Trial::default()
        }
    }

    fn record((session, block): (u32, u32), (layer, point): Site, ns: Option<u64>) -> TrialRecord {
        TrialRecord {
            cell: Cell {
                session,
                block,
                layer,
                point,
            },
            trial: ns.map(|ns| trial(ns, &[])),
            error: ns.is_none().then(|| "no".into()),
            ..TrialRecord::default()
        }
    }

    /// A pair as it was made.
    struct Made {
        session: u32,
        rounds: Vec<[f64; 2]>,
    }

    impl Made {
        fn ratios(&self) -> Vec<f64> {
            self.rounds
                .iter()
                .map(|[here, there]| here / there)
                .collect()
        }
    }

    fn pairs(ledger: &Ledger, here: Site, there: Site) -> Vec<Made> {
        ledger.pairs(here, there, |(session, _), rounds, _| Made {
            session,
            rounds: rounds.to_vec(),
        })
    }

    fn ratios(here: &Trial, there: &Trial) -> Vec<f64> {
        let (here, there) = (Cost::of(here).unwrap(), Cost::of(there).unwrap());
        let rounds = here.raw.beside(&there.raw, true).into_iter();
        rounds.map(|[here, there]| here / there).collect()
    }

    #[test]
    fn trials_of_a_group_that_was_cut_off_are_told_apart() {
        let mut ledger = Ledger::default();
        for (at, layer) in [
            ((0, 0), 0),
            ((0, 0), 1),
            ((0, 1), 0),
            ((1, 2), 1),
            ((1, 3), 1),
        ] {
            ledger.add(&record(at, (layer, 0), Some(10)));
        }
        ledger.add(&record((2, 2), (0, 0), Some(10)));
        ledger.add(&record((2, 2), (1, 0), Some(10)));
        let cut_off = |session, block| {
            let cell = Cell {
                session,
                block,
                layer: 0,
                point: 0,
            };
            ledger.cut_off(cell, 2)
        };
        assert_eq!((cut_off(0, 0), cut_off(2, 2)), (None, None));
        assert_eq!(cut_off(0, 1), Some(CUT_OFF), "native alone");
        assert_eq!(cut_off(1, 3), Some(CUT_OFF), "without native");
        assert_eq!(cut_off(1, 2), Some(MADE_AGAIN));
        let alone = Cell {
            session: 0,
            block: 1,
            layer: 0,
            point: 0,
        };
        assert_eq!(ledger.cut_off(alone, 1), None, "nothing to compare with");
    }

    #[test]
    fn turns_of_the_same_round_make_a_pair() {
        let here = trial(500, &[(3, 80), (0, 20), (1, 60)]);
        let there = trial(100, &[(0, 10), (2, 7), (3, 20)]);
        let found = ratios(&here, &there);
        assert_eq!(found.len(), 2);
        assert!((found[0] - 2.0).abs() < 1e-12 && (found[1] - 4.0).abs() < 1e-12);
    }

    #[test]
    fn parts_of_a_divided_block_pair_with_the_baseline_of_their_own() {
        let mut ledger = Ledger::default();
        let part = |layer: usize, rounds: &[(u32, u64)]| TrialRecord {
            trial: Some(trial(100, rounds)),
            ..record((0, 0), (layer, 0), Some(100))
        };
        for (layer, rounds) in [
            (0, [(0, 10), (1, 10)]),
            (1, [(0, 20), (1, 20)]),
            (0, [(2, 30), (3, 30)]),
            (2, [(2, 60), (3, 60)]),
        ] {
            ledger.add(&part(layer, &rounds));
        }
        for layer in [1, 2] {
            let found = pairs(&ledger, (layer, 0), (0, 0));
            let ratios = found[0].ratios();
            assert_eq!(ratios.len(), 2, "layer {layer}");
            assert!(ratios.iter().all(|r| (r - 2.0).abs() < 1e-12), "{ratios:?}");
        }
        // A trial whose rounds start again replaces the earlier one.
        ledger.add(&part(1, &[(0, 40), (1, 40)]));
        let found = pairs(&ledger, (1, 0), (0, 0));
        assert!((found[0].ratios()[0] - 4.0).abs() < 1e-12);
    }

    #[test]
    fn without_common_rounds_the_trials_are_the_pair() {
        for (here, there) in [
            (trial(300, &[]), trial(100, &[])),
            (trial(300, &[(0, 9)]), trial(100, &[])),
            (trial(300, &[(0, 9)]), trial(100, &[(1, 9)])),
            (trial(300, &[(0, 0)]), trial(100, &[(0, 9)])),
        ] {
            let found = ratios(&here, &there);
            assert!(found.len() == 1 && (found[0] - 3.0).abs() < 1e-12);
        }
        let mut paced = trial(300, &[(0, 9)]);
        paced.response_ns = Some(50.0);
        assert!((ratios(&paced, &trial(100, &[(0, 9)]))[0] - 0.5).abs() < 1e-12);
        assert!(Cost::of(&Trial::default()).is_none());
    }

    #[test]
    fn pairs_need_both_and_a_group_made_again_counts_once() {
        let mut ledger = Ledger::default();
        let (native, layer) = ((0, 0), (1, 0));
        ledger.add(&record((0, 0), native, Some(10)));
        ledger.add(&record((0, 0), layer, Some(20)));
        ledger.add(&record((0, 1), native, Some(10)));
        ledger.add(&record((1, 1), layer, Some(90)));
        let found = pairs(&ledger, layer, native);
        assert_eq!(found.len(), 1, "a pair of two sessions is none");
        assert_eq!(ledger.tried(1, 0), [1]);
        ledger.add(&record((1, 1), native, Some(30)));
        ledger.add(&record((0, 1), native, Some(99)));
        let found = pairs(&ledger, layer, native);
        assert_eq!((found.len(), found[1].session), (2, 1));
        assert!(
            (found[1].rounds[0][1] - 30.0).abs() < 1e-12,
            "the older one is late"
        );
    }

    /// A block of layers whose turns take so long in these two rounds.
    fn of_rounds(trials: &[(usize, u64, [u32; 2])]) -> Ledger {
        let mut ledger = Ledger::default();
        for &(layer, ns, rounds) in trials {
            let turns = rounds.map(|round| (round, ns));
            ledger.add(&TrialRecord {
                trial: Some(trial(ns, &turns)),
                ..record((0, 0), (layer, 0), Some(ns))
            });
        }
        ledger
    }

    #[test]
    fn the_baseline_costs_what_it_did_in_the_part_of_the_other() {
        let ledger = of_rounds(&[
            (0, 100, [0, 1]),
            (1, 300, [0, 1]),
            (0, 200, [2, 3]),
            (2, 500, [2, 3]),
        ]);
        let values = |layer| pairs(&ledger, (layer, 0), (0, 0))[0].rounds.clone();
        assert_eq!(values(1), [[300.0, 100.0]; 2]);
        assert_eq!(values(2), [[500.0, 200.0]; 2]);
        let totals = |layer| ledger.totals((layer, 0), (0, 0));
        let both = |here, there| (0, vec![[[here, 1.0], [there, 1.0]]; 2]);
        assert_eq!(totals(1), [both(300.0, 100.0)]);
        assert_eq!(totals(2), [both(500.0, 200.0)]);
    }

    /// Native, a layer and the control in two rounds, and native with another layer in two more.
    fn with_control() -> Ledger {
        of_rounds(&[
            (0, 100, [0, 1]),
            (1, 300, [0, 1]),
            (3, 120, [0, 1]),
            (0, 200, [2, 3]),
            (2, 500, [2, 3]),
        ])
    }

    #[test]
    fn a_layer_is_compared_with_the_control_where_that_took_turns_with_it() {
        let mut ledger = with_control();
        let both = |ledger: &Ledger, layer| {
            ledger.pairs((layer, 0), (0, 0), |_, native, control| {
                (native.to_vec(), control.to_vec())
            })
        };
        let plain = both(&ledger, 1);
        assert!(plain[0].1.is_empty(), "nobody has named a control");
        ledger.set_control(Some(3));
        let expected = (vec![[300.0, 100.0]; 2], vec![[300.0, 120.0]; 2]);
        assert_eq!(both(&ledger, 1), [expected]);
        assert_eq!(
            ledger.totals((1, 0), (0, 0)),
            [(0, vec![[[300.0, 1.0], [220.0, 2.0]]; 2])]
        );
        assert!(both(&ledger, 2)[0].1.is_empty(), "it is in another part");
        let native = [[120.0, 100.0]; 2];
        assert_eq!(both(&ledger, 3), [(native.to_vec(), Vec::new())]);
        assert!(ledger.counts_control((1, 0), (0, 0), 0));
        assert!(!ledger.counts_control((2, 0), (0, 0), 0));
        ledger.set_control(None);
        assert_eq!(both(&ledger, 1), plain);
    }

    #[test]
    fn a_control_that_failed_or_took_no_turns_leaves_the_baseline_alone() {
        let mut ledger = with_control();
        ledger.set_control(Some(3));
        let of_control = |ledger: &Ledger, block: u32| ledger.counts_control((1, 0), (0, 0), block);
        for (block, control) in [
            (1, None),
            (2, Some(trial(120, &[]))),
            (3, Some(trial(120, &[(7, 120)]))),
        ] {
            for (layer, trial) in [
                (0, Some(trial(100, &[(0, 100)]))),
                (1, Some(trial(300, &[(0, 300)]))),
                (3, control.clone()),
            ] {
                ledger.add(&TrialRecord {
                    error: trial.is_none().then(|| "no".into()),
                    trial,
                    ..record((0, block), (layer, 0), None)
                });
            }
            assert!(!of_control(&ledger, block), "block {block}");
        }
        assert!(of_control(&ledger, 0));
        // Trials in one stretch have no rounds.
        for (layer, ns) in [(0, 100), (1, 300), (3, 120)] {
            ledger.add(&record((0, 4), (layer, 0), Some(ns)));
        }
        let whole = ledger.totals((1, 0), (0, 0)).pop();
        assert_eq!(whole, Some((0, vec![[[300.0, 1.0], [220.0, 2.0]]])));
    }

    #[test]
    fn the_last_number_of_a_group_counts_and_a_failure_takes_none_away() {
        let mut ledger = Ledger::default();
        let (cold, warm) = ((1, 0), (1, 1));
        assert!(ledger.add(&record((0, 0), cold, Some(10))));
        assert!(ledger.add(&record((0, 0), cold, Some(40))));
        assert!(!ledger.add(&record((0, 0), cold, None)));
        assert!(!ledger.add(&record((0, 0), warm, Some(0))));
        assert!(pairs(&ledger, warm, cold).is_empty());
        ledger.add(&record((0, 0), warm, Some(20)));
        let found = pairs(&ledger, warm, cold);
        assert!(
            (found[0].ratios()[0] - 0.5).abs() < 1e-12,
            "two points, one block"
        );
    }

    /// Where the kernel's threads waited for 3 ms an operation, the rest was two to four times what it is elsewhere.
    #[test]
    fn rounds_with_turns_that_hardly_worked_are_left_out_where_that_is_chance() {
        type Turns = &'static [(u32, u64, u64)];
        // Blocks of the layer's turns and native's.
        let compared = |blocks: &[[Turns; 2]]| {
            let mut ledger = Ledger::default();
            for (block, layers) in blocks.iter().enumerate() {
                for (at, turns) in [layers[1], layers[0]].into_iter().enumerate() {
                    ledger.add(&TrialRecord {
                        trial: Some(waits(true, turns)),
                        ..record((0, block as u32), (at, 0), Some(1))
                    });
                }
            }
            ledger.pairs((1, 0), (0, 0), |_, rounds, _| rounds.to_vec())
        };
        let good: Turns = &[(0, 100, 0), (1, 100, 0), (2, 100, 0), (3, 100, 0)];
        // A tenth of the third turn is left. Two fifteenths are enough.
        let bad: Turns = &[(0, 100, 0), (1, 100, 0), (2, 3000, 2700), (3, 3000, 2600)];
        let worse: Turns = &[(0, 100, 0), (1, 100, 0), (2, 3000, 2700), (3, 3000, 2700)];
        let kept = [[100.0, 100.0], [100.0, 100.0], [400.0, 100.0]];
        assert_eq!(compared(&[[bad, good], [good, bad]])[0], kept);
        assert_eq!(compared(&[[worse, good]])[0].len(), 4, "too few are left");
        // Four blocks may all be chance, five are not.
        assert_eq!(compared(&[[bad, good]; 4])[3], kept);
        assert!(compared(&[[bad, good]; 5]).iter().all(|d| d.len() == 4));
    }

    /// A trial whose turns take and wait this many nanoseconds.
    fn waits(apart: bool, turns: &[(u32, u64, u64)]) -> Trial {
        let each = turns.iter().map(|(round, ns, _)| (*round, *ns));
        let sum = |of: fn(&(u32, u64, u64)) -> u64| turns.iter().map(of).sum();
        let mut made = trial(sum(|t| t.1), &each.collect::<Vec<_>>());
        made.waiting = Some(crate::Waiting {
            apart,
            ..crate::Waiting::default()
        });
        made.passes[0].ops = turns.len() as u64;
        made.passes[0].waited_ns = Some(sum(|t| t.2));
        for (turn, (.., waited)) in made.turns.iter_mut().zip(turns) {
            turn.waited_ns = Some(*waited);
        }
        made
    }

    fn ledger_of(native: &Trial, layer: &Trial) -> Ledger {
        let mut ledger = Ledger::default();
        for (at, trial) in [native, layer].into_iter().enumerate() {
            ledger.add(&TrialRecord {
                trial: Some(trial.clone()),
                ..record((0, 0), (at, 0), Some(1))
            });
        }
        ledger
    }

    #[test]
    fn waiting_is_left_out_where_it_is_no_cost_of_either() {
        let native = waits(true, &[(0, 500, 400), (1, 100, 0), (2, 90, 90)]);
        let turns = [(0, 230, 100), (1, 930, 800), (2, 130, 0)];
        let of = |layer: &Trial| {
            let ledger = ledger_of(&native, layer);
            let made = pairs(&ledger, (1, 0), (0, 0)).remove(0);
            (ledger.time((1, 0), (0, 0)), made, ledger)
        };
        let (time, made, ledger) = of(&waits(true, &turns));
        let each = made.ratios();
        assert_eq!(time, ClockTime::Net);
        // The last round has nothing left natively.
        assert_eq!(each.len(), 2);
        assert!(each.iter().all(|r| (r - 1.3).abs() < 1e-9), "{each:?}");
        let natively: Vec<f64> = made.rounds.iter().map(|[_, native]| *native).collect();
        assert_eq!(natively, [100.0, 100.0], "without waiting");
        assert_eq!(
            ledger.totals((1, 0), (0, 0))[0].1[0],
            [[130.0, 1.0], [100.0, 1.0]]
        );
        let raw = ledger.pairs_by(ClockTime::Raw, (1, 0), (0, 0), |_, rounds, _| rounds.len());
        assert_eq!(raw, [3], "and the whole time is there too");
        // A process serves it: both sides have all of their time.
        let (time, made, ledger) = of(&waits(false, &turns));
        assert_eq!(time, ClockTime::Raw);
        assert!((made.ratios()[0] - 0.46).abs() < 1e-9);
        assert_eq!(ledger.time((0, 0), (0, 0)), ClockTime::Net, "native's own");
        // A control that a quota stopped has that as its cost, and no share in ratios without waiting.
        for (apart, counts) in [(true, true), (false, false)] {
            let mut ledger = ledger_of(&native, &waits(true, &turns));
            ledger.add(&TrialRecord {
                trial: Some(waits(apart, &[(0, 500, 400), (1, 100, 0), (2, 90, 90)])),
                ..record((0, 0), (2, 0), Some(1))
            });
            ledger.set_control(Some(2));
            assert_eq!(ledger.counts_control((1, 0), (0, 0), 0), counts);
        }
        // Threads of the kernel waited too, in a block that others disturbed. A layer that does not see them is compared
        // by what the one thread waited.
        let clear = |of: &Trial, each: [u64; 3]| {
            let mut made = of.clone();
            made.waiting.as_mut().unwrap().disturbed = true;
            made.passes[0].kernel_waited_ns = Some(each.iter().sum());
            for (turn, ns) in made.turns.iter_mut().zip(each) {
                turn.kernel_waited_ns = Some(ns);
            }
            made
        };
        let quick = waits(true, &turns);
        let ledger = ledger_of(&clear(&native, [50, 50, 0]), &clear(&quick, [65, 65, 0]));
        assert_eq!(ledger.time((1, 0), (0, 0)), ClockTime::Clear);
        let made = pairs(&ledger, (1, 0), (0, 0)).remove(0);
        assert!(made.ratios().iter().all(|r| (r - 1.3).abs() < 1e-9));
        let natively = |made: &Made| made.rounds[0][1].round() as u64;
        assert_eq!(natively(&made), 50);
        let ledger = ledger_of(&clear(&native, [50, 50, 0]), &quick);
        assert_eq!(ledger.time((1, 0), (0, 0)), ClockTime::Net);
        assert_eq!(natively(&pairs(&ledger, (1, 0), (0, 0))[0]), 100);
        // One turn whose waiting is not known.
        let mut partly = waits(true, &turns);
        partly.passes[0].waited_ns = None;
        assert_eq!(of(&partly).0, ClockTime::Raw);
    }
}
