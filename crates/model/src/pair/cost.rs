//! What a trial costs: all of its time, or what is left without waiting, in total and turn by turn.

use crate::{Trial, Turn};

/// A turn of which less than one in so many parts is cost, and the rest was waited for a CPU, says little: appends took two to
/// four times as long in what is left as in other turns.
const LEAST_PART: u64 = 8;
/// The fewest rounds of a block that stand for it without those that have such a turn.
const FEWEST_ROUNDS: usize = 3;

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
    pub(super) raw: Times,
    /// `None` if not all of its waiting is known.
    net: Option<Times>,
    /// `None` if the waiting of the kernel's threads is not known as well.
    clear: Option<Times>,
    /// Whether the waiting is no part of the layer's cost: [`crate::Waiting::apart`].
    pub(super) apart: bool,
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

    pub(super) fn times(&self, time: ClockTime) -> Option<&Times> {
        match time {
            ClockTime::Raw => Some(&self.raw),
            ClockTime::Net => self.net.as_ref(),
            ClockTime::Clear => self.clear.as_ref(),
        }
    }

    /// Appends the next trial. A divided block has one baseline trial in each part, and each part
    /// continues the round numbers. A trial whose rounds do not continue replaces the earlier one.
    pub(super) fn followed_by(self, next: Self) -> Self {
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
pub(super) struct Times {
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
    pub(super) fn beside(&self, other: &Self, only_worked: bool) -> Vec<[f64; 2]> {
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

    /// How many turns of common rounds hardly worked, here and there.
    pub(super) fn idle_beside(&self, other: &Self) -> [u32; 2] {
        let rounds = self.rounds(other).into_iter();
        rounds.fold([0, 0], |[here, beside], (t, there)| {
            [
                here + u32::from(!t.worked),
                beside + u32::from(!there.worked),
            ]
        })
    }

    /// Nanoseconds and operations of both, for each round in which both have a turn. Without such
    /// rounds, one pair of the whole trials. Those of `more` are added to the other's.
    pub(super) fn totals(&self, other: &Self, more: Option<&Self>) -> Vec<[[f64; 2]; 2]> {
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
    pub(super) fn meets_alike(&self, first: &Self, second: &Self) -> bool {
        self.rounds(first).is_empty() == self.rounds(second).is_empty()
    }
}
