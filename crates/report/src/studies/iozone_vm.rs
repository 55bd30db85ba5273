//! Study of file systems of development machines (2014): iozone's tests natively and through each
//! layer, four charts over record size, `read()` against `fread()`, and where to put code and
//! databases.

use layermark_model::{IozoneTable, StudyId, Unit, format_size, iozone_tables};

use super::{
    Data, Study, claims,
    parts::{Part, SMALL, pairs},
    rows::{data_size, engine_used, heading, layers, request_size, usable, values},
};
use crate::{
    number as text,
    types::{Axis, Cell, DataTable, Holds, LineChart, Mark, ResultRow, Section, Series},
    words::lists::some_of,
};

/// See the module.
pub struct IozoneVm;

impl Study for IozoneVm {
    fn id(&self) -> StudyId {
        StudyId::IozoneVm
    }

    fn title(&self) -> &'static str {
        "file systems of development machines"
    }

    fn section(&self, data: &Data) -> Section {
        let charts = CHARTS.map(|(op, small)| Part { data, op, small });
        let drawn: Vec<&Part> = charts
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
            name: self.id().id().into(),
            title: self.heading(),
            about: format!(
                "iozone's tests {} and through each layer. Throughput is in KB/s of 1024 bytes, as in iozone. Files were read just after they had been written or read, so reads come from memory if the layer allows it.",
                data.natively()
            ),
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

fn table_of(part: &Part) -> DataTable {
    let rows: Vec<&ResultRow> = part.rows().collect();
    by_record(part.data, format!("{}: KB/s", part.words()), &rows)
}

fn chart_of(part: &Part) -> LineChart {
    let series = |layer: &str| {
        let rows = part.of(layer);
        (!rows.is_empty()).then(|| line(&heading(part.data, layer), &rows))
    };
    let all = layers(part.data);
    chart(
        format!("Throughput over record size: {}", part.words()),
        all.into_iter().filter_map(series).collect(),
    )
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
