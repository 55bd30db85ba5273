//! Forecasts of steps beside their measured times.

use std::collections::BTreeSet;

use layermark_model::Run;

use crate::{
    Report,
    code_span::{self, code},
    number,
    statements::forecast::Terms,
    types::{Cell, DataTable, Forecast, ForecastRow, ResultRow, Section},
    words::{Names, Text, Words},
};

/// Measured times of the points that decide a study's claims, a row for each point, with the forecast
/// beside. `None` without a forecast.
pub fn beside(
    run: &Run,
    study: &Section,
    forecast: &Forecast,
    results: &[ResultRow],
) -> Option<DataTable> {
    let evidence = study.conclusions.iter().flat_map(|c| &c.evidence);
    let evidence: BTreeSet<&String> = evidence.collect();
    let named = |row: &&ResultRow| evidence.contains(&row.id);
    let decide: BTreeSet<&String> = results.iter().filter(named).map(|r| &r.label).collect();
    let has = |name: &String| results.iter().any(|r| r.layer == *name && named(&r));
    let layers = run.layers.iter().map(|l| &l.name);
    let layers: Vec<&String> = layers.filter(|name| has(name)).collect();
    let cell = |label: &String, layer: &String| {
        let mut rows = results.iter();
        let row = rows.find(|r| r.label == *label && r.layer == *layer);
        let Some(us) = row.and_then(|r| r.op_us) else {
            return Cell::default();
        };
        let forecast = forecast.rows.iter();
        let mut forecast = forecast.filter(|f| f.label == *label && f.layer == *layer);
        let text = match forecast.next() {
            Some(f) => format!("{} ({})", number::time(us), number::time(f.forecast_us)),
            None => number::time(us),
        };
        Cell::number(text, us)
    };
    let points = run.points.iter().filter(|p| decide.contains(&p.label));
    let row = |label: &String| {
        let cells = layers.iter().map(|layer| cell(label, layer));
        std::iter::once(Cell::text(label)).chain(cells).collect()
    };
    let rows: Vec<_> = points.map(|p| row(&p.label)).collect();
    let some = !forecast.rows.is_empty() && !rows.is_empty();
    some.then(|| DataTable {
        title: "Time of an execution".into(),
        note: "In brackets: the forecast from the costs of its system calls.".into(),
        head: std::iter::once(String::new())
            .chain(layers.iter().map(|l| (*l).clone()))
            .collect(),
        rows,
    })
}

/// `None` if no step's calls were counted.
pub fn section(report: &Report) -> Option<Section> {
    let forecast = &report.forecast;
    if forecast.is_empty() {
        return None;
    }
    let baseline = code_span::baseline(report.baseline());
    let natively = code_span::in_baseline(&baseline);
    let table = DataTable {
        title: "Forecast and measured time of steps".into(),
        note: String::new(),
        head: [
            "step",
            "layer",
            &natively,
            "forecast",
            "measured",
            "gap",
            "calls that cost most",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: forecast
            .rows
            .iter()
            .map(|row| line(row, &report.names()))
            .collect(),
    };
    let unexplained = forecast.rows.iter().filter(|row| !row.is_explained());
    let remarks = unexplained.map(|row| row.text.clone());
    Some(Section {
        name: "forecast".into(),
        title: "What the system calls of a step cost".into(),
        about: format!(
            "A forecast is {baseline}'s time, and for each system call the time that it takes longer in the layer, as `meta` and `file` measured it. The calls on the layer's files were counted in the layer native, with strace, in an execution that does not count. The gap is forecast over measured time, less 1. Beyond {} and outside the interval of the measured time, the calls do not explain it. Steps with a cold cache have no forecast.",
            number::percent(ForecastRow::CLOSE)
        ),
        tables: (!forecast.rows.is_empty())
            .then_some(table)
            .into_iter()
            .collect(),
        remarks: remarks.chain(forecast.lacks.iter().cloned()).collect(),
        ..Section::default()
    })
}

fn line(row: &ForecastRow, names: &Names) -> Vec<Cell> {
    let time = |us: f64| Cell::number(number::time(us), us);
    let sign = if row.gap > 0.0 { "+" } else { "" };
    let calls = row
        .costly()
        .into_iter()
        .map(|call| Terms(call).words(names));
    vec![
        Cell::text(code(&row.label)),
        Cell::text(code(&row.layer)),
        time(row.native_us),
        time(row.forecast_us),
        time(row.measured_us),
        Cell::number(format!("{sign}{}", number::percent(row.gap)), row.gap),
        Cell::text(Text::joined(calls, "; ").to_string()),
    ]
}
