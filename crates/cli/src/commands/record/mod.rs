//! `layermark record`: a program's calls on files as one file, which `layermark replay` makes again in any layer.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs::{self, Permissions},
    io::{BufReader, Read as _},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::PermissionsExt},
    },
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use layermark_model::{format_size, plain, random};
use layermark_probe::workloads::replay;
use layermark_recording::{
    Entry, Name, Recording, limits,
    strace::{self, Converted, TraceOf},
    words_of,
};

mod attached;
mod faults;
mod interrupts;
mod program;
mod standard;
mod think;

use self::{attached::Stopped, faults::Tracing, interrupts::Interrupts};
use super::{
    stdout,
    target::{Destination, FileOption},
};
use crate::{failure::Failure, say::say};

#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The recording to write
    #[arg(short, long, value_name = "FILE", default_value = "app.lmrec")]
    output: PathBuf,
    /// The directory whose files are recorded, with everything below it [default: the current one]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// Replace names by random ones of the same length, and leave out the command
    #[arg(long)]
    private: bool,
    /// Convert this output of `strace -f -y -s 4096 -o LOG` instead of running a program; the tree before is inferred from it
    #[arg(long, value_name = "LOG", conflicts_with = "argv", requires = "tree")]
    from_strace: Option<PathBuf>,
    /// Record a program that runs already, with the processes that it has started, until it ends or Ctrl-C; it goes on after
    /// that [default of --tree: its current directory]
    #[arg(long, value_name = "PID", conflicts_with_all = ["argv", "from_strace", "once"])]
    pid: Option<u32>,
    /// With --pid: for how long
    #[arg(long = "for", value_name = "TIME", requires = "pid", conflicts_with_all = ["argv", "from_strace"], value_parser = layermark_model::parse_duration)]
    time: Option<Duration>,
    /// With --from-strace: where the program was started [default: the directory of --tree]
    #[arg(long, value_name = "DIR", requires = "from_strace")]
    cwd: Option<PathBuf>,
    /// Run the program once only. Otherwise it runs up to seven times more, in a copy of the tree on tmpfs, without input:
    /// how long it takes there is needed to estimate its time in a layer
    #[arg(long)]
    once: bool,
    /// Replace a file that layermark did not write
    #[arg(long)]
    force: bool,
    /// After --: the program and its arguments
    #[arg(last = true, num_args = 1.., value_name = "PROGRAM", required_unless_present_any = ["from_strace", "pid"])]
    argv: Vec<OsString>,
}

const OUTPUT: FileOption = FileOption {
    name: "-o",
    elsewhere: "layermark record -o ~/app.lmrec -- PROGRAM",
};

/// A recording, and what its summary says of it.
struct Made {
    recording: Recording,
    /// What the time between calls is made of, or why it is not known.
    think: String,
    /// What strace cost, if it was measured.
    tracing: Option<String>,
    /// Why page faults are not recorded, if they are not.
    no_faults: Option<String>,
}

