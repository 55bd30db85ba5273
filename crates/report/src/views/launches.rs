//! Series of launches as text, for every format that people read.

use crate::{LaunchLevel, LaunchRun, LaunchSeries, Report, number};

/// Heads of [`level_lines`].
pub const HEADS: [&str; 8] = [
    "program",
    "layer",
    "runs",
    "range",
    "mean",
    "median",
    "95 % of the centre",
    "ratio",
];

fn ms(ms: f64) -> String {
    number::time(ms * 1e3)
}

/// The text for a level of a series. A pair is the two ends of a range.
pub struct LevelWords<'a> {
    /// The series.
    pub series: &'a LaunchSeries,
    /// First and last run.
    pub runs: [usize; 2],
    /// Shortest and longest.
    pub range: [String; 2],
    /// Arithmetic mean.
    pub mean: String,
    /// Median.
    pub median: String,
    /// Interval of the centre.
    pub centre: Option<[String; 2]>,
    /// Against native; may be empty.
    pub ratio: String,
    /// Median of the peak memory.
    pub peak: String,
    /// Median of the CPU time.
    pub cpu: String,
}

/// Each level of each series.
pub fn levels(report: &Report) -> Vec<LevelWords<'_>> {
    let each = |s| move |l| level_words(s, l);
    let series = report.series.iter();
    series.flat_map(|s| s.levels.iter().map(each(s))).collect()
}

fn level_words<'a>(s: &'a LaunchSeries, l: &LaunchLevel) -> LevelWords<'a> {
    let runs = || s.runs.iter().filter(|r| (l.from..=l.to).contains(&r.run));
    let middle = |of: fn(&LaunchRun) -> f64| {
        layermark_stats::median(&runs().map(of).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    LevelWords {
        series: s,
        runs: [l.from, l.to],
        range: [l.min_ms, l.max_ms].map(ms),
        mean: ms(l.mean_ms),
        median: ms(l.median_ms),
        centre: l.interval_ms.map(|ends| ends.map(ms)),
        ratio: l.ratio.as_ref().map_or(String::new(), number::ratio_with),
        peak: number::bytes(middle(|r| r.peak_bytes as f64)),
        cpu: ms(middle(|r| r.user_ms + r.system_ms)),
    }
}

/// A line for each level of each series, under [`HEADS`].
pub fn level_lines(report: &Report) -> Vec<[String; 8]> {
    let line = |l: LevelWords| {
        [
            l.series.label.clone(),
            l.series.layer.clone(),
            l.runs.map(|n| n.to_string()).join("-"),
            l.range.join(" - "),
            l.mean,
            l.median,
            l.centre.map_or(String::new(), |ends| ends.join(" - ")),
            l.ratio,
        ]
    };
    levels(report).into_iter().map(line).collect()
}

/// Heads of [`run_cells`].
pub const RUN_HEADS: [&str; 11] = [
    "Run",
    "Start",
    "Finish",
    "Delta",
    "Window",
    "State",
    "Major faults",
    "Blocks read",
    "I/O wait",
    "Processes",
    "Layer restarted",
];

/// A launch as text; unknown values are empty.
pub fn run_cells(r: &LaunchRun) -> [String; 11] {
    [
        r.run.to_string(),
        format!("{:.3} s", r.start_ms / 1e3),
        format!("{:.3} s", r.finish_ms / 1e3),
        ms(r.elapsed_ms),
        r.window.clone().unwrap_or_default(),
        r.state.clone(),
        r.major_faults.to_string(),
        r.input_blocks.to_string(),
        r.io_wait_ms.map(ms).unwrap_or_default(),
        r.started.unwrap_or(r.processes).to_string(),
        r.restarted
            .map(|r| ms(r.ns as f64 / 1e6))
            .unwrap_or_default(),
    ]
}

/// The sentences of each series, with its name.
pub fn says(report: &Report) -> Vec<String> {
    report
        .series
        .iter()
        .filter(|s| !s.says.is_empty())
        .map(|s| format!("{} in {}: {}.", s.label, s.layer, s.says.join(". ")))
        .collect()
}
