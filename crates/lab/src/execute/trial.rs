//! One trial: a layer prepares a point, takes its turns, flushes and proves it.

mod end;
mod job;

use std::path::PathBuf;

use layermark_layers::{BackingExtents, KernelCaches, LayerError};
use layermark_model::{
    CpuTime, DeviceBackground, DeviceBytes, DroppedCaches, Point, Priority, RestedTurn, Throttled,
    Turn,
    flags::LAYER_LOST,
    protocol::{FromProbe, ToProbe, TurnRequest},
};
use layermark_probe::{
    counters::{self, Devices},
    resident,
};

use crate::{
    execute::{
        cpu::{Meter, Moment, Used},
        layer_failure::LayerFailure,
        others::Written,
        outcome::TrialOutcome,
        session::{End, RunningLayer},
        talk::{hear, say, unexpected},
        trial_request::{Failure, TrialRequest},
        turn::Length,
    },
    machine::now_ms,
};

pub(crate) use end::{ask_to_end, settle};
use job::{ready, send_job, serve};

/// A layer's trial in progress.
pub(crate) struct Attempt {
    /// What is known of it so far.
    pub made: TrialOutcome,
    /// Whether there is work for another turn.
    pub more: bool,
    /// Whether the probe has unmeasured work between its turns.
    between: bool,
    /// Time on the probe's clock so far, ns.
    pub elapsed_ns: u64,
    /// Time of the same work that did not count, ns.
    uncounted_ns: u64,
    /// Bytes that devices wrote in each turn, where known.
    written: Vec<Written>,
    behind: Vec<BackingExtents>,
    pub cooled: DroppedCaches,
    pub used: Used,
    /// CPU use in all turns of the block.
    pub beside: Used,
    /// The priority of its threads, if it is raised.
    pub priority: Option<Priority>,
    /// The same with earlier blocks, if this one is too short to tell.
    pub recent: Used,
    /// CPU time of the probe while its clock ran, nanoseconds.
    cpu_ns: u64,
    /// What the layer's helpers had waited for a CPU before the first turn, then in the block, ns.
    helpers_waited_ns: Option<u64>,
    /// What the devices did in the control windows of the block.
    pub background: Option<DeviceBackground>,
    /// The last turn.
    pub last: Option<Turn>,
    /// Flushes of the devices in the last turn.
    pub flushed: Option<u64>,
    /// The turn between two pauses.
    pub rested: Option<RestedTurn>,
    /// For a layer whose probe is not on this host: the devices below it, and the bytes that
    /// crossed them.
    below: Option<(Devices, Option<DeviceBytes>)>,
    /// The layer's own devices, and what they did in its turns. None: it has none.
    own: Option<(Devices, DeviceBytes)>,
    /// How CPU quotas stopped the layer in its turns.
    throttled: Option<Throttled>,
    /// For a layer that reads with `O_DIRECT` and has no known device below: all devices of this
    /// machine, and the bytes that they read in its turns.
    host: Option<(Devices, u64)>,
}

impl Attempt {
    pub(crate) fn new(layer: usize) -> Self {
        Self {
            made: TrialOutcome {
                layer,
                started_ms: now_ms(),
                ..TrialOutcome::default()
            },
            more: true,
            between: false,
            elapsed_ns: 0,
            uncounted_ns: 0,
            written: Vec::new(),
            behind: Vec::new(),
            cooled: DroppedCaches::default(),
            used: Used::default(),
            beside: Used::default(),
            priority: None,
            recent: Used::default(),
            cpu_ns: 0,
            helpers_waited_ns: None,
            background: None,
            last: None,
            flushed: None,
            rested: None,
            below: None,
            own: None,
            throttled: None,
            host: None,
        }
    }

    /// Does a step of the trial, unless an earlier one has failed.
    pub(crate) fn step(
        &mut self,
        up: &mut RunningLayer,
        step: impl FnOnce(&mut Self, &mut RunningLayer) -> Result<(), Failure>,
    ) {
        if self.made.failure.is_some() {
            return;
        }
        let done = if let Some(why) = up.is_lost() {
            // Each layer would be waited for until the time limit.
            Err(Failure::Lost(LayerFailure::new(why)))
        } else {
            step(self, up)
        };
        self.made.failure = match done {
            // If the layer is gone, it counts as lost, whatever its probe answered.
            Ok(()) | Err(Failure::Work { .. }) => match up.check_mount() {
                Err(lost) => Some(Failure::Lost(lost)),
                Ok(()) => done.err(),
            },
            // A layer whose probe failed may not answer. It is proved again when the probe is
            // restarted.
            broken => broken.err(),
        };
        match &self.made.failure {
            Some(Failure::Lost(_)) => {
                self.made.trial = None;
                self.made.flags = vec![LAYER_LOST.to_owned()];
            }
            // Its remaining work would disturb the turns of the other layers.
            Some(Failure::Broken(_)) => up.end_failed(),
            _ => {}
        }
    }

