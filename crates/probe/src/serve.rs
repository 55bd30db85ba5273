//! The probe's main loop: `hello`, then for each job `ready`, for each `turn` `turned`, after
//! `settle` `settled`, and after `end` its `trial`.

use std::{
    io::{self, BufRead, Write},
    os::fd::{AsFd, AsRawFd},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use layermark_model::{
    Trial, nearest,
    protocol::{FromProbe, Job, MAX_LINE, ToProbe, VERSION},
};

use crate::{
    Ask, Context, ProbeError, Turned, Work, error::panicked, heartbeat::Heartbeat, motion::Disks,
    selftest, usage, workloads,
};

/// Characters of an unreadable line that are shown.
const SHOWN: usize = 200;

/// Serves jobs until `quit` or the end of `input`. Returns an error when the output fails, because
/// the lab has gone, or when the heartbeat thread cannot be started. Bad lines and failed jobs are
/// reported, and the probe continues.
pub fn serve(input: impl BufRead, output: impl Write + AsFd + Send) -> io::Result<()> {
    let fd = output.as_fd().as_raw_fd();
    let output = Mutex::new(output);
    thread::scope(|scope| {
        let heartbeat = Heartbeat::start(scope, &output, Some(fd))?;
        obey(input, Server::new(&output, heartbeat))
    })
}

fn obey<W: Write>(input: impl BufRead, mut server: Server<'_, W>) -> io::Result<()> {
    let self_test = selftest::self_test();
    let version = env!("CARGO_PKG_VERSION").into();
    server.say(&FromProbe::Hello {
        protocol: VERSION,
        version,
        pid: std::process::id(),
        self_test,
    })?;
    let mut lines = BoundedLines {
        input,
        line: Vec::new(),
    };
    loop {
        match lines.next()? {
            JobLine::End => break,
            JobLine::TooLong => server.complain(
                &lines.line,
                &format!("a line may have up to {MAX_LINE} bytes"),
            )?,
            JobLine::Complete => match serde_json::from_slice(&lines.line) {
                Ok(ToProbe::Quit) => break,
                Ok(ToProbe::Job(job)) => server.prepare(&job)?,
                Ok(ToProbe::Turn {
                    id,
                    round,
                    ns,
                    lead_in_ns,
                }) => {
                    let ask = Ask {
                        round,
                        ns,
                        lead_in_ns,
                    };
                    server.turn(id, &ask)?;
                }
                Ok(ToProbe::Settle { id }) => server.settle(id)?,
                Ok(ToProbe::End { id }) => server.end(id)?,
                Err(_) if lines.line.iter().all(u8::is_ascii_whitespace) => {}
                Err(e) => server.complain(&lines.line, &e.to_string())?,
            },
        }
    }
    server.drop_ready()?;
    // The lab may have closed its end too; nobody is left to receive it.
    let _ = server.say(&FromProbe::Done);
    Ok(())
}

enum JobLine {
    Complete,
    /// `line` holds its beginning; the rest was skipped.
    TooLong,
    End,
}

/// BoundedLines of bounded length.
struct BoundedLines<R> {
    input: R,
    line: Vec<u8>,
}

impl<R: BufRead> BoundedLines<R> {
    fn next(&mut self) -> io::Result<JobLine> {
        self.line.clear();
        let mut too_long = false;
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if bytes.is_empty() {
                // A last line without a line end was cut off. It is ignored.
                return Ok(JobLine::End);
            }
            let end = bytes.iter().position(|b| *b == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            too_long |= self.line.len() + part.len() > MAX_LINE;
            if too_long {
                self.line.truncate(SHOWN * 4);
            } else {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(if too_long {
                    JobLine::TooLong
                } else {
                    JobLine::Complete
                });
            }
        }
    }
}

struct Server<'env, W> {
    output: &'env Mutex<W>,
    heartbeat: Heartbeat,
    ready: Option<PreparedJob>,
}

/// A prepared job, and its results so far.
struct PreparedJob {
    id: u64,
    work: Box<dyn Work>,
    trial: Trial,
    /// The last round it had a turn in.
    round: Option<u32>,
    settled: bool,
}

impl PreparedJob {
    fn new(id: u64, work: Box<dyn Work>) -> Self {
        Self {
            id,
            work,
            trial: Trial::default(),
            round: None,
            settled: false,
        }
    }
}

