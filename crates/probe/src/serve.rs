//! The probe's main loop: `hello`, then for each job `ready`, and after `go` `stopped` and its
//! `trial`.

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
    Context, ProbeError, Work, beats::Beats, error::panicked, motion::Disks, selftest, workloads,
};

/// Characters of an unreadable line that are shown.
const SHOWN: usize = 200;

/// Serves jobs until `quit` or the end of `input`. An error is the output's: the lab has gone; or
/// there is no second thread to be had.
/// Whatever a line says or a job does, the probe lives on and says what was wrong.
pub fn serve(input: impl BufRead, output: impl Write + AsFd + Send) -> io::Result<()> {
    let fd = output.as_fd().as_raw_fd();
    let output = Mutex::new(output);
    thread::scope(|scope| {
        let beats = Beats::start(scope, &output, Some(fd))?;
        obey(input, Server::new(&output, beats))
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
    let mut lines = Lines {
        input,
        line: Vec::new(),
    };
    loop {
        match lines.next()? {
            Line::End => break,
            Line::TooLong => server.complain(
                &lines.line,
                &format!("a line may have up to {MAX_LINE} bytes"),
            )?,
            Line::Complete => match serde_json::from_slice(&lines.line) {
                Ok(ToProbe::Quit) => break,
                Ok(ToProbe::Job(job)) => server.prepare(&job)?,
                Ok(ToProbe::Go { id }) => server.go(id)?,
                Err(_) if lines.line.iter().all(u8::is_ascii_whitespace) => {}
                Err(e) => server.complain(&lines.line, &e.to_string())?,
            },
        }
    }
    server.drop_ready()?;
    // The lab may have closed its end too by now; nobody is left to tell.
    let _ = server.say(&FromProbe::Done);
    Ok(())
}

enum Line {
    Complete,
    /// `line` holds its beginning; the rest was skipped.
    TooLong,
    End,
}

/// Lines of bounded length.
struct Lines<R> {
    input: R,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> io::Result<Line> {
        self.line.clear();
        let mut too_long = false;
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if bytes.is_empty() {
                // A last line without its end was cut off: it is not obeyed.
                return Ok(Line::End);
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
                    Line::TooLong
                } else {
                    Line::Complete
                });
            }
        }
    }
}

struct Server<'env, W> {
    output: &'env Mutex<W>,
    beats: Beats,
    ready: Option<(u64, Box<dyn Work>)>,
}

/// A whole line at once: the beats write too.
pub fn say(output: &Mutex<impl Write>, event: &FromProbe) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    output.write_all(&line)?;
    output.flush()
}

impl<'env, W: Write> Server<'env, W> {
    fn new(output: &'env Mutex<W>, beats: Beats) -> Self {
        Self {
            output,
            beats,
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

    /// Runs what may take long but is not measured, with signs of life.
    fn attended<T>(
        &mut self,
        id: u64,
        what: impl FnOnce() -> Result<T, ProbeError>,
    ) -> Result<T, ProbeError> {
        self.beats.begin(id);
        let done = catch_unwind(AssertUnwindSafe(what));
        self.beats.end();
        done.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
    }

    /// Gives up what is ready but was never run.
    fn drop_ready(&mut self) -> io::Result<()> {
        let Some((id, work)) = self.ready.take() else {
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

    fn prepare(&mut self, job: &Job) -> io::Result<()> {
        self.drop_ready()?;
        let disks = Disks::below(Path::new(&job.dir), &job.devices);
        self.beats.above(disks);
        match self.attended(job.id, || prepare(job)) {
            Ok(work) => {
                self.ready = Some((job.id, work));
                self.say(&FromProbe::Ready { id: job.id })
            }
            Err(e) => self.fail(Some(job.id), e),
        }
    }

    fn go(&mut self, id: u64) -> io::Result<()> {
        match self.ready.take_if(|(ready, _)| *ready == id) {
            None => self.fail(
                Some(id),
                ProbeError::new(format!("go for job {id}, which is not ready")),
            ),
            Some((_, work)) => match self.run(id, work) {
                Ok(trial) => self.say(&FromProbe::Trial {
                    id,
                    trial: Box::new(trial),
                }),
                Err(e) => self.fail(Some(id), e),
            },
        }
    }

    /// The measured part in this thread alone, then the rest, then the clean-up: when the lab
    /// hears of the trial, nothing of it is under way any more.
    fn run(&mut self, id: u64, mut work: Box<dyn Work>) -> Result<Trial, ProbeError> {
        let ran = catch_unwind(AssertUnwindSafe(|| {
            work.run(&mut |ops, bytes| {
                let _ = self.say(&FromProbe::Progress { id, ops, bytes });
            })
        }))
        .unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
        if ran.is_ok() {
            // A lab that has gone is noticed with the trial.
            let _ = self.say(&FromProbe::Stopped { id });
        }
        self.attended(id, move || {
            let mut trial = ran?;
            work.settle(&mut trial)?;
            drop(work);
            Ok(trial)
        })
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
    use super::*;

    /// Work with a bug in one of its parts.
    struct Buggy(&'static str);

    impl Work for Buggy {
        fn run(&mut self, _: &mut crate::Beat<'_>) -> Result<Trial, ProbeError> {
            assert!(self.0 != "run", "in run");
            Ok(Trial::default())
        }
        fn settle(&mut self, _: &mut Trial) -> Result<(), ProbeError> {
            assert!(self.0 != "settle", "in settle");
            Ok(())
        }
    }

    impl Drop for Buggy {
        fn drop(&mut self) {
            assert!(self.0 != "drop" || thread::panicking(), "in drop");
        }
    }

    /// What a server says while this is done with it.
    fn with_server(what: impl FnOnce(&mut Server<'_, Vec<u8>>)) -> Vec<FromProbe> {
        let output = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let beats = Beats::start(scope, &output, None).unwrap();
            what(&mut Server::new(&output, beats));
        });
        let output = output.into_inner().unwrap();
        let lines = output.split(|b| *b == b'\n').filter(|l| !l.is_empty());
        lines.map(|l| serde_json::from_slice(l).unwrap()).collect()
    }

    #[test]
    fn a_panic_becomes_an_error_and_the_probe_lives_on() {
        for part in ["run", "settle", "drop"] {
            let said = with_server(|server| {
                server.ready = Some((1, Box::new(Buggy(part))));
                server.go(1).unwrap();
            });
            let ran = usize::from(part != "run");
            assert_eq!(said[..ran], vec![FromProbe::Stopped { id: 1 }; ran]);
            match &said[ran..] {
                [
                    FromProbe::Error {
                        id: Some(1),
                        message,
                        ..
                    },
                ] => {
                    assert!(message.contains(&format!("in {part}")), "{message}");
                }
                other => panic!("{part}: {other:?}"),
            }
            let said = with_server(|server| {
                server.ready = Some((1, Box::new(Buggy(part))));
                server.go(1).unwrap();
                server.ready = Some((2, Box::new(Buggy("nowhere"))));
                server.go(2).unwrap();
            });
            let last = said.last();
            assert!(matches!(last, Some(FromProbe::Trial { id: 2, .. })));
        }
    }

    #[test]
    fn what_takes_long_outside_the_clock_is_attended() {
        let said = with_server(|server| {
            let result = server.attended(3, || {
                // As one waits for a slow disk: a little is done now and then.
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
        // How many depends on how busy the machine is.
        assert!(
            !said.is_empty() && said.iter().all(|e| *e == progress),
            "{said:?}"
        );
    }
}
