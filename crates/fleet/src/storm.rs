//! `fleet run`: how one shared store behaves under 1, 2, 4 ... hosts. In each block every host works on its own disk,
//! then one host alone on the share, then more and more of them at once.
//!
//! What is measured is told round by round, so that a store has it when this process is killed.

mod opening;

use std::time::Duration;

use layermark_lab::{Stop, new_id, now_ms};
use layermark_model::{
    Cell, FleetHost, FleetLayer, FleetOfRun, FleetPlace, FleetRound, FleetRun, FleetTurn,
    HostOfTrial, LayerRun, LayerStatus, LostHost, Machine, Plan, Point, Run, RunStatus, SelfTest,
    StoreOption, TrialRecord, random,
};

use crate::{
    check::layers,
    coordinator::{Barrier, ClockTrips, Fleet},
    hosts::is_unnamed,
    protocol::OpenedLayer,
    round::RoundWork,
};

use opening::has_one_package;

/// Blocks by default: the fewest with an interval of the knee.
pub const USUAL_BLOCKS: u32 = 6;
/// The work of each host is what one host alone does in this time, unless the plan has a length of turns.
const ALONE: Duration = Duration::from_millis(200);
/// No operation takes less than this, nanoseconds: whoever says so does not set the work of all.
const SHORTEST_OP_NS: f64 = 10.0;
/// Fewest milliseconds and operations of one pass.
const ONE_PASS: (u64, u64) = (1, 1);
const GOING_ON: &str = "the run went on";
/// How many hosts a run's label names.
const NAMED: usize = 4;

/// What to run.
#[derive(Debug, Clone)]
pub struct StormRequest {
    /// The plan.
    pub plan: Plan,
    /// Its points.
    pub points: Vec<Point>,
    /// The launcher, as the user wrote it.
    pub launcher: String,
    /// The hosts, likewise.
    pub asked: Option<String>,
    /// Path of layermark on the hosts, if the user named it.
    pub exe: Option<String>,
    /// Directory of the hosts to which layermark was copied, if it was.
    pub sbcast: Option<String>,
    /// Each host's own directory.
    pub dir: String,
    /// The shared directory.
    pub share: String,
    /// Number of blocks.
    pub blocks: u32,
    /// How long a host may be silent.
    pub silence: Duration,
    /// How commands name the store.
    pub store: StoreOption,
}

/// A run that goes on.
#[derive(Debug, Clone)]
pub struct StormBefore {
    /// The run as it is stored. It is a fleet's.
    pub run: Run,
    /// Its trials.
    pub trials: Vec<TrialRecord>,
}

