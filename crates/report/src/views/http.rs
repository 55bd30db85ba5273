//! The table of ab, as a part of the report.

use crate::{
    Report,
    code_span::code,
    number::sig3,
    types::{Cell, DataTable, HttpRow, Section},
    views::{by_work, near_ceiling},
};

/// `None` without results of a web server.
pub fn section(report: &Report) -> Option<Section> {
    if report.http.is_empty() {
        return None;
    }
    let groups = by_work(&report.http, |row| &row.what);
    Some(Section {
        name: "http".into(),
        title: "Web servers".into(),
        about: "As ab tells them: requests a second, microseconds of a request (mean), and from one answer to the next over all connections; bodies without headers, 10^6 bytes/s; microseconds within which a share of the requests was answered. CPU is microseconds a request: of the client, of the server, and of all CPUs of this machine.".into(),
        tables: groups.iter().map(|(what, rows)| table(what, rows)).collect(),
        charts: Vec::new(),
        conclusions: Vec::new(),
        files: Vec::new(),
    })
}

fn table(what: &str, rows: &[&HttpRow]) -> DataTable {
    let head = [
        "layer",
        "server",
        "requests/s",
        "us/request",
        "us across",
        "MB/s",
    ];
    let mut head: Vec<String> = head.map(str::to_owned).into();
    let percents = rows.first().map_or(&[][..], |row| &row.percentiles);
    head.extend(percents.iter().map(|p| format!("{} %", p.percent)));
    head.extend(["client CPU", "server CPU", "host CPU"].map(str::to_owned));
    DataTable {
        title: what.to_owned(),
        note: note(rows),
        head,
        rows: rows.iter().map(|row| line(row, percents.len())).collect(),
    }
}

fn line(row: &HttpRow, percents: usize) -> Vec<Cell> {
    let known = |value: f64| Cell::number(sig3(value), value);
    let some = |value: Option<f64>| value.map_or_else(Cell::default, known);
    let mut cells = vec![
        Cell::text(code(&row.layer)),
        Cell::text(code(&row.server)),
        Cell::number(format!("{:.0}", row.requests_s), row.requests_s),
        some(row.request_us),
        known(row.across_us),
        known(row.body_bytes_s / 1e6),
    ];
    let percentile = |n: usize| some(row.percentiles.get(n).map(|p| p.us));
    cells.extend((0..percents).map(percentile));
    cells.extend([
        known(row.near_cpu_us),
        some(row.far_cpu_us),
        some(row.host_cpu_us),
    ]);
    cells
}

/// What makes a figure less than it looks.
fn note(rows: &[&HttpRow]) -> String {
    let mut notes = Vec::new();
    if let Some(other) = rows.iter().find(|row| row.server != rows[0].server) {
        notes.push(format!(
            "Not the same server everywhere ({}, {}): a ratio also compares the two. To have one, --server own, or root=host for a guest.",
            code(&rows[0].server),
            code(&other.server)
        ));
    }
    for row in rows {
        let layer = code(&row.layer);
        let most = "the client does with a server in its own process";
        notes.extend(near_ceiling(&row.layer, row.ceiling_percent, most));
        if let Some(rate) = row.rate.filter(|_| row.unsent > 0) {
            let unsent = row.unsent;
            notes.push(format!(
                "{layer}: {unsent} requests that were due at {rate} a second could not be begun in time."
            ));
        }
        if !row.checked {
            notes.push(format!(
                "{layer}: the page is not the same twice, so only its status was checked."
            ));
        }
    }
    notes.join(" ")
}
