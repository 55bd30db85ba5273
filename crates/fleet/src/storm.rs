//! `fleet run`: how one shared store behaves under 1, 2, 4 ... hosts. In each block every host works on its own disk,
//! then one host alone on the share, then more and more of them at once.

use layermark_lab::{Stop, new_id, now_ms};
use layermark_model::{
    Cell, FleetHost, FleetPlace, FleetRound, FleetRun, FleetTurn, Plan, Point, random,
};
use std::time::Duration;

use crate::{
    check::{facts_of, layers, open_order, opened},
    coordinator::{Barrier, Fleet},
    round::RoundWork,
};

/// Blocks by default: the fewest with an interval of the knee.
pub const USUAL_BLOCKS: u32 = 6;
/// The work of each host is what one host alone does in this time, milliseconds.
const ALONE_MS: u64 = 200;
/// No operation takes less than 10 ns: whoever says so does not set the work of all.
const MOST_OPS: u64 = ALONE_MS * 100_000;
/// Fewest milliseconds and operations of one pass.
const ONE_PASS: (u64, u64) = (1, 1);

/// What to run.
#[derive(Debug, Clone)]
pub struct StormRequest {
    /// The plan.
    pub plan: Plan,
    /// Its points.
    pub points: Vec<Point>,
    /// The launcher, as the user wrote it.
    pub launcher: String,
    /// Each host's own directory.
    pub dir: String,
    /// The shared directory.
    pub share: String,
    /// Number of blocks.
    pub blocks: u32,
    /// How long a host may be silent.
    pub silence: Duration,
}

/// What happens, for progress.
pub enum StormEvent<'a> {
    /// How the barrier behaves.
    Barrier(Barrier),
    /// A round begins: block from 1, of so many, at this point, with so many hosts at once.
    Round(u32, u32, &'a str, FleetPlace, usize),
}

/// Numbers of hosts at once: 1, 2, 4 ... and all.
pub fn counts(hosts: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1), |n| Some(n * 2));
    let mut counts: Vec<usize> = doubled.take_while(|n| *n < hosts).collect();
    if hosts > 0 {
        counts.push(hosts);
    }
    counts
}

/// Runs a storm. Hosts that are lost are in the result with the reason.
pub fn storm(
    fleet: &mut Fleet,
    request: &StormRequest,
    stop: &Stop,
    on: &mut dyn FnMut(StormEvent<'_>),
) -> FleetRun {
    let seed = request.plan.seed.unwrap_or_else(random);
    let started_ms = now_ms();
    let mut hosts: Vec<FleetHost> = vec![FleetHost::default(); fleet.hosts.len()];
    on(StormEvent::Barrier(fleet.compare_clocks()));
    let specs = layers(Some(&request.share));
    let limits = (fleet.hosts.len(), request.silence);
    let order = open_order(&request.dir, &specs, &request.points, limits);
    for (host, opened) in opened(fleet, &order) {
        let share = opened.layers.get(1).and_then(|share| share.failed.clone());
        if let Some((why, hint)) = share {
            let hint = hint.map(|h| format!("; hint: {h}"));
            let why = why + &hint.unwrap_or_default();
            fleet.lose(host, "the share was set up", &why);
        }
        hosts[host].own = facts_of(&opened, 0).map(|(facts, _)| facts);
        hosts[host].share = facts_of(&opened, 1).map(|(facts, _)| facts);
        hosts[host].machine = Some(opened.machine);
    }
    let mut storm = Storm {
        request,
        seed,
        seq: 0,
        least: vec![[None; 2]; request.points.len()],
        rounds: Vec::new(),
    };
    let mut block = 0;
    while block < request.blocks && !stop.asked() && !fleet.up().is_empty() {
        storm.block(fleet, block, stop, on);
        block += 1;
    }
    for (host, of) in hosts.iter_mut().zip(&fleet.hosts) {
        host.name.clone_from(&of.name);
        host.lost.clone_from(&of.lost);
        if let Some(hello) = &of.hello {
            host.binary = Some(hello.binary.clone());
            host.boot = Some(hello.boot.clone());
            host.clock_ahead_s = Some(of.wall_ahead_ms as f64 / 1e3);
            host.clock_error_s = Some(of.error_ns as f64 / 1e9);
        }
    }
    FleetRun {
        id: new_id(started_ms),
        version: env!("CARGO_PKG_VERSION").into(),
        started_ms,
        launcher: request.launcher.clone(),
        plan: Plan {
            seed: Some(seed),
            ..request.plan.clone()
        },
        seed,
        dir: request.dir.clone(),
        share: Some(request.share.clone()),
        points: request.points.clone(),
        hosts,
        rounds: storm.rounds,
        stopped: block < request.blocks && stop.asked(),
    }
}

struct Storm<'a> {
    request: &'a StormRequest,
    seed: u64,
    seq: u64,
    /// Operations of each host at each point, in its own directory and on the share. Absent before one host alone
    /// has shown them.
    least: Vec<[Option<u64>; 2]>,
    rounds: Vec<FleetRound>,
}

