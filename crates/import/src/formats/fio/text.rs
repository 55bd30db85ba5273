//! The ordinary text of fio 3. It has a job's operation, record size, engine and queue depth, and no
//! other option.

use std::collections::{HashMap, hash_map::Entry};

use super::{FioJob, Output, Side, Syncs, Times, finished, options::Options, rates::Units};
use crate::{
    formats::{Found, MOST_POINTS},
    lines, values,
};

const LEAST: &str = "fio's ordinary text has not all options of a job: whether it has O_DIRECT, flushes at its end or \
                     is limited in its rate is not known; --output-format=json has all";

const MORE_JOBS: &str = "it has more jobs than are imported";

/// Units of sizes, bytes. Without an `i` they are powers of 1000, with `kb_base=1000`.
const SIZES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("PiB", 1_125_899_906_842_624.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("PB", 1e15),
];

/// Units of times, nanoseconds.
const TIMES: &[(&str, f64)] = &[("nsec", 1.0), ("usec", 1e3), ("msec", 1e6), ("sec", 1e9)];

/// Words before the results of a direction, in the order of the counts of `issued rwts`.
const DIRECTIONS: &[&str] = &["read:", "write:", "trim:"];

/// The place of flushes behind those.
const SYNCS: usize = 3;

pub fn knows(text: &str) -> bool {
    text.contains(": (groupid=") && text.contains("ioengine=")
}

pub fn parse(text: &str) -> Result<Found, String> {
    let mut found = Found::default();
    let mut reading = Reading::default();
    // A progress line ends with a carriage return, and the next one goes over it.
    for (count, (at, line)) in lines::pieces(text).enumerate() {
        if count == lines::MOST {
            return Err(lines::too_many());
        }
        // Groups are counted anew in each run, so what one defines is not of the next.
        if reading.ends_before(line) {
            std::mem::take(&mut reading).add_to(&mut found)?;
        }
        reading
            .line(line)
            .map_err(|why| format!("line {at}: {why}"))?;
    }
    reading.add_to(&mut found)?;
    found.note(LEAST.into());
    finished(found)
}

fn is_version(line: &str) -> bool {
    line.starts_with("fio-") && !line.contains([' ', ';'])
}

