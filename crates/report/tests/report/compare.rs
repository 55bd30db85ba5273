//! Two runs against each other: what changed in a layer is told apart from what the machine did.

use layermark_model::{DeviceBackground, DeviceBytes, Gate, Run, RunStatus, Trial};
use layermark_report::{
    Estimate, Report, ResultRow, Trend, TrendFigure, TrendRun, TrendSeries, TrustItem, TrustState,
    Verdict, changes, render,
};
use layermark_testkit::sample;
use serde_json::Value;

use crate::made::Made;

const LAYERS: [&str; 3] = ["native", "fuse", "bind"];
const RECORDS: [u64; 2] = [4096, 65536];

fn made() -> Made {
    Made::new(&LAYERS, 12)
        .points("read", &RECORDS, 1 << 20)
        .noise(0.01)
}

/// Microseconds an operation: fuse takes three times as long.
fn usual(layer: &str) -> f64 {
    if layer == "fuse" { 30.0 } else { 10.0 }
}

fn old() -> Report {
    made().cost(|layer, _, _| usual(layer)).build()
}

/// Everything takes a fifth longer, and fuse another quarter at its first point.
fn new() -> Report {
    let new = made().cost(|layer, point, _| {
        let worse = layer == "fuse" && point.number("record") == 4096;
        usual(layer) * 1.2 * if worse { 1.25 } else { 1.0 }
    });
    new.build()
}

fn row<'a>(report: &'a Report, layer: &str, at: usize) -> &'a ResultRow {
    let rows: Vec<&ResultRow> = report.results.iter().filter(|r| r.layer == layer).collect();
    rows[at]
}

fn trust<'a>(report: &'a Report, id: &str) -> (TrustState, &'a str) {
    let item = report.trust.iter().find(|t| t.id == id).expect(id);
    (item.state, &item.text)
}

