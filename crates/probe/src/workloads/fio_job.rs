//! fio's job files and command lines, translated to settings of `file` and `iops`.

use std::path::Path;

use layermark_model::{MOST_TEXT, PointError, Settings};
use serde_json::{Map, Value};

/// A job, as it is measured here.
#[derive(Debug, PartialEq)]
pub struct FioJob {
    /// What is measured.
    pub settings: Settings,
    /// What is different here, and options that were not honoured. Each names its option.
    pub notes: Vec<String>,
}

/// What an option becomes.
#[derive(Clone, Copy, PartialEq)]
enum Becomes {
    /// Parameters: it is read below.
    Ours,
    /// Nothing, for a reason.
    Other(&'static str),
    /// An error, because it makes another kind of work.
    Refused(&'static str),
}

use Becomes::{Other, Ours, Refused};

const PLACE: Becomes = Other("--dir and -l say where");
const OUTPUT: Becomes = Other("-o and --json say what is written");
const LENGTH: Becomes = Other("--budget and --precision say how long it is measured");

/// fio's options (HOWTO, "Job file parameters"). One that is not here is named as unknown.
const OPTIONS: &[(&str, Becomes)] = &[
    ("rw", Ours),
    ("readwrite", Ours),
    ("bs", Ours),
    ("blocksize", Ours),
    ("size", Ours),
    ("filesize", Ours),
    ("ioengine", Ours),
    ("iodepth", Ours),
    ("direct", Ours),
    ("buffered", Ours),
    ("numjobs", Ours),
    ("fsync", Ours),
    ("fdatasync", Ours),
    ("end_fsync", Ours),
    ("fsync_on_close", Ours),
    ("sync", Ours),
    ("rwmixread", Ours),
    ("rwmixwrite", Ours),
    ("percentage_random", Ours),
    ("rate_iops", Ours),
    ("thinktime", Ours),
    ("thinktime_blocks", Ours),
    ("loops", Ours),
    ("invalidate", Ours),
    ("fadvise_hint", Ours),
    ("zero_buffers", Ours),
    ("verify", Ours),
    ("stonewall", Ours),
    ("wait_for_previous", Ours),
    (
        "group_reporting",
        Other("threads of a point are always added up"),
    ),
    ("new_group", Other("threads of a point are always added up")),
    ("thread", Other("threads are always threads")),
    ("name", Ours),
    ("description", Other("it has no effect")),
    ("directory", PLACE),
    ("filename", PLACE),
    ("filename_format", PLACE),
    ("opendir", PLACE),
    (
        "create_on_open",
        Other("files are made before the clock starts"),
    ),
    ("unlink", Other("files are always removed at the end")),
    (
        "overwrite",
        Other("`rewrite` of `file` overwrites, `write` makes a new file"),
    ),
    (
        "fallocate",
        Other("files are written, and not only allocated"),
    ),
    ("runtime", LENGTH),
    ("timeout", LENGTH),
    ("time_based", LENGTH),
    ("ramp_time", Other("turns have a lead-in of their own")),
    ("startdelay", Other("jobs are measured one at a time")),
    ("wait_for", Other("jobs are measured one at a time")),
    ("randseed", Other("--seed has the same effect")),
    (
        "randrepeat",
        Other("offsets are the same in every layer; --seed changes them"),
    ),
    (
        "norandommap",
        Other("`file` covers each record once, `iops` draws for each I/O"),
    ),
    (
        "refill_buffers",
        Other("data is random and differs in each block; --pattern changes it"),
    ),
    (
        "scramble_buffers",
        Other("data is random and differs in each block; --pattern changes it"),
    ),
    (
        "gtod_reduce",
        Other("--latency false leaves the clock out of the loop"),
    ),
    (
        "disable_lat",
        Other("--latency false leaves the clock out of the loop"),
    ),
    (
        "disable_clat",
        Other("--latency false leaves the clock out of the loop"),
    ),
    (
        "disable_slat",
        Other("--latency false leaves the clock out of the loop"),
    ),
    ("lat_percentiles", OUTPUT),
    ("clat_percentiles", OUTPUT),
    ("percentile_list", OUTPUT),
    ("output", OUTPUT),
    ("output-format", OUTPUT),
    ("minimal", OUTPUT),
    ("eta", OUTPUT),
    ("status-interval", OUTPUT),
    ("write_lat_log", OUTPUT),
    ("write_bw_log", OUTPUT),
    ("write_iops_log", OUTPUT),
    ("log_avg_msec", OUTPUT),
    (
        "bsrange",
        Refused("record sizes are drawn from a range: a point here has one size"),
    ),
    (
        "blocksize_range",
        Refused("record sizes are drawn from a range: a point here has one size"),
    ),
    (
        "bssplit",
        Refused(
            "records of several sizes: write it as `iops --spec '4K random @60%; 64K random @40%'`",
        ),
    ),
    (
        "nrfiles",
        Refused("it works on several files at once: here each thread has one"),
    ),
    ("read_iolog", Refused("it replays a recording")),
    ("zonemode", Refused("it works in zones")),
    (
        "include",
        Refused("another file is part of it: write its lines into this one"),
    ),
];

/// fio's engines, and ours. With `libaio` and its kin only the queue is the same.
const ENGINES: &[(&str, &str, bool)] = &[
    ("psync", "pread", false),
    ("sync", "sync", false),
    ("pvsync", "preadv", false),
    ("pvsync2", "preadv", false),
    ("mmap", "mmap", false),
    ("io_uring", "uring", true),
    ("libaio", "uring", true),
    ("posixaio", "uring", true),
];

/// Values of `rw`: percentage of reads, and whether offsets are random. `None`: of `rwmixread`.
const PATTERNS: &[(&str, Option<u64>, bool)] = &[
    ("read", Some(100), false),
    ("write", Some(0), false),
    ("randread", Some(100), true),
    ("randwrite", Some(0), true),
    ("rw", None, false),
    ("readwrite", None, false),
    ("randrw", None, true),
];

/// Most sections of a job file, without `[global]`.
const MOST_SECTIONS: usize = 1000;
/// Most options of a section, with those of `[global]`.
const MOST_OPTIONS: usize = 500;

/// Longest name of a section: each of its notes begins with it.
const LONGEST_NAME: usize = 200;

/// A section, with what `[global]` has set before it.
struct Section<'t> {
    name: &'t str,
    options: Vec<(&'t str, &'t str)>,
}

/// Whether a text is a job file rather than a plan.
pub fn is_job_file(path: &str, text: &str) -> bool {
    let first = text
        .lines()
        .map(str::trim)
        .find(|l| !l.is_empty() && !l.starts_with(['#', ';']));
    Path::new(path)
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("fio"))
        || first == Some("[global]")
}

