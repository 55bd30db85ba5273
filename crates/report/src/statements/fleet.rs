//! What is said about a fleet.

use layermark_model::{Facts, FleetHost, FleetPlace, LostHost, RunStatus};

use crate::{
    facts::machine::{COMPARED, FactValue, MachineFact, RanOn},
    group,
    statements::odd::OddAt,
    types::{Estimate, FleetKnee, FleetPoint, FleetStep, Standings},
};

/// How a host of a check compares with the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HostSays<'a> {
    /// Like the others at so many results.
    Like(usize),
    /// Odd, most so here, at so many results of these.
    Odd(OddAt<'a>, usize, usize),
    /// Not decided.
    CannotTell(Standings),
    /// Like the others at the first number of results. The second number of them could not be compared, since it or
    /// another host has none.
    Lacks(usize, usize),
    /// It was lost.
    Lost(&'a LostHost),
    /// It has no result.
    Nothing,
}

/// The answer of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckAnswer<'a> {
    /// All hosts.
    pub hosts: usize,
    /// Names of those that are odd.
    pub odd: Vec<&'a str>,
    /// Names of those that were lost.
    pub lost: Vec<&'a str>,
    /// How many are like the others.
    pub like: usize,
    /// Whether there were enough to be compared.
    pub compared: bool,
    /// Results that no host has.
    pub nothing: usize,
}

/// A result that no host of a check has.
#[derive(Debug, Clone, PartialEq)]
pub struct NothingAt<'a> {
    /// Name of the layer.
    pub layer: &'a str,
    /// Label of the point.
    pub point: &'a str,
    /// Why the first trials of hosts failed, and of how many each, the most frequent first.
    pub errors: Vec<(&'a str, usize)>,
}

/// The answer of a fleet's run.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetAnswer<'a> {
    /// Hosts that were lost.
    pub lost: usize,
    /// Points whose knee was reached, with it.
    pub reached: Vec<(&'a str, &'a Estimate)>,
    /// Up to so many hosts the curve is straight, at so many points.
    pub not_reached: Vec<(usize, usize)>,
    /// Number of points without a knee.
    pub unknown: usize,
    /// Whether the run has ended, and how.
    pub status: RunStatus,
}

