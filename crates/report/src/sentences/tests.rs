//! Property tests: for any results, what the sentences say is found in the matrix.

use std::{collections::BTreeSet, sync::LazyLock};

use layermark_model::{LayerRun, Meaning, Run, Target, TrialRecord, Unit, flags};
use layermark_testkit::sample::Sample;
use proptest::{prelude::*, test_runner::TestCaseResult};

use super::Sentences;
use crate::{
    Report, ResultRow, Verdict,
    code_span::{Span, parts},
    facts::index::Index,
    number::times,
    page::{cell::MatrixCell, matrix::Matrix, sign::Sign},
    render,
    statements::{
        Selection,
        everyday::{Everyday, lost},
        verdicts::by_cause,
    },
    types::{Cause, DurabilityVerdict, Estimate, Sides},
    words::lists::name_all,
};

mod variants;

const LAYERS: [&str; 4] = ["overlay:upper", "fuse", "tmpfs", "dir:/mnt/nas"];
const POINTS: [&str; 5] = ["stat", "small read", "write, fsync", "untar", "first write"];
const ERROR: &str = "tar: cannot open the archive.\nand more of it";

/// The kind of a matrix cell.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Missing,
    Failed,
    Same,
    Decided,
    Probable,
    Noisy,
    Few,
    Unsteady(Verdict),
    Untrusted,
    Described,
}

#[derive(Debug, Clone)]
struct Cell {
    kind: Kind,
    /// Above 1: slower.
    ratio: f64,
    native_us: f64,
    disturbed: bool,
    failed: usize,
    absorbed: bool,
    cause: usize,
}

fn cell() -> impl Strategy<Value = Cell> {
    use Kind::*;
    let word = prop_oneof![
        Just(Verdict::Slower),
        Just(Verdict::Faster),
        Just(Verdict::Undecided)
    ];
    let kind = prop_oneof![
        1 => Just(Missing),
        1 => Just(Failed),
        3 => Just(Same),
        6 => Just(Decided),
        2 => Just(Probable),
        3 => Just(Noisy),
        1 => Just(Few),
        1 => word.prop_map(Unsteady),
        1 => Just(Untrusted),
        1 => Just(Described),
    ];
    let ratio = prop_oneof![1.06..12.0_f64, 0.1..0.94_f64, 20.0..900.0_f64];
    let native_us = prop_oneof![0.3..50.0_f64, 100.0..900_000.0_f64];
    let failed = prop_oneof![4 => Just(0_usize), 1 => 1..4_usize];
    (
        kind,
        ratio,
        native_us,
        any::<bool>(),
        failed,
        prop::bool::weighted(0.1),
        0..4_usize,
    )
        .prop_map(
            |(kind, ratio, native_us, disturbed, failed, absorbed, cause)| Cell {
                kind,
                ratio,
                native_us,
                disturbed,
                failed,
                absorbed,
                cause,
            },
        )
}

/// Cells by point, then by layer.
fn cells() -> impl Strategy<Value = (usize, Vec<Cell>)> {
    (1..=LAYERS.len(), 1..=POINTS.len()).prop_flat_map(|(layers, points)| {
        let all = prop::collection::vec(cell(), layers * points);
        (Just(layers), all)
    })
}

/// Some points are code and a database, so that there is something to keep.
fn meaning(like: &Meaning, label: &str) -> Meaning {
    let mut meaning = like.clone();
    match label {
        "untar" => {
            meaning.target = Target::Step;
            meaning.operation = "git status".into();
        }
        "write, fsync" => {
            meaning.unit = Unit::Transaction;
            (meaning.flushes, meaning.changes) = (true, true);
        }
        _ => {}
    }
    meaning
}

