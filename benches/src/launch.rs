//! Detection delay of `layermark launch`, its overhead per launch, and a comparison with hyperfine
//! in turn.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    os::{linux::net::SocketAddrExt, unix::net::UnixDatagram},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use x11rb::{
    connection::Connection,
    protocol::xproto::{ConnectionExt as _, CreateWindowAux, WindowClass},
};

use crate::{report::report, results::Claim};

const PORT: u16 = 47_899;
/// Number of launches of each condition.
const RUNS: usize = 30;
/// Rounds in which bare and measured launches take turns.
const ROUNDS: usize = 10;
/// Number of rounds in which the time to distinguish two programs is measured.
const APART_ROUNDS: usize = 3;
/// Pause between bare launches, as between measured ones: without it, all code would be in the
/// CPU's caches.
const PAUSE: Duration = Duration::from_millis(30);

/// Monotonic clock, ns.
fn now_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

/// Every claim about launches.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let bench = Bench {
        binary,
        dir: dir.path(),
    };
    let mut claims = Vec::new();
    let port = format!("port={PORT}");
    let file = dir.path().canonicalize()?.join("appears");
    let file = format!("file={}", file.display());
    for ready in ["stdout=ready", &port, &file, "notify", "window"] {
        claims.extend(bench.lateness(ready)?);
    }
    claims.push(bench.overhead()?);
    claims.extend(bench.hyperfine()?);
    Ok(claims)
}

/// The launched program, in a separate process: `become READY LOG`. It writes the time just before
/// the event to the log.
pub fn become_ready(ready: &str, log: &str) -> Result<()> {
    // The file is opened before the event, because the program is stopped as soon as the event is
    // seen and cannot write afterwards.
    let mut file = fs::OpenOptions::new().append(true).create(true).open(log)?;
    let mut note = || writeln!(file, "{}", now_ns());
    thread::sleep(Duration::from_millis(30));
    // Objects that must exist until the program is stopped.
    let mut kept: Vec<Box<dyn std::any::Any>> = Vec::new();
    let (kind, value) = ready.split_once('=').unwrap_or((ready, ""));
    match kind {
        "stdout" => {
            note()?;
            println!("{value}");
        }
        "port" => {
            note()?;
            kept.push(Box::new(TcpListener::bind((
                "127.0.0.1",
                value.parse::<u16>()?,
            ))?));
        }
        "file" => {
            note()?;
            fs::write(value, "")?;
        }
        "notify" => {
            let name = std::env::var("NOTIFY_SOCKET")?;
            let name = name.strip_prefix('@').context("an abstract socket")?;
            let to = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            let socket = UnixDatagram::unbound()?;
            note()?;
            socket.send_to_addr(b"READY=1", &to)?;
        }
        "window" => {
            let (x, screen) = x11rb::connect(None)?;
            let root = x.setup().roots[screen].root;
            let window = x.generate_id()?;
            let (class, aux) = (WindowClass::INPUT_OUTPUT, CreateWindowAux::new());
            x.create_window(0, window, root, 0, 0, 200, 100, 0, class, 0, &aux)?
                .check()?;
            note()?;
            x.map_window(window)?;
            x.flush()?;
            kept.push(Box::new(x));
        }
        other => bail!("nobody can become {other}"),
    }
    thread::sleep(Duration::from_mins(1));
    drop(kept);
    Ok(())
}

struct Bench<'a> {
    binary: &'a Path,
    dir: &'a Path,
}

