//! A host of a fleet: layers that are up here, whose trials another process orders step by step.
//!
//! A trial is made as in a run of this machine alone, with the same proofs. Only the order of its steps comes from
//! outside, so that turns of several hosts begin together.

mod package;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use layermark_layers::{Base, Content, drop_kernel_caches, spread, workdir::WorkDir};
use layermark_model::{Cell, Environment, Facts, Machine, Point, SelfTest, Spec, TrialRecord};
use layermark_probe::Purpose;

use crate::{
    Catalog, LabError, Stop, check,
    execute::{
        cpu::{Kernel, Meter},
        failures::{RESTARTS, cannot_restart, failed_again, is_no_room},
        layer_failure::LayerFailure,
        session::RunningLayer,
        trial::{Attempt, settle},
        trial_request::{Failure, Least, TrialRequest},
        turn::Length,
        watch::Watch,
    },
    machine,
};

/// A layer that was set up.
#[derive(Debug, Clone)]
pub struct DrivenLayer {
    /// Where its probe runs.
    pub facts: Facts,
    /// Cost of measuring inside it.
    pub self_test: SelfTest,
    /// Whether nothing can be written there.
    pub read_only: bool,
    /// Seconds to set it up.
    pub setup_s: f64,
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepError {
    /// What failed.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Whether a disk was full, or a quota used up, during a trial.
    pub no_room: bool,
    /// Whether the layer of the trial was lost: nothing more can be measured there.
    pub lost: bool,
}

impl From<LabError> for StepError {
    fn from(e: LabError) -> Self {
        Self {
            hint: e.hint(),
            ..Self::new(e.to_string())
        }
    }
}

impl StepError {
    /// An error without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            no_room: false,
            lost: false,
        }
    }
}

impl From<LayerFailure> for StepError {
    /// Its layer was lost.
    fn from(lost: LayerFailure) -> Self {
        Self {
            hint: lost.hint,
            lost: true,
            ..Self::new(lost.reason)
        }
    }
}

/// One trial to make.
#[derive(Debug, Clone)]
pub struct DrivenTrial {
    /// Its number.
    pub seq: u64,
    /// Its place in the schedule.
    pub cell: Cell,
    /// What to do.
    pub point: Point,
    /// Seed of data and random offsets.
    pub seed: u64,
    /// When the run started, milliseconds since 1970 UTC, by the clock of this host.
    pub started_ms: i64,
    /// Fewest milliseconds and operations of a trial in one stretch. Absent: the usual ones.
    pub least: Option<(u64, u64)>,
}

/// The layers of this host. Dropping it takes them down and removes its directory.
pub struct DrivenHost {
    layers: Vec<Option<RunningLayer>>,
    /// Their specs, also of those that are not up.
    specs: Vec<Spec>,
    /// How many times the probe of each was restarted.
    restarts: Vec<u32>,
    /// Master copies of packaged files for the layers that are up.
    masters: Vec<PathBuf>,
    /// The packaged files of all hosts, if this one has made them.
    package: Option<WorkDir>,
    /// The prepared trial, and what the kernel's threads had used before it.
    trial: Option<(DrivenTrial, Attempt, Kernel)>,
    meter: Meter,
    watch: Watch,
    exe: PathBuf,
    silence: Duration,
    stop: Stop,
    catalog: Catalog,
    /// Below the layers, so dropped after them.
    work: WorkDir,
    dir: PathBuf,
    sessions: u32,
}

impl DrivenHost {
    /// Makes a new directory below `dir`. Several hosts may work below the same one.
    ///
    /// # Errors
    ///
    /// If the directory cannot be used.
    pub fn new(dir: &Path, exe: &Path, silence: Duration, stop: &Stop) -> Result<Self, LabError> {
        let dir = check::dir(dir)?;
        Ok(Self {
            layers: Vec::new(),
            specs: Vec::new(),
            restarts: Vec::new(),
            masters: Vec::new(),
            package: None,
            trial: None,
            meter: Meter::new(),
            watch: Watch::new(silence),
            exe: exe.into(),
            silence,
            stop: stop.clone(),
            catalog: Catalog::default(),
            work: WorkDir::shared(&dir)?,
            dir,
            sessions: 0,
        })
    }

    /// Describes the machine.
    pub fn machine(&self) -> Machine {
        machine::read(&self.dir)
    }

