//! `net` on the loopback, in turn with other programs on the same CPUs. Streams are compared with
//! iperf3, transactions with a bare loop in C, and turns with one long stretch.

use std::{
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use layermark_stats::{Pair, compare, trimmed_mean};
use serde_json::{Value, json};

use crate::{
    c_loop::{self, Loop},
    probe::Probe,
    results::Claim,
};

/// Duration of a turn and of its uncounted lead-in, nanoseconds, as in the lab.
const TURN: (u64, u64) = (10_000_000, 1_000_000);
/// Number of rounds, each with new processes on both sides.
const ROUNDS: u32 = 12;
/// Number of turns of either in a round.
const TURNS: u32 = 20;
/// Duration of a run of iperf3, s. It cannot take turns, so it is compared with turns of the same
/// total duration.
const IPERF_SECONDS: u32 = 1;
const STREAM_TURNS: u32 = 100;
/// Duration of one long turn that is compared with many short ones, ns.
const LONG_NS: u64 = 500_000_000;

/// Maximum time of a transaction relative to the C loop's: 0.98 of its rate.
const RR_AT_MOST: f64 = 1.0 / 0.98;
/// Maximum ratio between turns and a long stretch.
const TURNS_AT_MOST: f64 = 1.02;

pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let dir = tempfile::tempdir()?;
    let cpus = cpus()?;
    let c = c_loop::build(dir.path(), "rr")?;
    let rr = |round: u32, probe: &mut Probe| {
        let mut c = Loop::start(Command::new(&c).args(cpus.map(|cpu| cpu.to_string())))?;
        let (mut us, mut them) = (Vec::new(), Vec::new());
        for turn in 0..TURNS {
            // The order alternates, so that a drift of the machine's clock favours neither.
            if (round + turn).is_multiple_of(2) {
                us.push(ours(probe, turn, TURN.0)?.0);
                them.push(c.turn(TURN, "wall_ns=")?);
            } else {
                them.push(c.turn(TURN, "wall_ns=")?);
                us.push(ours(probe, turn, TURN.0)?.0);
            }
        }
        pair(round, &us, &them)
    };
    let iperf = |round: u32, probe: &mut Probe| {
        let mut stream = || {
            let each = (0..STREAM_TURNS).map(|turn| Ok(ours(probe, turn, TURN.0)?.1));
            each.collect::<Result<Vec<f64>>>()
        };
        let (us, them) = if round.is_multiple_of(2) {
            (stream()?, iperf3(cpus)?)
        } else {
            let them = iperf3(cpus)?;
            (stream()?, them)
        };
        pair(round, &us, &[them])
    };
    let mut claims = vec![
        claim(
            binary,
            dir.path(),
            "rr",
            RR_AT_MOST,
            "time of a TCP transaction / a bare loop in C",
            rr,
        )?,
        claim(
            binary,
            dir.path(),
            "stream",
            1.0,
            "time of a byte in a TCP stream / iperf3's",
            iperf,
        )?,
    ];
    for op in ["stream", "maerts", "rr"] {
        let what = format!("{op}: in turns of 10 ms / in one of 500 ms");
        claims.push(claim(
            binary,
            dir.path(),
            op,
            TURNS_AT_MOST,
            &what,
            in_turns,
        )?);
    }
    Ok(claims)
}

/// Many short turns, and a long one of the same total duration.
fn in_turns(round: u32, probe: &mut Probe) -> Result<Pair> {
    let many = (LONG_NS / TURN.0) as u32;
    let (mut short, mut long) = (Vec::new(), Vec::new());
    // Half of them before the long turn, half after it.
    for turn in 0..many / 2 {
        short.push(ours(probe, turn, TURN.0)?.0);
    }
    long.push(ours(probe, many, LONG_NS)?.0);
    for turn in 0..many / 2 {
        short.push(ours(probe, many + 1 + turn, TURN.0)?.0);
    }
    pair(round, &short, &long)
}

/// Compares two probes in rounds. Each round starts new ones.
fn claim(
    binary: &Path,
    dir: &Path,
    op: &str,
    at_most: f64,
    what: &str,
    mut round: impl FnMut(u32, &mut Probe) -> Result<Pair>,
) -> Result<Claim> {
    let settings = json!({"workload": "net", "op": op});
    let mut probe = Probe::start(binary, dir, &settings, 1)?;
    let mut pairs = Vec::new();
    for number in 0..ROUNDS {
        probe.restart()?;
        probe.serve()?;
        probe.begin()?;
        pairs.push(round(number, &mut probe)?);
    }
    let ratio = compare(&pairs, 0.95, 1).ok_or_else(|| anyhow!("too few rounds"))?;
    Ok(Claim {
        what: what.into(),
        value: ratio.ratio,
        interval: ratio.ratio_interval.map(|i| (i.low, i.high)),
        at_most: Some(at_most),
    })
}

fn pair(round: u32, us: &[f64], them: &[f64]) -> Result<Pair> {
    let middle = |all: &[f64]| {
        let ln: Vec<f64> = all.iter().map(|ns| ns.ln()).collect();
        trimmed_mean(&ln).map(f64::exp).context("no turn")
    };
    Ok(Pair::new((0, round), middle(us)?, middle(them)?))
}

/// Time per operation and per byte, ns.
fn ours(probe: &mut Probe, turn: u32, ns: u64) -> Result<(f64, f64)> {
    let turn = probe.turned(turn, TURN.1, ns)?.0;
    let elapsed = turn.elapsed_ns as f64;
    Ok((elapsed / turn.ops as f64, elapsed / turn.bytes as f64))
}

/// The CPUs that `placement = other` takes: the first, and the last.
pub fn cpus() -> Result<[usize; 2]> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let first = cpus.next().context("no CPU")?;
    Ok([first, cpus.next_back().unwrap_or(first)])
}

/// Time per byte in a run of iperf3, as received by its server, ns.
fn iperf3([near, far]: [usize; 2]) -> Result<f64> {
    let free = TcpListener::bind(("127.0.0.1", 0))?
        .local_addr()?
        .port()
        .to_string();
    let mut server = Command::new("iperf3")
        .args([
            "-s",
            "-1",
            "-B",
            "127.0.0.1",
            "-p",
            &free,
            "-A",
            &far.to_string(),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("iperf3: install it: scripts/setup.sh bench")?;
    let client = || {
        Command::new("iperf3")
            .args(["-c", "127.0.0.1", "-p", &free, "-J", "-t"])
            .args([IPERF_SECONDS.to_string(), "-A".into(), near.to_string()])
            .output()
    };
    // It listens a moment after its start.
    for _ in 0..50 {
        thread::sleep(Duration::from_millis(20));
        let output = client()?;
        if !output.status.success() {
            continue;
        }
        server.wait()?;
        let report: Value = serde_json::from_slice(&output.stdout)?;
        let bits = &report["end"]["sum_received"]["bits_per_second"];
        return Ok(8e9 / bits.as_f64().context("iperf3 said no rate")?);
    }
    server.kill()?;
    server.wait()?;
    bail!("iperf3 could not be run on the loopback")
}
