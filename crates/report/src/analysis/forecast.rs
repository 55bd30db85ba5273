//! The time of a step as its system calls predict it: counted natively, at the costs that `meta` and
//! `file` measured in each layer of the same run.

use std::collections::{BTreeMap, BTreeSet};

use layermark_model::{Meaning, Quantity, Run, Target, TrialRecord, calls};

use crate::{
    analysis::index::Index,
    code_span::code,
    number,
    types::{Advice, Forecast, ForecastCall, ForecastRow, ResultRow, Verdict},
};

/// Kinds with fewer calls than this share of all do not matter, except flushes.
const FEW: f64 = 0.01;
/// Kinds of calls that are named.
pub const NAMED: usize = 3;
/// A task with a smaller share of the calls has not made them one after the other.
const ALONE: f64 = 0.8;

/// The result whose difference from native is the cost of a call.
struct Source {
    workload: &'static str,
    operation: &'static str,
    flushes: bool,
    /// An operation that it contains, and whose cost is not a part of the call's.
    without: Option<&'static str>,
}

const fn meta(operation: &'static str) -> Source {
    Source {
        workload: "meta",
        operation,
        flushes: false,
        without: None,
    }
}

const fn file(operation: &'static str) -> Source {
    Source {
        workload: "file",
        ..meta(operation)
    }
}

/// A kind of call, the sources of its cost, and what to do about it.
struct Kind {
    id: &'static str,
    /// Several: of different sizes.
    sources: &'static [Source],
    advice: &'static str,
}

const KINDS: [Kind; 9] = [
    Kind {
        id: "stat",
        sources: &[meta("stat")],
        advice: "ask for fewer names there (for git: core.untrackedCache and core.fsmonitor), or keep large trees in another place",
    },
    Kind {
        id: "open",
        sources: &[meta("open-stat")],
        advice: "open fewer files there, or keep what is only read in another place",
    },
    Kind {
        id: "list",
        sources: &[meta("list")],
        advice: "list fewer directories there",
    },
    Kind {
        id: "create",
        sources: &[meta("create")],
        advice: "create fewer files there: unpack in another place, or keep them in one archive",
    },
    Kind {
        id: "unlink",
        sources: &[meta("unlink")],
        advice: "remove fewer files one by one there: keep what is made anew in another place",
    },
    Kind {
        id: "set-attr",
        sources: &[meta("set-attr")],
        advice: "leave owner, mode and times of files as they are (for tar: -m --no-same-owner --no-same-permissions)",
    },
    Kind {
        id: "read",
        sources: &[
            Source {
                without: Some("open-stat"),
                ..meta("small-read")
            },
            file("read"),
        ],
        advice: "read larger pieces there, or keep what is only read in another place",
    },
    Kind {
        id: "write",
        sources: &[
            Source {
                without: Some("create"),
                ..meta("small-write")
            },
            file("write"),
        ],
        advice: "write larger pieces there",
    },
    Kind {
        id: "flush",
        sources: &[Source {
            flushes: true,
            without: Some("small-write"),
            ..meta("small-write")
        }],
        advice: "flush less often there: put more changes into one commit",
    },
];

/// Calls of one operation of a step.
struct Counted {
    /// Calls and bytes by kind.
    kinds: BTreeMap<String, (f64, f64)>,
    /// Share of the task that made most of them.
    busiest: f64,
}

impl Counted {
    fn of(record: &TrialRecord) -> Option<Self> {
        let figures = &record.trial.as_ref()?.figures;
        let [made, bytes] = [calls::GROUP, calls::BYTES].map(|group| figures.group(group));
        let each = |name: &str| {
            let moved = bytes.number(name).unwrap_or(0.0);
            Some((name.to_owned(), (made.number(name)?, moved)))
        };
        let kinds: BTreeMap<_, _> = figures.names(calls::GROUP).filter_map(each).collect();
        let all: f64 = kinds.values().map(|(n, _)| n).sum();
        let busiest = figures.number(calls::BUSIEST).unwrap_or(0.0);
        (all > 0.0).then(|| Self {
            busiest: (busiest / all).min(1.0),
            kinds,
        })
    }