    /// Records that the processes that serve the layer were ended.
    pub(crate) fn lose(&mut self, lost: LayerFailure) {
        self.made.trial = None;
        self.made.flags = vec![LAYER_LOST.to_owned()];
        self.made.failure = Some(Failure::Lost(lost));
    }

    /// Makes the probe prepare the point.
    pub(crate) fn prepare(
        &mut self,
        up: &mut RunningLayer,
        request: &TrialRequest<'_>,
    ) -> Result<(), Failure> {
        ask_to_prepare(up, request)?;
        self.prepared(up, request)
    }

    /// Waits until the point is prepared.
    pub(crate) fn prepared(
        &mut self,
        up: &mut RunningLayer,
        request: &TrialRequest<'_>,
    ) -> Result<(), Failure> {
        ready(up, request)?;
        self.behind = behind(up, request);
        let own = up.own_devices();
        self.own = (!own.is_empty()).then(|| (Devices::open(&own), DeviceBytes::default()));
        let meaning = &request.point.meaning;
        // If the probe reads the counters itself, the lab does not.
        if !up.info().is_here(request.end()) {
            self.below = Some((Devices::open(&up.physical()), None));
        } else if unknown_device(up) && meaning.is_direct() && meaning.only_reads() {
            self.host = Some((Devices::of_this_machine(), 0));
        }
        Ok(())
    }

    /// Drops the caches if the point requires it.
    pub(crate) fn cool(
        &mut self,
        up: &mut RunningLayer,
        request: &TrialRequest<'_>,
    ) -> Result<(), Failure> {
        self.cooled = cooled(up, &request.point, KernelCaches::Later)?;
        Ok(())
    }

    /// Checks what is cached. From here to the end of the last turn the clock is watched.
    pub(crate) fn begin(&mut self, up: &mut RunningLayer) -> Result<(), Failure> {
        self.made.backing = backing_share(&self.behind);
        self.helpers_waited_ns = up.helpers_waited_ns();
        keeps_time(up)
    }

    /// Whether a CPU quota has stopped the layer in its turns, as far as it is counted.
    fn may_be_throttled(&self, up: &RunningLayer) -> bool {
        self.throttled
            .map_or_else(|| up.has_cpu_quota(), |t| t.times > 0)
    }

    /// After the last turn. The threads of helpers are many and idle in the turns of others, so their waiting is
    /// read at the ends of the block.
    pub(crate) fn end_of_turns(&mut self, up: &RunningLayer) {
        let both = self.helpers_waited_ns.zip(up.helpers_waited_ns());
        self.helpers_waited_ns = both.map(|(before, now)| now.saturating_sub(before));
    }

    /// Work outside the clock and its counters, after a turn or before the next one, if the last turn
    /// has asked for it.
    fn between(
        &mut self,
        up: &mut RunningLayer,
        request: &TrialRequest<'_>,
        again: bool,
        (meter, moment): (&Meter, &mut Moment),
    ) -> Result<(), Failure> {
        if !self.between {
            return Ok(());
        }
        let id = request.id;
        say(up, request, &ToProbe::Between { id, again })?;
        ready(up, request)?;
        *moment = meter.moment();
        Ok(())
    }

