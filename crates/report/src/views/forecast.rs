//! Forecasts of steps beside their measured times.

use std::collections::BTreeSet;

use layermark_model::Run;

use crate::{
    Report,
    code_span::code,
    number,
    statements::forecast::Terms,
    types::{Cell, DataTable, Forecast, ForecastRow, ResultRow, Section},
    words::{Names, Text, Words, captions, forecast as words},
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
            Some(f) => words::with_forecast(us, f.forecast_us).into(),
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
        title: captions::EXECUTION.title.into(),
        note: captions::EXECUTION.about.into(),
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
    let natively = String::from(report.names().natively());
    let table = DataTable {
        title: captions::FORECAST_TABLE.title.into(),
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
        title: captions::FORECAST.title.into(),
        about: words::about_forecasts(&report.names(), ForecastRow::CLOSE).into(),
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
        Cell::number(number::signed(row.gap, &number::percent(row.gap)), row.gap),
        Cell::text(Text::joined(calls, "; ").to_string()),
    ]
}
