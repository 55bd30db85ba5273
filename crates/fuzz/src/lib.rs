//! Fuzz targets: what must hold for any input, one function for each kind of input. Two things call
//! them: the test `stable` in this crate, for 60 s in all, and libFuzzer, through
//! `fuzz/fuzz_targets/`.
//!
//! A function panics when a property is violated. See "Fuzzing" in `CONTRIBUTING.md`.

mod store;

use std::{fs::File, io::Cursor};

use layermark_model::{
    Cell, Plan, Spec, TrialRecord,
    protocol::{FromProbe, ToProbe},
};
use layermark_probe::{
    Purpose,
    workloads::{self, fio_job},
};
use layermark_recording::{
    Entry, Recording,
    strace::{self as from_strace, OpenFile, TraceOf},
};
use layermark_report::{Report, render};
use layermark_store::Archive;
use layermark_testkit::sample::Sample;

pub use store::store;

/// Takes any input. Panics when a property is violated.
pub type Target = fn(&[u8]);

/// All targets: the name, which is also that of the corpus, and the function.
pub const TARGETS: [(&str, Target); 9] = [
    ("plan", plan),
    ("spec", spec),
    ("to_probe", to_probe),
    ("from_probe", from_probe),
    ("import", import),
    ("store", store),
    ("archive", archive),
    ("recording", recording),
    ("strace", strace),
];

/// The smallest run that has intervals and verdicts: most of an input's time is spent on its
/// report.
pub(crate) fn sample() -> Sample {
    Sample {
        blocks: 3,
        layers: vec!["fuse"],
        points: vec!["small read, cold", "random write, fsync each"],
        ..Sample::default()
    }
}

/// A plan file must be accepted or refused. An accepted one must expand to points or be refused.
pub fn plan(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // A job file of fio is a plan as well.
    for job in fio_job::jobs(&text).into_iter().flatten() {
        let workload = workloads::find(&job.settings.workload).expect("a workload");
        let _ = workload.points(&job.settings, 1.0);
    }
    let Ok(plan) = Plan::from_toml(&text) else {
        return;
    };
    let json = serde_json::to_string(&plan).expect("a plan is JSON");
    let again: Plan = serde_json::from_str(&json).expect("and is read again");
    assert_eq!(again.work, plan.work);
    for settings in &plan.work {
        if let Some(workload) = workloads::find(&settings.workload)
            && let Ok(points) = workload.points(settings, plan.scale)
        {
            let labels = points.iter().take(1000).map(|p| p.label.len());
            assert!(labels.sum::<usize>() > 0 || points.is_empty());
        }
    }
}

/// A layer as a user writes it. An accepted one must be written the same.
pub fn spec(data: &[u8]) {
    if let Ok(spec) = String::from_utf8_lossy(data).parse::<Spec>() {
        assert_eq!(spec.to_string().parse::<Spec>(), Ok(spec));
    }
}

/// Messages from lab to probe. Jobs are parsed but not run, because they may name any file of this
/// machine.
pub fn to_probe(data: &[u8]) {
    let mut rest = Vec::new();
    for line in data.split_inclusive(|b| *b == b'\n') {
        if let Ok(ToProbe::Job(job) | ToProbe::Serve(job)) = serde_json::from_slice::<ToProbe>(line)
        {
            if let Some(workload) = workloads::find(&job.point.workload) {
                let _ = workload.read(&job.point, Purpose::Report);
                let _ = workload.read(&job.point, Purpose::Run);
            }
        } else {
            rest.extend_from_slice(line);
        }
    }
    let nowhere = File::options()
        .write(true)
        .open("/dev/null")
        .expect("/dev/null");
    layermark_probe::serve(Cursor::new(rest), nowhere).expect("the probe lives on");
}

/// Messages from probe to lab. A trial of any numbers must make a report in every text format.
pub fn from_probe(data: &[u8]) {
    for line in data.split(|b| *b == b'\n') {
        let Ok(said) = serde_json::from_slice::<FromProbe>(line) else {
            continue;
        };
        let (run, mut trials) = sample().build();
        let record = |seq: u64| TrialRecord {
            seq,
            cell: Cell {
                session: 0,
                block: seq as u32,
                layer: seq as usize % run.layers.len(),
                point: 0,
            },
            at_ms: seq,
            ..TrialRecord::default()
        };
        match said {
            FromProbe::Trial { trial, .. } => trials.extend((0..20).map(|seq| TrialRecord {
                trial: Some((*trial).clone()),
                ..record(1000 + seq)
            })),
            FromProbe::Error { message, .. } => trials.push(TrialRecord {
                error: Some(message),
                ..record(1000)
            }),
            _ => continue,
        }
        texts(&Report::build(&run, &trials));
    }
}

