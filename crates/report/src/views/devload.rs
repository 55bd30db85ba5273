//! Scripts an hour by the number of users, and where they are most.

use crate::{
    Report,
    code_span::code,
    number::{self, sig3},
    types::{Axis, Cell, DataTable, DevLoadRow, LineChart, Mark, Section, Series},
    views::by_work,
};

/// `None` without results of the workload.
pub fn section(report: &Report) -> Option<Section> {
    if report.devload.is_empty() {
        return None;
    }
    let mut families = by_work(&report.devload, |row| &row.what);
    for (_, rows) in &mut families {
        rows.sort_by(|a, b| (&a.layer, a.users).cmp(&(&b.layer, b.users)));
    }
    Some(Section {
        name: "devload".into(),
        title: "Scripts an hour".into(),
        about: "Users who do the same jobs, each in an order of its own, as SPEC's SDET defines it: scripts an hour = 3600 N / T, T from the barrier to the last verified exit. CPU is of the users' commands.".into(),
        tables: families.iter().map(|(what, rows)| table(what, rows)).collect(),
        charts: families.iter().filter_map(|(what, rows)| chart(what, rows)).collect(),
        conclusions: Vec::new(),
        files: Vec::new(),
    })
}

fn table(what: &str, rows: &[&DevLoadRow]) -> DataTable {
    let least = rows.iter().map(|r| r.cpu_in_commands).fold(1.0, f64::min);
    let head = [
        "layer",
        "users",
        "scripts/h",
        "T",
        "CPU a script",
        "ratio",
        "peak",
    ];
    DataTable {
        title: format!("Scripts an hour: {what}"),
        note: format!(
            "At least {:.1} % of the CPU time is the users' commands', the rest layermark's own.",
            (least * 1000.0).floor() / 10.0
        ),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.iter().map(|r| line(r)).collect(),
    }
}

fn line(row: &DevLoadRow) -> Vec<Cell> {
    let rate = match row.interval {
        Some([low, high]) => format!(
            "{} [{} to {}]",
            sig3(row.scripts_per_hour),
            sig3(low),
            sig3(high)
        ),
        None => sig3(row.scripts_per_hour),
    };
    let seconds = |s: f64| Cell::number(number::time(s * 1e6), s);
    let ratio = row.ratio.as_ref();
    vec![
        Cell::text(code(&row.layer)),
        Cell::number(row.users.to_string(), row.users as f64),
        Cell::number(rate, row.scripts_per_hour),
        seconds(row.seconds),
        seconds(row.cpu_s),
        ratio.map_or_else(Cell::default, |r| {
            Cell::number(number::ratio_with(r), r.estimate)
        }),
        Cell::text(peak(row)),
    ]
}

fn peak(row: &DevLoadRow) -> String {
    match row.next_users {
        _ if !row.highest => String::new(),
        _ if row.peak => "peak".into(),
        Some(next) => format!("highest; not decided against {next} users"),
        None => "highest; more users may reach more".into(),
    }
}

fn chart(what: &str, rows: &[&DevLoadRow]) -> Option<LineChart> {
    let mut layers: Vec<&str> = rows.iter().map(|r| r.layer.as_str()).collect();
    layers.dedup();
    let series = |layer: &&str| {
        let own = rows.iter().filter(|r| r.layer == *layer);
        let marks = own.map(|r| Mark {
            x: r.users as f64,
            y: r.scripts_per_hour,
            interval: r.interval,
        });
        Series::along(layer, marks)
    };
    let axis = |label: &str| Axis {
        label: label.into(),
        unit: String::new(),
    };
    (rows.len() > layers.len()).then(|| LineChart {
        title: format!("Scripts an hour over users: {what}"),
        x: axis("users"),
        y: axis("scripts an hour"),
        series: layers.iter().map(series).collect(),
    })
}
