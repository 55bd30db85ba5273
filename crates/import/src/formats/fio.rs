//! fio 3, `--output-format=json` and `json+`.

use std::collections::{BTreeMap, HashMap};

use layermark_model::{ImportedPoint, mix_name};
use serde::Deserialize;

use super::{Format, Found, bounded, some};
use crate::{document, values};

pub struct Fio;

const SYNCS_APART: &str = "fio keeps the latency of fsync apart from that of writes: an operation's mean is of both, \
                           and its percentiles are not known";

impl Format for Fio {
    fn id(&self) -> &'static str {
        "fio"
    }

    fn about(&self) -> &'static str {
        "fio 3 with --output-format=json or json+, also with other text around it"
    }

    fn knows(&self, text: &str) -> bool {
        text.contains("\"fio version\"")
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        let document = document::find::<Output>(text)?;
        let output = document.value;
        let version = values::clean(output.version.as_deref().unwrap_or_default());
        if !version.starts_with("fio-3.") {
            let name = if version.is_empty() {
                "it names no version"
            } else {
                &version
            };
            return Err(format!(
                "{name}: only the output of fio 3 is understood, whose units are known"
            ));
        }
        let mut found = Found {
            tool: version,
            measured: output.time.as_deref().map(values::clean),
            ..Found::default()
        };
        if document.skipped > 0 {
            found.notes.push(match document.skipped {
                1 => "1 line that is not JSON was skipped".into(),
                n => format!("{n} lines that are not JSON were skipped"),
            });
        }
        if document.earlier > 0 {
            let n = document.earlier + 1;
            found
                .notes
                .push(format!("the last of {n} reports in the file was read"));
        }
        let mut crowds = Crowds::new(&output.jobs);
        for job in &output.jobs {
            let asked = Asked(&job.options, &output.global);
            add(job, &asked, crowds.next(job, &asked), &mut found)?;
        }
        let told_alone = found.points.iter().filter(|p| p.one_of.is_some()).count();
        if told_alone > 0 {
            found.notes.push(format!(
                "{told_alone} of the results are of jobs that ran at the same time as others and are told for \
                 themselves, so their rates are not compared; fio's group_reporting adds such jobs up"
            ));
        }
        some(found, "job with a finished read or write")
    }
}

#[derive(Deserialize)]
struct Output {
    #[serde(rename = "fio version")]
    version: Option<String>,
    time: Option<String>,
    #[serde(rename = "global options", default)]
    global: Options,
    #[serde(default, deserialize_with = "bounded")]
    jobs: Vec<FioJob>,
}

type Options = BTreeMap<String, String>;

#[derive(Deserialize)]
struct FioJob {
    #[serde(default)]
    jobname: String,
    #[serde(default)]
    groupid: i64,
    #[serde(default)]
    error: i64,
    #[serde(rename = "job options", default)]
    options: Options,
    read: Option<Side>,
    write: Option<Side>,
    sync: Option<Syncs>,
}

/// One direction of a job. Numbers are stored unchecked, so that an error can name the job.
#[derive(Deserialize)]
struct Side {
    #[serde(default)]
    io_bytes: f64,
    #[serde(default)]
    total_ios: f64,
    bw_bytes: f64,
    iops: f64,
    lat_ns: Times,
    clat_ns: Times,
}

/// fsync(2) and similar calls that a job makes after its writes. The write latencies do not include
/// their time.
#[derive(Deserialize)]
struct Syncs {
    #[serde(default)]
    total_ios: f64,
    lat_ns: Times,
}

/// Latencies of a direction, ns, with those of its syncs.
struct Latency {
    mean: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Latency {
    /// The file does not say which sync follows which write, so only the mean can be added.
    fn with_syncs(side: &Side, syncs: Option<&Syncs>) -> Self {
        let each = syncs.map(|s| s.lat_ns.mean * s.total_ios / side.total_ios);
        Self {
            mean: each
                .filter(|ns| *ns > 0.0 && ns.is_finite())
                .map(|ns| side.lat_ns.mean + ns),
            p99: None,
            max: None,
        }
    }

    fn alone(side: &Side) -> Self {
        Self {
            mean: Some(side.lat_ns.mean),
            p99: side.clat_ns.percentile.get("99.000000").copied(),
            max: Some(side.lat_ns.max),
        }
    }
}

#[derive(Deserialize)]
struct Times {
    #[serde(default)]
    max: f64,
    #[serde(default)]
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

/// A job's own options first, then the global ones.
struct Asked<'a>(&'a Options, &'a Options);

impl Asked<'_> {
    fn text(&self, names: &[&str]) -> Option<&str> {
        names
            .iter()
            .find_map(|n| self.0.get(*n))
            .or_else(|| names.iter().find_map(|n| self.1.get(*n)))
            .map(String::as_str)
    }

    /// A size in bytes; `None` if `kb_base` makes `k` a thousand.
    fn size(&self, names: &[&str]) -> Option<u64> {
        if self.text(&["kb_base"]) == Some("1000") {
            return None;
        }
        values::size(self.text(names)?)
    }

    fn count(&self, names: &[&str]) -> Option<u64> {
        self.text(names).map_or(Some(1), |t| t.trim().parse().ok())
    }

    /// A switch without a value is on.
    fn on(&self, name: &str) -> bool {
        self.text(&[name]).is_some_and(|v| v.trim() != "0")
    }

    /// Synchronous engines have one call in flight, whatever `iodepth` says.
    fn depth(&self) -> Option<u64> {
        let queues = [
            "libaio",
            "io_uring",
            "io_uring_cmd",
            "posixaio",
            "windowsaio",
            "sg",
        ];
        match self.text(&["ioengine"]) {
            Some(engine) if queues.contains(&engine.trim()) => self.count(&["iodepth"]),
            _ => Some(1),
        }
    }

