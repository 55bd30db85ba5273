//! Study of file systems of development machines (2014): iozone's tests natively and through each
//! layer, four charts over record size, `read()` against `fread()`, and where to put code and
//! databases.

use layermark_model::{IozoneTable, StudyId, Unit, format_size, iozone_tables};

use super::{
    Data, Study, claims,
    parts::{SMALL, StudyPart, pairs},
    rows::{data_size, engine_used, heading, layers, request_size, usable, values},
};
use crate::{
    statements::studies::iozone_vm::IozoneAnswer,
    types::{
        Axis, Cell, Conclusion, DataTable, Holds, LineChart, Mark, ResultRow, Section, Series,
    },
    words::{Text, Words, studies::iozone_vm as words},
};

/// See the module.
pub struct IozoneVm;

impl Study for IozoneVm {
    fn id(&self) -> StudyId {
        StudyId::IozoneVm
    }

    fn section(&self, data: &Data) -> Section {
        let charts = CHARTS.map(|(op, small)| StudyPart { data, op, small });
        let drawn: Vec<&StudyPart> = charts
            .iter()
            .filter(|p| p.rows().next().is_some())
            .collect();
        let mut tables: Vec<DataTable> = drawn.iter().map(|p| table_of(p)).collect();
        let mut lines: Vec<LineChart> = drawn.iter().map(|p| chart_of(p)).collect();
        tables.extend(tests(data));
        for layer in layers(data) {
            tables.extend(STREAMS.iter().filter_map(|op| streams(data, layer, op)));
        }
        let native = data.run.layers[data.baseline].name.as_str();
        lines.extend(
            STREAMS
                .iter()
                .filter_map(|op| stream_chart(data, native, op)),
        );
        Section {
            tables,
            charts: lines,
            conclusions: claims::conclusions(data, &charts),
            ..self.head(data)
        }
    }

    /// Which layers lose acknowledged writes, where a database should not be, and where to read.
    fn headline(&self, data: &Data, section: &Section) -> Option<Text> {
        let of = |claim: &str, holds| {
            let is_it = |c: &&Conclusion| c.claim == claim && c.holds == holds;
            let all = section.conclusions.iter().filter(is_it);
            all.map(|c| c.layer.as_str()).collect::<Vec<_>>()
        };
        let answer = IozoneAnswer {
            lose: of(words::HONEST, Holds::No),
            off: of(words::DATABASE, Holds::No),
            database: of(words::DATABASE, Holds::Yes),
            reading: of(words::READING, Holds::Yes),
        };
        let IozoneAnswer {
            lose,
            off,
            database,
            reading,
        } = &answer;
        let none = [lose, off, database, reading].iter().all(|l| l.is_empty());
        (!none).then(|| answer.words(&data.names()))
    }
}

/// The study's four charts: operation, and whether of small files.
const CHARTS: [(&str, bool); 4] = [
    ("read", true),
    ("rand-read", false),
    ("write", true),
    ("rand-write", false),
];

/// A table for each test and file size that has none yet: record sizes by layers, KB/s.
fn tests(data: &Data) -> Vec<DataTable> {
    let mut tables = Vec::new();
    // The study's thirteen tests: through system calls and through the C library.
    let of_study = |t: &IozoneTable| matches!(t.engine, None | Some("stdio"));
    for IozoneTable { title, op, engine } in iozone_tables().filter(of_study) {
        let stdio = engine.is_some();
        let rows: Vec<&ResultRow> = data
            .results
            .iter()
            .filter(|r| {
                r.meaning.operation == op && (engine_used(r) == "stdio") == stdio && usable(r)
            })
            .filter(|r| !r.meaning.flushes && r.meaning.unit == Unit::Byte)
            .collect();
        for file in values(rows.iter().copied(), data_size) {
            let own = !stdio && CHARTS.contains(&(op, file <= SMALL));
            let of: Vec<&ResultRow> = rows
                .iter()
                .copied()
                .filter(|r| data_size(r) == file)
                .collect();
            if !own {
                tables.push(by_record(data, words::test(title, file), &of));
            }
        }
    }
    tables
}

