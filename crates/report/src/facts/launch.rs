//! Launches as a series in the order of the run, with a cold start and steps.

use layermark_model::{LayerRun, Run, Stopped, Trial, TrialRecord, Unit, Untraced, Warmth};
use layermark_stats as stats;
use serde::Deserialize;

use crate::{
    facts::{
        LEVEL,
        index::{Index, cost},
    },
    statements::series::{CallKind, SeriesFinding, TracedCalls},
    types::{
        ChangePoint, Estimate, FirstApart, LaunchLevel, LaunchRun, LaunchSeries, LaunchTrace,
        ResultRow,
    },
    words::{NO_NAMES, Names, Words},
};

/// Fewest further launches for setting the first one apart.
const FEWEST: usize = 6;
/// The first launch is compared with at most this many that follow. A later step must not affect
/// this.
const NEXT: usize = 10;
/// It must lie this many median absolute deviations above them, like an outlier (METHOD: 14.826).
const FAR: f64 = 14.826;
/// It must also exceed their median by this share.
const MORE: f64 = 0.10;

/// What a trial has seen of a launch beside its time, by the names that the workload gives these values. Counts
/// are of the whole tree of processes, until the program was ready.
#[derive(Deserialize)]
struct LaunchSigns {
    program: String,
    ready: String,
    /// As a floating-point number: a machine that has been up for 104 days counts further than is exact.
    #[serde(default)]
    start_ns: f64,
    window: Option<String>,
    error_ns: u64,
    exit: Option<i32>,
    major_faults: u64,
    input_blocks: u64,
    read_bytes: u64,
    peak_bytes: u64,
    processes: u64,
    started: Option<u64>,
    io_wait_ns: Option<u64>,
    device_bytes: Option<u64>,
    #[serde(default)]
    counted_by: Vec<String>,
    #[serde(default)]
    stopped: Stopped,
}

impl LaunchSigns {
    fn of(trial: &Trial) -> Option<Self> {
        trial.figures.read_as()
    }
}

/// What a traced launch waited for. Times are those seen while tracing.
#[derive(Deserialize)]
struct Traced {
    elapsed_ns: u64,
    processes: u64,
    opened: u64,
    lookups: u64,
    failed: u64,
    failed_ns: u64,
    lookup_ns: u64,
    reads: u64,
    read_bytes: u64,
    read_ns: u64,
}

/// A series, split at its changes.
pub struct Cut {
    /// Why the first launch is not counted with the others.
    pub first: Option<FirstApart>,
    /// Indexes at which a new level starts.
    pub steps: Vec<usize>,
}

/// Sets the first launch apart if it is of another kind, and looks for steps in the others.
/// `warmth` is the state of each launch by its own counters; empty without counters.
pub fn cut(ms: &[f64], warmth: &[Warmth], seed: u64) -> Cut {
    let first = first_apart(ms, warmth);
    let from = usize::from(first.is_some());
    let steps = stats::change_points(&ms[from..], seed);
    Cut {
        first,
        steps: steps.into_iter().map(|at| at + from).collect(),
    }
}

fn first_apart(ms: &[f64], warmth: &[Warmth]) -> Option<FirstApart> {
    let (first, rest) = ms.split_first()?;
    if rest.len() + 1 < FEWEST {
        return None;
    }
    let next = &rest[..rest.len().min(NEXT)];
    let middle = stats::median(next)?;
    let away = first - middle;
    if away < MORE * middle {
        return None;
    }
    let cold = |w: &Warmth| *w == Warmth::Cold;
    if let Some((first, rest)) = warmth.split_first()
        && cold(first)
        && rest.iter().filter(|w| cold(w)).count() * 2 < rest.len()
    {
        return Some(FirstApart::Cold);
    }
    (away > FAR * stats::mad(next)?).then_some(FirstApart::FarSlower)
}

/// Every series of a run, in the order of the results.
pub fn series(
    run: &Run,
    index: &Index,
    baseline: usize,
    results: &[ResultRow],
) -> Vec<LaunchSeries> {
    let launches = results
        .iter()
        .filter(|r| r.meaning.unit == Unit::Launch && r.trials > 0);
    launches
        .filter_map(|row| {
            let (layer, point) = run.site(&row.layer, &row.label)?;
            let site = SeriesSite {
                run,
                index,
                layer,
                baseline,
                point,
            };
            site.series(row)
        })
        .collect()
}

