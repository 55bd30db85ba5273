//! Answers of `layermark why`, from a made-up run of steps.

use layermark_report::{Report, Verdict, Why};
use layermark_testkit::fixtures::fixture;

/// The report of a run with steps whose calls were counted.
fn report() -> Report {
    let kept = fixture("daily").read();
    Report::build(&kept.run, &kept.trials)
}

/// The step that `why` is about.
fn label(report: &Report) -> String {
    Why::of(report).expect("a step").command
}

#[test]
fn layers_are_in_the_order_of_their_times_and_say_what_the_report_says() {
    let report = report();
    let why = Why::of(&report).expect("a step");
    let rows = || report.results.iter().filter(|r| r.label == why.command);
    let native = rows().find(|r| r.layer == report.baseline());
    assert_eq!(why.native_us, native.and_then(|r| r.op_us));
    assert_eq!(why.layers.len(), rows().count() - 1);
    let times: Vec<f64> = why.layers.iter().filter_map(|l| l.us).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    for layer in &why.layers {
        let row = rows().find(|r| r.layer == layer.layer).expect("its row");
        assert_eq!((layer.us, layer.verdict), (row.op_us, row.leaning()));
        assert!(
            layer.text.contains(&format!("`{}`", layer.layer)),
            "{layer:?}"
        );
    }
}

#[test]
fn the_answer_is_the_layer_that_costs_nothing_or_the_least() {
    let mut report = report();
    let label = label(&report);
    let baseline = report.baseline().to_owned();
    let set = |report: &mut Report, verdicts: &[(Verdict, f64)]| {
        let is = |r: &&mut layermark_report::ResultRow| r.label == label && r.layer != baseline;
        let rows = report.results.iter_mut().filter(is);
        let mut last = 0;
        for (n, row) in rows.enumerate() {
            let (verdict, us) = verdicts[n.min(verdicts.len() - 1)];
            (row.verdict, row.probably, row.trials) = (verdict, None, 3);
            (row.op_us, row.native_us, row.error) = (Some(us), Some(1000.0), None);
            last = n;
        }
        assert!(last > 0, "two layers");
    };
    set(
        &mut report,
        &[(Verdict::Same, 1010.0), (Verdict::Slower, 3000.0)],
    );
    let answer = Why::of(&report).unwrap().answer;
    assert!(answer.ends_with("costs nothing: use it"), "{answer}");
    set(
        &mut report,
        &[(Verdict::Slower, 1500.0), (Verdict::Slower, 3000.0)],
    );
    let why = Why::of(&report).unwrap();
    assert!(
        why.answer.ends_with("costs least of these: +500 us"),
        "{}",
        why.answer
    );
    assert!(
        why.layers[0]
            .text
            .contains("3.00 ms instead of 1.00 ms (+2.00 ms)"),
        "{:?}",
        why.layers
    );
    set(
        &mut report,
        &[(Verdict::Undecided, 1500.0), (Verdict::Slower, 3000.0)],
    );
    let answer = Why::of(&report).unwrap().answer;
    assert!(
        answer.starts_with("Whether") && answer.contains("--budget"),
        "{answer}"
    );
}

/// The three most costly kinds are named with their numbers, and the sum only where it explains the time.
#[test]
fn calls_are_named_with_their_numbers_and_costs() {
    let mut report = report();
    let label = label(&report);
    let forecast = report.forecast.rows.iter_mut().find(|f| f.label == label);
    let forecast = forecast.expect("a forecast");
    let (id, mut call) = (forecast.result.clone(), forecast.calls[0].clone());
    (call.kind, call.calls) = ("open".into(), 12_400.0);
    (call.each_us, call.sum_us) = (32.25, 400_000.0);
    forecast.calls = vec![call];
    (forecast.gap, forecast.forecast_us) = (0.0, 1_400_000.0);
    forecast.measured_interval_us = None;
    let layer = forecast.layer.clone();
    let row = report.results.iter_mut().find(|r| r.id == id).unwrap();
    (row.verdict, row.probably) = (Verdict::Slower, None);
    (row.op_us, row.native_us) = (Some(1_400_000.0), Some(1_000_000.0));
    let text = |report: &Report| {
        let why = Why::of(report).unwrap();
        let mut layers = why.layers.into_iter();
        layers.find(|l| l.layer == layer).unwrap().text
    };
    assert_eq!(
        text(&report),
        format!("`{layer}`: 1.40 s instead of 1.00 s (+400 ms): 12,400 opens +400 ms")
    );
    let forecast = report
        .forecast
        .rows
        .iter_mut()
        .find(|f| f.result == id)
        .unwrap();
    (forecast.gap, forecast.forecast_us) = (-0.5, 700_000.0);
    let told = text(&report);
    assert!(
        told.contains("its calls do not explain it, with them it would take 700 ms"),
        "{told}"
    );
}

#[test]
fn a_run_without_a_command_has_no_answer() {
    let kept = fixture("scripted").read();
    assert_eq!(Why::of(&Report::build(&kept.run, &kept.trials)), None);
}