impl Cell {
    fn row(&self, like: &ResultRow, layer: &str, label: &str) -> Option<ResultRow> {
        use Kind::*;
        let mut row = ResultRow {
            layer: layer.into(),
            label: label.into(),
            meaning: meaning(&like.meaning, label),
            trials: 9,
            blocks: 9,
            failed_trials: self.failed,
            error: (self.failed > 0).then(|| ERROR.into()),
            steady: Some(true),
            op_us: Some(self.native_us),
            ..ResultRow::default()
        };
        let (ratio, spread) = match self.kind {
            Missing => return None,
            Same => (1.0 + (self.ratio.min(2.0) - 1.0) / 50.0, 1.01),
            Noisy => (1.0 + (self.ratio.min(2.0) - 1.0) / 10.0, 1.3),
            Decided | Probable | Described => {
                (self.ratio, 1.0 + (self.ratio - 1.0).abs().min(0.05))
            }
            _ => (self.ratio, 1.02),
        };
        row.ratio = Some(Estimate {
            estimate: ratio,
            interval: (self.kind != Few).then_some([ratio / spread, ratio * spread]),
            average: None,
        });
        let extra = |r: f64| self.native_us * (r - 1.0);
        row.extra_us = Some(Estimate {
            estimate: extra(ratio),
            interval: row.ratio.and_then(|e| e.interval).map(|i| i.map(extra)),
            average: None,
        });
        let side = if ratio > 1.0 {
            Verdict::Slower
        } else {
            Verdict::Faster
        };
        row.verdict = match self.kind {
            Same => Verdict::Same,
            Decided => side,
            Unsteady(word) => word,
            Untrusted => Verdict::Untrusted,
            Described => Verdict::Descriptive,
            _ => Verdict::Undecided,
        };
        row.margin = (self.kind == Noisy).then_some(0.3);
        row.probably = (self.kind == Probable).then_some(side);
        row.more_blocks = (self.kind == Few).then_some(1);
        row.untrusted = (self.kind == Untrusted).then(|| "the cache was not as asked".into());
        if let Unsteady(_) = self.kind {
            (row.steady, row.ratio, row.extra_us) = (Some(false), None, None);
        }
        if self.kind == Failed {
            (row.trials, row.blocks, row.steady) = (0, 0, None);
            (row.ratio, row.extra_us, row.op_us) = (None, None, None);
            (row.failed_trials, row.error) = (self.failed.max(1), Some(ERROR.into()));
            row.more_blocks = Some(3);
        }
        if self.disturbed && row.trials > 0 {
            row.flag_counts
                .insert(flags::CONTAMINATED.into(), row.trials);
        }
        if self.absorbed && row.trials > 0 {
            row.durability.verdict = DurabilityVerdict::Absorbed;
            (row.durability.flushes, row.durability.syncs) = (Some(0), 300);
            row.durability.because = Some("0 device flushes for 300 syncs".into());
        }
        row.causes = match (row.leaning(), self.cause) {
            (Verdict::Slower, 1) => vec![Cause::UserSpace],
            (Verdict::Slower, 2) => vec![Cause::EmulatedCpu],
            (Verdict::Faster, 1) => vec![Cause::Memory],
            (Verdict::Faster, _) => vec![Cause::Unexplained],
            _ => Vec::new(),
        };
        Some(row)
    }
}

/// A run and its report. Everything is kept except results and sentences.
static BASE: LazyLock<(Run, Report)> = LazyLock::new(|| {
    let sample = Sample {
        layers: vec!["overlay:upper", "fuse", "tmpfs"],
        blocks: 3,
        ..Sample::default()
    };
    let (run, trials) = sample.build();
    let report = Report::build(&run, &trials);
    (run, report)
});

/// The report of these cells, with sentences made as for any run.
fn report(layers: usize, cells: &[Cell]) -> Report {
    let (mut run, mut report) = BASE.clone();
    let like = report.results.remove(0);
    take_layers(&mut run, &mut report, layers);
    let mut results = Vec::new();
    for (point, cells) in cells.chunks(layers).enumerate() {
        let label = POINTS[point];
        results.push(ResultRow {
            layer: "native".into(),
            label: label.into(),
            verdict: Verdict::Baseline,
            trials: 9,
            ..ResultRow::default()
        });
        let others = cells.iter().zip(LAYERS);
        results.extend(others.filter_map(|(cell, layer)| cell.row(&like, layer, label)));
    }
    for (n, row) in results.iter_mut().enumerate() {
        row.id = format!("r{}", n + 1);
    }
    let disturbed: Vec<TrialRecord> = results.iter().flat_map(trials_of).collect();
    let words = Sentences::of(
        &Selection {
            run: &run,
            results: &results,
            alternatives: &[],
            locks: &[],
            study: None,
        },
        &disturbed,
        &Index::new(&run, &disturbed),
        false,
    );
    Report {
        headline: words.headline,
        caveats: words.caveats,
        findings: words.findings,
        verdicts: words.verdicts,
        advice: words.advice,
        results,
        control: None,
        ..report
    }
}

