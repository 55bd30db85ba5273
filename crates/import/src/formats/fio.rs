//! fio 2 and 3, `--output-format=json` and `json+`, also of `fio --client`.

use std::collections::HashMap;

use layermark_model::{ImportedPoint, mix_name};
use serde::Deserialize;

use self::{
    options::{Asked, Options},
    rates::{Rates, Units},
};
use super::{Format, Found, bounded, some};
use crate::{document, values};

mod disks;
mod options;
mod rates;
mod terse;
mod text;

pub struct Fio;

/// The key that every output begins with.
const KEY: &str = "\"fio version\"";

const SYNCS_APART: &str = "fio keeps the latency of fsync apart from that of writes: an operation's mean is of both, \
                           and its percentiles are not known";

impl Format for Fio {
    fn id(&self) -> &'static str {
        "fio"
    }

    fn about(&self) -> &'static str {
        "fio 2 and 3 with --output-format=json or json+; its ordinary text, and terse versions 3 to 5"
    }

    fn example(&self) -> &'static str {
        "fio --output-format=json+ --output=FILE JOB"
    }

    fn knows(&self, text: &str) -> bool {
        text.contains(KEY) || terse::knows(text) || text::knows(text)
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        if !text.contains(KEY) && (terse::knows(text) || text::knows(text)) {
            // Terse lines may stand within the text (`--output-format=normal,terse`), which says more.
            return if text::knows(text) {
                text::parse(text)
            } else {
                super::short_lines(text)?;
                terse::parse(text)
            };
        }
        let documents = document::find::<Output>(text, KEY)?;
        let mut found = Found::default();
        if documents.skipped > 0 {
            found.note(match documents.skipped {
                1 => "1 line that is not JSON was skipped".into(),
                n => format!("{n} lines that are not JSON were skipped"),
            });
        }
        let outputs = document::latest(documents.values, Output::key, &mut found);
        for output in &outputs {
            let units = Units::of(&values::clean(&output.version))?;
            output.add_to(&units, &mut found)?;
        }
        finished(found)
    }
}

/// Adds the note about jobs that are one of several.
fn finished(mut found: Found) -> Result<Found, String> {
    let alone = found.points.iter().filter(|p| p.one_of.is_some()).count();
    if alone > 0 {
        found.note(format!(
            "{alone} of the results {} of jobs that ran at the same time as others and are told for \
             themselves, so their rates are not compared; fio's group_reporting adds such jobs up",
            if alone == 1 { "is" } else { "are" }
        ));
    }
    some(found, "job with a finished read or write")
}

/// A report of fio, in JSON or made from another format.
#[derive(Deserialize, Default)]
struct Output {
    #[serde(rename = "fio version", default)]
    version: String,
    time: Option<String>,
    #[serde(rename = "global options", default)]
    global: Options,
    #[serde(default, deserialize_with = "bounded")]
    jobs: Vec<FioJob>,
    /// Of `fio --client`: jobs of all servers, and their sum.
    #[serde(rename = "client_stats", default, deserialize_with = "bounded")]
    clients: Vec<FioJob>,
    #[serde(rename = "disk_util", default, deserialize_with = "bounded")]
    disks: Vec<disks::DiskUtil>,
    /// Terse lines: what an entry stands for is not told, nor where a run ends and the numbers of groups
    /// begin anew.
    #[serde(skip)]
    is_terse: bool,
}

impl Output {
    /// What is the same in two reports of the same jobs.
    fn key(&self) -> String {
        let jobs = self.jobs.iter().chain(&self.clients);
        let each = jobs.map(|job| (job.groupid, &job.jobname, &job.options));
        format!("{:?}", each.collect::<Vec<_>>())
    }

    fn add_to(&self, units: &Units, found: &mut Found) -> Result<(), String> {
        found.tool = values::clean(&self.version);
        found.measured = self.time.as_deref().map(values::clean);
        let jobs = if self.jobs.is_empty() {
            &self.clients
        } else {
            &self.jobs
        };
        let mut crowds = Crowds::new(jobs);
        for job in jobs {
            let asked = Asked(job.options.as_ref(), &self.global);
            let crowd = if self.is_terse {
                Crowd::Unknown
            } else {
                crowds.next(job, &asked)
            };
            add(job, &asked, &crowd, units, found)?;
        }
        if let Some(text) = disks::remark(&self.disks, jobs) {
            found.note(text);
        }
        Ok(())
    }
}

#[derive(Deserialize, Default)]
struct FioJob {
    #[serde(default)]
    jobname: String,
    #[serde(default)]
    groupid: i64,
    #[serde(default)]
    error: i64,
    /// Milliseconds of all threads that the entry stands for, since fio 3.5.
    #[serde(default)]
    job_runtime: f64,
    #[serde(rename = "job options")]
    options: Option<Options>,
    /// The options are those that fio's text has, and not whether it flushes or has `O_DIRECT`.
    #[serde(skip)]
    partial: bool,
    read: Option<Side>,
    write: Option<Side>,
    trim: Option<Side>,
    /// All directions, with `unified_rw_reporting`.
    mixed: Option<Side>,
    sync: Option<Syncs>,
}