/// The jobs of a job file, in order.
///
/// # Errors A line that is not of a job file, or a job that cannot be measured here; with its name.
pub fn jobs(text: &str) -> Result<Vec<FioJob>, PointError> {
    if text.len() as u64 > MOST_TEXT {
        return Err(PointError::new("it is longer than 1 MiB").hint("write several job files"));
    }
    let sections = sections(text)?;
    if sections.is_empty() {
        return Err(
            PointError::new("there is no job in it, only [global]").hint("add a section: [read]")
        );
    }
    let mut jobs: Vec<FioJob> = Vec::new();
    for (at, section) in sections.iter().enumerate() {
        let mut job = section.job()?;
        let same = |other: &&Section| other.name == section.name;
        let before = sections[..at].iter().filter(same).count();
        let label = match before {
            0 => section.name.to_owned(),
            n => format!("{} ({})", section.name, n + 1),
        };
        let together = at > 0 && !section.has("stonewall") && !section.has("wait_for_previous");
        if together {
            let other = sections[at - 1].name;
            job.notes.push(format!(
                "[{}] runs at the same time as [{other}] in fio; here each is measured by itself",
                section.name
            ));
        }
        job.settings.label = Some(label);
        jobs.push(job);
    }
    Ok(jobs)
}

/// The job of a command line: `--rw=randread --bs=4k`, also with `fio` before it.
///
/// # Errors It is not one job, or cannot be measured here.
pub fn command(text: &str) -> Result<FioJob, PointError> {
    let mut section = Section {
        name: "command",
        options: Vec::new(),
    };
    let words = text
        .split_whitespace()
        .skip_while(|word| *word == "fio" || word.ends_with("/fio"));
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            return Err(PointError::new(format!("`{word}` is not an option of fio"))
                .hint("write --name=value, or run a job file: layermark run FILE.fio"));
        };
        let option = option.split_once('=').unwrap_or_else(|| {
            let value = words.next_if(|next| !next.starts_with("--"));
            (option, value.unwrap_or("1"))
        });
        if option.0 == "name" && section.has("name") {
            return Err(PointError::new("it has several jobs (--name)")
                .hint("write them to a job file: layermark run FILE.fio"));
        }
        section.options.push(option);
    }
    section.job()
}

