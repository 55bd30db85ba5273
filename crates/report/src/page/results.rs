//! Results as lines: numbers, words and notes of each, by operation.

use layermark_model::flags::CONTAMINATED;

use crate::{
    Estimate, LatencyUs, Report, ResultRow, Verdict,
    facts::{numbers::numbers, size_table},
    group, number,
    statements::{notes::Notes, remarks},
    words::result_line,
};

pub use crate::facts::numbers::Numbers;

/// With more results than this, those of a matrix of sizes need not be in the table of all.
const MANY: usize = 600;

/// Every result.
pub struct Results<'a> {
    /// The results by operation, in the plan's order.
    pub groups: Vec<ResultGroup<'a>>,
    /// How many trials other programs disturbed, where they disturbed most results: the lines then do not repeat it.
    pub busy: Option<String>,
}

/// The results of an operation.
pub struct ResultGroup<'a> {
    /// The operation's label.
    pub label: &'a str,
    /// Its meaning in words.
    pub what: String,
    /// A line for each layer.
    pub lines: Vec<ResultLine<'a>>,
    /// Whether the results are so many that these may be shown by [`super::sizes`] alone.
    pub is_folded: bool,
}

/// A result.
pub struct ResultLine<'a> {
    /// Its id.
    pub id: &'a str,
    /// The operation's label.
    pub label: &'a str,
    /// The layer's name.
    pub layer: &'a str,
    /// The layer's name, with a mark if its instructions were emulated.
    pub name: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict, or the probable one.
    pub leaning: Verdict,
    /// The verdict in words.
    pub word: &'static str,
    /// The typical numbers, and the averages where they differ.
    pub numbers: Vec<Numbers>,
    /// Microseconds an operation.
    pub op_us: Option<f64>,
    /// Throughput, or the result in its workload's unit.
    pub value: Option<f64>,
    /// The same as text; empty without it.
    pub measured: String,
    /// The same with what is known of a change that was not seen; `-` without it.
    pub throughput: String,
    /// Where the data came from, and the result of an fsync.
    pub source: String,
    /// Why that is known, unless a note says so.
    pub source_because: Option<&'a str>,
    /// Microseconds of the median operation.
    pub p50: Option<Estimate>,
    /// The 99th percentile, or the highest one that fewer operations allow.
    pub tail: Option<TailLatency>,
    /// Microseconds of CPU an operation: the probe's, and those of the processes that serve the layer.
    pub cpu_us: Option<[f64; 2]>,
    /// Blocks; trials if there were none.
    pub made: usize,
    /// How many of its trials have which remark.
    pub flags: String,
    /// Why a trial failed.
    pub error: Option<&'a str>,
    /// What explains the verdict.
    pub notes: LineNotes,
}

/// A high percentile of latency.
pub struct TailLatency {
    /// The percentile, if it is not the 99th.
    pub lower: Option<f64>,
    /// Microseconds.
    pub us: Estimate,
}

/// Notes next to a verdict; each may be empty. A cause is given once for each layer, where it first explains
/// something.
#[derive(Default)]
pub struct LineNotes {
    /// Among all results.
    pub all: String,
    /// The same without what would settle an undecided result.
    pub brief: String,
    /// Among the results that are not folded.
    pub unfolded: String,
}

