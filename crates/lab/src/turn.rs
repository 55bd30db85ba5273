//! One turn: a layer makes one trial of one point.

use std::path::PathBuf;

use layermark_layers::{Behind, LayerError, in_words};
use layermark_model::{
    Cooled, CpuTime, Environment, Point, Trial,
    flags::{CONTAMINATED, LAYER_LOST},
    protocol::{FromProbe, Job, ToProbe},
};
use layermark_probe::{Workload, counters, resident};

use crate::{
    Stop,
    cpu::{KernelThreads, Look, Snapshot, Usage},
    flags::{self, Around},
    line::Broken,
    machine::now_ms,
    session::{Lost, Up},
};

/// A trial lasts at least this long, milliseconds ...
const MIN_MS: u64 = 50;
/// ... and has at least so many operations.
const MIN_OPS: u64 = 200;

/// What to do.
pub(crate) struct Ask<'a> {
    pub id: u64,
    pub point: &'a Point,
    /// What is done beside it, and not counted.
    pub extra: Option<Point>,
    pub workload: &'a dyn Workload,
    pub seed: u64,
    /// Directory of the file system that every layer is built over.
    pub base: &'a str,
    pub threads: &'a KernelThreads,
    /// Values of the variables that points name.
    pub env: &'a Environment,
    pub stop: &'a Stop,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// When the clock started, milliseconds since 1970.
    pub started_ms: i64,
    pub trial: Option<Trial>,
    pub usage: Usage,
    pub backing: Option<f64>,
    pub flags: Vec<String>,
    pub failure: Option<Failure>,
}

/// Why there is no trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The probe could not do the work and waits for the next job.
    Work { message: String, errno: Option<i32> },
    /// The probe or the layer is in an unknown state.
    Broken(String),
    /// The layer is not there any more, so nothing says what was measured.
    Lost(Lost),
    /// The user asked to stop at once.
    CutOff,
}

impl Failure {
    /// As stored with the trial.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Work { message, .. } | Self::Broken(message) => message,
            Self::Lost(lost) => &lost.reason,
            Self::CutOff => "cut off by the user",
        }
    }
}

/// While the probe makes the trial ready `meanwhile` is called, unless it does not come to that. It
/// looks at the kernel's threads.
pub(crate) fn take(up: &mut Up, ask: &Ask<'_>, meanwhile: &mut dyn FnMut() -> Look) -> Turn {
    let mut turn = Turn {
        started_ms: now_ms(),
        ..Turn::default()
    };
    let done = steps(up, ask, &mut turn, meanwhile);
    turn.failure = match done {
        Ok(()) | Err(Failure::Work { .. }) => match up.kept() {
            Err(lost) => Some(Failure::Lost(lost)),
            Ok(()) => done.err(),
        },
        // A layer whose probe broke may not answer; it is proved again when that is started again.
        broken => broken.err(),
    };
    if let Some(failure) = &turn.failure {
        turn.trial = None;
        if matches!(failure, Failure::Lost(_)) {
            turn.flags = vec![LAYER_LOST.to_owned()];
        }
    }
    turn
}

