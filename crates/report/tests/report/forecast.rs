//! Forecasts of steps: what they say is in the run, and only there where counts and costs are.

use layermark_model::{CacheState, Plan, Untraced};
use layermark_report::{Holds, Report, render};
use layermark_testkit::sample::{
    Sample, full,
    steps::{COSTS, Steps},
};

fn made(steps: &Steps) -> Report {
    let (run, trials) = steps.build();
    Report::build(&run, &trials)
}

/// Every number of a forecast, and of the advice that follows, comes from results of the matrix.
fn assert_found_in_the_matrix(report: &Report) {
    let result = |id: &str| report.results.iter().find(|r| r.id == id);
    for row in &report.forecast.rows {
        let measured = result(&row.result).unwrap_or_else(|| panic!("{row:#?}"));
        assert_eq!((&measured.layer, &measured.label), (&row.layer, &row.label));
        assert_eq!(measured.op_us, Some(row.measured_us));
        assert_eq!(measured.native_us, Some(row.native_us));
        let mut sum = row.native_us;
        for call in &row.calls {
            assert!(!call.evidence.is_empty(), "{call:#?}");
            let costs = call.evidence.iter().map(|id| result(id).expect("a result"));
            let costs: Vec<f64> = costs
                .map(|r| {
                    assert_eq!(r.layer, row.layer, "{call:#?}");
                    r.extra_us.expect("a difference").estimate
                })
                .collect();
            assert!((call.each_us - costs[0]).abs() < 1e-9, "{call:#?}");
            assert!((call.sum_us - call.calls * call.each_us).abs() < 1e-6);
            sum += call.sum_us;
        }
        assert!((sum - row.forecast_us).abs() < 1e-6);
        assert!((row.gap - (sum / row.measured_us - 1.0)).abs() < 1e-9);
    }
    let about_calls = report.advice.iter().filter(|a| a.text.contains(" at +"));
    for advice in about_calls {
        let rows = &report.forecast.rows;
        let row = rows.iter().find(|row| advice.text.starts_with(&row.text));
        let row = row.unwrap_or_else(|| panic!("{advice:#?}"));
        assert_eq!(advice.evidence[0], row.result);
        assert!(advice.evidence.iter().all(|id| result(id).is_some()));
        assert!(row.gap.abs() <= 0.25, "{advice:#?}");
    }
}

fn format(report: &Report, name: &str) -> String {
    let exporter = render::for_path(name.as_ref()).expect("an exporter");
    let mut out = Vec::new();
    exporter.write(report, &mut out).expect("a report");
    String::from_utf8(out).expect("text")
}

/// All that a reader sees.
fn all_formats(report: &Report) -> String {
    let names = [
        "x.full.md",
        "x.md",
        "x.html",
        "x.json",
        "x.sections.csv",
        "x.txt",
    ];
    names.iter().map(|name| format(report, name)).collect()
}

#[test]
fn a_step_is_forecast_from_its_calls() {
    let report = made(&Steps::default());
    assert_found_in_the_matrix(&report);
    let rows = &report.forecast.rows;
    assert_eq!(rows.len(), 4, "two steps in two layers: {rows:#?}");
    for row in rows {
        assert!(row.gap.abs() < 0.03, "{row:#?}");
    }
    let fuse = rows
        .iter()
        .find(|r| (r.layer.as_str(), r.label.as_str()) == ("fuse", "git status"))
        .expect("git status in fuse");
    assert_eq!(
        (fuse.calls[0].kind.as_str(), fuse.calls[0].calls),
        ("stat", 4120.0)
    );
    assert!(
        (fuse.calls[0].sum_us / (4120.0 * 31.0) - 1.0).abs() < 0.03,
        "{fuse:#?}"
    );
    assert!(
        fuse.text
            .starts_with("`git status` in `fuse`: 4,120 stat at +31"),
        "{}",
        fuse.text
    );
    assert!(!fuse.text.contains("do not explain"), "{}", fuse.text);
    assert!(
        fuse.text.contains(" ms of the forecast's 14"),
        "{}",
        fuse.text
    );
    // Of the steps in one layer, the one whose call costs most.
    let advice: Vec<_> = report
        .advice
        .iter()
        .filter(|a| a.text.contains(" at +"))
        .collect();
    let [advice] = &advice[..] else {
        panic!("{advice:#?}")
    };
    assert!(
        advice.text.contains("`untar` in `fuse`: 1,020 create") || advice.text.contains("stat at"),
        "{advice:#?}"
    );
    assert!(all_formats(&report).contains("4,120 stat at +31"));
}

