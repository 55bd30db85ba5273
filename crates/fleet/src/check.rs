//! `fleet check`: which host is odd. Each host makes a run of its own, all of them the same; the hosts take turns only
//! where they would slow each other.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use layermark_lab::{Stop, new_id, now_ms};
use layermark_model::{
    Cell, Facts, LayerRun, LayerStatus, Plan, Point, Run, RunStatus, SelfTest, Spec, StoreOption,
    TrialRecord, TurnCost,
};

use crate::{
    coordinator::{ClockTrips, Fleet},
    protocol::{Answer, LayerOrder, OpenOrder, Opened, OpenedLayer, Order, with_hint},
    round::RoundWork,
};

/// Fewest and most blocks.
const BLOCKS: [u32; 2] = [6, 15];
/// How many times the layers are set up afresh.
const SESSIONS: u32 = 3;
/// Length of a turn.
const TURN: Duration = Duration::from_millis(40);
/// Length at points that make files: each turn leaves thousands to remove.
const TURN_OF_FILES: Duration = Duration::from_millis(5);
/// The lead-in lasts this part of a turn.
const LEAD_IN: u32 = 10;
const OPENING: &str = "its layers were set up";
const SHARE: &str = "the share was set up";

/// What to check.
#[derive(Debug, Clone)]
pub struct CheckRequest {
    /// The plan: name, text and work. Its points are those of `points`.
    pub plan: Plan,
    /// The points.
    pub points: Vec<Point>,
    /// Each host's own directory.
    pub dir: String,
    /// The shared directory.
    pub share: Option<String>,
    /// Aim for all of it.
    pub budget: Duration,
    /// Seed of data and offsets.
    pub seed: u64,
    /// How long a host may be silent.
    pub silence: Duration,
    /// How commands name the store.
    pub store: StoreOption,
}

/// What happens, for the store.
pub enum CheckEvent<'a> {
    /// The run of a host begins, or is changed.
    Run(&'a Run),
    /// A trial of a host's run has ended.
    Trial(&'a str, &'a TrialRecord),
}

/// Whether a point is for a check: it can be divided into turns again and again, has one end, and starts no programs.
pub fn is_for_check(point: &Point) -> bool {
    point.meaning.divided.is_some_and(|d| !d.uses_up)
        && !point.meaning.runs_programs()
        && !point.needs.near.has_two()
}