/// What happens.
pub enum StormEvent<'a> {
    /// How the barrier behaves.
    Barrier(Barrier),
    /// A round begins: block from 1, of so many, at this point, with so many hosts at once.
    Round(u32, u32, &'a str, FleetPlace, usize),
    /// A host of a run that goes on is not as it was, and how. Its report has the facts of now.
    Differs(&'a str, &'a str),
    /// The run begins or goes on.
    Begun(&'a Run),
    /// The run is in another state. It may have more layers.
    Changed(&'a Run),
    /// A round has ended: the trials of its hosts.
    Trials(&'a str, &'a [TrialRecord]),
}

/// Takes what happens. It fails if what was measured can be kept nowhere.
pub type OnStorm<'a, E> = &'a mut dyn FnMut(StormEvent<'_>) -> Result<(), E>;

/// Numbers of hosts at once: 1, 2, 4 ... and all.
pub fn counts(hosts: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1), |n| Some(n * 2));
    let mut counts: Vec<usize> = doubled.take_while(|n| *n < hosts).collect();
    if hosts > 0 {
        counts.push(hosts);
    }
    counts
}

/// Runs a storm, or goes on with the groups of one that are missing. Hosts that are lost are in the result with the
/// reason.
///
/// # Errors
///
/// What `on` returns.
pub fn storm<E>(
    fleet: &mut Fleet,
    (request, before): (&StormRequest, Option<StormBefore>),
    stop: &Stop,
    on: OnStorm<'_, E>,
) -> Result<FleetRun, E> {
    let mut storm = match before {
        Some(before) => Storm::again(fleet, request, before),
        None => Storm::new(fleet, request),
    };
    on(StormEvent::Barrier(fleet.compare_clocks(ClockTrips::First)))?;
    storm.open(fleet, on)?;
    storm.look_at(fleet);
    storm.name(fleet.up().len());
    on(StormEvent::Begun(&storm.run))?;
    let groups = u64::from(request.blocks) * request.points.len() as u64;
    while storm.of_fleet().groups < groups && !stop.asked() && !fleet.up().is_empty() {
        if storm.lacks_package(fleet) {
            storm.of_fleet().sessions += 1;
            storm.open(fleet, on)?;
            storm.look_at(fleet);
            if fleet.up().is_empty() || stop.asked() {
                continue;
            }
        }
        storm.group(fleet, stop, on)?;
        storm.look_at(fleet);
        on(StormEvent::Changed(&storm.run))?;
    }
    storm.run.ended_ms = Some(now_ms());
    storm.run.status = match () {
        () if storm.of_fleet().groups >= groups => RunStatus::Done,
        () if stop.asked() => RunStatus::Stopped,
        () => RunStatus::Failed,
    };
    on(StormEvent::Changed(&storm.run))?;
    Ok(storm.result())
}

struct Storm<'a> {
    request: &'a StormRequest,
    run: Run,
    /// Index in the run of each host of the fleet. `None`: it is not a host of the run.
    of: Vec<Option<usize>>,
    /// Number of the next trial, and of the next round.
    seq: u64,
    round: u64,
    /// The host that has made the packaged files of all hosts.
    packager: Option<usize>,
    /// Facts of the own directory and the share of a host, for layers.
    shown: Option<[OpenedLayer; 2]>,
    /// What was done, also before the run went on. Trials are not kept here.
    rounds: Vec<FleetRound>,
}

impl<'a> Storm<'a> {
    fn new(fleet: &Fleet, request: &'a StormRequest) -> Self {
        let seed = request.plan.seed.unwrap_or_else(random);
        let (hosts, points) = (fleet.hosts.len(), request.points.len());
        let started_ms = now_ms();
        let of_run = FleetOfRun {
            launcher: request.launcher.clone(),
            asked: request.asked.clone(),
            exe: request.exe.clone(),
            sbcast: request.sbcast.clone(),
            share: request.share.clone(),
            hosts: vec![FleetHost::default(); hosts],
            work: vec![[None; 2]; points],
            sessions: 1,
            ..FleetOfRun::default()
        };
        let run = Run {
            id: new_id(started_ms),
            version: env!("CARGO_PKG_VERSION").into(),
            started_ms,
            ended_ms: None,
            status: RunStatus::Running,
            seed,
            dir: request.dir.clone(),
            plan: Plan {
                seed: Some(seed),
                blocks: Some(request.blocks),
                ..request.plan.clone()
            },
            machine: Machine::default(),
            layers: Vec::new(),
            points: request.points.clone(),
            cut: None,
            sustained: Vec::new(),
            fleet: Some(Box::new(of_run)),
            sent: false,
            store: request.store.clone(),
        };
        Self {
            request,
            run,
            of: (0..hosts).map(Some).collect(),
            seq: 0,
            round: 0,
            packager: None,
            shown: None,
            rounds: Vec::new(),
        }
    }

