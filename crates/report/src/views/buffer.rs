//! The recommended record sizes as a table.

use crate::{
    facts::recommend::NEARLY,
    number,
    types::{BufferRow, Cell, DataTable, Pick, Section},
    words::{
        NO_NAMES, Words, captions,
        record_size::{about_sizes, seconds},
    },
};

/// The recommendations as a section of the report; `None` if there are none.
pub fn section(rows: &[BufferRow], level: f64) -> Option<Section> {
    if rows.is_empty() {
        return None;
    }
    let line = |row: &BufferRow| {
        let pick = |pick: &Pick| Cell::number(pick.words(&NO_NAMES), pick.record as f64);
        let speed = |seconds: f64| {
            let speed = 1.0 / seconds;
            Cell::number(number::value(speed, "B/s"), speed)
        };
        let cpu = |pick: &Pick| {
            let per_gib = pick.seconds_per_byte * (1u64 << 30) as f64;
            Cell::number(seconds(per_gib), per_gib)
        };
        vec![
            Cell::text(&row.label),
            Cell::text(&row.layer),
            pick(&row.wall),
            speed(row.wall.seconds_per_byte),
            speed(row.wall.best_seconds_per_byte),
            row.cpu.as_ref().map_or_else(Cell::default, pick),
            row.cpu.as_ref().map_or_else(Cell::default, cpu),
        ]
    };
    Some(Section {
        name: "buffer".into(),
        title: captions::BUFFER.title.into(),
        about: about_sizes(NEARLY, level).into(),
        tables: vec![DataTable {
            title: captions::BUFFER_SIZES.title.into(),
            note: String::new(),
            head: [
                "operation",
                "layer",
                "for throughput",
                "reaches",
                "best",
                "for CPU time",
                "CPU a GiB",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: rows.iter().map(line).collect(),
        }],
        ..Section::default()
    })
}
