//! Places behind a command. How soon is a container's probe ready, compared with the runtime by itself in turn? How
//! long does a question to a probe take over the runtime's pipes, and over ssh?

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail};
use layermark_layers::{End, Output, Spec, Wire, find, sandbox};
use layermark_model::protocol::{FromProbe, ToProbe};
use layermark_stats::quantile;
use layermark_testkit::ssh::{HOST, SshServer};
use serde_json::json;

use crate::{
    opened::Opened,
    results::{Claim, lacks},
};

/// Rounds in which a runtime by itself and a probe in it take turns, and containers in which questions are asked.
const ROUNDS: usize = 11;
/// Questions asked in one place.
const QUESTIONS: usize = 500;
const MOST_READY: f64 = 1.5;
const MOST_MS: f64 = 0.3;
const MOST_MS_SSH: f64 = 1.0;

/// Every claim about places behind a command.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    // As in layermark, so that the directories of containers are seen by no other program.
    sandbox::enter()?;
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let bench = Bench {
        binary: binary.canonicalize()?,
        dir: dir.path().canonicalize()?,
    };
    bench.fill_root()?;
    let mut claims = Vec::new();
    for runtime in ["podman", "crun", "runc", "nspawn", "bubblewrap"] {
        claims.extend(bench.container(runtime)?);
    }
    match SshServer::start() {
        Some(server) => claims.push(bench.ssh(&server)?),
        None => println!("skipped: ssh: not root, or openssh-server is missing"),
    }
    Ok(claims)
}

struct Bench {
    binary: PathBuf,
    dir: PathBuf,
}

/// A place with a probe that has said hello. Its fields are dropped in this order.
struct Up {
    wire: Wire,
    _place: Opened,
}

impl Bench {
    /// The root of containers that a runtime starts by itself: the program they run is layermark's, too.
    fn fill_root(&self) -> Result<()> {
        for name in ["root/proc", "root/dev", "root/etc", "root/usr", "root/tmp"] {
            fs::create_dir_all(self.dir.join(name))?;
        }
        fs::write(self.dir.join("root/etc/os-release"), "ID=layermark\n")?;
        fs::copy(&self.binary, self.dir.join("root/layermark"))?;
        Ok(())
    }

