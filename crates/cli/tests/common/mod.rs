//! One builder for every end-to-end test: `Lm::new().args([...]).run()`.
#![allow(dead_code)] // each test program uses a part of it

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// The binary under test.
pub fn binary() -> PathBuf {
    std::env::var_os("LAYERMARK_BIN").map_or_else(|| env!("CARGO_BIN_EXE_layermark").into(), PathBuf::from)
}

/// The checkout, or the copy of it that an unprivileged user may read.
pub fn root() -> PathBuf {
    std::env::var_os("LAYERMARK_ROOT").map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), PathBuf::from)
}

/// Whether the test runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says why a test does nothing here.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// A temporary directory on a disk.
pub fn disk_dir() -> TempDir {
    // /tmp is a tmpfs on many machines; the build directory is on a disk.
    let base = std::env::var_os("LAYERMARK_TMP").map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    tempfile::Builder::new().prefix("layermark-e2e-").tempdir_in(base).expect("a temporary directory")
}

/// A command being put together, with a directory and a store of its own.
pub struct Lm {
    command: Command,
    pub dir: TempDir,
}

/// What a command said.
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub dir: TempDir,
}

impl Lm {
    pub fn new() -> Self {
        let dir = disk_dir();
        fs::create_dir(dir.path().join("work")).expect("work directory");
        let mut command = Command::new(binary());
        command.env("XDG_DATA_HOME", dir.path().join("data")).stdin(Stdio::null());
        command.env("NO_COLOR", "1").current_dir(dir.path());
        Self { command, dir }
    }

    /// The directory that `measure` commands work below.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub fn args<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(mut self, args: I) -> Self {
        self.command.args(args);
        self
    }

    /// A quick look at one cached operation in `layers`, without the control.
    pub fn measure(self, layers: &[&str]) -> Self {
        let work = self.work();
        let mut it = self.args(["file", "--op", "read", "--record", "4K", "--file-size", "64K", "--no-control", "--budget", "3s", "--dir"]);
        it.command.arg(work);
        for layer in layers {
            it.command.args(["-l", layer]);
        }
        it
    }

    /// Writes a plan file and runs it below the work directory.
    pub fn plan(self, text: &str) -> Self {
        let (path, work) = (self.dir.path().join("plan.toml"), self.work());
        fs::write(&path, text).expect("plan");
        let mut it = self.args(["run"]);
        it.command.arg(path).arg("--dir").arg(work);
        it
    }

    pub fn start(mut self) -> (Child, TempDir) {
        let child = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("layermark starts");
        (child, self.dir)
    }

    pub fn run(self) -> Said {
        let (child, dir) = self.start();
        Said::from(child.wait_with_output().expect("layermark ends"), dir)
    }
}

impl Said {
    pub fn from(output: Output, dir: TempDir) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            dir,
        }
    }

    /// Another command with the same directory and store.
    pub fn then(self) -> Lm {
        let mut lm = Lm::new();
        lm.command.env("XDG_DATA_HOME", self.dir.path().join("data")).current_dir(self.dir.path());
        lm.dir = self.dir;
        lm
    }

    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, Some(expected), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn says(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "`{words}` is not in stderr: {}", self.stderr);
        self
    }

    #[track_caller]
    pub fn prints(self, words: &str) -> Self {
        assert!(self.stdout.contains(words), "`{words}` is not in stdout: {}", self.stdout);
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}\nstderr: {}", self.stdout, self.stderr))
    }

    /// Nothing was left below the work directory, but for what the test put there.
    #[track_caller]
    pub fn left_nothing(self) -> Self {
        let left: Vec<_> = fs::read_dir(self.dir.path().join("work"))
            .expect("work directory")
            .filter_map(Result::ok)
            .filter(|e| e.file_name().to_string_lossy().starts_with("layermark-"))
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        self
    }
}

/// The result of a layer at the first point with this label.
pub fn result<'a>(report: &'a Value, label: &str, layer: &str) -> &'a Value {
    report["results"]
        .as_array()
        .and_then(|rows| rows.iter().find(|r| r["layer"] == layer && r["label"] == label))
        .unwrap_or_else(|| panic!("no result for {layer} at {label}"))
}