/// Gives the sample's layers the names of [`LAYERS`]; the last is a copy of the first.
fn take_layers(run: &mut Run, report: &mut Report, layers: usize) {
    run.layers.retain(|l| !l.control);
    run.layers.push(LayerRun {
        name: LAYERS[3].into(),
        ..run.layers[1].clone()
    });
    run.layers.truncate(layers + 1);
    report.layers.retain(|l| !l.control);
    let mut copy = report.layers[1].clone();
    copy.name = LAYERS[3].into();
    report.layers.push(copy);
    report.layers.truncate(layers + 1);
}

fn trials_of(row: &ResultRow) -> Vec<TrialRecord> {
    let flag = row.disturbed().then(|| flags::CONTAMINATED.to_owned());
    let trial = TrialRecord {
        flags: flag.into_iter().collect(),
        ..TrialRecord::default()
    };
    vec![trial; row.trials]
}

fn sentences(report: &Report) -> Vec<String> {
    let findings = report.findings.iter().map(|s| s.text.clone());
    let verdicts = report.verdicts.iter().map(|s| s.text.clone());
    let advice = report.advice.iter().map(|a| a.text.clone());
    let top = std::iter::once(&report.headline).chain(&report.caveats);
    let top = top.map(|text| format!("{text}."));
    top.chain(findings).chain(verdicts).chain(advice).collect()
}

/// Measured cells of a column with a requested verdict.
fn column<'a>(report: &'a Report, layer: &str) -> Vec<&'a ResultRow> {
    let asked = |r: &&ResultRow| r.trials > 0 && r.verdict != Verdict::Descriptive;
    let of = |r: &&ResultRow| r.layer == layer;
    report.results.iter().filter(of).filter(asked).collect()
}

/// Names in code spans.
fn names(text: &str) -> Vec<String> {
    let spans = parts(text);
    let name = |part: Span| match part {
        Span::Code(name) => Some(name.to_owned()),
        Span::Words(_) => None,
    };
    spans.into_iter().filter_map(name).collect()
}

/// The text between curly quotes.
fn quotes(text: &str) -> Vec<&str> {
    let parts = text.split('\u{201c}').skip(1);
    parts.filter_map(|p| p.split('\u{201d}').next()).collect()
}

/// Tokens such as `1.8x` and `37x`.
fn factors(text: &str) -> Vec<&str> {
    let tokens = text.split(|c: char| c.is_whitespace() || "();,:".contains(c));
    let tokens = tokens.map(|t| t.trim_end_matches('.'));
    let number = |t: &&str| {
        let digits = t.strip_suffix('x').filter(|d| !d.is_empty());
        digits.is_some_and(|d| d.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    tokens.filter(number).collect()
}

/// The counts after some words: `(3, 5)` of `at 3 of 5`.
fn counts(text: &str, behind: &str) -> Option<(usize, usize)> {
    let rest = &text[text.find(behind)? + behind.len()..];
    let mut numbers = rest
        .split(|c: char| !c.is_ascii_digit())
        .filter(|t| !t.is_empty());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The condition on a row for a clause to include it.
type Told = fn(&ResultRow) -> bool;

fn is_told_as(clause: &str) -> Option<Told> {
    let slower = ["costs ", "adds ", "is slower at", "probably takes"];
    let table: [(&[&str], Told); 5] = [
        (&slower, |r| r.leaning() == Verdict::Slower),
        (&["x faster than native", "is faster at"], |r| {
            r.leaning() == Verdict::Faster
        }),
        (&["is the same as native"], |r| r.verdict == Verdict::Same),
        (&["too noisy", "too few repeats", "no steady state"], |r| {
            r.verdict == Verdict::Undecided
        }),
        (&["not to be trusted"], |r| r.verdict == Verdict::Untrusted),
    ];
    let found = table
        .into_iter()
        .find(|(words, _)| words.iter().any(|w| clause.contains(w)));
    found.map(|(_, is)| is)
}

fn whole(report: &Report) -> TestCaseResult {
    let labels: BTreeSet<&str> = report.points().into_iter().collect();
    for text in sentences(report) {
        prop_assert!(text.split_whitespace().count() >= 3, "too short: {text:?}");
        for never in ["..", "  ", "()", "NaN", "inf ", "\n", "e308", "17976931"] {
            prop_assert!(!text.contains(never), "{never:?} in {text:?}");
        }
        for name in names(&text) {
            prop_assert!(
                report.layers.iter().any(|l| l.name == name),
                "{name} in {text:?}"
            );
        }
        for label in quotes(&text) {
            prop_assert!(labels.contains(label), "{label} in {text:?}");
        }
        let known = report.results.iter().filter_map(|r| r.ratio);
        let known: BTreeSet<String> = known
            .flat_map(|e| {
                [
                    times(&e).trim_end_matches(" faster").to_owned(),
                    crate::number::ratio_with(&e),
                    crate::number::gain(&e),
                    format!("{}x", crate::number::ratio_of(&e)),
                    format!("{}x", crate::number::ratio(e.estimate)),
                ]
            })
            .collect();
        for factor in factors(&text) {
            prop_assert!(
                known.contains(factor) || text.contains(&format!("-{factor}")),
                "{factor} in {text:?}"
            );
        }
    }
    Ok(())
}

/// The row that a part of the headline describes: `... 37x native's time at untar (+4 ms; ...)`.
fn cost_of<'a>(report: &'a Report, part: &str) -> Option<&'a ResultRow> {
    let layer = names(part).pop()?;
    let at = part.split("native's time at ").nth(1)?;
    let mut rows = report.results.iter();
    rows.find(|r| {
        let rest = at.strip_prefix(r.label.as_str());
        r.layer == layer && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',']))
    })
}