    /// Kinds that matter, with their calls and bytes.
    fn kinds(&self) -> impl Iterator<Item = (&'static Kind, f64, f64)> {
        let all: f64 = self.kinds.values().map(|(n, _)| n).sum();
        KINDS.iter().filter_map(move |kind| {
            let (calls, bytes) = *self.kinds.get(kind.id)?;
            let matters = calls >= FEW * all || kind.id == "flush";
            matters.then_some((kind, calls, bytes))
        })
    }
}

/// The cost of a call with this many bytes.
#[derive(Clone)]
struct Anchor {
    bytes: f64,
    us: f64,
    evidence: Vec<String>,
}

/// What each call of a kind takes longer in a layer than natively, by size.
fn anchors(results: &[ResultRow], layer: &str, kind: &Kind) -> Vec<Anchor> {
    let found = |workload: &'static str, operation: &'static str, flushes: bool| {
        results.iter().filter(move |r| {
            let m = &r.meaning;
            r.layer == layer
                && r.workload == workload
                && m.operation == operation
                && m.flushes == flushes
                && r.is_told()
                && is_plain(m)
        })
    };
    let of = |source: &Source, row: &ResultRow| {
        let (mut us, mut natively) = extra(row)?;
        let mut evidence = vec![row.id.clone()];
        if let Some(part) = source.without {
            let part = found(source.workload, part, false).next()?;
            let (more, native) = extra(part)?;
            (us, natively) = (us - more, natively - native);
            evidence.push(part.id.clone());
        }
        let bytes = row.meaning.value(Quantity::RequestSize).unwrap_or(0) as f64;
        Some(Anchor {
            bytes,
            // No call takes less than no time.
            us: us.max(-natively.max(0.0)),
            evidence,
        })
    };
    let mut all = Vec::new();
    for source in kind.sources {
        let rows = found(source.workload, source.operation, source.flushes);
        all.extend(rows.filter_map(|row| of(source, row)));
    }
    // Of several of one size, the first of the plan.
    all.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    all.dedup_by(|later, first| later.bytes.total_cmp(&first.bytes).is_eq());
    all
}

/// Whether it may be the cost of a call: one at a time, through the page cache, which is warm.
fn is_plain(m: &Meaning) -> bool {
    !m.is_cold() && !m.is_direct() && m.concurrency <= 1
}

/// Microseconds more than natively, and native ones.
fn extra(row: &ResultRow) -> Option<(f64, f64)> {
    Some((row.extra_us?.estimate, row.native_us?))
}

/// The cost at a size: between two known ones on a line, and beyond the largest in proportion.
fn at(anchors: &[Anchor], bytes: f64) -> Option<f64> {
    let (first, last) = (anchors.first()?, anchors.last()?);
    if bytes <= first.bytes || last.bytes == 0.0 {
        return Some(first.us);
    }
    if bytes >= last.bytes {
        return Some(last.us * bytes / last.bytes);
    }
    let pair = anchors.windows(2).find(|pair| bytes <= pair[1].bytes)?;
    let share = (bytes - pair[0].bytes) / (pair[1].bytes - pair[0].bytes);
    Some(pair[0].us + share * (pair[1].us - pair[0].us))
}

