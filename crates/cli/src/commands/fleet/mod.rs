//! `layermark fleet`: many hosts, which a launcher starts.

mod check;
mod keeper;
mod run;
mod script;

use std::{
    env, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Subcommand, ValueHint};
use layermark_fleet::{
    coordinator::Fleet,
    descriptors,
    hosts::HostsAsked,
    launchers::{self, Asked},
    task,
};
use layermark_lab::Stop;
use layermark_model::FleetOfRun;

use super::measure::exe;
use crate::{
    common_args::silence,
    failure::{Code, Failure},
    say::say,
};

#[derive(Debug, Args)]
pub struct FleetArgs {
    #[command(subcommand)]
    pub what: FleetCommand,
}

/// What a fleet can do.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Find the host that is not like the others; exit code 1 if there is one
    Check(Box<check::FleetCheckArgs>),
    /// Measure a shared directory under 1, 2, 4 ... hosts at once, and find its knee
    Run(Box<run::FleetRunArgs>),
    /// Print a file that runs a fleet: a batch file of Slurm, a script around mpirun, a Job of Kubernetes
    Script(script::FleetScriptArgs),
}

/// Which hosts, and how they are started.
#[derive(Debug, Args)]
pub struct LauncherArgs {
    /// What starts a task on each host: slurm or mpi, each with options of its own ('slurm -p debug'), or a command with
    /// {host} for the host's name ('ssh {host}')
    #[arg(long, value_name = "LAUNCHER")]
    pub launcher: String,
    /// How many hosts, or their names: 3, n1,n2 or n[01-16] [default: all of the allocation]
    #[arg(long, value_name = "HOSTS", value_parser = hosts)]
    pub hosts: Option<HostsArg>,
    /// Each host's own directory; {host} is its name [default: /tmp]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<String>,
    /// Path of layermark on the hosts [default: that of this one]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub exe: Option<PathBuf>,
    /// Have Slurm copy layermark to this directory of each host first (srun --bcast), such as /tmp: where no path of it
    /// is shared. The copies are removed at the end
    #[arg(long, value_name = "DIR", value_parser = sbcast, conflicts_with = "exe", value_hint = ValueHint::DirPath)]
    pub sbcast: Option<String>,
    /// Give a host up that does not start for this long: a queue may be long
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = silence)]
    pub patience: Duration,
    /// Give a host up that does not answer for this long
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = silence)]
    pub silence: Duration,
}

/// Each host's own directory, unless the user names one.
const OWN_DIR: &str = "/tmp";

/// [`HostsAsked`] as an argument, with its text.
#[derive(Debug, Clone)]
pub struct HostsArg(HostsAsked, String);

fn hosts(text: &str) -> Result<HostsArg, String> {
    HostsAsked::read(text).map(|asked| HostsArg(asked, text.to_owned()))
}

fn sbcast(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && !text.contains(char::is_control);
    let must = "it has to be the absolute path of a directory on each host, such as /tmp";
    is_path.then(|| text.to_owned()).ok_or_else(|| must.into())
}

/// `layermark fleet`
pub fn main(args: &FleetArgs) -> Result<ExitCode, Failure> {
    match &args.what {
        FleetCommand::Check(args) => check::hosts(args),
        FleetCommand::Run(args) => run::storm(args),
        FleetCommand::Script(args) => script::print(args),
    }
}

/// Whether `--json` was given.
pub fn wants_json(args: &FleetArgs) -> bool {
    match &args.what {
        FleetCommand::Check(args) => args.json.json,
        FleetCommand::Run(args) => args.json.json,
        FleetCommand::Script(_) => false,
    }
}

impl LauncherArgs {
    /// Each host's own directory.
    fn own_dir(&self) -> String {
        self.dir.clone().unwrap_or_else(|| OWN_DIR.to_owned())
    }

