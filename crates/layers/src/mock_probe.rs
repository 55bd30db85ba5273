//! The script of the `mock` layer's probe.

use std::{io, thread, time::Duration};

use layermark_model::{
    CpuUse, Quantity, SelfTest, Trial, Turn,
    protocol::{FromProbe, Job, TurnRequest, Turned, VERSION},
};

use crate::scripted::{Lab, Next, Script, count, normal};

/// Behaviour of the probe.
#[derive(Debug, Clone)]
pub(crate) struct MockScript {
    pub(crate) ns: f64,
    pub(crate) noise: f64,
    pub(crate) step: Option<(u64, f64)>,
    pub(crate) take: Duration,
    pub(crate) die_after: Option<u64>,
    pub(crate) rubbish_after: Option<u64>,
    pub(crate) silent_after: Option<u64>,
    pub(crate) error_after: Option<u64>,
    pub(crate) protocol: Option<u64>,
    /// Trials that are over.
    pub(crate) done: u64,
}

impl Script for MockScript {
    fn hello(&self) -> FromProbe {
        FromProbe::Hello {
            protocol: self.protocol.map_or(VERSION, |p| p as u32),
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

    /// A failure, if any, happens in the first turn of the trial.
    fn turn(
        &mut self,
        job: &Job,
        trial: &mut Trial,
        ask: TurnRequest,
        lab: &mut Lab<'_>,
    ) -> io::Result<Next> {
        let first = trial.passes.is_empty();
        if first {
            let now = Some(self.done);
            if self.die_after == now {
                return Ok(Next::End("exit code 101"));
            }
            if self.silent_after == now {
                return Ok(Next::Silence);
            }
            if self.rubbish_after == now {
                lab.write("rubbish, as the mock was asked to")?;
                return Ok(Next::Message);
            }
            self.wait(job.id, lab)?;
            if self.error_after == now {
                self.done += 1;
                lab.say(&FromProbe::Error {
                    id: Some(job.id),
                    message: "an error, as the mock was asked to".into(),
                    hint: Some("use another layer".into()),
                    errno: Some(libc::EIO),
                    defect: None,
                })?;
                return Ok(Next::Message);
            }
            let cold = job.point.meaning.is_cold();
            trial.resident = Some(if cold { 0.0 } else { 1.0 });
        }
        let turn = Turn {
            round: ask.round,
            ..self.work(job, ask.ns)
        };
        let cpu = CpuUse {
            user_ns: turn.elapsed_ns / 4,
            sys_ns: turn.elapsed_ns / 2,
        };
        count(trial, turn);
        trial.cpu.user_ns += cpu.user_ns;
        trial.cpu.sys_ns += cpu.sys_ns;
        if ask.ns > 0 {
            trial.turns.push(turn);
        }
        lab.say(&FromProbe::Turned {
            id: job.id,
            turned: Turned {
                turn,
                cpu,
                more: ask.ns > 0,
                ..Turned::default()
            },
            probe_ns: cpu.user_ns + cpu.sys_ns,
        })?;
        Ok(Next::Message)
    }

    fn end(&mut self) {
        self.done += 1;
    }
}

impl MockScript {
    /// Value of the trial with this number (from 0), ns per operation.
    fn value(&self, trial: u64, seed: u64) -> f64 {
        let factor = match self.step {
            Some((at, factor)) if trial >= at => factor,
            _ => 1.0,
        };
        self.ns * factor * (self.noise * normal(seed, trial)).exp()
    }

    /// Takes the time of a trial, with signs of life.
    fn wait(&self, id: u64, lab: &mut Lab<'_>) -> io::Result<()> {
        const BEAT: Duration = Duration::from_millis(200);
        let mut left = self.take;
        while !left.is_zero() {
            let nap = left.min(BEAT);
            thread::sleep(nap);
            left -= nap;
            if !left.is_zero() {
                lab.say(&FromProbe::Progress {
                    id,
                    ops: 0,
                    bytes: 0,
                })?;
            }
        }
        Ok(())
    }

    /// Operations in this many nanoseconds; 0: in a whole trial.
    fn work(&self, job: &Job, length_ns: u64) -> Turn {
        let ns = self.value(self.done, job.seed).max(1e-3);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::serve;
    use layermark_model::protocol::ToProbe;

    fn run(script: &MockScript, jobs: u64) -> (Vec<String>, String) {
        let mut input = String::new();
        for id in 0..jobs {
            let point = layermark_model::Point {
                work: None,
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
        let how = serve(&mut script.clone(), input.as_bytes(), &mut out);
        let lines = String::from_utf8(out)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        (lines, how)
    }

    fn script() -> MockScript {
        MockScript {
            ns: 1200.0,
            noise: 0.0,
            step: Some((2, 1.5)),
            take: Duration::ZERO,
            die_after: None,
            rubbish_after: None,
            silent_after: None,
            error_after: None,
            protocol: None,
            done: 0,
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
        let noisy = MockScript {
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
        let dies = MockScript {
            die_after: Some(1),
            ..script()
        };
        let (lines, how) = run(&dies, 3);
        assert_eq!((values(&lines).len(), how.as_str()), (1, "exit code 101"));
        let rubbish = MockScript {
            rubbish_after: Some(0),
            ..script()
        };
        assert!(run(&rubbish, 1).0[2].starts_with("rubbish"));
        let silent = MockScript {
            silent_after: Some(0),
            ..script()
        };
        assert_eq!(run(&silent, 1).0.len(), 2);
    }
}
