//! Writes reports.

use std::{
    fs::DirBuilder,
    io::{self, IsTerminal},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use layermark_report::{Report, render};
use layermark_store::Archive;

use super::{stdout, target::Target};
use crate::{
    common_args::Stdout,
    failure::Failure,
    say::{is_dumb, say},
};

/// The error where every trial of a run failed: its report has no result.
pub fn all_failed(report: &Report) -> Option<Failure> {
    let errors: Option<Vec<&str>> = report.trials.iter().map(|t| t.error.as_deref()).collect();
    let errors = errors?;
    let first = layermark_model::brief(errors.first()?);
    Some(Failure::failed(format!(
        "every trial failed, the first because {first}"
    )))
}

/// Writes the files, then the terminal's table or JSON, unless `-o` has written to standard output.
/// Without a target, and if `page` is set, writes the page into the user's data directory. A target
/// that cannot be written does not prevent the others. `kept`: the run itself, for its own file.
pub fn deliver(
    report: &Report,
    kept: Option<&Archive>,
    targets: &[Target],
    stdout: Stdout,
    page: bool,
) -> Result<(), Failure> {
    let (mut written, mut failed) = (Vec::new(), Vec::new());
    for target in targets {
        match target.write(report, kept) {
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
    Target::page(path.clone())?.write(report, None)?;
    Ok(path)
}

/// How text is printed on standard output.
pub fn style(unit: render::Unit) -> render::Style {
    render::Style {
        width: width(),
        colour: io::stdout().is_terminal() && !is_dumb() && std::env::var_os("NO_COLOR").is_none(),
        unit,
    }
}

fn to_stdout(report: &Report, what: Stdout) -> Result<(), Failure> {
    let style = style(match what {
        Stdout::Short(unit) => unit,
        Stdout::Full | Stdout::Json | Stdout::Nothing => render::Unit::Ratio,
    });
    let mut text = Vec::new();
    let printed = match what {
        Stdout::Json => render::for_path(Path::new("report.json"))
            .and_then(|json| json.write(report, &mut text)),
        Stdout::Full => render::print_full(report, style, &mut text),
        Stdout::Short(_) => render::print(report, style, &mut text),
        Stdout::Nothing => Ok(()),
    };
    printed.map_err(Failure::failed)?;
    stdout::write(&text)
}

/// Width of the terminal, columns; 100 if there is none.
fn width() -> usize {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(100, |size| usize::from(size.ws_col).max(60))
}
