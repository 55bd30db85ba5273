//! One builder for every end-to-end test: `Lm::new().measure(&["tmpfs"]).run().code(0)`.
#![allow(dead_code)] // each test program uses a part of it

pub mod machine;

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

pub use layermark_testkit::wait_for;
use layermark_testkit::{
    fixtures::{self, Kept, fixture},
    heard,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// One cached operation.
pub const READ: &[&str] = &[
    "file",
    "--op",
    "read",
    "--record",
    "4K",
    "--file-size",
    "64K",
];

/// Arguments for a probe of the scripted layer beside a scripted baseline: nothing is measured, so
/// it is quick and exact. Exit code 4, since nothing proves where a mock ran.
pub const MOCK: &[&str] = &["mock", "mock:ns=1500"];

/// The binary under test.
pub fn binary() -> PathBuf {
    std::env::var_os("LAYERMARK_BIN")
        .map_or_else(|| env!("CARGO_BIN_EXE_layermark").into(), PathBuf::from)
}

/// The checkout, or the copy of it that an unprivileged user may read.
pub fn root() -> PathBuf {
    std::env::var_os("LAYERMARK_ROOT").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
        PathBuf::from,
    )
}

/// Whether the test runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether the layer `fuse` can be set up; says so if not.
pub fn has_fuse() -> bool {
    let open = || fs::File::options().read(true).write(true).open("/dev/fuse");
    let has = is_root() || open().is_ok();
    if !has {
        skipped("/dev/fuse is not for us");
    }
    has
}

/// Whether guests are booted for what another test has looked at in a guest like it: with `LAYERMARK_GUESTS=all`, as
/// `make soak` does.
pub fn all_guests() -> bool {
    std::env::var_os("LAYERMARK_GUESTS").is_some_and(|guests| guests == "all")
}

/// All commands that `layermark --help` names.
pub fn listed_commands(help: &str) -> Vec<String> {
    let (_, rest) = help.split_once("Ask a question:\n").expect("commands");
    let (listed, _) = rest.split_once("\nOptions:").expect("their end");
    let (lines, also) = listed.split_once("\nAlso: ").expect("the others");
    // A text that takes two lines goes on further to the right.
    let first = |line: &str| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    let also = also.trim().split(", ").map(str::to_owned);
    lines.lines().filter_map(first).chain(also).collect()
}

/// Says why a test does nothing here.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// Says why a test that only root can make does nothing here.
pub fn needs_root() -> bool {
    if !is_root() {
        skipped("only root may build file systems in files");
    }
    is_root()
}

/// Where temporary directories are made: on a disk (`/tmp` is a tmpfs on many machines), and not in
/// the clone, which may be below a home that other users cannot enter.
pub fn base() -> PathBuf {
    std::env::var_os("LAYERMARK_TMP").map_or_else(|| "/var/tmp".into(), PathBuf::from)
}

/// A temporary directory on a disk.
pub fn disk_dir() -> TempDir {
    tempfile::Builder::new()
        .prefix("layermark-e2e-")
        .tempdir_in(base())
        .expect("a temporary directory")
}

/// A directory of the test's, removed at the end unless it is another command's.
pub enum Home {
    Own(TempDir),
    Of(PathBuf),
}

impl Home {
    pub fn path(&self) -> &Path {
        match self {
            Self::Own(dir) => dir.path(),
            Self::Of(path) => path,
        }
    }
}

/// A command being put together, with a directory and a store of its own.
pub struct Lm {
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    /// Shell text before and after it, in a private mount namespace.
    around: Option<(String, String)>,
    /// A command that runs it.
    wrapper: Vec<&'static str>,
    pub dir: Home,
}

/// What a command said.
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub dir: Home,
}

impl Lm {
    pub fn new() -> Self {
        machine::look_around();
        let dir = disk_dir();
        fs::create_dir(dir.path().join("work")).expect("work directory");
        Self {
            args: Vec::new(),
            env: Vec::new(),
            around: None,
            wrapper: Vec::new(),
            dir: Home::Own(dir),
        }
    }

    /// With a store that has these fixtures. Nothing has to be measured to have a run.
    pub fn stored(fixtures: &[&str]) -> Self {
        Self::new().keeping(fixtures)
    }

    /// Puts these fixtures into its store.
    pub fn keeping(self, fixtures: &[&str]) -> Self {
        self.keeping_runs(fixtures.iter().map(|name| fixture(name).read()))
    }

    /// Puts these runs into its store: fixtures that a test has changed.
    pub fn keeping_runs(self, runs: impl IntoIterator<Item = Kept>) -> Self {
        let store = self.store();
        fs::create_dir_all(store.parent().expect("a directory")).expect("the store's directory");
        fixtures::store_runs(&store, runs);
        self
    }

