//! A fleet: several hosts that did the same work, in rounds of one, some or all of them at once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Facts, Machine, Plan, Point, Run, RunStatus, TrialRecord};

/// What a [`Run`] of a fleet has besides: its hosts, and how far it has come.
///
/// The run's layers are numbers of hosts at once. The first is one host alone on the share, with which the others are
/// compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FleetOfRun {
    /// The launcher, with its options.
    pub launcher: String,
    /// The hosts as the user named them, or their number. Absent if they were those of an allocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Path of layermark on the hosts, if the user named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exe: Option<String>,
    /// The directory of each host to which the launcher copied layermark, if the user asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sbcast: Option<String>,
    /// The shared directory, with `{host}` for the host's name.
    pub share: String,
    /// All hosts that were asked for, also those that never started.
    pub hosts: Vec<FleetHost>,
    /// Where the hosts of each layer work, and how many at once. Own directories: all hosts.
    pub steps: Vec<FleetLayer>,
    /// Operations of each host at each point, in its own directory and on the share: what one host alone did in a
    /// while. Absent before it was measured.
    pub work: Vec<[Option<u64>; 2]>,
    /// Number of groups that are complete. A group has all rounds of one point in one block.
    pub groups: u64,
    /// How many times the layers of all hosts were set up: at each start, and when the host was lost that had made the
    /// package of all.
    pub sessions: u32,
}

/// What the hosts of a layer of a fleet's run do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct FleetLayer {
    /// Which directories they work in.
    pub place: FleetPlace,
    /// How many work at once.
    pub hosts: usize,
}

/// The part of a trial in a round of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HostOfTrial {
    /// Index of the host.
    pub host: usize,
    /// Number of the round in its run: trials of one round began together.
    pub round: u64,
    /// When its work began, nanoseconds after the barrier opened, by the coordinator's clock.
    pub began_ns: i64,
    /// When its work ended, likewise.
    pub ended_ns: i64,
    /// How wrong both may be, nanoseconds: half of the shortest round trip in the comparison of clocks before it.
    /// Absent in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error_ns: Option<u64>,
    /// Whether it is the host that is alone in one round of this block. Layers are compared by its trials, so that
    /// both sides are of the same host.
    pub compared: bool,
}

impl FleetOfRun {
    /// The flags that start the same hosts, quoted for a shell by `quote`.
    pub fn launcher_flags(&self, quote: impl Fn(&str) -> String) -> String {
        let hosts = self.asked.as_deref();
        let hosts = hosts.map(|hosts| format!(" --hosts {}", quote(hosts)));
        let exe = self.exe.as_deref();
        let exe = exe.map(|exe| format!(" --exe {}", quote(exe)));
        let sbcast = self.sbcast.as_deref();
        let sbcast = sbcast.map(|dir| format!(" --sbcast {}", quote(dir)));
        format!(
            "--launcher {}{}{}{}",
            quote(&self.launcher),
            hosts.unwrap_or_default(),
            exe.unwrap_or_default(),
            sbcast.unwrap_or_default()
        )
    }
}

impl TrialRecord {
    /// Whether layers are compared by this trial. Of a fleet's round, only one host's trial is.
    pub fn is_compared(&self) -> bool {
        self.host.is_none_or(|of| of.compared)
    }
}

/// A run of a fleet: all rounds of one plan on several hosts, under one id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FleetRun {
    /// ULID: sorts by time.
    pub id: String,
    /// layermark's version.
    pub version: String,
    /// When it started, milliseconds since 1970 UTC.
    pub started_ms: i64,
    /// The launcher, with its options.
    pub launcher: String,
    /// The hosts as the user named them, or their number. Absent if they were those of an allocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The plan.
    pub plan: Plan,
    /// Seed of data and offsets.
    pub seed: u64,
    /// Each host's own directory, with `{host}` for its name.
    pub dir: String,
    /// The shared directory, likewise. Absent if only own directories are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// Points in the plan's order.
    pub points: Vec<Point>,
    /// All hosts that were asked for, also those that never started.
    pub hosts: Vec<FleetHost>,
    /// Rounds in their order.
    pub rounds: Vec<FleetRound>,
    /// Its state.
    pub status: RunStatus,
    /// Whether it was stopped before its last block.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// A host of a fleet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FleetHost {
    /// Its name; unique in the fleet.
    pub name: String,
    /// The machine. Absent if it never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// SHA-256 of its layermark, hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
    /// The kernel's boot id: hosts with the same one are one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// How far its wall clock is ahead of the coordinator's, seconds. No result depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_s: Option<f64>,
    /// Uncertainty of its moments on the coordinator's clock, seconds: half of the shortest round trip of the last
    /// comparison. Each turn has that of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error_s: Option<f64>,
    /// How far its monotonic clock ran away from the coordinator's during the run, seconds: what is more than the two
    /// comparisons may be wrong. The most in a session. Each round is timed by the comparison before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_drift_s: Option<f64>,
    /// Facts of its own directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Facts>,
    /// Facts of the shared directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Facts>,
    /// When and why it was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostHost>,
}

/// The loss of a host. The others go on without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LostHost {
    /// What was done meanwhile, in words, such as `it had its turn`.
    pub during: String,
    /// The reason.
    pub why: String,
}

/// Which directory a round worked in.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum FleetPlace {
    /// Each host's own directory.
    Own,
    /// The shared directory.
    Share,
}

