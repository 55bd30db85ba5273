//! A lab of a few lines: the real `serve` over pipes.
#![allow(dead_code)] // each test file uses its own part of it

use std::{
    io::{BufRead, BufReader, PipeReader, PipeWriter, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread::JoinHandle,
};

use layermark_model::{
    Point, PointError, Settings, Trial,
    protocol::{FromProbe, Job, ToProbe, TurnRequest},
};
use layermark_probe::{packaged, workloads};
use serde_json::{Map, Value};

pub struct Lab {
    to: Option<PipeWriter>,
    from: BufReader<PipeReader>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    next: u64,
    pub dir: tempfile::TempDir,
    pub min_ms: u64,
    pub min_ops: u64,
    pub progress: u64,
    /// Jobs that are settled.
    pub settled: u64,
    /// Before each turn.
    pub lead_in_ns: u64,
    /// Named instead of the device that the directory lies on.
    pub device: Option<String>,
}

impl Lab {
    /// A probe in a directory of its own on the disk that Cargo builds on.
    pub fn new() -> Self {
        Self::in_dir(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    pub fn in_dir(parent: &Path) -> Self {
        let (stdin, to) = std::io::pipe().unwrap();
        let (from, stdout) = std::io::pipe().unwrap();
        let thread =
            std::thread::spawn(move || layermark_probe::serve(BufReader::new(stdin), stdout));
        let mut lab = Self {
            to: Some(to),
            from: BufReader::new(from),
            thread: Some(thread),
            next: 0,
            dir: tempfile::tempdir_in(parent).unwrap(),
            min_ms: 1,
            min_ops: 1,
            progress: 0,
            settled: 0,
            lead_in_ns: 0,
            device: None,
        };
        let FromProbe::Hello {
            protocol: 2,
            self_test,
            ..
        } = lab.hear()
        else {
            panic!("no hello")
        };
        assert!(self_test.loop_ns > 0.0);
        lab
    }

    pub fn hear(&mut self) -> FromProbe {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// The next event that is not progress.
    pub fn answer(&mut self) -> FromProbe {
        loop {
            match self.hear() {
                FromProbe::Progress { .. } => self.progress += 1,
                event => return event,
            }
        }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.to.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub fn say(&mut self, line: &ToProbe) {
        self.write(format!("{}\n", serde_json::to_string(line).unwrap()).as_bytes());
    }

    /// Packages what the point needs and has the work prepared.
    pub fn prepare(&mut self, point: &Point) -> FromProbe {
        let files: Vec<_> = point.needs.packaged_files().collect();
        packaged::write(&self.dir.path().join("packaged"), &files, 99, &|| true).unwrap();
        self.job(point)
    }

    pub fn job(&mut self, point: &Point) -> FromProbe {
        self.next += 1;
        let job = Job {
            id: self.next,
            dir: self.dir.path().to_str().unwrap().into(),
            point: point.clone(),
            seed: 7,
            min_ms: self.min_ms,
            min_ops: self.min_ops,
            devices: vec![self.device()],
            cpus: None,
            below: Vec::new(),
            peer: None,
            env: layermark_model::Environment::new(),
        };
        self.say(&ToProbe::Job(Box::new(job)));
        self.answer()
    }

    /// From `ready` on in one stretch: the trial, or what goes wrong.
    pub fn go(&mut self) -> FromProbe {
        self.finish(FromProbe::Ready { id: self.next })
    }

    /// What is left of a trial after this answer.
    pub fn finish(&mut self, mut said: FromProbe) -> FromProbe {
        while let Some(next) = ToProbe::in_one_stretch(&said) {
            self.settled += u64::from(matches!(said, FromProbe::Settled { .. }));
            self.say(&next);
            said = self.answer();
        }
        said
    }

    /// One turn of the job that is ready.
    pub fn turn(&mut self, round: u32, ns: u64) -> FromProbe {
        self.say(&ToProbe::Turn {
            id: self.next,
            ask: TurnRequest {
                round,
                ns,
                lead_in_ns: self.lead_in_ns,
            },
        });
        self.answer()
    }

    /// A trial of so many turns of this length, less where nothing is left to do.
    pub fn turns(&mut self, point: &Point, count: u32, ns: u64) -> Trial {
        let mut said = self.prepare(point);
        for round in 0..count {
            assert!(!matches!(said, FromProbe::Error { .. }), "{said:?}");
            if matches!(&said, FromProbe::Turned { turned, .. } if !turned.more) {
                break;
            }
            said = self.turn(round, ns);
        }
        match self.finish(said) {
            FromProbe::Trial { trial, .. } => *trial,
            other => panic!("{}: {other:?}", point.label),
        }
    }

    /// The whole way, when nothing goes wrong.
    pub fn trial(&mut self, point: &Point) -> Trial {
        match self.prepare(point) {
            FromProbe::Ready { .. } => {}
            other => panic!("{}: {other:?}", point.label),
        }
        match self.go() {
            FromProbe::Trial { trial, .. } => *trial,
            other => panic!("{}: {other:?}", point.label),
        }
    }

    /// `major:minor` of the device below the directory.
    pub fn device(&self) -> String {
        if let Some(device) = &self.device {
            return device.clone();
        }
        let dev = self.dir.path().metadata().unwrap().dev();
        format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev))
    }

    pub fn packaged(&self, name: &str) -> PathBuf {
        self.dir.path().join("packaged").join(name)
    }

    /// Ends the input and hears the last word.
    pub fn end(mut self) {
        self.to = None;
        assert_eq!(self.answer(), FromProbe::Done);
        self.thread.take().unwrap().join().unwrap().unwrap();
        assert!(
            !self.dir.path().join("work").exists(),
            "the probe left files behind"
        );
    }
}

/// A test that fails must not wait: programs that the probe has started keep its input open.
impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(to) = &mut self.to {
            let _ = to.write_all(b"{\"type\":\"quit\"}\n");
        }
    }
}

pub fn settings(workload: &str, params: Value) -> Settings {
    let params = match params {
        Value::Object(params) => params,
        _ => Map::new(),
    };
    Settings {
        workload: workload.into(),
        label: None,
        params,
    }
}

/// The points of these settings, or why there are none.
pub fn points(workload: &str, params: Value, scale: f64) -> Result<Vec<Point>, PointError> {
    let found = workloads::find(workload).unwrap();
    found.points(&settings(workload, params), scale)
}

/// The only point of these settings.
pub fn point(workload: &str, params: Value) -> Point {
    let mut points = points(workload, params, 1.0).unwrap();
    assert_eq!(points.len(), 1);
    points.remove(0)
}

/// What `made` gives, made again while it is not as expected: other tests empty the caches of the machine, but not twenty
/// times running.
pub fn undisturbed<T>(mut made: impl FnMut() -> T, expected: impl Fn(&T) -> bool) -> T {
    for _ in 1..20 {
        let it = made();
        if expected(&it) {
            return it;
        }
    }
    made()
}

/// Whether the kernel shows counters of the device below the test directory.
pub fn disk(lab: &Lab) -> bool {
    let known = layermark_probe::counters::sum(&[lab.device()]).is_some();
    if !known {
        eprintln!(
            "skipped: {} is on no block device with counters",
            lab.dir.path().display()
        );
    }
    known
}

pub fn drop_caches() -> bool {
    rustix::fs::sync();
    let dropped = std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok();
    if !dropped {
        eprintln!("skipped: dropping caches needs root");
    }
    dropped
}
