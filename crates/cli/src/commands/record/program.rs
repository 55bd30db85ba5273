//! A program under strace(1).

use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use layermark_sys::packages;
use tempfile::TempDir;

use crate::failure::{Code, Failure};

/// Calls on files and descriptors, and those by which tasks wait for each other. `?`: skipped where strace or the
/// machine does not know them.
const CALLS: &str = "trace=%file,%desc,%process,%net,futex,?clock_nanosleep,?nanosleep,?io_uring_enter,?io_uring_setup";

/// With children, paths of descriptors, no data and no signals.
const OPTIONS: [&str; 9] = [
    "-f",
    "--seccomp-bpf",
    "-y",
    "-q",
    "-s",
    "0",
    "-e",
    "signal=none",
    "-e",
];

/// The path of strace.
pub fn strace() -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|dir| dir.join("strace"));
    places.find(|file| file.is_file()).ok_or_else(|| Failure {
        message: "`strace` is not installed, and programs are recorded with it".into(),
        hint: Some(packages::install("strace")),
        code: Code::Layer,
    })
}

/// A program that has ended, and its trace.
pub struct Traced {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    signal: Option<i32>,
    dir: TempDir,
}

impl Traced {
    pub fn log(&self) -> PathBuf {
        self.dir.path().join("trace")
    }

    /// How it has ended, in words.
    pub fn shown(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "an unknown status".into(),
        }
    }
}

/// Runs a program under strace: with this terminal, or in another directory without input and output.
pub fn run(strace: &Path, argv: &[OsString], elsewhere: Option<&Path>) -> Result<Traced, Failure> {
    let failed = |e: io::Error| Failure::failed(format!("strace: {e}"));
    // Only this user can look into it: names of files are in the trace.
    let dir = tempfile::Builder::new()
        .prefix("layermark-record-")
        .tempdir()
        .map_err(failed)?;
    let mut command = Command::new(strace);
    command.args(OPTIONS).arg(CALLS).arg("-o");
    command.arg(dir.path().join("trace")).arg("--").args(argv);
    if let Some(elsewhere) = elsewhere {
        silent(&mut command, elsewhere);
    }
    let status = command.status().map_err(failed)?;
    Ok(Traced {
        code: status.code(),
        signal: status.signal(),
        dir,
    })
}

/// A program by itself, without input and output.
pub fn alone(argv: &[OsString], dir: &Path) -> io::Result<ExitStatus> {
    let none = OsString::new();
    let (program, rest) = argv.split_first().unwrap_or((&none, &[]));
    let mut command = Command::new(program);
    silent(command.args(rest), dir);
    command.status()
}

fn silent(command: &mut Command, dir: &Path) {
    command.current_dir(dir).env("PWD", dir);
    command.stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
}
