//! Answers of `layermark why`, from a made-up run of steps.

use layermark_model::CacheState;
use layermark_report::{
    Durability, DurabilityVerdict, Estimate, Report, ResultRow, TrustItem, TrustState, Verdict,
    Why,
    render::{self, Style},
};
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

/// Times of a command over the baseline's, which is 1 ms, in two layers: the verdict, the ratio and its interval.
type Times<'a> = [(Verdict, f64, [f64; 2]); 2];

fn set(report: &mut Report, times: &Times) {
    let (label, baseline) = (label(report), report.baseline().to_owned());
    let is = |r: &&mut ResultRow| r.label == label && r.layer != baseline;
    let mut rows: Vec<&mut ResultRow> = report.results.iter_mut().filter(is).collect();
    assert_eq!(rows.len(), 2, "two layers");
    for (row, (verdict, ratio, interval)) in rows.iter_mut().zip(times) {
        (row.verdict, row.probably, row.trials) = (*verdict, None, 3);
        row.ratio = Some(Estimate::new(*ratio, Some(*interval)));
        (row.op_us, row.native_us) = (Some(1000.0 * ratio), Some(1000.0));
        row.error = None;
    }
    // No layer loses what was flushed.
    for row in &mut report.results {
        row.durability = Durability::default();
    }
}

const SAME: (Verdict, f64, [f64; 2]) = (Verdict::Same, 1.01, [1.0, 1.02]);
const SLOWER: (Verdict, f64, [f64; 2]) = (Verdict::Slower, 3.0, [2.0, 4.0]);

#[test]
fn the_answer_is_the_layer_that_takes_no_longer_or_the_least() {
    let mut report = report();
    let answer = |report: &mut Report, times: &Times| {
        set(report, times);
        Why::of(report).unwrap().answer
    };
    let found = answer(&mut report, &[SAME, SLOWER]);
    assert!(
        found.ends_with(" is within 5 % of native: use it"),
        "{found}"
    );
    let fast = (Verdict::Faster, 0.5, [0.4, 0.6]);
    let found = answer(&mut report, &[fast, SLOWER]);
    assert!(found.ends_with(" is faster than native: use it"), "{found}");
    let found = answer(&mut report, &[fast, SAME]);
    let ends = " are within 5 % of native or faster: use one of them";
    assert!(found.ends_with(ends), "{found}");
    let less = (Verdict::Slower, 1.5, [1.4, 1.6]);
    let found = answer(&mut report, &[less, SLOWER]);
    assert!(found.ends_with("costs least of these: +500 us"), "{found}");
    let why = Why::of(&report).unwrap();
    assert!(
        why.layers[0]
            .text
            .contains("3.00 ms instead of 1.00 ms (+2.00 ms)"),
        "{:?}",
        why.layers
    );
    // Their intervals meet.
    let found = answer(&mut report, &[(Verdict::Slower, 1.5, [1.1, 2.1]), SLOWER]);
    assert!(
        found.starts_with("Which of") && found.contains("--budget"),
        "{found}"
    );
    let open = (Verdict::Undecided, 1.5, [0.9, 2.1]);
    let found = answer(&mut report, &[open, SLOWER]);
    assert!(
        found.starts_with("Whether") && found.contains("--budget"),
        "{found}"
    );
}

#[test]
fn what_is_probable_is_said_so() {
    let mut report = report();
    set(
        &mut report,
        &[(Verdict::Undecided, 0.5, [0.4, 1.1]), SLOWER],
    );
    let (label, baseline) = (label(&report), report.baseline().to_owned());
    let mut rows = report.results.iter_mut();
    let row = rows.find(|r| r.label == label && r.layer != baseline);
    let row = row.unwrap();
    row.probably = Some(Verdict::Faster);
    let layer = row.layer.clone();
    let why = Why::of(&report).unwrap();
    let of = why.layers.iter().find(|l| l.layer == layer).unwrap();
    assert!(
        of.probably && of.text.contains(" is probably faster: "),
        "{of:?}"
    );
    let ends = " is probably faster than native: use it";
    assert!(why.answer.ends_with(ends), "{}", why.answer);
    assert_eq!(why.layers.iter().filter(|l| l.probably).count(), 1);
}

/// "`overlay:volatile` costs nothing: use it" was said of a layer that skips each fsync.
#[test]
fn a_layer_that_loses_what_was_flushed_is_not_offered() {
    let mut report = report();
    set(&mut report, &[SAME, SLOWER]);
    let rows = report.results.iter().filter(|r| r.label == label(&report));
    let rows = rows.filter(|r| r.layer != report.baseline());
    let layers: Vec<String> = rows.map(|r| r.layer.clone()).collect();
    let skips = |report: &mut Report, layer: &str| {
        let mut rows = report.results.iter_mut();
        let row = rows.find(|r| r.layer == layer).unwrap();
        (row.trials, row.durability.verdict) = (3, DurabilityVerdict::Absorbed);
    };
    skips(&mut report, &layers[0]);
    let why = Why::of(&report).unwrap();
    let wanted = format!(
        "`{}` costs least of these: +2.00 ms; left aside: `{}` (skips fsync)",
        layers[1], layers[0]
    );
    assert_eq!(why.answer, wanted);
    let of = why.layers.iter().find(|l| l.layer == layers[0]).unwrap();
    assert_eq!(of.loses.as_deref(), Some("skips fsync"));
    let begins = format!("`{}` (skips fsync) is within 5 %: ", layers[0]);
    assert!(of.text.starts_with(&begins), "{of:?}");
    skips(&mut report, &layers[1]);
    let answer = Why::of(&report).unwrap().answer;
    assert!(
        answer.starts_with("None of these keeps what was flushed; left aside: "),
        "{answer}"
    );
}

#[test]
fn what_limits_the_report_limits_the_answer() {
    let mut report = report();
    set(&mut report, &[SAME, SLOWER]);
    report.caveats = vec!["Busy machine".into()];
    report.trust = vec![TrustItem {
        id: "proof".into(),
        title: "Proof of layer".into(),
        state: TrustState::Warn,
        text: "nothing proves where it ran".into(),
    }];
    let why = Why::of(&report).unwrap();
    assert_eq!(why.caveats, ["Busy machine"]);
    let wanted = "The results are not trusted: nothing proves where it ran";
    assert_eq!(why.answer, wanted);
}

/// Nothing was said of a command with a cold cache alone.
#[test]
fn a_cold_time_is_the_answer_where_there_is_no_other() {
    let mut report = report();
    for row in &mut report.results {
        row.meaning.cache = Some(CacheState::Cold);
    }
    let why = Why::of(&report).expect("an answer");
    assert!(!why.layers.is_empty(), "{why:?}");
}

#[test]
fn another_baseline_is_named() {
    let mut why = Why::of(&report()).unwrap();
    let style = Style::default();
    let printed = |why: &Why| {
        let mut out = Vec::new();
        render::print_why(why, style, &mut out).expect("text");
        String::from_utf8(out).expect("text")
    };
    assert!(printed(&why).contains(" natively"), "{}", printed(&why));
    why.baseline = "overlay:upper".into();
    let text = printed(&why);
    assert!(text.contains(" in overlay:upper"), "{text}");
    assert!(!text.contains("natively"), "{text}");
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