fn steps(
    up: &mut Up,
    ask: &Ask<'_>,
    turn: &mut Turn,
    meanwhile: &mut dyn FnMut() -> Look,
) -> Result<(), Failure> {
    if ask.workload.needs_refresh(ask.point) {
        up.refresh().map_err(|lost| Failure::Broken(lost.reason))?;
    }
    send_job(up, ask, ask.point)?;
    let early = meanwhile();
    ready(up, ask)?;
    let behind = behind(up, ask);
    let cooled = cooled(up, ask.point)?;
    turn.backing = backing_share(&behind);
    // From here to the end of the trial the clock is watched.
    keeps_time(up)?;
    turn.started_ms = now_ms();
    let before = Snapshot::take(ask.threads, early, up.talk.pid(), upkeep(up)?);
    // Where the probe counts for itself, nobody counts twice.
    let host = !up.place.on_this_host();
    let count = |up: &Up| host.then(|| counters::sum(&up.physical())).flatten();
    let crossed = count(up);
    say(up, &ToProbe::Go { id: ask.id })?;
    let mut stopped = None;
    let mut trial = loop {
        match hear(up, ask)? {
            // What the layer does from now on (write-back, proof) is none of the trial's cost.
            FromProbe::Stopped { id } if id == ask.id => {
                let counted = count(up);
                stopped = Some((after(up, ask, &before)?, counted));
            }
            FromProbe::Trial { id, trial } if id == ask.id => break *trial,
            other => return Err(unexpected(&other, "trial")),
        }
    };
    keeps_time(up)?;
    let (after, counted) = match stopped {
        Some(after) => after,
        None => (after(up, ask, &before)?, count(up)),
    };
    let cpu_ns = trial.cpu.user_ns + trial.cpu.sys_ns;
    if up.place.on_this_host() {
        turn.usage = before.until(&after, cpu_ns);
    } else {
        // A device of the guest may be the memory of this host: what counts is counted here.
        trial.guest_device = trial.device.take();
        trial.device = crossed.zip(counted).map(|(a, b)| counters::between(a, b));
        // The CPU that the probe had is the guest's, which is the layer's.
        turn.usage = before.until(&after, 0);
        turn.usage.upkeep_ns = turn.usage.upkeep_ns.saturating_sub(cpu_ns);
    }
    if trial.syncs > 0 {
        trial.idle_flushes = up.idle_flushes;
    }
    let spun = trial.spun_ns as f64 / 1e9 / turn.usage.cpu_s.max(1e-9);
    trial.busy = Some((turn.usage.busy - spun).max(0.0));
    if trial.ns_per_op().is_none_or(|ns| ns <= 0.0) {
        return Err(Failure::Work {
            message: "the trial has no operation on its clock".into(),
            errno: None,
        });
    }
    let around = Around {
        reads: !ask.workload.writes(ask.point),
        facts: &up.facts,
        backing: turn.backing,
        cooled: &cooled,
    };
    turn.flags = flags::of(ask.point, &around, &trial);
    if turn.usage.contaminated {
        turn.flags.push(CONTAMINATED.to_owned());
    }
    if let Some(extra) = &ask.extra {
        beside(up, ask, extra, &mut trial)?;
    }
    turn.trial = Some(trial);
    Ok(())
}

/// A trial by a clock that runs fast or slow is refused.
fn keeps_time(up: &mut Up) -> Result<(), Failure> {
    up.place.keeps_time().map_err(|e| match e {
        LayerError::Clock { .. } => Failure::Work {
            message: e.to_string(),
            errno: None,
        },
        e => Failure::Broken(e.to_string()),
    })
}

/// Has the probe prepare a point.
fn send_job(up: &mut Up, ask: &Ask<'_>, point: &Point) -> Result<(), Failure> {
    let job = job(up, ask, point);
    say(up, &ToProbe::Job(Box::new(job)))
}

/// Waits until it has.
fn ready(up: &mut Up, ask: &Ask<'_>) -> Result<(), Failure> {
    match hear(up, ask)? {
        FromProbe::Ready { id } if id == ask.id => Ok(()),
        other => Err(unexpected(&other, "ready")),
    }
}

/// Empties the caches for a point that asks for it.
fn cooled(up: &mut Up, point: &Point) -> Result<Cooled, Failure> {
    if point.text("cache") != "cold" {
        return Ok(Cooled::default());
    }
    let cooled = up.place.cool();
    cooled.map_err(|e| Failure::Broken(e.to_string()))
}

/// A trial that is not counted, for what it tells about the one that was. That it could not be
/// made is a remark.
fn beside(up: &mut Up, ask: &Ask<'_>, point: &Point, of: &mut Trial) -> Result<(), Failure> {
    let made = (|| {
        send_job(up, ask, point)?;
        ready(up, ask)?;
        cooled(up, point)?;
        say(up, &ToProbe::Go { id: ask.id })?;
        loop {
            match hear(up, ask)? {
                FromProbe::Stopped { id } if id == ask.id => {}
                FromProbe::Trial { id, trial } if id == ask.id => break Ok(*trial),
                other => break Err(unexpected(&other, "trial")),
            }
        }
    })();
    match made {
        Ok(extra) => {
            if let (Some(launch), Some(extra)) = (&mut of.launch, extra.launch) {
                launch.trace = extra.trace;
            }
            Ok(())
        }
        Err(Failure::Work { message, .. }) => {
            of.notes.push(format!("not traced: {message}"));
            Ok(())
        }
        Err(other) => Err(other),
    }
}

