//! Iometer's results file: comma separated, with sections that begin with an apostrophe.

use std::collections::HashMap;

use layermark_model::{ImportedPoint, mix_name};

use super::{Format, Found, short_lines, some};
use crate::values;

pub struct Iometer;

impl Format for Iometer {
    fn id(&self) -> &'static str {
        "iometer"
    }

    fn about(&self) -> &'static str {
        "Iometer's results file (CSV)"
    }

    fn example(&self) -> &'static str {
        "save the results of a whole Iometer test again"
    }

    fn knows(&self, text: &str) -> bool {
        text.contains("'Test Type") || text.contains("'Target Type,Target Name")
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        short_lines(text)?;
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .quoting(false)
            .from_reader(text.as_bytes());
        let mut read = Reading::default();
        for (number, line) in reader.records().enumerate() {
            let line = line.map_err(|e| format!("row {}: {e}", number + 1))?;
            let number = line
                .position()
                .map_or(number as u64 + 1, csv::Position::line);
            let line: Vec<&str> = line.iter().map(str::trim).collect();
            read.line(&line, number)?;
        }
        if read.found.points.is_empty() {
            let why = if read.columns.is_empty() {
                "there is no results section in it"
            } else {
                "it is cut off: its results have no line ALL"
            };
            return Err(why.into());
        }
        read.found.tool = match read.version {
            Some(version) => format!("Iometer {version}"),
            None => "Iometer".into(),
        };
        some(read.found, "result")
    }
}

/// One line of an access specification.
struct Part {
    size: u64,
    share: f64,
    reads: f64,
    random: f64,
}

#[derive(Default)]
struct Reading {
    /// The heading of the section, or of the line that follows.
    heading: String,
    version: Option<String>,
    specs: HashMap<String, Vec<Part>>,
    spec: String,
    columns: HashMap<String, usize>,
    found: Found,
}

impl Reading {
    fn line(&mut self, line: &[&str], number: u64) -> Result<(), String> {
        let first = line.first().copied().unwrap_or_default();
        if let Some(heading) = first.strip_prefix('\'') {
            heading.clone_into(&mut self.heading);
            if heading == "Target Type" {
                let named = line.iter().enumerate().map(|(n, c)| ((*c).to_owned(), n));
                self.columns = named.collect();
            }
            return Ok(());
        }
        match self.heading.as_str() {
            "Version" if self.version.is_none() => self.version = Some(values::clean(first)),
            "Time Stamp" if self.found.measured.is_none() => {
                self.found.measured = Some(values::clean(first));
            }
            "Access specification name" => {
                // A name may hold commas; the last cell is its default assignment.
                let name = &line[..line.len().saturating_sub(1).max(1)];
                self.spec = name.join(",");
                self.specs.insert(self.spec.clone(), Vec::new());
            }
            "size" => {
                let part = part(line).ok_or_else(|| {
                    format!(
                        "line {number}: an access specification has size, share, reads and random"
                    )
                })?;
                if let Some(parts) = self.specs.get_mut(&self.spec) {
                    parts.push(part);
                }
            }
            "Target Type" if first == "ALL" => {
                let point = self.point(line, number)?;
                self.found.point(point)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn number(&self, names: &[&str], line: &[&str], number: u64) -> Result<Option<f64>, String> {
        let Some((name, at)) = names.iter().find_map(|n| Some((n, self.columns.get(*n)?))) else {
            return Ok(None);
        };
        let cell = line
            .get(*at)
            .ok_or_else(|| format!("line {number}: it is cut off before `{name}`"))?;
        if cell.is_empty() {
            return Ok(None);
        }
        let value = cell
            .parse()
            .map_err(|_| format!("line {number}: `{name}` is `{}`", values::clean(cell)))?;
        Ok(Some(value))
    }

    fn point(&self, line: &[&str], number: u64) -> Result<ImportedPoint, String> {
        let at = |names: &[&str]| self.number(names, line, number);
        let what = |name: &str| format!("line {number}: `{name}`");
        let whole = |names: &[&str]| -> Result<Option<u64>, String> {
            let value = at(names)?.filter(|v| *v > 0.0);
            Ok(value
                .map(|v| values::rate(&what(names[0]), v))
                .transpose()?
                .map(|v| v as u64))
        };
        let ms = |names: &[&str]| -> Result<Option<f64>, String> {
            at(names)?
                .map(|v| values::micros(&what(names[0]), v * 1e3))
                .transpose()
        };
        let ops = at(&["IOps"])?.ok_or_else(|| format!("line {number}: there is no `IOps`"))?;
        let decimal = at(&["MBps (Decimal)"])?.map(|v| v * 1e6);
        let binary = at(&["MiBps (Binary)", "MBps (Binary)", "MBps"])?.map(|v| v * 1_048_576.0);
        let bytes = decimal.or(binary);
        let name = line.get(2).copied().unwrap_or_default();
        let spec = self.specs.get(name).map_or(&[][..], Vec::as_slice);
        let (op, record) = describe(spec);
        Ok(ImportedPoint {
            name: values::clean(name),
            op,
            record,
            // 512-byte sectors.
            file_size: whole(&["Maximum Size"])?.map(|sectors| sectors.saturating_mul(512)),
            queue_depth: whole(&["Queue Depth"])?,
            threads: whole(&["# Workers"])?,
            ops_per_s: Some(values::rate(&what("IOps"), ops)?),
            bytes_per_s: bytes.map(|b| values::rate(&what("MBps"), b)).transpose()?,
            op_us: ms(&["Average Response Time"])?,
            max_us: ms(&["Maximum Response Time"])?,
            ..ImportedPoint::default()
        })
    }
}

/// `size,% of size,% reads,% random,delay,burst,align,reply`
fn part(line: &[&str]) -> Option<Part> {
    let share = |n: usize| {
        let value: f64 = line.get(n)?.parse().ok()?;
        (0.0..=100.0).contains(&value).then_some(value)
    };
    Some(Part {
        size: line.first()?.parse().ok()?,
        share: share(1)?,
        reads: share(2)?,
        random: share(3)?,
    })
}

/// The operation, and the size if all lines of a specification have the same one.
fn describe(spec: &[Part]) -> (Option<String>, Option<u64>) {
    let used: Vec<&Part> = spec.iter().filter(|p| p.share > 0.0).collect();
    let same = |of: fn(&Part) -> f64| {
        let first = used.first().map(|p| of(p))?;
        used.iter()
            .all(|p| (of(p) - first).abs() < 1e-9)
            .then_some(first)
    };
    let size = used.first().map(|p| p.size);
    let size = size.filter(|s| used.iter().all(|p| p.size == *s));
    let op = same(|p| p.reads).zip(same(|p| p.random));
    (
        op.filter(|_| size.is_some()).map(|(r, n)| mix_name(r, n)),
        size,
    )
}
