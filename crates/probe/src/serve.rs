//! The probe's main loop: `hello`, then for each job `ready`, for each `turn` `turned`, after
//! `settle` `settled`, and after `end` its `trial`.

use std::{
    collections::BTreeMap,
    env::set_current_dir,
    io::{self, BufRead, Write},
    os::fd::{AsFd, AsRawFd},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Mutex,
    thread,
    time::Duration,
};

use layermark_model::{
    SelfTest, Trial, nearest,
    protocol::{
        FromProbe, Job, MAX_LINE, ProgramAsk, ProgramDid, SequenceAsk, ToProbe, VERSION, WitnessJob,
    },
};

use crate::{
    Context, FarEnd, ProbeError, TurnRequest, Work, Workload,
    cpus::Cpus,
    error::panicked,
    heartbeat::{Heartbeat, say},
    motion::Disks,
    selftest, usage, witness,
    witness::{
        Site, Witness,
        program::{self, Running},
        sequence,
    },
    workloads,
};

mod lines;

use lines::{BoundedLines, JobLine};

/// Number of characters shown of an unreadable line.
const SHOWN: usize = 200;

/// Serves jobs until `quit` or the end of `input`. Returns an error when the output fails, because
/// the lab has gone, or when the heartbeat thread cannot be started. Bad lines and failed jobs are
/// reported, and the probe continues.
pub fn serve(input: impl BufRead, output: impl Write + AsFd + Send) -> io::Result<()> {
    serve_after(selftest::self_test, input, output)
}

/// As [`serve`], for jobs that time nothing, such as looking at what a power cut left. Without the
/// self-test, which takes longer than such a job.
pub fn serve_untimed(input: impl BufRead, output: impl Write + AsFd + Send) -> io::Result<()> {
    serve_after(SelfTest::default, input, output)
}

fn serve_after(
    self_test: fn() -> SelfTest,
    input: impl BufRead,
    output: impl Write + AsFd + Send,
) -> io::Result<()> {
    let fd = output.as_fd().as_raw_fd();
    let output = Mutex::new(output);
    thread::scope(|scope| {
        let heartbeat = Heartbeat::start(scope, &output, Some(fd))?;
        obey(self_test, input, Server::new(&output, heartbeat))
    })
}

fn obey<W: Write>(
    self_test: fn() -> SelfTest,
    input: impl BufRead,
    mut server: Server<'_, W>,
) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION").into();
    server.say(&FromProbe::Hello {
        protocol: VERSION,
        version,
        pid: std::process::id(),
        self_test: self_test(),
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
                Ok(ToProbe::Serve(job)) => server.be_far_end(&job)?,
                Ok(ToProbe::Turn { id, ask }) => server.turn(id, &ask)?,
                Ok(ToProbe::Between { id, again }) => server.between(id, again)?,
                Ok(ToProbe::Settle { id }) => server.settle(id)?,
                Ok(ToProbe::End { id }) => server.end(id)?,
                Ok(ToProbe::Witness(job)) => server.witness(&job)?,
                Ok(ToProbe::Write { id }) => server.write(id)?,
                Ok(ToProbe::Look(job)) => server.look(&job)?,
                Ok(ToProbe::Program { id, ask }) => server.program(id, &ask)?,
                Ok(ToProbe::Sequence { id, ask }) => server.sequence(id, &ask)?,
                Err(_) if lines.line.iter().all(u8::is_ascii_whitespace) => {}
                Err(e) => server.complain(&lines.line, &e.to_string())?,
            },
        }
    }
    server.drop_ready()?;
    // The lab may have closed its end too, so a failure does not matter.
    let _ = server.say(&FromProbe::Done);
    Ok(())
}

struct Server<'env, W> {
    output: &'env Mutex<W>,
    heartbeat: Heartbeat,
    ready: Option<PreparedJob>,
    cpus: Cpus,
    /// The far end that serves another probe, and its job's id.
    far_end: Option<(u64, Box<dyn FarEnd>)>,
    /// Writers of records, by their id.
    witnesses: BTreeMap<u64, Witness>,
    /// Programs that acknowledge items, by their id.
    programs: BTreeMap<u64, Running>,
}

/// A prepared job, with its results so far.
struct PreparedJob {
    id: u64,
    work: Box<dyn Work>,
    trial: Trial,
    /// The last round in which it had a turn.
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

impl<'env, W: Write> Server<'env, W> {
    fn new(output: &'env Mutex<W>, heartbeat: Heartbeat) -> Self {
        Self {
            output,
            heartbeat,
            ready: None,
            cpus: Cpus::of_this_thread(),
            far_end: None,
            witnesses: BTreeMap::new(),
            programs: BTreeMap::new(),
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
            defect,
        } = error;
        self.say(&FromProbe::Error {
            id,
            message,
            hint,
            errno,
            defect,
        })
    }

