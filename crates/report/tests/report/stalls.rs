//! A stall that the typical cost leaves out: flag, average, sign, words, formats, and two runs.

use std::path::Path;

use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::Histogram;
use layermark_model::{Gate, Latency, Pass, Run, TrialRecord, Turn};
use layermark_report::{
    GateState, Report, ResultRow, Statement, Verdict,
    render::{self, Style},
};
use layermark_testkit::sample::Sample;

const POINT: &str = "random write, fsync each";

/// Ten blocks of 25 turns of four operations: natively 300 us each, in `fuse` 400 us, times `slower`,
/// and each 50th `stall` us longer.
fn run(slower: f64, stall: f64) -> (Run, Vec<TrialRecord>) {
    run_with(slower, stall, 50)
}

/// The same, with each `every`th longer.
fn run_with(slower: f64, stall: f64, every: u64) -> (Run, Vec<TrialRecord>) {
    let sample = Sample {
        layers: vec!["fuse"],
        points: vec![POINT, "open and stat"],
        blocks: 10,
        control: false,
        ..Sample::default()
    };
    let (run, mut trials) = sample.build();
    let point = run.points.iter().position(|p| p.label == POINT).unwrap();
    for record in trials.iter_mut().filter(|r| r.cell.point == point) {
        let native = record.cell.layer == 0;
        let usual = if native { 300.0 } else { 400.0 * slower };
        let noise = 1.0 + 0.002 * f64::from(record.cell.block % 3);
        let us = |n: u64| {
            let stalls = !native && n % every == every - 1;
            usual * noise + if stalls { stall } else { 0.0 }
        };
        let all: Vec<u64> = (0..100).map(|n| (1e3 * us(n)) as u64).collect();
        let trial = record.trial.as_mut().unwrap();
        let turn = |(round, ns): (u32, &[u64])| Turn {
            round,
            elapsed_ns: ns.iter().sum(),
            ops: ns.len() as u64,
            bytes: 0,
            ..Turn::default()
        };
        trial.turns = (0..).zip(all.chunks(4)).map(turn).collect();
        trial.passes = vec![Pass {
            elapsed_ns: all.iter().sum(),
            ops: 100,
            bytes: 100 * 4096,
            ..Pass::default()
        }];
        trial.latency = Some(latency(&all));
    }
    (run, trials)
}

fn latency(ns: &[u64]) -> Latency {
    let mut histogram = Histogram::<u64>::new(3).unwrap();
    for ns in ns {
        histogram.record(*ns).unwrap();
    }
    let bytes = layermark_stats::encode(&histogram).unwrap();
    Latency {
        min: *ns.iter().min().unwrap(),
        max: *ns.iter().max().unwrap(),
        histogram: STANDARD.encode(bytes),
        ..Latency::default()
    }
}

fn report(slower: f64, stall: f64) -> Report {
    let (run, trials) = run(slower, stall);
    Report::build(&run, &trials)
}

fn row(report: &Report) -> &ResultRow {
    let of = |r: &&ResultRow| r.layer == "fuse" && r.label == POINT;
    report.results.iter().find(of).unwrap()
}

/// As the terminal has it, or a file with this extension.
fn exported(report: &Report, extension: &str) -> String {
    let mut out = Vec::new();
    if extension == "terminal" {
        let style = Style {
            width: 200,
            colour: false,
            ..Style::default()
        };
        render::print(report, style, &mut out).unwrap();
    } else {
        let path = format!("x.{extension}");
        let exporter = render::for_path(Path::new(&path)).unwrap();
        exporter.write(report, &mut out).unwrap();
    }
    String::from_utf8(out).unwrap()
}

/// An operation in each turn of four takes 20 ms: the typical turn does too, and most operations do not.
#[test]
fn a_ratio_that_few_operations_make_is_told_with_the_median() {
    let (run, trials) = run_with(1.0, 20_000.0, 4);
    let headline = Report::build(&run, &trials).headline;
    let says = "; 1.33x at the median)";
    assert!(
        headline.contains("18x") && headline.contains(says),
        "{headline}"
    );
    let (run, trials) = run_with(1.0, 0.0, 4);
    let headline = Report::build(&run, &trials).headline;
    assert!(!headline.contains("median"), "{headline}");
}

/// "Takes usually 7.4x faster" was said of files that were removed in `loop:xfs`.
#[test]
fn a_layer_that_is_usually_faster_is_so_in_words() {
    let report = report(0.25, 2_000.0);
    let said = &report.verdicts[0].text;
    assert!(said.contains(" is usually 3.0x faster; "), "{said}");
    assert!(!said.contains("takes usually"), "{said}");
}

const WORDS: &str =
    "usually 1.33x; 2.7x on average: 2 % of its operations take 20 ms, native's none above 301 us";

