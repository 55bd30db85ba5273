//! Series of launches as text, for terminal and Markdown.

use crate::{LaunchLevel, LaunchSeries, Report, number};

/// Heads of the table of levels.
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

/// A line for each level of each series.
pub fn levels(report: &Report) -> Vec<[String; 8]> {
    let lines = report
        .series
        .iter()
        .flat_map(|s| s.levels.iter().map(move |l| line(s, l)));
    lines.collect()
}

fn line(s: &LaunchSeries, l: &LaunchLevel) -> [String; 8] {
    [
        s.label.clone(),
        s.layer.clone(),
        format!("{}-{}", l.from, l.to),
        format!("{} - {}", ms(l.min_ms), ms(l.max_ms)),
        ms(l.mean_ms),
        ms(l.median_ms),
        l.interval_ms
            .map_or(String::new(), |[a, b]| format!("{} - {}", ms(a), ms(b))),
        l.ratio.as_ref().map_or(String::new(), number::ratio_with),
    ]
}

/// What a series says, with its name.
pub fn says(report: &Report) -> Vec<String> {
    report
        .series
        .iter()
        .filter(|s| !s.says.is_empty())
        .map(|s| format!("{} in {}: {}.", s.label, s.layer, s.says.join(". ")))
        .collect()
}