    /// Runs one turn. `moment` holds the last counters, and on return those after the turn.
    pub(crate) fn turn(
        &mut self,
        up: &mut RunningLayer,
        request: &TrialRequest<'_>,
        (round, length): (u32, Length),
        (meter, moment): (&Meter, &mut Moment),
    ) -> Result<(), Failure> {
        if self.elapsed_ns == 0 {
            self.made.started_ms = now_ms();
        }
        self.between(up, request, true, (meter, moment))?;
        let upkeep_before = upkeep(up, request)?;
        let crossed = self.below.as_ref().and_then(|(devices, _)| devices.sum());
        let host = self.host.as_ref().and_then(|(devices, _)| devices.sum());
        let own = self.own.as_ref().and_then(|(devices, _)| devices.sum());
        let throttled = up.throttles.sum();
        let message = ToProbe::Turn {
            id: request.id,
            ask: TurnRequest {
                round,
                ns: length.ns,
                lead_in_ns: length.lead_in_ns,
            },
        };
        say(up, request, &message)?;
        let (turned, probe_ns) = match hear(up, request)? {
            FromProbe::Turned {
                id,
                turned,
                probe_ns,
            } if (id, turned.turn.round) == (request.id, round) => (turned, probe_ns),
            other => return Err(unexpected(&other, "turned")),
        };
        if let Some((devices, read)) = &mut self.host {
            let more = host.zip(devices.sum());
            *read += more.map_or(0, |(a, b)| counters::between(a, b).read);
        }
        if let Some((devices, sum)) = &mut self.own
            && let Some((before, after)) = own.zip(devices.sum())
        {
            *sum += counters::between(before, after);
        }
        if let Some((before, after)) = throttled.zip(up.throttles.sum()) {
            let sum = self.throttled.get_or_insert_default();
            sum.times += after.times.saturating_sub(before.times);
            sum.ns += after.ns.saturating_sub(before.ns);
        }
        let before = std::mem::replace(moment, meter.moment());
        let upkeep = [upkeep_before, upkeep(up, request)?];
        let crossed = match &mut self.below {
            Some((devices, sum)) => {
                let more = crossed.zip(devices.sum());
                let more = more.map(|(a, b)| counters::between(a, b));
                if let Some(more) = more {
                    *sum.get_or_insert_default() += more;
                }
                more
            }
            None => turned.device,
        };
        self.flushed = crossed.map(|crossed| crossed.flushes);
        self.written.extend(crossed.map(|crossed| Written {
            turn: turned.turn,
            bytes: crossed.written,
        }));
        // The CPU time of a guest's probe is part of the layer's.
        let own_ns = if self.below.is_none() { probe_ns } else { 0 };
        self.used.add([&before, moment], upkeep, own_ns);
        // All of it, because upkeep is also read around the lead-in and the pauses between passes.
        self.cpu_ns = self.cpu_ns.saturating_add(probe_ns);
        self.elapsed_ns = self.elapsed_ns.saturating_add(turned.turn.elapsed_ns);
        self.uncounted_ns = self.uncounted_ns.saturating_add(turned.uncounted_ns);
        self.more = turned.more;
        self.last = Some(turned.turn);
        self.between = turned.between;
        self.between(up, request, false, (meter, moment))
    }
}

/// Asks the probe to prepare a point, which begins at once.
pub(crate) fn ask_to_prepare(
    up: &mut RunningLayer,
    request: &TrialRequest<'_>,
) -> Result<(), Failure> {
    let needs = &request.point.needs;
    if needs.refresh {
        let restored = up.refresh(&needs.packaged_names());
        restored.map_err(|lost| Failure::Broken(lost.reason))?;
    }
    let peer = match request.end() {
        End::Near => Some(serve(up, request)?),
        End::Far => None,
    };
    send_job(up, request, &request.point, peer)
}

/// A file system in user space that names neither a device nor a server.
fn unknown_device(up: &RunningLayer) -> bool {
    let facts = &up.facts;
    facts.is_fuse() && facts.devices.is_empty() && facts.network().is_none()
}

/// Refuses a trial whose clock runs fast or slow.
fn keeps_time(up: &mut RunningLayer) -> Result<(), Failure> {
    up.place.keeps_time().map_err(|e| match e {
        LayerError::Clock { .. } => Failure::work(e.to_string()),
        e => Failure::Broken(e.to_string()),
    })
}

/// Drops the caches for a point that requires it.
fn cooled(
    up: &mut RunningLayer,
    point: &Point,
    kernel: KernelCaches,
) -> Result<DroppedCaches, Failure> {
    if !point.meaning.is_cold() {
        return Ok(DroppedCaches::default());
    }
    let cooled = up.place.drop_caches(kernel);
    cooled.map_err(|e| Failure::Broken(e.to_string()))
}

fn upkeep(up: &RunningLayer, request: &TrialRequest<'_>) -> Result<CpuTime, Failure> {
    let upkeep = up.upkeep(request.end());
    upkeep.map_err(|e| Failure::Broken(e.to_string()))
}

/// The files of this host that hold the data the point reads; otherwise all image files of the
/// layer.
fn behind(up: &RunningLayer, request: &TrialRequest<'_>) -> Vec<BackingExtents> {
    let found = up.place.backing_extents(&request.point.needs.open_before);
    if !found.is_empty() {
        return found;
    }
    let whole = |path: &PathBuf| BackingExtents {
        path: path.clone(),
        ranges: None,
    };
    up.facts.backing.iter().map(whole).collect()
}

/// Share of all bytes of these files that is in the page cache; `None` when it is not known.
fn backing_share(files: &[BackingExtents]) -> Option<f64> {
    let looks = files
        .iter()
        .filter_map(|f| resident::cached(&f.path, f.ranges.as_deref()));
    let (cached, all) = looks.fold((0, 0), |(c, a), (cached, all)| (c + cached, a + all));
    (all > 0).then(|| cached as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cached_share_is_of_all_files_together() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("a");
        std::fs::write(&file, vec![1; 8192]).unwrap();
        let whole = |path: PathBuf| BackingExtents { path, ranges: None };
        let files = [file, temp.path().join("gone")].map(whole);
        assert_eq!(backing_share(&files), Some(1.0));
        assert_eq!(backing_share(&[]), None);
    }
}