    fn sync(&self) -> String {
        match self.text(&["sync"]).map(str::trim) {
            Some("dsync") => return "odsync".into(),
            Some(v) if v != "0" && v != "none" => return "osync".into(),
            _ => {}
        }
        let after = |name| self.text(&[name]).map(str::trim).filter(|v| *v != "0");
        let word = if let Some(writes) = after("fsync").or_else(|| after("fdatasync")) {
            if !matches!(writes, "" | "1") {
                return format!("every {}", values::clean(writes));
            }
            "each"
        } else if self.on("end_fsync") || self.on("fsync_on_close") {
            "fsync"
        } else {
            "none"
        };
        word.into()
    }

    fn engine(&self) -> Option<String> {
        let engine = self.text(&["ioengine"])?;
        let ours = match engine {
            "psync" => "pread",
            "io_uring" => "uring",
            "pvsync" | "pvsync2" => "preadv",
            other => other,
        };
        Some(values::clean(ours))
    }
}

/// A job within its group, whose jobs fio starts at the same time. A new group begins where a job
/// has `stonewall` or `new_group`.
#[derive(Clone, Copy)]
struct Crowd {
    /// Its index among the jobs of the same name, from 1.
    number: u64,
    /// Number of jobs of the same name: `numjobs`.
    alike: u64,
    /// Number of jobs in the group.
    all: u64,
}

/// Counts of jobs by group, and by group and name. One pass over the jobs for each.
#[derive(Default)]
struct Crowds<'a> {
    all: HashMap<i64, u64>,
    alike: HashMap<(i64, &'a str), u64>,
    seen: HashMap<(i64, &'a str), u64>,
}

impl<'a> Crowds<'a> {
    fn new(jobs: &'a [FioJob]) -> Self {
        let mut crowds = Self::default();
        for job in jobs {
            *crowds.all.entry(job.groupid).or_default() += 1;
            *crowds.alike.entry((job.groupid, &job.jobname)).or_default() += 1;
        }
        crowds
    }

    /// The next job's place; `None` if one entry represents the whole group.
    fn next(&mut self, job: &'a FioJob, asked: &Asked) -> Option<Crowd> {
        let name = (job.groupid, job.jobname.as_str());
        let number = self.seen.entry(name).or_default();
        *number += 1;
        if asked.on("group_reporting") {
            return None;
        }
        let asked_for = asked.count(&["numjobs"]).unwrap_or(1);
        Some(Crowd {
            number: *number,
            alike: self.alike[&name].max(asked_for),
            all: self.all[&job.groupid].max(asked_for),
        })
    }
}

fn add(job: &FioJob, asked: &Asked, crowd: Option<Crowd>, found: &mut Found) -> Result<(), String> {
    let mut name = values::clean(&job.jobname);
    if let Some(crowd) = crowd.filter(|c| c.alike > 1) {
        name = format!("{name} ({} of {})", crowd.number, crowd.alike);
    }
    if job.error != 0 {
        let text = format!(
            "job `{name}` ended with error {} and was left out",
            job.error
        );
        found.note(text);
        return Ok(());
    }
    let rw = asked.text(&["rw", "readwrite"]).unwrap_or("read");
    let sides = [("read", &job.read, 100.0), ("write", &job.write, 0.0)];
    let done = |side: &Option<Side>| side.as_ref().is_some_and(|s| s.io_bytes > 0.0);
    let both = done(&job.read) && done(&job.write);
    for (word, side, reads) in sides {
        let Some(side) = side.as_ref().filter(|s| s.io_bytes != 0.0) else {
            continue;
        };
        let at = |what: &str| format!("job `{name}`: {word}.{what}");
        let random = if rw.contains("rand") { 100.0 } else { 0.0 };
        values::rate(&at("io_bytes"), side.io_bytes)?;
        let micros = |what: &str, ns: Option<f64>| {
            ns.map(|ns| values::micros(&at(what), ns / 1e3)).transpose()
        };
        let sync = asked.sync();
        let apart = word == "write" && (sync == "each" || sync.starts_with("every "));
        let latency = if apart {
            if !found.notes.iter().any(|n| n == SYNCS_APART) {
                found.note(SYNCS_APART.into());
            }
            Latency::with_syncs(side, job.sync.as_ref())
        } else {
            Latency::alone(side)
        };
        found.point(ImportedPoint {
            name: if both {
                format!("{name}, {word}")
            } else {
                name.clone()
            },
            op: (!both && !rw.contains("trim")).then(|| mix_name(reads, random)),
            record: asked
                .size(&["bs", "blocksize"])
                .or_else(|| asked.text(&["bs", "blocksize"]).is_none().then_some(4096)),
            file_size: asked.size(&["filesize"]).or_else(|| asked.size(&["size"])),
            queue_depth: asked.depth(),
            threads: crowd.map_or_else(|| asked.count(&["numjobs"]), |c| Some(c.alike)),
            one_of: crowd.map(|c| c.all).filter(|n| *n > 1),
            direct: Some(asked.on("direct")),
            sync: Some(sync),
            engine: asked.engine(),
            bytes_per_s: Some(values::rate(&at("bw_bytes"), side.bw_bytes)?),
            ops_per_s: Some(values::rate(&at("iops"), side.iops)?),
            op_us: micros("lat_ns.mean", latency.mean)?,
            p99_us: micros("clat_ns.percentile", latency.p99)?,
            max_us: micros("lat_ns.max", latency.max)?,
            samples: None,
        })?;
    }
    Ok(())
}