/// Record sizes as rows, layers as columns.
fn by_record(data: &Data, title: Text, rows: &[&ResultRow]) -> DataTable {
    let has = |layer: &&str| rows.iter().any(|r| r.layer == *layer);
    let layers: Vec<&str> = layers(data).into_iter().filter(has).collect();
    let line = |record: &u64| {
        let cell = |layer: &&str| {
            let at = |r: &&&ResultRow| r.layer == *layer && request_size(r) == *record;
            kilobytes(rows.iter().find(at).copied())
        };
        let first = Cell::number(format_size(*record), *record as f64);
        std::iter::once(first)
            .chain(layers.iter().map(cell))
            .collect()
    };
    DataTable {
        title: title.into(),
        note: String::new(),
        head: std::iter::once("record".to_owned())
            .chain(layers.iter().map(|l| heading(data, l).into()))
            .collect(),
        rows: values(rows.iter().copied(), request_size)
            .iter()
            .map(line)
            .collect(),
    }
}

/// Operations that are compared with and without the C library's buffer.
const STREAMS: [&str; 2] = ["read", "write"];

fn table_of(part: &StudyPart) -> DataTable {
    let rows: Vec<&ResultRow> = part.rows().collect();
    let [title, _] = words::part(&part.said(), &part.data.names());
    by_record(part.data, title, &rows)
}

fn chart_of(part: &StudyPart) -> LineChart {
    let series = |layer: &str| {
        let rows = part.of(layer);
        (!rows.is_empty()).then(|| line(heading(part.data, layer), &rows))
    };
    let all = layers(part.data);
    let [_, title] = words::part(&part.said(), &part.data.names());
    chart(title, all.into_iter().filter_map(series).collect())
}

fn chart(title: Text, series: Vec<Series>) -> LineChart {
    let [x, y] = words::AXES;
    LineChart {
        title: title.into(),
        x: Axis::new(x, "B"),
        y: Axis::new(y, "B/s"),
        series,
    }
}

fn line(name: impl Into<String>, rows: &[&ResultRow]) -> Series {
    let marks = rows.iter().filter_map(|r| {
        Some(Mark {
            x: request_size(r) as f64,
            y: r.value?,
            interval: r.interval,
        })
    });
    Series::along(&name.into(), marks)
}

/// Throughput in iozone's unit.
fn kilobytes(row: Option<&ResultRow>) -> Cell {
    let rate = row.and_then(|r| r.value).map(|v| v / 1024.0);
    rate.map_or_else(Cell::default, |v| Cell::bare(words::kilobytes(v), v))
}

fn streams(data: &Data, layer: &str, op: &str) -> Option<DataTable> {
    let pairs = pairs(data, layer, op);
    if pairs.is_empty() {
        return None;
    }
    let line = |(call, stream): &(&ResultRow, &ResultRow)| {
        let ratio = stream.op_us.zip(call.op_us).map(|(s, c)| s / c);
        vec![
            Cell::number(format_size(data_size(call)), data_size(call) as f64),
            Cell::number(format_size(request_size(call)), request_size(call) as f64),
            kilobytes(Some(call)),
            kilobytes(Some(stream)),
            ratio.map_or_else(Cell::default, |r| Cell::bare(words::quotient(r), r)),
        ]
    };
    let [title, _] = words::streams(op, &heading(data, layer));
    Some(DataTable {
        title: title.into(),
        note: String::new(),
        head: words::streams_head(op),
        rows: pairs.iter().map(line).collect(),
    })
}

fn stream_chart(data: &Data, layer: &str, op: &str) -> Option<LineChart> {
    let pairs = pairs(data, layer, op);
    let large = pairs.iter().filter(|(c, _)| data_size(c) > SMALL);
    let (calls, streams): (Vec<&ResultRow>, Vec<&ResultRow>) = large.copied().unzip();
    if calls.is_empty() {
        return None;
    }
    let [_, title] = words::streams(op, &layer.into());
    let [call, stream] = words::calls(op);
    Some(chart(
        title,
        vec![line(call, &calls), line(stream, &streams)],
    ))
}