/// Options and their values.
type Pairs = Vec<(&'static str, String)>;

/// Options of the jobs of a run, by group and name. `None`: several jobs have the name, with different
/// options.
#[derive(Default)]
struct Definitions {
    options: HashMap<(i64, String), Option<Pairs>>,
    /// How many jobs each group has.
    of_group: HashMap<i64, usize>,
}

#[derive(Default)]
struct Reading {
    output: Output,
    /// How many threads each job of the output stands for.
    threads: Vec<u64>,
    defined: Definitions,
    /// Number and bytes of the files that a job laid out, by the job's name. No bytes: jobs of the same
    /// name in several groups laid out different ones.
    laid: HashMap<String, (u64, Option<u64>)>,
    /// The job whose last line has not been read.
    open: Option<String>,
    /// Index of a direction, or [`SYNCS`].
    place: usize,
    /// Unit of the percentiles below, nanoseconds.
    unit: Option<f64>,
}

impl Reading {
    /// Whether the line is the first one of the next run: a run prints what its jobs are, its version,
    /// then results.
    fn ends_before(&self, line: &str) -> bool {
        let begun = !self.output.version.is_empty() || !self.output.jobs.is_empty();
        begun && (is_version(line) || line.contains(": (g="))
    }

    /// Adds the results of the run.
    ///
    /// # Errors It is not a whole run of fio 3.
    fn add_to(self, found: &mut Found) -> Result<(), String> {
        let version = values::clean(&self.output.version);
        if !version.starts_with("fio-3.") {
            let version = match version.as_str() {
                "" => "it names no version",
                named => named,
            };
            return Err(format!(
                "{version}: only the ordinary text of fio 3 is read; --output-format=json is read of fio 2 as well"
            ));
        }
        if let Some(name) = &self.open {
            return Err(format!(
                "it is cut off within the job `{}`",
                values::clean(name)
            ));
        }
        self.finish().add_to(&Units::of(&version)?, found)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if is_version(line) {
            self.output.version = line.into();
        } else if let Some((name, rest)) = line.split_once(": (g=") {
            self.defined.add(name, rest)?;
        } else if let Some((name, rest)) = line.split_once(": Laying out IO file") {
            let files = rest.split_once('(').and_then(|(_, n)| lines::number(n));
            let bytes = rest.split_once("/ ").map(|(_, size)| size);
            let bytes = bytes.or_else(|| Some(rest.split_once('/')?.1));
            let bytes = bytes.and_then(|text| size(text.trim_end_matches(')')));
            let files = files.unwrap_or(0.0) as u64;
            let is_full = self.laid.len() == MOST_POINTS;
            match self.laid.entry(name.into()) {
                Entry::Vacant(_) if is_full => return Err(MORE_JOBS.into()),
                Entry::Vacant(entry) => {
                    entry.insert((files, bytes));
                }
                Entry::Occupied(mut entry) if *entry.get() != (files, bytes) => {
                    let most = entry.get().0.max(files);
                    entry.insert((most, None));
                }
                Entry::Occupied(_) => {}
            }
        } else if let Some((name, rest)) = line.split_once(": (groupid=") {
            self.begin(name, rest)?;
        } else if self.open.is_some() {
            self.within(line)?;
        }
        Ok(())
    }

    /// `a: (groupid=0, jobs=1): err= 0: pid=1: Sat Nov 28 08:47:43 2026`
    fn begin(&mut self, name: &str, rest: &str) -> Result<(), String> {
        let after = |key: &str| Some(rest.split_once(key)?.1).and_then(lines::number);
        let head = lines::number(rest).zip(after("jobs=")).zip(after("err="));
        let Some(((group, threads), error)) = head else {
            return Err(format!("`{}` does not begin a job", values::clean(rest)));
        };
        if self.output.jobs.len() == MOST_POINTS {
            return Err(MORE_JOBS.into());
        }
        let time = after_pid(rest).map(str::to_owned);
        self.output.time = time.or(self.output.time.take());
        self.threads.push(threads as u64);
        self.output.jobs.push(FioJob {
            jobname: name.into(),
            groupid: group as i64,
            error: error as i64,
            partial: true,
            ..FioJob::default()
        });
        self.open = Some(name.into());
        self.unit = None;
        Ok(())
    }

    /// A line of a job's results.
    fn within(&mut self, line: &str) -> Result<(), String> {
        let Some(job) = self.output.jobs.last_mut() else {
            return Ok(());
        };
        if let Some(place) = DIRECTIONS.iter().position(|word| line.starts_with(word)) {
            *side(job, place) = Some(begun(&line[DIRECTIONS[place].len()..])?);
            self.place = place;
        } else if line.starts_with("fsync/fdatasync") {
            job.sync = Some(Syncs {
                total_ios: 0.0,
                lat_ns: Times::default(),
            });
            self.place = SYNCS;
        } else if let Some(counts) = counts_of(line) {
            let counts = counts.split([',', ' ']).map(|n| n.parse().unwrap_or(0.0));
            for (place, count) in counts.take(SYNCS + 1).enumerate() {
                counted(job, place, count);
            }
            self.open = None;
        } else if let Some((label, _)) = line.split_once("percentiles (") {
            // Of the whole operation only where it was asked for.
            self.unit = unit(line).filter(|_| matches!(label, "clat " | "lat "));
        } else if let Some((_, value)) = line.split_once(" 99.00th=[") {
            let value = value
                .split(']')
                .next()
                .and_then(|v| v.trim().parse::<f64>().ok());
            let ns = value.zip(self.unit).map(|(value, unit)| value * unit);
            if let Some((ns, times)) = ns.zip(times(job, self.place, false)) {
                times.percentile.insert("99.000000".into(), ns);
            }
        } else if let Some((label @ ("lat" | "sync"), figures)) = line.split_once(" (")
            && let Some(unit) = unit(line)
            && figures.contains("avg=")
        {
            let figure = |key: &str| {
                let (_, text) = figures.split_once(key)?;
                scaled(text.split(',').next()?)
            };
            if let Some(times) = times(job, self.place, label == "lat") {
                times.mean = figure("avg=").unwrap_or(0.0) * unit;
                times.max = figure("max=").unwrap_or(0.0) * unit;
            }
        }
        Ok(())
    }

    /// Gives each job the options that are known of it.
    fn finish(self) -> Output {
        let mut entries: HashMap<i64, usize> = HashMap::new();
        for job in &self.output.jobs {
            *entries.entry(job.groupid).or_default() += 1;
        }
        let mut output = self.output;
        for (job, threads) in output.jobs.iter_mut().zip(&self.threads) {
            let defined = self.defined.of_group.get(&job.groupid).copied();
            let own = self.defined.get(job.groupid, &job.jobname);
            let is_known = own.is_some();
            let mut options = own.cloned().unwrap_or_default();
            match self.laid.get(&job.jobname) {
                Some((1, Some(bytes))) => options.push(("size", bytes.to_string())),
                Some((files, _)) if *files > 1 => options.push(("nrfiles", files.to_string())),
                _ => {}
            }
            if *threads > 1 {
                options.push(("group_reporting", "1".into()));
                // One entry for several definitions is their sum, of which one is named.
                let sum = entries[&job.groupid] == 1 && defined.unwrap_or(0) > 1;
                job.job_runtime = *threads as f64 * job.runtime();
                if !sum {
                    options.push(("numjobs", threads.to_string()));
                }
            }
            let writes = job.write.as_ref().map_or(0.0, |side| side.total_ios);
            match job.sync.as_ref().map(|syncs| syncs.total_ios) {
                Some(syncs) if syncs > 0.0 => {
                    let each = (writes / syncs).round().max(1.0);
                    options.push(("fsync", each.to_string()));
                }
                // How many there were is not told, so the time of a write with its share is not known.
                Some(_) => {
                    if let Some(side) = &mut job.write {
                        (side.lat_ns, side.clat_ns) = (Times::default(), Times::default());
                    }
                    job.sync = None;
                }
                None => {}
            }
            // Without its definition the rest would look like a job with fio's defaults.
            job.options = is_known.then(|| Options::from(options));
        }
        output
    }
}

impl Definitions {
    /// Adds that of a line: `a: (g=0): rw=randread, bs=(R) 4096B-4096B, ..., iodepth=1`.
    fn add(&mut self, name: &str, rest: &str) -> Result<(), String> {
        let group = lines::number(rest).unwrap_or(0.0) as i64;
        let options = Self::pairs(rest);
        *self.of_group.entry(group).or_default() += 1;
        let is_full = self.options.len() == MOST_POINTS;
        match self.options.entry((group, name.into())) {
            Entry::Vacant(_) if is_full => return Err(MORE_JOBS.into()),
            Entry::Vacant(entry) => {
                entry.insert(Some(options));
            }
            Entry::Occupied(mut entry) if entry.get().as_ref() != Some(&options) => {
                entry.insert(None);
            }
            Entry::Occupied(_) => {}
        }
        Ok(())
    }

    fn get(&self, group: i64, name: &str) -> Option<&Pairs> {
        self.options.get(&(group, name.to_owned()))?.as_ref()
    }

    fn pairs(rest: &str) -> Pairs {
        let mut options = Vec::new();
        let value = |key: &str| {
            let (_, rest) = rest.split_once(key)?;
            Some(rest.split(", ").next()?.trim().to_owned())
        };
        let rw = value("rw=");
        // The share of reads is not in the text.
        if rw.as_deref().is_some_and(|rw| rw.contains("rw")) {
            options.push(("rwmixread", "not told".to_owned()));
        }
        for (name, key) in [("ioengine", "ioengine="), ("iodepth", "iodepth=")] {
            options.extend(value(key).map(|value| (name, value)));
        }
        options.extend(rw.map(|rw| ("rw", rw)));
        // Least and most bytes of reads, writes and trims.
        let ranges = ["(R) ", "(W) ", "(T) "].map(|key| {
            let range = value(key)?;
            let (least, most) = range.split_once('-')?;
            (least == most).then(|| size(least))?
        });
        match ranges {
            [Some(read), Some(write), Some(trim)] => {
                options.push(("bs", format!("{read},{write},{trim}")));
            }
            _ => options.push(("bsrange", "not told".into())),
        }
        options
    }
}

/// The counts at the end of a job, without flushes before fio 3.6.
fn counts_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("issued rwt")?;
    Some(rest.split_once(": total=")?.1)
}