fn sections(text: &str) -> Result<Vec<Section<'_>>, PointError> {
    let mut global: Vec<(&str, &str)> = Vec::new();
    let mut all: Vec<Section> = Vec::new();
    let too_many = |place: &str, most: usize, what: &str| {
        PointError::new(format!("{place}: it has more than {most} {what}"))
            .hint("write several job files")
    };
    let mut in_global = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let place = format!("line {}", at + 1);
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| {
                PointError::new(format!("{place}: `{line}` is not a section")).hint("[name]")
            })?;
            if name.len() > LONGEST_NAME {
                let text =
                    format!("{place}: the name of a section is longer than {LONGEST_NAME} bytes");
                return Err(PointError::new(text).hint("a shorter name"));
            }
            in_global = Some(name == "global");
            if name != "global" {
                if all.len() == MOST_SECTIONS {
                    return Err(too_many(&place, MOST_SECTIONS, "sections"));
                }
                all.push(Section {
                    name,
                    options: global.clone(),
                });
            }
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, "1"));
        let (name, value) = (name.trim(), value.trim());
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(
                PointError::new(format!("{place}: `{line}` is not an option of fio"))
                    .hint("name=value"),
            );
        }
        if value.contains("${") {
            return Err(
                PointError::new(format!("{place}: `{line}`: variables are not replaced"))
                    .hint("write the value"),
            );
        }
        let options = match (in_global, all.last_mut()) {
            (Some(true), _) => &mut global,
            (Some(false), Some(section)) => &mut section.options,
            _ => {
                return Err(
                    PointError::new(format!("{place}: `{line}` is in no section"))
                        .hint("begin with [global] or [name]"),
                );
            }
        };
        if options.len() == MOST_OPTIONS {
            return Err(too_many(&place, MOST_OPTIONS, "options of a section"));
        }
        options.push((name, value));
    }
    Ok(all)
}