impl Bench<'_> {
    /// The series of a run of `layermark launch`.
    fn launch(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let report = report(self.binary, self.dir, "launch", arguments)?;
        let series = report["series"].as_array().cloned().unwrap_or_default();
        if series.is_empty() {
            bail!("nothing was launched: {}", report["results"][0]["error"]);
        }
        Ok(series)
    }

    fn lateness(&self, ready: &str) -> Result<Vec<Claim>> {
        let log = self.dir.canonicalize()?.join("log");
        let _ = fs::remove_file(&log);
        let kind = ready.split('=').next().unwrap_or(ready);
        if kind == "window" && Command::new("Xvfb").arg("-version").output().is_err() {
            eprintln!("skipped: window: Xvfb is not installed");
            return Ok(Vec::new());
        }
        let me = std::env::current_exe()?;
        let (me, log_name) = (me.to_string_lossy(), log.to_string_lossy());
        let runs = RUNS.to_string();
        let clean = format!("rm -f {}", ready.trim_start_matches("file="));
        let mut arguments = vec!["--runs", &runs, "--ready", ready];
        if kind == "file" {
            arguments.extend(["--prepare", clean.as_str()]);
        }
        arguments.extend(["--", &me, "become", ready, &log_name]);
        let series = self.launch(&arguments)?;
        let runs = series[0]["runs"].as_array().cloned().unwrap_or_default();
        let text = fs::read_to_string(&log)?;
        let known: Vec<u64> = text.lines().filter_map(|l| l.parse().ok()).collect();
        let seen = runs
            .iter()
            .filter_map(|r| Some(r["clock_ns"].as_u64()? as f64 + r["elapsed_ms"].as_f64()? * 1e6));
        // Failed launches have written a line as well, so the series must be complete.
        if known.len() != runs.len() {
            bail!(
                "{ready}: {} launches and {} events",
                runs.len(),
                known.len()
            );
        }
        let late: Vec<f64> = seen
            .zip(&known)
            .map(|(s, k)| (s - *k as f64) / 1e6)
            .collect();
        let at = |q| layermark_stats::quantile(&late, q).unwrap_or(f64::NAN);
        Ok(vec![Claim {
            what: format!("ms from event to its detection, {kind}, 95 of 100 launches"),
            value: at(0.95),
            interval: Some((at(0.0), at(1.0))),
            at_most: Some(1.0),
        }])
    }

    /// Runs bare and measured launches of the same program in turn.
    fn overhead(&self) -> Result<Claim> {
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for _ in 0..20 {
                thread::sleep(PAUSE);
                let start = Instant::now();
                let mut child = Command::new("/bin/true")
                    .env_clear()
                    .stdin(Stdio::null())
                    .spawn()?;
                child.wait()?;
                bare.push(start.elapsed().as_secs_f64() * 1e3);
            }
            let series = self.launch(&["--runs", "20", "--", "/bin/true"])?;
            ours.extend(times(&series[0]));
        }
        let (shift, interval) = layermark_stats::shift(&bare, &ours, 0.95).context("launches")?;
        Ok(Claim {
            what: "ms more than a bare fork, exec and wait of /bin/true".into(),
            value: shift,
            interval: interval.map(|i| (i.low, i.high)),
            at_most: Some(0.3),
        })
    }

    /// Measures the same program by hyperfine and by layermark in turn. Then measures how long each
    /// takes to distinguish two programs that differ by 3 %.
    fn hyperfine(&self) -> Result<Vec<Claim>> {
        if Command::new("hyperfine").arg("--version").output().is_err() {
            eprintln!("skipped: hyperfine is not installed");
            return Ok(Vec::new());
        }
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            theirs.extend(
                self.their_times(&["--runs", "10"], &["sleep 0.02"])?
                    .remove(0),
            );
            ours.extend(times(
                &self.launch(&["--runs", "10", "--", "sleep", "0.02"])?[0],
            ));
        }
        let (shift, interval) = layermark_stats::shift(&theirs, &ours, 0.95).context("launches")?;
        let mut claims = vec![Claim {
            what: "ms more than hyperfine's, the same program (sleep 0.02)".into(),
            value: shift,
            interval: interval.map(|i| (i.low, i.high)),
            at_most: Some(0.3),
        }];
        claims.extend(self.apart()?);
        Ok(claims)
    }

    /// Time until each program distinguishes two programs, s, in turn; the median of the rounds.
    fn apart(&self) -> Result<Vec<Claim>> {
        let rounds: Vec<(f64, f64)> = (0..APART_ROUNDS)
            .map(|_| self.apart_once())
            .collect::<Result<_>>()?;
        let middle = |of: fn(&(f64, f64)) -> f64| {
            let all: Vec<f64> = rounds.iter().map(of).collect();
            layermark_stats::median(&all).unwrap_or(f64::NAN)
        };
        let all = rounds.iter().map(|r| r.1);
        let span = (
            all.clone().fold(f64::INFINITY, f64::min),
            all.fold(0.0, f64::max),
        );
        Ok(vec![
            Claim {
                what: "half-width of the ratio of two programs 3 % apart, %".into(),
                value: middle(|r| r.0) * 100.0,
                interval: None,
                at_most: None,
            },
            Claim {
                what: "time to that width over hyperfine's".into(),
                value: middle(|r| r.1),
                interval: Some(span),
                at_most: Some(1.0),
            },
        ])
    }

    /// Half-width of our ratio, and our time relative to hyperfine's for the same half-width.
    fn apart_once(&self) -> Result<(f64, f64)> {
        let own = "tmpfs=sleep 0.1030";
        let layers = ["-l", "native", "-l", "tmpfs", "--no-control"];
        let flags = ["--precision", "1%", "--cmd", own, "--", "sleep", "0.1000"];
        let start = Instant::now();
        let series = self.launch(&[&layers[..], &flags[..]].concat())?;
        let seconds = start.elapsed().as_secs_f64();
        let ratio = &series[1]["levels"][0]["ratio"];
        let end = |n: usize| ratio["interval"][n].as_f64();
        let (Some(low), Some(high)) = (end(0), end(1)) else {
            bail!("no interval of the ratio: {ratio}");
        };
        let half = (high - low) / 2.0;
        let start = Instant::now();
        let both = self.their_times(&[], &["sleep 0.1000", "sleep 0.1030"])?;
        let theirs = start.elapsed().as_secs_f64();
        let relative = |t: &[f64]| {
            let mean = layermark_stats::mean(t).unwrap_or(f64::NAN);
            let squares: f64 = t.iter().map(|x| (x - mean).powi(2)).sum();
            squares / (t.len() as f64 - 1.0) / t.len() as f64 / (mean * mean)
        };
        // The error of a ratio as hyperfine computes it, and the time in which it would reach ours,
        // at least its minimum time.
        let their_half = 1.96 * both.iter().map(|t| relative(t)).sum::<f64>().sqrt();
        let to_ours = theirs * (their_half / half).powi(2).max(1.0);
        Ok((half, seconds / to_ours))
    }

    fn their_times(&self, flags: &[&str], commands: &[&str]) -> Result<Vec<Vec<f64>>> {
        let json = self.dir.join("hyperfine.json");
        let status = Command::new("hyperfine")
            .args(["-N", "--style", "none", "--export-json"])
            .arg(&json)
            .args(flags)
            .args(commands)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if !status.success() {
            bail!("hyperfine ended with {status}");
        }
        let found: Value = serde_json::from_str(&fs::read_to_string(&json)?)?;
        let all = found["results"].as_array().context("results")?;
        let ms = |r: &Value| -> Vec<f64> {
            let times = r["times"].as_array().into_iter().flatten();
            times.filter_map(Value::as_f64).map(|s| s * 1e3).collect()
        };
        Ok(all.iter().map(ms).collect())
    }
}

fn times(series: &Value) -> Vec<f64> {
    let runs = series["runs"].as_array().into_iter().flatten();
    runs.filter_map(|r| r["elapsed_ms"].as_f64()).collect()
}