    /// With the directory and the store of another command.
    pub fn with(dir: &Path) -> Self {
        Self {
            args: Vec::new(),
            env: Vec::new(),
            around: None,
            wrapper: Vec::new(),
            dir: Home::Of(dir.into()),
        }
    }

    /// The directory that `measure` commands work below.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// The store's file.
    pub fn store(&self) -> PathBuf {
        self.dir.path().join("data/layermark/layermark.db")
    }

    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, args: I) -> Self {
        self.args
            .extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().into()));
        self
    }

    /// Puts a file into the test's own directory.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.dir.path().join(name), content).expect("a file");
        self
    }

    /// A workload below the work directory, without the control.
    pub fn work_with(self, args: &[&str], layers: &[&str]) -> Self {
        let work = self.work();
        let layers = layers.iter().flat_map(|l| ["-l", l]);
        self.args(args)
            .args(["--no-control", "--dir"])
            .args([work])
            .args(layers)
    }

    /// A quick look at one cached operation in `layers`, without the control.
    pub fn measure(self, layers: &[&str]) -> Self {
        // Not a budget: a slow disk would make fewer blocks of it.
        let lm = self.work_with(READ, layers).args(["--blocks", "9"]);
        if layers.iter().any(|layer| layer.starts_with("mock")) {
            return lm;
        }
        // Without a number of passes, a real trial takes a tenth of a second of a CPU.
        lm.args(["--passes", "50"])
    }

    /// Two operations in three scripted layers, so that there is a chart for each operation.
    pub fn charted(self) -> Self {
        let layers = [MOCK, &["mock:ns=3000"]].concat();
        self.work_with(&[READ, &["--op", "read,write"]].concat(), &layers)
            .args(["--blocks", "9"])
    }

    /// Two scripted layers: done in a moment.
    pub fn mock(self) -> Self {
        self.measure(MOCK)
    }

    /// Writes a plan file and runs it below the work directory.
    pub fn plan(self, text: &str) -> Self {
        let work = self.work();
        self.file("plan.toml", text)
            .args(["run", "plan.toml", "--dir"])
            .args([work])
    }

    /// Runs it in a mount namespace of its own, after `before` and before `after`: shell text in
    /// which `$W` is the work directory and `$L` the binary. `None` where that is forbidden.
    pub fn around(mut self, before: &str, after: &str) -> Option<Self> {
        let may = namespace(&["true".as_ref()]).status();
        if !may.is_ok_and(|s| s.success()) {
            skipped("mount namespaces are forbidden here");
            return None;
        }
        self.around = Some((before.into(), after.into()));
        Some(self)
    }

    /// Has another command run it.
    pub fn wrapped(mut self, wrapper: &[&'static str]) -> Self {
        self.wrapper = wrapper.to_vec();
        self
    }

    fn command(&self) -> Command {
        let mut command = match &self.around {
            None => match self.wrapper.split_first() {
                Some((program, more)) => {
                    let mut command = Command::new(program);
                    command.args(more).arg(binary());
                    command
                }
                None => Command::new(binary()),
            },
            Some((before, after)) => {
                let script =
                    format!("set -eu; {before}\nset +e; \"$@\"; code=$?; {after}\nexit $code");
                namespace(&[
                    "sh".as_ref(),
                    "-c".as_ref(),
                    script.as_ref(),
                    "sh".as_ref(),
                    binary().as_os_str(),
                ])
            }
        };
        command
            .args(&self.args)
            .env("W", self.work())
            .env("L", binary())
            .env("XDG_DATA_HOME", self.dir.path().join("data"))
            .env("XDG_CONFIG_HOME", self.dir.path().join("config"))
            .env("NO_COLOR", "1")
            .envs(self.env.iter().map(|(n, v)| (n, v)))
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    pub fn start(self) -> (Child, Home) {
        let mut command = self.command();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        (child.spawn().expect("layermark starts"), self.dir)
    }

    pub fn run(self) -> Said {
        let (child, dir) = self.start();
        Said::from(output(child), dir)
    }
}

/// Writes `a.lm` to `e.lm`, the same run five times, but for `c.lm`: there a read takes 2 ms more.
pub fn five_runs(dir: &Path) {
    let store = dir.join("five.db");
    let names = ["a", "b", "c", "d", "e"];
    let id = |name: &str| format!("01{}", name.to_uppercase().repeat(24));
    let runs = names.map(|name| {
        let mut kept = fixture(if name == "c" {
            "compare-new"
        } else {
            "compare-old"
        })
        .read();
        kept.run.id = id(name);
        kept
    });
    fixtures::store_runs(&store, runs);
    for name in names {
        let file = format!("{name}.lm");
        let report = ["report", &id(name), "-o", &file, "--store", "five.db"];
        Lm::with(dir).args(report).run().code(0);
    }
}

/// Interrupts a run, and waits until it has said that it heard: two signals at once would be one.
pub fn interrupt(child: &mut Child, pid: Pid) {
    kill_process(pid, Signal::INT).expect("a signal");
    let stderr = child.stderr.as_mut().expect("stderr");
    heard(stderr, "press Ctrl-C again to stop at once");
}

/// What it printed, once it has ended. What hangs is killed.
#[track_caller]
pub fn output(child: Child) -> Output {
    const LIMIT: Duration = Duration::from_mins(10);
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(LIMIT) else {
        let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
        panic!("no end after {LIMIT:?}");
    };
    output.expect("layermark ends")
}

/// A command in a private mount namespace; in a user namespace when we are not root.
fn namespace(command: &[&OsStr]) -> Command {
    let flags = if is_root() { "-m" } else { "-Urm" };
    let mut unshare = Command::new("unshare");
    unshare
        .args([flags, "--propagation", "private"])
        .args(command);
    unshare
}

/// Runs of a store, newest first, as `history --json` tells them.
pub fn history(dir: &Path) -> Vec<Value> {
    let output = Command::new(binary())
        .args(["history", "--json"])
        .env("XDG_DATA_HOME", dir.join("data"))
        .env("XDG_CONFIG_HOME", dir.join("config"))
        .output()
        .expect("history");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str::<Value>(&text)
        .ok()
        .and_then(|v| v["runs"].as_array().cloned())
        .unwrap_or_default()
}

/// Trials stored of the newest run. Tests ask for it until there are some, so no command is started.
pub fn trials_stored(dir: &Path) -> u64 {
    fixtures::trials_stored(&dir.join("data/layermark/layermark.db"))
}

impl Said {
    #[allow(clippy::needless_pass_by_value)] // as `output` gives it
    pub fn from(output: Output, dir: Home) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            dir,
        }
    }

    /// Another command with the same directory and store.
    pub fn then(self) -> Lm {
        Lm {
            args: Vec::new(),
            env: Vec::new(),
            around: None,
            wrapper: Vec::new(),
            dir: self.dir,
        }
    }

    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        let (out, err) = (&self.stdout, &self.stderr);
        assert_eq!(self.code, Some(expected), "stdout: {out}\nstderr: {err}");
        self
    }

    #[track_caller]
    pub fn says(self, words: &str) -> Self {
        let err = &self.stderr;
        assert!(err.contains(words), "`{words}` is not in stderr: {err}");
        self
    }

    /// An error of this exit code, in these words, with a hint. No panic, nothing on stdout.
    #[track_caller]
    pub fn fails(self, code: i32, words: &[&str]) -> Self {
        let said = words.iter().fold(self.code(code), |said, w| said.says(w));
        let err = &said.stderr;
        assert!(
            err.contains("error: ") && !err.contains("panicked"),
            "{err}"
        );
        said.says("hint: ")
    }

    #[track_caller]
    pub fn prints(self, words: &str) -> Self {
        let out = &self.stdout;
        assert!(out.contains(words), "`{words}` is not in stdout: {out}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}\nstderr: {}", self.stdout, self.stderr))
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
#[track_caller]
pub fn result<'a>(report: &'a Value, label: &str, layer: &str) -> &'a Value {
    report["results"]
        .as_array()
        .and_then(|rows| {
            rows.iter()
                .find(|r| r["layer"] == layer && r["label"] == label)
        })
        .unwrap_or_else(|| panic!("no result for {layer} at {label} in {report:#}"))
}

/// The one of a list that has this value.
#[track_caller]
pub fn found<'a>(list: &'a Value, key: &str, value: &str) -> &'a Value {
    let one = list
        .as_array()
        .and_then(|l| l.iter().find(|v| v[key] == value));
    one.unwrap_or_else(|| panic!("no {value}: {list:#}"))
}

/// What the workload's figures are in a layer, by their names.
#[track_caller]
pub fn figures<'a>(report: &'a Value, label: &str, layer: &str) -> &'a Value {
    let groups = report["figures"].as_array().into_iter().flatten();
    let mut rows = groups.flat_map(|g| g["rows"].as_array().into_iter().flatten());
    let row = rows.find(|r| r["layer"] == layer && r["label"] == label);
    let row = row.unwrap_or_else(|| panic!("no figures of {label} in {layer}: {report:#}"));
    &row["values"]
}