#[test]
fn without_counts_or_costs_nothing_is_said_of_calls() {
    let uncounted = Steps {
        counted: false,
        ..Steps::default()
    };
    let other = [Sample::default(), full()].map(|s| {
        let (run, trials) = s.build();
        Report::build(&run, &trials)
    });
    let few = Steps {
        costs: vec!["create"],
        ..Steps::default()
    };
    for report in other.into_iter().chain([made(&uncounted), made(&few)]) {
        assert!(report.forecast.rows.is_empty());
        let text = all_formats(&report);
        assert!(!text.contains(" stat at ") && !text.contains("calls that cost most"));
    }
    assert!(made(&uncounted).forecast.is_empty());
}

#[test]
fn missing_lines_of_the_plan_are_named_once() {
    for (op, ..) in COSTS {
        let costs: Vec<&str> = COSTS
            .iter()
            .map(|(op, ..)| *op)
            .filter(|o| *o != op)
            .collect();
        let report = made(&Steps {
            costs,
            ..Steps::default()
        });
        assert_found_in_the_matrix(&report);
        let [lack] = &report.forecast.lacks[..] else {
            // 1 open of 4,021 calls of `untar` does not matter, and 30 of 4,150 neither.
            assert_eq!(op, "open-stat", "{:#?}", report.forecast);
            continue;
        };
        let wanted = format!("workload = \"meta\" and op = \"{op}\"");
        assert!(lack.contains(&wanted), "{lack}");
        let text = format(&report, "x.full.md");
        assert_eq!(
            text.matches("A forecast of the steps needs").count(),
            1,
            "{text}"
        );
    }
}

/// Two kinds of calls of each step, of which a part of each cost is missing.
#[test]
fn missing_operations_are_one_line_of_the_plan() {
    let (run, trials) = Steps {
        costs: vec!["open-stat"],
        ..Steps::default()
    }
    .build();
    let report = Report::build(&run, &trials);
    let [lack] = &report.forecast.lacks[..] else {
        panic!("{:#?}", report.forecast)
    };
    let end = ": add [[work]] with workload = \"meta\" and op = \"create,set-attr,stat\"";
    assert!(lack.ends_with(end), "{lack}");
}

/// A cost with another cache is no cost of the call: the plan lacks it, and nothing was distrusted.
#[test]
fn a_cold_cost_counts_as_missing() {
    let (mut run, trials) = Steps::default().build();
    let points = run.points.iter_mut();
    for stat in points.filter(|p| p.meaning.operation == "stat") {
        stat.meaning.cache = Some(CacheState::Cold);
    }
    let report = Report::build(&run, &trials);
    let [lack] = &report.forecast.lacks[..] else {
        panic!("{:#?}", report.forecast)
    };
    assert!(lack.ends_with("op = \"stat\""), "{lack}");
}

#[test]
fn a_gap_is_told_and_gives_no_advice() {
    let report = made(&Steps {
        unexplained_ms: 500.0,
        ..Steps::default()
    });
    assert_found_in_the_matrix(&report);
    let gaps: Vec<_> = report
        .forecast
        .rows
        .iter()
        .filter(|r| r.layer == "fuse")
        .collect();
    assert_eq!(gaps.len(), 2);
    for row in gaps {
        assert!(
            row.gap < -0.25 && row.text.contains("the calls do not explain it: forecast"),
            "{row:#?}"
        );
    }
    assert!(!report.advice.iter().any(|a| a.text.contains(" at +")));
    assert!(all_formats(&report).contains("the calls do not explain it"));
}

