//! Runs that are empty, broken off, hostile or wrong: every format is written, nothing is made up.

use layermark_model::{LayerStatus, Run, RunStatus, TrialRecord};
use layermark_report::{LeftOut, Report, Verdict, render};
use layermark_testkit::sample::{self, Sample};
use serde_json::Value;

fn all_formats(report: &Report) -> Vec<(&'static str, String)> {
    render::ALL
        .iter()
        .map(|e| {
            let mut out = Vec::new();
            e.write(report, &mut out).unwrap();
            (e.id(), String::from_utf8_lossy(&out).into_owned())
        })
        .collect()
}

/// Formats that hold all that the report says, not a table of numbers alone.
fn tells_all(id: &str) -> bool {
    matches!(id, "html" | "json" | "markdown_full" | "terminal")
}

fn build(
    sample: &Sample,
    change: impl Fn(&mut Run, &mut Vec<TrialRecord>),
) -> (Report, Vec<(&'static str, String)>) {
    let (mut run, mut trials) = sample.build();
    change(&mut run, &mut trials);
    let report = Report::build(&run, &trials);
    let formats = all_formats(&report);
    let texts = formats
        .iter()
        .filter(|(id, _)| !matches!(*id, "png" | "card_png" | "xlsx"));
    for (id, text) in texts {
        for bad in ["NaN", "inf ", "Infinity"] {
            assert!(!text.contains(bad), "{bad} in {id}");
        }
    }
    (report, formats)
}

#[test]
fn an_empty_run() {
    let (report, _) = build(&Sample::default(), |_, trials| trials.clear());
    assert_eq!(report.headline, "Nothing was measured yet");
    assert!(
        report.results.is_empty()
            && report.verdicts.is_empty()
            && report.advice.is_empty()
            && report.left_out.is_empty()
    );
    let (report, _) = build(&Sample::default(), |run, trials| {
        trials.clear();
        run.layers.clear();
        run.points.clear();
    });
    assert_eq!(report.headline, "Nothing was measured yet");
}

#[test]
fn a_single_trial() {
    let (report, formats) = build(&Sample::default(), |_, trials| trials.truncate(1));
    assert_eq!(report.results.len(), 1);
    assert_eq!(report.results[0].seqs, [0]);
    assert_eq!(
        (report.results[0].interval, report.results[0].verdict),
        (None, Verdict::Baseline)
    );
    assert_eq!(
        report.headline,
        "Only native was measured, so there is nothing to compare"
    );
    assert!(
        formats
            .iter()
            .filter(|(id, _)| tells_all(id))
            .all(|(_, text)| text.contains("native"))
    );
}

#[test]
fn all_layers_failed() {
    let (report, formats) = build(&Sample::default(), |run, trials| {
        trials.clear();
        for layer in &mut run.layers {
            layer.status = LayerStatus::Failed;
            layer.reason = Some("no room on the disk".into());
            layer.hint = Some("df -h /srv".into());
        }
    });
    assert_eq!(
        report.headline,
        "No layer could be set up, so nothing was measured"
    );
    assert_eq!(report.left_out.len(), 5);
    for (id, text) in formats.iter().filter(|(id, _)| tells_all(id)) {
        assert!(
            text.contains("no room on the disk") && text.contains("df -h /srv"),
            "{id}"
        );
    }
}

/// What does not fit the budget is told wherever a missing layer is, and its first block is no result.
#[test]
fn a_layer_that_the_budget_left_out() {
    let (why, command) = (
        "8 blocks take 90 s",
        "layermark run --replay 01X --budget 90s",
    );
    let (report, formats) = build(&Sample::default(), |run, trials| {
        run.layers[1].status = LayerStatus::LeftOut;
        run.layers[1].reason = Some(why.into());
        (run.id, run.layers[1].enough_s) = ("01X".into(), Some(90));
        trials.retain(|t| t.cell.layer != 1 || t.cell.block == 0);
    });
    let name = "overlay:upper";
    assert!(report.results.iter().all(|r| r.layer != name));
    let [left] = report.left_out.as_slice() else {
        panic!("{:?}", report.left_out)
    };
    assert_eq!((left.layer.as_str(), left.reason.as_str()), (name, why));
    assert_eq!(
        (left.point.as_ref(), left.hint.as_deref()),
        (None, Some(command))
    );
    for (id, text) in formats.iter().filter(|(id, _)| tells_all(id)) {
        assert!(text.contains(why) && text.contains(command), "{id}");
    }
    let proof = report.trust.iter().find(|t| t.id == "proof").unwrap();
    assert!(!proof.text.contains("lost"), "{}", proof.text);
    let (report, _) = build(&Sample::default(), |run, _| {
        let control = run.layers.iter_mut().find(|l| l.control).unwrap();
        control.status = LayerStatus::LeftOut;
        control.reason = Some(why.into());
    });
    let control = report.trust.iter().find(|t| t.id == "control").unwrap();
    assert!(
        report.control.is_none() && control.text.ends_with(why),
        "{}",
        control.text
    );
}

#[test]
fn every_trial_failed() {
    let (report, formats) = build(&Sample::default(), |_, trials| {
        for t in trials.iter_mut() {
            t.trial = None;
            t.error = Some("write /srv/x: No space left on device".into());
        }
    });
    assert!(
        report
            .results
            .iter()
            .all(|r| r.value.is_none() && r.trials == 0 && r.failed_trials == 11)
    );
    assert!(
        formats
            .iter()
            .filter(|(id, _)| tells_all(id) || *id == "csv")
            .all(|(_, text)| text.contains("No space left on device"))
    );
}

#[test]
fn below_three_blocks_there_is_no_interval_and_the_missing_ones_are_counted() {
    let (report, formats) = build(
        &Sample {
            blocks: 2,
            ..Sample::default()
        },
        |_, _| {},
    );
    assert_eq!(
        report.headline,
        "Too little was measured for a verdict: 2 repeats of at least 3"
    );
    for row in report
        .results
        .iter()
        .filter(|r| r.verdict != Verdict::Baseline)
    {
        assert_eq!(row.verdict, Verdict::Undecided);
        let ratio = row.ratio.unwrap();
        assert!(ratio.interval.is_none() && row.interval.is_none() && row.op_us_interval.is_none());
        assert_eq!(row.more_blocks, Some(1));
    }
    for (id, text) in formats
        .iter()
        .filter(|(id, _)| matches!(*id, "terminal" | "markdown_full" | "html"))
    {
        assert!(
            text.contains("no interval") && text.contains("missing"),
            "{id}"
        );
    }
}

#[test]
fn trials_that_cannot_be_are_no_numbers() {
    let (report, _) = build(&Sample::default(), |_, trials| {
        for (n, t) in trials.iter_mut().enumerate() {
            let trial = t.trial.as_mut().unwrap();
            match n % 4 {
                0 => trial.passes.clear(),
                1 => trial.passes[0].elapsed_ns = 0,
                2 => trial.passes[0].ops = 0,
                _ => t.cell.layer = 99,
            }
            t.foreign_cpu = f64::NAN;
        }
    });
    assert!(report.results.iter().all(|r| r.value.is_none()));
}

#[test]
fn a_result_done_twice_counts_once() {
    let (mut run, mut trials) = Sample::default().build();
    let mut again = trials.clone();
    for t in &mut again {
        t.seq += 10_000;
        t.flags.clear();
    }
    trials.extend(again);
    run.seed = 7;
    let report = Report::build(&run, &trials);
    for row in &report.results {
        assert_eq!(row.trials, 11, "{}", row.id);
        assert!(
            row.seqs.iter().all(|s| *s >= 10_000),
            "the later trial counts"
        );
    }
}

#[test]
fn with_threads_an_operation_takes_what_one_of_them_waits() {
    let shape = Sample {
        layers: vec!["overlay:upper"],
        ..Sample::default()
    };
    let (run, trials) = shape.build();
    let mut four = run.clone();
    for point in &mut four.points {
        point.meaning.concurrency = 4;
    }
    let (one, four) = (Report::build(&run, &trials), Report::build(&four, &trials));
    let near = |a: Option<f64>, b: Option<f64>| (a.unwrap() / b.unwrap() - 1.0).abs() < 1e-9;
    for (a, b) in one.results.iter().zip(&four.results) {
        assert!(near(b.op_us, a.op_us.map(|us| us * 4.0)), "{}", a.id);
        assert_eq!((a.value, a.ratio), (b.value, b.ratio));
        if let (Some(a), Some(b)) = (a.extra_us, b.extra_us) {
            assert!(near(Some(b.estimate), Some(a.estimate * 4.0)));
            let low = |e: layermark_report::Estimate| e.interval.map(|i| i[0]);
            assert!(near(low(b), low(a).map(|us| us * 4.0)));
        }
    }
    assert!(near(
        four.trials[0].op_us,
        one.trials[0].op_us.map(|us| us * 4.0)
    ));
}

#[test]
fn hostile_names_stay_text() {
    const EVIL: &str = "<script>alert(1)</script>\"'`|\u{1b}[31m$x$";
    let (_, formats) = build(&sample::full(), |run, trials| {
        run.layers[1].name = EVIL.into();
        run.points[0].label = format!("{EVIL} label");
        run.dir = EVIL.into();
        run.plan.about = EVIL.into();
        run.machine.cpu = EVIL.into();
        trials[0].flags = vec![EVIL.into()];
        trials[1].error = Some(EVIL.into());
        run.layers
            .iter_mut()
            .for_each(|l| l.reason = Some(EVIL.into()));
    });
    let text = |wanted: &str| &formats.iter().find(|(id, _)| *id == wanted).unwrap().1;
    let html = text("html").to_lowercase();
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;"));
    assert!(
        !text("terminal").contains('\u{1b}'),
        "names cannot drive a terminal"
    );
    assert!(
        !text("markdown_full").contains("<script>") || text("markdown_full").contains("\\<script"),
        "markup in names is escaped"
    );
    let json: Value = serde_json::from_str(text("json")).unwrap();
    assert_eq!(json["layers"][1]["name"], *layermark_model::plain(EVIL));
    let mut csv = csv::Reader::from_reader(text("csv").as_bytes());
    assert!(csv.records().all(|r| r.is_ok()));
}

#[test]
fn left_out_points_say_why() {
    let (report, _) = build(&Sample::default(), |run, trials| {
        run.layers[1].read_only = true;
        trials.retain(|t| !(t.cell.layer == 1 && t.cell.point >= 3));
    });
    let left: Vec<_> = report
        .left_out
        .iter()
        .filter(|l| l.layer == "overlay:upper")
        .collect();
    assert_eq!(left.len(), 2);
    assert!(
        left.iter()
            .all(|l| l.reason == "the layer is read-only" && l.point.is_some())
    );
    let (mut text, style) = (Vec::new(), render::Style::default());
    render::print(&report, style, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let says = "Left out: overlay:upper (2 operations): the layer is read-only\n";
    assert!(text.contains(says), "{text}");
}

/// The terminal had names alone: why they were left out was in a warning before the run.
#[test]
fn layers_left_out_share_the_line_of_their_reason() {
    let (run, trials) = Sample::default().build();
    let mut report = Report::build(&run, &trials);
    let left = |layer: &str, point: Option<&str>, reason: &str, hint: Option<&str>| LeftOut {
        layer: layer.into(),
        point: point.map(str::to_owned),
        reason: reason.into(),
        hint: hint.map(str::to_owned),
    };
    let (cold, qemu) = ("it cannot be cold", "apt-get install qemu-system-x86");
    report.left_out = vec![
        left("tmpfs", Some("a"), cold, None),
        left("tmpfs", Some("b"), cold, None),
        left("vm", None, "QEMU is not installed.\nPATH=/bin", Some(qemu)),
        left(
            "vm:disk=ide",
            None,
            "QEMU is not installed.\nPATH=/bin",
            Some(qemu),
        ),
        left("fuse", None, "no /dev/fuse", None),
    ];
    let printed = |report: &Report| {
        let (mut text, style) = (Vec::new(), render::Style::default());
        render::print(report, style, &mut text).expect("printed");
        String::from_utf8(text).expect("text")
    };
    let says = "\nLeft out: tmpfs (2 operations): it cannot be cold
  vm, vm:disk=ide: QEMU is not installed: PATH=/bin; hint: apt-get install qemu-system-x86
  fuse: no /dev/fuse
run ";
    let text = printed(&report);
    assert!(text.contains(says), "{text}");
    let mut markdown = Vec::new();
    let exporter = render::for_path("x.md".as_ref()).expect("a format");
    exporter.write(&report, &mut markdown).expect("written");
    let markdown = String::from_utf8(markdown).expect("text");
    let says = "vm, vm:disk=ide: QEMU is not installed: PATH=/bin; hint: apt-get install qemu-system-x86; fuse: ";
    assert!(markdown.contains(says), "{markdown}");
    let others = (0..9).map(|n| left(&format!("vm:cpus={n}"), None, &format!("reason {n}"), None));
    report.left_out.extend(others);
    let text = printed(&report);
    assert!(
        text.contains("  vm:cpus=0: reason 0\n  and 8 more reasons: --full\n"),
        "{text}"
    );
}

/// Only the message at the stop had it.
#[test]
fn a_run_that_ended_early_says_how_to_continue_it() {
    let built = |status| build(&Sample::default(), |run, _| run.status = status).0;
    for (status, why) in [
        (RunStatus::Stopped, "Stopped by the user"),
        (RunStatus::Failed, "Ended by an error"),
        (RunStatus::Interrupted, "Interrupted"),
    ] {
        let report = built(status);
        let command = format!("layermark run --resume {}", report.run);
        assert_eq!(report.caveats, [format!("{why}: `{command}` continues it")]);
        let (mut text, style) = (Vec::new(), render::Style::default());
        render::print(&report, style, &mut text).unwrap();
        let mut all = all_formats(&report);
        all.retain(|(id, _)| tells_all(id) || *id == "markdown");
        all.push(("short", String::from_utf8(text).unwrap()));
        assert!(all.len() > 4);
        for (id, text) in all {
            assert!(text.contains(&command), "{id}: {text}");
        }
    }
    assert!(built(RunStatus::Done).caveats.is_empty());
}

#[test]
fn text_of_a_launch_is_never_a_formula() {
    let (run, mut trials) = sample::launches(&[400.0; 3]);
    for record in &mut trials {
        let trial = record.trial.as_mut().unwrap();
        trial.figures.set("window", "=HYPERLINK(1)");
    }
    let formats = all_formats(&Report::build(&run, &trials));
    let (_, text) = formats.iter().find(|(id, _)| *id == "launches").unwrap();
    assert!(text.contains(",'=HYPERLINK(1),"), "{text}");
}

#[test]
fn a_report_whose_texts_were_cleaned_keeps_its_causes() {
    let causes = |report: &Report| -> Vec<_> {
        let rows = report.results.iter();
        rows.map(|r| (r.causes.clone(), r.reasons.clone()))
            .collect()
    };
    let (plain, _) = build(&sample::full(), |_, _| {});
    let (cleaned, _) = build(&sample::full(), |run, _| {
        run.plan.about = "\u{1b}[31m".into();
    });
    assert!(cleaned.about.is_empty(), "{:?}", cleaned.about);
    assert!(plain.results.iter().any(|r| !r.causes.is_empty()));
    assert_eq!(causes(&cleaned), causes(&plain));
}
