//! What the binary does inside a layer, started by itself and not by users.

use std::{ffi::OsString, io, process::ExitCode};

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

/// Works on jobs from standard input until it ends.
pub fn probe() -> ExitCode {
    ended(
        layermark_probe::serve(io::stdin().lock(), io::stdout()),
        "probe",
    )
}

/// Removes the work directory when layermark has died without doing so.
pub fn janitor() -> ExitCode {
    ended(layermark_layers::janitor::run(io::stdin()), "janitor")
}

/// Process 1 of a virtual machine that layermark booted; refuses to run anywhere else.
pub fn guest() -> ExitCode {
    ended(layermark_layers::guest(), "guest")
}

/// Serves a FUSE layer until it is unmounted.
pub fn fuse_serve(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    ended(layermark_layers::fuse_serve(&arguments), "fuse-serve")
}
