//! The columns of results, trials and launches. New columns go to the end.

use layermark_model::Priority;

use super::{ColumnFormat, Field};
use crate::{
    Average, ChangePoint, Estimate, IopsRow, LatencyUs, LaunchLevel, LaunchRun, LaunchSeries,
    Report, ResultRow, Tail, TrialRow,
};

fn text(of: Option<&str>) -> Field {
    of.unwrap_or_default().into()
}

fn estimate(e: Option<Estimate>) -> Field {
    e.map(|e| e.estimate).into()
}

fn bound(e: Option<Estimate>, end: usize) -> Field {
    e.and_then(|e| e.interval).map(|i| i[end]).into()
}

use ColumnFormat::{Fine, Plain, Ratio, Share, Small, Whole, Words};

/// A column: its name, the format of its numbers, and its cell.
pub type Column<F> = (&'static str, ColumnFormat, F);
type ResultCell = fn((&Report, &ResultRow)) -> Field;
type TrialCell = fn(&TrialRow) -> Field;
type LaunchCell = fn((&LaunchSeries, &LaunchRun)) -> Field;
type LevelCell = fn((&LaunchSeries, &LaunchLevel)) -> Field;

/// A line for each column: name, format, and content.
macro_rules! columns {
    ($of:tt: $($name:literal $shown:ident => $cell:expr,)+) => {
        &[$(($name, $shown, |$of| Field::from($cell))),+]
    };
}

/// Columns of a result.
#[allow(unused_variables)] // not every column needs the report or the series
pub const RESULTS: &[Column<ResultCell>] = columns! { (p, r):
    "run" Plain => p.run.as_str(),
    "id" Plain => r.id.as_str(),
    "workload" Plain => r.workload.as_str(),
    "point" Words => r.label.as_str(),
    "params" Plain => serde_json::to_string(&r.point).unwrap_or_default(),
    "layer" Words => r.layer.as_str(),
    "verdict" Plain => r.verdict.id(),
    "ratio" Ratio => estimate(r.ratio),
    "ratio_low" Ratio => bound(r.ratio, 0),
    "ratio_high" Ratio => bound(r.ratio, 1),
    "extra_us" Fine => estimate(r.extra_us),
    "extra_us_low" Fine => bound(r.extra_us, 0),
    "extra_us_high" Fine => bound(r.extra_us, 1),
    "metric" Plain => r.metric.as_str(),
    "unit" Plain => r.unit.as_str(),
    "value" Whole => r.value,
    "value_low" Whole => r.interval.map(|i| i[0]),
    "value_high" Whole => r.interval.map(|i| i[1]),
    "op_us" Fine => r.op_us,
    "trials" Plain => r.trials,
    "failed_trials" Plain => r.failed_trials,
    "blocks" Plain => r.blocks,
    "effective_n" Fine => r.effective_n,
    "p" Small => r.p,
    "p_adjusted" Small => r.p_adjusted,
    "probably" Plain => r.probably.map_or("", crate::Verdict::id),
    "margin" Plain => r.margin,
    "more_blocks" Plain => r.more_blocks.map(|n| n as u64),
    "outliers" Plain => r.outliers,
    "steady" Plain => r.steady.map(|s| s.to_string()).unwrap_or_default(),
    "operations" Whole => r.latency_us.map(|l| l.operations),
    "latency_min_us" Fine => r.latency_us.map(|l| l.min),
    "latency_mean_us" Fine => r.latency_us.map(|l| l.mean),
    "latency_p50_us" Fine => r.latency_us.map(|l| l.p50),
    "latency_p99_us" Fine => r.latency_us.and_then(|l| l.p99),
    "latency_p999_us" Fine => r.latency_us.and_then(|l| l.p999),
    "latency_max_us" Fine => r.latency_us.map(|l| l.max),
    "cpu_s_per_gib_probe" Fine => r.cpu_s_per_gib.map(|c| c.probe),
    "cpu_s_per_gib_upkeep" Fine => r.cpu_s_per_gib.map(|c| c.upkeep),
    "cpu_us_per_op_probe" Fine => r.cpu_us_per_op.map(|c| c.probe),
    "cpu_us_per_op_upkeep" Fine => r.cpu_us_per_op.map(|c| c.upkeep),
    "served_by" Plain => text(r.served_by.map(crate::ServedBy::word)),
    "device_share" Share => r.device_share,
    "durability" Plain => r.durability.verdict.id(),
    "durability_level" Plain => text(r.durability.level.as_deref()),
    "flushes" Plain => r.durability.flushes,
    "syncs" Plain => r.durability.syncs,
    "debt_bytes" Whole => r.write_back_debt.and_then(|d| d.bytes),
    "debt_seconds" Fine => r.write_back_debt.map(|d| d.seconds),
    "flags" Words => r.flags.join("; "),
    "untrusted" Words => text(r.untrusted.as_deref()),
    "reasons" Words => r.reasons.join("; "),
    "error" Words => text(r.error.as_deref()),
    "seqs" Plain => r.seqs.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
    "resident" Share => r.resident,
    "backing_resident" Share => r.backing_resident,
    "served_because" Words => text(r.served_because.as_deref()),
    "latency_p9999_us" Fine => r.latency_us.and_then(|l| l.p9999),
    "iops" Fine => iops(p, r, |i| Some(i.iops)),
    "mib_per_s" Fine => iops(p, r, |i| Some(i.mib_s)),
    "mb_per_s" Fine => iops(p, r, |i| Some(i.mb_s)),
    "response_avg_ms" Fine => iops(p, r, |i| Some(i.response_ms)),
    "response_max_ms" Fine => iops(p, r, |i| Some(i.response_max_ms)),
    "service_avg_ms" Fine => iops(p, r, |i| i.service_ms),
    "service_max_ms" Fine => iops(p, r, |i| i.service_max_ms),
    "cpu_percent" Fine => iops(p, r, |i| i.cpu_percent),
    "iops_per_cpu_percent" Fine => iops(p, r, |i| i.iops_per_cpu),
    "thread_slowest" Whole => r.threads.map(|t| t.slowest),
    "thread_mean" Whole => r.threads.map(|t| t.mean),
    "thread_fastest" Whole => r.threads.map(|t| t.fastest),
    "stonewall" Whole => r.threads.map(|t| t.stonewall),
    "least_done" Share => r.threads.map(|t| t.least_done),
    "latency_mean_us_low" Fine => latency(r, 0, |l| l.mean_interval),
    "latency_mean_us_high" Fine => latency(r, 1, |l| l.mean_interval),
    "latency_p50_us_low" Fine => latency(r, 0, |l| l.p50_interval),
    "latency_p50_us_high" Fine => latency(r, 1, |l| l.p50_interval),
    "latency_p99_us_low" Fine => latency(r, 0, |l| l.p99_interval),
    "latency_p99_us_high" Fine => latency(r, 1, |l| l.p99_interval),
    "latency_p999_us_low" Fine => latency(r, 0, |l| l.p999_interval),
    "latency_p999_us_high" Fine => latency(r, 1, |l| l.p999_interval),
    "latency_p9999_us_low" Fine => latency(r, 0, |l| l.p9999_interval),
    "latency_p9999_us_high" Fine => latency(r, 1, |l| l.p9999_interval),
    "quick_operations" Whole => r.two_kinds.map(|k| k.quick as f64),
    "quick_us" Fine => r.two_kinds.map(|k| k.quick_us),
    "slow_us" Fine => r.two_kinds.map(|k| k.slow_us),
    "filled_with" Plain => r.filled_with,
    "average" Ratio => average(r).map(|a| a.estimate),
    "average_low" Ratio => average(r).and_then(|a| a.interval).map(|i| i[0]),
    "average_high" Ratio => average(r).and_then(|a| a.interval).map(|i| i[1]),
    "native_us" Fine => r.native_us,
    "slow_operations" Whole => r.stalls.map(|s| s.here.slow),
    "slow_operations_us" Fine => r.stalls.and_then(|s| s.here.slow_us).map(|us| us[1]),
    "native_slow_operations" Whole => r.stalls.map(|s| s.native.slow),
    "native_slow_operations_us" Fine => r.stalls.and_then(|s| s.native.slow_us).map(|us| us[1]),
    "latency_tail_percentile" Plain => tail(r).map(|t| t.percentile),
    "latency_tail_us" Fine => tail(r).map(|t| t.us),
    "waited" Share => r.waiting.and_then(|w| w.share),
    "waited_us" Fine => r.waiting.and_then(|w| w.us),
    "kernel_waited_us" Fine => r.waiting.and_then(|w| w.kernel_us),
    "helpers_waited_us" Fine => r.waiting.and_then(|w| w.helpers_us),
    "waiting_left_out" Plain => r.waiting.map(|w| w.left_out.to_string()).unwrap_or_default(),
    "ratio_with_waiting" Ratio => estimate(with_waiting(r)),
    "ratio_with_waiting_low" Ratio => bound(with_waiting(r), 0),
    "ratio_with_waiting_high" Ratio => bound(with_waiting(r), 1),
    "withheld" Words => text(r.withheld.as_deref()),
    "average_us" Fine => r.average_us,
    "native_average_us" Fine => r.native_average_us,
};

fn with_waiting(row: &ResultRow) -> Option<Estimate> {
    row.waiting.and_then(|w| w.ratio_with)
}

fn average(row: &ResultRow) -> Option<Average> {
    row.ratio.and_then(|r| r.average)
}

fn tail(row: &ResultRow) -> Option<Tail> {
    row.latency_us.and_then(|l| l.tail)
}

/// One end of an interval of the latency.
fn latency(row: &ResultRow, end: usize, of: fn(LatencyUs) -> Option<[f64; 2]>) -> Field {
    row.latency_us.and_then(of).map(|i| i[end]).into()
}

/// A figure of Iometer, if the result has one.
fn iops(report: &Report, row: &ResultRow, of: fn(&IopsRow) -> Option<f64>) -> Field {
    report
        .iops
        .iter()
        .find(|i| i.result == row.id)
        .and_then(of)
        .into()
}

/// Columns of a trial.
pub const TRIALS: &[Column<TrialCell>] = columns! { t:
    "seq" Plain => t.seq,
    "session" Plain => u64::from(t.session),
    "block" Plain => u64::from(t.block),
    "at_ms" Plain => t.at_ms,
    "layer" Words => t.layer.as_str(),
    "point" Words => t.point.as_str(),
    "op_us" Fine => t.op_us,
    "ops" Whole => t.ops,
    "bytes" Whole => t.bytes,
    "device_read" Whole => t.device_read,
    "device_written" Whole => t.device_written,
    "foreign_cpu" Share => Some(t.foreign_cpu),
    "flags" Words => t.flags.join("; "),
    "error" Words => text(t.error.as_deref()),
    "waited_us" Fine => t.waited_us,
    "kernel_waited_us" Fine => t.kernel_waited_us,
    "waiting_left_out" Plain => t.waiting_left_out.to_string(),
    "helpers_waited_us" Fine => t.helpers_waited_us,
    "priority" Plain => text(t.priority.map(Priority::id)),
};

/// Columns of a launch. The first are those of the 2014 study of application streaming, whose lines
/// were `time,elapsed ms,window,program`.
#[allow(unused_variables)] // not every column needs the report or the series
pub const LAUNCHES: &[Column<LaunchCell>] = columns! { (s, r):
    "time" Words => r.time.as_str(),
    "elapsed ms" Fine => Some(r.elapsed_ms),
    "window" Plain => text(r.window.as_deref()),
    "program" Plain => r.program.as_str(),
    "layer" Words => s.layer.as_str(),
    "run" Plain => r.run,
    "state" Plain => r.state.as_str(),
    "point" Words => s.label.as_str(),
    "start ms" Fine => Some(r.start_ms),
    "finish ms" Fine => Some(r.finish_ms),
    "delta ms" Fine => Some(r.finish_ms - r.start_ms),
    "level" Plain => r.level.map(|l| l as u64),
    "user ms" Fine => Some(r.user_ms),
    "system ms" Fine => Some(r.system_ms),
    "I/O wait ms" Fine => r.io_wait_ms,
    "major faults" Whole => r.major_faults,
    "input blocks" Whole => r.input_blocks,
    "read bytes" Whole => r.read_bytes,
    "device bytes" Whole => r.device_bytes,
    "peak bytes" Whole => r.peak_bytes,
    "processes seen" Plain => r.processes,
    "processes started" Plain => r.started,
    "layer restarted ms" Fine => r.restarted.map(|r| r.ns as f64 / 1e6),
};

/// Columns of a level, the launches between two steps of a series.
#[allow(unused_variables)] // not every column needs the report or the series
pub const LEVELS: &[Column<LevelCell>] = columns! { (s, l):
    "point" Words => s.label.as_str(),
    "layer" Words => s.layer.as_str(),
    "from run" Plain => l.from,
    "to run" Plain => l.to,
    "runs" Plain => l.runs,
    "min ms" Fine => Some(l.min_ms),
    "max ms" Fine => Some(l.max_ms),
    "mean ms" Fine => Some(l.mean_ms),
    "median ms" Fine => Some(l.median_ms),
    "centre low ms" Fine => l.interval_ms.map(|i| i[0]),
    "centre high ms" Fine => l.interval_ms.map(|i| i[1]),
    "ratio" Ratio => estimate(l.ratio),
    "ratio low" Ratio => bound(l.ratio, 0),
    "ratio high" Ratio => bound(l.ratio, 1),
    "step ms" Fine => step(s, l).map(|c| c.step_ms),
    "step low ms" Fine => step(s, l).and_then(|c| c.interval).map(|i| i[0]),
    "step high ms" Fine => step(s, l).and_then(|c| c.interval).map(|i| i[1]),
    "step at" Words => text(step(s, l).map(|c| c.time.as_str())),
    "typical ms" Fine => Some(l.typical_ms),
    "native ms" Fine => l.native_ms,
};

/// The step that leads to a level.
fn step<'a>(series: &'a LaunchSeries, level: &LaunchLevel) -> Option<&'a ChangePoint> {
    series.change_points.iter().find(|c| c.at == level.from)
}