/// A whole line at once: the heartbeat thread writes too.
pub fn say(output: &Mutex<impl Write>, event: &FromProbe) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    output.write_all(&line)?;
    output.flush()
}

impl<'env, W: Write> Server<'env, W> {
    fn new(output: &'env Mutex<W>, heartbeat: Heartbeat) -> Self {
        Self {
            output,
            heartbeat,
            ready: None,
        }
    }

    fn say(&self, event: &FromProbe) -> io::Result<()> {
        say(self.output, event)
    }

    fn fail(&mut self, id: Option<u64>, error: ProbeError) -> io::Result<()> {
        let ProbeError {
            message,
            hint,
            errno,
        } = error;
        self.say(&FromProbe::Error {
            id,
            message,
            hint,
            errno,
        })
    }

    fn complain(&mut self, line: &[u8], why: &str) -> io::Result<()> {
        let text = String::from_utf8_lossy(line);
        // A job's last field may hold secrets.
        let text = text.split("\"env\":{").next().unwrap_or_default();
        let shown: String = text.chars().take(SHOWN).collect();
        let more = if text.chars().nth(SHOWN).is_some() {
            "..."
        } else {
            ""
        };
        self.fail(
            None,
            ProbeError::new(format!(
                "the probe was sent a line it cannot read: {why}: {shown:?}{more}"
            )),
        )
    }

    /// Runs unmeasured work that may take long, with a heartbeat.
    fn attended<T>(
        &mut self,
        id: u64,
        what: impl FnOnce() -> Result<T, ProbeError>,
    ) -> Result<T, ProbeError> {
        self.heartbeat.begin(id);
        let done = catch_unwind(AssertUnwindSafe(what));
        self.heartbeat.end();
        done.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
    }

    /// Drops a prepared job that did not finish.
    fn drop_ready(&mut self) -> io::Result<()> {
        let Some(PreparedJob { id, work, .. }) = self.ready.take() else {
            return Ok(());
        };
        match self.attended(id, move || {
            drop(work);
            Ok(())
        }) {
            Ok(()) => Ok(()),
            Err(e) => self.fail(Some(id), e),
        }
    }

    /// Reports a job's error and drops the job. Its files are removed before the lab hears of it.
    fn give_up(&mut self, id: u64, error: ProbeError) -> io::Result<()> {
        self.drop_ready()?;
        self.fail(Some(id), error)
    }

    fn prepare(&mut self, job: &Job) -> io::Result<()> {
        self.drop_ready()?;
        let disks = Disks::below(Path::new(&job.dir), &job.devices);
        self.heartbeat.above(disks);
        match self.attended(job.id, || prepare(job)) {
            Ok(work) => {
                self.ready = Some(PreparedJob::new(job.id, work));
                self.say(&FromProbe::Ready { id: job.id })
            }
            Err(e) => self.fail(Some(job.id), e),
        }
    }

    /// The prepared job, if its id matches and `may` does not object.
    fn meant(
        &mut self,
        what: &str,
        id: u64,
        may: impl FnOnce(&PreparedJob) -> Result<(), &'static str>,
    ) -> Result<&mut PreparedJob, ProbeError> {
        let ready = self.ready.as_mut().filter(|ready| ready.id == id);
        let Some(ready) = ready else {
            return Err(ProbeError::new(format!(
                "{what} for job {id}, which is not ready"
            )));
        };
        match may(ready) {
            Ok(()) => Ok(ready),
            Err(why) => Err(ProbeError::new(format!("{what} for job {id}, {why}"))),
        }
    }

    /// The measured part, in this thread alone.
    fn turn(&mut self, id: u64, ask: &Ask) -> io::Result<()> {
        let output = self.output;
        let ready = self.meant(&format!("turn {}", ask.round), id, |ready| {
            if ready.settled {
                Err("which is settled")
            } else if ready.round.is_some_and(|last| ask.round <= last) {
                Err("which had a turn of that round or a later one")
            } else {
                Ok(())
            }
        });
        let ready = match ready {
            Ok(ready) => ready,
            Err(e) => return self.fail(Some(id), e),
        };
        ready.round = Some(ask.round);
        let cpu_ns = || {
            let cpu = usage::now().cpu;
            cpu.user_ns + cpu.sys_ns
        };
        let before_ns = cpu_ns();
        let PreparedJob { work, trial, .. } = ready;
        let turned = catch_unwind(AssertUnwindSafe(|| {
            work.turn(ask, trial, &mut |ops, bytes| {
                let _ = say(output, &FromProbe::Progress { id, ops, bytes });
            })
        }))
        .unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
        match turned {
            Ok(Turned {
                turn,
                cpu,
                device,
                uncounted_ns,
                more,
            }) => self.say(&FromProbe::Turned {
                id,
                turn,
                cpu,
                probe_ns: cpu_ns().saturating_sub(before_ns),
                uncounted_ns,
                device,
                more,
            }),
            Err(e) => self.give_up(id, e),
        }
    }