/// Forecasts of every step in every layer whose costs the run has.
pub fn of(run: &Run, index: &Index, results: &[ResultRow]) -> Forecast {
    let mut forecast = Forecast::default();
    // Steps whose calls were not counted, by the reason.
    let (mut missing, mut untraced) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
    // Kinds that were measured, and yet have no trusted result in these layers.
    let mut untrusted = BTreeMap::<&str, BTreeSet<String>>::new();
    for (point, at) in run.points.iter().enumerate() {
        if at.meaning.target != Target::Step || at.meaning.is_cold() {
            continue;
        }
        // They are counted in the layer native, which need not be the baseline.
        let records = || (0..run.layers.len()).flat_map(|layer| index.parts(layer, point));
        let Some(counted) = records().copied().find_map(Counted::of) else {
            let notes = records().filter_map(|r| r.trial.as_ref());
            let mut notes = notes.flat_map(|trial| &trial.notes);
            let why = notes.find_map(|note| note.strip_prefix(calls::NOT_TRACED));
            if let Some(why) = why {
                let steps = untraced.entry(why.replacen("; hint: ", ": ", 1));
                steps.or_default().push(code(&at.label));
            }
            continue;
        };
        let kinds = counted.kinds().map(|(kind, ..)| kind);
        missing.extend(kinds.filter(|kind| !is_measured(run, kind)));
        let steps = results
            .iter()
            .filter(|r| r.label == at.label && r.layer != run.baseline() && r.is_told());
        for row in steps {
            match forecast_of(row, &counted, results) {
                Ok(found) => forecast.rows.extend(found),
                Err(kind) if is_measured(run, kind) => {
                    let layers = untrusted.entry(kind.id).or_default();
                    layers.insert(code(&row.layer));
                }
                Err(_) => {}
            }
        }
    }
    forecast.lacks.extend(lacking(&missing));
    forecast
        .lacks
        .extend(untrusted.into_iter().map(|(kind, layers)| {
            let layers = number::list(&Vec::from_iter(layers));
            format!(
                "Some steps have no forecast: the cost of {kind} has no trusted result in {layers}"
            )
        }));
    forecast
        .lacks
        .extend(untraced.into_iter().map(|(why, steps)| {
            let steps = number::list(&steps);
            format!("The system calls of {steps} were not counted: {why}")
        }));
    forecast
}

/// Whether the run has a point with the cost of this kind.
fn is_measured(run: &Run, kind: &Kind) -> bool {
    kind.sources.iter().any(|source| {
        let has = |operation: &str, flushes: bool| {
            run.points.iter().any(|p| {
                p.workload == source.workload
                    && p.meaning.operation == operation
                    && p.meaning.flushes == flushes
                    && is_plain(&p.meaning)
            })
        };
        has(source.operation, source.flushes) && source.without.is_none_or(|op| has(op, false))
    })
}

/// Which lines a plan lacks.
fn lacking(missing: &[&Kind]) -> Option<String> {
    let (mut plain, mut flushed) = (BTreeSet::new(), BTreeSet::new());
    for source in missing.iter().map(|kind| &kind.sources[0]) {
        let to = if source.flushes {
            &mut flushed
        } else {
            &mut plain
        };
        to.insert(source.operation);
        plain.extend(source.without);
    }
    let work = |operations: BTreeSet<&str>, sync: &str| {
        let operations = Vec::from_iter(operations).join(",");
        let text = format!("[[work]] with workload = \"meta\" and op = \"{operations}\"{sync}");
        (!operations.is_empty()).then_some(text)
    };
    let lines = [work(plain, ""), work(flushed, " and sync = \"fsync\"")];
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    (!lines.is_empty()).then(|| {
        format!(
            "A forecast of the steps needs the costs of their system calls, and the plan does not measure all of them: add {}",
            lines.join(", and ")
        )
    })
}

/// An error with the kind of call whose cost in the layer is not known.
fn forecast_of(
    row: &ResultRow,
    counted: &Counted,
    results: &[ResultRow],
) -> Result<Option<ForecastRow>, &'static Kind> {
    let Some((measured_us, native_us)) = row.op_us.zip(row.native_us) else {
        return Ok(None);
    };
    let mut calls = Vec::new();
    for (kind, n, bytes) in counted.kinds() {
        let anchors = anchors(results, &row.layer, kind);
        let each_us = at(&anchors, bytes / n).ok_or(kind)?;
        calls.push(ForecastCall {
            kind: kind.id.into(),
            calls: n,
            each_us,
            sum_us: n * each_us,
            evidence: anchors.into_iter().flat_map(|a| a.evidence).collect(),
        });
    }
    calls.sort_by(|a, b| b.sum_us.total_cmp(&a.sum_us));
    let forecast_us = native_us + calls.iter().map(|c| c.sum_us).sum::<f64>();
    let mut forecast = ForecastRow {
        result: row.id.clone(),
        label: row.label.clone(),
        layer: row.layer.clone(),
        native_us,
        forecast_us,
        measured_us,
        measured_interval_us: row.op_us_interval,
        gap: forecast_us / measured_us - 1.0,
        calls,
        busiest_task: counted.busiest,
        text: String::new(),
    };
    forecast.text = sentence(&forecast, row);
    Ok(Some(forecast))
}