fn findings(report: &Report) -> String {
    let texts = report.findings.iter().map(|f| f.text.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// "Runs to be trusted: yes" and "native is the same at 0 of 14 points" were ok beside a busy run.
#[test]
fn a_busy_run_and_a_machine_that_is_not_known_are_no_reason_to_trust() {
    let busy = made().noise(0.4).cost(|layer, _, _| usual(layer));
    let (run, mut trials) = busy.parts();
    for t in &mut trials {
        t.flags = vec![layermark_model::flags::CONTAMINATED.into()];
    }
    let compared = Report::build(&run, &trials)
        .compare(&old(), 0.05)
        .expect("points");
    let (state, text) = trust(&compared, "runs");
    assert_eq!(state, TrustState::Warn, "{text}");
    assert!(
        text.contains("the new run had other programs beside it"),
        "{text}"
    );
    let (state, text) = trust(&compared, "drift");
    assert_eq!(state, TrustState::Warn, "{text}");
}

#[test]
fn what_the_machine_did_is_taken_out_of_the_layers() {
    let report = new().compare(&old(), 0.05).expect("points in common");
    let (fuse, same, native) = (
        row(&report, "fuse", 0),
        row(&report, "fuse", 1),
        row(&report, "native", 0),
    );
    assert_eq!(
        [fuse.verdict, same.verdict, native.verdict],
        [Verdict::Slower, Verdict::Same, Verdict::Slower]
    );
    let ratio = |r: &ResultRow| r.ratio.unwrap();
    assert!((ratio(fuse).estimate - 1.25).abs() < 0.02, "{fuse:#?}");
    assert!((ratio(native).estimate - 1.2).abs() < 0.02, "{native:#?}");
    let [low, high] = ratio(fuse).interval.unwrap();
    assert!(low > 1.2 && high < 1.3);
    // A quarter of 30 us then.
    assert!((fuse.extra_us.unwrap().estimate - 7.5).abs() < 0.5);
    assert!((fuse.old_us.unwrap() - 30.0).abs() < 1.0 && (fuse.op_us.unwrap() - 45.0).abs() < 1.5);
    assert!(
        report
            .headline
            .starts_with("`fuse` is slower than in the old run, 1.25x at"),
        "{}",
        report.headline
    );
    let told = findings(&report);
    assert!(
        told.contains("`native` itself changed at 2 of 2 operations"),
        "{told}"
    );
    assert!(
        told.contains("`fuse` is slower than in the old run at 1 of 2, most 1.25x"),
        "{told}"
    );
    assert_eq!(trust(&report, "drift").0, TrustState::Warn);
    assert_eq!(trust(&report, "machine"), (TrustState::Ok, "yes"));
    // The other way round it is as much faster.
    let back = old().compare(&new(), 0.05).unwrap();
    let ratio_back = ratio(row(&back, "fuse", 0)).estimate;
    assert!((ratio_back * ratio(fuse).estimate - 1.0).abs() < 1e-9);
    assert_eq!(row(&back, "fuse", 0).verdict, Verdict::Faster);
    assert!(
        back.headline.ends_with("nothing is slower"),
        "{}",
        back.headline
    );
}

#[test]
fn a_check_says_that_one_of_the_runs_was_on_a_busy_machine() {
    let mut busy = old();
    for trial in &mut busy.trials {
        trial
            .flags
            .push(layermark_model::flags::CONTAMINATED.into());
    }
    let report = new().compare(&busy, 0.05).expect("points in common");
    let told = "`fuse` is slower than in the old run, 1.25x at";
    assert!(report.headline.starts_with(told), "{}", report.headline);
    let told = "had other programs beside it, which disturbed 100 % of the measurements";
    let told = report.trust.iter().any(|t| t.text.contains(told));
    assert!(told, "{:?}", report.trust);
    let twice = |t: &TrustItem| t.text.matches("other programs").count() > 1;
    assert!(!report.trust.iter().any(twice), "{:?}", report.trust);
}

#[test]
fn a_gate_is_for_the_layers_and_not_for_the_machine() {
    let gates: Vec<Gate> = ["slower=10%", "native slower=10%"]
        .iter()
        .map(|g| g.parse().unwrap())
        .collect();
    let mut report = new().compare(&old(), 0.05).unwrap();
    report.check_gates(&gates).unwrap();
    report.hold_to(&gates[..1], false);
    let failed: Vec<(&str, &str)> = report
        .failed_gates()
        .map(|g| (g.layer.as_str(), g.point.as_str()))
        .collect();
    assert_eq!(failed, [("fuse", row(&report, "fuse", 0).label.as_str())]);
    assert_eq!(report.gates.len(), 4, "two layers at two points");
    assert!(
        findings(&report).starts_with("1 of 4 gated results fails: `fuse`, first at"),
        "{}",
        findings(&report)
    );
    report.hold_to(&gates[1..], false);
    assert_eq!(report.failed_gates().count(), 2);
    // Where there is nothing else it is what is judged, and that is said.
    let alone = || {
        let made = Made::new(&["native"], 12).points("read", &RECORDS, 1 << 20);
        made.noise(0.01)
    };
    let (old, new) = (alone().cost(|_, _, _| 10.0), alone().cost(|_, _, _| 12.0));
    let mut report = new.build().compare(&old.build(), 0.05).unwrap();
    report.hold_to(&gates[..1], false);
    assert_eq!(report.failed_gates().count(), 2);
    assert!(
        findings(&report).contains("Only `native` is in both runs"),
        "{}",
        findings(&report)
    );
}

/// A run without the results of a layer at its first point, and all times of the others a third longer.
fn without(layer: &str) -> Report {
    let mut new = made().cost(|layer, _, _| 1.3 * usual(layer)).build();
    let label = row(&new, layer, 0).label.clone();
    new.results.retain(|r| r.layer != layer || r.label != label);
    if layer == "native" {
        let others = new.results.iter_mut().filter(|r| r.label == label);
        others.for_each(|r| r.block_ratios.clear());
    }
    new
}

#[test]
fn where_the_machine_is_not_known_nothing_is_said_of_a_layer() {
    let mut report = without("native").compare(&old(), 0.05).unwrap();
    let fuse = row(&report, "fuse", 0);
    assert_eq!(fuse.verdict, Verdict::Untrusted);
    assert!(
        fuse.untrusted
            .as_ref()
            .unwrap()
            .contains("no baseline at this operation")
    );
    assert_eq!(row(&report, "fuse", 1).verdict, Verdict::Same);
    report.hold_to(&["slower".parse().unwrap()], false);
    assert_eq!(report.failed_gates().count(), 0);
}

#[test]
fn what_is_not_there_any_more_passes_no_gate() {
    let mut report = without("fuse").compare(&old(), 0.05).unwrap();
    let (state, text) = trust(&report, "work");
    assert_eq!(state, TrustState::Warn);
    assert!(
        text.contains("1 result only in the old run, first"),
        "{text}"
    );
    let gone = |report: &Report| -> Vec<String> {
        let open = report.gates.iter().filter(|g| g.text == "not measured");
        open.map(|g| g.layer.clone()).collect()
    };
    let gates: [Gate; 1] = ["slower".parse().unwrap()];
    report.hold_to(&gates, false);
    assert_eq!(gone(&report), ["fuse"]);
    assert_eq!(report.failed_gates().count(), 0);
    report.hold_to(&gates, true);
    assert!(report.failed_gates().any(|g| g.layer == "fuse"));
}

#[test]
fn a_run_that_was_stopped_is_no_whole_one() {
    let mut new = new();
    new.status = RunStatus::Stopped;
    let report = new.compare(&old(), 0.05).unwrap();
    let (state, text) = trust(&report, "runs");
    assert_eq!(state, TrustState::Warn);
    assert!(
        text.contains("the new run is not complete (stopped by the user)"),
        "{text}"
    );
}

#[test]
fn a_run_against_itself_has_changed_nothing() {
    let report = old().compare(&old(), 0.05).unwrap();
    assert_eq!(report.headline, "Nothing changed: 4 results, all the same");
    for row in &report.results {
        assert!((row.ratio.unwrap().estimate - 1.0).abs() < 1e-9);
        assert_eq!(row.verdict, Verdict::Same);
    }
    // Made::new has one session, and that is told.
    assert_eq!(trust(&report, "set-ups").0, TrustState::Warn);
    assert!(
        old()
            .compare(&made().points("read", &[512], 1 << 20).build(), 0.05)
            .is_some()
    );
    let other = Made::new(&LAYERS, 12)
        .points("read", &[512], 1 << 20)
        .build();
    assert!(old().compare(&other, 0.05).is_none());
}

#[test]
fn a_report_that_was_written_is_read_again() {
    let report = old();
    let text = serde_json::to_vec(&report).unwrap();
    let read = Report::from_json(&text).unwrap();
    let (one, two) = (new().compare(&read, 0.05), new().compare(&report, 0.05));
    assert_eq!(one, two);
    let refused = |change: fn(&mut Value)| {
        let mut json: Value = serde_json::from_slice(&text).unwrap();
        change(&mut json);
        Report::from_json(&serde_json::to_vec(&json).unwrap()).unwrap_err()
    };
    assert!(refused(|j| j["schema"] = "layermark.report/2".into()).contains("not a report"));
    assert!(refused(|j| j["results"] = 3.into()).contains("not a complete report"));
    let compared = serde_json::to_vec(&one.unwrap()).unwrap();
    assert!(
        Report::from_json(&compared)
            .unwrap_err()
            .contains("comparison")
    );
    assert!(Report::from_json(b"[").unwrap_err().contains("not JSON"));
    // What comes from outside is made plain, and what is no number gives no verdict.
    let mut json: Value = serde_json::from_slice(&text).unwrap();
    json["machine"]["cpu"] = "x\u{1b}[2J".into();
    for row in json["results"].as_array_mut().unwrap() {
        let blocks = row.get_mut("block_ratios").and_then(Value::as_array_mut);
        for block in blocks.into_iter().flatten() {
            block["ratio"] = (-1.0).into();
        }
    }
    let read = Report::from_json(&serde_json::to_vec(&json).unwrap()).unwrap();
    assert_eq!(read.machine.cpu, "x");
    let report = old().compare(&read, 0.05).unwrap();
    assert_eq!(row(&report, "fuse", 0).verdict, Verdict::Undecided);
}

#[test]
fn runs_that_are_not_alike_say_so() {
    let mut new = old();
    new.machine.kernel = "7".into();
    new.machine.memory += 1 << 20;
    new.run_version = "9.9.9".into();
    new.results.retain(|r| r.layer != "bind");
    for row in new
        .results
        .iter_mut()
        .filter(|r| r.point["record"] == 65536)
    {
        row.point["file_size"] = 77.into();
    }
    let report = new.compare(&old(), 0.05).unwrap();
    assert_eq!(trust(&report, "machine"), (TrustState::Ok, "yes"));
    assert_eq!(
        trust(&report, "kernel"),
        (TrustState::Warn, "kernel 6 then, 7 now")
    );
    assert_eq!(trust(&report, "version").0, TrustState::Warn);
    let work = trust(&report, "work").1;
    assert!(work.contains("layer only in the old run: `bind`"), "{work}");
    assert!(work.contains("file_size 1048576 then, 77 now"), "{work}");
    assert_eq!(report.results.len(), 2, "one point of native and fuse");
    assert_eq!(report.left_out[0].layer, "bind");
    assert!(findings(&report).starts_with("The runs are not alike: kernel 6 then, 7 now; "));
}

/// Every point of an older run was missing once labels of the same work said more.
#[test]
fn a_label_that_is_worded_differently_is_still_the_same_point() {
    let mut new = new();
    for row in &mut new.results {
        row.label += ", in other words";
        row.point.insert("later".into(), false.into());
    }
    let gates: Vec<Gate> = vec!["slower=10%".parse().unwrap()];
    let report = |new: &Report| {
        let mut report = new.compare(&old(), 0.05).expect("points in common");
        report.hold_to(&gates, true);
        report
    };
    let renamed = report(&new);
    assert_eq!(renamed.results.len(), 6, "two points of three layers");
    assert!(renamed.compared.as_ref().unwrap().missing.is_empty());
    assert_eq!(trust(&renamed, "work"), (TrustState::Ok, "yes"));
    let fuse = row(&renamed, "fuse", 0);
    assert!(fuse.label.ends_with(", in other words"), "{}", fuse.label);
    assert_eq!(fuse.verdict, Verdict::Slower);
    assert!(renamed.gates.iter().all(|g| g.text != "not measured"));
    // With a parameter that is left out where it is the default, it is other work.
    for row in new.results.iter_mut().filter(|r| r.point["record"] == 4096) {
        row.point.insert("rest".into(), "2s".into());
    }
    let other = report(&new);
    assert_eq!(other.results.len(), 3);
    assert_eq!(other.compared.as_ref().unwrap().missing.len(), 3);
    assert_eq!(trust(&other, "work").0, TrustState::Warn);
}

#[test]
fn a_series_goes_on_under_another_label() {
    let (mut run, trials) = made().cost(|layer, _, _| usual(layer)).parts();
    let asked = run.points[0].clone();
    run.points[0].label = "as it was".into();
    let figure = TrendFigure::of(&run, &trials, "fuse", &asked).expect("a number");
    assert!((figure.value.estimate - 3.0).abs() < 0.05, "{figure:?}");
    run.points[0].params.insert("rest".into(), "2s".into());
    assert!(TrendFigure::of(&run, &trials, "fuse", &asked).is_none());
}

fn flushed(trial: &mut Trial, flushes: u64) {
    trial.syncs = 256;
    trial.background = Some(DeviceBackground {
        ns: 20_000_000,
        ..DeviceBackground::default()
    });
    trial.device = Some(DeviceBytes {
        flushes,
        ..DeviceBytes::default()
    });
}

#[test]
fn a_flush_that_is_skipped_now_is_not_compared() {
    let written = || {
        let more = serde_json::json!({ "sync": "each" });
        Made::new(&LAYERS, 12).points_with("write", &[4096], 1 << 20, &more)
    };
    let old = written().change(|_, _, _, trial| flushed(trial, 257));
    let new = written().change(|layer, _, _, trial| {
        flushed(trial, if layer == "fuse" { 0 } else { 257 });
    });
    let report = new.build().compare(&old.build(), 0.05).unwrap();
    let fuse = row(&report, "fuse", 0);
    assert_eq!(fuse.verdict, Verdict::Untrusted);
    assert!(
        fuse.untrusted
            .as_ref()
            .unwrap()
            .contains("is skipped in the new"),
        "{fuse:#?}"
    );
    assert_ne!(row(&report, "bind", 0).verdict, Verdict::Untrusted);
}

#[test]
fn a_step_over_runs_is_dated() {
    let noise = [0.0, 0.01, -0.01, 0.005, -0.004];
    let values: Vec<f64> = (0..20)
        .map(|i| noise[i % 5] + if i < 12 { 1.2 } else { 1.6 })
        .collect();
    let found = changes(&values);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].at, 12);
    assert!((found[0].before - 1.2).abs() < 0.02 && (found[0].after - 1.6).abs() < 0.02);
    assert!(changes(&values[..12]).is_empty() && changes(&values[9..15]).is_empty());
}

