//! `ftp` on the loopback, in turn with curl on the same vsftpd.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, anyhow, bail};
use layermark_model::protocol::Peer;
use layermark_stats::{Pair, compare, trimmed_mean};
use serde_json::{Value, json};

use crate::{probe::Probe, results::Claim};

/// Duration of a turn and of its uncounted lead-in, nanoseconds, as in the lab.
const TURN: (u64, u64) = (10_000_000, 1_000_000);
/// Number of rounds, each with new processes on all sides.
const ROUNDS: u32 = 12;
/// Number of turns per round, in two halves before and after curl.
const TURNS: u32 = 20;
/// Number of files that one curl gets over one connection.
const FILES: usize = 20;

pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    ["1M", "16M"]
        .map(|size| claim(binary, size))
        .into_iter()
        .collect()
}

fn claim(binary: &Path, size: &str) -> Result<Claim> {
    let dir = tempfile::tempdir()?;
    let settings = json!({"workload": "ftp", "op": "get", "file_size": size, "server": "vsftpd"});
    let mut probe = Probe::start(binary, dir.path(), &settings, 1)?;
    let mut pairs = Vec::new();
    for round in 0..ROUNDS {
        probe.restart()?;
        probe.serve()?;
        probe.begin()?;
        let account = Account::of(&probe)?;
        let (mut us, mut them) = (Vec::new(), Vec::new());
        let mut turns = |from: u32| -> Result<()> {
            for turn in from..from + TURNS / 2 {
                let done = probe.turned(turn, TURN.1, TURN.0)?.0;
                us.push(done.elapsed_ns as f64 / done.ops as f64);
            }
            Ok(())
        };
        turns(0)?;
        them.extend(account.curl()?);
        turns(TURNS)?;
        pairs.push(Pair::new((0, round), middle(&us)?, middle(&them)?));
    }
    let ratio = compare(&pairs, 0.95, 1).ok_or_else(|| anyhow!("too few rounds"))?;
    Ok(Claim {
        what: format!("time to get a file of {size} over FTP / curl's, same vsftpd"),
        value: ratio.ratio,
        interval: ratio.ratio_interval.map(|i| (i.low, i.high)),
        at_most: Some(1.0),
    })
}

fn middle(all: &[f64]) -> Result<f64> {
    let ln: Vec<f64> = all.iter().map(|ns| ns.ln()).collect();
    trimmed_mean(&ln).map(f64::exp).context("no transfer")
}

/// Login data of curl.
struct Account {
    port: u64,
    user: String,
    password: String,
    folder: String,
}

impl Account {
    /// Requests it from the far end as another near end.
    fn of(probe: &Probe) -> Result<Self> {
        let Peer { port, secret, .. } = probe.peer().context("no far end")?;
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port))?;
        let params = &probe.point().params;
        let hello = json!({"ftp": "control", "version": 1, "secret": secret, "params": params});
        writeln!(stream, "{hello}")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        let welcome: Value = serde_json::from_str(&line)?;
        let text = |key: &str| welcome[key].as_str().map(str::to_owned);
        Ok(Self {
            port: welcome["port"].as_u64().context("no port")?,
            user: text("user").context("no user")?,
            password: text("token").context("no password")?,
            folder: text("folder").context("no folder")?,
        })
    }

    /// Time of each file, ns. The first one, with connection and login, is left out.
    fn curl(&self) -> Result<Vec<f64>> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--config", "-"]);
        curl.args(["--write-out", "%{time_total}\n"]);
        let url = format!("ftp://127.0.0.1:{}/{}file", self.port, self.folder);
        for _ in 0..=FILES {
            curl.args(["--output", "/dev/null", &url]);
        }
        let mut curl = curl
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("curl: install it: scripts/setup.sh bench")?;
        let mut input = curl.stdin.take().context("no input")?;
        // Not on the command line, which every user can read.
        writeln!(input, "user = {}:{}", self.user, self.password)?;
        drop(input);
        let done = curl.wait_with_output()?;
        if !done.status.success() {
            bail!("curl ended with {}", done.status);
        }
        let text = String::from_utf8(done.stdout)?;
        let seconds = text.lines().skip(1).map(str::parse::<f64>);
        let ns = seconds.map(|s| Ok(s? * 1e9));
        ns.collect()
    }
}
