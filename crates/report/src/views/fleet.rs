//! A fleet as sections.

use layermark_model::FleetPlace;

use super::odd;
use crate::{
    code_span::code,
    number,
    types::{
        Axis, Cell, DataTable, Estimate, FleetCheck, FleetFound, FleetPoint, FleetStep, LineChart,
        Mark, Section, Series,
    },
};

/// A check: the answer, a line for each host, where they differ, and how they are unlike.
pub fn check(of: &FleetCheck) -> Section {
    let lines = of.hosts.iter();
    let lines = lines.map(|host| format!("{}: {}", code(&host.name), host.text));
    let compared = of.compared.as_ref();
    let mut tables = compared.map_or_else(Vec::new, |many| odd::section(many).tables);
    for table in &mut tables {
        table.title = "Where the hosts differ".into();
    }
    let unlike = compared.into_iter().flat_map(|many| many.unlike.clone());
    Section {
        name: "fleet-check".into(),
        title: format!("{}.", of.answer),
        tables,
        remarks: lines.chain(unlike).chain(of.unlike.clone()).collect(),
        ..Section::default()
    }
}

/// A run: the answer, the curve of each point, and what the hosts do not have in common.
pub fn run(of: &FleetFound) -> Section {
    let curves = of.points.iter().map(|p| format!("{}: {}", p.label, p.text));
    let slow = of.points.iter().filter_map(|p| {
        let slow = p.slowest.as_ref()?;
        let because = slow.because.as_ref().map(|why| format!("; {why}"));
        Some(format!(
            "{}: the slowest host is {}, {} beside the others{}",
            p.label,
            code(&slow.name),
            number::times(&slow.ratio),
            because.unwrap_or_default()
        ))
    });
    let lost = of.hosts.iter().filter(|h| h.lost);
    let lost = lost.map(|h| format!("{}: {}", code(&h.name), h.text));
    let remarks = curves.chain(slow).chain(lost).chain(of.unlike.clone());
    Section {
        name: "fleet".into(),
        title: format!("{}.", of.answer),
        tables: of.points.iter().map(table).collect(),
        remarks: remarks.collect(),
        charts: vec![chart(of)],
        ..Section::default()
    }
}

fn table(point: &FleetPoint) -> DataTable {
    let head = [
        "hosts at once",
        "all together",
        "a host's time / alone",
        "first done",
        "last done",
        "fairness",
        "starts within",
    ];
    DataTable {
        title: point.label.clone(),
        note: String::new(),
        head: head.map(str::to_owned).to_vec(),
        rows: point.steps.iter().map(row).collect(),
    }
}

fn row(step: &FleetStep) -> Vec<Cell> {
    let place = match step.place {
        FleetPlace::Own => format!("{}, own disk", step.hosts),
        FleetPlace::Share => step.hosts.to_string(),
    };
    if step.rounds == 0 {
        let none = Cell::text("no round was whole");
        return [Cell::text(place), none]
            .into_iter()
            .chain((0..5).map(|_| Cell::text("-")))
            .collect();
    }
    let seconds = |s: f64| Cell::number(number::time(s * 1e6), s);
    let rate = |e: &Estimate| Cell::number(number::value(e.estimate, "ops/s"), e.estimate);
    let ratio = |e: &Estimate| Cell::number(number::ratio_with(e), e.estimate);
    let alone = step.place == FleetPlace::Share && step.hosts == 1;
    vec![
        Cell::text(place),
        step.rate.as_ref().map_or_else(|| Cell::text("-"), rate),
        match &step.ratio {
            Some(e) if !alone => ratio(e),
            _ => Cell::text("-"),
        },
        seconds(step.first_done_s),
        seconds(step.last_done_s),
        Cell::number(number::hundredths(step.fairness), step.fairness),
        match step.at_once {
            Some(false) => Cell::number(
                format!(
                    "{}: not proved at once",
                    number::time(step.start_spread_s * 1e6)
                ),
                step.start_spread_s,
            ),
            _ => seconds(step.start_spread_s),
        },
    ]
}

/// The rate over the number of hosts at once.
fn chart(of: &FleetFound) -> LineChart {
    let series = of.points.iter().map(|point| {
        let shared = point.steps.iter().filter(|s| s.place == FleetPlace::Share);
        let marks = shared.filter_map(|s| {
            Some(Mark {
                x: s.hosts as f64,
                y: s.rate?.estimate,
                interval: s.rate?.interval,
            })
        });
        Series::along(&point.label, marks)
    });
    let axis = |label: &str, unit: &str| Axis {
        label: label.into(),
        unit: unit.into(),
    };
    LineChart {
        title: "What the share gives to this many hosts at once".into(),
        x: axis("hosts at once", "hosts"),
        y: axis("all together", "ops/s"),
        series: series.collect(),
    }
}