    /// Sets layers up afresh, each with the packaged files that its points need. Those that are up are taken down first.
    ///
    /// So many hosts share the directories that the layers name.
    pub fn open(
        &mut self,
        layers: &[(Spec, Vec<Point>)],
        sharing: u32,
    ) -> Vec<Result<DrivenLayer, StepError>> {
        self.trial = None;
        self.layers.clear();
        for master in self.masters.drain(..) {
            // Otherwise it goes with the directory of this host.
            let _ = fs::remove_dir_all(&master);
        }
        self.specs = layers.iter().map(|(spec, _)| spec.clone()).collect();
        self.restarts = vec![0; layers.len()];
        let session = self.sessions;
        self.sessions += 1;
        let mut all = Vec::new();
        // Most layers have the same points.
        let mut made: Option<(&[Point], PathBuf)> = None;
        for (index, (spec, points)) in layers.iter().enumerate() {
            let known = made.take().filter(|(of, _)| of == points);
            let is_known = known.is_some();
            let name = format!("packaged-{session}-{index}");
            // Room first: what has none is not written.
            let master = self.files(points).and_then(|files| {
                self.has_room(spec, &files, sharing, is_known)?;
                known.map_or_else(|| self.packaged(&name, &files), |(_, master)| Ok(master))
            });
            let master = match master {
                Ok(master) => master,
                Err(e) => {
                    self.layers.push(None);
                    all.push(Err(e));
                    continue;
                }
            };
            made = Some((points, master.clone()));
            if !is_known {
                self.masters.push(master.clone());
            }
            let base = Base {
                dir: self.work.path().join(format!("s{session}-{index}")),
                packaged: master,
                exe: self.exe.clone(),
                silence: self.silence,
                until: None,
                content: Content::Fresh,
            };
            let begun = Instant::now();
            let opened = RunningLayer::open(
                (spec, format!("path-{index}")),
                (&base, self.catalog),
                (false, false),
                self.silence,
                &self.stop,
                &self.watch,
            );
            all.push(match opened {
                Ok(up) => {
                    let about = DrivenLayer {
                        facts: up.facts.clone(),
                        self_test: up.self_test,
                        read_only: up.info().read_only,
                        setup_s: begun.elapsed().as_secs_f64(),
                    };
                    self.layers.push(Some(up));
                    Ok(about)
                }
                Err(lost) => {
                    self.layers.push(None);
                    Err(lost.into())
                }
            });
        }
        all
    }

    /// Prepares a trial in the layer of its cell: makes its files, and empties the caches if it is cold.
    ///
    /// # Errors
    ///
    /// If the layer is not up, or the work cannot be done there.
    pub fn prepare(&mut self, mut trial: DrivenTrial) -> Result<(), StepError> {
        trial.point = self.read(&trial.point)?;
        if let Some(spec) = self.specs.get(trial.cell.layer)
            && trial.point.needs.per_layer
        {
            let workload = self.catalog.workload(&trial.point.workload)?;
            let here = workload.read(&trial.point, Purpose::Layer(spec));
            trial.point = here.map_err(LabError::from)?;
        }
        spread::reuse_deleted(self.work.path());
        let attempt = Attempt::new(trial.cell.layer);
        self.trial = Some((trial, attempt, self.meter.kernel()));
        self.step(|attempt, up, request, _| {
            attempt.prepare(up, request)?;
            attempt.cool(up, request)?;
            drop_kernel_caches([&mut attempt.cooled]);
            attempt.begin(up)
        })
    }

    /// Runs a turn of the prepared trial, or all of its work in one stretch if `ns` is 0. Returns when it began and
    /// ended.
    ///
    /// # Errors
    ///
    /// If no trial is prepared, or its work failed.
    pub fn turn(
        &mut self,
        round: u32,
        ns: u64,
        lead_in_ns: u64,
    ) -> Result<[Instant; 2], StepError> {
        let length = Length {
            ns,
            lead_in_ns,
            most_rounds: u32::MAX,
        };
        let begun = Instant::now();
        let turned = self.step(|attempt, up, request, meter| {
            let mut moment = meter.moment();
            attempt.turn(up, request, (round, length), (meter, &mut moment))
        });
        let ended = Instant::now();
        turned?;
        Ok([begun, ended])
    }

    /// Flushes the trial's files, collects its proofs, and returns it.
    ///
    /// # Errors
    ///
    /// If no trial is prepared, a disk was full, or the layer was lost. Any other failure is stored with the trial.
    pub fn finish(&mut self) -> Result<TrialRecord, StepError> {
        let Some((_, attempt, kernel)) = &mut self.trial else {
            return Err(not_prepared());
        };
        let all = self.meter.total([&attempt.used].into_iter(), kernel);
        (attempt.beside, attempt.recent) = (all, all);
        let ended = self.step(|attempt, up, request, _| {
            attempt.end_of_turns(up);
            settle(up, request)?;
            attempt.end(up, request)
        });
        if let Err(e) = ended
            && (e.no_room || e.lost)
        {
            return Err(e);
        }
        let Some((trial, attempt, _)) = self.trial.take() else {
            return Err(not_prepared());
        };
        let made = attempt.made;
        Ok(TrialRecord {
            seq: trial.seq,
            cell: trial.cell,
            host: None,
            at_ms: u64::try_from(made.started_ms - trial.started_ms).unwrap_or(0),
            error: made.failure.as_ref().map(|f| f.text().into_owned()),
            defect: made.failure.as_ref().and_then(Failure::defect),
            trial: made.trial,
            upkeep_ns: made.usage.upkeep_ns,
            foreign_cpu: made.usage.foreign,
            steal: made.usage.steal,
            backing_resident: made.backing,
            flags: made.flags,
        })
    }

