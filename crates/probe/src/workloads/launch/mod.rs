//! `launch`: the time from starting a program until it is ready.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use layermark_model::{
    Environment, FigureValues, HostFiles, Needs, Pass, PointError, Spec, Trial, Turn,
};

use crate::{
    Beat, Context, Placed, ProbeError, TurnRequest, Turned, Work, counters,
    limits::HEARTBEAT_NS,
    param::{self, Of, Runs},
    programs::{
        PATH,
        guard::Guard,
        user::{self, User},
        which,
    },
    workloads::work_dir::WorkDir,
};

mod counting;
mod display;
pub(super) mod figures;
mod forks;
mod group;
pub(super) mod guarded;
mod inside;
mod meaning;
mod package;
pub(super) mod params;
pub(super) mod ready;
pub(super) mod start;
mod trace;

use guarded::Launches;
use params::LaunchParams;
use start::{LaunchSite, Launched};

/// The workload `launch`.
pub static WORKLOAD: Of<LaunchParams> = param::of();

impl Runs for LaunchParams {
    const ABOUT: &'static str = "start a program and stop the clock when it is ready";
    const EXAMPLES: [&'static str; 2] = [
        "layermark launch -l fuse -- git --version",
        "layermark launch -L n 1,2 'sleep 0.{n}'",
    ];

    fn needs(&self) -> Result<Needs, PointError> {
        let tracing = || LaunchParams {
            tracing: true,
            ..self.clone()
        };
        let traced = self.trace && !self.tracing;
        let extra = traced.then(|| param::point(String::new(), &tracing()));
        Ok(Needs {
            restart: self.restart,
            host_files: if self.package {
                HostFiles::Read
            } else {
                HostFiles::None
            },
            per_layer: !self.cmd.is_empty() || !self.user.is_empty(),
            extra: extra.transpose()?,
            ..Needs::default()
        })
    }

    fn placed(&self, env: &Environment) -> Result<Vec<Placed>, PointError> {
        package::files(self, env)
    }

    /// Looks for a program that is named without its directory, where natively it is started.
    fn check_programs(&self) -> Result<(), ProbeError> {
        let p = self.clone().for_layer(&Spec::bare("native"));
        let words = shell_words::split(&p.command).unwrap_or_default();
        let own_path = p.env.iter().any(|name| name == "PATH");
        match words.first().filter(|program| !program.contains('/')) {
            Some(program) if !own_path && which(program, PATH).is_none() => {
                Err(start::not_found(program))
            }
            _ => Ok(()),
        }
    }

    fn in_layer(self, layer: &Spec) -> Result<Self, PointError> {
        Ok(self.for_layer(layer))
    }

    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        let p = self;
        let warmups = if p.tracing || !first_time(&p)? {
            0
        } else {
            p.warmup
        };
        let env = params::environment("launch", &p.env, &context.env)?;
        let traced = p.tracing;
        let (site, work) = site(dir, p, env)?;
        Ok(Box::new(LaunchWork {
            guard: Guard::start(Launches::new(site, warmups))?,
            traced,
            devices: context.devices.clone(),
            _work: work,
        }))
    }
}

/// Whether this process has not launched the point before. A layer's probe lives for a session.
fn first_time(p: &LaunchParams) -> Result<bool, PointError> {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(seen.insert(param::key(p)?))
}

/// Where the program is started: in the layer's directory, or with a package as its root.
pub(super) fn site(
    dir: &Path,
    p: LaunchParams,
    env: Environment,
) -> Result<(LaunchSite, Option<WorkDir>), ProbeError> {
    let user = p.user()?;
    if let Some(User { uid, .. }) = user.filter(|u| !user::mapped(u.uid)) {
        return Err(ProbeError::new(format!(
            "a program cannot be started here as user {uid}: only root may do that"
        ))
        .hint("sudo layermark ..."));
    }
    if p.package {
        let site = inside::enter(dir, p, env, user)?;
        return Ok((site, None));
    }
    if p.listing {
        return Ok((inside::at_home(p, env, None, user), None));
    }
    let home = match (WorkDir::new(dir), dir.parent()) {
        // A read-only layer cannot hold a home. Beside its mount is the run's own directory, which the
        // janitor removes however the run ends.
        (Err(e), Some(above)) if matches!(e.errno, Some(libc::EROFS | libc::EACCES)) => {
            WorkDir::new(above)?
        }
        (home, _) => home?,
    };
    let site = LaunchSite {
        p,
        dir: dir.to_owned(),
        root: None,
        home: home.path().to_owned(),
        env,
        display: None,
        user,
    };
    Ok((site, Some(home)))
}

struct LaunchWork {
    /// Declared first, so that all processes have ended before its home is removed.
    guard: Guard<Launches>,
    /// It does not count.
    traced: bool,
    devices: Vec<String>,
    _work: Option<WorkDir>,
}

impl Work for LaunchWork {
    /// A launch cannot be divided.
    fn turn(
        &mut self,
        ask: &TurnRequest,
        trial: &mut Trial,
        beat: &mut Beat<'_>,
    ) -> Result<Turned, ProbeError> {
        let before = counters::sum(&self.devices);
        let every = Duration::from_nanos(HEARTBEAT_NS);
        let Launched {
            elapsed_ns,
            waited_ns,
            cpu,
            launch,
        } = *self.guard.work(every, &mut || beat(0, 0))?;
        let after = counters::sum(&self.devices);
        let pass = Pass {
            elapsed_ns,
            ops: 1,
            bytes: 0,
            waited_ns,
            ..Pass::default()
        };
        trial.passes.push(pass);
        trial.cpu = cpu;
        trial.device = before.zip(after).map(|(b, a)| counters::between(b, a));
        trial.figures = match &launch.trace {
            // All else is of a launch that tracing has slowed down.
            Some(trace) => FigureValues::of(&BTreeMap::from([("trace", trace)])),
            None => FigureValues::of(&launch),
        };
        Ok(Turned {
            turn: Turn {
                round: ask.round,
                elapsed_ns,
                ops: 1,
                bytes: 0,
                waited_ns,
                ..Turn::default()
            },
            cpu,
            device: trial.device,
            ..Turned::default()
        })
    }

    fn settle(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        let stopped = self.guard.stop()?.stopped;
        if !self.traced {
            let stopped = FigureValues::of(&BTreeMap::from([("stopped", stopped)]));
            trial.figures.extend(stopped);
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Trial) -> Result<(), ProbeError> {
        Ok(())
    }
}

/// `path` below `root`, if there is one.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
