//! The rows of a fleet's run.

use std::collections::BTreeMap;

use layermark_model::{FleetHost, FleetPlace, FleetRound, FleetRun, FleetTurn};
use layermark_stats as stats;

use crate::{
    facts::{LEVEL, machine::COMPARED, machine::RanOn},
    statements::fleet::{HostDiffers, mount_of},
    types::{Estimate, FleetKnee, FleetStep},
};

/// A curve has bent if all hosts together get less than this share of what the line through one host promises, by at
/// least this much.
const BEND: f64 = 0.1;
/// A host is slower than the others from this share on.
const SLOWER: f64 = 0.05;
/// Hosts worked at once if they began within this share of the shortest work.
const TOGETHER: f64 = 1.0 / 3.0;
/// Shares of waiting or steal that differ by less are the same.
const LITTLE: f64 = 0.02;

/// The knee of a point, and what it was read from.
pub struct KneeOf {
    /// The knee. `None` without a curve.
    pub knee: Option<FleetKnee>,
    /// Number of blocks in which all hosts did their part at each of `counts`.
    pub blocks: usize,
    /// Numbers of hosts at once, ascending. Rounds with other numbers, as there are after a loss, were not used.
    pub counts: Vec<usize>,
}

/// The rounds of a point.
pub struct PointRounds<'a> {
    run: &'a FleetRun,
    /// Rounds of the share, by number of hosts, then by block.
    share: BTreeMap<usize, BTreeMap<u32, &'a FleetRound>>,
    /// Turns in own directories, by block and host.
    own: BTreeMap<(u32, usize), &'a FleetTurn>,
}

impl<'a> PointRounds<'a> {
    /// Of a point.
    pub fn of(run: &'a FleetRun, point: usize) -> Self {
        let mut this = Self {
            run,
            share: BTreeMap::new(),
            own: BTreeMap::new(),
        };
        for round in run.rounds.iter().filter(|r| r.point == point) {
            match round.place {
                FleetPlace::Own => {
                    let turns = round.turns.iter();
                    this.own.extend(turns.map(|t| ((round.block, t.host), t)));
                }
                FleetPlace::Share => {
                    let of = this.share.entry(round.turns.len()).or_default();
                    of.insert(round.block, round);
                }
            }
        }
        this
    }

    /// The steps: own directories, then the share.
    pub fn steps(&self) -> Vec<FleetStep> {
        let own = (!self.own.is_empty()).then(|| self.own_step());
        let share = self.share.iter().map(|(n, rounds)| self.step(*n, rounds));
        own.into_iter().chain(share).collect()
    }

    /// Time of an operation of one host alone on the share in a block, ns, and the host.
    fn alone(&self, block: u32) -> Option<(usize, f64)> {
        let round = self.share.get(&1)?.get(&block)?;
        let (turn, ns) = round.done().next()?;
        Some((turn.host, ns))
    }

    /// Logarithm of the time of the host of a block that is alone once, over its time alone.
    fn ratio(&self, block: u32, own: impl Fn(usize) -> Option<f64>) -> Option<(u32, f64)> {
        let (host, alone) = self.alone(block)?;
        Some((0, (own(host)? / alone).ln()))
    }

    fn own_step(&self) -> FleetStep {
        let mut blocks = BTreeMap::<u32, Vec<&FleetTurn>>::new();
        for ((block, _), turn) in &self.own {
            blocks.entry(*block).or_default().push(turn);
        }
        let time = |block: u32, host| self.own.get(&(block, host)).and_then(|t| t.ns_per_op());
        let ratios = blocks
            .keys()
            .filter_map(|b| self.ratio(*b, |host| time(*b, host)));
        let rounds = blocks.values().map(|turns| FleetRound {
            block: 0,
            point: 0,
            place: FleetPlace::Own,
            turns: turns.iter().map(|t| (*t).clone()).collect(),
        });
        let rounds: Vec<FleetRound> = rounds.collect();
        let rounds: Vec<&FleetRound> = rounds.iter().collect();
        let hosts = blocks.values().map(Vec::len).max().unwrap_or(0);
        self.of_rounds(FleetPlace::Own, hosts, &rounds, ratios.collect())
    }

    fn step(&self, hosts: usize, rounds: &BTreeMap<u32, &FleetRound>) -> FleetStep {
        let ratios = rounds.iter().filter_map(|(block, round)| {
            is_whole(round).then_some(())?;
            self.ratio(*block, |host| {
                let mut done = round.done();
                done.find_map(|(t, ns)| (t.host == host).then_some(ns))
            })
        });
        let all: Vec<&FleetRound> = rounds.values().copied().collect();
        self.of_rounds(FleetPlace::Share, hosts, &all, ratios.collect())
    }