impl<'t> Section<'t> {
    /// The last value of any of these names.
    fn get(&self, names: &[&str]) -> Option<&'t str> {
        let mut all = self.options.iter().rev();
        all.find(|(name, _)| names.contains(name))
            .map(|(_, value)| *value)
    }

    fn has(&self, name: &str) -> bool {
        self.get(&[name]).is_some_and(|value| value != "0")
    }

    fn error(&self, name: &str, why: &str) -> PointError {
        let value = self.get(&[name]).unwrap_or_default();
        PointError::new(format!("[{}] {name}={value}: {why}", self.name))
            .hint("docs/src/howto/from-fio.md has the options, and what to write instead of others")
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, PointError> {
        let Some(text) = self.get(&[name]) else {
            return Ok(default);
        };
        text.parse()
            .map_err(|_| self.error(name, "it takes a whole number"))
    }

    /// A size: `k` is 1024.
    fn size(&self, names: &[&str]) -> Result<Option<u64>, PointError> {
        let Some(text) = self.get(names) else {
            return Ok(None);
        };
        let wrong = || {
            self.error(
                names[0],
                "it takes a size such as 4k or 64m, not a percentage or a range",
            )
        };
        if self.get(&["kb_base"]) == Some("1000") {
            return Err(self.error("kb_base", "sizes here are of 1024"));
        }
        size_of(text).filter(|n| *n > 0).map(Some).ok_or_else(wrong)
    }

    fn job(&self) -> Result<FioJob, PointError> {
        let mut notes = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        for &(name, _) in &self.options {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            // A section's value replaces that of [global].
            let value = self.get(&[name]).unwrap_or_default();
            let shown = || format!("[{}] {}={}", self.name, short(name), short(value));
            let known = OPTIONS.iter().find(|(known, _)| *known == name);
            match known.map(|(_, becomes)| *becomes) {
                Some(Ours) => {}
                Some(Other(why)) => notes.push(format!("{} has no effect here: {why}", shown())),
                Some(Refused(_)) if name == "nrfiles" && self.number("nrfiles", 1)? == 1 => {}
                Some(Refused(_)) if name == "zonemode" && value == "none" => {}
                Some(Refused(why)) => return Err(self.error(name, why)),
                None => notes.push(format!("{} is not known here and has no effect", shown())),
            }
        }
        let rw = self.get(&["rw", "readwrite"]).unwrap_or("read");
        let Some((_, reads, random)) = PATTERNS.iter().find(|(word, ..)| *word == rw) else {
            return Err(self.error("rw", "there is no such operation here: read, write, randread, randwrite, rw and randrw are known"));
        };
        let mixed = match (self.get(&["rwmixread"]), self.get(&["rwmixwrite"])) {
            (None, Some(_)) => 100_u64.saturating_sub(self.number("rwmixwrite", 50)?),
            _ => self.number("rwmixread", 50)?,
        };
        let mut job = Translated {
            section: self,
            reads: reads.unwrap_or(mixed),
            random: if *random {
                self.number("percentage_random", 100)?
            } else {
                0
            },
            params: Map::new(),
            notes,
        };
        let settings = job.settings()?;
        Ok(FioJob {
            settings,
            notes: job.notes,
        })
    }
}

/// The beginning of a text for a note: a job file may repeat a long one for each section.
fn short(text: &str) -> String {
    const MOST: usize = 100;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A job on its way to settings.
struct Translated<'a> {
    section: &'a Section<'a>,
    reads: u64,
    random: u64,
    params: Map<String, Value>,
    notes: Vec<String>,
}

