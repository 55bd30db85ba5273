//! Opens the store, and puts a report where the user wants it.

use std::{
    fs,
    io::{self, BufWriter, IsTerminal, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use layermark_report::{
    Report,
    exporters::{self, Exporter},
};
use layermark_store::{Store, StoreError};

use crate::failure::{Code, Failure};

/// A file to write, and what writes it.
pub struct Target {
    path: PathBuf,
    exporter: &'static dyn Exporter,
}

/// Finds the exporter of each `-o`, and that its directory is there, before a run begins.
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
            Ok(Target {
                path: path.clone(),
                exporter,
            })
        })
        .collect()
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
/// `page` says so, the page goes into the user's data directory.
pub fn deliver(report: &Report, targets: &[Target], json: bool, page: bool) -> Result<(), Failure> {
    let mut written = Vec::new();
    for target in targets {
        write_file(report, target.exporter, &target.path)?;
        written.push(target.path.clone());
    }
    if targets.is_empty() && page {
        // Nobody asked for the page: without it the run is still a run.
        match default_page(report) {
            Ok(path) => written.push(path),
            Err(e) => eprintln!("warning: no page: {}", e.message),
        }
    }
    to_stdout(report, json)?;
    for path in written {
        eprintln!("report: {}", path.display());
    }
    Ok(())
}

/// Writes the page into the user's data directory.
fn default_page(report: &Report) -> Result<PathBuf, Failure> {
    let store = layermark_store::default_path()?;
    let dir = store.parent().unwrap_or(Path::new(".")).join("reports");
    fs::create_dir_all(&dir).map_err(|e| Failure::failed(format!("{}: {e}", dir.display())))?;
    let path = dir.join(format!("{}.html", report.run));
    let exporter = exporters::for_path(&path).map_err(Failure::failed)?;
    write_file(report, exporter, &path)?;
    Ok(path)
}

fn to_stdout(report: &Report, json: bool) -> Result<(), Failure> {
    let stdout = io::stdout();
    let mut text = Vec::new();
    if json {
        let json = exporters::for_path(Path::new("report.json")).map_err(Failure::failed)?;
        json.write(report, &mut text).map_err(Failure::failed)?;
    } else {
        let colour = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let style = exporters::Style {
            width: width(),
            colour,
        };
        exporters::print(report, style, &mut text).map_err(Failure::failed)?;
    }
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

/// Writes a new file beside the target first, so that an old report is not lost to a full disk.
fn write_file(report: &Report, exporter: &dyn Exporter, path: &Path) -> Result<(), Failure> {
    let write = || -> anyhow::Result<()> {
        let part = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(parent_of(path))?;
        let mut out = BufWriter::new(part);
        exporter.write(report, &mut out)?;
        out.into_inner()?.persist(path)?;
        Ok(())
    };
    write().map_err(|e| {
        Failure::failed(format!("{}: {e}", path.display())).hint(format!(
            "the run is kept; write it elsewhere: layermark report {} -o FILE",
            report.run
        ))
    })
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
            StoreError::NotFound { .. } | StoreError::Ambiguous { .. }
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