impl<'a> Results<'a> {
    /// The results of a report.
    pub fn new(report: &'a Report) -> Self {
        let busy = busy(report);
        let folds = folds(report);
        let (mut all, mut brief) = (Notes::default(), Notes::brief());
        let mut unfolded = Notes::default();
        let of_label = |(label, rows): (&'a str, Vec<&'a ResultRow>)| {
            let is_folded = rows.iter().all(|row| folds(row));
            let line = |row: &&'a ResultRow| ResultLine {
                notes: LineNotes {
                    all: all.of(row).words().into(),
                    brief: brief.of(row).words().into(),
                    unfolded: if is_folded {
                        String::new()
                    } else {
                        unfolded.of(row).words().into()
                    },
                },
                flags: flags(row, busy.is_some()),
                ..ResultLine::new(row)
            };
            let lines = rows.iter().map(line).collect();
            ResultGroup {
                label,
                what: rows
                    .first()
                    .map(|r| r.meaning.describe(&[]))
                    .unwrap_or_default(),
                lines,
                is_folded,
            }
        };
        let by_label = group::by(&report.results, |row| row.label.as_str());
        Self {
            groups: by_label.into_iter().map(of_label).collect(),
            busy,
        }
    }

    /// All lines.
    pub fn lines(&self) -> impl Iterator<Item = &ResultLine<'a>> {
        self.groups.iter().flat_map(|group| &group.lines)
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

impl<'a> ResultLine<'a> {
    /// A result without notes and remarks.
    pub fn new(row: &'a ResultRow) -> Self {
        let latency = row.latency_us.as_ref();
        let said = remarks::read_from(row).is_some();
        Self {
            id: &row.id,
            label: &row.label,
            layer: &row.layer,
            name: result_line::layer(row),
            verdict: row.verdict,
            leaning: row.leaning(),
            word: row.word(),
            numbers: numbers(row),
            op_us: row.op_us,
            value: row.value,
            measured: row
                .value
                .map(|v| number::value(v, &row.unit))
                .unwrap_or_default(),
            throughput: number::result_value(row),
            source: result_line::source(row),
            source_because: row.served_because.as_deref().filter(|_| !said),
            p50: latency.map(|l| estimate(l.p50, l.p50_interval)),
            tail: latency.and_then(tail),
            cpu_us: row.cpu_us_per_op.map(|cpu| [cpu.probe, cpu.upkeep]),
            made: if row.blocks > 0 {
                row.blocks
            } else {
                row.trials
            },
            flags: String::new(),
            error: row.error.as_deref(),
            notes: LineNotes::default(),
        }
    }
}

fn estimate(estimate: f64, interval: Option<[f64; 2]>) -> Estimate {
    Estimate {
        estimate,
        interval,
        average: None,
    }
}

fn tail(latency: &LatencyUs) -> Option<TailLatency> {
    match latency.tail {
        Some(tail) => Some(TailLatency {
            lower: Some(tail.percentile),
            us: estimate(tail.us, tail.interval),
        }),
        None => Some(TailLatency {
            lower: None,
            us: estimate(latency.p99?, latency.p99_interval),
        }),
    }
}

/// Whether a result may be shown with its matrix of sizes alone.
fn folds(report: &Report) -> impl Fn(&ResultRow) -> bool {
    let many = is_large(report);
    let matrices = size_table::ids_in_matrices(report);
    move |row| many && matrices.contains(row.id.as_str())
}

/// Whether the report has so many results that those of matrices are folded.
pub fn is_large(report: &Report) -> bool {
    report.results.len() > MANY
}

/// Where other programs disturbed most results, they are counted once and not in each row.
fn busy(report: &Report) -> Option<String> {
    let made = report.results.iter().filter(|r| r.trials > 0);
    let of = |r: &ResultRow| r.flag_counts.get(CONTAMINATED).copied().unwrap_or(0);
    let (results, trials) = made
        .clone()
        .fold((0, 0), |(r, t), row| (r + 1, t + row.trials));
    let rows = made.clone().filter(|r| of(r) > 0).count();
    (2 * rows > results).then(|| {
        let disturbed: usize = made.map(of).sum();
        result_line::disturbed([disturbed, trials], [rows, results]).into()
    })
}

fn flags(row: &ResultRow, busy: bool) -> String {
    let each: Vec<String> = row
        .flag_counts
        .iter()
        .filter(|(flag, _)| !(busy && *flag == CONTAMINATED))
        .map(|(flag, n)| result_line::flag(flag, *n, row.trials).into())
        .collect();
    each.join("; ")
}
