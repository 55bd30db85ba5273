//! A fleet: each host against the others, and the share under more and more of them.

use std::{cmp::Reverse, collections::BTreeMap};

use layermark_model::{FleetRun, LostHost};

use crate::{
    build,
    facts::{
        LEVEL,
        fleet::{self, PointRounds},
    },
    group, plain,
    statements::{
        fleet::{CheckAnswer, CurveSays, FleetAnswer, HostPart, HostSays, HostsUnlike, NothingAt},
        odd::OddAt,
    },
    types::{
        CheckedHost, FleetCheck, FleetFound, FleetHostRow, FleetPoint, FleetReport, HostWord,
        ManyRuns, Report, ResultRow, SlowHost, Standings,
    },
    words::{NO_NAMES, Names, Words},
};

/// A host of a check.
pub struct HostOfCheck<'a> {
    /// Its name.
    pub name: &'a str,
    /// How it was lost.
    pub lost: Option<&'a LostHost>,
    /// The report of its run. Absent if it made none.
    pub report: Option<&'a Report>,
}

impl FleetCheck {
    /// Compares each host with the others, and with the run `baseline`, which has a name. Differences below `delta` do
    /// not matter.
    pub fn of(hosts: &[HostOfCheck<'_>], baseline: Option<(&str, &Report)>, delta: f64) -> Self {
        let made = hosts.iter().filter(|h| h.lost.is_none());
        let runs = made.filter_map(|h| Some((h.name, h.report?)));
        let runs: Vec<(&str, &Report)> = runs.chain(baseline).collect();
        let compared = ManyRuns::of(&runs, delta);
        let names = Names::of(compared.as_ref().and_then(|c| c.baseline.as_deref()));
        let asked = asked(hosts);
        let all = asked.len();
        let nothing: Vec<NothingAt> = asked.into_values().flatten().collect();
        let says: Vec<HostSays> = hosts
            .iter()
            .map(|host| match host.lost {
                Some(lost) => HostSays::Lost(lost),
                None => says(compared.as_ref(), host.name, all),
            })
            .collect();
        let with = |word: HostWord| {
            let both = hosts.iter().zip(&says);
            both.filter(move |(_, says)| word_of(says) == word)
                .map(|(host, _)| host.name)
        };
        let answer = CheckAnswer {
            hosts: hosts.len(),
            odd: with(HostWord::Odd).collect(),
            lost: with(HostWord::Lost).collect(),
            like: with(HostWord::Like).count(),
            compared: compared.is_some(),
            nothing: nothing.len(),
        };
        let rows = hosts.iter().zip(&says).map(|(host, says)| CheckedHost {
            name: host.name.to_owned(),
            word: word_of(says),
            text: says.words(&names).into(),
            run: host.report.map(|report| report.run.clone()),
        });
        // The share is the layer that is not the baseline.
        let shares = hosts.iter().filter_map(|host| {
            let share = host.report?.layers.iter().find(|l| !l.baseline)?;
            Some((host.name, &share.facts))
        });
        let unlike = HostsUnlike::mounts(shares);
        let unlike = unlike.map(|one| one.words(&names).into());
        let (answer, rows) = (answer.words(&names).capitalised().into(), rows.collect());
        plain::texts(Self {
            schema: Self::SCHEMA.into(),
            generated_by: build::generated_by(),
            answer,
            hosts: rows,
            nothing: nothing.iter().map(|at| at.words(&names).into()).collect(),
            unlike: unlike.into_iter().collect(),
            compared,
        })
    }
}

/// The results that the hosts were asked for, by layer and point. Those that no host has, such as all of a share that is
/// full, have what is said of them. A host whose share was not set up has fewer.
fn asked<'a>(hosts: &[HostOfCheck<'a>]) -> BTreeMap<(&'a str, &'a str), Option<NothingAt<'a>>> {
    let reports = hosts.iter().filter(|h| h.lost.is_none());
    let rows = reports.filter_map(|h| h.report).flat_map(|r| &r.results);
    let mut all = BTreeMap::<_, Vec<&ResultRow>>::new();
    for row in rows {
        let at = (row.layer.as_str(), row.label.as_str());
        all.entry(at).or_default().push(row);
    }
    let nothing = |((layer, point), rows): (_, Vec<&'a ResultRow>)| {
        if rows.iter().any(|row| row.op_us.is_some()) {
            return ((layer, point), None);
        }
        let errors = rows.iter().filter_map(|row| row.error.as_deref());
        let errors = group::by(errors, |error| *error).into_iter();
        let mut errors: Vec<(&str, usize)> = errors.map(|(e, of)| (e, of.len())).collect();
        errors.sort_by_key(|(_, hosts)| Reverse(*hosts));
        let nothing = NothingAt {
            layer,
            point,
            errors,
        };
        ((layer, point), Some(nothing))
    };
    all.into_iter().map(nothing).collect()
}