    fn step(
        &mut self,
        step: impl FnOnce(
            &mut Attempt,
            &mut RunningLayer,
            &TrialRequest<'_>,
            &Meter,
        ) -> Result<(), Failure>,
    ) -> Result<(), StepError> {
        let (trial, attempt, _) = self.trial.as_mut().ok_or_else(not_prepared)?;
        let up = self
            .layers
            .get_mut(trial.cell.layer)
            .and_then(Option::as_mut);
        let not_up = || StepError::new(format!("its layer {} is not up", trial.cell.layer));
        let up = up.ok_or_else(not_up)?;
        let request = TrialRequest {
            id: trial.seq,
            layer: trial.cell.layer,
            control: false,
            point: trial.point.clone(),
            traces: false,
            cpus: trial.point.meaning.cpus(),
            seed: trial.seed,
            least: trial
                .least
                .map_or(Least::USUAL, |(ms, ops)| Least { ms, ops }),
            base: self.dir.to_string_lossy().into_owned(),
            env: Environment::new(),
            stop: &self.stop,
        };
        let watching = self.watch.over(&up.info().helpers);
        let meter = &self.meter;
        attempt.step(up, |attempt, up| step(attempt, up, &request, meter));
        if let Err(lost) = watching.judge(Ok(())) {
            attempt.lose(lost);
        }
        drop(watching);
        let layer = trial.cell.layer;
        match &attempt.made.failure {
            None => Ok(()),
            Some(Failure::Work {
                message,
                hint,
                errno,
                ..
            }) => Err(StepError {
                message: message.clone(),
                hint: hint.clone(),
                no_room: is_no_room(*errno),
                lost: false,
            }),
            Some(Failure::Broken(reason)) => {
                let reason = reason.clone();
                Err(self.revive(layer, &reason))
            }
            Some(Failure::Lost(lost)) => {
                let lost = lost.clone();
                self.layers[layer] = None;
                Err(lost.into())
            }
            Some(failure @ Failure::CutOff) => Err(StepError::new(failure.text())),
        }
    }

    /// Restarts the failed probe of a layer, as often as a run of this machine alone does. After that the layer is lost.
    /// Returns what is said of the step.
    fn revive(&mut self, layer: usize, reason: &str) -> StepError {
        let revived = match self.layers[layer].as_mut() {
            Some(up) if self.restarts[layer] < RESTARTS => {
                self.restarts[layer] += 1;
                let watching = self.watch.over(&up.info().helpers);
                let restarted = watching.judge(up.restart(&self.stop));
                restarted.map_err(|lost| cannot_restart(reason, lost))
            }
            _ => Err(failed_again(reason.to_owned())),
        };
        match revived {
            Ok(()) => StepError::new(format!("{reason}; its probe was started again")),
            Err(lost) => {
                self.layers[layer] = None;
                lost.into()
            }
        }
    }
}

fn not_prepared() -> StepError {
    StepError::new("no trial is prepared")
}

#[cfg(test)]
mod tests {
    use layermark_model::Plan;

    use super::*;

    /// A small file that is read, and one that no disk has room for.
    const HUGE: &str = "name = 'p'
[[work]]
workload = 'file'
op = 'read'
file_size = '64K'
[[work]]
workload = 'file'
op = 'write'
record = '1M'
file_size = '16T'
";

    /// A host in this directory whose probes cannot be started, and the points of `HUGE`.
    fn host(home: &Path) -> (DrivenHost, Vec<Point>) {
        let points = Plan::from_toml(HUGE).unwrap();
        let points = crate::fleet_points(&points, Catalog::default()).unwrap();
        let exe = Path::new("/nonexistent");
        let silence = Duration::from_secs(5);
        let host = DrivenHost::new(home, exe, silence, &Stop::new()).unwrap();
        (host, points)
    }

    /// Names in the directory of a host.
    fn names(host: &DrivenHost) -> Vec<String> {
        let made = fs::read_dir(host.work.path()).unwrap().flatten();
        let made = made.map(|entry| entry.file_name().into_string().unwrap());
        made.collect()
    }

    #[test]
    fn master_copies_go_when_they_are_used_no_more() {
        let home = tempfile::tempdir().unwrap();
        let (mut host, mut points) = host(home.path());
        points.truncate(1);
        let share = tempfile::tempdir().unwrap();
        for session in 0..3 {
            host.package(share.path(), &points).unwrap();
            drop(host.open(&[(Spec::bare("native"), points.clone())], 1));
            let names = names(&host);
            let of = |kind| names.iter().filter(|name| name.starts_with(kind)).count();
            assert_eq!(
                (of("packaged-"), of("package-")),
                (1, 0),
                "{session}: {names:?}"
            );
        }
    }

    #[test]
    fn what_has_no_room_is_not_written() {
        let home = tempfile::tempdir().unwrap();
        let (mut host, points) = host(home.path());
        let native = (Spec::bare("native"), points);
        let refused = host.open(&[native], 1).remove(0).unwrap_err();
        assert!(
            refused.message.contains("has too little space")
                && refused.message.contains("T needed"),
            "{}",
            refused.message
        );
        assert!(refused.hint.unwrap().contains("--scale"));
        assert_eq!(names(&host), [".layermark"]);
    }
}
