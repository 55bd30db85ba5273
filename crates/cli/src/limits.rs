//! Checks resource limits (`ulimit`, a minimal container) before a run, because later they would
//! cause a signal or an abort without a message.

use std::{
    process::ExitCode,
    sync::{Arc, OnceLock, atomic::AtomicBool},
};

use layermark_model::try_random;
use layermark_sys::pids::{self, PidsLimit};
use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};
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
        // With 80, a run of native and one more layer ran out of them (`launch` and more layers need more).
        least: 128,
        ulimit: ("-n", 128),
    },
];

/// How many more processes and threads a run with one layer starts.
const PROCESSES: u64 = 16;
/// What the kernel says when it refuses one.
const REFUSED: &str = "(os error 11)";

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

/// A limit on processes and threads, and how many more it allows.
struct Room {
    left: u64,
    /// The limit in words, and a command that raises it.
    what: String,
    hint: String,
}

impl Room {
    fn of_group(limit: &PidsLimit) -> Self {
        let (file, max) = (limit.file.display(), limit.max);
        Self {
            left: max.saturating_sub(limit.current),
            what: format!("{file} allows {max}"),
            hint: format!(
                "allow more: echo 256 | sudo tee {file}, or start the container with --pids-limit 256"
            ),
        }
    }

    /// That of this user; `None` for root, whom it does not limit (setrlimit(2)).
    fn of_user() -> Option<Self> {
        let user = getuid();
        let max = getrlimit(Resource::Nproc)
            .current
            .filter(|_| !user.is_root())?;
        Some(Self {
            left: max.saturating_sub(pids::of_user(user.as_raw())),
            what: format!("this user may have {max} (ulimit -u)"),
            hint: "allow more: ulimit -u 4096, or end other processes".into(),
        })
    }
}

/// How many processes and threads control groups had refused before this one started any.
static BEFORE: OnceLock<u64> = OnceLock::new();

fn refused(limits: &[PidsLimit]) -> u64 {
    limits.iter().map(|limit| limit.refused).sum()
}

/// The error where no run can start all its processes. Called before the first one.
pub fn few_processes() -> Option<Failure> {
    let groups = pids::of_groups();
    BEFORE.get_or_init(|| refused(&groups));
    let rooms = groups.iter().map(Room::of_group).chain(Room::of_user());
    let room = rooms.min_by_key(|room| room.left)?;
    let Room { left, what, hint } = room;
    let text = format!(
        "the number of processes and threads is limited too much here: {what}, and {left} more are allowed, \
         while a run starts at least {PROCESSES}"
    );
    (left < PROCESSES).then(|| Failure::failed(text).hint(hint))
}

/// The limit that made the kernel refuse a process or thread, if that is what an error is about, and a hint.
pub fn ran_out(error: &str) -> Option<(String, String)> {
    if !error.contains(REFUSED) {
        return None;
    }
    let groups = pids::of_groups();
    // They may have ended since.
    let of_group = (refused(&groups) > *BEFORE.get()?)
        .then(|| {
            groups
                .iter()
                .min_by_key(|limit| limit.max)
                .map(Room::of_group)
        })
        .flatten();
    let of_user = || Room::of_user().filter(|room| room.left < PROCESSES);
    let Room { what, hint, .. } = of_group.or_else(of_user)?;
    Some((
        format!("there can be no more processes or threads: {what}"),
        hint,
    ))
}

fn no_random() -> Option<Failure> {
    let e = try_random().err()?;
    let text = format!("no random numbers: neither getrandom(2) nor /dev/urandom gives any: {e}");
    Some(Failure::failed(text).hint("make the device: mknod -m 444 /dev/urandom c 1 9"))
}