fn after(up: &Up, ask: &Ask<'_>, before: &Snapshot) -> Result<Snapshot, Failure> {
    Ok(before.after(ask.threads, up.talk.pid(), upkeep(up)?))
}

fn upkeep(up: &Up) -> Result<CpuTime, Failure> {
    let upkeep = up.place.upkeep();
    upkeep.map_err(|e| Failure::Broken(e.to_string()))
}

fn job(up: &Up, ask: &Ask<'_>, point: &Point) -> Job {
    let physical = up.physical();
    // What has no device below it has nothing to write back to one, and a guest cannot see them.
    let below = if physical.is_empty() || !up.place.on_this_host() {
        Vec::new()
    } else {
        vec![ask.base.to_owned()]
    };
    Job {
        id: ask.id,
        dir: up.place.dir().to_string_lossy().into_owned(),
        point: point.clone(),
        seed: ask.seed,
        min_ms: MIN_MS,
        min_ops: MIN_OPS,
        devices: up.facts.guest.as_ref().map_or(physical, |guest| {
            let disks = guest.devices.iter().filter(|d| d.physical);
            disks.map(|d| d.number.clone()).collect()
        }),
        below,
        env: ask.env.clone(),
    }
}

fn say(up: &mut Up, message: &ToProbe) -> Result<(), Failure> {
    up.talk.send(message).map_err(|e| broken(up, &e))
}

/// The next line; an error that the probe reports is a failure of the work.
fn hear(up: &mut Up, ask: &Ask<'_>) -> Result<FromProbe, Failure> {
    match up.talk.receive(ask.stop) {
        Ok(FromProbe::Error {
            id,
            message,
            hint,
            errno,
        }) if id.is_none_or(|id| id == ask.id) => {
            let hint = hint.map(|h| format!("; hint: {h}")).unwrap_or_default();
            Err(Failure::Work {
                message: in_words(&(message + &hint)),
                errno,
            })
        }
        Ok(line) => Ok(line),
        Err(e) => Err(broken(up, &e)),
    }
}

fn broken(up: &Up, e: &Broken) -> Failure {
    if *e == Broken::CutOff {
        Failure::CutOff
    } else {
        Failure::Broken(format!("{e}{}", up.talk.last_words()))
    }
}

fn unexpected(line: &FromProbe, wanted: &str) -> Failure {
    let what = match line {
        FromProbe::Hello { .. } => "hello",
        FromProbe::Ready { .. } => "ready for another job",
        FromProbe::Progress { .. } => "progress",
        FromProbe::Stopped { .. } => "stopped out of turn",
        FromProbe::Trial { .. } => "the trial of another job",
        FromProbe::Error { .. } => "the error of another job",
        FromProbe::Done => "done",
    };
    Failure::Broken(Broken::OutOfTurn(format!("{what} instead of {wanted}")).to_string())
}

/// What holds the data of the files that the point reads; else the whole of the layer's images.
fn behind(up: &Up, ask: &Ask<'_>) -> Vec<Behind> {
    let found = up.place.behind(&ask.workload.open_before(ask.point));
    if !found.is_empty() {
        return found;
    }
    let whole = |path: &PathBuf| Behind {
        path: path.clone(),
        ranges: None,
    };
    up.facts.backing.iter().map(whole).collect()
}

/// Share of all bytes of these files that is in the page cache; `None` when it cannot be known.
fn backing_share(files: &[Behind]) -> Option<f64> {
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
        let whole = |path: PathBuf| Behind { path, ranges: None };
        let files = [file, temp.path().join("gone")].map(whole);
        assert_eq!(backing_share(&files), Some(1.0));
        assert_eq!(backing_share(&[]), None);
    }
}
