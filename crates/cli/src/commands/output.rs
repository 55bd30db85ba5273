//! Opens the store, and puts a report where the user wants it.

use std::{
    fs,
    io::{self, BufWriter, IsTerminal, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use layermark_report::{
    Report,
    exporters::{self, Exporter, Files},
};
use layermark_store::{Store, StoreError};
use tempfile::{NamedTempFile, TempPath};

use crate::{
    args::Stdout,
    failure::{Code, Failure},
};

/// A file to write, and what writes it.
pub struct Target {
    path: PathBuf,
    exporter: &'static dyn Exporter,
}

/// Where hyperfine's format goes, whatever the file is called.
pub fn times_target(path: &Path) -> Result<Target, Failure> {
    let mut target = targets(&[path.with_extension("hyperfine.json")])?;
    let exporter = target.remove(0).exporter;
    Ok(Target {
        path: path.into(),
        exporter,
    })
}

/// Finds the exporter of each `-o`, and that a file can be made where it goes, before a run begins.
pub fn targets(paths: &[PathBuf]) -> Result<Vec<Target>, Failure> {
    paths
        .iter()
        .map(|path| {
            let exporter = exporters::for_path(path)
                .map_err(|e| Failure::usage(e).hint("layermark report last -o report.html"))?;
            let parent = parent_of(path);
            if !parent.is_dir() {
                return Err(Failure::usage(format!(
                    "-o {}: there is no directory {}",
                    path.display(),
                    parent.display()
                ))
                .hint(format!("mkdir -p {}", parent.display())));
            }
            can_be_written(path, parent)?;
            Ok(Target {
                path: path.clone(),
                exporter,
            })
        })
        .collect()
}

/// Makes a file beside the target that has no name and is gone at once.
fn can_be_written(path: &Path, parent: &Path) -> Result<(), Failure> {
    let refused = |why: String| {
        Failure::usage(format!("-o {}: {why}", path.display()))
            .hint("layermark report last -o /tmp/report.html")
    };
    if path.is_dir() {
        return Err(refused("this is a directory".into()));
    }
    tempfile::tempfile_in(parent)
        .map(drop)
        .map_err(|e| refused(format!("no file can be made in {}: {e}", parent.display())))
}

/// The store that `--store` names, or the user's own.
pub fn open_store(path: Option<&Path>) -> Result<Store, Failure> {
    Ok(match path {
        Some(path) => Store::open(path)?,
        None => Store::open_default()?,
    })
}

/// The report of a stored run.
pub fn report(store: &mut Store, run: &str) -> Result<Report, Failure> {
    let (run, trials) = store.load(run)?;
    Ok(Report::build(&run, &trials))
}

/// Writes the files, then the terminal's table or JSON. Without a target, and where
/// `page` says so, the page goes into the user's data directory. What cannot be written keeps
/// nothing else from it.
pub fn deliver(
    report: &Report,
    targets: &[Target],
    stdout: Stdout,
    page: bool,
) -> Result<(), Failure> {
    let (mut written, mut failed) = (Vec::new(), Vec::new());
    for target in targets {
        match write_files(report, target.exporter, &target.path) {
            Ok(paths) => written.extend(paths),
            Err(failure) => failed.push(failure),
        }
    }
    if targets.is_empty() && page {
        // Nobody asked for the page: without it the run is still a run.
        match default_page(report) {
            Ok(path) => written.push(path),
            Err(e) => eprintln!("warning: no page: {}", e.message),
        }
    }
    failed.extend(to_stdout(report, stdout).err());
    for path in written {
        eprintln!("report: {}", path.display());
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
    fs::create_dir_all(&dir).map_err(|e| Failure::failed(format!("{}: {e}", dir.display())))?;
    let path = dir.join(format!("{}.html", report.run));
    let exporter = exporters::for_path(&path).map_err(Failure::failed)?;
    write_files(report, exporter, &path)?;
    Ok(path)
}

fn to_stdout(report: &Report, what: Stdout) -> Result<(), Failure> {
    let style = exporters::Style {
        width: width(),
        colour: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
    };
    let mut text = Vec::new();
    let printed = match what {
        Stdout::Json => exporters::for_path(Path::new("report.json"))
            .and_then(|json| json.write(report, &mut text)),
        Stdout::Full => exporters::print_full(report, style, &mut text),
        Stdout::Short => exporters::print(report, style, &mut text),
    };
    printed.map_err(Failure::failed)?;
    write_stdout(&text)
}

/// Prints text that ends with a line's end.
pub fn print(text: &str) -> Result<(), Failure> {
    write_stdout(text.as_bytes())
}

fn write_stdout(text: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        // `layermark report | head` is no failure.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| Failure::failed(format!("standard output: {e}"))),
    }
}

/// Columns of the terminal; 100 where there is none.
fn width() -> usize {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(100, |size| usize::from(size.ws_col).max(60))
}

/// Writes new files beside the target first, so that an old report is not lost to a full disk and
/// a new one is there as a whole or not at all. Answers their names.
fn write_files(
    report: &Report,
    exporter: &dyn Exporter,
    path: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    let write = || -> anyhow::Result<Vec<PathBuf>> {
        let mut parts = Parts::new(path);
        exporter.write(report, &mut parts)?;
        parts.persist()
    };
    write().map_err(|e| {
        Failure::failed(format!("{}: {e}", path.display())).hint(format!(
            "the run is kept; write it elsewhere: layermark report {} -o FILE",
            report.run
        ))
    })
}

/// The files of one `-o` until all of them are complete.
struct Parts<'a> {
    path: &'a Path,
    open: Option<(PathBuf, BufWriter<NamedTempFile>)>,
    done: Vec<(PathBuf, TempPath)>,
}

impl<'a> Parts<'a> {
    fn new(path: &'a Path) -> Self {
        Self {
            path,
            open: None,
            done: Vec::new(),
        }
    }

    fn close(&mut self) -> io::Result<()> {
        if let Some((path, out)) = self.open.take() {
            let part = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            self.done.push((path, part.into_temp_path()));
        }
        Ok(())
    }

    fn persist(mut self) -> anyhow::Result<Vec<PathBuf>> {
        self.close()?;
        let mut paths = Vec::new();
        for (path, part) in self.done {
            part.persist(&path)?;
            paths.push(path);
        }
        Ok(paths)
    }
}

impl Files for Parts<'_> {
    fn open(&mut self, part: &str) -> anyhow::Result<&mut dyn Write> {
        self.close()?;
        let file = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(parent_of(self.path))?;
        let path = exporters::part_path(self.path, part);
        let (_, out) = self.open.insert((path, BufWriter::new(file)));
        Ok(out)
    }
}

fn parent_of(path: &Path) -> &Path {
    path.parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let usage = matches!(
            error,
            StoreError::NotFound { .. }
                | StoreError::NoImport { .. }
                | StoreError::Ambiguous { .. }
        );
        let code = if usage { Code::Usage } else { Code::Failed };
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