/// What the curve of a point shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CurveSays<'a> {
    /// It has bent: the knee, and one host's step and the best one.
    Bent(&'a Estimate, &'a FleetStep, &'a FleetStep),
    /// It has not bent beyond the noise: one host's step, and that of the most hosts that the knee was read from.
    Straight(&'a FleetStep, &'a FleetStep),
    /// It may have bent or not: the knee, and the step of the most hosts that it was read from.
    Open(&'a Estimate, &'a FleetStep),
    /// The hosts of this step did not work at once, as far as is known.
    NotAtOnce(&'a FleetStep),
    /// So many whole blocks are too few.
    FewBlocks(usize),
    /// In no round of this step did all hosts do their part.
    NoWholeRound(&'a FleetStep),
    /// There is no curve.
    NoCurve,
}

/// How a host is different from the others, besides its times.
#[derive(Debug, Clone, PartialEq)]
pub enum HostDiffers<'a> {
    /// It waited for a CPU for this share of its time, the others for that share.
    Waited(f64, f64),
    /// Its hypervisor took this share of its CPUs, of the others that share.
    Steal(f64, f64),
    /// Another value of a fact, and that of the others.
    Fact(MachineFact, FactValue<'a>, FactValue<'a>),
    /// Another mount of the share: its type and options, and those of the others.
    Mount([String; 2], [String; 2]),
}

/// Something that not all hosts have in common.
#[derive(Debug, Clone, PartialEq)]
pub enum HostsUnlike<'a> {
    /// Values of a fact, and the hosts that have each.
    Values(MachineFact, Vec<(FactValue<'a>, Vec<&'a str>)>),
    /// Types and options of the mounts of the share, and the hosts that have each.
    Mounts(Vec<([String; 2], Vec<&'a str>)>),
    /// Hosts that are on one machine, and slow each other when they work at once.
    OneMachine(Vec<&'a str>),
    /// A host whose wall clock is so many seconds ahead.
    Clock(&'a str, f64),
    /// A host whose monotonic clock ran away by at least so many seconds during the run.
    Drift(&'a str, f64),
}

/// For how long a host took part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HostPart<'a> {
    /// Until it was lost.
    Lost(&'a LostHost),
    /// Until the run came into this state.
    Until(RunStatus),
}

/// Wall clocks that differ by less are the same, seconds.
const CLOCKS: f64 = 1.0;
/// A clock that has run away by less is not mentioned, seconds.
const DRIFT: f64 = 1e-3;

impl<'a> CurveSays<'a> {
    /// Of a point whose knee was read from so many blocks, at these numbers of hosts.
    pub fn of(
        point: &'a FleetPoint,
        knee: Option<&'a FleetKnee>,
        (blocks, counts): (usize, &[usize]),
    ) -> Self {
        let shared = point.steps.iter().filter(|s| {
            let used = s.place == FleetPlace::Share && counts.contains(&s.hosts);
            used && s.rate.is_some()
        });
        let shared: Vec<&FleetStep> = shared.collect();
        let (Some(one), Some(most), Some(knee)) = (shared.first(), shared.last(), knee) else {
            let failed = |s: &&FleetStep| s.place == FleetPlace::Share && s.rounds == 0;
            let failed = point.steps.iter().find(failed);
            return failed.map_or(Self::NoCurve, Self::NoWholeRound);
        };
        if knee.hosts.interval.is_none() {
            return Self::FewBlocks(blocks);
        }
        if let Some(apart) = shared.iter().find(|s| s.at_once == Some(false)) {
            return Self::NotAtOnce(apart);
        }
        if knee.straight {
            return Self::Straight(one, most);
        }
        if !knee.reached {
            return Self::Open(&knee.hosts, most);
        }
        let rate = |s: &FleetStep| s.rate.map_or(0.0, |r| r.estimate);
        let best = shared.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
        Self::Bent(&knee.hosts, one, best.unwrap_or(most))
    }
}

impl<'a> HostsUnlike<'a> {
    /// Other mounts of the share, by the facts that each host has of it.
    pub fn mounts(hosts: impl Iterator<Item = (&'a str, &'a Facts)>) -> Option<Self> {
        let mounts =
            group::grouped(hosts.filter_map(|(name, share)| Some((mount_of(share)?, name))));
        (mounts.len() > 1).then_some(Self::Mounts(mounts))
    }

    /// What these hosts do not have in common.
    pub fn all(hosts: &'a [FleetHost], version: &'a str) -> Vec<Self> {
        let known: Vec<(&str, RanOn<'a>)> = hosts
            .iter()
            .filter_map(|h| {
                let machine = h.machine.as_ref()?;
                Some((h.name.as_str(), RanOn { machine, version }))
            })
            .collect();
        let values = COMPARED.into_iter().filter_map(|fact| {
            let first = |one: RanOn| {
                known
                    .iter()
                    .position(|(_, other)| fact.is_same(*other, one))
            };
            let groups = group::grouped(known.iter().map(|(name, on)| (first(*on), *name)));
            let groups = groups.into_iter().filter_map(|(at, names)| {
                let (_, on) = known.get(at?)?;
                Some((fact.of(*on), names))
            });
            let groups: Vec<_> = groups.collect();
            (groups.len() > 1).then_some(Self::Values(fact, groups))
        });
        let mounts = hosts
            .iter()
            .filter_map(|h| Some((h.name.as_str(), h.share.as_ref()?)));
        let mounts = Self::mounts(mounts);
        let boots = hosts.iter().filter_map(|h| {
            let boot = h.boot.as_deref().filter(|b| !b.is_empty())?;
            Some((boot, h.name.as_str()))
        });
        let together = group::grouped(boots).into_iter();
        let together = together.filter(|(_, names)| names.len() > 1);
        let together = together.map(|(_, names)| Self::OneMachine(names));
        let clocks = hosts.iter().filter_map(|h| {
            let ahead = h.clock_ahead_s.filter(|s| s.abs() >= CLOCKS)?;
            Some(Self::Clock(&h.name, ahead))
        });
        let drifts = hosts.iter().filter_map(|h| {
            let drift = h.clock_drift_s.filter(|s| *s >= DRIFT)?;
            Some(Self::Drift(&h.name, drift))
        });
        let clocks = clocks.chain(drifts);
        values.chain(mounts).chain(together).chain(clocks).collect()
    }
}

/// Type and options of the mount of a share.
pub fn mount_of(share: &Facts) -> Option<[String; 2]> {
    let mount = share.mounts.first()?;
    Some([mount.fs.clone(), mount.common_options()])
}
