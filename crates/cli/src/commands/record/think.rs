//! The time that a program spends between its calls: its own time on tmpfs, without that of a replay there. strace's
//! own times cannot tell it: strace takes several times as long.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use layermark_model::format_size;
use layermark_probe::workloads::replay;
use layermark_recording::{Recording, words_of};
use tempfile::TempDir;

use super::{listed, program};

/// The tmpfs of every Linux machine.
const MEMORY: &str = "/dev/shm";
/// `TMPFS_MAGIC`.
const TMPFS: i64 = 0x0102_1994;
/// How many times the program and its replay are run in turn.
const ROUNDS: usize = 5;
/// After this time no further round is begun.
const ENOUGH: Duration = Duration::from_secs(30);

/// The tree before the program has run, in memory.
pub struct Copy {
    dir: TempDir,
    bytes: u64,
}

/// The time between calls, and what it is made of.
pub struct Think {
    pub ns: u64,
    pub words: String,
}

impl Copy {
    /// Copies a tree with the contents of its files, which a replay does not have.
    pub fn make(root: &Path, bytes: u64) -> Result<Self, String> {
        let found = rustix::fs::statfs(MEMORY).map_err(|e| format!("{MEMORY}: {e}"))?;
        if found.f_type != TMPFS {
            return Err(format!("{MEMORY} is not a tmpfs"));
        }
        let free = free();
        // The tree before, one for the program, and one for its replay.
        if bytes.saturating_mul(4) > free {
            let (bytes, free) = (format_size(bytes), format_size(free));
            return Err(format!(
                "a tree of {bytes} does not fit into {MEMORY}, which has {free}, four times"
            ));
        }
        let dir = tempfile::Builder::new()
            .prefix("layermark-record-")
            .tempdir_in(MEMORY);
        let dir = dir.map_err(|e| format!("{MEMORY}: {e}"))?;
        copy(root, &dir.path().join("before"))?;
        Ok(Self { dir, bytes })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A fresh copy for the program.
    fn fresh(&self) -> Result<PathBuf, String> {
        let now = self.at("now");
        match std::fs::remove_dir_all(&now) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{}: {e}", now.display()));
            }
            _ => copy(&self.at("before"), &now)?,
        }
        Ok(now)
    }
}

/// Copies a directory with permissions, times and links.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::create_dir(to).map_err(|e| format!("{}: {e}", to.display()))?;
    let all = from.join(".");
    let done = Command::new("cp")
        .args(["-a", "--"])
        .arg(&all)
        .arg(to)
        .output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => {
            let why = layermark_model::brief(&String::from_utf8_lossy(&done.stderr));
            Err(format!("the tree cannot be copied into {MEMORY}: {why}"))
        }
        Err(e) => Err(format!("cp: {e}")),
    }
}

/// What was recorded, and how it ended.
pub struct Recorded<'a> {
    pub strace: &'a Path,
    pub argv: &'a [OsString],
    pub cwd: &'a Path,
    pub root: &'a Path,
    /// The exit code that the program must have.
    pub code: Option<i32>,
}

/// Runs the program and its replay in turn.
pub fn measure(before: &Copy, run: &Recorded<'_>, recording: &Recording) -> Result<Think, String> {
    let written = recording.written();
    if before.bytes.saturating_add(written).saturating_mul(4) > free() {
        return Err(format!(
            "what the program writes does not fit into {MEMORY}"
        ));
    }
    let within = run.cwd.strip_prefix(run.root);
    let within = within.map_err(|_| "the program was started outside of the tree".to_owned())?;
    let replays = before.at("replays");
    std::fs::create_dir(&replays).map_err(|e| format!("{}: {e}", replays.display()))?;
    let words = |dir: &Path| {
        let found = listed(dir).map_err(|e| e.message)?;
        Ok::<_, String>(words_of(&found.entries))
    };
    let mut dir = before.fresh()?;
    let first = words(&dir)?;
    // It is not counted: it also loads the program.
    run.try_in(&dir.join(within))?;
    let repeats = words(&dir)? == first;
    let (mut own, mut calls) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    for round in 0..ROUNDS {
        if round > 0 && begun.elapsed() > ENOUGH {
            break;
        }
        if !repeats {
            dir = before.fresh()?;
        }
        own.push(run.time_in(&dir.join(within))?);
        let replayed = replay::replay(recording, &replays);
        let replayed = replayed.map_err(|e| format!("a replay on tmpfs: {}", e.message))?;
        calls.push(Duration::from_nanos(replayed.elapsed_ns));
    }
    let (own, calls) = (median(own), median(calls));
    let think = own.saturating_sub(calls);
    Ok(Think {
        ns: think.as_nanos() as u64,
        words: format!(
            "{}: on tmpfs the program takes {} and its calls {}",
            shown(think),
            shown(own),
            shown(calls)
        ),
    })
}

impl Recorded<'_> {
    /// Runs the program in a copy, and looks whether it uses the copy alone.
    fn try_in(&self, dir: &Path) -> Result<(), String> {
        let traced = program::run(self.strace, self.argv, Some(dir)).map_err(|e| e.message)?;
        if traced.code != self.code {
            return Err(format!("the program ends with {} on tmpfs", traced.shown()));
        }
        let log = std::fs::read(traced.log()).map_err(|e| format!("the trace: {e}"))?;
        if names(&log, self.root.as_os_str().as_bytes()) {
            return Err("the program uses files of the tree by absolute paths".into());
        }
        Ok(())
    }

    fn time_in(&self, dir: &Path) -> Result<Duration, String> {
        let begun = Instant::now();
        let status = program::alone(self.argv, dir).map_err(|e| format!("the program: {e}"))?;
        let took = begun.elapsed();
        if status.code() == self.code {
            Ok(took)
        } else {
            Err(format!("the program ends with {status} on tmpfs"))
        }
    }
}

/// Whether a trace has a path below `root`, in quotes or as the path of a descriptor.
fn names(log: &[u8], root: &[u8]) -> bool {
    log.windows(root.len() + 2).any(|found| {
        let (before, after) = (found[0], found[root.len() + 1]);
        matches!(before, b'"' | b'<')
            && matches!(after, b'/' | b'"' | b'>')
            && &found[1..=root.len()] == root
    })
}

/// A time in words.
pub fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn free() -> u64 {
    rustix::fs::statfs(MEMORY).map_or(0, |found| {
        found.f_bavail.saturating_mul(found.f_bsize.cast_unsigned())
    })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_with_the_original_tree_is_found() {
        let has = |log: &str| names(log.as_bytes(), b"/a/b");
        assert!(has("1 stat(\"/a/b/c\", 0x7) = 0\n") && has("1 chdir(\"/a/b\") = 0"));
        assert!(has("1 openat(AT_FDCWD</a/b>, \"c\") = 3"));
        assert!(!has("1 stat(\"/a/bc\", 0x7) = 0\n") && !has("1 stat(\"/x/a/b/c\", 0x7) = 0"));
        assert!(!has(""));
    }

    #[test]
    fn the_middle_one() {
        assert_eq!(
            median([3, 1, 2].map(Duration::from_secs).into()),
            Duration::from_secs(2)
        );
        assert_eq!(median(Vec::new()), Duration::ZERO);
    }
}