/// A figure of fuse at the first point of a made run.
fn figure(made: Made, change: impl Fn(&mut Run)) -> TrendFigure {
    let (mut run, trials) = made.parts();
    change(&mut run);
    let figure = TrendFigure::of(&run, &trials, "fuse", &run.points[0]);
    figure.expect("a number")
}

#[test]
fn only_like_and_sound_results_are_in_one_series() {
    let usual = || made().cost(|layer, _, _| usual(layer));
    let like = |change: fn(&mut Run)| figure(usual(), change);
    let param = |run: &mut Run, key: &str, value: u64| {
        run.points[0].params.insert(key.into(), value.into());
    };
    let figures = [
        ("newest", like(|_| {})),
        ("stopped", like(|run| run.status = RunStatus::Stopped)),
        (
            "larger",
            figure(usual(), |run| param(run, "file_size", 1 << 30)),
        ),
        (
            "later parameter",
            figure(usual(), |run| param(run, "unknown", 1)),
        ),
        ("beside the clock", {
            figure(usual(), |run| {
                param(run, "file_size", 1 << 30);
                let beside = &mut run.points[0].meaning.beside_the_clock;
                beside.push("file_size".into());
            })
        }),
        (
            "another baseline",
            like(|run| run.layers[0].name = "dir:/a".into()),
        ),
        ("other kernel", like(|run| run.machine.kernel = "5".into())),
        ("other machine", {
            like(|run| (run.machine.cpus, run.machine.kernel) = (64, "5".into()))
        }),
        ("more memory", {
            like(|run| {
                run.machine.cpus = 64;
                run.machine.kernel = "4".into();
                run.machine.memory += 1 << 20;
            })
        }),
    ];
    let newest = figures[0].1.value.estimate;
    assert!((newest - 3.0).abs() < 0.05, "{newest}");
    let series = TrendSeries::of(figures.into_iter());
    let kept: Vec<&str> = series.kept.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        kept,
        [
            "more memory",
            "other machine",
            "other kernel",
            "beside the clock",
            "later parameter",
            "newest"
        ]
    );
    assert_eq!((series.other_work, series.doubtful), (2, 1));
    assert_eq!(
        series.machine_changes(),
        [
            (1, vec!["kernel"]),
            (2, vec!["machine"]),
            (3, vec!["kernel"])
        ]
    );
}