/// Runs a check. Returns the run of each host; `None` of those whose layers never were up.
///
/// # Errors
///
/// What `on` returns: the store has failed.
pub fn check<E>(
    fleet: &mut Fleet,
    request: &CheckRequest,
    stop: &Stop,
    on: &mut dyn FnMut(CheckEvent<'_>) -> Result<(), E>,
) -> Result<Vec<Option<Run>>, E> {
    let begun = Instant::now();
    let mut of = Check {
        runs: vec![None; fleet.hosts.len()],
        layers: layers(request.share.as_deref()),
        request,
        seq: 0,
    };
    fleet.compare_clocks(ClockTrips::First);
    let (mut blocks, mut block, mut session) = (BLOCKS[0], 0, 0);
    of.open(fleet, on)?;
    let first = Instant::now();
    while block < blocks && !stop.asked() && !fleet.up().is_empty() {
        let due = block * SESSIONS / blocks;
        if due > session {
            session = due;
            of.open(fleet, on)?;
        }
        of.block(fleet, (session, block), stop, on)?;
        block += 1;
        if block == 1 {
            let left = request.budget.saturating_sub(begun.elapsed());
            let each = first.elapsed().as_secs_f64().max(1e-3);
            let more = (left.as_secs_f64() * 0.9 / each) as u32;
            blocks = (1 + more).clamp(BLOCKS[0], BLOCKS[1]);
        }
    }
    for (at, run) in of.runs.iter_mut().enumerate() {
        let Some(run) = run else { continue };
        run.ended_ms = Some(now_ms());
        run.status = match () {
            () if fleet.hosts[at].fault().is_some() => RunStatus::Failed,
            () if block < blocks || stop.at_once() => RunStatus::Stopped,
            () => RunStatus::Done,
        };
        on(CheckEvent::Run(run))?;
    }
    Ok(of.runs)
}

/// The layers of each host: its own directory, and the shared one.
pub(crate) fn layers(share: Option<&str>) -> Vec<Spec> {
    let share = share.map(|dir| Spec {
        variant: Some(dir.to_owned()),
        ..Spec::bare("dir")
    });
    [Spec::bare("native")].into_iter().chain(share).collect()
}

/// These layers, each with the packaged files of all points.
pub(crate) fn with_all(layers: &[Spec], points: &[Point]) -> Vec<LayerOrder> {
    let of = |spec: &Spec| LayerOrder {
        spec: spec.clone(),
        points: (0..points.len()).collect(),
    };
    layers.iter().map(of).collect()
}

/// What all hosts are told to set up.
pub(crate) fn open_order(
    dir: &str,
    layers: Vec<LayerOrder>,
    points: &[Point],
    (sharing, silence): (usize, Duration),
) -> Order {
    Order::Open(Box::new(OpenOrder {
        dir: dir.to_owned(),
        layers,
        points: points.to_vec(),
        sharing: sharing as u32,
        silence_ms: in_ms(silence),
    }))
}

/// A time in milliseconds, as orders have it.
pub(crate) fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What the hosts have set up. Those that could not set up their own directory are lost.
pub(crate) fn opened(fleet: &mut Fleet, order: &Order) -> BTreeMap<usize, Opened> {
    let up = fleet.up();
    let mut all = BTreeMap::new();
    for answered in fleet.order(&up, OPENING, order) {
        match answered.answer {
            Answer::Opened(opened) if opened.layers.is_empty() => {
                fleet.lose(answered.host, OPENING, "it named no directory");
            }
            Answer::Opened(opened) => {
                let failed = opened.layers.first().and_then(|own| own.failed.clone());
                match failed {
                    None => drop(all.insert(answered.host, *opened)),
                    Some((why, hint)) => {
                        fleet.lose(answered.host, OPENING, &with_hint(why, hint));
                    }
                }
            }
            Answer::Failed { message, hint, .. } => {
                fleet.lose(answered.host, OPENING, &with_hint(message, hint));
            }
            _ => fleet.lose(answered.host, OPENING, "it answered something else"),
        }
    }
    all
}

/// Loses a host that could not set up one of these layers of the share.
pub(crate) fn lose_without<'a>(
    fleet: &mut Fleet,
    host: usize,
    mut shares: impl Iterator<Item = &'a OpenedLayer>,
) {
    if let Some((why, hint)) = shares.find_map(|share| share.failed.clone()) {
        fleet.lose(host, SHARE, &with_hint(why, hint));
    }
}

struct Check<'a> {
    runs: Vec<Option<Run>>,
    layers: Vec<Spec>,
    request: &'a CheckRequest,
    seq: u64,
}

