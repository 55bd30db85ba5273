//! Checks resource limits (`ulimit`, a minimal container) before a run, because later they would
//! cause a signal or an abort without a message.

use std::{
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

use layermark_model::try_random;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::{consts::SIGXFSZ, flag};

use crate::failure::Failure;

/// A resource limit, and the lowest value for a run.
struct Limit {
    resource: Resource,
    name: &'static str,
    /// In units of setrlimit(2).
    least: u64,
    /// The option of `ulimit`, and `least` in its unit.
    ulimit: (&'static str, u64),
}

const LIMITS: [Limit; 4] = [
    Limit {
        resource: Resource::Stack,
        name: "the stack",
        least: 1 << 20,
        ulimit: ("-s", 1 << 10),
    },
    Limit {
        resource: Resource::As,
        name: "the memory of a process",
        least: 128 << 20,
        ulimit: ("-v", 128 << 10),
    },
    Limit {
        resource: Resource::Fsize,
        name: "the size of a file",
        least: 4 << 20,
        ulimit: ("-f", 4 << 10),
    },
    Limit {
        resource: Resource::Nofile,
        name: "the number of open files",
        least: 64,
        ulimit: ("-n", 64),
    },
];

/// The usual soft limit of open files. A higher one is left as it is, because launched programs
/// inherit it.
const USUAL_FILES: u64 = 1024;

/// Ignores SIGXFSZ: writing beyond the largest file size then fails with an error that names the
/// file, instead of ending the process. Started programs do not inherit this.
pub fn hear_of_large_files() {
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Raises soft limits that are too low for a run. Returns an exit code if that is not enough.
pub fn check() -> Option<ExitCode> {
    let failure = LIMITS.iter().find_map(too_low).or_else(no_random)?;
    let json = std::env::args_os().any(|a| a == "--json");
    Some(failure.print(json))
}

fn too_low(limit: &Limit) -> Option<Failure> {
    let wanted = match limit.resource {
        Resource::Nofile => USUAL_FILES,
        _ => limit.least,
    };
    let now = getrlimit(limit.resource);
    let mut soft = now.current?;
    if soft < wanted {
        let raised = Rlimit {
            current: now.maximum,
            maximum: now.maximum,
        };
        if setrlimit(limit.resource, raised).is_ok() {
            soft = now.maximum?;
        }
    }
    if soft >= limit.least {
        return None;
    }
    let (option, least) = limit.ulimit;
    let text = format!("{} is limited too much here (ulimit {option})", limit.name);
    Some(Failure::failed(text).hint(format!(
        "allow more: ulimit {option} {least}, or ulimit {option} unlimited"
    )))
}

fn no_random() -> Option<Failure> {
    let e = try_random().err()?;
    let text = format!("no random numbers: neither getrandom(2) nor /dev/urandom gives any: {e}");
    Some(Failure::failed(text).hint("make the device: mknod -m 444 /dev/urandom c 1 9"))
}
