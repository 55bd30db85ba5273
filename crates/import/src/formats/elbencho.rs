//! elbencho, `--csvfile`.

use std::collections::HashMap;

use layermark_model::{ImportedPoint, mix_name};

use super::{Format, Found, short_lines, some};
use crate::values;

pub struct Elbencho;

const FIRST: &str = "ISO date,label,path type,";

impl Format for Elbencho {
    fn id(&self) -> &'static str {
        "elbencho"
    }

    fn about(&self) -> &'static str {
        "elbencho with --csvfile"
    }

    fn example(&self) -> &'static str {
        "elbencho --csvfile FILE -w -r -t 4 -s 64m -b 4k DIR/x"
    }

    fn knows(&self, text: &str) -> bool {
        text.lines().any(|l| l.starts_with(FIRST))
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        short_lines(text)?;
        let mut found = Found {
            tool: "elbencho".into(),
            ..Found::default()
        };
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(text.as_bytes());
        let mut head: Vec<String> = Vec::new();
        for row in reader.records() {
            let row = row.map_err(|e| e.to_string())?;
            let line = row.position().map_or(0, csv::Position::line);
            // Runs are appended, each with its heading where its columns differ.
            if row.get(0) == Some("ISO date") {
                head = row.iter().map(|name| name.trim().to_owned()).collect();
                continue;
            }
            if row.len() < head.len() {
                return Err(format!(
                    "line {line}: it has {} cells under {} names: it is cut off",
                    row.len(),
                    head.len()
                ));
            }
            let cells = head
                .iter()
                .map(String::as_str)
                .zip(row.iter().map(str::trim));
            Phase {
                line,
                cells: cells.collect(),
            }
            .read(&mut found)?;
        }
        some(found, "phase")
    }
}

/// A row.
struct Phase<'a> {
    line: u64,
    cells: HashMap<&'a str, &'a str>,
}

impl Phase<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.cells
            .get(name)
            .copied()
            .filter(|text| !text.is_empty())
    }

    fn number(&self, name: &str) -> Result<Option<f64>, String> {
        let wrong =
            |text: &str| format!("line {}: `{name}` is `{}`", self.line, values::clean(text));
        let parse = |text: &str| text.parse::<f64>().map_err(|_| wrong(text));
        self.text(name).map(parse).transpose()
    }

    fn whole(&self, name: &str) -> Result<Option<u64>, String> {
        Ok(self.number(name)?.filter(|n| *n > 0.0).map(|n| n as u64))
    }

    fn on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| text != "0")
    }

    fn read(&self, found: &mut Found) -> Result<(), String> {
        found.measured = self
            .text("ISO date")
            .map(values::clean)
            .or(found.measured.take());
        let operation = self.text("operation").unwrap_or_default();
        let reads = match operation {
            "READ" => Some(100.0),
            "WRITE" => Some(0.0),
            _ => None,
        };
        let what = |name: &str| format!("line {}: `{name}`", self.line);
        let rate = |name: &str, scale: f64| -> Result<Option<f64>, String> {
            let value = self.number(name)?.filter(|v| *v > 0.0);
            value
                .map(|v| values::rate(&what(name), v * scale))
                .transpose()
        };
        // Until the last thread has finished, as everywhere else; `first` is when the first one has.
        let ops = rate("IOPS [last]", 1.0)?;
        let entries = rate("entries/s [last]", 1.0)?;
        let Some(ops_per_s) = (if reads.is_some() {
            ops
        } else {
            ops.or(entries)
        }) else {
            // SYNC and DROPCACHE have no rate.
            return Ok(());
        };
        let hosts = self.whole("hosts")?.unwrap_or(1);
        let threads = self.whole("threads")?.map(|n| n.saturating_mul(hosts));
        let several = match (
            self.text("path type"),
            self.number("dirs")?,
            self.number("files")?,
        ) {
            (Some("dir"), dirs, files) => dirs.unwrap_or(1.0).max(1.0) * files.unwrap_or(1.0) > 1.0,
            _ => self.number("paths")?.unwrap_or(1.0) > 1.0,
        };
        let shared = self.text("path type") != Some("dir") && threads.unwrap_or(1) > 1;
        let name = match self.text("label") {
            Some(label) => format!("{operation}, {label}"),
            None => operation.to_owned(),
        };
        let apart = match () {
            () if reads.is_none() => None,
            () if several => Some("each thread works on several files"),
            () if shared => Some("its threads share a file"),
            () => None,
        };
        if let Some(why) = apart {
            found.note(format!(
                "line {}: `{}` is not compared with ours: {why}",
                self.line,
                values::clean(&name)
            ));
        }
        let random = if self.on("random") { 100.0 } else { 0.0 };
        let prefix = if reads.is_some() { "IO" } else { "Ent" };
        let us = |which: &str| -> Result<Option<f64>, String> {
            let name = format!("{prefix} lat us [{which}]");
            let value = self.number(&name)?.filter(|v| *v > 0.0);
            value.map(|v| values::micros(&what(&name), v)).transpose()
        };
        found.point(ImportedPoint {
            name: values::clean(&name),
            op: reads
                .filter(|_| apart.is_none())
                .map(|reads| mix_name(reads, random)),
            record: self.whole("block size")?.filter(|_| reads.is_some()),
            file_size: self.whole("file size")?,
            queue_depth: self.whole("IO depth")?,
            threads,
            direct: Some(self.on("direct IO")),
            bytes_per_s: rate("MiB/s [last]", 1_048_576.0)?,
            ops_per_s: Some(ops_per_s),
            op_us: us("avg")?,
            max_us: us("max")?,
            ..ImportedPoint::default()
        })
    }
}