    /// A storm that goes on. Hosts of the run that are not in the fleet are lost, and hosts of the fleet that are not of
    /// the run take no part.
    fn again(fleet: &mut Fleet, request: &'a StormRequest, before: StormBefore) -> Self {
        let StormBefore { mut run, trials } = before;
        let next = |of: Option<u64>| of.map_or(0, |last| last + 1);
        let seq = next(trials.iter().map(|t| t.seq).max());
        let round = next(trials.iter().filter_map(|t| Some(t.host?.round)).max());
        run.status = RunStatus::Running;
        run.ended_ms = None;
        run.plan.blocks = Some(request.blocks);
        let points = run.points.len();
        let rounds = FleetRun::of(&run, &trials).map_or_else(Vec::new, |of| of.rounds);
        let mut storm = Self {
            request,
            of: Vec::new(),
            seq,
            round,
            packager: None,
            shown: None,
            rounds,
            run,
        };
        let of_run = storm.of_fleet();
        of_run.sessions += 1;
        of_run.launcher.clone_from(&request.launcher);
        of_run.asked.clone_from(&request.asked);
        of_run.exe.clone_from(&request.exe);
        of_run.work.resize(points, [None; 2]);
        let groups = of_run.groups;
        storm.of = same_hosts(fleet, &of_run.hosts);
        let of = storm.of.clone();
        for (at, host) in storm.of_fleet().hosts.iter_mut().enumerate() {
            // Those that are here again are lost only if they are lost again.
            host.lost = (!of.contains(&Some(at))).then(|| LostHost {
                during: GOING_ON.into(),
                why: "no task on it has started again".into(),
            });
        }
        for (at, of) in of.into_iter().enumerate() {
            if of.is_none() && fleet.hosts[at].is_up() {
                fleet.lose(at, GOING_ON, "it is not a host of this run");
            }
        }
        // A group that was cut off is repeated as a whole.
        storm.rounds.retain(|round| {
            let group = u64::from(round.block) * points as u64 + round.point as u64;
            group < groups
        });
        storm
    }

    /// What the run has because it is a fleet's.
    fn of_fleet(&mut self) -> &mut FleetOfRun {
        self.run.fleet.get_or_insert_default()
    }

    /// Keeps who the hosts are, and how they fare.
    fn look_at(&mut self, fleet: &Fleet) {
        for (at, of) in self.of.clone().into_iter().zip(&fleet.hosts) {
            let Some(at) = at else { continue };
            let host = &mut self.of_fleet().hosts[at];
            host.name.clone_from(&of.name);
            host.lost = of.fault().cloned();
            if let Some(hello) = &of.hello {
                host.binary = Some(hello.binary.clone());
                host.boot = Some(hello.boot.clone());
                host.clock_ahead_s = Some(of.wall_ahead_ms as f64 / 1e3);
                host.clock_error_s = Some(of.error_ns as f64 / 1e9);
                // A session compares with its own first comparison.
                let drift = of.drift_ns as f64 / 1e9;
                host.clock_drift_s = Some(host.clock_drift_s.map_or(drift, |was| was.max(drift)));
            }
        }
    }

    /// Names the run after its hosts, and makes the layers of so many that take part.
    fn name(&mut self, all: usize) {
        let hosts = &self.of_fleet().hosts;
        let named = hosts.iter().take(NAMED).map(|host| host.name.as_str());
        let named: Vec<&str> = named.collect();
        let more = match hosts.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let label = format!("{}{more}", named.join(", "));
        self.run.machine.label = Some(label);
        let share = |hosts| FleetLayer {
            place: FleetPlace::Share,
            hosts,
        };
        self.layer(share(1));
        self.layer(FleetLayer {
            place: FleetPlace::Own,
            hosts: all,
        });
        for hosts in counts(all) {
            self.layer(share(hosts));
        }
    }

    /// Index of the layer of so many hosts, which is made if it is not there.
    fn layer(&mut self, of: FleetLayer) -> usize {
        let is = |step: &FleetLayer| {
            step.place == of.place && (of.place == FleetPlace::Own || step.hosts == of.hosts)
        };
        if let Some(at) = self.of_fleet().steps.iter().position(is) {
            return at;
        }
        let place = of.place as usize;
        let mut specs = layers(Some(&self.request.share));
        let spec = specs.swap_remove(place);
        let shown = self.shown.as_ref().map(|shown| &shown[place]);
        let layer = LayerRun {
            spec,
            name: match (of.place, of.hosts) {
                (FleetPlace::Own, _) => "own disks".into(),
                (FleetPlace::Share, 1) => "1 host on the share".into(),
                (FleetPlace::Share, n) => format!("{n} hosts on the share"),
            },
            status: LayerStatus::Ready,
            reason: None,
            hint: None,
            enough_s: None,
            facts: shown.map(|up| up.facts.clone()).unwrap_or_default(),
            setup_s: shown.map_or(0.0, |up| up.setup_s),
            self_test: shown.map_or_else(SelfTest::default, |up| up.self_test),
            read_only: shown.is_some_and(|up| up.read_only),
            skips: std::collections::BTreeMap::new(),
            control: false,
        };
        self.run.layers.push(layer);
        self.of_fleet().steps.push(of);
        self.run.layers.len() - 1
    }

