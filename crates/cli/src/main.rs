//! `layermark`: what does a virtual layer cost, and can its answers be trusted?

mod args;
mod commands;
mod common_args;
mod config;
mod events;
mod examples;
mod failure;
mod groups;
mod launch;
mod limits;
mod progress;
mod refused;
mod replay;
mod say;
mod signals;
mod steps;
mod workload_args;

use std::process::ExitCode;

fn main() -> ExitCode {
    limits::hear_of_large_files();
    // layermark starts its own binary inside layers. There only the internal command runs.
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().and_then(|name| name.to_str()) {
        Some("probe") => commands::inner::probe(arguments),
        Some("janitor") => commands::inner::janitor(arguments),
        Some("guest") => commands::inner::guest(),
        Some("fleet-task") => commands::inner::fleet_task(arguments),
        Some("place") => commands::inner::place(arguments),
        Some("teardown") => commands::inner::teardown(arguments),
        Some("fuse-serve") => commands::inner::fuse_serve(arguments),
        Some("disk-serve") => commands::inner::disk_serve(arguments),
        _ => limits::check().unwrap_or_else(commands::main),
    }
}