impl Translated<'_> {
    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.params.insert(name.into(), value.into());
    }

    fn note(&mut self, option: &str, text: &str) {
        let value = self.section.get(&[option]).unwrap_or_default();
        let (section, value) = (self.section.name, short(value));
        self.notes
            .push(format!("[{section}] {option}={value}: {text}"));
    }

    fn settings(&mut self) -> Result<Settings, PointError> {
        let of = self.section;
        let engine = of.get(&["ioengine"]).unwrap_or("psync");
        let Some((_, ours, queue)) = ENGINES.iter().find(|(name, ..)| *name == engine) else {
            return Err(of.error("ioengine", "there is no such engine here: psync, sync, pvsync, mmap, io_uring, libaio and posixaio are known"));
        };
        if matches!(engine, "libaio" | "posixaio") {
            self.note(
                "ioengine",
                "io_uring is used instead, with the same queue depth",
            );
        }
        let depth = if *queue { of.number("iodepth", 1)? } else { 1 };
        let rate = of.number("rate_iops", 0)?;
        let pause = of.get(&["thinktime"]).filter(|t| *t != "0");
        let pure = matches!((self.reads, self.random), (0 | 100, 0 | 100));
        let iops = depth > 1 || !pure || rate > 0 || pause.is_some();
        let (file, amount) = (of.size(&["filesize"])?, of.size(&["size"])?);
        if file.is_some() && amount.is_some() && file != amount {
            self.note(
                "size",
                "the file has `filesize`, and all of it is read or written: this is not honoured",
            );
        }
        let size = file.or(amount).ok_or_else(|| {
            PointError::new(format!("[{}]: it has no size", of.name)).hint("add size=64m")
        })?;
        let record = self.record()?;
        self.set("file_size", size);
        if of.has("direct") || of.get(&["buffered"]) == Some("0") {
            self.set("direct", true);
        }
        match of.get(&["fadvise_hint"]) {
            None | Some("1") => {}
            Some("0" | "none") => self.set("no_advice", true),
            Some(_) => self.note(
                "fadvise_hint",
                "the kernel is told what the operation does, sequential or random: this is not honoured",
            ),
        }
        if iops {
            self.iops(record, depth, rate, ours)?;
        } else {
            self.file(record, ours)?;
        }
        Ok(Settings {
            workload: if iops { "iops" } else { "file" }.into(),
            label: None,
            params: std::mem::take(&mut self.params),
        })
    }

    /// `bs`, of the direction that the job has; a list has one for reads, writes and trims.
    fn record(&self) -> Result<u64, PointError> {
        let of = self.section;
        let Some(text) = of.get(&["bs", "blocksize"]) else {
            return Ok(4096);
        };
        let list: Vec<&str> = text.split(',').collect();
        let at = |n: usize| list.get(n).filter(|t| !t.is_empty()).unwrap_or(&list[0]);
        let (read, write) = (at(0), at(1));
        let wanted = match self.reads {
            0 => write,
            100 => read,
            _ if read == write => read,
            _ => {
                return Err(of.error(
                    "bs",
                    "reads and writes have different sizes: a point here has one",
                ));
            }
        };
        size_of(wanted)
            .filter(|n| *n > 0)
            .ok_or_else(|| of.error("bs", "it takes a size such as 4k"))
    }

    /// A queue, a mix or a rate.
    fn iops(&mut self, record: u64, depth: u64, rate: u64, engine: &str) -> Result<(), PointError> {
        let of = self.section;
        self.set("size", record);
        self.set("read", self.reads);
        self.set("random", self.random);
        self.set("iodepth", depth);
        let workers = of.number("numjobs", 1)?;
        self.set("workers", workers);
        if workers > 1 {
            self.note(
                "numjobs",
                "its workers share one file, and in fio each has its own",
            );
        }
        match engine {
            "uring" => {}
            "pread" => self.set("engine", "pread"),
            _ => {
                self.set("engine", "pread");
                self.note(
                    "ioengine",
                    "pread is used instead, as for every mix, rate and delay",
                );
            }
        }
        if rate > 0 {
            let all = rate.checked_mul(workers);
            let all = all.ok_or_else(|| of.error("rate_iops", "it is too high"))?;
            self.set("rate", all);
            if workers > 1 {
                let text = format!("fio's limit is of each job; here {all} is that of all workers");
                self.note("rate_iops", &text);
            }
        }
        if let Some(pause) = of.get(&["thinktime"]).filter(|t| *t != "0") {
            let pause = micros(pause).ok_or_else(|| of.error("thinktime", "it takes a time"))?;
            let millis = pause / 1000;
            if millis == 0 {
                return Err(of.error("thinktime", "a delay here has at least 1 ms"));
            }
            if !pause.is_multiple_of(1000) {
                let text = format!("a delay here is of whole milliseconds: it is {millis} ms");
                self.note("thinktime", &text);
            }
            self.set("delay", format!("{millis}ms"));
            self.set("burst", of.number("thinktime_blocks", 1)?);
        }
        let flushes = ["fsync", "fdatasync", "end_fsync", "fsync_on_close", "sync"];
        for name in flushes.into_iter().filter(|name| of.has(name)) {
            if of.get(&[name]) != Some("none") {
                self.note(name, "`iops` flushes nothing: this is not honoured");
            }
        }
        for name in ["loops", "verify", "zero_buffers"]
            .into_iter()
            .filter(|name| of.has(name))
        {
            self.note(name, "`iops` has no such parameter: this is not honoured");
        }
        if !of.has("direct") {
            self.notes.push(format!(
                "[{}]: without direct=1 reads are served from memory",
                of.name
            ));
        }
        Ok(())
    }

    /// One operation at a time in each thread.
    fn file(&mut self, record: u64, engine: &str) -> Result<(), PointError> {
        let of = self.section;
        let reads = self.reads == 100;
        let op = match (reads, self.random == 100) {
            (true, false) => "read",
            (true, true) => "rand-read",
            (false, false) => "write",
            (false, true) => "rand-write",
        };
        self.set("op", op);
        self.set("record", record);
        if of.number("numjobs", 1)? > 1 {
            self.set("threads", of.number("numjobs", 1)?);
        }
        if engine != "pread" {
            self.set("engine", engine);
        }
        if engine == "preadv" {
            self.set("vectors", 1);
        }
        if of.get(&["loops"]).is_some() {
            self.set("passes", of.number("loops", 1)?);
        }
        if of.has("zero_buffers") {
            self.set("pattern", "zeros");
        }
        if of
            .get(&["verify"])
            .is_some_and(|v| !matches!(v, "0" | "none"))
        {
            self.set("verify", true);
            self.note("verify", "data of its own is checked instead");
        }
        if reads {
            // fio drops the file's pages before it starts, unless told otherwise.
            let keeps = of.get(&["invalidate"]) == Some("0") || of.has("direct");
            if !keeps {
                self.set("cache", "cold");
            }
        } else {
            self.sync(engine)?;
        }
        Ok(())
    }

    fn sync(&mut self, engine: &str) -> Result<(), PointError> {
        let of = self.section;
        let (whole, data) = (of.number("fsync", 0)?, of.number("fdatasync", 0)?);
        let word = match of.get(&["sync"]) {
            Some("dsync") => "odsync",
            Some("1" | "sync") => "osync",
            _ if whole == 1 => "each",
            // msync(2), the flush of mmap, is of the whole file as well.
            _ if data == 1 && engine == "mmap" => "each",
            _ if data == 1 => "each-data",
            _ if of.has("end_fsync") || of.has("fsync_on_close") => "fsync",
            _ => "none",
        };
        for (name, every) in [("fsync", whole), ("fdatasync", data)] {
            if every > 1 {
                return Err(of.error(
                    name,
                    "a flush after each write (1) or at the end (end_fsync=1) is known",
                ));
            }
        }
        if word == "each" && whole == 0 {
            self.note(
                "fdatasync",
                "msync is called instead, which also flushes the file's times and size",
            );
        }
        if word != "none" {
            self.set("sync", word);
        }
        Ok(())
    }
}

