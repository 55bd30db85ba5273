//! Study of file systems of development machines (2014): iozone's tests natively and through each
//! layer, four charts over record size, `read()` against `fread()`, and where to put code and
//! databases.

use layermark_model::{IozoneTable, StudyId, Unit, format_size, iozone_tables};

use super::{
    Data, Study, claims,
    rows::{data_size, engine_used, heading, layers, request_size, usable, values},
};
use crate::{
    analysis::summary::some_of,
    number as text,
    types::{Axis, Cell, DataTable, Holds, LineChart, Mark, ResultRow, Section, Series},
};

/// Largest of the study's small files.
const SMALL: u64 = 64 << 10;

/// See the module.
pub struct IozoneVm;

impl Study for IozoneVm {
    fn id(&self) -> StudyId {
        StudyId::IozoneVm
    }

    fn section(&self, data: &Data) -> Section {
        let charts = CHARTS.map(|(op, small)| Part { data, op, small });
        let drawn: Vec<&Part> = charts
            .iter()
            .filter(|p| p.rows().next().is_some())
            .collect();
        let mut tables: Vec<DataTable> = drawn.iter().map(|p| p.table()).collect();
        let mut lines: Vec<LineChart> = drawn.iter().map(|p| p.chart()).collect();
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
            name: self.id().id().into(),
            title: "Study: file systems of development machines".into(),
            about: "iozone's tests natively and through each layer. Throughput is in KB/s of 1024 bytes, as in iozone. Files were read just after they had been written or read, so reads come from memory if the layer allows it.".into(),
            tables,
            charts: lines,
            conclusions: claims::conclusions(data, &charts),
            ..Section::default()
        }
    }

    /// Which layers lose acknowledged writes, where a database should not be, and where to read.
    fn headline(&self, _: &Data, section: &Section) -> Option<String> {
        let all = &section.conclusions;
        let layers = |claim, holds| super::layers_where(all, claim, holds);
        let said = |layers: Vec<String>, text: &dyn Fn(String) -> String| {
            (!layers.is_empty()).then(|| text(some_of(&layers)))
        };
        let parts = [
            said(layers(super::syncs::HONEST, Holds::No), &|l| {
                format!("acknowledged writes can be lost in {l}")
            }),
            said(layers(claims::DATABASE, Holds::No), &|l| {
                format!("keep databases off {l}")
            }),
            said(layers(claims::DATABASE, Holds::Yes), &|l| {
                format!("a database can be in {l}")
            }),
            said(layers(claims::READING, Holds::Yes), &|l| {
                format!("prefer {l} for reading")
            }),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
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
                let title = format!("{title}, {} file: KB/s", format_size(file));
                tables.push(by_record(data, title, &of));
            }
        }
    }
    tables
}

/// Record sizes as rows, layers as columns.
fn by_record(data: &Data, title: String, rows: &[&ResultRow]) -> DataTable {
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
        title,
        note: String::new(),
        head: std::iter::once("record".to_owned())
            .chain(layers.iter().map(|l| heading(data, l)))
            .collect(),
        rows: values(rows.iter().copied(), request_size)
            .iter()
            .map(line)
            .collect(),
    }
}

/// Operations that are compared with and without the C library's buffer.
const STREAMS: [&str; 2] = ["read", "write"];

/// One of the four charts.
pub struct Part<'a> {
    pub data: &'a Data<'a>,
    pub op: &'static str,
    pub small: bool,
}

impl<'a> Part<'a> {
    /// Its results: through system calls, without a flush.
    ///
    /// If a plan has several file sizes, those of the largest.
    pub fn rows(&self) -> impl Iterator<Item = &'a ResultRow> {
        let (op, small) = (self.op, self.small);
        let plain = |r: &&ResultRow| {
            !r.meaning.flushes && r.meaning.unit == Unit::Byte && engine_used(r) != "stdio"
        };
        let of = move |r: &&ResultRow| {
            r.meaning.operation == op && (data_size(r) <= SMALL) == small && usable(r)
        };
        let all: Vec<&ResultRow> = self.data.results.iter().filter(plain).filter(of).collect();
        let size = |r: &&ResultRow| data_size(r);
        let largest = all.iter().map(size).max();
        all.into_iter().filter(move |r| Some(size(r)) == largest)
    }

    /// The results of a layer.
    pub fn of(&self, layer: &str) -> Vec<&'a ResultRow> {
        self.rows().filter(|r| r.layer == layer).collect()
    }

    /// `rand-read of a 64M file`.
    pub fn words(&self) -> String {
        let largest = self.rows().map(data_size).max();
        format!(
            "{} of a {} file",
            self.op,
            format_size(largest.unwrap_or(0))
        )
    }

    fn table(&self) -> DataTable {
        let rows: Vec<&ResultRow> = self.rows().collect();
        by_record(self.data, format!("{}: KB/s", self.words()), &rows)
    }

    fn layers(&self) -> Vec<&'a str> {
        let all = layers(self.data);
        all.into_iter().filter(|l| !self.of(l).is_empty()).collect()
    }

    fn chart(&self) -> LineChart {
        let series = |layer: &str| line(&heading(self.data, layer), &self.of(layer));
        chart(
            format!("Throughput over record size: {}", self.words()),
            self.layers().into_iter().map(series).collect(),
        )
    }
}

fn chart(title: String, series: Vec<Series>) -> LineChart {
    LineChart {
        title,
        x: Axis {
            label: "record size".into(),
            unit: "B".into(),
        },
        y: Axis {
            label: "throughput".into(),
            unit: "B/s".into(),
        },
        series,
    }
}

fn line(name: &str, rows: &[&ResultRow]) -> Series {
    let marks = rows.iter().filter_map(|r| {
        Some(Mark {
            x: request_size(r) as f64,
            y: r.value?,
            interval: r.interval,
        })
    });
    Series::along(name, marks)
}

/// Throughput in iozone's unit.
fn kilobytes(row: Option<&ResultRow>) -> Cell {
    row.and_then(|r| r.value).map_or_else(Cell::default, |v| {
        Cell::number(format!("{:.0}", v / 1024.0), v / 1024.0)
    })
}

/// Pairs of results of one operation in a layer: through system calls and through the C library.
pub fn pairs<'a>(data: &Data<'a>, layer: &str, op: &str) -> Vec<(&'a ResultRow, &'a ResultRow)> {
    let own = |engine: &'static str| {
        data.results.iter().filter(move |r| {
            r.layer == layer && r.meaning.operation == op && engine_used(r) == engine && usable(r)
        })
    };
    let like = |c: &ResultRow, s: &ResultRow| {
        (request_size(c), data_size(c)) == (request_size(s), data_size(s))
            && c.meaning.sync == s.meaning.sync
    };
    own("stdio")
        .filter_map(|stream| Some((own("sync").find(|call| like(call, stream))?, stream)))
        .collect()
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
            ratio.map_or_else(Cell::default, |r| Cell::number(text::ratio(r), r)),
        ]
    };
    Some(DataTable {
        title: format!("{}: {op}() against f{op}(), KB/s", heading(data, layer)),
        note: String::new(),
        head: vec![
            "file".into(),
            "record".into(),
            format!("{op}()"),
            format!("f{op}()"),
            "time of the second over the first".into(),
        ],
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
    Some(chart(
        format!("{op}() against f{op}() in {layer}"),
        vec![
            line(&format!("{op}()"), &calls),
            line(&format!("f{op}()"), &streams),
        ],
    ))
}