/// What stands behind `pid=1: ` is the time.
fn after_pid(rest: &str) -> Option<&str> {
    let (_, rest) = rest.split_once("pid=")?;
    Some(rest.split_once(": ")?.1)
}

fn side(job: &mut FioJob, place: usize) -> &mut Option<Side> {
    match place {
        0 => &mut job.read,
        1 => &mut job.write,
        _ => &mut job.trim,
    }
}

/// Latencies of a direction, whole or of the completion, or of flushes.
fn times(job: &mut FioJob, place: usize, whole: bool) -> Option<&mut Times> {
    if place == SYNCS {
        return job.sync.as_mut().map(|syncs| &mut syncs.lat_ns);
    }
    let side = side(job, place).as_mut()?;
    Some(if whole {
        &mut side.lat_ns
    } else {
        &mut side.clat_ns
    })
}

/// The exact count of a direction: of what was printed before, IOPS have three digits.
fn counted(job: &mut FioJob, place: usize, count: f64) {
    if place == SYNCS {
        if let Some(syncs) = &mut job.sync {
            syncs.total_ios = count;
        }
    } else if let Some(side) = side(job, place) {
        side.total_ios = count;
        if side.runtime > 0.0 && count > 0.0 {
            side.iops = count * 1e3 / side.runtime;
        }
    }
}