/// A file of another program must be read within its limits, or refused, in every format.
pub fn import(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for format in layermark_import::formats::ALL {
        let _ = format.knows(&text);
        let Ok(found) = format.parse(&text) else {
            continue;
        };
        assert!((1..=layermark_import::formats::MOST_POINTS).contains(&found.points.len()));
        let numbers = found
            .points
            .iter()
            .flat_map(|p| [p.bytes_per_s, p.ops_per_s, p.op_us]);
        assert!(numbers.flatten().all(|n| n.is_finite() && n >= 0.0));
        let import = layermark_model::Import {
            format: format.id().into(),
            tool: found.tool,
            measured: found.measured,
            notes: found.notes,
            points: found.points,
            ..layermark_model::Import::default()
        };
        let (run, trials) = sample().build();
        let mut report = Report::build(&run, &trials);
        report.set_beside(&import);
        texts(&report);
    }
}

/// A run that somebody has sent must be read within its limits, or refused: packed bytes, or the lines in them.
pub fn archive(data: &[u8]) {
    let found = Archive::unpack(data).ok();
    let Some(found) = found.or_else(|| Archive::read(&mut &*data).ok()) else {
        return;
    };
    let packed = found.packed().expect("it is written");
    let again = Archive::unpack(packed.as_slice()).expect("and read again");
    assert_eq!(again.trials.len(), found.trials.len());
    let mut report = Report::build(&found.run, &found.trials);
    found
        .imports
        .iter()
        .for_each(|import| report.set_beside(import));
    texts(&report);
}

/// A recording that somebody has sent, packed or as lines: it must be read within its limits, or refused. What is accepted
/// is written and read again the same.
pub fn recording(data: &[u8]) {
    let found = Recording::unpack(data).or_else(|_| Recording::read(&mut &*data));
    if let Ok(found) = found {
        written_again(found);
    }
}

/// A log of strace(1) that somebody has sent, with page faults between its lines: it must be converted within its limits, or
/// refused, whether the tree before is known or inferred. What is converted is written and read again the same.
pub fn strace(data: &[u8]) {
    let inodes = || [(b"d/a".to_vec(), 7)];
    let tree = vec![
        Entry::directory("d".into(), 0o755),
        Entry::file("d/a".into(), 0o644, 10),
    ];
    for tree in [None, Some(Vec::new()), Some(tree)] {
        let of = TraceOf {
            root: b"/r".to_vec(),
            cwd: b"/r/d".to_vec(),
            tree,
            opened: vec![OpenFile {
                descriptor: 1,
                same_as: None,
                path: b"/r/d/a".to_vec(),
                flags: "O_WRONLY".into(),
                position: 3,
            }],
            faults: from_strace::Faults::read(data, from_strace::TraceClock::default(), inodes())
                .ok(),
        };
        let Ok(converted) = from_strace::convert(data, &of) else {
            continue;
        };
        let (calls, gaps) = (converted.recording.calls.len(), converted.gaps.len());
        assert!(gaps == 0 || gaps == calls, "{gaps} {calls}");
        written_again(converted.recording);
    }
}

fn written_again(mut recording: Recording) {
    // Names of a log may be too long for a recording, and its calls too large.
    let Ok(packed) = recording.packed() else {
        return;
    };
    let again = Recording::unpack(packed.as_slice()).expect("it is read again");
    assert_eq!(again, recording);
    recording.make_private(7);
    recording.packed().expect("it is private");
}

/// Endings of formats that take a second each without optimisation.
pub(crate) const SLOW: [&str; 4] = ["svg", "xlsx", "charts.png", "png"];

/// Writes every format but the slow ones. JSON must be valid, and no format may contain terminal
/// escapes or invalid XML.
pub(crate) fn texts(report: &Report) {
    let endings = render::ALL.iter().filter_map(|e| e.extensions().first());
    for ending in endings.filter(|ending| !SLOW.contains(ending)) {
        let name = format!("r.{ending}");
        let text = String::from_utf8(written(report, &name)).expect("UTF-8");
        assert_eq!(layermark_model::plain(&text), text, "{name}");
        if name.ends_with("json") {
            serde_json::from_str::<serde_json::Value>(&text).expect(&name);
        }
    }
}

pub(crate) fn written(report: &Report, name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let exporter = render::for_path(name.as_ref()).expect(name);
    exporter.write(report, &mut out).expect(name);
    out
}