/// fio's times of `thinktime`: microseconds without a unit.
fn micros(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "" | "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// fio's sizes: powers of 1024, with or without `b` and `ib`.
fn size_of(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads;

    fn one(text: &str) -> FioJob {
        let mut all = jobs(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(all.len(), 1);
        let job = all.remove(0);
        // What is made is what the workload takes.
        let workload = workloads::find(&job.settings.workload).unwrap();
        workload
            .points(&job.settings, 1.0)
            .unwrap_or_else(|e| panic!("{text}: {e}"));
        job
    }

    fn params(text: &str) -> Value {
        Value::Object(one(text).settings.params)
    }

    #[test]
    fn a_job_becomes_an_operation_of_file() {
        let job = one("; a comment\n[global]\nsize=64m\nbs=8k\n\n[a]\nrw=randread\ndirect=1\n");
        assert_eq!(
            (
                job.settings.workload.as_str(),
                job.settings.label.as_deref()
            ),
            ("file", Some("a"))
        );
        assert_eq!(
            Value::Object(job.settings.params),
            json!({"op": "rand-read", "record": 8192, "file_size": 64 << 20, "direct": true})
        );
        assert!(job.notes.is_empty(), "{:?}", job.notes);
        let cold = params("[a]\nsize=1g\n");
        assert_eq!(
            (&cold["op"], &cold["cache"]),
            (&json!("read"), &json!("cold"))
        );
        assert_eq!(params("[a]\nsize=1g\ninvalidate=0\n").get("cache"), None);
    }

    #[test]
    fn flushes_are_those_of_file() {
        for (options, word) in [
            ("fsync=1", "each"),
            ("fdatasync=1", "each-data"),
            ("fdatasync=1\nfsync=1", "each"),
            ("fdatasync=1\nioengine=mmap", "each"),
            ("end_fsync=1", "fsync"),
            ("sync=dsync", "odsync"),
            ("sync=1", "osync"),
        ] {
            assert_eq!(
                params(&format!("[a]\nrw=write\nsize=1m\n{options}\n"))["sync"],
                word,
                "{options}"
            );
        }
        for option in ["fsync=32", "fdatasync=32"] {
            let e = jobs(&format!("[a]\nrw=write\nsize=1m\n{option}\n"))
                .unwrap_err()
                .to_string();
            assert!(e.contains(&format!("[a] {option}")), "{e}");
        }
        let notes = |options: &str| one(&format!("[a]\nrw=write\nsize=1m\n{options}\n")).notes;
        assert!(notes("fdatasync=1").is_empty());
        let mapped = notes("fdatasync=1\nioengine=mmap").join("\n");
        assert!(mapped.contains("fdatasync=1: msync"), "{mapped}");
    }

    #[test]
    fn a_rate_is_of_all_workers() {
        let job = one("[a]\nrw=randread\nrate_iops=1000\nnumjobs=4\nsize=64m\ndirect=1\n");
        assert_eq!(job.settings.params["rate"], 4000);
        let notes = job.notes.join("\n");
        assert!(
            notes.contains("rate_iops=1000") && notes.contains("4000"),
            "{notes}"
        );
        let alone = one("[a]\nrw=randread\nrate_iops=1000\nsize=64m\ndirect=1\n");
        assert!(alone.notes.is_empty(), "{:?}", alone.notes);
    }

    #[test]
    fn what_is_only_partly_honoured_is_named() {
        for (options, words) in [
            (
                "size=64m\nthinktime=2500",
                "thinktime=2500: a delay here is of whole milliseconds: it is 2 ms",
            ),
            (
                "size=64m\nrw=randrw\nfsync_on_close=1",
                "fsync_on_close=1: `iops` flushes nothing",
            ),
            ("size=8m\nfilesize=64m", "size=8m: the file has `filesize`"),
            (
                "size=64m\nfadvise_hint=random",
                "fadvise_hint=random: the kernel is told",
            ),
        ] {
            let notes = one(&format!("[a]\n{options}\n")).notes.join("\n");
            assert!(notes.contains(words), "{options}: {notes}");
        }
        for options in [
            "size=64m\nfilesize=64m",
            "size=64m\nfadvise_hint=1",
            "size=64m\nfadvise_hint=0",
        ] {
            let notes = one(&format!("[a]\n{options}\n")).notes;
            assert!(notes.is_empty(), "{options}: {notes:?}");
        }
    }

    #[test]
    fn the_last_value_of_an_option_counts() {
        let text = "[global]\nsize=1m\nruntime=60\nnrfiles=9\nzonemode=strided\n[a]\nruntime=5\nnrfiles=1\nzonemode=none\n";
        let notes = one(text).notes.join("\n");
        assert!(
            notes.contains("runtime=5 ") && !notes.contains("runtime=60"),
            "{notes}"
        );
        let e = jobs("[global]\nsize=1m\nzonemode=none\n[a]\nzonemode=strided\n").unwrap_err();
        assert!(e.to_string().contains("zonemode=strided"), "{e}");
    }

    #[test]
    fn a_job_file_that_would_take_much_memory_is_refused() {
        let sections = |n: usize| format!("[global]\nsize=1m\n{}", "[a]\n".repeat(n));
        assert_eq!(jobs(&sections(MOST_SECTIONS)).unwrap().len(), MOST_SECTIONS);
        let options = |n: usize| format!("[a]\n{}", "size=1m\n".repeat(n));
        assert_eq!(
            one(&options(MOST_OPTIONS)).settings.params["file_size"],
            1_048_576
        );
        // Also where the options of [global] leave no place.
        let both = format!("[global]\n{}[a]\nbs=4k\n", "size=1m\n".repeat(MOST_OPTIONS));
        let long = format!("[a]\nsize=1m\n{}", "#\n".repeat(1 << 19));
        for (text, words) in [
            (
                sections(MOST_SECTIONS + 1),
                "line 1003: it has more than 1000 sections",
            ),
            (
                options(MOST_OPTIONS + 1),
                "line 502: it has more than 500 options",
            ),
            (both, "it has more than 500 options"),
            (long, "longer than 1 MiB"),
            (
                format!("[{}]\nsize=1m\n", "a".repeat(LONGEST_NAME + 1)),
                "line 1: the name of a section is longer",
            ),
        ] {
            let e = jobs(&text).unwrap_err().to_string();
            assert!(e.contains(words), "{words}: {e}");
        }
        let note = &one(&format!("[a]\nsize=1m\ndescription={}\n", "é".repeat(5000))).notes[0];
        assert!(note.chars().count() < 200, "{note}");
    }

    #[test]
    fn a_queue_a_mix_and_a_rate_are_of_iops() {
        let job = one(
            "[a]\nrw=randrw\nrwmixread=67\nioengine=libaio\niodepth=16\nsize=64m\nbs=4k\nnumjobs=2\ndirect=1\n",
        );
        assert_eq!(job.settings.workload, "iops");
        assert_eq!(
            Value::Object(job.settings.params),
            json!({"size": 4096, "read": 67, "random": 100, "iodepth": 16, "workers": 2, "file_size": 64 << 20, "direct": true})
        );
        let notes = job.notes.join("\n");
        assert!(
            notes.contains("io_uring is used instead") && notes.contains("share one file"),
            "{notes}"
        );
        assert_eq!(
            params("[a]\nrw=randread\nrate_iops=1000\nsize=64m\n")["rate"],
            1000
        );
        assert_eq!(
            params("[a]\nrw=randread\nthinktime=2000\nsize=64m\n")["delay"],
            "2ms"
        );
        assert_eq!(
            params("[a]\nrw=randread\npercentage_random=80\nsize=64m\n")["random"],
            80
        );
        // A synchronous engine has no queue, as in fio.
        assert_eq!(one("[a]\niodepth=16\nsize=64m\n").settings.workload, "file");
    }

    #[test]
    fn every_option_that_is_not_honoured_is_named() {
        let job = one("[a]\nsize=1m\nramp_time=10s\nruntime=60\nfoo_bar=7\ndirectory=/x\n");
        for name in ["ramp_time=10s", "runtime=60", "foo_bar=7", "directory=/x"] {
            assert!(
                job.notes.iter().any(|n| n.contains(name)),
                "{name}: {:?}",
                job.notes
            );
        }
        let all = jobs("[global]\nsize=1m\n[a]\n[b]\n[c]\nstonewall\n").unwrap();
        assert!(all[1].notes[0].contains("[b] runs at the same time as [a]"));
        assert!(all[0].notes.is_empty() && all[2].notes.is_empty());
    }

    #[test]
    fn what_is_no_job_here_is_refused_with_its_option() {
        for (text, words) in [
            ("", "no job in it"),
            ("[global]\nsize=1m\n", "no job in it"),
            ("size=1m\n", "line 1: `size=1m` is in no section"),
            ("[a\n", "line 1: `[a` is not a section"),
            ("[a]\n=1\n", "line 2"),
            ("[a]\nsize=${SIZE}\n", "variables are not replaced"),
            ("[a]\nrw=read\n", "[a]: it has no size"),
            ("[a]\nsize=20%\n", "size=20%"),
            ("[a]\nsize=1m\nrw=trim\n", "rw=trim"),
            ("[a]\nsize=1m\nioengine=net\n", "ioengine=net"),
            ("[a]\nsize=1m\nbssplit=4k/60:64k/40\n", "iops --spec"),
            ("[a]\nsize=1m\nnrfiles=9\n", "nrfiles=9"),
            ("[a]\nsize=1m\nnumjobs=x\n", "numjobs=x"),
        ] {
            let e = jobs(text).unwrap_err().to_string();
            assert!(e.contains(words), "{text}: {e}");
        }
    }

    #[test]
    fn a_command_line_is_one_job() {
        let of = command("fio --name=a --rw=randwrite --bs 4k --size=64m --end_fsync=1 --direct")
            .unwrap();
        assert_eq!(of.settings.params["direct"], true);
        assert_eq!(of.settings.params["sync"], "fsync");
        assert!(command("--name=a --size=1m --name=b --size=1m").is_err());
        assert!(command("job.fio").is_err());
        let job = command("--rw=read --size=64m --ramp_time=10").unwrap();
        assert!(
            job.notes[0].contains("ramp_time=10 has no effect here"),
            "{:?}",
            job.notes
        );
    }
}
