//! A fleet as sections.

use layermark_model::FleetPlace;

use super::odd;
use crate::{
    number,
    types::{
        Axis, Cell, DataTable, Estimate, FleetCheck, FleetFound, FleetPoint, FleetStep, LineChart,
        Mark, Section, Series,
    },
    words::{captions, fleet as words, odd::title as heading},
};

/// A check: the answer, a line for each host, where they differ, and how they are unlike.
pub fn check(of: &FleetCheck) -> Section {
    let lines = of.hosts.iter();
    let lines = lines.map(|host| words::line(&host.name, &host.text).into());
    let compared = of.compared.as_ref();
    let mut tables = compared.map_or_else(Vec::new, |many| odd::section(many).tables);
    for table in &mut tables {
        table.title = captions::HOSTS.title.into();
    }
    let unlike = compared.into_iter().flat_map(|many| many.unlike.clone());
    Section {
        name: "fleet-check".into(),
        title: heading(&of.answer).into(),
        tables,
        remarks: lines
            .chain(of.nothing.clone())
            .chain(unlike)
            .chain(of.unlike.clone())
            .collect(),
        ..Section::default()
    }
}

/// A run: the answer, the curve of each point, and what the hosts do not have in common.
pub fn run(of: &FleetFound) -> Section {
    let curves = of.points.iter().map(words::curve);
    let slow = of.points.iter().filter_map(words::slowest);
    let lost = of.hosts.iter().filter(|h| h.lost);
    let lost = lost.map(|h| words::line(&h.name, &h.text));
    let failed = of.hosts.iter().filter_map(words::failed);
    let remarks = curves.chain(slow).chain(lost).chain(failed);
    let remarks = remarks.map(String::from);
    let remarks = remarks.chain(of.unlike.clone());
    // A point that no round was made of yet has no line.
    let measured = of.points.iter().filter(|p| !p.steps.is_empty());
    Section {
        name: "fleet".into(),
        title: heading(&of.answer).into(),
        tables: measured.map(table).collect(),
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
        "rounds",
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
        FleetPlace::Own => words::on_own_disk(step.hosts).into(),
        FleetPlace::Share => step.hosts.to_string(),
    };
    if step.rounds == 0 {
        let none = Cell::text("no round was whole");
        return [Cell::text(place), none]
            .into_iter()
            .chain((0..5).map(|_| Cell::text("-")))
            .chain([Cell::text(words::rounds(step))])
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
            Some(false) => Cell::number(words::not_at_once(step), step.start_spread_s),
            _ => seconds(step.start_spread_s),
        },
        Cell::number(words::rounds(step), step.rounds as f64),
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
    LineChart {
        title: captions::SHARE.title.into(),
        x: Axis::new("hosts at once", "hosts"),
        y: Axis::new("all together", "ops/s"),
        series: series.collect(),
    }
}