fn says<'a>(compared: Option<&'a ManyRuns>, host: &str, results: usize) -> HostSays<'a> {
    let Some(compared) = compared else {
        return HostSays::Nothing;
    };
    let Some(at) = compared.runs.iter().position(|run| run.name == host) else {
        return HostSays::Nothing;
    };
    let counts = Standings::of(&compared.results, at);
    let all = counts.compared();
    if let Some(most) = OddAt::most(&compared.results, at) {
        return HostSays::Odd(most, counts.odd, all);
    }
    match all {
        0 => HostSays::Nothing,
        all if counts.like == all && all < results => HostSays::Lacks(all, results - all),
        all if counts.like == all => HostSays::Like(all),
        _ => HostSays::CannotTell(counts),
    }
}

fn word_of(says: &HostSays) -> HostWord {
    match says {
        HostSays::Like(_) => HostWord::Like,
        HostSays::Odd(..) => HostWord::Odd,
        HostSays::CannotTell(_) | HostSays::Lacks(..) | HostSays::Nothing => HostWord::CannotTell,
        HostSays::Lost(_) => HostWord::Lost,
    }
}

impl FleetReport {
    /// The report of a fleet's run.
    pub fn of(run: &FleetRun) -> Self {
        plain::texts(Self {
            schema: Self::SCHEMA.into(),
            generated_by: build::generated_by(),
            level: LEVEL,
            found: FleetFound::of(run),
            run: run.clone(),
        })
    }
}

/// For each host, in how many turns it did not do its part, and the error of the first one.
fn failed_turns(run: &FleetRun) -> Vec<(usize, Option<&str>)> {
    let mut failed = vec![(0, None); run.hosts.len()];
    for turn in run.rounds.iter().flat_map(|round| &round.turns) {
        if let (Some((turns, first)), Some(error)) = (failed.get_mut(turn.host), &turn.error) {
            *turns += 1;
            first.get_or_insert(error.as_str());
        }
    }
    failed
}

impl FleetFound {
    /// What a fleet's run shows.
    pub fn of(run: &FleetRun) -> Self {
        let rounds = (0..run.points.len()).map(|point| PointRounds::of(run, point));
        let rounds: Vec<PointRounds> = rounds.collect();
        let slowest = fleet::slowest(&rounds);
        // Numbers of points whose curve is straight up to so many hosts.
        let mut not_reached = BTreeMap::<usize, usize>::new();
        let points = run.points.iter().zip(&rounds).zip(slowest);
        let points = points.map(|((point, rounds), slowest)| {
            let found = rounds.knee();
            let mut row = FleetPoint {
                label: point.label.clone(),
                steps: rounds.steps(),
                knee: None,
                text: String::new(),
                slowest: slowest.map(|(host, ratio)| SlowHost {
                    name: run.hosts[host].name.clone(),
                    ratio,
                    because: rounds.differs(host).map(|why| why.words(&NO_NAMES).into()),
                }),
            };
            let read = (found.blocks, found.counts.as_slice());
            let says = CurveSays::of(&row, found.knee.as_ref(), read);
            if let CurveSays::Straight(_, most) = says {
                *not_reached.entry(most.hosts).or_default() += 1;
            }
            let is_known = !matches!(says, CurveSays::NotAtOnce(_));
            row.text = says.words(&NO_NAMES).into();
            row.knee = found.knee.filter(|_| is_known);
            row
        });
        let points: Vec<FleetPoint> = points.collect();
        let reached = |p: &FleetPoint| p.knee.as_ref().is_some_and(|k| k.reached);
        let straight = |p: &FleetPoint| p.knee.as_ref().is_some_and(|k| k.straight);
        let lost = run.hosts.iter().filter(|h| h.lost.is_some()).count();
        let answer = FleetAnswer {
            lost,
            reached: points
                .iter()
                .filter(|p| reached(p))
                .filter_map(|p| Some((p.label.as_str(), &p.knee.as_ref()?.hosts)))
                .collect(),
            not_reached: not_reached.into_iter().collect(),
            unknown: points
                .iter()
                .filter(|p| !reached(p) && !straight(p))
                .count(),
            status: run.status,
        };
        let answer = answer.words(&NO_NAMES).capitalised().into();
        let hosts = run
            .hosts
            .iter()
            .zip(failed_turns(run))
            .map(|(host, failed)| {
                let (failed_turns, error) = failed;
                FleetHostRow {
                    name: host.name.clone(),
                    machine: host.machine.clone(),
                    text: match &host.lost {
                        Some(lost) => HostPart::Lost(lost),
                        None => HostPart::Until(run.status),
                    }
                    .words(&NO_NAMES)
                    .into(),
                    lost: host.lost.is_some(),
                    failed_turns,
                    error: error.map(str::to_owned),
                }
            });
        let unlike = HostsUnlike::all(&run.hosts, &run.version);
        Self {
            answer,
            hosts: hosts.collect(),
            unlike: unlike
                .iter()
                .map(|one| one.words(&NO_NAMES).into())
                .collect(),
            points,
        }
    }
}