/// A part such as "`fuse` takes 12x native's time at untar (+4 ms), and slows 11 of 12 operations".
fn slows(report: &Report, part: &str, found: (usize, usize)) -> TestCaseResult {
    let layer = names(part).remove(0);
    let rows = column(report, &layer);
    let slower = |r: &&&ResultRow| r.verdict == Verdict::Slower;
    prop_assert_eq!(found, (rows.iter().filter(slower).count(), rows.len()));
    Ok(())
}

/// No other work of the same kind loses more time than the first cost.
fn is_most(report: &Report, first: &ResultRow) -> TestCaseResult {
    let is_work = |r: &ResultRow| Everyday::is_application(&r.meaning);
    let asked: Vec<&ResultRow> = LAYERS.iter().flat_map(|l| column(report, l)).collect();
    let slower = |r: &&&ResultRow| r.leaning() == Verdict::Slower && r.ratio.is_some();
    let more = |r: &&ResultRow| is_work(r) >= is_work(first) && lost(r) > lost(first);
    let more = asked.iter().filter(slower).copied().find(more);
    prop_assert!(more.is_none(), "{more:?} loses more than {first:?}");
    Ok(())
}

fn headline(report: &Report) -> TestCaseResult {
    let text = &report.headline;
    prop_assert!(text.split_whitespace().count() <= 24, "{text}");
    // A semicolon in brackets does not end a part.
    let parts: Vec<&str> = text.split("; `").collect();
    for (n, part) in parts.into_iter().enumerate() {
        let cut = part.matches('`').count() % 2 == 1;
        let part = format!("{}{part}", if cut { "`" } else { "" });
        let named: Vec<String> = names(&part);
        let rows = || named.iter().flat_map(|l| column(report, l));
        if part.contains("too noisy to tell") {
            for row in rows() {
                let cell = MatrixCell::new(Some(row), "native");
                let open = [
                    Sign::Open,
                    Sign::Drifts,
                    Sign::Waits,
                    Sign::Untrusted,
                    Sign::Noisy,
                    Sign::Wild,
                ];
                let open = open.into_iter().any(|sign| cell.signs.has(sign));
                prop_assert!(open, "{} below {text}", cell.shown.text());
            }
        }
        if let Some(found) = counts(&part, " slows ") {
            slows(report, &part, found)?;
        }
        let Some(row) = cost_of(report, &part) else {
            continue;
        };
        prop_assert!(
            row.ratio.is_some_and(|e| part.contains(&times(&e))),
            "{part}"
        );
        prop_assert!(
            row.leaning() == Verdict::Slower
                || (row.failed_trials > 0 && part.contains("may take")),
            "{part}"
        );
        prop_assert_eq!(
            row.verdict != Verdict::Slower,
            part.contains(" probably takes ") || part.contains(" may take "),
            "{}",
            &part
        );
        if n == 0 {
            is_most(report, row)?;
        }
    }
    Ok(())
}