/// Without the rest of the report, which takes ten times as long.
#[test]
fn a_figure_of_a_run_is_that_of_its_report() {
    let (run, trials) = sample::full().build();
    let report = Report::build(&run, &trials);
    let mut compared = 0;
    for row in &report.results {
        let point = run.points.iter().find(|p| p.label == row.label);
        let figure = TrendFigure::of(&run, &trials, &row.layer, point.expect("its point"));
        let is_baseline = report
            .layers
            .iter()
            .any(|l| l.name == row.layer && l.baseline);
        if !is_baseline {
            assert_eq!(figure.as_ref().map(|f| f.value), row.ratio, "{}", row.id);
        }
        let Some(figure) = figure else { continue };
        compared += 1;
        let sound = report.trustworthy() && row.verdict != Verdict::Untrusted;
        assert_eq!(
            (figure.stalls, figure.sound),
            (row.has_stalls(), sound),
            "{}",
            row.id
        );
    }
    assert!(compared > 10, "{compared}");
}

#[test]
fn the_page_of_a_figure_over_runs_draws_each_value_and_change() {
    let page = |is_time: bool, values: &[f64]| {
        let run = |(n, v): (u64, &f64)| TrendRun {
            id: format!("run-{n}"),
            number: n,
            started: format!("day {n}"),
            value: Estimate {
                estimate: *v,
                interval: Some([v * 0.99, v * 1.01]),
                average: None,
            },
            stalls: n == 3,
        };
        let trend = Trend {
            baseline: "native".into(),
            point: "small <read>".into(),
            layer: "fuse".into(),
            is_time,
            runs: (1..).zip(values).map(run).collect(),
            changes: changes(values),
            said: vec!["no change & no end".into()],
        };
        String::from_utf8(render::trend_page(&trend)).unwrap()
    };
    let count = |text: &str, what: &str| text.matches(what).count();
    let values: Vec<f64> = (0..24).map(|n| if n < 12 { 1.2 } else { 1.6 }).collect();
    let text = page(false, &values);
    assert_eq!(count(&text, "<circle"), 24, "{text}");
    // The value of a run with stalls is marked in the table, and no other.
    assert_eq!(count(&text, "^</td>"), 1, "{text}");
    assert_eq!(count(&text, "stroke-dasharray=\"2,3\""), 1, "{text}");
    assert_eq!(count(&text, ">run-"), 24, "{text}");
    for part in [
        "fuse at &quot;small &lt;read&gt;&quot;",
        "24 runs",
        "1 change for good",
        "no change &amp; no end",
        "1.60x (1.58-1.62)",
        "name=\"generator\" content=\"layermark ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // One run is one dot.
    let text = page(true, &[4.5]);
    assert_eq!(count(&text, "<circle"), 1, "{text}");
    assert!(text.contains("4.50 us") && text.contains("time an operation"));
    assert_eq!(count(&text, "stroke-dasharray=\"2,3\""), 0, "{text}");
}

/// In a container whose root is mounted `fsync=volatile`, and natively: the volume did not become faster.
#[test]
fn a_run_whose_native_skips_flushes_makes_no_layer_faster_in_the_next() {
    let written = || {
        let more = serde_json::json!({ "sync": "each" });
        Made::new(&LAYERS, 12).points_with("write", &[4096], 1 << 20, &more)
    };
    let (mut run, trials) = written()
        .cost(|layer, _, _| if layer == "native" { 4.1 } else { 606.0 })
        .change(|layer, _, _, trial| flushed(trial, if layer == "native" { 0 } else { 257 }))
        .parts();
    run.layers[0].facts.mounts[0].options = "rw,fsync=volatile".into();
    let liar = Report::build(&run, &trials);
    let honest = written().cost(|_, _, _| 600.0);
    let honest = honest.change(|_, _, _, trial| flushed(trial, 257)).build();
    let report = honest.compare(&liar, 0.05).unwrap();
    let fuse = row(&report, "fuse", 0);
    assert_eq!(fuse.verdict, Verdict::Untrusted, "{fuse:?}");
    assert_eq!(
        fuse.untrusted.as_deref(),
        Some("in the old run, native skips the flush, this does not")
    );
}