    fn complain(&mut self, line: &[u8], why: &str) -> io::Result<()> {
        let text = String::from_utf8_lossy(line);
        // A job's last fields may hold secrets.
        let secrets = ["\"peer\":{", "\"env\":{"];
        let text = secrets.iter().fold(&*text, |text, key| {
            text.split(key).next().unwrap_or_default()
        });
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

    /// Starts the far end for another probe.
    fn be_far_end(&mut self, job: &Job) -> io::Result<()> {
        self.drop_ready()?;
        let id = job.id;
        let set = self.cpus.set(job.cpus);
        let started = self.attended(id, || {
            set?;
            let (workload, context) = read(job)?;
            workload.serve(Path::new(&job.dir), &job.point, &context)
        });
        match started {
            Ok(far_end) => {
                let port = far_end.port();
                self.far_end = Some((id, far_end));
                self.say(&FromProbe::Serving { id, port })
            }
            Err(e) => self.fail(Some(id), e),
        }
    }

    /// Ends the far end.
    fn end_far_end(&mut self, id: u64, mut far_end: Box<dyn FarEnd>) -> io::Result<()> {
        let ended = self.attended(id, move || far_end.end());
        match ended {
            Ok(()) => self.say(&FromProbe::Settled { id }),
            Err(e) => self.fail(Some(id), e),
        }
    }

    /// Drops a prepared job that did not finish.
    fn drop_ready(&mut self) -> io::Result<()> {
        self.far_end = None;
        let Some(PreparedJob { id, work, .. }) = self.ready.take() else {
            return Ok(());
        };
        let dropped = self.attended(id, move || {
            drop(work);
            Ok(())
        });
        leave();
        match dropped {
            Ok(()) => Ok(()),
            Err(e) => self.fail(Some(id), e),
        }
    }

    /// Reports a job's error and drops the job. Its files are removed before the report.
    fn give_up(&mut self, id: u64, error: ProbeError) -> io::Result<()> {
        self.drop_ready()?;
        self.fail(Some(id), error)
    }

    fn prepare(&mut self, job: &Job) -> io::Result<()> {
        self.drop_ready()?;
        let disks = Disks::below(Path::new(&job.dir), &job.devices);
        self.heartbeat.above(disks);
        let set = self.cpus.set(job.cpus);
        match self.attended(job.id, || set.and_then(|()| prepare(job))) {
            Ok(work) => {
                self.ready = Some(PreparedJob::new(job.id, work));
                self.say(&FromProbe::Ready { id: job.id })
            }
            Err(e) => {
                leave();
                self.fail(Some(job.id), e)
            }
        }
    }

    /// The prepared job, if its id matches and `may` accepts it.
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

    /// The measured part, in this thread.
    fn turn(&mut self, id: u64, ask: &TurnRequest) -> io::Result<()> {
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
            Ok(turned) => self.say(&FromProbe::Turned {
                id,
                turned,
                // Programs that it started are not among its threads.
                probe_ns: (cpu_ns().saturating_sub(before_ns) + turned.programs_ns)
                    .max(turned.cpu.user_ns + turned.cpu.sys_ns),
            }),
            Err(e) => self.give_up(id, e),
        }
    }

    fn settle(&mut self, id: u64) -> io::Result<()> {
        if let Some((id, far_end)) = self.far_end.take_if(|(serving, _)| *serving == id) {
            return self.end_far_end(id, far_end);
        }
        self.after_a_turn("settle", id, &FromProbe::Settled { id }, |ready| {
            ready.settled = true;
            ready.work.settle(&mut ready.trial)
        })
    }

    fn between(&mut self, id: u64, again: bool) -> io::Result<()> {
        self.after_a_turn("between", id, &FromProbe::Ready { id }, |ready| {
            ready.work.between(again)
        })
    }

    /// Runs unmeasured work of a job that had a turn, and answers.
    fn after_a_turn(
        &mut self,
        what: &str,
        id: u64,
        answer: &FromProbe,
        work: impl FnOnce(&mut PreparedJob) -> Result<(), ProbeError>,
    ) -> io::Result<()> {
        let may = |ready: &PreparedJob| match ready {
            PreparedJob { round: None, .. } => Err("which had no turn"),
            PreparedJob { settled: true, .. } => Err("which is settled"),
            _ => Ok(()),
        };
        if let Err(e) = self.meant(what, id, may) {
            return self.fail(Some(id), e);
        }
        let Some(mut ready) = self.ready.take() else {
            return Ok(());
        };
        let done = self.attended(id, || work(&mut ready));
        self.ready = Some(ready);
        match done {
            Ok(()) => self.say(answer),
            Err(e) => self.give_up(id, e),
        }
    }