pub fn record(args: &RecordArgs) -> Result<ExitCode, Failure> {
    let place = Destination::find(&OUTPUT, &args.output, args.force)?;
    let mut made = match (&args.from_strace, args.pid) {
        (Some(log), _) => from_log(args, log)?,
        (_, Some(pid)) => from_process(args, pid)?,
        _ => from_program(args)?,
    };
    let packed = made.recording.packed().map_err(|why| refused(&why))?;
    let write =
        |out: &mut dyn layermark_report::render::Files| Ok(out.open("")?.write_all(&packed)?);
    place.fill(args.force, &write)?;
    stdout::print(&summary(&made, &args.output, packed.len() as u64))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a program under strace, and replays what it has done.
fn from_program(args: &RecordArgs) -> Result<Made, Failure> {
    let here = std::env::current_dir()
        .map_err(|e| Failure::failed(format!("the current directory: {e}")))?;
    let root = root(args.tree.as_deref().unwrap_or(&here))?;
    let strace = program::strace()?;
    let interrupts = Interrupts::caught()?;
    let tree = found(&root)?;
    let before = if args.once {
        Err("the program was run once".into())
    } else {
        think::Copy::make(&root, &tree)
    };
    if interrupts.any() {
        return Err(interrupts::stopped());
    }
    let opened = attached::inherited(&root).map_err(|e| Failure::failed(e.to_string()))?;
    let tracing = Tracing::begin(&root, &tree);
    let traced = program::run(&interrupts, &strace, &args.argv, None)?;
    interrupts.go_on()?;
    // Notes may go to a file of the tree.
    let after = strace::safe(&listed(&root)?.entries);
    let faults = tracing.and_then(|tracing| {
        let ended = tracing.end(&after);
        ended.map_err(|e| format!("page faults cannot be recorded: {e}"))
    });
    if traced.code != Some(0) {
        say(format!("note: the program ended with {}", traced.shown()));
    }
    let mut no_faults = faults.as_ref().err().cloned();
    let mut of = TraceOf {
        opened,
        faults: faults.ok(),
        ..trace_of(&root, &here, tree)
    };
    let tried = |of: &TraceOf| -> Result<_, Failure> {
        let converted = converted(traced.open()?, of)?;
        let gaps = converted.gaps.clone();
        let mut recording = named(converted, args, Some(after.clone()));
        let natively = replayed(
            &mut recording,
            "record a part of the program's work; what cannot be recorded is in `layermark docs howto/replay`",
        )?;
        Ok((gaps, recording, natively))
    };
    let made = match tried(&of) {
        // Those that there are may be too many, or of a file that was replaced meanwhile.
        Err(with) if of.faults.take().is_some() => {
            no_faults = Some(format!("with page faults: {}", with.message));
            tried(&of)
        }
        made => made,
    };
    let (gaps, mut recording, natively) = made?;
    interrupts.go_on()?;
    let think = match before {
        Ok(copy) => {
            set_gaps(&mut recording, &gaps);
            let run = think::Recorded {
                interrupts: &interrupts,
                strace: &strace,
                argv: &args.argv,
                cwd: &here,
                root: &root,
                traced: &traced,
                opened: &of.opened,
            };
            think::measure(&copy, &run, &recording)
        }
        Err(why) => Err(why),
    };
    interrupts.go_on()?;
    let tracing = think.as_ref().ok().map(|found| found.tracing.clone());
    let think = match think {
        Ok(found) => {
            recording.head.think_ns = Some(found.ns);
            recording.head.think_spread_ns = Some(found.spread_ns);
            recording.head.computing_ns = found.computing_ns;
            found.words
        }
        Err(why) => {
            // Parts of a sum that nobody knows.
            set_gaps(&mut recording, &[]);
            format!("not known: {why}")
        }
    };
    let natively = think::shown(Duration::from_nanos(natively.elapsed_ns));
    let think = format!("{think}; its calls took {natively} when they were replayed at once");
    Ok(Made {
        recording,
        think,
        tracing,
        no_faults,
    })
}

/// How much its tasks compute before each call; nothing before those that have no number.
fn set_gaps(recording: &mut Recording, gaps: &[u32]) {
    let gaps = gaps.iter().copied().chain(std::iter::repeat(0));
    for (call, gap) in recording.calls.iter_mut().zip(gaps) {
        call.gap = gap;
    }
}

/// Traces a program that runs already.
fn from_process(args: &RecordArgs, pid: u32) -> Result<Made, Failure> {
    let strace = program::strace()?;
    let interrupts = Interrupts::caught()?;
    let stopped = Stopped::with_children(pid, &interrupts)?;
    let failed = |e: std::io::Error| Failure::failed(format!("process {pid}: {e}"));
    let cwd = stopped.cwd().map_err(failed)?;
    let root = root(args.tree.as_deref().unwrap_or(&cwd))?;
    let running = stopped.running(&root).map_err(failed)?;
    let opened: usize = running.iter().map(|process| process.files.len()).sum();
    let tree = found(&root)?;
    if interrupts.any() {
        return Err(interrupts::stopped());
    }
    say(format!(
        "recording process {pid}; Ctrl-C ends the recording, and the program goes on"
    ));
    let traced = program::attach(&interrupts, &strace, stopped, args.time)?;
    interrupts.go_on()?;
    let before = strace::lines_of(&running);
    let log = before.as_bytes().chain(traced.open()?);
    let converted = converted(log, &trace_of(&root, &cwd, tree))?;
    // The program has gone on, so its tree has changed.
    let mut recording = named(converted, args, None);
    replayed(
        &mut recording,
        "do others write to its files? record when only this program does, or with --tree DIR",
    )?;
    Ok(Made {
        recording,
        think: format!(
            "not known: the program ran before, with {opened} files of the tree open, which a replay opens first"
        ),
        tracing: None,
        no_faults: Some("not recorded of a program that runs already".into()),
    })
}

/// Converts a log that somebody has.
fn from_log(args: &RecordArgs, log: &Path) -> Result<Made, Failure> {
    let unreadable = |e: std::io::Error| Failure::usage(format!("{}: {e}", log.display()));
    let tree = args.tree.as_deref().unwrap_or(Path::new("/"));
    // A directory of another machine is not looked for here.
    let root = std::path::absolute(tree).map_err(unreadable)?;
    let cwd = args.cwd.as_deref().unwrap_or(&root);
    let of = TraceOf {
        root: trimmed(&root),
        cwd: trimmed(&std::path::absolute(cwd).map_err(unreadable)?),
        tree: None,
        ..TraceOf::default()
    };
    let file = layermark_fd::open_file(rustix::fs::CWD, log).map_err(unreadable)?;
    let converted = converted(BufReader::new(file), &of).map_err(|failure| {
        let failure = Failure {
            code: crate::failure::Code::Usage,
            ..failure
        };
        failure.hint(
            "the log must be of `strace -f -y -s 4096 -o LOG PROGRAM`, and --tree the directory as it names it",
        )
    })?;
    let mut recording = named(converted, args, None);
    let scratch = scratch(&mut recording)?;
    let replayed = replay::replay(&recording, scratch.path(), 0);
    replayed.map_err(|e| {
        let text = format!(
            "the recording is refused: the log does not show what {} had in it before: {}",
            root.display(),
            e.message
        );
        Failure::failed(text).hint("record the program itself: layermark record -- PROGRAM")
    })?;
    Ok(Made {
        recording,
        think: "not known: a log of strace does not show it".into(),
        tracing: None,
        no_faults: Some("a log of strace does not show them".into()),
    })
}

/// An absolute path without a slash at its end.
fn trimmed(path: &Path) -> Vec<u8> {
    let path: PathBuf = path.components().collect();
    path.as_os_str().as_bytes().to_vec()
}

/// The recorded directory, without links.
fn root(tree: &Path) -> Result<PathBuf, Failure> {
    let wrong = |why: String| {
        Failure::usage(format!("{}: {why}", tree.display()))
            .hint("name the directory that the program works in: --tree DIR")
    };
    let root = fs::canonicalize(tree).map_err(|e| wrong(e.to_string()))?;
    if root == Path::new("/") {
        return Err(wrong("the whole file system cannot be recorded".into()));
    }
    Ok(root)
}

/// The tree that a program finds.
fn found(root: &Path) -> Result<Vec<Entry>, Failure> {
    let tree = listed(root)?;
    if tree.others > 0 {
        say(format!(
            "note: {} pipes, sockets and devices of the tree are left out",
            tree.others
        ));
    }
    Ok(tree.entries)
}

fn trace_of(root: &Path, cwd: &Path, tree: Vec<Entry>) -> TraceOf {
    TraceOf {
        root: root.as_os_str().as_bytes().to_vec(),
        cwd: cwd.as_os_str().as_bytes().to_vec(),
        tree: Some(tree),
        ..TraceOf::default()
    }
}

/// Replays a recording at once. One that differs is refused.
fn replayed(recording: &mut Recording, hint: &str) -> Result<replay::Replayed, Failure> {
    let scratch = scratch(recording)?;
    replay::replay(recording, scratch.path(), 0).map_err(|e| {
        let text = format!(
            "the recording is refused: replayed in {} at once, {}",
            scratch.path().display(),
            e.message
        );
        Failure::failed(text).hint(e.hint.unwrap_or_else(|| hint.into()))
    })
}

fn listed(root: &Path) -> Result<replay::Listed, Failure> {
    let failed = |e: std::io::Error| {
        Failure::failed(format!("{} cannot be listed: {e}", root.display()))
            .hint("name a smaller directory: --tree DIR")
    };
    let dir = layermark_fd::open_dir(rustix::fs::CWD, root).map_err(|e| failed(e.into()))?;
    replay::list(dir.as_fd()).map_err(failed)
}

fn converted(log: impl std::io::BufRead, of: &TraceOf) -> Result<Converted, Failure> {
    let root = String::from_utf8_lossy(&of.root).into_owned();
    strace::convert(log, of).map_err(|why| {
        Failure::failed(format!(
            "the trace of files below {root} cannot be used: {why}"
        ))
        .hint("name the directory that the program works in: --tree DIR")
    })
}

/// The recording with its command, seed, and the tree that the program has left.
fn named(converted: Converted, args: &RecordArgs, after: Option<Vec<Entry>>) -> Recording {
    let mut recording = converted.recording;
    let words = args.argv.iter().map(|word| word.to_string_lossy());
    let command = shell_words::join(words);
    recording.head.command = plain(&command).chars().take(limits::TEXT / 4).collect();
    recording.head.seed = random();
    env!("CARGO_PKG_VERSION").clone_into(&mut recording.head.version);
    let mut after = after;
    if args.private {
        let mut renamed = recording.make_private(random());
        let mut new = |name: &Name| renamed.name(name);
        for entry in after.iter_mut().flatten() {
            entry.path = new(&entry.path);
            entry.target = entry.target.as_ref().map(&mut new);
        }
    }
    recording.head.after = after.map(|after| words_of(&after));
    recording
}

fn refused(why: &str) -> Failure {
    Failure::failed(format!("the recording is refused: {why}"))
        .hint("record a part of the program's work")
}

/// A directory for the replay of a recording, which is checked before: the replay takes as much room as it says.
fn scratch(recording: &mut Recording) -> Result<Scratch, Failure> {
    const ELSEWHERE: &str = "name another place: TMPDIR=DIR layermark record";
    recording.accept().map_err(|why| refused(&why))?;
    let place = std::env::temp_dir();
    let failed = |e: std::io::Error| {
        Failure::failed(format!(
            "no directory can be made in {}: {e}",
            place.display()
        ))
        .hint(ELSEWHERE)
    };
    let scratch = Scratch::new(&place).map_err(failed)?;
    let needed = recording.tree_bytes().saturating_add(recording.written());
    let found = rustix::fs::statvfs(scratch.path()).map_err(|e| failed(e.into()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if needed > free {
        return Err(Failure::failed(format!(
            "the recording is replayed before it is written, which may take {}, and {} has {}",
            format_size(needed),
            place.display(),
            format_size(free)
        ))
        .hint(ELSEWHERE));
    }
    Ok(scratch)
}

/// Makes temporary directories that only this user can enter: `tempfile` lets others into those that it makes.
fn private() -> tempfile::Builder<'static, 'static> {
    let mut made = tempfile::Builder::new();
    made.prefix("layermark-record-")
        .permissions(Permissions::from_mode(0o700));
    made
}

/// A temporary directory. It is removed with everything in it, also directories that their owner may not write to, but
/// not below a mount that a program has left in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(place: &Path) -> std::io::Result<Self> {
        Ok(Self(private().tempdir_in(place)?.keep()))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(e) = layermark_fd::remove_tree(self.path()) {
            say(format!("note: it cannot be removed: {e}"));
        }
    }
}

fn summary(made: &Made, output: &Path, bytes: u64) -> String {
    let recording = &made.recording;
    let count = |n: u64, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    let mut text = format!(
        "{}: {} of {} on a tree of {}, {} bytes\n",
        output.display(),
        count(recording.calls.len() as u64, "call", "calls"),
        count(recording.head.tasks.into(), "task", "tasks"),
        count(recording.tree.len() as u64, "entry", "entries"),
        bytes,
    );
    // Writing to a string does not fail.
    let _ = writeln!(text, "time between calls: {}", made.think);
    if let Some(tracing) = &made.tracing {
        let _ = writeln!(text, "recording it: {tracing}");
    }
    for (what, n) in &recording.head.left_out {
        let why = made.no_faults.as_ref().filter(|_| what == strace::MAPPINGS);
        let why = why.map_or_else(String::new, |why| format!(" ({why})"));
        let _ = writeln!(text, "left out: {n} x {what}{why}");
    }
    let file = output.to_string_lossy();
    text + &format!(
        "replay it: layermark replay {} -l fuse\n",
        shell_words::quote(&file)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree may be private by the directory above it alone.
    #[test]
    fn only_this_user_enters_what_a_recording_needs() {
        let place = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(place.path()).unwrap();
        let mode = fs::metadata(scratch.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(scratch);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