impl Storm<'_> {
    fn block(
        &mut self,
        fleet: &mut Fleet,
        block: u32,
        stop: &Stop,
        on: &mut dyn FnMut(StormEvent<'_>),
    ) {
        for point in 0..self.request.points.len() {
            let mut up = fleet.up();
            if up.is_empty() {
                return;
            }
            // Each host is the one that is alone in one of the blocks.
            let first = block as usize % up.len();
            up.rotate_left(first);
            let mut rounds = Vec::new();
            for wave in fleet.waves(block as usize) {
                rounds.push((FleetPlace::Own, wave));
            }
            let mut counts = counts(up.len());
            // Up and down in turn, so that a drift of the store is not taken for its load.
            if block % 2 == 1 {
                counts.reverse();
            }
            let shared = counts
                .into_iter()
                .map(|n| (FleetPlace::Share, up[..n].to_vec()));
            rounds.extend(shared);
            for (place, set) in rounds {
                if stop.at_once() {
                    return;
                }
                let label = &self.request.points[point].label;
                on(StormEvent::Round(
                    block + 1,
                    self.request.blocks,
                    label,
                    place,
                    set.len(),
                ));
                self.learn(fleet, &set, (block, point, place));
                let turns = self.round(fleet, &set, (block, point, place));
                self.rounds.push(FleetRound {
                    block,
                    point,
                    place,
                    turns,
                });
            }
        }
    }

    /// Finds out how much one host alone does in a while; this is then the work of each. What is made between two
    /// passes, outside the clock, takes its part of the while.
    fn learn(&mut self, fleet: &mut Fleet, set: &[usize], at: (u32, usize, FleetPlace)) {
        let (_, point, place) = at;
        if self.least[point][place as usize].is_some() {
            return;
        }
        let alone: Vec<usize> = set.first().copied().into_iter().collect();
        let turns = self.turns(fleet, &alone, at, ONE_PASS);
        let done = turns.iter().find(|t| t.error.is_none() && t.ops > 0);
        self.least[point][place as usize] = done.map(|turn| {
            let took = turn.ended_ns.saturating_sub(turn.began_ns).max(1) as f64;
            let times = ALONE_MS as f64 * 1e6 / took;
            ((turn.ops as f64 * times.max(1.0)) as u64).min(MOST_OPS)
        });
    }

    fn round(
        &mut self,
        fleet: &mut Fleet,
        set: &[usize],
        at: (u32, usize, FleetPlace),
    ) -> Vec<FleetTurn> {
        let (_, point, place) = at;
        let least = match self.least[point][place as usize] {
            Some(ops) => (1, ops),
            None => ONE_PASS,
        };
        self.turns(fleet, set, at, least)
    }

    fn turns(
        &mut self,
        fleet: &mut Fleet,
        set: &[usize],
        (block, point, place): (u32, usize, FleetPlace),
        least: (u64, u64),
    ) -> Vec<FleetTurn> {
        let work = RoundWork {
            seq: self.seq,
            cell: Cell {
                session: 0,
                block,
                layer: place as usize,
                point,
            },
            point: self.request.points[point].clone(),
            seed: self.seed.wrapping_add(u64::from(block)),
            ns: 0,
            lead_in_ns: 0,
            least: Some(least),
        };
        self.seq += 1;
        let made = fleet.round(set, &work);
        made.into_iter().map(|m| m.turn).collect()
    }
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
