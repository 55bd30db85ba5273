//! Every layer, for real: what it builds, what it proves, and that nothing of it is left behind.
//!
//! This program is its own helper: `probe`, `janitor` and `fuse-serve` are what layers start,
//! `inside` builds one layer in a private mount namespace, `user` does it all without privilege.

mod driver;
mod exercise;
mod inside;
mod power_cut;
mod roots;
mod state;
mod traps;
mod virtual_machine;
mod wanted;

use std::{ffi::OsString, process::ExitCode};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().map(|a| a.to_string_lossy().into_owned());
    let echo = name.is_some_and(|n| n.ends_with("-echo"));
    let mode = args.get(1).map(|a| a.to_string_lossy().into_owned());
    let rest = args.get(2..).unwrap_or_default();
    let outcome = match mode.as_deref() {
        Some("probe") if echo => std::io::copy(&mut std::io::stdin(), &mut std::io::stdout())
            .map(drop)
            .map_err(|e| e.to_string()),
        Some("probe") => layermark_probe::serve(std::io::stdin().lock(), std::io::stdout())
            .map_err(|e| e.to_string()),
        Some("janitor") => layermark_layers::janitor::run(std::io::stdin(), std::io::stdout())
            .map_err(|e| e.to_string()),
        Some("fuse-serve") => layermark_layers::fuse_serve(rest).map_err(|e| e.to_string()),
        Some("disk-serve") => {
            layermark_layers::volatile::disk_serve(rest).map_err(|e| e.to_string())
        }
        Some("place") => layermark_layers::place(rest).map_err(|e| e.to_string()),
        Some("guest") => layermark_layers::guest().map_err(|e| e.to_string()),
        Some("own") => roots::own(),
        Some("inside") => inside::main(rest),
        Some("as-user") => driver::become_user(rest),
        Some("as-nobody") => driver::become_nobody(rest),
        Some("drive") => return driver::drive(rest),
        _ => return driver::main(args.get(1..).unwrap_or_default()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
