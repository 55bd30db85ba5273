//! Series of launches as programs for benchmarks of commands have them.

use crate::{LaunchRun, LaunchSeries, Report, words::result_line};

/// The launches of a command in a layer. Times are seconds. All launches count, including the first and those on either
/// side of a step.
pub struct Benchmark<'a> {
    /// The command, with its layer where there are several.
    pub command: String,
    /// Time of each launch.
    pub times: Vec<f64>,
    /// Their mean; 0 without one.
    pub mean: f64,
    /// Their standard deviation. `None` for one launch.
    pub stddev: Option<f64>,
    /// Their median; 0 without one.
    pub median: f64,
    /// Shortest and longest.
    pub range: [f64; 2],
    /// Mean CPU time in user mode.
    pub user: f64,
    /// Mean CPU time in the kernel.
    pub system: f64,
    /// Exit code of each launch that ended by itself.
    pub exit_codes: Vec<Option<i32>>,
    /// Peak memory of each launch, bytes.
    pub peak_bytes: Vec<u64>,
    /// Parameters of a command scan, by name.
    pub parameters: Vec<(&'a str, &'a str)>,
}

/// One for each series.
pub fn benchmarks(report: &Report) -> Vec<Benchmark<'_>> {
    let layers = report.layers.iter().filter(|l| !l.control).count();
    let series = report.series.iter();
    series.map(|s| Benchmark::of(s, layers > 1)).collect()
}

impl<'a> Benchmark<'a> {
    fn of(series: &'a LaunchSeries, name_layer: bool) -> Self {
        let seconds = |pick: fn(&LaunchRun) -> f64| -> Vec<f64> {
            series.runs.iter().map(|r| pick(r) / 1e3).collect()
        };
        let times = seconds(|r| r.elapsed_ms);
        let mean_of = |x: &[f64]| layermark_stats::mean(x).unwrap_or(0.0);
        let n = times.len() as f64;
        let mean = mean_of(&times);
        let squares: f64 = times.iter().map(|t| (t - mean).powi(2)).sum();
        let command = if name_layer {
            result_line::command_in(&series.command, &series.layer).into()
        } else {
            series.command.clone()
        };
        let parameters = series.parameters.iter();
        Self {
            command,
            mean,
            stddev: (n > 1.0).then(|| (squares / (n - 1.0)).sqrt()),
            median: layermark_stats::median(&times).unwrap_or(0.0),
            range: [
                times.iter().copied().fold(f64::INFINITY, f64::min),
                times.iter().copied().fold(0.0, f64::max),
            ],
            user: mean_of(&seconds(|r| r.user_ms)),
            system: mean_of(&seconds(|r| r.system_ms)),
            exit_codes: series.runs.iter().map(|r| r.exit).collect(),
            peak_bytes: series.runs.iter().map(|r| r.peak_bytes).collect(),
            parameters: parameters.filter_map(|p| p.split_once('=')).collect(),
            times,
        }
    }
}
