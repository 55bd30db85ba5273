//! The scripted probe's end of the connection.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    thread,
    time::Duration,
};

use layermark_model::{
    CpuUse, Pass, Quantity, SelfTest, Trial, Turn,
    protocol::{FromProbe, Job, MAX_LINE, ToProbe, Turned, VERSION},
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::scripted::say;

/// Behaviour of the scripted probe.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) ns: f64,
    pub(crate) noise: f64,
    pub(crate) step: Option<(u64, f64)>,
    pub(crate) take: Duration,
    pub(crate) die_after: Option<u64>,
    pub(crate) rubbish_after: Option<u64>,
    pub(crate) silent_after: Option<u64>,
    pub(crate) error_after: Option<u64>,
    pub(crate) protocol: Option<u64>,
}

impl Script {
    /// Value of the trial with this number (from 0), ns per operation.
    fn value(&self, trial: u64, seed: u64) -> f64 {
        let factor = match self.step {
            Some((at, factor)) if trial >= at => factor,
            _ => 1.0,
        };
        self.ns * factor * (self.noise * normal(seed, trial)).exp()
    }
}

/// A standard normal deviate: the sum of twelve uniform ones, less six.
fn normal(seed: u64, trial: u64) -> f64 {
    let sum: f64 = (0..12u64)
        .map(|n| {
            let bytes = [trial.to_le_bytes(), n.to_le_bytes()].concat();
            (xxh3_64_with_seed(&bytes, seed) >> 11) as f64 / (1u64 << 53) as f64
        })
        .sum();
    sum - 6.0
}

/// Speaks the protocol until its input ends. Returns how the probe ended, in words.
pub(crate) fn serve(script: &Script, input: impl Read, output: impl Write) -> String {
    match speak(script, BufReader::new(input), output) {
        Ok(how) => how.into(),
        Err(e) => format!("exit code 1 ({e})"),
    }
}

fn speak(
    script: &Script,
    mut input: impl BufRead,
    mut out: impl Write,
) -> io::Result<&'static str> {
    say(&mut out, &hello(script))?;
    let mut job: Option<(Box<Job>, Trial)> = None;
    let mut done = 0;
    while let Some(line) = read_line(&mut input)? {
        let said = serde_json::from_str(&line).map_err(io::Error::other)?;
        match said {
            ToProbe::Job(new) => {
                say(&mut out, &FromProbe::Ready { id: new.id })?;
                job = Some((new, Trial::default()));
            }
            ToProbe::Serve(job) => return Err(not_ready("serve", job.id)),
            ToProbe::Quit => {
                say(&mut out, &FromProbe::Done)?;
                return Ok("exit code 0");
            }
            ToProbe::Turn { id, ask } => {
                let Some((job, trial)) = job.as_mut().filter(|(j, _)| j.id == id) else {
                    return Err(not_ready("turn", id));
                };
                if trial.passes.is_empty() && script.die_after == Some(done) {
                    return Ok("exit code 101");
                }
                let turn = Asked {
                    round: ask.round,
                    ns: ask.ns,
                    number: done,
                };
                if script.error_after == Some(done) && trial.passes.is_empty() {
                    fail(script, id, &mut out)?;
                    done += 1;
                } else {
                    take(script, job, trial, turn, &mut input, &mut out)?;
                }
            }
            ToProbe::Settle { id } if job.as_ref().is_some_and(|(j, _)| j.id == id) => {
                say(&mut out, &FromProbe::Settled { id })?;
            }
            ToProbe::End { id } => {
                let Some((_, trial)) = job.take().filter(|(j, _)| j.id == id) else {
                    return Err(not_ready("end", id));
                };
                let trial = Box::new(trial);
                say(&mut out, &FromProbe::Trial { id, trial })?;
                done += 1;
            }
            ToProbe::Settle { id } | ToProbe::Between { id, .. } | ToProbe::Write { id } => {
                return Err(not_ready("settle", id));
            }
            ToProbe::Witness(job) | ToProbe::Look(job) => {
                return Err(not_ready("witness", job.id));
            }
        }
    }
    Ok("exit code 0")
}

fn not_ready(what: &str, id: u64) -> io::Error {
    io::Error::other(format!("{what} for job {id}, which is not ready"))
}

fn hello(script: &Script) -> FromProbe {
    FromProbe::Hello {
        protocol: script.protocol.map_or(VERSION, |p| p as u32),
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        self_test: SelfTest {
            clock_ns: 20.0,
            loop_ns: 30.0,
            null_ns: 35.0,
            ..SelfTest::default()
        },
    }
}

/// A turn of the trial with this number.
#[derive(Clone, Copy)]
struct Asked {
    round: u32,
    ns: u64,
    number: u64,
}

fn fail(script: &Script, id: u64, out: &mut impl Write) -> io::Result<()> {
    wait(script, id, out)?;
    let error = FromProbe::Error {
        id: Some(id),
        message: "an error, as the mock was asked to".into(),
        hint: Some("use another layer".into()),
        errno: Some(libc::EIO),
    };
    say(out, &error)
}

