//! Opens the store, and writes reports.

use std::{
    fs::DirBuilder,
    io::{self, IsTerminal, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use layermark_model::{Run, TrialRecord, plain};
use layermark_probe::workloads;
use layermark_report::{Report, exporters};
use layermark_store::{Store, StoreError};

use super::target::Target;
use crate::{
    args::Stdout,
    failure::{Code, Failure},
    say::say,
};

/// Opens the store in `--store`, or the user's default one.
pub fn open_store(path: Option<&Path>) -> Result<Store, Failure> {
    let store = match path {
        Some(path) => {
            has_directory(path)?;
            Store::open(path)?
        }
        None => Store::open_default()?,
    };
    if store.narrowed() {
        let path = store.path().display();
        say(format!(
            "note: other users could open the store {path}: it is yours alone now (mode 0600)"
        ));
    }
    Ok(store)
}

/// Refuses a file in a directory that is not there: a word that was typed wrong would make one. The
/// address of a server is none.
fn has_directory(path: &Path) -> Result<(), Failure> {
    let missing = |dir: &&Path| {
        let found = dir.metadata();
        found.is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
    };
    let text = path.to_string_lossy();
    if text.contains("://") {
        return Ok(());
    }
    let path = text.strip_prefix("sqlite:").map_or(path, Path::new);
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.filter(missing).map_or(Ok(()), |dir| {
        let (path, dir) = (path.display(), dir.display());
        let text = format!("--store {path}: there is no directory {dir}");
        Err(Failure::usage(text).hint(format!("make it: mkdir -p {dir}")))
    })
}

/// Opens the store to read it; writes nothing.
pub fn read_store(path: Option<&Path>) -> Result<Store, Failure> {
    Ok(match path {
        Some(path) => Store::open_read(path)?,
        None => Store::open_read(layermark_store::default_path()?)?,
    })
}

/// Loads a stored run with its trials. Its points have the meaning that this version gives them if an
/// earlier one stored none.
pub fn load(store: &mut Store, id: &str) -> Result<(Run, Vec<TrialRecord>), Failure> {
    let (mut run, trials) = store.load(id)?;
    workloads::complete(&mut run.points);
    Ok((run, trials))
}

/// The report of a stored run.
pub fn report(store: &mut Store, run: &str) -> Result<Report, Failure> {
    let (run, trials) = load(store, run)?;
    Ok(Report::build(&run, &trials))
}

/// The error where every trial of a run failed: its report has no result.
pub fn all_failed(report: &Report) -> Option<Failure> {
    let errors: Option<Vec<&str>> = report.trials.iter().map(|t| t.error.as_deref()).collect();
    let errors = errors?;
    let first = errors.first()?.lines().next().unwrap_or_default();
    Some(Failure::failed(format!(
        "every trial failed, the first because {first}"
    )))
}

/// Writes the files, then the terminal's table or JSON, unless `-o` has written to standard output.
/// Without a target, and if `page` is set, writes the page into the user's data directory. A target
/// that cannot be written does not prevent the others.
pub fn deliver(
    report: &Report,
    targets: &[Target],
    stdout: Stdout,
    page: bool,
) -> Result<(), Failure> {
    let (mut written, mut failed) = (Vec::new(), Vec::new());
    for target in targets {
        match target.write(report) {
            Ok(paths) => {
                target.warning(report).into_iter().for_each(say);
                written.extend(paths);
            }
            Err(failure) => failed.push(failure),
        }
    }
    if targets.is_empty() && page {
        // Nobody requested the page, so a failure to write it is only a warning.
        match default_page(report) {
            Ok(path) => written.push(path),
            Err(e) => say(format!("warning: no page: {}", e.message)),
        }
    }
    if !targets.iter().any(Target::is_stdout) {
        failed.extend(to_stdout(report, stdout).err());
    }
    for path in written {
        say(format!("report: {}", path.display()));
    }
    let together = |all: Failure, next: Failure| Failure {
        message: format!("{}; {}", all.message, next.message),
        ..all
    };
    failed.into_iter().reduce(together).map_or(Ok(()), Err)
}

/// Writes the page into the user's data directory.
fn default_page(report: &Report) -> Result<PathBuf, Failure> {
    let store = layermark_store::default_path()?;
    let dir = store.parent().unwrap_or(Path::new(".")).join("reports");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.map_err(|e| Failure::failed(format!("{}: {e}", dir.display())))?;
    let path = dir.join(format!("{}.html", report.run));
    Target::page(path.clone())?.write(report)?;
    Ok(path)
}

fn to_stdout(report: &Report, what: Stdout) -> Result<(), Failure> {
    let style = exporters::Style {
        width: width(),
        colour: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        unit: match what {
            Stdout::Short(unit) => unit,
            Stdout::Full | Stdout::Json => exporters::Unit::Ratio,
        },
    };
    let mut text = Vec::new();
    let printed = match what {
        Stdout::Json => exporters::for_path(Path::new("report.json"))
            .and_then(|json| json.write(report, &mut text)),
        Stdout::Full => exporters::print_full(report, style, &mut text),
        Stdout::Short(_) => exporters::print(report, style, &mut text),
    };
    printed.map_err(Failure::failed)?;
    write_stdout(&text)
}

/// Prints text or JSON, with a line break at the end.
pub fn print(text: &str) -> Result<(), Failure> {
    write_stdout(plain(text).as_bytes())
}

pub fn write_stdout(text: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        // A closed pipe is not an error: `layermark report | head`.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| Failure::failed(format!("standard output: {e}"))),
    }
}

/// Width of the terminal, columns; 100 if there is none.
fn width() -> usize {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(100, |size| usize::from(size.ws_col).max(60))
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = if error.is_usage() {
            Code::Usage
        } else {
            Code::Failed
        };
        Self {
            message: error.to_string(),
            hint: Some(
                error
                    .hint()
                    .unwrap_or_else(|| "keep runs elsewhere: --store FILE".into()),
            ),
            code,
        }
    }
}
