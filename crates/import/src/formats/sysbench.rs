//! sysbench 1.0: what it prints at the end of `run`.

use layermark_model::{ImportedPoint, mix_name};

use super::{Format, Found, short_lines, some};
use crate::{
    lines::{self, Section},
    values,
};

pub struct Sysbench;

/// What only `run` prints.
const RUN: &str = "Running the test with following options";

/// Modes of `fileio`: its words, percentage of reads and of random offsets. `None`: the ratio says.
const MODES: &[(&str, Option<f64>, f64)] = &[
    ("sequential read", Some(100.0), 0.0),
    ("sequential write (creation)", Some(0.0), 0.0),
    ("sequential rewrite", Some(0.0), 0.0),
    ("random read", Some(100.0), 100.0),
    ("random write", Some(0.0), 100.0),
    ("random r/w", None, 100.0),
];

/// Modes of I/O, and our engine.
const ENGINES: &[(&str, &str)] = &[
    ("synchronous", "pread"),
    ("asynchronous", "libaio"),
    ("slow mmaped", "mmap"),
    ("fast mmaped", "mmap"),
];

impl Format for Sysbench {
    fn id(&self) -> &'static str {
        "sysbench"
    }

    fn about(&self) -> &'static str {
        "sysbench 1.0: the text of `run`"
    }

    fn example(&self) -> &'static str {
        "sysbench fileio --file-num=1 --file-test-mode=rndrd run > FILE"
    }

    fn knows(&self, text: &str) -> bool {
        text.lines().any(|l| l.trim().starts_with("sysbench 1."))
            && text.contains("General statistics:")
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        short_lines(text)?;
        let mut found = Found::default();
        for run in lines::sections(text, |l| l.starts_with("sysbench 1.")) {
            let tool: Vec<&str> = run.lines[0].split(' ').take(2).collect();
            found.tool = values::clean(&tool.join(" "));
            // `prepare` and `cleanup` print their version too, and measure nothing.
            if run.after(RUN).is_none() {
                continue;
            }
            let general = General::of(&run)?;
            let limited = run.after("Target transaction rate:");
            let mut point = if run.after("File operations:").is_some() {
                file(&run, &general, &mut found)?
            } else {
                other(&run, &general)?
            };
            point.threads = Some(run.number("Number of threads:")? as u64);
            point.max_us = general.max_us;
            if let Some(rate) = limited {
                let (name, rate) = (&point.name, values::clean(rate));
                found.note(format!(
                    "`{name}` is not compared: its rate is limited to {rate}"
                ));
                point.op = None;
            }
            found.point(point)?;
        }
        some(found, "result of sysbench")
    }
}

/// What every test reports.
struct General {
    /// Events a second, over all threads.
    per_s: f64,
    /// Mean time of an event. sysbench rounds its own `avg` to 10 us.
    mean_us: Option<f64>,
    max_us: Option<f64>,
}

impl General {
    fn of(run: &Section) -> Result<Self, String> {
        let seconds = run.number("total time:")?;
        let events = run.number("total number of events:")?;
        let positive = |us: f64| (us > 0.0 && us.is_finite()).then_some(us);
        let mean = positive(run.number("sum:")? * 1e3 / events);
        let max = positive(run.number("max:")? * 1e3);
        Ok(Self {
            per_s: values::rate("total number of events", events / seconds)?,
            mean_us: mean.map(|us| values::micros("sum", us)).transpose()?,
            max_us: max.map(|us| values::micros("max", us)).transpose()?,
        })
    }
}

fn other(run: &Section, general: &General) -> Result<ImportedPoint, String> {
    let per_s = |label: &str| {
        let (_, rate) = run.after(label)?.split_once('(')?;
        lines::number(rate)
    };
    let mut point = ImportedPoint {
        ops_per_s: Some(general.per_s),
        op_us: general.mean_us,
        ..ImportedPoint::default()
    };
    if let Some(rate) = per_s("transactions:") {
        point.op = Some("transaction".into());
        point.ops_per_s = Some(values::rate("transactions", rate)?);
        let queries = per_s("queries:").unwrap_or(0.0) / rate;
        // The script's name is not in the file.
        point.name = format!("transactions of {queries:.0} queries");
    } else if let Some(primes) = run.after("Prime numbers limit:") {
        point.name = format!("cpu, primes up to {}", values::clean(primes));
        point.ops_per_s = Some(values::rate(
            "events per second",
            run.number("events per second:")?,
        )?);
    } else if let Some((_, rate)) = run
        .lines
        .iter()
        .find_map(|l| l.split_once(" MiB transferred ("))
    {
        let rate = lines::number(rate).ok_or("the rate of `MiB transferred` is not a number")?;
        let said = |label| run.after(label).map(values::clean).unwrap_or_default();
        point.record = run.after("block size:").and_then(values::size);
        point.name = format!("memory {}, {} scope", said("operation:"), said("scope:"));
        point.bytes_per_s = Some(values::rate("MiB transferred", rate * 1_048_576.0)?);
        if let Some(ops) = per_s("Total operations:") {
            point.ops_per_s = Some(values::rate("Total operations", ops)?);
        }
        // The clock of an event costs more than an event.
        point.op_us = None;
    } else {
        point.name = "events".into();
    }
    Ok(point)
}