    fn settle(&mut self, id: u64) -> io::Result<()> {
        let settles = |ready: &PreparedJob| match ready {
            PreparedJob { round: None, .. } => Err("which had no turn"),
            PreparedJob { settled: true, .. } => Err("which is settled"),
            _ => Ok(()),
        };
        if let Err(e) = self.meant("settle", id, settles) {
            return self.fail(Some(id), e);
        }
        let Some(mut ready) = self.ready.take() else {
            return Ok(());
        };
        let settled = self.attended(id, || ready.work.settle(&mut ready.trial));
        ready.settled = true;
        self.ready = Some(ready);
        match settled {
            Ok(()) => self.say(&FromProbe::Settled { id }),
            Err(e) => self.give_up(id, e),
        }
    }

    /// Proof and clean-up. Nothing of the trial is in flight any more when the lab gets its result.
    fn end(&mut self, id: u64) -> io::Result<()> {
        let settled = |ready: &PreparedJob| {
            let settled = ready.settled;
            settled.then_some(()).ok_or("which is not settled")
        };
        if let Err(e) = self.meant("end", id, settled) {
            return self.fail(Some(id), e);
        }
        let Some(PreparedJob {
            mut work,
            mut trial,
            ..
        }) = self.ready.take()
        else {
            return Ok(());
        };
        let ended = self.attended(id, move || {
            work.end(&mut trial)?;
            drop(work);
            Ok(trial)
        });
        match ended {
            Ok(trial) => self.say(&FromProbe::Trial {
                id,
                trial: Box::new(trial),
            }),
            Err(e) => self.fail(Some(id), e),
        }
    }
}

fn prepare(job: &Job) -> Result<Box<dyn Work>, ProbeError> {
    let name = &job.point.workload;
    let workload = workloads::find(name).ok_or_else(|| {
        let known: Vec<_> = workloads::ALL.iter().map(|w| w.id()).collect();
        let near = nearest(name, known.iter().copied());
        ProbeError::new(format!("no workload `{name}`")).hint(near.map_or_else(
            || format!("known are {}", known.join(", ")),
            |n| format!("did you mean `{n}`?"),
        ))
    })?;
    let dir = Path::new(&job.dir);
    let found = std::fs::metadata(dir).map_err(|e| ProbeError::io("find", dir, &e))?;
    if !found.is_dir() || !dir.is_absolute() {
        return Err(ProbeError::new(format!(
            "{} is not an absolute path of a directory",
            dir.display()
        )));
    }
    let context = Context {
        seed: job.seed,
        min: Duration::from_millis(job.min_ms),
        min_ops: job.min_ops,
        devices: job.devices.clone(),
        below: job.below.iter().map(Into::into).collect(),
        env: job.env.clone(),
    };
    workload.prepare(dir, &job.point, &context)
}

#[cfg(test)]
mod tests {
    use layermark_model::{CpuUse, Turn};

    use super::*;

    /// Work with a bug in one of its parts.
    struct Buggy(&'static str);

    impl Work for Buggy {
        fn turn(
            &mut self,
            ask: &Ask,
            trial: &mut Trial,
            _: &mut crate::Beat<'_>,
        ) -> Result<Turned, ProbeError> {
            assert!(self.0 != "turn", "in turn");
            let turn = Turn {
                round: ask.round,
                elapsed_ns: 5,
                ops: 1,
                bytes: 0,
            };
            trial.turns.push(turn);
            Ok(Turned {
                turn,
                cpu: CpuUse::default(),
                device: None,
                uncounted_ns: 0,
                more: true,
            })
        }
        fn settle(&mut self, _: &mut Trial) -> Result<(), ProbeError> {
            assert!(self.0 != "settle", "in settle");
            Ok(())
        }
        fn end(&mut self, _: &mut Trial) -> Result<(), ProbeError> {
            assert!(self.0 != "end", "in end");
            Ok(())
        }
    }

    impl Drop for Buggy {
        fn drop(&mut self) {
            assert!(self.0 != "drop" || thread::panicking(), "in drop");
        }
    }

    /// The output of a server while `what` is done with it.
    fn with_server(what: impl FnOnce(&mut Server<'_, Vec<u8>>)) -> Vec<FromProbe> {
        let output = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let heartbeat = Heartbeat::start(scope, &output, None).unwrap();
            what(&mut Server::new(&output, heartbeat));
        });
        let output = output.into_inner().unwrap();
        let lines = output.split(|b| *b == b'\n').filter(|l| !l.is_empty());
        lines.map(|l| serde_json::from_slice(l).unwrap()).collect()
    }