    /// How the hosts are started, as a run keeps it.
    fn of_run(&self) -> FleetOfRun {
        let exe = self.exe.as_ref();
        FleetOfRun {
            launcher: self.launcher.clone(),
            asked: self.hosts.as_ref().map(|hosts| hosts.1.clone()),
            exe: exe.map(|exe| exe.to_string_lossy().into_owned()),
            sbcast: self.sbcast.clone(),
            ..FleetOfRun::default()
        }
    }

    /// Starts the tasks. Reports those that did not start; fails if none did.
    fn start(&self, stop: &Stop) -> Result<Fleet, Failure> {
        let refused = |e: launchers::LauncherError| Failure::usage(e.message).hint(e.hint);
        let (launcher, words) = launchers::find(&self.launcher).map_err(refused)?;
        let nodes = env::var("SLURM_JOB_NUM_NODES").or_else(|_| env::var("SLURM_NNODES"));
        let asked = Asked {
            words,
            hosts: self.hosts.clone().map(|h| h.0).unwrap_or_default(),
            exe: self.exe.clone().map_or_else(exe, Ok)?,
            sbcast: self.sbcast.clone(),
            allocated: nodes.ok().and_then(|n| n.parse().ok()),
        };
        let commands = launcher.commands(&asked).map_err(refused)?;
        descriptors::allow(commands.len()).map_err(refused)?;
        let binary = task::own_hash()
            .map_err(|e| Failure::failed(format!("the hash of layermark itself: {e}")))?;
        let limits = (self.silence, self.patience);
        let fleet = Fleet::start(&commands, &binary, limits, stop);
        let fleet = fleet.map_err(|e| self.not_started(&commands, &e))?;
        if stop.asked() {
            return Err(Failure {
                code: Code::Stopped,
                ..Failure::failed("fleet: stopped while its hosts were started")
            });
        }
        for host in &fleet.hosts {
            if let Some(lost) = &host.lost {
                say(format!(
                    "warning: {} takes no part: {}",
                    host.name, lost.why
                ));
            }
        }
        if fleet.up().is_empty() {
            let failure = Failure {
                code: Code::Layer,
                ..Failure::failed("fleet: no host has started")
            };
            let shared = (launcher.copies && self.exe.is_none() && self.sbcast.is_none())
                .then_some("; if this program has no path on all hosts, add --sbcast /tmp");
            return Err(failure.hint(format!(
                "see that it starts a program there: {}{}",
                hint(&commands),
                shared.unwrap_or_default()
            )));
        }
        Ok(fleet)
    }

    fn not_started(&self, commands: &[launchers::StartCommand], e: &io::Error) -> Failure {
        let program = commands.first().and_then(|c| c.words.first());
        let program = program.map(|p| p.to_string_lossy()).unwrap_or_default();
        let failure = Failure {
            code: Code::Layer,
            ..Failure::failed(format!("--launcher {}: {program}: {e}", self.launcher))
        };
        failure.hint(format!("see that it is installed: command -v {program}"))
    }
}

/// The first command with `hostname` in place of the task.
fn hint(commands: &[launchers::StartCommand]) -> String {
    let words = commands.first().map(|c| c.words.as_slice());
    let words = words.unwrap_or_default().iter();
    let words = words.map(|w| w.to_string_lossy().into_owned());
    let all: Vec<String> = words.collect();
    let end = all.iter().position(|w| w == launchers::TASK);
    let own = all[..end.map_or(all.len(), |at| at.saturating_sub(1))].to_vec();
    shell_words::join(own.into_iter().chain(["hostname".to_owned()]))
}

/// Refuses a shared directory whose path a layer cannot have.
fn shared(dir: &str) -> Result<String, Failure> {
    if !Path::new(dir).is_absolute() || dir.contains(',') {
        let text = format!("--share {dir}: it has to be an absolute path without a comma");
        return Err(
            Failure::usage(text).hint("name the directory as the hosts see it: --share /shared")
        );
    }
    Ok(dir.to_owned())
}