#[test]
fn a_stall_is_in_the_average_and_said_wherever_the_ratio_is() {
    let report = report(1.0, 20_000.0);
    let row = row(&report);
    let ratio = row.ratio.unwrap();
    assert!((ratio.estimate - 1.333).abs() < 0.01, "{ratio:?}");
    let average = ratio.average.unwrap();
    assert!((average.estimate - 2.667).abs() < 0.02, "{average:?}");
    assert!(row.has_stalls() && row.verdict == Verdict::Slower);
    let extra = row.extra_us.unwrap();
    assert!(
        (extra.estimate - 500.0).abs() < 5.0,
        "the average's: {extra:?}"
    );
    let stalls = row.stalls.unwrap();
    assert_eq!((stalls.here.operations, stalls.here.slow), (1_000, 20));
    assert_eq!((stalls.native.operations, stalls.native.slow), (1_000, 0));
    assert!(
        (row.native_us.unwrap() - 300.6).abs() < 1.0,
        "{:?}",
        row.native_us
    );

    let said = |of: &[Statement]| of.iter().any(|s| s.text.contains(WORDS));
    let findings = &report.findings;
    assert!(said(findings), "{findings:?}");
    assert!(said(&report.verdicts), "{:?}", report.verdicts);
    let advice: Vec<&str> = report.advice.iter().map(|a| a.text.as_str()).collect();
    assert!(
        advice
            .iter()
            .any(|a| a.starts_with("Plan with the average of `fuse`")),
        "{advice:?}"
    );
    for (id, sign) in [
        ("terminal", WORDS),
        ("html", "1.33x^"),
        ("md", WORDS),
        ("md", "| 1.33x^ |"),
        ("md", "; ^ usual time alone"),
    ] {
        let text = exported(&report, id);
        assert!(text.contains(sign), "{id} lacks {sign}:\n{text}");
    }
    let csv = exported(&report, "csv");
    let head = csv.lines().next().unwrap();
    assert!(
        head.contains("average,average_low,average_high,native_us,slow_operations"),
        "{head}"
    );
    let json: serde_json::Value = serde_json::from_str(&exported(&report, "json")).unwrap();
    let results = json["results"].as_array().unwrap();
    let of = results
        .iter()
        .find(|r| r["layer"] == "fuse" && r["label"] == POINT)
        .unwrap();
    assert!(
        of["ratio"]["average"]["estimate"]
            .as_f64()
            .is_some_and(|a| a > 2.6),
        "{of}"
    );
    assert!(of["ratio"]["average"]["interval"].is_array());
    assert_eq!(
        of["flags"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|f| *f == "stalls")
            .count(),
        1
    );
}

#[test]
fn eight_per_cent_more_of_each_operation_is_no_stall() {
    let report = report(1.08, 0.0);
    let row = row(&report);
    let ratio = row.ratio.unwrap();
    assert!((ratio.average.unwrap().estimate - ratio.estimate).abs() < 0.01);
    assert!(!row.has_stalls() && row.stalls.is_none());
    assert!(!exported(&report, "terminal").contains('^'));
}

#[test]
fn a_percentile_that_shows_it_is_known_below_a_thousand_operations() {
    let (run, mut trials) = run(1.0, 20_000.0);
    trials.retain(|r| r.cell.block < 9);
    let report = Report::build(&run, &trials);
    let latency = row(&report).latency_us.unwrap();
    assert_eq!((latency.operations, latency.p99), (900, None));
    let tail = latency.tail.unwrap();
    assert!(
        (tail.percentile - 98.0).abs() < 1e-9 && tail.us < 500.0,
        "{tail:?}"
    );
}

#[test]
fn a_stall_that_is_new_is_told_of_two_runs_and_fails_a_gate() {
    let (old, new) = (report(1.0, 0.0), report(1.0, 20_000.0));
    let gate: Gate = "slower=50%".parse().unwrap();
    let held = |old: &Report, new: &Report| {
        let mut both = new.compare(old, 0.05).expect("the same work");
        both.hold_to(std::slice::from_ref(&gate), false);
        both
    };
    let both = held(&old, &new);
    let changed = row(&both);
    assert!(
        changed.has_stalls() && changed.verdict == Verdict::Same,
        "{changed:?}"
    );
    let average = changed.ratio.unwrap().average.unwrap();
    assert!((average.estimate - 2.0).abs() < 0.02, "{average:?}");
    assert!(
        both.headline
            .contains("`fuse` has stalls that it did not have"),
        "{}",
        both.headline
    );
    assert!(both.failed_gates().count() == 1, "{:?}", both.gates);
    let text = &both.failed_gates().next().unwrap().text;
    assert!(text.contains("on average"), "{text}");
    // Neither one that was there before, nor one that has gone.
    for (old, new) in [(&new, &new), (&new, &old)] {
        let both = held(old, new);
        assert!(!row(&both).has_stalls());
        assert!(
            both.gates.iter().all(|g| g.state != GateState::Failed),
            "{:?}",
            both.gates
        );
    }
    let mut alone = new.clone();
    alone.hold_to(&[gate], false);
    let at_point = alone.failed_gates().filter(|g| g.point == POINT);
    assert_eq!(at_point.count(), 1, "of one run, against native");
}

#[test]
fn natives_time_is_that_of_the_rounds_of_the_ratio() {
    // The block was divided: native alone on its CPU with one layer, and not with the other.
    let (run, mut trials) = run(1.0, 0.0);
    let point = run.points.iter().position(|p| p.label == POINT).unwrap();
    let mut last = trials.iter().map(|t| t.seq).max().unwrap();
    let native = |r: &&TrialRecord| r.cell.layer == 0 && r.cell.point == point;
    let mut later: Vec<TrialRecord> = trials.iter().filter(native).cloned().collect();
    for record in &mut later {
        last += 1;
        record.seq = last;
        let trial = record.trial.as_mut().unwrap();
        for turn in &mut trial.turns {
            turn.round += 25;
            turn.elapsed_ns = turn.elapsed_ns * 13 / 10;
        }
        trial.passes[0].elapsed_ns = trial.passes[0].elapsed_ns * 13 / 10;
    }
    trials.extend(later);
    let report = Report::build(&run, &trials);
    let row = row(&report);
    assert!((row.ratio.unwrap().estimate - 1.333).abs() < 0.01);
    assert!(
        (row.native_us.unwrap() - 300.6).abs() < 1.0,
        "{:?}",
        row.native_us
    );
    let text = exported(&report, "full.md");
    let natively = format!(" us | {:.0} us | 1.33 ", row.native_us.unwrap());
    assert!(text.contains(&natively), "{natively}: {text}");
}