/// The executions are seconds apart, and each call in the costs follows the last at once.
#[test]
fn costs_of_names_that_were_in_use_are_no_explanation_after_a_pause() {
    let steps = Steps {
        unexplained_ms: 500.0,
        ..Steps::default()
    };
    let told = |apart: u64| {
        let (run, mut trials) = steps.build();
        for trial in &mut trials {
            trial.at_ms *= apart;
        }
        let report = Report::build(&run, &trials);
        assert_found_in_the_matrix(&report);
        let fuse = report.forecast.rows.into_iter().find(|r| r.layer == "fuse");
        fuse.unwrap().text
    };
    let pause = ", and the costs are of names that were asked for just before";
    assert!(!told(1).contains(pause), "{}", told(1));
    let text = told(100);
    assert!(
        text.contains("it was executed every ") && text.contains(pause),
        "{text}"
    );
}

#[test]
fn why_calls_were_not_counted_is_told() {
    let report = made(&Steps {
        counted: false,
        untraced: Some(Untraced {
            why: "`strace` is not installed".into(),
            hint: Some("apt-get install strace".into()),
        }),
        ..Steps::default()
    });
    assert_eq!(
        report.forecast.lacks,
        [
            "The system calls of `git status` and `untar` were not counted: `strace` is not installed: apt-get install strace"
        ]
    );
}

#[test]
fn a_cost_that_is_not_trusted_is_not_used() {
    let (run, mut trials) = Steps::default().build();
    let stat = run
        .points
        .iter()
        .position(|p| p.meaning.operation == "stat");
    for record in &mut trials {
        if Some(record.cell.point) == stat && record.cell.layer == 2 {
            record.trial = None;
            record.error = Some("it failed".into());
        }
    }
    let report = Report::build(&run, &trials);
    assert_found_in_the_matrix(&report);
    let rows = &report.forecast.rows;
    assert!(
        !rows
            .iter()
            .any(|r| r.layer == "fuse" && r.label == "git status")
    );
    assert!(rows.iter().any(|r| r.layer == "fuse" && r.label == "untar"));
    assert_eq!(
        report.forecast.lacks,
        ["Some steps have no forecast: the cost of stat has no trusted result in `fuse`"]
    );
}

#[test]
fn claims_of_steps_have_their_times_with_the_forecast_beside() {
    let (mut run, trials) = Steps::default().build();
    let claim =
        "[[claim]]\nsays = 'for code'\nholds = 'time <= 2'\nwork = { label = 'git status' }";
    let plan = format!("name = 'places'\n[[work]]\nworkload = 'meta'\n{claim}");
    run.plan.claim = Plan::from_toml(&plan).unwrap().claim;
    let report = Report::build(&run, &trials);
    let study = report.study.as_ref().unwrap();
    let holds = |layer: &str| {
        let mut all = study.conclusions.iter();
        all.find(|c| c.layer == layer).unwrap().holds
    };
    assert_eq!(
        (holds("overlay:upper"), holds("fuse")),
        (Holds::Yes, Holds::No)
    );
    let [table] = &study.tables[..] else {
        panic!("{:#?}", study.tables)
    };
    assert_eq!(table.head, ["", "native", "overlay:upper", "fuse"]);
    // Only what decides a claim has a row.
    let [row] = &table.rows[..] else {
        panic!("{:#?}", table.rows)
    };
    let texts: Vec<&str> = row.iter().map(|cell| cell.text.as_str()).collect();
    assert_eq!((texts[0], texts[1].contains('(')), ("git status", false));
    assert!(
        texts[3].starts_with("14") && texts[3].contains("(14"),
        "{texts:?}"
    );
    let page = format(&report, "x.txt");
    assert!(page.contains(&table.note), "{page}");
    // Without claims there is no such table.
    assert!(made(&Steps::default()).study.is_none());
}
