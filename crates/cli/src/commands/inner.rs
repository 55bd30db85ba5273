//! Internal commands: what layermark starts inside layers. Users do not call them.

use std::{ffi::OsString, io, process::ExitCode, time::Duration};

use layermark_fleet::{
    copied::{self, COPIED},
    task,
};
use layermark_layers::{janitor, keeper, sandbox, served};
use layermark_model::protocol::UNTIMED;

use super::dir_journal;
use crate::say::say;

/// How long a file system may take to answer a task of a fleet, which says all the while that it is alive.
const SILENCE: Duration = Duration::from_mins(1);

fn ended<E: std::fmt::Display>(result: Result<(), E>, what: &str) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(format!("layermark {what}: {e}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs jobs from standard input until it closes.
pub fn probe(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (input, output) = (io::stdin().lock(), io::stdout());
    let served = if arguments.next().is_some_and(|word| word == UNTIMED) {
        layermark_probe::serve_untimed(input, output)
    } else {
        layermark_probe::serve(input, output)
    };
    ended(served, "probe")
}

/// Removes the work directory if layermark dies without doing so, and the copy of layermark that a task ran.
pub fn janitor(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let ran = janitor::run(io::stdin(), io::stdout());
    // It ends last of all processes of a task.
    let removed = match arguments.next() {
        Some(word) if word == COPIED => copied::remove(),
        _ => Ok(()),
    };
    ended(ran.and(removed), "janitor")
}

/// Runs as process 1 of a virtual machine that layermark booted. Refuses to run anywhere else.
pub fn guest() -> ExitCode {
    ended(layermark_layers::guest(), "guest")
}

/// Serves the layermark that has started this process in a place behind a command.
pub fn place(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    ended(layermark_layers::place(&arguments), "place")
}

/// Removes a place of the user's when the layermark that has started this process ends.
pub fn teardown(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    ended(layermark_layers::teardown(&arguments), "teardown")
}

/// Serves a FUSE layer until it is unmounted.
pub fn fuse_serve(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    ended(layermark_layers::fuse_serve(&arguments), "fuse-serve")
}

/// Serves a disk with a volatile cache until it is unmounted.
pub fn disk_serve(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let served = layermark_layers::volatile::disk_serve(&arguments);
    ended(served, "disk-serve")
}

/// A task of a fleet: obeys a coordinator on its standard input.
pub fn fleet_task(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = arguments.map(|a| a.to_string_lossy().into_owned());
    let mut arguments: Vec<String> = arguments.collect();
    let copied = arguments.iter().position(|word| word == COPIED);
    let copied = copied.map(|at| arguments.remove(at));
    match task::TaskName::find(&arguments, &task::variables()) {
        Ok(name) => keeper::keep(|| ended(serve_fleet(&name, copied.as_deref()), "fleet-task")),
        Err(why) => {
            let failed = ended(Err(why), "fleet-task");
            remove_copy(copied.as_deref());
            failed
        }
    }
}

/// For a task without a janitor, which would do it.
fn remove_copy(copied: Option<&str>) {
    if copied.is_some() {
        let _ = ended(copied::remove(), "fleet-task");
    }
}

fn serve_fleet(name: &task::TaskName, copied: Option<&str>) -> io::Result<()> {
    // It removes the task's directory when the task ends for any reason.
    let janitor = std::env::current_exe()
        .and_then(|exe| janitor::spawn_with(&exe, copied, dir_journal::open()))
        .inspect_err(|_| remove_copy(copied))?;
    sandbox::enter().map_err(io::Error::other)?;
    keeper::obey();
    served::watch_main(SILENCE, |path, silence| {
        let why = format!("{} did not answer for {silence:?}", path.display());
        let _ = ended(Err(why), "fleet-task");
        keeper::abandon(1)
    });
    let served = task::serve(name, io::stdin(), io::stdout());
    drop(janitor);
    served
}
