//! diskspd: the text that it prints (`-Rtext`, the default).

use layermark_model::{ImportedPoint, mix_name};

use super::{Format, Found, short_lines, some};
use crate::{
    lines::{self, Section},
    values,
};

pub struct Diskspd;

const FIRST: &str = "Command Line:";

impl Format for Diskspd {
    fn id(&self) -> &'static str {
        "diskspd"
    }

    fn about(&self) -> &'static str {
        "diskspd: the text that it prints, with -L for latencies"
    }

    fn example(&self) -> &'static str {
        "diskspd -L -c64M -b4K -r -w0 -o1 -t1 -Sh x.dat > FILE"
    }

    fn knows(&self, text: &str) -> bool {
        text.contains("timespan:") && text.contains("Total IO")
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        short_lines(text)?;
        let mut found = Found {
            tool: "diskspd".into(),
            ..Found::default()
        };
        for run in lines::sections(text, |l| l.starts_with(FIRST)) {
            if let Some(start) = run.after("start time:") {
                found.measured = Some(values::clean(start));
            }
            read(&run, &mut found)?;
        }
        some(found, "result of diskspd")
    }
}

fn read(run: &Section, found: &mut Found) -> Result<(), String> {
    let first = run.first;
    let targets = run.all("path:").count();
    let spans = run.all("Results for timespan ").count();
    let name = values::clean(run.after("path:").unwrap_or("diskspd").trim_matches('\''));
    let total = Row::of(run, "Total IO")?;
    let reads = if let Some(ratio) = run.after("performing mix test (read/write ratio: ") {
        lines::number(ratio)
    } else if run.after("performing read test").is_some() {
        Some(100.0)
    } else {
        run.after("performing write test").map(|_| 0.0)
    };
    let random = match (
        run.after("using random I/O"),
        run.after("using sequential I/O"),
    ) {
        (Some(_), None) => Some(100.0),
        (None, Some(_)) => Some(0.0),
        _ => None,
    };
    let whole = |label: &str| run.after(label).and_then(lines::number).map(|n| n as u64);
    let depth = whole("number of outstanding I/O operations per thread:")
        .or_else(|| whole("number of outstanding I/O operations:"));
    let threads = whole("thread count:");
    let limited = run
        .after("throughput rate-limited to ")
        .or_else(|| run.after("throughput:"))
        .or_else(|| run.after("think time:").filter(|t| *t != "0ms"));
    let apart = match () {
        () if targets != 1 => Some(format!("it works on {targets} files")),
        () if spans != 1 => Some(format!(
            "it has {spans} timespans, of which the first was read"
        )),
        () if limited.is_some() => Some("its rate is limited".into()),
        () => None,
    };
    if let Some(why) = &apart {
        found.note(format!("`{name}` is not compared: {why}"));
    }
    let through = run.lines.iter().any(|l| l.contains("writethrough on"));
    let percentile = |row: &str| {
        let rest = run.after(row)?.trim_start_matches('|');
        let total = rest.rsplit('|').next()?;
        total.trim().parse::<f64>().ok().filter(|ms| *ms > 0.0)
    };
    let us = |what: &str, ms: Option<f64>| ms.map(|ms| values::micros(what, ms * 1e3)).transpose();
    let ops = values::rate(&format!("the result in line {first}: I/O per s"), total.ops)?;
    let op = reads
        .zip(random)
        .map(|(reads, random)| mix_name(reads, random));
    found.point(ImportedPoint {
        op: op.filter(|_| apart.is_none()),
        record: run.after("block size:").and_then(values::size),
        file_size: total.file_size,
        queue_depth: depth,
        threads,
        direct: Some(run.lines.contains(&"software cache disabled")),
        sync: Some(if through { "osync" } else { "none" }.into()),
        engine: Some("windows".into()),
        bytes_per_s: Some(values::rate("bytes", total.bytes_per_op * ops)?),
        ops_per_s: Some(ops),
        op_us: us("AvgLat", total.mean_ms)?,
        p99_us: us("99th", percentile("99th"))?,
        max_us: us("max", percentile("max"))?,
        name,
        ..ImportedPoint::default()
    })
}

/// The line `total:` of a table.
struct Row {
    ops: f64,
    bytes_per_op: f64,
    mean_ms: Option<f64>,
    /// Of the first file, in brackets behind its path.
    file_size: Option<u64>,
}

impl Row {
    fn of(run: &Section, title: &str) -> Result<Self, String> {
        let cut = || {
            format!(
                "the result that begins in line {} has no table `{title}`: it is cut off",
                run.first
            )
        };
        let begin = run.lines.iter().position(|l| *l == title).ok_or_else(cut)?;
        let table = &run.lines[begin + 1..];
        let head: Vec<&str> = table
            .first()
            .ok_or_else(cut)?
            .split('|')
            .map(str::trim)
            .collect();
        let total = table
            .iter()
            .find_map(|l| l.strip_prefix("total:"))
            .ok_or_else(cut)?;
        let cells: Vec<&str> = total.split('|').map(str::trim).collect();
        // The line has no name of a thread.
        let number = |name: &str| {
            let at = head.iter().position(|h| *h == name)?.checked_sub(1)?;
            cells.get(at)?.parse::<f64>().ok()
        };
        let bytes = number("bytes").ok_or_else(cut)?;
        let count = number("I/Os").ok_or_else(cut)?;
        let size = table.iter().find_map(|l| {
            let (_, size) = l.strip_suffix(')')?.rsplit_once('(')?;
            values::size(size)
        });
        Ok(Self {
            ops: number("I/O per s").ok_or_else(cut)?,
            bytes_per_op: if count > 0.0 { bytes / count } else { 0.0 },
            mean_ms: number("AvgLat").filter(|ms| *ms > 0.0),
            file_size: size,
        })
    }
}