    const ASK: Ask = Ask {
        round: 3,
        ns: 1,
        lead_in_ns: 0,
    };

    fn whole(server: &mut Server<'_, Vec<u8>>, id: u64) {
        server.turn(id, &ASK).unwrap();
        server.settle(id).unwrap();
        server.end(id).unwrap();
    }

    fn complaint(event: &FromProbe) -> &str {
        match event {
            FromProbe::Error { message, .. } => message,
            other => panic!("not an error: {other:?}"),
        }
    }

    #[test]
    fn a_panic_becomes_an_error_and_the_probe_lives_on() {
        for (part, before) in [("turn", 0), ("settle", 1), ("end", 2), ("drop", 2)] {
            let said = with_server(|server| {
                server.ready = Some(PreparedJob::new(1, Box::new(Buggy(part))));
                whole(server, 1);
                server.ready = Some(PreparedJob::new(2, Box::new(Buggy("nowhere"))));
                whole(server, 2);
            });
            assert!(
                complaint(&said[before]).contains(&format!("in {part}")),
                "{said:?}"
            );
            // Requests for a dropped job are refused.
            for refused in &said[before + 1..3] {
                assert!(complaint(refused).contains("not ready"), "{said:?}");
            }
            let [
                _,
                FromProbe::Settled { id: 2 },
                FromProbe::Trial { id: 2, trial },
            ] = &said[3..]
            else {
                panic!("{said:?}")
            };
            assert_eq!(trial.turns.len(), 1);
        }
    }

    #[test]
    fn a_turn_is_taken_once_and_in_its_order_and_by_the_job_that_is_ready() {
        let said = with_server(|server| {
            server.ready = Some(PreparedJob::new(1, Box::new(Buggy("nowhere"))));
            server.settle(1).unwrap();
            server.end(1).unwrap();
            server.turn(2, &ASK).unwrap();
            server.turn(1, &ASK).unwrap();
            server.turn(1, &ASK).unwrap();
            server.turn(1, &Ask { round: 2, ..ASK }).unwrap();
            server.turn(1, &Ask { round: 9, ..ASK }).unwrap();
            server.settle(1).unwrap();
            server.turn(1, &Ask { round: 10, ..ASK }).unwrap();
            server.settle(1).unwrap();
            server.end(1).unwrap();
            server.end(1).unwrap();
        });
        let expected = [
            (0, "settle for job 1, which had no turn"),
            (1, "end for job 1, which is not settled"),
            (2, "turn 3 for job 2, which is not ready"),
            (4, "turn 3 for job 1, which had a turn of that round"),
            (5, "turn 2 for job 1, which had a turn of that round"),
            (8, "turn 10 for job 1, which is settled"),
            (9, "settle for job 1, which is settled"),
            (11, "end for job 1, which is not ready"),
        ];
        for (at, message) in expected {
            assert!(complaint(&said[at]).contains(message), "{said:?}");
        }
        let FromProbe::Trial { trial, .. } = &said[10] else {
            panic!("{said:?}")
        };
        let rounds: Vec<u32> = trial.turns.iter().map(|t| t.round).collect();
        assert_eq!(rounds, [3, 9], "what was refused has left no trace");
    }

    #[test]
    fn what_takes_long_outside_the_clock_is_attended() {
        let said = with_server(|server| {
            let result = server.attended(3, || {
                // Like waiting for a slow disk: a little work now and then.
                for _ in 0..120 {
                    thread::sleep(Duration::from_millis(10));
                }
                Ok(7)
            });
            assert_eq!(result, Ok(7));
        });
        let progress = FromProbe::Progress {
            id: 3,
            ops: 0,
            bytes: 0,
        };
        // The number depends on how busy the machine is.
        assert!(
            !said.is_empty() && said.iter().all(|e| *e == progress),
            "{said:?}"
        );
    }
}