    fn of_rounds(
        &self,
        place: FleetPlace,
        hosts: usize,
        rounds: &[&FleetRound],
        ratios: Vec<(u32, f64)>,
    ) -> FleetStep {
        let whole: Vec<&FleetRound> = rounds.iter().copied().filter(|r| is_whole(r)).collect();
        let rates = whole.iter().filter_map(|r| Some((0, r.rate()?.ln())));
        let rates: Vec<(u32, f64)> = rates.collect();
        let found = stats::estimate(&[rates.into(), ratios.into()], LEVEL);
        let read = |at: usize| found.get(at).copied().flatten().map(exp);
        let median = |of: &dyn Fn(&FleetRound) -> Option<f64>| {
            let values: Vec<f64> = whole.iter().filter_map(|r| of(r)).collect();
            stats::median(&values).unwrap_or(0.0)
        };
        let ended = |round: &FleetRound, last: bool| {
            let ends = round.done().map(|(t, _)| t.ended_ns);
            let end = if last { ends.max() } else { ends.min() };
            Some(end? as f64 / 1e9)
        };
        let shares = place == FleetPlace::Share && hosts > 1;
        let apart = whole.iter().filter(|r| !self.is_at_once(r)).count();
        let bytes = |round: &FleetRound| {
            let slowest = round.done().map(|(t, _)| t.elapsed_ns).max()?;
            let bytes: u64 = round.done().map(|(t, _)| t.bytes).sum();
            Some(bytes as f64 / (slowest as f64 / 1e9))
        };
        FleetStep {
            place,
            hosts,
            rounds: whole.len(),
            incomplete: rounds.len() - whole.len(),
            rate: read(0),
            bytes_per_s: median(&bytes),
            ratio: read(1),
            first_done_s: median(&|r| ended(r, false)),
            last_done_s: median(&|r| ended(r, true)),
            start_spread_s: median(&start_spread),
            turn_s: median(&shortest),
            at_once: (shares && !whole.is_empty()).then_some(apart * 2 < whole.len()),
            fairness: median(&|r| {
                let rates: Vec<f64> = r.done().map(|(_, ns)| 1.0 / ns).collect();
                stats::fairness(&rates)
            }),
            each_us: self.each(&whole),
        }
    }

    /// Whether the hosts of a round worked at once.
    fn is_at_once(&self, round: &FleetRound) -> bool {
        let errors = round.done().map(|(t, _)| self.clock_error_s(t));
        let error = errors.fold(0.0, f64::max);
        let (spread, turn) = (start_spread(round), shortest(round));
        let within = spread.zip(turn);
        within.is_some_and(|(spread, turn)| spread + 2.0 * error <= turn * TOGETHER)
    }

    /// How wrong the moments of a turn may be, seconds.
    fn clock_error_s(&self, turn: &FleetTurn) -> f64 {
        let of_host = || self.run.hosts.get(turn.host)?.clock_error_s;
        let of_turn = turn.clock_error_ns.map(|ns| ns as f64 / 1e9);
        of_turn.or_else(of_host).unwrap_or(0.0)
    }

    /// Typical time of an operation of each host, microseconds.
    fn each(&self, rounds: &[&FleetRound]) -> Vec<Option<f64>> {
        let of = |host: usize| {
            let turns = rounds.iter().flat_map(|r| r.done());
            let own = turns
                .filter(|(t, _)| t.host == host)
                .map(|(_, ns)| ns / 1e3);
            stats::median(&own.collect::<Vec<_>>())
        };
        (0..self.run.hosts.len()).map(of).collect()
    }

    /// Rates of whole rounds on the share in each block, and their numbers of hosts. After a loss there are other numbers
    /// than before: these are those of most blocks.
    fn alike(&self) -> (Vec<u32>, Vec<Vec<(u32, f64)>>) {
        let mut blocks = BTreeMap::<u32, Vec<(u32, f64)>>::new();
        for (hosts, rounds) in &self.share {
            for (block, round) in rounds.iter().filter(|(_, r)| is_whole(r)) {
                let rate = round.rate().map(|rate| (*hosts as u32, rate));
                blocks.entry(*block).or_default().extend(rate);
            }
        }
        let mut alike = BTreeMap::<Vec<u32>, Vec<_>>::new();
        for block in blocks.into_values() {
            let numbers = block.iter().map(|(hosts, _)| *hosts).collect();
            alike.entry(numbers).or_default().push(block);
        }
        let alike = alike.into_iter().max_by_key(|(n, of)| (of.len(), n.len()));
        alike.unwrap_or_default()
    }

    /// The knee of the share.
    pub fn knee(&self) -> KneeOf {
        let (counts, whole) = self.alike();
        let found = stats::knee(&whole, (BEND, self.run.points.len()), LEVEL, self.run.seed);
        let knee = found.map(|knee| FleetKnee {
            hosts: Estimate::new(
                knee.hosts.estimate,
                knee.hosts.interval.map(|i| [i.low, i.high]),
            ),
            reached: knee.reached,
            straight: knee.straight,
        });
        KneeOf {
            knee,
            blocks: whole.len(),
            counts: counts.into_iter().map(|n| n as usize).collect(),
        }
    }

