//! Study of buffer sizes for `read` and `write` (2008): a file of 256 MB in records of 32 to 4096
//! bytes. It has wall time and CPU time of each. The study's word is "block", which is a round of the
//! schedule here.

use std::fmt::Write;

use layermark_model::{Quantity, StudyId, format_size};

use super::{
    Data, Study,
    rows::{cpu_seconds, data_size, layers, request_size, seconds, usable, values},
};
use crate::{
    code_span::code,
    number as text,
    types::{
        Axis, BufferRow, Cell, Conclusion, DataTable, Holds, LineChart, Mark, Pick, ResultRow,
        Section, Series, TextFile,
    },
};

/// The record size that the study recommends, chosen by eye.
const RECOMMENDED: u64 = 1024;

/// See the module.
pub struct BufferSize;

impl Study for BufferSize {
    fn id(&self) -> StudyId {
        StudyId::BufferSize
    }

    fn title(&self) -> &'static str {
        "buffer size for read and write"
    }

    fn section(&self, data: &Data) -> Section {
        let ops = ["write", "read"].map(|op| Op { data, op });
        Section {
            name: self.id().id().into(),
            title: self.heading(),
            about: "One file, written and then read record by record with write() and read(). Wall time and CPU time of the program for each record size. The study chose 1024 bytes by eye.".into(),
            tables: ops.iter().map(Op::table).collect(),
            charts: ops.iter().flat_map(Op::charts).collect(),
            conclusions: data.buffer.iter().flat_map(|b| conclusions(data, b)).collect(),
            files: layers(data)
                .iter()
                .flat_map(|l| ops.iter().filter_map(|op| op.lines(l)))
                .collect(),
            ..Section::default()
        }
    }

    fn headline(&self, data: &Data, _: &Section) -> Option<String> {
        let native = data.run.layers[data.baseline].name.as_str();
        let ops = ["write", "read"].map(|op| Op { data, op });
        let picks: Vec<&BufferRow> = data.buffer.iter().filter(|b| b.layer == native).collect();
        let row = picks.iter().max_by_key(|b| b.wall.record)?;
        let pick = row.wall;
        pick.between?;
        // The claims of this page.
        let holds: Vec<Holds> = picks.iter().map(|b| enough_of(data, b)).collect();
        let size = said(&pick, &row.records);
        if holds.contains(&Holds::Open) && !holds.contains(&Holds::No) {
            return Some(format!(
                "not decided whether {RECOMMENDED} bytes are enough: the smallest size within 5 % of the best throughput is {size}"
            ));
        }
        let smaller = RECOMMENDED.min(pick.record);
        let costs: Vec<String> = ops
            .iter()
            .filter_map(|op| Some((op, op.times(native, smaller, pick.record)?)))
            .map(|(op, times)| format!("{}x ({})", text::ratio(times), op.op))
            .collect();
        if smaller == pick.record || costs.is_empty() {
            return Some(format!(
                "{size} are enough: within 5 % of the best throughput"
            ));
        }
        Some(format!(
            "use {size}; {RECOMMENDED} costs {}",
            costs.join(", ")
        ))
    }
}

/// One operation of the study.
struct Op<'a> {
    data: &'a Data<'a>,
    op: &'static str,
}