    /// Runs all rounds of the next point of its block.
    fn group<E>(&mut self, fleet: &mut Fleet, stop: &Stop, on: OnStorm<'_, E>) -> Result<(), E> {
        let points = self.request.points.len() as u64;
        let group = self.of_fleet().groups;
        let (block, point) = ((group / points) as u32, (group % points) as usize);
        let mut up = fleet.up();
        // Each host is the one that is alone in one of the blocks.
        let first = block as usize % up.len();
        up.rotate_left(first);
        let waves = fleet.waves(block as usize).into_iter();
        let mut rounds: Vec<(FleetPlace, Vec<usize>)> =
            waves.map(|wave| (FleetPlace::Own, wave)).collect();
        let mut counts = counts(up.len());
        // Up and down in turn, so that a drift of the store is not taken for its load.
        if block % 2 == 1 {
            counts.reverse();
        }
        let shared = counts.into_iter();
        rounds.extend(shared.map(|n| (FleetPlace::Share, up[..n].to_vec())));
        for (done, (place, set)) in rounds.into_iter().enumerate() {
            if stop.at_once() {
                return Ok(());
            }
            if done == 0 {
                // Of a group that is made again, those of before do not count.
                self.rounds
                    .retain(|round| (round.block, round.point) != (block, point));
            }
            let label = &self.request.points[point].label;
            let (nth, of) = (block + 1, self.request.blocks);
            on(StormEvent::Round(nth, of, label, place, set.len()))?;
            let hosts = match place {
                FleetPlace::Own => up.len(),
                FleetPlace::Share => set.len(),
            };
            let at = RoundPlace {
                block,
                point,
                layer: FleetLayer { place, hosts },
                alone: up[0],
            };
            self.learn(fleet, &set, at);
            let work = self.of_fleet().work[point][place as usize];
            let least = work.map_or(ONE_PASS, |ops| (1, ops));
            let records = self.trials(fleet, &set, at, least);
            fleet.compare_clocks(ClockTrips::Again);
            self.keep(&records, at);
            on(StormEvent::Trials(&self.run.id, &records))?;
        }
        // If it was stopped at once, or its files went with the host that had made them, hosts may not have done their
        // part: it is repeated as a whole.
        let is_gone = has_one_package(&self.request.points[point]) && self.lacks_package(fleet);
        if !fleet.up().is_empty() && !stop.at_once() && !is_gone {
            self.of_fleet().groups += 1;
        }
        Ok(())
    }

    /// Finds out how much one host alone does in a while; this is then the work of each. What is made between two
    /// passes, outside the clock, takes its part of the while.
    fn learn(&mut self, fleet: &mut Fleet, set: &[usize], at: RoundPlace) {
        let place = at.layer.place as usize;
        if self.of_fleet().work[at.point][place].is_some() {
            return;
        }
        let alone: Vec<usize> = set.first().copied().into_iter().collect();
        // What the plan says was checked when it was read.
        let turn = self.request.plan.turn().ok().flatten();
        let while_ns = turn.unwrap_or(ALONE).as_nanos() as f64;
        let made = self.trials(fleet, &alone, at, ONE_PASS);
        let turns = made.iter().filter_map(|r| Some(FleetTurn::of(r.host?, r)));
        let mut done = turns.filter(|t| t.error.is_none() && t.ops > 0);
        let work = done.next().map(|turn| {
            let took = turn.ended_ns.saturating_sub(turn.began_ns).max(1) as f64;
            let ops = turn.ops as f64 * (while_ns / took).max(1.0);
            ops.min(while_ns.max(ALONE.as_nanos() as f64) / SHORTEST_OP_NS) as u64
        });
        self.of_fleet().work[at.point][place] = work;
    }

