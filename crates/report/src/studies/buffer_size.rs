//! Study of buffer sizes for `read` and `write` (2008): a file of 256 MB in records of 32 to 4096
//! bytes. It has wall time and CPU time of each. The study's word is "block", which is a round of the
//! schedule here.

use layermark_model::{Quantity, StudyId};

use super::{
    Data, Study, conclusion,
    rows::{cpu_seconds, data_size, layers, request_size, seconds, usable, values},
};
use crate::{
    number as text,
    statements::studies::buffer_size::{BufferAnswer, EnoughBytes, RECOMMENDED, Saved},
    types::{
        Axis, BufferRow, Cell, Conclusion, DataTable, Holds, LineChart, Mark, Pick, ResultRow,
        Section, Series, TextFile,
    },
    words::{Text, Words, studies::buffer_size as words},
};

/// See the module.
pub struct BufferSize;

impl Study for BufferSize {
    fn id(&self) -> StudyId {
        StudyId::BufferSize
    }

    fn section(&self, data: &Data) -> Section {
        let ops = ["write", "read"].map(|op| Op { data, op });
        Section {
            tables: ops.iter().map(Op::table).collect(),
            charts: ops.iter().flat_map(Op::charts).collect(),
            conclusions: data
                .buffer
                .iter()
                .flat_map(|b| conclusions(data, b))
                .collect(),
            files: layers(data)
                .iter()
                .flat_map(|l| ops.iter().filter_map(|op| op.lines(l)))
                .collect(),
            ..self.head(data)
        }
    }

    fn headline(&self, data: &Data, _: &Section) -> Option<Text> {
        let native = data.run.layers[data.baseline].name.as_str();
        let ops = ["write", "read"].map(|op| Op { data, op });
        let picks: Vec<&BufferRow> = data.buffer.iter().filter(|b| b.layer == native).collect();
        let row = picks.iter().max_by_key(|b| b.wall.record)?;
        let pick = row.wall;
        pick.between?;
        // The claims of this page.
        let holds: Vec<Holds> = picks.iter().map(|b| enough_of(data, b)).collect();
        if holds.contains(&Holds::Open) && !holds.contains(&Holds::No) {
            return Some(BufferAnswer::Open(row).words(&data.names()));
        }
        let smaller = RECOMMENDED.min(pick.record);
        let costs: Vec<(f64, &str)> = ops
            .iter()
            .filter_map(|op| Some((op.times(native, smaller, pick.record)?, op.op)))
            .collect();
        let answer = if smaller == pick.record || costs.is_empty() {
            BufferAnswer::Enough(row)
        } else {
            BufferAnswer::Costs(row, costs)
        };
        Some(answer.words(&data.names()))
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
            head.extend(words::heads(layer));
        }
        let cell = |value: Option<f64>| {
            value.map_or_else(Cell::default, |s| Cell::number(text::time(s * 1e6), s))
        };
        let line = |record: &u64| {
            let mut line = vec![Cell::count(*record)];
            for layer in &layers {
                let row = self.find(layer, *record);
                line.extend([cell(row.and_then(seconds)), cell(row.and_then(cpu_seconds))]);
            }
            line
        };
        let size = self.rows().next().map_or(0, data_size);
        DataTable {
            title: words::title(self.op, size).into(),
            note: String::new(),
            head,
            rows: values(self.rows(), request_size).iter().map(line).collect(),
        }
    }

    fn charts(&self) -> Vec<LineChart> {
        let chart = |what: Saved, value: fn(&ResultRow) -> Option<f64>, spans: bool| {
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
            let [title, y] = words::chart(self.op, what);
            LineChart {
                title: title.into(),
                x: Axis::new(words::RECORD, "B"),
                y: Axis::new(y, "s"),
                series: layers(self.data).iter().map(series).collect(),
            }
        };
        vec![
            chart(Saved::Throughput, seconds, true),
            chart(Saved::CpuTime, cpu_seconds, false),
        ]
    }

    /// The lines of the study's own program.
    fn lines(&self, layer: &str) -> Option<TextFile> {
        let line = |record: u64| {
            let row = self.find(layer, record)?;
            let times = [seconds(row)?, cpu_seconds(row)?];
            Some(words::line([record, data_size(row)], times))
        };
        let sizes = values(self.rows(), request_size).into_iter();
        let lines: Vec<Text> = sizes.filter_map(line).collect();
        (!lines.is_empty()).then(|| TextFile {
            name: words::file_name(layer, self.op).into(),
            text: Text::joined(lines, "").into(),
        })
    }
}

/// Record sizes of the plan that a row has no result of.
fn absent(data: &Data, row: &BufferRow) -> Vec<u64> {
    let planned = data.run.points.iter().map(|p| &p.meaning);
    let planned = planned.filter(|m| m.operation == row.operation);
    let sizes = planned.filter_map(|m| m.value(Quantity::RequestSize));
    sizes.filter(|size| !row.records.contains(size)).collect()
}

/// Whether the recommended size is enough for the throughput of a row.
fn enough_of(data: &Data, row: &BufferRow) -> Holds {
    enough(&row.wall, &row.records, &absent(data, row))
}

/// The study's claims about 1024 bytes, for one kind of work in one layer.
fn conclusions(data: &Data, row: &BufferRow) -> Vec<Conclusion> {
    let evidence = |records: &[u64]| -> Vec<String> {
        let own = data
            .results
            .iter()
            .filter(|r| r.layer == row.layer && r.meaning.operation == row.operation);
        own.filter(|r| records.contains(&request_size(r)))
            .map(|r| r.id.clone())
            .collect()
    };
    let absent = absent(data, row);
    let names = data.names();
    let of = |what, pick, holds: Holds| {
        let said = EnoughBytes {
            what,
            op: &row.operation,
            row,
            pick,
            absent: &absent,
        };
        conclusion(
            &said,
            &row.layer,
            holds,
            evidence(&[pick.record, pick.best]),
            &names,
        )
    };
    let wall = of(Saved::Throughput, &row.wall, enough_of(data, row));
    let cpu = row.cpu.as_ref();
    let cpu = cpu.map(|cpu| of(Saved::CpuTime, cpu, enough(cpu, &row.records, &absent)));
    std::iter::once(wall).chain(cpu).collect()
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
        // Stopped before the larger sizes: one of them may be better.
        assert_eq!(enough(&small, &all[..2], &[2048, 4096]), Holds::Open);
        let unsure = pick(512, None);
        assert_eq!(enough(&unsure, &all, &[]), Holds::Open);
        let large = pick(2048, Some([2048, 2048]));
        assert_eq!(enough(&large, &all, &[4096]), Holds::No);
        assert_eq!(enough(&large, &all[2..], &[]), Holds::Open);
    }
}
