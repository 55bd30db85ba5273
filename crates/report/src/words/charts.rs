//! Titles of charts, how to read them, and their descriptions for readers who do not see them.

use crate::{
    facts::stalls,
    number::{count, percent},
    words::{Text, remarks, text},
};

/// How many operations are not drawn, behind a sentence; empty for none.
fn and_more(n: usize, how: &str) -> Text {
    match n {
        0 => Text::default(),
        n => text!(" {} {how}.", count(n, "more operation")),
    }
}

/// Ratios, of one layer or operation or of all.
pub fn cost_against(baseline: &str, of: Option<&str>) -> Text {
    match of {
        Some(of) => text!("{of}: cost against {baseline}"),
        None => text!("Cost against {baseline}"),
    }
}

/// How to read ratios: the level of their intervals, the difference that does not matter, and how many operations are not
/// drawn.
pub fn about_ratios(level: f64, delta: f64, left_out: usize) -> Text {
    text!(
        "Each square is a ratio of time an operation, its line the {} interval. Right of 1 is slower. Within the shaded band ({} either way) a difference does not matter. An axis ends at a factor of 10; what lies beyond is an arrow with its number. The largest difference comes first.{}",
        percent(level),
        percent(delta),
        and_more(left_out, "with smaller differences")
    )
}

/// The axis of ratios.
pub fn ratio_axis(baseline: &str) -> Text {
    text!("time an operation / {baseline} (log scale)")
}

/// A ratio that lies beyond an end of the axis.
pub fn beyond(times: &str, right: bool) -> Text {
    if right {
        text!("{times} \u{2192}")
    } else {
        text!("\u{2190} {times}")
    }
}

/// Drawn ratios: how many, those of each verdict, and those of usual times alone.
#[derive(Debug, Clone, Copy)]
pub struct DrawnRatios {
    /// All of them.
    pub all: usize,
    /// The same, slower and faster ones.
    pub verdicts: [usize; 3],
    /// Those of usual times alone.
    pub stalls: usize,
}

impl DrawnRatios {
    /// Their description.
    pub fn words(&self, baseline: &str) -> Text {
        let [same, slower, faster] = self.verdicts;
        let stalls = match self.stalls {
            0 => Text::default(),
            n => text!(
                " {n} of usual times alone, marked {} in the table: {}.",
                stalls::SIGN,
                remarks::STALLS
            ),
        };
        text!(
            "Forest plot of {}: {same} the same as {baseline}, {slower} slower, {faster} faster.{stalls} The table below has every figure.",
            count(self.all, "ratio")
        )
    }
}

/// How many operations of a point take longer than a time.
pub fn latency(point: &str) -> Text {
    text!("{point}: latency")
}

/// How to read latencies: the baseline and at most so many layers are drawn, and so many operations are not.
pub fn about_latency(baseline: &str, most: usize, left_out: usize) -> Text {
    text!(
        "The share of operations that take longer than a time, from the histograms of all measurements. A line ends where ten operations are left; both axes are logarithmic. Of each operation {baseline} and the slowest layers, at most {most}.{}",
        and_more(left_out, "not drawn")
    )
}

/// How to read throughput over record size. Of many tests only the largest file is drawn.
pub fn about_sizes(level: f64, only_largest: bool) -> Text {
    let only = if only_largest {
        " Of each test the largest file is drawn; the tables have all."
    } else {
        ""
    };
    text!(
        "Lines are the centres of the measurements (trimmed means), bands their {} intervals; both axes are logarithmic.{only}",
        percent(level)
    )
}

/// Throughput of one kind of test over record size.
pub fn sizes(what: &str) -> Text {
    text!("Throughput over record size: {what}")
}

/// Latency of one kind of read over the distance of a seek.
pub fn over_distance(what: &str) -> Text {
    text!("Latency over distance: {what}")
}

/// Time an operation over record size.
pub fn over_record_size(what: &str) -> Text {
    text!("Time an operation over record size: {what}")
}

/// Rate and response time over queue depth.
pub fn over_depth(what: &str) -> [Text; 2] {
    [
        text!("I/Os a second over queue depth: {what}"),
        text!("Response time over queue depth: {what}"),
    ]
}

/// Speed-up over CPUs.
pub fn over_cpus(what: &str) -> Text {
    text!("Speed-up over CPUs: {what}")
}

/// Throughput of a test in a layer over two sizes.
pub fn surface(test: &str, layer: &str) -> Text {
    text!("{test}, {layer}: throughput, GB/s")
}

/// The description of a surface over this many file sizes and records.
pub fn of_surface(files: usize, records: usize) -> Text {
    text!(
        "Surface of throughput over {} and {}. The table below has every figure.",
        count(files, "file size"),
        count(records, "record")
    )
}

/// How to read lines with bands.
pub fn about_lines(level: f64) -> Text {
    text!(
        "Marks are the centres of the measurements, bands their {} intervals where there are enough; both axes are logarithmic.",
        percent(level)
    )
}

/// The description of lines over a quantity.
pub fn of_lines(lines: usize, over: &str) -> Text {
    text!(
        "Line chart of {} over {over}. The table below has every figure.",
        count(lines, "line")
    )
}

/// How to read speeds during a run.
pub fn about_drift(baseline: &str) -> Text {
    text!(
        "Of the layers whose speed changed during the run. Each dot is a measurement against the median of its own operation and layer; the line joins the medians of the repeats. A line that climbs or falls while that of {baseline} stays means that the layer drifts."
    )
}

/// Speeds of a layer.
pub fn drift(layer: &str) -> Text {
    text!("{layer}: throughput during the run")
}

/// The description of speeds: repeats, measurements outside the drawing, and of how many one is drawn.
pub fn of_drift(repeats: usize, away: usize, every: usize) -> Text {
    let beyond = match away {
        0 => Text::default(),
        away => text!(" {} outside the drawing.", count(away, "measurement")),
    };
    let thinned = if every > 1 {
        text!(" One measurement of {every} is drawn.")
    } else {
        Text::default()
    };
    text!(
        "Speed of each measurement against the median of its operation, over time, in {}.{beyond}{thinned} The table below has the repeats.",
        count(repeats, "repeat")
    )
}

/// Times of a section in the order of the run.
pub fn in_order(section: &str) -> Text {
    text!("{section} in the order of the run")
}

/// Every time of a sequence.
pub fn every_run(of: &str) -> Text {
    text!("{of}: every run")
}

/// The description of every time, with what is said of them.
pub fn of_every_run(said: &str) -> Text {
    text!(
        "Each time in the order of the run, with a line at the typical time of each level. {said}"
    )
}

/// How often each time was met.
pub fn spread(of: &str) -> Text {
    text!("{of}: how the times are spread")
}

/// The description of how often, in this many classes.
pub fn of_spread(classes: usize) -> Text {
    text!("How many of the runs took how long, in {classes} classes.")
}

/// The description of values of runs, with lasting changes.
pub fn of_trend(runs: usize, changes: usize) -> Text {
    text!(
        "Values of {} with their intervals; {} for good, marked by a vertical line; horizontal lines are medians. The table below has the values.",
        count(runs, "run"),
        count(changes, "change")
    )
}