struct SeriesSite<'a> {
    run: &'a Run,
    index: &'a Index<'a>,
    layer: usize,
    baseline: usize,
    point: usize,
}

impl SeriesSite<'_> {
    fn series(&self, row: &ResultRow) -> Option<LaunchSeries> {
        let trials = self.index.trials(self.layer, self.point).into_iter();
        // A scripted layer accepts any work and launches nothing.
        let mut made: Vec<(&TrialRecord, LaunchSigns)> = trials
            .filter_map(|r| Some((r, LaunchSigns::of(r.trial.as_ref()?)?)))
            .collect();
        made.sort_by_key(|(r, _)| r.seq);
        let records: Vec<&TrialRecord> = made.iter().map(|(r, _)| *r).collect();
        let ms: Vec<f64> = records
            .iter()
            .filter_map(|r| Some(cost(r)? / 1e6))
            .collect();
        let warmth: Vec<Warmth> = records
            .iter()
            .filter_map(|r| r.trial.as_ref()?.warmth())
            .collect();
        let warmth = if warmth.len() == ms.len() {
            warmth
        } else {
            Vec::new()
        };
        let cut = cut(&ms, &warmth, self.run.seed);
        let mut runs: Vec<LaunchRun> = made
            .iter()
            .zip(&ms)
            .enumerate()
            .filter_map(|(n, ((record, seen), ms))| self.launch(n, record, seen, *ms))
            .collect();
        let from = usize::from(cut.first.is_some());
        let bounds: Vec<usize> = [from]
            .into_iter()
            .chain(cut.steps.iter().copied())
            .chain([ms.len()])
            .collect();
        let levels: Vec<LaunchLevel> = bounds
            .windows(2)
            .filter(|w| w[0] < w[1])
            .map(|w| self.level(row, [w[0], w[1]], &ms, &records))
            .collect();
        for (n, level) in levels.iter().enumerate() {
            runs[level.from - 1..level.to]
                .iter_mut()
                .for_each(|r| r.level = Some(n + 1));
        }
        let change_points = levels
            .windows(2)
            .map(|pair| step(&pair[0], &pair[1], &ms, &runs))
            .collect();
        let trace = trace(&records);
        let (_, launch) = made.into_iter().next()?;
        let mut series = LaunchSeries {
            result: row.id.clone(),
            label: row.label.clone(),
            layer: row.layer.clone(),
            command: self.command(),
            parameters: self.parameters(),
            program: launch.program,
            ready: launch.ready,
            error_ms: launch.error_ns as f64 / 1e6,
            first_apart: cut.first.map(|why| why.words(&NO_NAMES).into()),
            counted_by: launch.counted_by,
            runs,
            levels,
            change_points,
            not_traced: trace.is_none().then(|| not_traced(&records)).flatten(),
            trace,
            says: Vec::new(),
        };
        let typical_ms = row.op_us.map(|us| us / 1e3);
        let names = Names {
            baseline: self.run.baseline(),
        };
        let found = findings(&series, typical_ms.unwrap_or_default());
        series.says = found.iter().map(|f| f.words(&names).into()).collect();
        Some(series)
    }

    fn layer(&self) -> &LayerRun {
        &self.run.layers[self.layer]
    }

    /// `NAME=VALUE` of each parameter of a command scan.
    fn parameters(&self) -> Vec<String> {
        let list = self.run.points[self.point].params.get("parameters");
        let texts = list.and_then(|p| p.as_array()).into_iter().flatten();
        texts.filter_map(|p| Some(p.as_str()?.to_owned())).collect()
    }

    /// The command as it ran in this layer.
    fn command(&self) -> String {
        let at = &self.run.points[self.point];
        let list = at.params.get("cmd").and_then(|c| c.as_array());
        let texts = list.into_iter().flatten().filter_map(|c| c.as_str());
        let all: Vec<String> = texts.map(str::to_owned).collect();
        let own = layermark_model::layers_command(&all, &self.layer().spec);
        own.unwrap_or(&at.meaning.operation).to_owned()
    }

    fn launch(
        &self,
        n: usize,
        record: &TrialRecord,
        launch: &LaunchSigns,
        elapsed_ms: f64,
    ) -> Option<LaunchRun> {
        let trial: &Trial = record.trial.as_ref()?;
        let ns = |ns: u64| ns as f64 / 1e6;
        let start_ms = record.at_ms as f64;
        let at = self.run.started_ms + i64::try_from(record.at_ms).ok()?;
        Some(LaunchRun {
            run: n + 1,
            seq: record.seq,
            time: stamp(at),
            clock_ns: launch.start_ns as u64,
            start_ms,
            finish_ms: start_ms + elapsed_ms,
            elapsed_ms,
            window: launch.window.clone(),
            program: launch.program.clone(),
            state: Warmth::of(launch.major_faults, launch.input_blocks)
                .word()
                .into(),
            major_faults: launch.major_faults,
            input_blocks: launch.input_blocks,
            read_bytes: launch.read_bytes,
            peak_bytes: launch.peak_bytes,
            processes: launch.processes,
            started: launch.started,
            io_wait_ms: launch.io_wait_ns.map(ns),
            device_bytes: launch.device_bytes,
            restarted: trial.restarted,
            user_ms: ns(trial.cpu.user_ns),
            system_ms: ns(trial.cpu.sys_ns),
            layer_ms: ns(record.upkeep_ns),
            exit: launch.exit,
            stopped: launch.stopped,
            level: None,
        })
    }

    fn level(
        &self,
        row: &ResultRow,
        [from, to]: [usize; 2],
        ms: &[f64],
        records: &[&TrialRecord],
    ) -> LaunchLevel {
        let part = &ms[from..to];
        let logs: Vec<f64> = part.iter().map(|x| x.ln()).collect();
        let centre = stats::Trimmed::of(&logs);
        let span = |i: stats::Interval| [i.low, i.high];
        let interval = centre.and_then(|t| t.interval(LEVEL));
        let own_ms = centre.map_or(0.0, |t| t.mean.exp());
        // A single level is the result, whose trimmed mean leaves a first launch out that is set
        // apart. So a page has one time and one ratio of it.
        let whole = part.len() + usize::from(from > 0) >= ms.len();
        let of_row = |us: Option<f64>| us.map(|us| us / 1e3);
        let (typical_ms, native_ms, ratio) = if whole {
            let ratio = row.ratio.map(|ratio| Estimate {
                average: None,
                ..ratio
            });
            let typical = of_row(row.op_us).unwrap_or(own_ms);
            (typical, of_row(row.native_us), ratio)
        } else {
            let blocks: Vec<u32> = records[from..to].iter().map(|r| r.cell.block).collect();
            let compared = self.compared(&blocks);
            let native_ms = compared.as_ref().map(|c| c.cost / 1e6);
            let typical = compared.as_ref().map(|c| c.cost * c.ratio / 1e6);
            let ratio = compared.map(|c| Estimate::new(c.ratio, c.ratio_interval.map(span)));
            (typical.unwrap_or(own_ms), native_ms, ratio)
        };
        LaunchLevel {
            typical_ms,
            native_ms,
            from: from + 1,
            to,
            runs: to - from,
            min_ms: part.iter().copied().fold(f64::INFINITY, f64::min),
            max_ms: part.iter().copied().fold(0.0, f64::max),
            mean_ms: stats::mean(part).unwrap_or(0.0),
            median_ms: stats::median(part).unwrap_or(0.0),
            interval_ms: interval.map(|i| span(i.exp())),
            ratio,
        }
    }

    /// The comparison with the baseline in these blocks.
    fn compared(&self, blocks: &[u32]) -> Option<stats::Comparison> {
        if self.layer == self.baseline {
            return None;
        }
        let mut pairs = self.index.pairs(self.layer, self.baseline, self.point);
        pairs.retain(|p| blocks.contains(&p.block));
        stats::compare(&pairs, LEVEL, self.run.seed)
    }
}

