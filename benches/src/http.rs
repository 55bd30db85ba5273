//! `http` in turn with wrk and ab: the same nginx on the loopback, the same number of kept connections, the
//! same CPUs.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use layermark_stats::{Pair, compare, trimmed_mean};
use serde_json::json;

use crate::{net::cpus, probe::Probe, results::Claim};

/// Duration of a turn and of its uncounted lead-in, nanoseconds, as in the lab.
const TURN: (u64, u64) = (10_000_000, 1_000_000);
/// Number of rounds, each with a new probe. In each, all three programs work for about a second.
const ROUNDS: u32 = 8;
const TURNS: u32 = 100;
const SECONDS: u32 = 1;
const CONCURRENCY: u32 = 16;
/// Size of the body, bytes.
const BODY: usize = 1024;

/// Maximum time of a request relative to wrk's: 0.9 of its rate.
const WRK_AT_MOST: f64 = 1.0 / 0.9;

pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::tempdir()?;
    let [near, far] = cpus()?;
    let nginx = Nginx::start(dir.path(), far)?;
    let settings = json!({"workload": "http", "url": nginx.url, "concurrency": CONCURRENCY});
    let mut probe = Probe::start(binary, dir.path(), &settings, 1)?;
    let programs: [(&str, &[&str], f64); 2] = [
        ("wrk", &["-t1", "-d"], WRK_AT_MOST),
        ("ab", &["-k", "-q", "-n", "100000000", "-t"], 1.0),
    ];
    let mut pairs = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        probe.restart()?;
        probe.begin()?;
        for (n, ((name, args, _), pairs)) in (0..).zip(programs.iter().zip(&mut pairs)) {
            // The order alternates, so that a drift of the machine's clock favours neither.
            let (us, them) = if round.is_multiple_of(2) {
                let us = ours(&mut probe, n * TURNS)?;
                (us, theirs(name, args, near, &nginx.url)?)
            } else {
                let them = theirs(name, args, near, &nginx.url)?;
                (ours(&mut probe, n * TURNS)?, them)
            };
            pairs.push(Pair::new((0, round), us, them));
        }
    }
    let claim = |((name, _, at_most), pairs): (&(&str, &[&str], f64), &Vec<Pair>)| {
        let ratio = compare(pairs, 0.95, 1).ok_or_else(|| anyhow!("too few rounds"))?;
        Ok(Claim {
            what: format!("time of a GET, {CONCURRENCY} kept connections / {name}'s, same nginx"),
            value: ratio.ratio,
            interval: ratio.ratio_interval.map(|i| (i.low, i.high)),
            at_most: Some(*at_most),
        })
    };
    programs.iter().zip(&pairs).map(claim).collect()
}

/// Time of a request over all connections, ns.
fn ours(probe: &mut Probe, first: u32) -> Result<f64> {
    let mut ln = Vec::new();
    for turn in 0..TURNS {
        let turn = probe.turned(first + turn, TURN.1, TURN.0)?.0;
        ln.push((turn.elapsed_ns as f64 / turn.ops as f64).ln());
    }
    trimmed_mean(&ln).map(f64::exp).context("no turn")
}

/// Time of a request in another program, ns, from the line with its rate.
fn theirs(name: &str, args: &[&str], cpu: usize, url: &str) -> Result<f64> {
    let output = Command::new("taskset")
        .args(["-c", &cpu.to_string(), name])
        .args(args)
        .args([SECONDS.to_string(), "-c".into(), CONCURRENCY.to_string()])
        .arg(url)
        .output()
        .with_context(|| format!("{name}: install it: scripts/setup.sh bench"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let line =
        lines.find(|l| l.starts_with("Requests/sec:") || l.starts_with("Requests per second:"));
    let rate = line.and_then(|line| {
        let mut words = line.split_whitespace();
        words.find_map(|word| word.parse::<f64>().ok())
    });
    match rate {
        Some(rate) if rate > 0.0 => Ok(1e9 / rate),
        _ => bail!(
            "{name} said no rate: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

/// nginx with one process on one CPU.
struct Nginx {
    process: Child,
    url: String,
}

impl Nginx {
    fn start(dir: &Path, cpu: usize) -> Result<Self> {
        let at = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let www = dir.join("www");
        fs::create_dir(&www)?;
        fs::write(www.join("page"), vec![b'x'; BODY])?;
        let text = format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr;
events {{ worker_connections 1024; }}
http {{
  access_log off; default_type application/octet-stream; sendfile on; tcp_nopush on;
  keepalive_timeout 3600s; keepalive_requests 1000000000;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  server {{ listen {at}; root www; }}
}}
"
        );
        fs::write(dir.join("nginx.conf"), text)?;
        let process = Command::new("taskset")
            .args(["-c", &cpu.to_string(), "nginx", "-e", "stderr", "-p"])
            .arg(dir)
            .args(["-c", "nginx.conf"])
            .stdout(Stdio::null())
            .spawn()
            .context("nginx: install it: scripts/setup.sh bench")?;
        let nginx = Self {
            process,
            url: format!("http://{at}/page"),
        };
        for _ in 0..100 {
            if TcpStream::connect(at).is_ok() {
                return Ok(nginx);
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("nginx does not listen at {at}")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
