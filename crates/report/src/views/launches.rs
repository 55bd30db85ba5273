//! Series of launches as a part of the report.
//!
//! They are no figures of a result: their order counts, as a first launch may be cold and a step has a place.
//! So they are analysed apart (`facts/launch.rs`), and this is the only place that shows them.

use crate::{
    LaunchLevel, LaunchRun, LaunchSeries, Report, ResultRow, Verdict,
    code_span::code,
    group,
    number::{self, Written},
    types::{Cell, DataTable, Section, Sequence, SequenceLevel, SequenceOfLayer},
    words::{captions, result_line, series as words},
};

/// `None` where nothing was launched.
pub fn section(report: &Report) -> Option<Section> {
    if report.series.is_empty() {
        return None;
    }
    Some(Section {
        name: "launch".into(),
        title: captions::LAUNCHES.title.into(),
        about: captions::LAUNCHES.about.into(),
        is_answer: true,
        tables: vec![levels(report)],
        remarks: remarks(report),
        details: report.series.iter().map(every_launch).collect(),
        sequences: sequences(report),
        ..Section::default()
    })
}

fn time(ms: f64) -> Cell {
    Cell::number(number::time(ms * 1e3), ms * 1e3)
}

fn ends([low, high]: [f64; 2]) -> Cell {
    let ends = [low, high].map(|ms| number::time(ms * 1e3));
    Cell::text(ends.join(" - "))
}

/// A row for each level of each series.
fn levels(report: &Report) -> DataTable {
    let mut head = vec![
        "program",
        "layer",
        "runs",
        "range",
        "time",
        result_line::BASELINE,
        "ratio",
        "peak memory",
        "CPU",
    ];
    let series = report.series.iter();
    let served = series
        .clone()
        .flat_map(|s| &s.runs)
        .any(|r| r.layer_ms > 0.0);
    if served {
        head.push("CPU of the layer's program");
    }
    let rows = series.flat_map(|s| s.levels.iter().map(move |l| level(report, s, l, served)));
    DataTable {
        title: captions::LEVELS.title.into(),
        note: String::new(),
        head: head.into_iter().map(str::to_owned).collect(),
        rows: rows.collect(),
    }
}

/// `served`: with the CPU time of the program that serves the layer.
fn level(report: &Report, s: &LaunchSeries, l: &LaunchLevel, served: bool) -> Vec<Cell> {
    let runs = || s.runs.iter().filter(|r| (l.from..=l.to).contains(&r.run));
    let middle = |of: fn(&LaunchRun) -> f64| {
        layermark_stats::median(&runs().map(of).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    // Several levels have no verdict of their own.
    let result = report.result(&s.result).filter(|_| s.levels.len() == 1);
    let leaning = result.map_or(Verdict::Descriptive, ResultRow::leaning);
    let ratio = l.ratio.as_ref();
    let peak = middle(|r| r.peak_bytes as f64);
    let mut cells = vec![
        Cell::text(&s.label),
        Cell::text(code(&s.layer)),
        Cell::number(words::runs(l), l.runs as f64),
        ends([l.min_ms, l.max_ms]),
        time(l.typical_ms),
        l.native_ms.map_or_else(Cell::default, time),
        ratio.map_or_else(Cell::default, |r| {
            Cell::number(Written::beside(leaning, r).with_ends(), r.estimate)
        }),
        Cell::number(number::bytes(peak), peak),
        time(middle(|r| r.user_ms + r.system_ms)),
    ];
    cells.extend(served.then(|| time(middle(|r| r.layer_ms))));
    cells
}

/// The sentences of each series, with its name.
fn remarks(report: &Report) -> Vec<String> {
    let all = report.series.iter().filter(|s| !s.says.is_empty());
    all.map(|s| words::series(s).into()).collect()
}

fn every_launch(s: &LaunchSeries) -> DataTable {
    let head = [
        "run",
        "start",
        "finish",
        "delta",
        "window",
        "state",
        "major faults",
        "blocks read",
        "I/O wait",
        "processes",
        "layer restarted",
    ];
    DataTable {
        title: words::every_launch(s).into(),
        note: words::counted_by(s).into(),
        head: head.map(str::to_owned).to_vec(),
        rows: s.runs.iter().map(launch).collect(),
    }
}

fn launch(r: &LaunchRun) -> Vec<Cell> {
    let since_the_run_began = |ms: f64| Cell::number(words::since_start(ms), ms / 1e3);
    let some = |ms: Option<f64>| ms.map_or_else(Cell::default, time);
    vec![
        Cell::count(r.run as u64),
        since_the_run_began(r.start_ms),
        since_the_run_began(r.finish_ms),
        time(r.elapsed_ms),
        Cell::text(r.window.clone().unwrap_or_default()),
        Cell::text(&r.state),
        Cell::count(r.major_faults),
        Cell::count(r.input_blocks),
        some(r.io_wait_ms),
        Cell::count(r.started.unwrap_or(r.processes)),
        some(r.restarted.map(|r| r.ns as f64 / 1e6)),
    ]
}

/// The series of each point, a layer beside the others; those with one launch have no order. Where all are in one
/// layer, the commands are beside each other, on one axis.
fn sequences(report: &Report) -> Vec<Sequence> {
    let layers = group::distinct(report.series.iter().map(|s| &s.layer));
    let is_one = layers.len() == 1 && report.series.len() > 1;
    let keyed = report.series.iter();
    let keyed = keyed.map(|s| ((!is_one).then_some(s.label.as_str()), s));
    let all = group::grouped(keyed).into_iter().map(|(label, all)| {
        let of = match label {
            Some(label) => (label.to_owned(), "layer"),
            None => (words::all_commands(&all[0].layer).into(), "command"),
        };
        Sequence {
            title: of.0,
            of: of.1.into(),
            series: all.iter().map(|s| times_of(s, is_one)).collect(),
        }
    });
    let in_order = |of: &Sequence| of.series.iter().any(|s| s.ms.len() > 1);
    all.filter(in_order).collect()
}

/// The times of a series, under the name of its command or of its layer.
fn times_of(of: &LaunchSeries, by_command: bool) -> SequenceOfLayer {
    let levels = of.levels.iter().map(|l| SequenceLevel {
        from: l.from,
        to: l.to,
        median_ms: l.median_ms,
        typical_ms: l.typical_ms,
    });
    SequenceOfLayer {
        layer: if by_command { &of.label } else { &of.layer }.clone(),
        ms: of.runs.iter().map(|r| r.elapsed_ms).collect(),
        levels: levels.collect(),
    }
}
