//! The columns of results, trials and launches. New columns go to the end.

use super::{Field, Shown};
use crate::{
    ChangePoint, Estimate, IopsRow, LatencyUs, LaunchLevel, LaunchRun, LaunchSeries, Report,
    ResultRow, TrialRow,
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

use Shown::{Fine, Plain, Ratio, Share, Small, Whole, Words};

/// A column: its name, how its numbers are shown, and its cell.
pub type Column<F> = (&'static str, Shown, F);
type ResultCell = fn(&Report, &ResultRow) -> Field;
type TrialCell = fn(&TrialRow) -> Field;
type LaunchCell = fn(&LaunchSeries, &LaunchRun) -> Field;
type LevelCell = fn(&LaunchSeries, &LaunchLevel) -> Field;

/// Columns of a result.
pub const RESULTS: &[Column<ResultCell>] = &[
    ("run", Plain, |p, _| p.run.as_str().into()),
    ("id", Plain, |_, r| r.id.as_str().into()),
    ("workload", Plain, |_, r| r.workload.as_str().into()),
    ("point", Words, |_, r| r.label.as_str().into()),
    ("params", Plain, |_, r| {
        serde_json::to_string(&r.point).unwrap_or_default().into()
    }),
    ("layer", Words, |_, r| r.layer.as_str().into()),
    ("verdict", Plain, |_, r| r.verdict.id().into()),
    ("ratio", Ratio, |_, r| estimate(r.ratio)),
    ("ratio_low", Ratio, |_, r| bound(r.ratio, 0)),
    ("ratio_high", Ratio, |_, r| bound(r.ratio, 1)),
    ("extra_us", Fine, |_, r| estimate(r.extra_us)),
    ("extra_us_low", Fine, |_, r| bound(r.extra_us, 0)),
    ("extra_us_high", Fine, |_, r| bound(r.extra_us, 1)),
    ("metric", Plain, |_, r| r.metric.as_str().into()),
    ("unit", Plain, |_, r| r.unit.as_str().into()),
    ("value", Whole, |_, r| r.value.into()),
    ("value_low", Whole, |_, r| r.interval.map(|i| i[0]).into()),
    ("value_high", Whole, |_, r| r.interval.map(|i| i[1]).into()),
    ("op_us", Fine, |_, r| r.op_us.into()),
    ("trials", Plain, |_, r| r.trials.into()),
    ("failed_trials", Plain, |_, r| r.failed_trials.into()),
    ("blocks", Plain, |_, r| r.blocks.into()),
    ("effective_n", Fine, |_, r| r.effective_n.into()),
    ("p", Small, |_, r| r.p.into()),
    ("p_adjusted", Small, |_, r| r.p_adjusted.into()),
    ("probably", Plain, |_, r| {
        r.probably.map_or("", crate::Verdict::id).into()
    }),
    ("margin", Plain, |_, r| r.margin.into()),
    ("more_blocks", Plain, |_, r| {
        r.more_blocks.map(|n| n as u64).into()
    }),
    ("outliers", Plain, |_, r| r.outliers.into()),
    ("steady", Plain, |_, r| {
        r.steady.map(|s| s.to_string()).unwrap_or_default().into()
    }),
    ("operations", Whole, |_, r| {
        r.latency_us.map(|l| l.operations).into()
    }),
    ("latency_min_us", Fine, |_, r| {
        r.latency_us.map(|l| l.min).into()
    }),
    ("latency_mean_us", Fine, |_, r| {
        r.latency_us.map(|l| l.mean).into()
    }),
    ("latency_p50_us", Fine, |_, r| {
        r.latency_us.map(|l| l.p50).into()
    }),
    ("latency_p99_us", Fine, |_, r| {
        r.latency_us.and_then(|l| l.p99).into()
    }),
    ("latency_p999_us", Fine, |_, r| {
        r.latency_us.and_then(|l| l.p999).into()
    }),
    ("latency_max_us", Fine, |_, r| {
        r.latency_us.map(|l| l.max).into()
    }),
    ("cpu_s_per_gib_probe", Fine, |_, r| {
        r.cpu_s_per_gib.map(|c| c.probe).into()
    }),
    ("cpu_s_per_gib_upkeep", Fine, |_, r| {
        r.cpu_s_per_gib.map(|c| c.upkeep).into()
    }),
    ("cpu_us_per_op_probe", Fine, |_, r| {
        r.cpu_us_per_op.map(|c| c.probe).into()
    }),
    ("cpu_us_per_op_upkeep", Fine, |_, r| {
        r.cpu_us_per_op.map(|c| c.upkeep).into()
    }),
    ("served_by", Plain, |_, r| {
        text(r.served_by.map(crate::ServedBy::word))
    }),
    ("device_share", Share, |_, r| r.device_share.into()),
    ("durability", Plain, |_, r| r.durability.verdict.id().into()),
    ("durability_level", Plain, |_, r| {
        text(r.durability.level.as_deref())
    }),
    ("flushes", Plain, |_, r| r.durability.flushes.into()),
    ("syncs", Plain, |_, r| r.durability.syncs.into()),
    ("debt_bytes", Whole, |_, r| {
        r.write_back_debt.and_then(|d| d.bytes).into()
    }),
    ("debt_seconds", Fine, |_, r| {
        r.write_back_debt.map(|d| d.seconds).into()
    }),
    ("flags", Words, |_, r| r.flags.join("; ").into()),
    ("untrusted", Words, |_, r| text(r.untrusted.as_deref())),
    ("reasons", Words, |_, r| r.reasons.join("; ").into()),
    ("error", Words, |_, r| text(r.error.as_deref())),
    ("seqs", Plain, |_, r| {
        let seqs: Vec<String> = r.seqs.iter().map(u64::to_string).collect();
        seqs.join(" ").into()
    }),
    ("resident", Share, |_, r| r.resident.into()),
    ("backing_resident", Share, |_, r| r.backing_resident.into()),
    ("served_because", Words, |_, r| {
        text(r.served_because.as_deref())
    }),
    ("latency_p9999_us", Fine, |_, r| {
        r.latency_us.and_then(|l| l.p9999).into()
    }),
    ("iops", Fine, |p, r| iops(p, r, |i| Some(i.iops))),
    ("mib_per_s", Fine, |p, r| iops(p, r, |i| Some(i.mib_s))),
    ("mb_per_s", Fine, |p, r| iops(p, r, |i| Some(i.mb_s))),
    ("response_avg_ms", Fine, |p, r| {
        iops(p, r, |i| Some(i.response_ms))
    }),
    ("response_max_ms", Fine, |p, r| {
        iops(p, r, |i| Some(i.response_max_ms))
    }),
    ("service_avg_ms", Fine, |p, r| iops(p, r, |i| i.service_ms)),
    ("service_max_ms", Fine, |p, r| {
        iops(p, r, |i| i.service_max_ms)
    }),
    ("cpu_percent", Fine, |p, r| iops(p, r, |i| i.cpu_percent)),
    ("iops_per_cpu_percent", Fine, |p, r| {
        iops(p, r, |i| i.iops_per_cpu)
    }),
    ("thread_slowest", Whole, |_, r| {
        r.threads.map(|t| t.slowest).into()
    }),
    ("thread_mean", Whole, |_, r| {
        r.threads.map(|t| t.mean).into()
    }),
    ("thread_fastest", Whole, |_, r| {
        r.threads.map(|t| t.fastest).into()
    }),
    ("stonewall", Whole, |_, r| {
        r.threads.map(|t| t.stonewall).into()
    }),
    ("least_done", Share, |_, r| {
        r.threads.map(|t| t.least_done).into()
    }),
    ("latency_mean_us_low", Fine, |_, r| {
        latency(r, 0, |l| l.mean_interval)
    }),
    ("latency_mean_us_high", Fine, |_, r| {
        latency(r, 1, |l| l.mean_interval)
    }),
    ("latency_p50_us_low", Fine, |_, r| {
        latency(r, 0, |l| l.p50_interval)
    }),
    ("latency_p50_us_high", Fine, |_, r| {
        latency(r, 1, |l| l.p50_interval)
    }),
    ("latency_p99_us_low", Fine, |_, r| {
        latency(r, 0, |l| l.p99_interval)
    }),
    ("latency_p99_us_high", Fine, |_, r| {
        latency(r, 1, |l| l.p99_interval)
    }),
    ("latency_p999_us_low", Fine, |_, r| {
        latency(r, 0, |l| l.p999_interval)
    }),
    ("latency_p999_us_high", Fine, |_, r| {
        latency(r, 1, |l| l.p999_interval)
    }),
    ("latency_p9999_us_low", Fine, |_, r| {
        latency(r, 0, |l| l.p9999_interval)
    }),
    ("latency_p9999_us_high", Fine, |_, r| {
        latency(r, 1, |l| l.p9999_interval)
    }),
    ("quick_operations", Whole, |_, r| {
        r.two_kinds.map(|k| k.quick as f64).into()
    }),
    ("quick_us", Fine, |_, r| {
        r.two_kinds.map(|k| k.quick_us).into()
    }),
    ("slow_us", Fine, |_, r| {
        r.two_kinds.map(|k| k.slow_us).into()
    }),
    ("filled_with", Plain, |_, r| r.filled_with.into()),
];

/// An end of an interval of the latency.
fn latency(row: &ResultRow, end: usize, of: fn(LatencyUs) -> Option<[f64; 2]>) -> Field {
    row.latency_us.and_then(of).map(|i| i[end]).into()
}

/// A figure of Iometer, where the result has them.
fn iops(report: &Report, row: &ResultRow, of: fn(&IopsRow) -> Option<f64>) -> Field {
    report
        .iops
        .iter()
        .find(|i| i.result == row.id)
        .and_then(of)
        .into()
}

/// Columns of a trial.
pub const TRIALS: &[Column<TrialCell>] = &[
    ("seq", Plain, |t| t.seq.into()),
    ("session", Plain, |t| u64::from(t.session).into()),
    ("block", Plain, |t| u64::from(t.block).into()),
    ("at_ms", Plain, |t| t.at_ms.into()),
    ("layer", Words, |t| t.layer.as_str().into()),
    ("point", Words, |t| t.point.as_str().into()),
    ("op_us", Fine, |t| t.op_us.into()),
    ("ops", Whole, |t| t.ops.into()),
    ("bytes", Whole, |t| t.bytes.into()),
    ("device_read", Whole, |t| t.device_read.into()),
    ("device_written", Whole, |t| t.device_written.into()),
    ("foreign_cpu", Share, |t| Some(t.foreign_cpu).into()),
    ("flags", Words, |t| t.flags.join("; ").into()),
    ("error", Words, |t| text(t.error.as_deref())),
];

/// Columns of a launch: first those of the 2014 study of application streaming, whose runs were
/// lines of `time,elapsed ms,window,program`.
pub const LAUNCHES: &[Column<LaunchCell>] = &[
    ("time", Words, |_, r| r.time.as_str().into()),
    ("elapsed ms", Fine, |_, r| Some(r.elapsed_ms).into()),
    ("window", Plain, |_, r| text(r.window.as_deref())),
    ("program", Plain, |_, r| r.program.as_str().into()),
    ("layer", Words, |s, _| s.layer.as_str().into()),
    ("run", Plain, |_, r| r.run.into()),
    ("state", Plain, |_, r| r.state.as_str().into()),
    ("point", Words, |s, _| s.label.as_str().into()),
    ("start ms", Fine, |_, r| Some(r.start_ms).into()),
    ("finish ms", Fine, |_, r| Some(r.finish_ms).into()),
    ("delta ms", Fine, |_, r| {
        Some(r.finish_ms - r.start_ms).into()
    }),
    ("level", Plain, |_, r| r.level.map(|l| l as u64).into()),
    ("user ms", Fine, |_, r| Some(r.user_ms).into()),
    ("system ms", Fine, |_, r| Some(r.system_ms).into()),
    ("I/O wait ms", Fine, |_, r| r.io_wait_ms.into()),
    ("major faults", Whole, |_, r| r.major_faults.into()),
    ("input blocks", Whole, |_, r| r.input_blocks.into()),
    ("read bytes", Whole, |_, r| r.read_bytes.into()),
    ("device bytes", Whole, |_, r| r.device_bytes.into()),
    ("peak bytes", Whole, |_, r| r.peak_bytes.into()),
    ("processes seen", Plain, |_, r| r.processes.into()),
    ("processes started", Plain, |_, r| r.started.into()),
    ("layer restarted ms", Fine, |_, r| {
        r.restarted.map(|r| r.ns as f64 / 1e6).into()
    }),
];

/// Columns of what lies between two steps of a series.
pub const LEVELS: &[Column<LevelCell>] = &[
    ("point", Words, |s, _| s.label.as_str().into()),
    ("layer", Words, |s, _| s.layer.as_str().into()),
    ("from run", Plain, |_, l| l.from.into()),
    ("to run", Plain, |_, l| l.to.into()),
    ("runs", Plain, |_, l| l.runs.into()),
    ("min ms", Fine, |_, l| Some(l.min_ms).into()),
    ("max ms", Fine, |_, l| Some(l.max_ms).into()),
    ("mean ms", Fine, |_, l| Some(l.mean_ms).into()),
    ("median ms", Fine, |_, l| Some(l.median_ms).into()),
    ("centre low ms", Fine, |_, l| {
        l.interval_ms.map(|i| i[0]).into()
    }),
    ("centre high ms", Fine, |_, l| {
        l.interval_ms.map(|i| i[1]).into()
    }),
    ("ratio", Ratio, |_, l| estimate(l.ratio)),
    ("ratio low", Ratio, |_, l| bound(l.ratio, 0)),
    ("ratio high", Ratio, |_, l| bound(l.ratio, 1)),
    ("step ms", Fine, |s, l| step(s, l).map(|c| c.step_ms).into()),
    ("step low ms", Fine, |s, l| {
        step(s, l).and_then(|c| c.interval).map(|i| i[0]).into()
    }),
    ("step high ms", Fine, |s, l| {
        step(s, l).and_then(|c| c.interval).map(|i| i[1]).into()
    }),
    ("step at", Words, |s, l| {
        text(step(s, l).map(|c| c.time.as_str()))
    }),
];

/// The step that leads to a level.
fn step<'a>(series: &'a LaunchSeries, level: &LaunchLevel) -> Option<&'a ChangePoint> {
    series.change_points.iter().find(|c| c.at == level.from)
}
