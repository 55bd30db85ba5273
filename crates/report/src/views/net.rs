//! The table of netperf, as a part of the report.

use layermark_model::{NetEnd, format_size};

use crate::{
    Report,
    code_span::code,
    number::sig3,
    types::{Cell, DataTable, NetRow, Section},
    views::{by_work, near_ceiling},
};

/// `None` without results between two ends.
pub fn section(report: &Report) -> Option<Section> {
    if report.net.is_empty() {
        return None;
    }
    let groups = by_work(&report.net, |row| &row.what);
    Some(Section {
        name: "net".into(),
        title: "The network".into(),
        about: "As netperf tells them: 10^6 bit/s that the receiver has got, microseconds of a transaction, CPU as microseconds a KB (1,024 bytes) or a transaction. Near and far are the two processes, host is netperf's service demand: all CPUs of this machine, interrupts and hypervisors included. Buffers are SO_SNDBUF/SO_RCVBUF as the kernel says them; Linux doubles what is asked.".into(),
        tables: groups.iter().map(|(what, rows)| table(what, rows)).collect(),
        charts: Vec::new(),
        conclusions: Vec::new(),
        files: Vec::new(),
    })
}

fn table(what: &str, rows: &[&NetRow]) -> DataTable {
    let transacts = rows.iter().any(|r| r.trans_s.is_some());
    let (rate, per) = if transacts {
        ("trans/s", "us/trans")
    } else {
        ("10^6 bit/s", "us/KB")
    };
    let mut head = vec!["layer".to_owned(), "buffers asked".into(), rate.into()];
    if transacts {
        head.extend(["p50 us".to_owned(), "p99 us".into()]);
    }
    let cpu = ["near", "far", "host"].map(|end| format!("{end} {per}"));
    head.extend(cpu);
    head.extend(["near buffers", "far buffers", "CPUs"].map(str::to_owned));
    let lossy = rows.iter().any(|r| r.sent > 0);
    if lossy {
        head.push("lost %".into());
    }
    DataTable {
        title: what.to_owned(),
        note: note(rows),
        head,
        rows: rows.iter().map(|r| line(r, transacts, lossy)).collect(),
    }
}

fn line(row: &NetRow, transacts: bool, lossy: bool) -> Vec<Cell> {
    let known = |value: f64| Cell::number(sig3(value), value);
    let some = |value: Option<f64>| value.map_or_else(Cell::default, known);
    let whole = |value: f64| Cell::number(format!("{value:.0}"), value);
    let asked = |bytes: u64| Cell::number(format_size(bytes), bytes as f64);
    let mut cells = vec![
        Cell::text(code(&row.layer)),
        row.socket_buffer.map_or_else(|| Cell::text("auto"), asked),
        row.trans_s.or(row.mbit_s).map_or_else(Cell::default, whole),
    ];
    if transacts {
        cells.extend([some(row.p50_us), some(row.p99_us)]);
    }
    cells.extend([
        known(row.near_cpu_us),
        known(row.far_cpu_us),
        some(row.service_demand_us),
        Cell::text(buffers(&row.near)),
        Cell::text(buffers(&row.far)),
        Cell::text(format!("{} {}", cpus(&row.near), cpus(&row.far))),
    ]);
    if lossy {
        let percent = 100.0 * row.lost as f64 / (row.sent as f64).max(1.0);
        cells.push(known(percent));
    }
    cells
}

fn buffers(end: &NetEnd) -> String {
    let kib = |bytes: u64| format!("{}K", (bytes + 512) / 1024);
    let (send, receive) = (kib(end.send_buffer), kib(end.receive_buffer));
    format!("{send}/{receive}")
}

fn cpus(end: &NetEnd) -> String {
    let each: Vec<String> = end.cpus.iter().map(u32::to_string).collect();
    if each.is_empty() {
        "free".into()
    } else {
        each.join(",")
    }
}

/// What makes a figure less than it looks.
fn note(rows: &[&NetRow]) -> String {
    let mut notes = Vec::new();
    for row in rows {
        let most = "the generator does without a network";
        notes.extend(near_ceiling(&row.layer, row.ceiling_percent, most));
        if row.lost > 0 {
            let (lost, sent) = (row.lost, row.sent);
            let text = if row.trans_s.is_some() {
                format!("{lost} of {sent} requests had no answer in time and were repeated.")
            } else {
                format!("{lost} of {sent} datagrams were lost.")
            };
            notes.push(format!("{}: {text}", code(&row.layer)));
        }
    }
    notes.join(" ")
}