/// Runs a turn. The script's failure, if any, happens in the first turn of the trial.
fn take(
    script: &Script,
    job: &Job,
    trial: &mut Trial,
    Asked { round, ns, number }: Asked,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<()> {
    let first = trial.passes.is_empty();
    if first && script.silent_after == Some(number) {
        // Until the lab has given up and closes its end.
        io::copy(input, &mut io::sink())?;
        return Ok(());
    }
    if first && script.rubbish_after == Some(number) {
        out.write_all(b"rubbish, as the mock was asked to\n")?;
        return out.flush();
    }
    if first {
        wait(script, job.id, out)?;
    }
    let turn = Turn {
        round,
        ..work(script, job, number, ns)
    };
    let cpu = CpuUse {
        user_ns: turn.elapsed_ns / 4,
        sys_ns: turn.elapsed_ns / 2,
    };
    if first {
        let cold = job.point.meaning.is_cold();
        trial.resident = Some(if cold { 0.0 } else { 1.0 });
        trial.passes.push(Pass::default());
    }
    let sum = &mut trial.passes[0];
    sum.elapsed_ns += turn.elapsed_ns;
    sum.ops += turn.ops;
    sum.bytes += turn.bytes;
    trial.cpu.user_ns += cpu.user_ns;
    trial.cpu.sys_ns += cpu.sys_ns;
    if ns > 0 {
        trial.turns.push(turn);
    }
    let turned = FromProbe::Turned {
        id: job.id,
        turned: Turned {
            turn,
            cpu,
            more: ns > 0,
            ..Turned::default()
        },
        probe_ns: cpu.user_ns + cpu.sys_ns,
    };
    say(out, &turned)
}

fn wait(script: &Script, id: u64, out: &mut impl Write) -> io::Result<()> {
    const BEAT: Duration = Duration::from_millis(200);
    let mut left = script.take;
    while !left.is_zero() {
        let nap = left.min(BEAT);
        thread::sleep(nap);
        left -= nap;
        if !left.is_zero() {
            say(
                out,
                &FromProbe::Progress {
                    id,
                    ops: 0,
                    bytes: 0,
                },
            )?;
        }
    }
    Ok(())
}

/// Operations in this many nanoseconds; 0: in a whole trial.
fn work(script: &Script, job: &Job, number: u64, length_ns: u64) -> Turn {
    let ns = script.value(number, job.seed).max(1e-3);
    let (least_ns, least_ops) = match length_ns {
        0 => (job.min_ms * 1_000_000, job.min_ops),
        length => (length, 1),
    };
    let ops = least_ops.max((least_ns as f64 / ns).ceil() as u64).max(1);
    let record = job.point.meaning.value(Quantity::RequestSize);
    Turn {
        round: 0,
        elapsed_ns: (ops as f64 * ns).round().max(1.0) as u64,
        ops,
        bytes: ops.saturating_mul(record.unwrap_or(4096)),
        ..Turn::default()
    }
}

fn read_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    let got = input.by_ref().take(MAX_LINE as u64).read_line(&mut line)?;
    Ok((got > 0).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::protocol::TurnRequest;

    fn run(script: &Script, jobs: u64) -> (Vec<String>, String) {
        let mut input = String::new();
        for id in 0..jobs {
            let point = layermark_model::Point {
                workload: "file".into(),
                label: "x".into(),
                params: serde_json::Map::new(),
                meaning: layermark_model::Meaning::default(),
                needs: std::sync::Arc::default(),
            };
            let job = Job {
                id,
                dir: "/".into(),
                point,
                seed: 7,
                min_ms: 50,
                min_ops: 200,
                devices: Vec::new(),
                cpus: None,
                below: Vec::new(),
                peer: None,
                env: layermark_model::Environment::new(),
            };
            let turn = |round| ToProbe::Turn {
                id,
                ask: TurnRequest {
                    round,
                    ns: 2_000_000,
                    lead_in_ns: 0,
                },
            };
            for message in [
                ToProbe::Job(Box::new(job)),
                turn(0),
                turn(1),
                ToProbe::Settle { id },
                ToProbe::End { id },
            ] {
                input += &(serde_json::to_string(&message).unwrap() + "\n");
            }
        }
        let mut out = Vec::new();
        let how = serve(script, input.as_bytes(), &mut out);
        let lines = String::from_utf8(out)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        (lines, how)
    }

    fn script() -> Script {
        Script {
            ns: 1200.0,
            noise: 0.0,
            step: Some((2, 1.5)),
            take: Duration::ZERO,
            die_after: None,
            rubbish_after: None,
            silent_after: None,
            error_after: None,
            protocol: None,
        }
    }

    fn values(lines: &[String]) -> Vec<f64> {
        lines
            .iter()
            .filter_map(|l| match serde_json::from_str(l) {
                Ok(FromProbe::Trial { trial, .. }) => trial.ns_per_op(),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn answers_exactly_and_steps() {
        let (lines, how) = run(&script(), 3);
        let got = values(&lines);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
        assert!(
            near(got[0], 1200.0) && near(got[1], 1200.0) && near(got[2], 1800.0),
            "{got:?}"
        );
        assert_eq!(how, "exit code 0");
    }

    #[test]
    fn noise_has_the_width_that_was_asked_for() {
        let noisy = Script {
            noise: 0.05,
            step: None,
            ..script()
        };
        let logs: Vec<f64> = (0..4000)
            .map(|n| (noisy.value(n, 3) / 1200.0).ln())
            .collect();
        let mean = logs.iter().sum::<f64>() / 4000.0;
        let sd = (logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / 3999.0).sqrt();
        assert!(
            mean.abs() < 0.004 && (sd - 0.05).abs() < 0.003,
            "{mean} {sd}"
        );
    }

    #[test]
    fn fails_in_the_trial_it_was_asked_to() {
        let dies = Script {
            die_after: Some(1),
            ..script()
        };
        let (lines, how) = run(&dies, 3);
        assert_eq!((values(&lines).len(), how.as_str()), (1, "exit code 101"));
        let rubbish = Script {
            rubbish_after: Some(0),
            ..script()
        };
        assert!(run(&rubbish, 1).0[2].starts_with("rubbish"));
        let silent = Script {
            silent_after: Some(0),
            ..script()
        };
        assert_eq!(run(&silent, 1).0.len(), 2);
    }
}