fn step(before: &LaunchLevel, after: &LaunchLevel, ms: &[f64], runs: &[LaunchRun]) -> ChangePoint {
    let part = |l: &LaunchLevel| &ms[l.from - 1..l.to];
    let found = stats::shift(part(before), part(after), LEVEL);
    ChangePoint {
        at: after.from,
        time: runs
            .get(after.from - 1)
            .map(|r| r.time.clone())
            .unwrap_or_default(),
        before: before.clone(),
        after: after.clone(),
        step_ms: found.map_or(after.median_ms - before.median_ms, |(step, _)| step),
        interval: found.and_then(|(_, i)| i).map(|i| [i.low, i.high]),
    }
}

/// RFC 3339 with milliseconds, UTC.
fn stamp(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map(|t| t.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string())
        .unwrap_or_default()
}

fn trace(records: &[&TrialRecord]) -> Option<LaunchTrace> {
    let found = |r: &&TrialRecord| r.trial.as_ref()?.figures.group("trace").read_as();
    let t: Traced = records.iter().find_map(found)?;
    let ms = |ns: u64| ns as f64 / 1e6;
    Some(LaunchTrace {
        elapsed_ms: ms(t.elapsed_ns),
        processes: t.processes,
        opened: t.opened,
        lookups: t.lookups,
        failed: t.failed,
        failed_ms: ms(t.failed_ns),
        lookup_ms: ms(t.lookup_ns),
        reads: t.reads,
        read_bytes: t.read_bytes,
        read_ms: ms(t.read_ns),
    })
}

