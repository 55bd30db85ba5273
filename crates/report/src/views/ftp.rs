//! Transfers over FTP: throughput, and where the time went.

use layermark_model::format_size;

use crate::{
    Report,
    code_span::code,
    number::{self, sig3},
    types::{Cell, DataTable, FtpRow, Section},
    views::{by_work, near_ceiling},
};

/// `None` without results of the workload.
pub fn section(report: &Report) -> Option<Section> {
    if report.ftp.is_empty() {
        return None;
    }
    let groups = by_work(&report.ftp, |row| &row.what);
    Some(Section {
        name: "ftp".into(),
        title: "FTP".into(),
        about: "A transfer begins with the request for its data connection and ends with the reply that it is complete (226). The phases are medians: data connection, first byte, data and 226 are a transfer's; connect and login come once, before. CPU is in microseconds a KB (1,024 bytes), far with that of the server. The hash of every file was checked.".into(),
        tables: groups.iter().map(|(what, rows)| table(what, rows)).collect(),
        charts: Vec::new(),
        conclusions: Vec::new(),
        files: Vec::new(),
    })
}

fn table(what: &str, rows: &[&FtpRow]) -> DataTable {
    let head = [
        "layer",
        "file",
        "server",
        "MiB/s",
        "p50",
        "p99",
        "connect",
        "login",
        "data connection",
        "first byte",
        "data",
        "226",
        "near us/KB",
        "far us/KB",
    ];
    DataTable {
        title: what.to_owned(),
        note: note(rows),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.iter().map(|r| line(r)).collect(),
    }
}

fn line(row: &FtpRow) -> Vec<Cell> {
    let time = |us: f64| Cell::number(number::time(us), us);
    let some = |us: Option<f64>| us.map_or_else(Cell::default, time);
    let known = |value: f64| Cell::number(sig3(value), value);
    vec![
        Cell::text(code(&row.layer)),
        Cell::number(format_size(row.file_size), row.file_size as f64),
        Cell::text(&row.server),
        known(row.mib_s),
        some(row.p50_us),
        some(row.p99_us),
        time(row.connect_us),
        time(row.login_us),
        time(row.passive_us),
        time(row.first_byte_us),
        time(row.data_us),
        time(row.complete_us),
        known(row.near_cpu_us),
        known(row.far_cpu_us),
    ]
}

/// What makes a figure less than it looks.
fn note(rows: &[&FtpRow]) -> String {
    let mut servers: Vec<&str> = rows.iter().map(|r| r.server.as_str()).collect();
    servers.sort_unstable();
    servers.dedup();
    let mut notes = Vec::new();
    if servers.len() > 1 {
        notes.push(format!(
            "The layers had different servers ({}): a ratio between them is one of the servers, too. The same for all: --server own.",
            number::list(&servers)
        ));
    }
    notes.extend(rows.iter().filter_map(|row| {
        near_ceiling(
            &row.layer,
            row.ceiling_percent,
            "the clients do with a server in their own process",
        )
    }));
    notes.join(" ")
}