impl<'a> Op<'a> {
    fn rows(&self) -> impl Iterator<Item = &'a ResultRow> {
        let op = self.op;
        let rows = self.data.results.iter();
        rows.filter(move |r| r.meaning.operation == op && usable(r))
    }

    fn find(&self, layer: &str, record: u64) -> Option<&'a ResultRow> {
        self.rows()
            .find(|r| r.layer == layer && request_size(r) == record)
    }

    /// Time for the file in records of one size, over that in records of another.
    fn times(&self, layer: &str, record: u64, other: u64) -> Option<f64> {
        let of = |record| seconds(self.find(layer, record)?);
        Some(of(record)? / of(other)?)
    }

    fn table(&self) -> DataTable {
        let layers = layers(self.data);
        let mut head = vec!["record".to_owned()];
        for layer in &layers {
            head.extend([format!("{layer}, time"), format!("{layer}, CPU")]);
        }
        let cell = |value: Option<f64>| {
            value.map_or_else(Cell::default, |s| Cell::number(text::time(s * 1e6), s))
        };
        let line = |record: &u64| {
            let mut line = vec![Cell::number(record.to_string(), *record as f64)];
            for layer in &layers {
                let row = self.find(layer, *record);
                line.extend([cell(row.and_then(seconds)), cell(row.and_then(cpu_seconds))]);
            }
            line
        };
        let size = self.rows().next().map_or(0, data_size);
        DataTable {
            title: format!("{}, {}: seconds for the file", self.op, format_size(size)),
            note: String::new(),
            head,
            rows: values(self.rows(), request_size).iter().map(line).collect(),
        }
    }

    fn charts(&self) -> Vec<LineChart> {
        let chart = |what: &str, value: fn(&ResultRow) -> Option<f64>, spans: bool| {
            let axis = |label: &str, unit: &str| Axis {
                label: label.into(),
                unit: unit.into(),
            };
            let of = |row: &ResultRow| {
                let y = value(row)?;
                let scale = y / row.op_us?;
                Some(Mark {
                    x: request_size(row) as f64,
                    y,
                    interval: row
                        .op_us_interval
                        .filter(|_| spans)
                        .map(|i| i.map(|v| v * scale)),
                })
            };
            let series = |layer: &&str| {
                let own = self.rows().filter(|r| r.layer == **layer);
                Series::along(layer, own.filter_map(of))
            };
            LineChart {
                title: format!("{}: {what} over record size", self.op),
                x: axis("record size", "B"),
                y: axis(what, "s"),
                series: layers(self.data).iter().map(series).collect(),
            }
        };
        vec![
            chart("time for the file", seconds, true),
            chart("CPU time for the file", cpu_seconds, false),
        ]
    }

    /// The lines of the study's own program.
    fn lines(&self, layer: &str) -> Option<TextFile> {
        let mut text = String::new();
        for record in values(self.rows(), request_size) {
            let Some(row) = self.find(layer, record) else {
                continue;
            };
            let (Some(time), Some(clock)) = (seconds(row), cpu_seconds(row)) else {
                continue;
            };
            let size = data_size(row);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "block={record} size={size} time={time:.6} clock={clock:.3}s"
            );
        }
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let layer: String = layer.chars().map(plain).collect();
        (!text.is_empty()).then(|| TextFile {
            name: format!("{layer}-{}.txt", self.op),
            text,
        })
    }
}

/// The operation of a row.
fn operation<'a>(data: &Data<'a>, row: &BufferRow) -> &'a str {
    let mut meanings = data.results.iter().map(|r| &r.meaning);
    let own = meanings.find(|m| m.describe(&[Quantity::RequestSize]) == row.label);
    own.map_or("", |m| m.operation.as_str())
}

/// Record sizes of the plan that a row has no result of.
fn absent(data: &Data, row: &BufferRow) -> Vec<u64> {
    let op = operation(data, row);
    let planned = data.run.points.iter().map(|p| &p.meaning);
    let planned = planned.filter(|m| m.operation == op);
    let sizes = planned.filter_map(|m| m.value(Quantity::RequestSize));
    sizes.filter(|size| !row.records.contains(size)).collect()
}

/// Whether the recommended size is enough for the throughput of a row.
fn enough_of(data: &Data, row: &BufferRow) -> Holds {
    enough(&row.wall, &row.records, &absent(data, row))
}