/// `` `git status` in `sshfs`: 9,412 stat at +310 us = 2.9 s of the forecast's 3.1 s``, and what the calls do
/// not explain.
fn sentence(f: &ForecastRow, row: &ResultRow) -> String {
    let named = costly(f).first().map(|call| {
        format!(
            ": {} of the forecast's {}",
            terms(call),
            number::time(f.forecast_us)
        )
    });
    let head = format!(
        "{} in {}{}",
        code(&f.label),
        code(&f.layer),
        named.unwrap_or_default()
    );
    if f.is_explained() {
        return head;
    }
    let facts = unexplained(f, row);
    let facts = if facts.is_empty() {
        String::new()
    } else {
        format!(" ({})", facts.join("; "))
    };
    format!(
        "{head}; the calls do not explain it: forecast {}, measured {}{facts}",
        number::time(f.forecast_us),
        number::time(f.measured_us),
    )
}

/// The kinds of calls that cost most.
pub fn costly(f: &ForecastRow) -> Vec<&ForecastCall> {
    let costly = f.calls.iter().filter(|call| call.sum_us > 0.0);
    costly.take(NAMED).collect()
}

/// `9,412 stat at +310 us = 2.9 s`.
pub fn terms(call: &ForecastCall) -> String {
    format!(
        "{} {} at {} = {}",
        grouped(call.calls),
        call.kind,
        number::extra(call.each_us),
        number::time(call.sum_us)
    )
}

/// A whole number in groups of three digits.
fn grouped(n: f64) -> String {
    let digits = format!("{n:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What was measured besides the calls.
fn unexplained(f: &ForecastRow, row: &ResultRow) -> Vec<String> {
    let mut facts = Vec::new();
    if f.busiest_task < ALONE {
        facts.push(format!(
            "one of its tasks made {} of the calls, and those of the others may overlap with them",
            number::percent(f.busiest_task)
        ));
    }
    if let Some(cpu) = row.cpu_us_per_op.filter(|cpu| cpu.upkeep > 0.0) {
        facts.push(format!(
            "CPU time: {} in the step, {} in the layer's own processes",
            number::time(cpu.probe),
            number::time(cpu.upkeep)
        ));
    }
    facts
}

/// For each layer, the call that costs most in a step that the forecast explains.
pub fn advice(forecast: &Forecast, results: &[ResultRow]) -> Vec<Advice> {
    let mut best: BTreeMap<&str, (&ForecastRow, &ForecastCall)> = BTreeMap::new();
    for row in &forecast.rows {
        let slower = |r: &&ResultRow| r.id == row.result && r.leaning() == Verdict::Slower;
        let Some(call) = row.calls.first().filter(|_| row.is_explained()) else {
            continue;
        };
        // Half of what the layer adds.
        let main = call.sum_us >= 0.5 * (row.measured_us - row.native_us);
        if !main || !results.iter().any(|r| slower(&r)) {
            continue;
        }
        let known = best.entry(&row.layer).or_insert((row, call));
        if call.sum_us > known.1.sum_us {
            *known = (row, call);
        }
    }
    let all = best.into_values().filter_map(|(row, call)| {
        let kind = KINDS.iter().find(|kind| kind.id == call.kind)?;
        let mut evidence = vec![row.result.clone()];
        evidence.extend(call.evidence.clone());
        Some(Advice {
            text: format!("{}: {}.", row.text, kind.advice),
            evidence,
        })
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_lies_between_those_of_known_sizes() {
        let anchor = |bytes, us| Anchor {
            bytes,
            us,
            evidence: Vec::new(),
        };
        let two = [anchor(4096.0, 10.0), anchor(131_072.0, 100.0)];
        assert_eq!(at(&two, 100.0), Some(10.0));
        assert_eq!(at(&two, 4096.0), Some(10.0));
        let middle = at(&two, f64::midpoint(4096.0, 131_072.0)).unwrap();
        assert!((middle - 55.0).abs() < 1e-9);
        assert_eq!(at(&two, 262_144.0), Some(200.0));
        assert_eq!(at(&[anchor(0.0, 7.0)], 0.0), Some(7.0));
        assert_eq!(at(&[], 1.0), None);
    }

    #[test]
    fn numbers_are_grouped() {
        let texts = [0.0, 999.0, 1000.4, 9412.0, 1_234_567.0].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "9,412", "1,234,567"]);
    }
}