    /// Makes the files of a writer of records.
    fn witness(&mut self, job: &WitnessJob) -> io::Result<()> {
        let made = self.attended(job.id, || {
            let (writer, site) = Site::of(job)?;
            Witness::prepare(writer, site)
        });
        match made {
            Ok(witness) => {
                let refused = witness.refused().map(str::to_owned);
                self.witnesses.insert(job.id, witness);
                self.say(&FromProbe::Prepared {
                    id: job.id,
                    refused,
                })
            }
            Err(e) => self.fail(Some(job.id), e),
        }
    }

    fn write(&mut self, id: u64) -> io::Result<()> {
        let Some(mut witness) = self.witnesses.remove(&id) else {
            let why = format!("a record for writer {id}, which is not ready");
            return self.fail(Some(id), ProbeError::new(why));
        };
        let written = self.attended(id, || witness.write());
        self.witnesses.insert(id, witness);
        match written {
            Ok(stamp) => self.say(&FromProbe::Acknowledged { id, stamp }),
            Err(e) => self.fail(Some(id), e),
        }
    }

    fn look(&mut self, job: &WitnessJob) -> io::Result<()> {
        let id = job.id;
        let looked = self.attended(id, || {
            let (writer, site) = Site::of(job)?;
            witness::look(writer, &site)
        });
        match looked {
            Ok(survey) => self.say(&FromProbe::Surveyed { id, survey }),
            Err(e) => self.fail(Some(id), e),
        }
    }

    /// Starts, awaits, kills or checks a program that acknowledges items.
    fn program(&mut self, id: u64, ask: &ProgramAsk) -> io::Result<()> {
        let mut running = self.programs.remove(&id);
        let did = self.attended(id, || match (ask, &mut running) {
            (ProgramAsk::Make { dir }, _) => program::make(dir).map(|()| ProgramDid::Done),
            (ProgramAsk::Remove { dir }, _) => program::remove(dir).map(|()| ProgramDid::Done),
            (ProgramAsk::Start { dir, run, ack }, _) => {
                running = Some(Running::start(dir, run, ack)?);
                Ok(ProgramDid::Done)
            }
            (ProgramAsk::Check(job), _) => program::check(job).map(ProgramDid::Checked),
            (ProgramAsk::Item { left_ms }, Some(running)) => {
                running.await_item(left_ms.map(Duration::from_millis))
            }
            (ProgramAsk::Kill, Some(_)) => {
                let killed = running.take().map_or(Ok(()), Running::kill);
                killed.map(|()| ProgramDid::Killed)
            }
            _ => Err(ProbeError::new(format!("no program {id} runs"))),
        });
        self.programs.extend(running.map(|running| (id, running)));
        match did {
            Ok(did) => self.say(&FromProbe::Program { id, did }),
            Err(e) => self.fail(Some(id), e),
        }
    }

    /// Does a part of a sequence of operations.
    fn sequence(&mut self, id: u64, ask: &SequenceAsk) -> io::Result<()> {
        match self.attended(id, || sequence::obey(ask)) {
            Ok(did) => self.say(&FromProbe::Sequence { id, did }),
            Err(e) => self.fail(Some(id), e),
        }
    }

    /// Proof and clean-up. When the lab gets the result, nothing of the trial is in flight.
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
        leave();
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
    let (workload, mut context) = read(job)?;
    let dir = Path::new(&job.dir);
    set_current_dir(dir).map_err(|e| ProbeError::io("enter", dir, &e))?;
    context.inside = true;
    workload.prepare(dir, &job.point, &context)
}

/// Leaves the layer, which could not be unmounted with a process in it.
fn leave() {
    let _ = set_current_dir("/");
}

/// The workload and the context of a job.
fn read(job: &Job) -> Result<(&'static dyn Workload, Context), ProbeError> {
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
        waits_for_devices: job.point.meaning.flushes
            || job.point.meaning.is_cold()
            || job.point.meaning.is_direct(),
        env: job.env.clone(),
        peer: job.peer.clone(),
        inside: false,
    };
    Ok((workload, context))
}

#[cfg(test)]
mod tests;