fn counted(report: &Report) -> TestCaseResult {
    let slower = |layer: &str| {
        let rows = column(report, layer);
        (
            rows.iter().filter(|r| r.verdict == Verdict::Slower).count(),
            rows.len(),
        )
    };
    for finding in &report.findings {
        if let Some(found) = counts(&finding.text, " is slower at ") {
            prop_assert_eq!(found, slower(&finding.layer), "{}", finding.text);
        }
        let asked: Vec<&ResultRow> = LAYERS.iter().flat_map(|l| column(report, l)).collect();
        if finding.text.contains(" too noisy to tell") && finding.layer.is_empty() {
            let all = asked.len();
            prop_assert!(
                finding.text.contains(&format!(" of {all} result")),
                "{}",
                finding.text
            );
        }
    }
    for advice in &report.advice {
        let Some(layer) = advice
            .text
            .strip_prefix("Do fewer and larger operations through `")
        else {
            continue;
        };
        let layer = layer.split('`').next().unwrap_or_default();
        let (n, _) = slower(layer);
        let told = [
            format!("each of the {n} operations"),
            format!("of the {n} operations"),
            "the one operation".into(),
        ];
        prop_assert!(
            told.iter().any(|t| advice.text.contains(t)),
            "{n}: {}",
            advice.text
        );
    }
    Ok(())
}

fn clauses(report: &Report) -> TestCaseResult {
    for verdict in &report.verdicts {
        let all = column(report, &verdict.layer);
        for clause in verdict.text.split("; ") {
            let Some(is) = is_told_as(clause) else {
                continue;
            };
            for label in quotes(clause) {
                let row = all.iter().find(|r| r.label == label);
                prop_assert!(row.is_some_and(|r| is(r)), "{label}: {clause}");
            }
            if let Some((n, _)) = counts(&format!("{clause} 0"), " all ") {
                prop_assert!(n == all.len() && all.iter().all(|r| is(r)), "{clause}");
            }
        }
    }
    Ok(())
}