    /// For each host, the logarithms of its times when most of them work at once, of the numbers that the knee is read
    /// from.
    pub fn all_at_once(&self) -> Vec<Vec<(u32, f64)>> {
        let mut of = vec![Vec::new(); self.run.hosts.len()];
        let (counts, _) = self.alike();
        let most = counts.last().filter(|n| **n > 1);
        let rounds = most.and_then(|n| self.share.get(&(*n as usize)));
        for round in rounds.iter().flat_map(|rounds| rounds.values()) {
            for (turn, ns) in round.done() {
                of[turn.host].push((0, ns.ln()));
            }
        }
        of
    }

    /// A mean over the turns of each host on the share.
    fn mean(&self, host: usize, of: impl Fn(&FleetTurn) -> Option<f64>) -> Option<f64> {
        let rounds = self.share.values().flat_map(BTreeMap::values);
        let turns = rounds.flat_map(|r| r.done());
        let turns = turns.filter(|(t, _)| t.host == host);
        stats::mean(&turns.filter_map(|(t, _)| of(t)).collect::<Vec<_>>())
    }

    /// What is known to be different about a host.
    pub fn differs(&self, host: usize) -> Option<HostDiffers<'a>> {
        let waited = |t: &FleetTurn| Some(t.waited_ns? as f64 / t.elapsed_ns.max(1) as f64);
        let steal = |t: &FleetTurn| Some(t.steal);
        let others = (0..self.run.hosts.len()).filter(|h| *h != host);
        let others: Vec<usize> = others
            .filter(|h| self.run.hosts[*h].machine.is_some())
            .collect();
        let more = |of: &dyn Fn(&FleetTurn) -> Option<f64>| {
            let theirs: Vec<f64> = others.iter().filter_map(|h| self.mean(*h, of)).collect();
            let (own, theirs) = (self.mean(host, of)?, stats::mean(&theirs)?);
            (own > theirs + LITTLE).then_some((own, theirs))
        };
        if let Some((own, theirs)) = more(&steal) {
            return Some(HostDiffers::Steal(own, theirs));
        }
        if let Some((own, theirs)) = more(&waited) {
            return Some(HostDiffers::Waited(own, theirs));
        }
        let run: &'a FleetRun = self.run;
        let other: Vec<&'a FleetHost> = others.iter().map(|h| &run.hosts[*h]).collect();
        of_facts(&run.hosts[host], &other, &run.version)
    }
}

/// A fact in which a host differs from all others, while these have the same.
fn of_facts<'a>(
    host: &'a FleetHost,
    others: &[&'a FleetHost],
    version: &'a str,
) -> Option<HostDiffers<'a>> {
    let first = *others.first()?;
    let mount = |host: &FleetHost| mount_of(host.share.as_ref()?);
    if let (Some(own), Some(theirs)) = (mount(host), mount(first))
        && own != theirs
        && others
            .iter()
            .all(|other| mount(other).as_ref() == Some(&theirs))
    {
        return Some(HostDiffers::Mount(own, theirs));
    }
    let on = |host: &'a FleetHost| {
        let machine = host.machine.as_ref()?;
        Some(RanOn { machine, version })
    };
    let (own, theirs) = (on(host)?, on(first)?);
    let mut facts = COMPARED.into_iter();
    let fact = facts.find(|fact| {
        let mut all = others.iter().map(|other| on(other));
        !fact.is_same(own, theirs) && all.all(|o| o.is_some_and(|o| fact.is_same(o, theirs)))
    })?;
    Some(HostDiffers::Fact(fact, fact.of(own), fact.of(theirs)))
}

/// Between the first begin of a round and the last one, seconds.
fn start_spread(round: &FleetRound) -> Option<f64> {
    let begun = || round.done().map(|(t, _)| t.began_ns);
    Some((begun().max()?.saturating_sub(begun().min()?)) as f64 / 1e9)
}

/// The shortest work of a host in a round, seconds.
fn shortest(round: &FleetRound) -> Option<f64> {
    let took = round
        .done()
        .map(|(t, _)| t.ended_ns.saturating_sub(t.began_ns));
    Some(took.min()? as f64 / 1e9)
}

/// Whether all hosts of a round did their part.
fn is_whole(round: &FleetRound) -> bool {
    !round.turns.is_empty() && round.done().count() == round.turns.len()
}

fn exp(e: stats::Estimate) -> Estimate {
    let interval = e.interval.map(|i| i.exp());
    Estimate::new(e.mean.exp(), interval.map(|i| [i.low, i.high]))
}

/// At each point the host that is slower than the others, if one is, with its ratio to them: leave-one-out, with
/// Holm's correction over hosts and points.
pub fn slowest(points: &[PointRounds<'_>]) -> Vec<Option<(usize, Estimate)>> {
    let cells: Vec<_> = points.iter().map(PointRounds::all_at_once).collect();
    let found = stats::odd_runs(&cells, SLOWER, LEVEL);
    let each = found.iter().map(|hosts| {
        let odd = hosts.iter().enumerate().filter_map(|(host, of)| {
            let of = of.filter(|of| of.oddness == stats::Oddness::Odd && of.ratio > 1.0)?;
            let interval = of.interval.map(|i| [i.low, i.high]);
            Some((host, Estimate::new(of.ratio, interval)))
        });
        odd.max_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate))
    });
    each.collect()
}