/// Why no launch was traced, if that was tried.
fn not_traced(records: &[&TrialRecord]) -> Option<Untraced> {
    let mut trials = records.iter().filter_map(|r| r.trial.as_ref());
    trials.find_map(|trial| trial.untraced.clone())
}

/// What the series shows. `typical_ms` is the result's time.
fn findings(s: &LaunchSeries, typical_ms: f64) -> Vec<SeriesFinding<'_>> {
    let first = s.first_apart.as_deref().zip(s.runs.first());
    let first = first.map(|(why, first)| SeriesFinding::FirstApart(first, why));
    let steps = s.change_points.iter().map(SeriesFinding::Step);
    first
        .into_iter()
        .chain(steps)
        .chain(restarted(&s.runs))
        .chain(waited(&s.runs, typical_ms))
        .chain(s.trace.as_ref().and_then(slow))
        .chain(s.not_traced.as_ref().map(SeriesFinding::NotTraced))
        .collect()
}

/// Restarts of the layer, with the time they took.
fn restarted(runs: &[LaunchRun]) -> Option<SeriesFinding<'static>> {
    let took = runs.iter().filter_map(|r| r.restarted);
    let ms: Vec<f64> = took.map(|r| r.ns as f64 / 1e6).collect();
    Some(SeriesFinding::Restarted {
        launches: ms.len(),
        of: runs.len(),
        ms: stats::median(&ms)?,
    })
}

/// How much of the launch time was waiting for I/O; `None` if it is too little. A wait is that of
/// the median share of the launches, so that it is a part of the typical time.
fn waited(runs: &[LaunchRun], all: f64) -> Option<SeriesFinding<'static>> {
    let share = |r: &LaunchRun| Some(r.io_wait_ms? / r.elapsed_ms);
    let shares: Vec<f64> = runs.iter().filter_map(share).collect();
    let ms = stats::median(&shares)? * all;
    (ms >= WORTH * all).then_some(SeriesFinding::WaitedForIo { ms, of_ms: all })
}

/// Waits below this share of the time are not reported.
const WORTH: f64 = 0.05;

/// What it waited for. `None` if it is too little.
fn slow(t: &LaunchTrace) -> Option<SeriesFinding<'static>> {
    let all = [
        (CallKind::FailedLookup, t.failed, t.failed_ms),
        (CallKind::Lookup, t.lookups - t.failed, t.lookup_ms),
        (CallKind::Read, t.reads, t.read_ms),
    ];
    let worth = |calls: &TracedCalls| calls.calls > 0 && calls.ms >= WORTH * t.elapsed_ms;
    let all = all.map(|(kind, calls, ms)| TracedCalls { kind, calls, ms });
    let slow: Vec<TracedCalls> = all.into_iter().filter(worth).collect();
    (!slow.is_empty()).then_some(SeriesFinding::Traced(slow, t.elapsed_ms))
}

#[cfg(test)]
mod tests;
