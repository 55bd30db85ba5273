//! The recommended record sizes as a table.

use crate::{
    facts::recommend::NEARLY,
    number,
    types::{BufferRow, Cell, DataTable, Pick, Section},
    words::{NO_NAMES, Words},
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
            Cell::number(format!("{} s", number::sig3(per_gib)), per_gib)
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
        title: "Which record size to use".into(),
        about: format!(
            "The smallest record with at least {} of the best throughput, and the smallest with at most {} of the least CPU time of the program. In brackets: its range in {} of the resamples of the repeats, from six repeats on.",
            number::percent(1.0 - NEARLY),
            number::percent(1.0 + NEARLY),
            number::percent(level)
        ),
        tables: vec![DataTable {
            title: "Smallest record that is nearly as good as the best".into(),
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