/// The study's claims about 1024 bytes, for one kind of work in one layer.
fn conclusions(data: &Data, row: &BufferRow) -> Vec<Conclusion> {
    let op = operation(data, row);
    let evidence = |records: &[u64]| {
        let own = data
            .results
            .iter()
            .filter(|r| r.layer == row.layer && r.meaning.operation == op);
        own.filter(|r| records.contains(&request_size(r)))
            .map(|r| r.id.clone())
            .collect()
    };
    let absent = absent(data, row);
    let about = |what: &str| format!("{RECOMMENDED} bytes are enough for the {what} of {op}");
    let wall = Conclusion {
        claim: about("throughput"),
        layer: row.layer.clone(),
        text: format!(
            "records of {RECOMMENDED} bytes are enough for the throughput of {op} in {}: the smallest within 5 % of the best is {}{}",
            code(&row.layer),
            said(&row.wall, &row.records),
            open(&row.wall, &absent)
        ),
        holds: enough_of(data, row),
        evidence: evidence(&[row.wall.record, row.wall.best]),
    };
    let cpu = row.cpu.as_ref().map(|cpu| Conclusion {
        claim: about("CPU time"),
        layer: row.layer.clone(),
        text: format!(
            "records of {RECOMMENDED} bytes are enough for the CPU time of {op} in {}: the smallest within 5 % of the least is {}{}",
            code(&row.layer),
            said(cpu, &row.records),
            open(cpu, &absent)
        ),
        holds: enough(cpu, &row.records, &absent),
        evidence: evidence(&[cpu.record, cpu.best]),
    });
    std::iter::once(wall).chain(cpu).collect()
}

/// `2048 bytes (1024 to 2048)`, of the sizes that were measured.
fn said(pick: &Pick, records: &[u64]) -> String {
    let size = match pick.between {
        Some([low, high]) if low < high => format!("{} bytes ({low} to {high})", pick.record),
        _ => format!("{} bytes", pick.record),
    };
    if records.iter().max() == Some(&pick.record) {
        return format!("{size} or more (no larger size was measured)");
    }
    size
}

/// Why a choice decides nothing, if so.
fn open(pick: &Pick, absent: &[u64]) -> String {
    let sizes: Vec<String> = absent.iter().map(u64::to_string).collect();
    match (sizes.is_empty(), pick.between) {
        (false, _) => format!(" of those measured; {} were not", text::list(&sizes)),
        (true, None) => ", in too few blocks to be certain".into(),
        (true, Some(_)) => String::new(),
    }
}

/// Decided by the interval, which has to lie on one side. A size that was not measured may be better.
fn enough(pick: &Pick, records: &[u64], absent: &[u64]) -> Holds {
    let measured = records.contains(&RECOMMENDED);
    let Some([low, high]) = pick.between.filter(|_| measured) else {
        return Holds::Open;
    };
    Holds::when(absent.is_empty() && high <= RECOMMENDED, low > RECOMMENDED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_decides_nothing() {
        let pick = |record, between| Pick {
            record,
            between,
            best: record,
            seconds_per_byte: 1.0,
            best_seconds_per_byte: 1.0,
        };
        let small = pick(512, Some([256, 1024]));
        let all = [512, 1024, 2048];
        assert_eq!(enough(&small, &all, &[]), Holds::Yes);
        assert_eq!(open(&small, &[]), "");
        // Stopped before the larger sizes: one of them may be better.
        assert_eq!(enough(&small, &all[..2], &[2048, 4096]), Holds::Open);
        assert_eq!(
            open(&small, &[2048, 4096]),
            " of those measured; 2048 and 4096 were not"
        );
        let unsure = pick(512, None);
        assert_eq!(enough(&unsure, &all, &[]), Holds::Open);
        assert_eq!(open(&unsure, &[]), ", in too few blocks to be certain");
        let large = pick(2048, Some([2048, 2048]));
        assert_eq!(enough(&large, &all, &[4096]), Holds::No);
        assert_eq!(enough(&large, &all[2..], &[]), Holds::Open);
    }
}