impl Check<'_> {
    fn open<E>(
        &mut self,
        fleet: &mut Fleet,
        on: &mut dyn FnMut(CheckEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let request = self.request;
        // They use the share in turn.
        let limits = (1, request.silence);
        let layers = with_all(&self.layers, &request.points);
        let order = open_order(&request.dir, layers, &request.points, limits);
        for (host, opened) in opened(fleet, &order) {
            lose_without(fleet, host, opened.layers.iter().skip(1));
            let name = &fleet.hosts[host].name;
            let run = self.run_of(name, &opened);
            let kept = self.runs[host].get_or_insert_with(|| run.clone());
            kept.layers = run.layers;
            on(CheckEvent::Run(kept))?;
        }
        Ok(())
    }

    /// The run of a host.
    fn run_of(&self, host: &str, opened: &Opened) -> Run {
        let request = self.request;
        let layers = self.layers.iter().zip(&opened.layers).map(|(asked, is)| {
            let failed = is.failed.clone();
            LayerRun {
                spec: is.spec.clone(),
                // The same on all hosts, also where its path is not.
                name: asked.to_string(),
                status: if failed.is_some() {
                    LayerStatus::Failed
                } else {
                    LayerStatus::Ready
                },
                reason: failed.clone().map(|f| f.0),
                hint: failed.and_then(|f| f.1),
                enough_s: None,
                facts: is.facts.clone(),
                setup_s: is.setup_s,
                self_test: is.self_test,
                read_only: is.read_only,
                skips: BTreeMap::new(),
                control: false,
            }
        });
        let mut machine = opened.machine.clone();
        machine.label = Some(host.to_owned());
        Run {
            id: new_id(now_ms()),
            version: env!("CARGO_PKG_VERSION").into(),
            started_ms: now_ms(),
            ended_ms: None,
            status: RunStatus::Running,
            seed: request.seed,
            dir: crate::protocol::with_host(&request.dir, host),
            plan: request.plan.clone(),
            machine,
            layers: layers.collect(),
            points: request.points.clone(),
            cut: None,
            sustained: Vec::new(),
            fleet: None,
            sent: false,
            store: request.store.clone(),
        }
    }

    fn block<E>(
        &mut self,
        fleet: &mut Fleet,
        (session, block): (u32, u32),
        stop: &Stop,
        on: &mut dyn FnMut(CheckEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for point in 0..self.request.points.len() {
            for layer in 0..self.layers.len() {
                // What is local at the same time, what is shared in turn.
                let sets = if layer == 0 {
                    fleet.waves(block as usize)
                } else {
                    let mut up = fleet.up();
                    let first = block as usize % up.len().max(1);
                    up.rotate_left(first);
                    up.into_iter().map(|host| vec![host]).collect()
                };
                for set in sets {
                    if stop.at_once() {
                        return Ok(());
                    }
                    let ready = set.into_iter().filter(|host| self.is_ready(*host, layer));
                    let ready: Vec<usize> = ready.collect();
                    let cell = Cell {
                        session,
                        block,
                        layer,
                        point,
                    };
                    self.trials(fleet, &ready, cell, on)?;
                }
            }
        }
        Ok(())
    }

    fn is_ready(&self, host: usize, layer: usize) -> bool {
        let run = self.runs[host].as_ref();
        run.is_some_and(|run| {
            run.layers
                .get(layer)
                .is_some_and(|l| l.status == LayerStatus::Ready)
        })
    }

    fn trials<E>(
        &mut self,
        fleet: &mut Fleet,
        hosts: &[usize],
        cell: Cell,
        on: &mut dyn FnMut(CheckEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let point = &self.request.points[cell.point];
        let makes_files = point
            .meaning
            .divided
            .is_some_and(|d| d.cost == TurnCost::Files);
        let turn = if makes_files { TURN_OF_FILES } else { TURN };
        let work = RoundWork {
            seq: self.seq,
            cell,
            point: point.clone(),
            seed: self.request.seed.wrapping_add(u64::from(cell.block)),
            ns: turn.as_nanos() as u64,
            lead_in_ns: (turn / LEAD_IN).as_nanos() as u64,
            least: None,
        };
        self.seq += 1;
        for made in fleet.round(hosts, &work) {
            let Some(run) = &self.runs[made.turn.host] else {
                continue;
            };
            let record = made.record.unwrap_or_else(|| TrialRecord {
                error: made.turn.error.clone(),
                ..TrialRecord::default()
            });
            // Whatever the task says it is of.
            let record = TrialRecord {
                seq: work.seq,
                cell,
                ..record
            };
            on(CheckEvent::Trial(&run.id, &record))?;
        }
        Ok(())
    }
}

/// A layer that was not set up has these.
pub(crate) fn facts_of(opened: &Opened, layer: usize) -> Option<(Facts, SelfTest)> {
    let layer = opened.layers.get(layer).filter(|l| l.failed.is_none())?;
    Some((layer.facts.clone(), layer.self_test))
}
