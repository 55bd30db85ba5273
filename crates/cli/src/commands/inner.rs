//! Internal commands: what layermark starts inside layers. Users do not call them.

use std::{ffi::OsString, io, process::ExitCode};

use layermark_model::protocol::UNTIMED;

use crate::say::say;

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

/// Removes the work directory if layermark dies without doing so.
pub fn janitor() -> ExitCode {
    let ran = layermark_layers::janitor::run(io::stdin(), io::stdout());
    ended(ran, "janitor")
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