impl FioJob {
    /// Whether it is the sum that `fio --client` adds where there are several servers.
    fn is_sum(&self) -> bool {
        self.jobname == "All clients"
    }

    /// Milliseconds from its first operation to its last.
    fn runtime(&self) -> f64 {
        let sides = [&self.read, &self.write, &self.trim, &self.mixed];
        let times = sides.iter().filter_map(|s| Some(s.as_ref()?.runtime));
        times.fold(0.0, f64::max)
    }

    /// The flushes of a job whose options are not all known, if it has some.
    fn flushes(&self, asked: &Asked) -> Option<String> {
        (self.partial && self.sync.is_some() && asked.is_known()).then(|| asked.sync())
    }

    /// How many threads the entry stands for, by their time.
    fn threads(&self) -> Option<f64> {
        let threads = self.job_runtime / self.runtime();
        (threads.is_finite() && threads > 0.0).then_some(threads)
    }
}

/// One direction of a job. Numbers are stored unchecked, so that an error can name the job.
#[derive(Deserialize, Default)]
struct Side {
    #[serde(default)]
    io_bytes: f64,
    #[serde(default)]
    total_ios: f64,
    bw_bytes: Option<f64>,
    /// KiB/s.
    bw: Option<f64>,
    iops: f64,
    #[serde(default)]
    runtime: f64,
    #[serde(alias = "lat", default)]
    lat_ns: Times,
    #[serde(alias = "clat", default)]
    clat_ns: Times,
}

/// fsync(2) and similar calls that a job makes after its writes. The write latencies do not include
/// their time.
#[derive(Deserialize)]
struct Syncs {
    #[serde(default)]
    total_ios: f64,
    #[serde(default)]
    lat_ns: Times,
}

#[derive(Deserialize, Default)]
struct Times {
    #[serde(default)]
    max: f64,
    #[serde(default)]
    mean: f64,
    #[serde(default)]
    percentile: HashMap<String, f64>,
}

/// What an entry stands for within its group, whose jobs fio starts at the same time. A new group
/// begins where a job has `stonewall` or `new_group`.
#[derive(Clone, Copy)]
enum Crowd {
    /// The file does not tell.
    Unknown,
    /// The sum of the threads of a job.
    Total { threads: Option<u64> },
    /// The sum of different jobs, of which fio keeps the options of one.
    Sections { threads: u64 },
    /// One of the jobs of the group.
    One {
        /// Its index among the jobs of the same name, from 1.
        number: u64,
        /// Number of jobs of the same name.
        alike: u64,
        /// Number of jobs in the group.
        all: u64,
    },
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
        for job in jobs.iter().filter(|job| !job.is_sum()) {
            *crowds.all.entry(job.groupid).or_default() += 1;
            *crowds.alike.entry((job.groupid, &job.jobname)).or_default() += 1;
        }
        crowds
    }

    /// fio 3.15 and later write a `group_reporting` without a value into no list of options, so an
    /// entry is a total where it alone has its name and its threads were several.
    fn next(&mut self, job: &'a FioJob, asked: &Asked) -> Crowd {
        if job.is_sum() {
            let threads = self.all.values().sum();
            return Crowd::Total {
                threads: Some(threads),
            };
        }
        let name = (job.groupid, job.jobname.as_str());
        let number = self.seen.entry(name).or_default();
        *number += 1;
        let alike = self.alike[&name];
        let asked_for = asked.count(&["numjobs"]);
        let ran = job.threads().unwrap_or(0.0);
        let several = asked_for.is_none_or(|n| n > 1) || ran >= 1.5;
        if !asked.on("group_reporting") && (alike > 1 || !several) {
            return Crowd::One {
                number: *number,
                alike,
                all: self.all[&job.groupid],
            };
        }
        // Threads that end before others make it less than was asked for, and nothing makes it more.
        if ran >= 1.5 && asked_for.is_some_and(|n| ran > n as f64 * 1.25) {
            return Crowd::Sections {
                threads: ran.round() as u64,
            };
        }
        Crowd::Total { threads: asked_for }
    }
}