fn file(run: &Section, general: &General, found: &mut Found) -> Result<ImportedPoint, String> {
    let first = run.first;
    let mode = run.need("Doing ")?.trim_end_matches(" test");
    let known = MODES.iter().find(|(words, ..)| *words == mode);
    let ratio = run.number("Read/Write ratio for combined random IO test:");
    let of_ratio = || ratio.as_ref().ok().map(|r| 100.0 * r / (1.0 + r));
    let op = known.and_then(|(_, reads, random)| Some(mix_name(reads.or_else(of_ratio)?, *random)));
    let files = run.lines.iter().find_map(|l| {
        let (count, size) = l.split_once(" files, ")?;
        let size = size.strip_suffix(" each")?;
        lines::number(size)?;
        // A size such as 1.1719GiB is rounded.
        Some((count.parse::<u64>().ok()?, values::size(size)))
    });
    let (count, file_size) = files.ok_or_else(|| {
        format!("the result that begins in line {first} has no line of its files: it is cut off")
    })?;
    let io = run
        .lines
        .iter()
        .find_map(|l| l.strip_prefix("Using ")?.strip_suffix(" I/O mode"));
    let engine = ENGINES.iter().find(|(words, _)| Some(*words) == io);
    let rates = ["reads/s:", "writes/s:", "fsyncs/s:"].map(|label| run.number(label));
    let [reads, writes, syncs] = rates;
    let (ops, syncs) = (reads? + writes?, syncs?);
    let bytes = run.number("read, MiB/s:")? + run.number("written, MiB/s:")?;
    let each = run
        .lines
        .contains(&"Calling fsync() after each write operation.");
    let every = run
        .after("Periodic FSYNC enabled, calling fsync() each ")
        .and_then(lines::number)
        .filter(|_| syncs > 0.0);
    let flags = run.after("Extra file open flags:").unwrap_or_default();
    let has = |flag: &str| flags.split([' ', ',']).any(|word| word == flag);
    let threads = run.number("Number of threads:")?;
    let mut name = values::clean(mode);
    if count > 1 {
        name = format!("{name}, {count} files");
    }
    let apart = match engine {
        _ if count > 1 => Some(format!("it works on {count} files (--file-num)")),
        _ if threads > 1.0 => Some("its threads share a file".into()),
        Some((_, "libaio")) => Some("the file does not have its queue depth".into()),
        _ => None,
    };
    if let Some(why) = &apart {
        found.note(format!("`{name}` is not compared with ours: {why}"));
    }
    // Flushes are events of their own, unless each write has its own.
    let apart_syncs = syncs > 0.0 && !each;
    if apart_syncs {
        found.note(format!(
            "`{name}`: the mean and the longest time are left out, as they are of fsync too"
        ));
    }
    let mean = general.mean_us.filter(|_| !apart_syncs);
    let sync = match () {
        () if has("dsync") => Some("odsync".into()),
        () if has("sync") => Some("osync".into()),
        () if each => Some("each".into()),
        () => every.map(|n| format!("every {n}")),
    };
    Ok(ImportedPoint {
        name,
        op: op.filter(|_| apart.is_none()),
        record: Some(run.need("Block size ")?).and_then(values::size),
        file_size,
        queue_depth: (engine.map(|(_, e)| *e) != Some("libaio")).then_some(1),
        direct: Some(has("direct")),
        sync,
        engine: engine.map(|(_, engine)| (*engine).into()),
        bytes_per_s: Some(values::rate("MiB/s", bytes * 1_048_576.0)?),
        ops_per_s: Some(values::rate("reads/s", ops)?),
        op_us: mean,
        ..ImportedPoint::default()
    })
}