/// A round: some hosts did the same work at the same time, after a barrier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FleetRound {
    /// Number of the block.
    pub block: u32,
    /// Index of the point.
    pub point: usize,
    /// The directory.
    pub place: FleetPlace,
    /// What each host did, in the order in which the hosts were taken.
    pub turns: Vec<FleetTurn>,
}

/// A host's part of a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FleetTurn {
    /// Index of the host.
    pub host: usize,
    /// When its work began, nanoseconds after the barrier opened, by the coordinator's clock.
    pub began_ns: i64,
    /// When its work ended, likewise.
    pub ended_ns: i64,
    /// How wrong both may be, nanoseconds: half of the shortest round trip in the comparison of clocks before it.
    /// Absent in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error_ns: Option<u64>,
    /// Nanoseconds on the probe's clock.
    pub elapsed_ns: u64,
    /// Operations done.
    pub ops: u64,
    /// Application bytes moved.
    pub bytes: u64,
    /// Nanoseconds of `elapsed_ns` that waited for a CPU; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<u64>,
    /// Share of the host's CPUs (0..=1) that its hypervisor took.
    #[serde(default)]
    pub steal: f64,
    /// Why it did not do its part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl FleetRun {
    /// The rounds of a stored run, from its trials. `None` if it is not a fleet's. A group of rounds that was cut off
    /// and repeated counts once, as it was made last.
    pub fn of(run: &Run, trials: &[TrialRecord]) -> Option<Self> {
        let fleet = run.fleet.as_deref()?;
        let mut newest = BTreeMap::<(u32, usize), u32>::new();
        for cell in trials.iter().map(|t| t.cell) {
            let session = newest.entry((cell.block, cell.point)).or_default();
            *session = cell.session.max(*session);
        }
        let mut rounds = BTreeMap::<u64, FleetRound>::new();
        for record in trials {
            let (cell, Some(of)) = (record.cell, record.host) else {
                continue;
            };
            let known = of.host < fleet.hosts.len() && cell.point < run.points.len();
            let counts = newest.get(&(cell.block, cell.point)) == Some(&cell.session);
            let Some(layer) = fleet.steps.get(cell.layer).filter(|_| known && counts) else {
                continue;
            };
            let round = rounds.entry(of.round).or_insert_with(|| FleetRound {
                block: cell.block,
                point: cell.point,
                place: layer.place,
                turns: Vec::new(),
            });
            round.turns.push(FleetTurn::of(of, record));
        }
        Some(Self::with(run, fleet, rounds.into_values().collect()))
    }

    /// A fleet's run with these rounds.
    pub fn with(run: &Run, fleet: &FleetOfRun, rounds: Vec<FleetRound>) -> Self {
        Self {
            id: run.id.clone(),
            version: run.version.clone(),
            started_ms: run.started_ms,
            launcher: fleet.launcher.clone(),
            asked: fleet.asked.clone(),
            plan: Plan {
                seed: Some(run.seed),
                ..run.plan.clone()
            },
            seed: run.seed,
            dir: run.dir.clone(),
            share: Some(fleet.share.clone()),
            points: run.points.clone(),
            hosts: fleet.hosts.clone(),
            rounds,
            status: run.status,
            stopped: run.status == RunStatus::Stopped,
        }
    }
}

impl FleetTurn {
    /// A trial's part in a round.
    pub fn of(of: HostOfTrial, record: &TrialRecord) -> Self {
        let trial = record.trial.as_ref();
        Self {
            host: of.host,
            began_ns: of.began_ns,
            ended_ns: of.ended_ns,
            clock_error_ns: of.clock_error_ns,
            elapsed_ns: trial.map_or(0, crate::Trial::elapsed_ns),
            ops: trial.map_or(0, crate::Trial::ops),
            bytes: trial.map_or(0, crate::Trial::bytes),
            waited_ns: trial.and_then(crate::Trial::waited_ns),
            steal: record.steal,
            error: record.error.clone(),
        }
    }

    /// Nanoseconds per operation. `None` if it failed.
    pub fn ns_per_op(&self) -> Option<f64> {
        let done = self.error.is_none() && self.ops > 0 && self.elapsed_ns > 0;
        done.then(|| self.elapsed_ns as f64 / self.ops as f64)
    }
}

impl FleetRound {
    /// Turns that were done, each with its nanoseconds per operation.
    pub fn done(&self) -> impl Iterator<Item = (&FleetTurn, f64)> {
        let turns = self.turns.iter();
        turns.filter_map(|turn| Some((turn, turn.ns_per_op()?)))
    }

    /// Operations per second of all hosts together: the sum of the rates of each, by its own clock. One slow host does
    /// not make the share look full. `None` if no host did its part.
    pub fn rate(&self) -> Option<f64> {
        let rates = self.done().map(|(_, ns_per_op)| 1e9 / ns_per_op);
        rates.reduce(|all, one| all + one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_host_does_not_slow_the_rate_of_the_others() {
        let turn = |elapsed_ns, ops| FleetTurn {
            elapsed_ns,
            ops,
            ..FleetTurn::default()
        };
        let mut round = FleetRound {
            block: 0,
            point: 0,
            place: FleetPlace::Share,
            turns: vec![turn(1_000_000_000, 100), turn(2_000_000_000, 100)],
        };
        assert_eq!(round.rate(), Some(150.0));
        round.turns[1].error = Some("lost".into());
        assert_eq!(round.rate(), Some(100.0), "one host, one second");
        round.turns.remove(0);
        assert_eq!(round.rate(), None);
    }
}