fn markdown(report: &Report) -> TestCaseResult {
    let mut out = Vec::new();
    let path = std::path::Path::new("x.md");
    let exporter = render::for_path(path).expect("a format");
    exporter.write(report, &mut out).expect("written");
    let text = String::from_utf8(out).expect("text");
    let table: String = text.lines().filter(|l| l.starts_with("| ")).collect();
    for factor in factors(&report.headline) {
        let may = report.headline.contains("may take");
        prop_assert!(table.contains(factor) || may, "{factor} is not in {table}");
    }
    for caveat in &report.caveats {
        prop_assert!(text.contains(&format!("**{caveat}.**")), "{text}");
    }
    let all = Matrix::new(report).ratios();
    for sign in all.cells().map(|cell| cell.shown.text()) {
        let cell = format!(" {} ", sign.replace('~', "\\~"));
        prop_assert!(table.contains(&cell), "{cell} is not in {table}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn every_sentence_is_found_in_the_matrix((layers, cells) in cells()) {
        let report = report(layers, &cells);
        whole(&report)?;
        headline(&report)?;
        counted(&report)?;
        clauses(&report)?;
        markdown(&report)?;
    }
}

#[test]
fn causes_are_merged_by_what_they_say_and_not_by_how_it_begins() {
    let (run, trials) = Sample::default().build();
    let row = Report::build(&run, &trials).results.remove(0);
    let with = |cause| ResultRow {
        causes: vec![cause],
        ..row.clone()
    };
    let on = |device: &str| {
        with(Cause::OtherDevice(Sides {
            here: vec![device.into()],
            native: vec!["vda".into()],
        }))
    };
    let (first, second) = (on("nvme0n1"), on("nvme1n1"));
    let groups = |rows: [&ResultRow; 2]| by_cause(&rows, &rows).count();
    assert_eq!(groups([&first, &second]), 2, "two devices");
    assert_eq!(groups([&first, &first]), 1, "one device");
    let (few, many) = (with(Cause::HelperCpu(0.4)), with(Cause::HelperCpu(40.0)));
    assert_eq!(groups([&few, &many]), 1, "figures alone");
}

fn words(run: &Run, results: &[ResultRow]) -> Sentences {
    let findings = Selection {
        run,
        results,
        alternatives: &[],
        locks: &[],
        study: None,
    };
    Sentences::of(&findings, &[], &Index::new(run, &[]), false)
}

#[test]
fn a_run_of_one_block_says_so_before_it_names_what_it_distrusts() {
    let (run, report) = &*BASE;
    let row = |verdict, layer: &str| ResultRow {
        layer: layer.into(),
        label: "read".into(),
        trials: 1,
        blocks: 1,
        verdict,
        ..report.results[0].clone()
    };
    let results = [
        row(Verdict::Baseline, "native"),
        ResultRow {
            ratio: None,
            ..row(Verdict::Undecided, "overlay:upper")
        },
        row(Verdict::Untrusted, "fuse"),
    ];
    let words = words(run, &results);
    assert_eq!(
        words.headline,
        "Too little was measured for a verdict: 1 repeat of at least 3"
    );
}

fn labelled(labels: &[&str], group: &str) -> Vec<ResultRow> {
    let mut rows = Vec::new();
    for label in labels {
        let mut row = ResultRow {
            label: (*label).into(),
            ..ResultRow::default()
        };
        row.meaning.changes = group == "writes";
        if group == "writes" {
            row.meaning.direction = layermark_model::Direction::Writes;
        }
        rows.push(row);
    }
    rows
}

/// "Small write" and 3 more were eleven operations, since kinds of work were counted.
#[test]
fn what_is_not_named_is_counted_by_operation() {
    let writes = labelled(&["a", "b", "c", "d", "e"], "writes");
    let reads = labelled(&["f", "g"], "reads");
    let other = labelled(&["h"], "writes");
    let some: Vec<&ResultRow> = writes.iter().chain(&reads).collect();
    let all: Vec<&ResultRow> = some.iter().copied().chain(&other).collect();
    let text = name_all(&all, &some).to_string();
    let named = text.matches('\u{201c}').count();
    let more: usize = text
        .split(" more")
        .next()
        .and_then(|t| t.rsplit(' ').next()?.parse().ok())
        .unwrap_or(0);
    assert_eq!(named + more, some.len(), "{text}");
}

/// Rows that are only probably faster were advised against as if they were faster.
#[test]
fn what_is_probably_faster_is_no_alarm() {
    let (run, report) = &*BASE;
    let faster = |verdict, probably| {
        let row = ResultRow {
            layer: "fuse".into(),
            trials: 8,
            blocks: 8,
            verdict,
            probably,
            causes: vec![Cause::Unexplained],
            ..report.results[0].clone()
        };
        let rows = [row];
        let advice = words(run, &rows).advice;
        advice.iter().any(|a| a.text.starts_with("Do not count on"))
    };
    assert!(faster(Verdict::Faster, None));
    assert!(!faster(Verdict::Undecided, Some(Verdict::Faster)));
}

/// "Within 5 % wherever that could be told" was said of a layer with 0.92 to 0.95 at one point. The plan asks no verdict
/// there.
#[test]
fn a_difference_that_no_verdict_was_asked_on_is_not_denied() {
    let (run, report) = &*BASE;
    let row = |verdict, ends: [f64; 2]| ResultRow {
        layer: "fuse".into(),
        trials: 8,
        blocks: 8,
        verdict,
        ratio: Some(Estimate {
            estimate: (ends[0] * ends[1]).sqrt(),
            interval: Some(ends),
            average: None,
        }),
        ..report.results[0].clone()
    };
    let denied = |ends| {
        let rows = [
            row(Verdict::Same, [0.99, 1.01]),
            row(Verdict::Descriptive, ends),
        ];
        let words = words(run, &rows);
        let near = "wherever that could be told";
        let near = words.findings.iter().any(|f| f.text.contains(near));
        near || words.headline.contains("nothing measurable")
    };
    assert!(denied([0.97, 1.02]));
    assert!(!denied([0.92, 0.94]));
}

/// "A program in user space takes longer than the directory below it" was said of one that stored elsewhere.
#[test]
fn a_flush_is_called_too_fast_for_the_disk_only_on_the_baselines_disk() {
    let (run, report) = &*BASE;
    let rows = [ResultRow {
        layer: "fuse".into(),
        meaning: Meaning {
            flushes: true,
            ..Meaning::default()
        },
        trials: 9,
        blocks: 9,
        verdict: Verdict::Faster,
        causes: vec![Cause::Unexplained],
        ..report.results[0].clone()
    }];
    let told = |change: fn(&mut Run)| {
        let mut run = run.clone();
        change(&mut run);
        let mut advice = words(&run, &rows).advice.into_iter().map(|a| a.text);
        let flush = advice.find(|text| text.starts_with("Do not rely on fsync in `fuse`"));
        let text = flush.expect("advice");
        assert!(text.contains("layermark durability"), "{text}");
        text
    };
    let on_disk = told(|_| {});
    assert!(on_disk.contains("on the same disk"), "{on_disk}");
    let elsewhere = told(|run| {
        let mut layers = run.layers.iter_mut();
        let fuse = layers.find(|l| l.name == "fuse").unwrap();
        fuse.facts.devices[0].name = "sdb".into();
    });
    let served = told(|run| run.layers[0].facts.mounts[0].fs = "fuse.sshfs".into());
    for text in [elsewhere, served] {
        assert!(!text.contains("disk"), "{text}");
        assert!(text.contains("it is not proved"), "{text}");
    }
}
