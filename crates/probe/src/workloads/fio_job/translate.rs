//! From options to parameters of `file` or `iops`.

use layermark_model::{Settings, binary_size};
use serde_json::{Map, Value};

use super::{
    FioJob, JobError, PAGE,
    options::{
        Becomes::{Other, Ours, Refused},
        ENGINES, OPTIONS, PATTERNS,
    },
    sections::{Section, short},
};

impl Section<'_> {
    /// The job of these options.
    pub(super) fn job(&self) -> Result<FioJob, JobError> {
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

    fn settings(&mut self) -> Result<Settings, JobError> {
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
            let (place, add) = if of.is_command {
                ("the command line".to_owned(), "--size=64m")
            } else {
                (format!("[{}]", of.name), "size=64m")
            };
            JobError::at(place, "it has no `size`").hint(format!("add {add}: {PAGE}"))
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
    fn record(&self) -> Result<u64, JobError> {
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
        binary_size(wanted)
            .filter(|n| *n > 0)
            .ok_or_else(|| of.error("bs", "it takes a size such as 4k"))
    }

    /// A queue, a mix or a rate.
    fn iops(&mut self, record: u64, depth: u64, rate: u64, engine: &str) -> Result<(), JobError> {
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
    fn file(&mut self, record: u64, engine: &str) -> Result<(), JobError> {
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

    fn sync(&mut self, engine: &str) -> Result<(), JobError> {
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