    fn container(&self, runtime: &str) -> Result<Vec<Claim>> {
        let spec: Spec = format!("container:{runtime}").parse()?;
        let layer = find(&spec.layer).context("a layer")?;
        if lacks(runtime, &layer.missing(&spec)) {
            return Ok(Vec::new());
        }
        let (mut ratios, mut ready_ms, mut ms) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // The second one finds its files in memory.
            let is_first = round % 2 == 0;
            let mut alone = 0.0;
            if is_first {
                alone = self.alone(runtime)?;
            }
            let began = Instant::now();
            let mut up = self.up(&spec)?;
            let ready = began.elapsed().as_secs_f64();
            ms.push(middle(&answers(&mut up)?));
            drop(up);
            if !is_first {
                alone = self.alone(runtime)?;
            }
            ratios.push(ready / alone);
            ready_ms.push(ready * 1e3);
        }
        Ok(vec![
            claim(
                format!("{runtime}: time until a probe in it is ready, over `run` by itself"),
                &ratios,
                Some(MOST_READY),
            ),
            claim(format!("{runtime}: the same, ms"), &ready_ms, None),
            claim(asked(runtime), &ms, Some(MOST_MS)),
        ])
    }

    fn ssh(&self, server: &SshServer) -> Result<Claim> {
        let (dir, config) = (&self.dir, server.config());
        let config = config.display();
        let spec: Spec = format!("ssh:{HOST}:{},config={config}", dir.display()).parse()?;
        let mut ms = Vec::new();
        for _ in 0..ROUNDS {
            ms.push(middle(&answers(&mut self.up(&spec)?)?));
        }
        Ok(claim(asked("ssh on the loopback"), &ms, Some(MOST_MS_SSH)))
    }

    fn up(&self, spec: &Spec) -> Result<Up> {
        let mut opened = Opened::new(&self.binary, &self.dir, "layer", spec)?;
        let wire = opened.place.start(End::Far)?;
        let mut up = Up {
            wire,
            _place: opened,
        };
        match said(&mut BufReader::new(&mut up.wire.stdout))? {
            FromProbe::Hello { .. } => Ok(up),
            other => bail!("the probe in {spec} began with {other:?}"),
        }
    }

    /// Seconds that the runtime takes by itself from its start to the end of a container in which `layermark
    /// --version` runs.
    fn alone(&self, runtime: &str) -> Result<f64> {
        let command = self.by_itself(runtime)?;
        // As layermark starts it: where version 1 of control groups is mounted as well, crun refuses.
        let groups = "mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null; exec \"$@\"";
        let mut alone = Command::new("unshare");
        alone.args(["--mount", "sh", "-c", groups, "sh"]);
        alone.arg(command.get_program()).args(command.get_args());
        let began = Instant::now();
        let output = alone.stdin(Stdio::null()).output()?;
        let seconds = began.elapsed().as_secs_f64();
        if !output.stdout.starts_with(b"layermark ") {
            bail!("{alone:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(seconds)
    }

    fn by_itself(&self, runtime: &str) -> Result<Command> {
        let root = self.dir.join("root").display().to_string();
        let bundle = self.dir.display().to_string();
        let store = self.dir.join("store").display().to_string();
        let mut command = match runtime {
            "podman" => {
                let mut podman = Command::new("podman");
                podman.args(["--root", &store, "--runroot", &store, "--tmpdir", &store]);
                podman.args(["--runtime=crun", "--cgroup-manager=cgroupfs"]);
                podman.args(["run", "--rm", "--network=none", "--cgroups=disabled"]);
                podman.args(["--ulimit=nofile=1024:4096", "--ulimit=nproc=4096:4096"]);
                podman.args(["--rootfs", &root]);
                podman
            }
            "nspawn" => {
                let mut nspawn = Command::new("systemd-nspawn");
                nspawn.args(["--quiet", "--register=no", "--keep-unit", "--pipe"]);
                nspawn.args(["--private-network", "--directory", &root]);
                nspawn
            }
            "bubblewrap" => {
                let mut bwrap = Command::new("bwrap");
                bwrap.args(["--bind", &root, "/", "--dev", "/dev", "--proc", "/proc"]);
                bwrap.args(["--unshare-all", "--die-with-parent"]);
                bwrap
            }
            oci => {
                self.describe()?;
                let mut command = Command::new(oci);
                if oci == "crun" {
                    command.arg("--cgroup-manager=disabled");
                }
                command.args(["run", "--bundle", &bundle, "layermark-bench"]);
                command
            }
        };
        if matches!(runtime, "podman" | "nspawn" | "bubblewrap") {
            command.args(["/layermark", "--version"]);
        }
        Ok(command)
    }

    /// The container of a runtime that reads a bundle (OCI runtime specification 1.0).
    fn describe(&self) -> Result<()> {
        let namespaces = ["pid", "network", "ipc", "uts", "mount"].map(|n| json!({"type": n}));
        let config = json!({
            "ociVersion": "1.0.0",
            "process": {
                "terminal": false, "user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/"],
                "args": ["/layermark", "--version"], "noNewPrivileges": true,
            },
            "root": {"path": "root", "readonly": false},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {"namespaces": namespaces},
        });
        Ok(fs::write(self.dir.join("config.json"), config.to_string())?)
    }
}

fn asked(place: &str) -> String {
    format!("{place}: ms from a question to the probe's answer")
}

/// Milliseconds from a question to its answer, each. The question is one that the probe answers at once.
fn answers(up: &mut Up) -> Result<Vec<f64>> {
    let mut stdout = BufReader::new(&mut up.wire.stdout);
    let question = serde_json::to_string(&ToProbe::End { id: 0 })? + "\n";
    let mut ms = Vec::with_capacity(QUESTIONS);
    for _ in 0..QUESTIONS {
        let began = Instant::now();
        up.wire.stdin.write_all(question.as_bytes())?;
        up.wire.stdin.flush()?;
        let answer = said(&mut stdout)?;
        ms.push(began.elapsed().as_secs_f64() * 1e3);
        if !matches!(answer, FromProbe::Error { .. }) {
            bail!("the probe has a job that it was not given: {answer:?}");
        }
    }
    Ok(ms)
}

fn said(stdout: &mut BufReader<&mut Box<dyn Output>>) -> Result<FromProbe> {
    let mut line = String::new();
    stdout.read_line(&mut line)?;
    serde_json::from_str(&line).with_context(|| format!("the probe said {line:?}"))
}

fn middle(values: &[f64]) -> f64 {
    quantile(values, 0.5).unwrap_or(f64::NAN)
}

/// The median of 11 rounds. Its interval is from the second to the tenth of them, which holds the median of all
/// rounds with a probability of 98.8 % (order statistics).
fn claim(what: String, rounds: &[f64], at_most: Option<f64>) -> Claim {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    Claim {
        what,
        value: middle(&sorted),
        interval: Some((sorted[1], sorted[sorted.len() - 2])),
        at_most,
    }
}