/// ` IOPS=17.7k, BW=138MiB/s (145MB/s)(5656KiB/40msec); 0 zone resets`
fn begun(line: &str) -> Result<Side, String> {
    let wrong = || format!("`{}` are not results of fio 3", values::clean(line));
    let (_, iops) = line.split_once("IOPS=").ok_or_else(wrong)?;
    let iops = iops.split(',').next().and_then(scaled).ok_or_else(wrong)?;
    let (_, moved) = line.rsplit_once('(').ok_or_else(wrong)?;
    let (moved, _) = moved.split_once(')').ok_or_else(wrong)?;
    let (bytes, time) = moved.split_once('/').ok_or_else(wrong)?;
    let bytes = size_of_digits(bytes).ok_or_else(wrong)?;
    let (time, unit) = lines::with_unit(time).ok_or_else(wrong)?;
    let known = TIMES.iter().find(|(name, _)| *name == unit);
    let runtime = time * known.ok_or_else(wrong)?.1 / 1e6;
    Ok(Side {
        io_bytes: bytes,
        bw_bytes: Some(if runtime > 0.0 {
            bytes * 1e3 / runtime
        } else {
            0.0
        }),
        iops,
        runtime,
        ..Side::default()
    })
}

/// The unit in the first brackets.
fn unit(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once('(')?;
    let (unit, _) = rest.split_once(')')?;
    let known = TIMES.iter().find(|(name, _)| *name == unit);
    known.map(|(_, ns)| *ns)
}

/// `17.7k`, `4389.7k`: thousands.
fn scaled(text: &str) -> Option<f64> {
    let (value, unit) = lines::with_unit(text)?;
    let scale = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    Some(value * scale)
}

/// `64.0KiB`, `4096B`, `67.1kB`, in bytes.
fn size_of_digits(text: &str) -> Option<f64> {
    let (value, unit) = lines::with_unit(text)?;
    let known = SIZES.iter().find(|(name, _)| *name == unit);
    Some(value * known?.1)
}

/// The same of a size that is whole bytes. One in powers of 1000 is rounded: `131kB` may be 128 KiB.
fn size(text: &str) -> Option<u64> {
    let (_, unit) = lines::with_unit(text)?;
    let exact = unit == "B" || unit.ends_with("iB");
    let bytes = size_of_digits(text).filter(|bytes| exact && bytes.fract() == 0.0)?;
    Some(bytes as u64)
}