    /// Runs a round. Returns the trials of its hosts, also those that have failed.
    fn trials(
        &mut self,
        fleet: &mut Fleet,
        set: &[usize],
        at: RoundPlace,
        least: (u64, u64),
    ) -> Vec<TrialRecord> {
        let session = self.of_fleet().sessions.saturating_sub(1);
        let layer = self.layer(at.layer);
        let (block, point) = (at.block, at.point);
        let cell = Cell {
            session,
            block,
            layer,
            point,
        };
        let work = RoundWork {
            seq: self.round,
            cell: Cell {
                layer: layer_of_task(at.layer.place, &self.request.points[point]),
                ..cell
            },
            point: self.request.points[point].clone(),
            seed: self.run.seed.wrapping_add(u64::from(block)),
            ns: 0,
            lead_in_ns: 0,
            least: Some(least),
        };
        let made = fleet.round(set, &work);
        let round = self.round;
        self.round += 1;
        let mut records = Vec::with_capacity(made.len());
        for made in made {
            let Some(host) = self.of[made.turn.host] else {
                continue;
            };
            let at_ms = u64::try_from(made.at_ms - self.run.started_ms).unwrap_or(0);
            let record = made.record.unwrap_or_default();
            // Whatever the task says it is of.
            records.push(TrialRecord {
                seq: self.seq,
                cell,
                host: Some(HostOfTrial {
                    host,
                    round,
                    began_ns: made.turn.began_ns,
                    ended_ns: made.turn.ended_ns,
                    clock_error_ns: made.turn.clock_error_ns,
                    compared: made.turn.host == at.alone,
                }),
                at_ms,
                error: made.turn.error,
                ..record
            });
            self.seq += 1;
        }
        records
    }

    /// Keeps the numbers of a round.
    fn keep(&mut self, records: &[TrialRecord], at: RoundPlace) {
        let turns = records
            .iter()
            .filter_map(|r| Some(FleetTurn::of(r.host?, r)));
        self.rounds.push(FleetRound {
            block: at.block,
            point: at.point,
            place: at.layer.place,
            turns: turns.collect(),
        });
    }

    fn result(mut self) -> FleetRun {
        let fleet = self.run.fleet.take().unwrap_or_default();
        FleetRun::with(&self.run, &fleet, self.rounds)
    }
}

/// Index of the layer of a task in which it works on a point.
fn layer_of_task(place: FleetPlace, point: &Point) -> usize {
    let of_all = place == FleetPlace::Share && has_one_package(point);
    place as usize + usize::from(of_all)
}

/// Which of `known` each host of the fleet is, by its name. One that never started has none, if its launcher did not
/// name it: a host that is not known takes its place.
fn same_hosts(fleet: &Fleet, known: &[FleetHost]) -> Vec<Option<usize>> {
    let of = fleet.hosts.iter().map(|host| {
        let named = !is_unnamed(&host.name);
        let mut known = known.iter();
        known.position(|known| named && known.name == host.name)
    });
    let mut of: Vec<Option<usize>> = of.collect();
    let nameless = (0..known.len()).filter(|at| is_unnamed(&known[*at].name));
    let mut free = nameless.collect::<Vec<_>>().into_iter();
    // Hosts that are up come first; of the others the reason is kept.
    for up in [true, false] {
        let hosts = fleet.hosts.iter().zip(&mut of);
        for (_, of) in hosts.filter(|(host, of)| host.is_up() == up && of.is_none()) {
            *of = free.next();
        }
    }
    of
}

/// Where a round is in the schedule.
#[derive(Clone, Copy)]
struct RoundPlace {
    block: u32,
    point: usize,
    layer: FleetLayer,
    /// The host that is alone in one round of the group.
    alone: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_doubled_up_to_all_of_them() {
        assert_eq!(counts(0), [0; 0]);
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(3), [1, 2, 3]);
        assert_eq!(counts(8), [1, 2, 4, 8]);
        assert_eq!(counts(10), [1, 2, 4, 8, 10]);
    }
}