fn add(
    job: &FioJob,
    asked: &Asked,
    crowd: &Crowd,
    units: &Units,
    found: &mut Found,
) -> Result<(), String> {
    let mut name = values::clean(&job.jobname);
    if let Crowd::One { number, alike, .. } = crowd
        && *alike > 1
    {
        name = format!("{name} ({number} of {alike})");
    }
    if job.error != 0 {
        let text = format!(
            "job `{name}` ended with error {} and was left out",
            job.error
        );
        found.note(text);
        return Ok(());
    }
    let Some(mut done) = Done::of(job, asked, units, &name, found)? else {
        return Ok(());
    };
    let sections = matches!(crowd, Crowd::Sections { .. });
    let why = if !asked.is_known() {
        Some("the file does not have its options".to_owned())
    } else if sections {
        Some("it is the sum of several jobs, of which fio keeps the options of one".into())
    } else {
        asked.apart()
    };
    if let Some(why) = &why {
        found.note(format!("job `{name}` is not compared: {why}"));
        done.op = None;
    }
    let (threads, one_of) = match *crowd {
        Crowd::Unknown => (None, None),
        Crowd::Total { threads } => (threads, None),
        Crowd::Sections { threads } => (Some(threads), None),
        Crowd::One { alike, all, .. } => (Some(alike), Some(all).filter(|n| *n > 1)),
    };
    let known = asked.is_known() && !sections;
    let depth = asked.depth().filter(|_| known);
    let beside = if one_of.is_some() { Some(1) } else { threads };
    if let Some(note) = done.rates.without_absurd_times(depth.zip(beside)) {
        found.note(format!("job `{name}`: {note}"));
    }
    found.point(ImportedPoint {
        name,
        op: done.op,
        record: done.record.filter(|_| !sections),
        file_size: asked
            .size(&["filesize"], 0)
            .or_else(|| asked.size(&["size"], 0)),
        queue_depth: depth,
        threads,
        one_of,
        direct: (known && !job.partial).then(|| asked.on("direct")),
        sync: (known && !job.partial)
            .then(|| asked.sync())
            .or_else(|| job.flushes(asked)),
        engine: asked.engine(),
        bytes_per_s: Some(done.rates.bytes_per_s),
        ops_per_s: Some(done.rates.ops_per_s),
        op_us: done.rates.mean_us,
        p99_us: done.rates.p99_us,
        max_us: done.rates.max_us,
        samples: None,
    })
}

/// What a job did.
struct Done {
    /// `None` for what no workload of ours does.
    op: Option<String>,
    record: Option<u64>,
    rates: Rates,
}

impl Done {
    /// `None` if it finished no operation.
    fn of(
        job: &FioJob,
        asked: &Asked,
        units: &Units,
        name: &str,
        found: &mut Found,
    ) -> Result<Option<Self>, String> {
        let done = |side: &'_ Option<Side>| side.as_ref().is_some_and(|s| s.io_bytes != 0.0);
        let mut sides: Vec<(usize, &str, &Side)> = Vec::new();
        if done(&job.mixed) {
            sides.extend(job.mixed.as_ref().map(|side| (0, "mixed", side)));
        } else {
            let all = [
                ("read", &job.read),
                ("write", &job.write),
                ("trim", &job.trim),
            ];
            let all = all
                .into_iter()
                .enumerate()
                .filter(|(_, (_, side))| done(side));
            sides.extend(all.filter_map(|(at, (word, side))| Some((at, word, side.as_ref()?))));
        }
        let syncs_apart = {
            let sync = asked.sync();
            matches!(&*sync, "each" | "each-data") || sync.starts_with("every ")
        };
        let (mut rates, mut record): (Option<Rates>, Option<u64>) = (None, None);
        for (place, (direction, word, side)) in sides.iter().enumerate() {
            let at = format!("job `{name}`: {word}");
            let apart = *word == "write" && syncs_apart;
            if apart && !found.notes.iter().any(|n| n == SYNCS_APART) {
                found.note(SYNCS_APART.into());
            }
            let of_side = Rates::of(side, (apart, job.sync.as_ref()), units, &at)?;
            let bytes = units.record(side);
            let asked_for = asked.record(*direction);
            let own = asked_for
                .filter(|asked| bytes.is_none_or(|b| (b / *asked as f64 - 1.0).abs() < 0.01));
            if own.is_none() && asked.is_known() {
                found.note(format!(
                    "{at}s have no single record size, so they are not compared"
                ));
            }
            record = if place == 0 {
                own
            } else {
                own.filter(|own| record == Some(*own))
            };
            rates = Some(match rates {
                None => of_side,
                Some(before) => before.with(&of_side),
            });
        }
        let Some(rates) = rates else { return Ok(None) };
        let words: Vec<&str> = sides.iter().map(|(_, word, _)| *word).collect();
        let reads = match words[..] {
            ["read"] => Some(100.0),
            ["write"] => Some(0.0),
            ["mixed"] | ["read", "write"] => asked.reads(),
            _ => None,
        };
        let random = asked.random(sides[0].0);
        let op = reads
            .zip(random)
            .map(|(reads, random)| mix_name(reads, random));
        Ok(Some(Self { op, record, rates }))
    }
}
