//! What a run does with its time: which layers it leaves out, and what it tells on the way.

use std::time::Duration;

use crate::common::{Bench, CATALOG, plan, settled};
use layermark_lab::{Event, Request};
use layermark_model::{LayerStatus, Plan, Run, RunStatus, TrialRecord};
use layermark_report::Report;

/// Names of the layers that were left out, in their order.
fn left_out(run: &Run) -> Vec<&str> {
    let out = run
        .layers
        .iter()
        .filter(|l| l.status == LayerStatus::LeftOut);
    out.map(|l| l.name.as_str()).collect()
}

fn trials(trials: &[TrialRecord], layer: usize) -> usize {
    trials.iter().filter(|t| t.cell.layer == layer).count()
}

/// Four layers and the control at five points: by the plan 2 s a layer in eight blocks, 10 s in all, and a little.
fn too_many(bench: &Bench, budget: &str) -> Request {
    let layers = ["mock", "mock:ns=2000", "mock:ns=3000", "mock:ns=4000"];
    let mut request = bench.request(plan(&layers, 5, &format!("budget = '{budget}'")));
    request.catalog = CATALOG;
    request
}

const OUT: [&str; 2] = ["mock:ns=3000", "mock:ns=4000"];

#[test]
fn layers_that_cannot_fit_are_named_before_anything_starts() {
    let mut bench = Bench::new();
    let outcome = bench.run(too_many(&bench, "5s")).unwrap();
    assert_eq!((outcome.exit_code(), outcome.lost.len()), (0, 0));
    let (run, made) = bench.last();
    assert_eq!(left_out(&run), OUT);
    let [before, ..] = bench
        .events
        .iter()
        .filter(|e| !matches!(e, Event::Note(_)))
        .skip(2)
        .collect::<Vec<_>>()[..]
    else {
        panic!("{:?}", bench.events)
    };
    let Event::Warning {
        text,
        hint: Some(hint),
    } = before
    else {
        panic!("before the first layer is set up: {before:?}")
    };
    assert_eq!(
        text,
        "left out, because 8 blocks of all layers would take about 20 s: mock:ns=3000, mock:ns=4000"
    );
    let store = bench.store.option();
    let command = format!("layermark run --replay {}{store} --budget 20s", run.id);
    assert_eq!(*hint, format!("for all of them: {command}"));
    assert_eq!(bench.warnings().len(), 1, "said once");
    let counts = [0, 1, 2, 3, 4].map(|layer| trials(&made, layer));
    assert_eq!(counts, [40, 40, 0, 0, 40], "the control is measured");

    // It is stored with the run, without the store's path, and the report says it with that.
    let stored = run.layers.iter().filter_map(|l| l.hint.as_deref());
    assert!(stored.clone().count() > 0 && stored.clone().all(|h| !h.contains("--store")));
    for name in OUT {
        let report = Report::build(&run, &made);
        let left = report.left_out.iter().find(|l| l.layer == name).unwrap();
        assert_eq!(
            left.reason,
            "8 blocks of all layers would take about 20 s, and the budget is 5 s"
        );
        assert_eq!(left.hint.as_ref(), Some(&command));
    }
}

#[test]
fn a_resumed_run_leaves_out_the_same_layers() {
    let mut bench = Bench::new();
    let request = too_many(&bench, "5s");
    bench.run_until(request, 10).unwrap();
    assert_eq!(bench.last().0.status, RunStatus::Stopped);
    // More time does not bring back what has missed its first blocks.
    let outcome = bench.resume_with(CATALOG, Some("60s"));
    assert!(settled(&outcome), "{outcome:?}");
    let (run, made) = bench.last();
    assert_eq!(left_out(&run), OUT);
    assert_eq!((trials(&made, 2), trials(&made, 3)), (0, 0));
    assert!(bench.warnings().is_empty(), "{:?}", bench.warnings());
}

#[test]
fn a_replay_leaves_out_the_same_layers_unless_there_is_another_budget() {
    let mut bench = Bench::new();
    bench.run(too_many(&bench, "5s")).unwrap();
    let (first, _) = bench.last();
    let again = |budget: Option<&str>| {
        let mut request = Request::replay(&first, "/proc/self/exe");
        request.catalog = CATALOG;
        request.silence = Duration::from_secs(1);
        if let Some(budget) = budget {
            request.plan.budget = Some(budget.into());
            request.left_out = None;
        }
        request
    };
    bench.run(again(None)).unwrap();
    let (run, made) = bench.last();
    assert!(run.id != first.id && bench.warnings().is_empty());
    assert_eq!(left_out(&run), OUT);
    assert_eq!(run.layers[2].reason, first.layers[2].reason);
    assert_eq!((trials(&made, 2), trials(&made, 3)), (0, 0));
    bench.run(again(Some("10s"))).unwrap();
    let (run, made) = bench.last();
    assert_eq!(left_out(&run), [""; 0]);
    assert!(trials(&made, 2) > 0 && trials(&made, 3) > 0);
}

#[test]
fn layers_that_a_plan_keeps_stay_and_a_budget_too_small_for_them_is_refused() {
    let mut bench = Bench::new();
    let request = |bench: &Bench, budget: &str| {
        let mut request = too_many(bench, budget);
        let keep = ["mock:ns=4000", "mock:ns=3000"];
        request.plan.keep = keep.map(|l| l.parse().unwrap()).to_vec();
        request
    };
    bench.run(request(&bench, "5s")).unwrap();
    assert_eq!(
        left_out(&bench.last().0),
        ["mock:ns=2000", "mock (control)"]
    );
    // Three layers take 6 s by the plan.
    let e = bench.run(request(&bench, "3s")).unwrap_err();
    assert_eq!(e.exit_code(), 2);
    let said = "the budget of 3s is too small: 8 blocks of mock, mock:ns=4000, mock:ns=3000 take about 10 s";
    assert_eq!(e.to_string(), said);
    assert!(e.hint().unwrap().contains("--budget 10s"), "{e:?}");
    assert_eq!(bench.store.list(9).unwrap().len(), 1, "nothing was begun");
}

/// A trial takes 200 ms, of which the plan knows 50: two points of three tell.
#[test]
fn layers_are_left_out_as_soon_as_points_of_the_first_block_were_timed() {
    let mut bench = Bench::new();
    let layers = [
        "mock:take=200ms",
        "mock:take=200ms,ns=2",
        "mock:take=200ms,ns=3",
    ];
    let plan = plan(&layers, 3, "control = false\nbudget = '4s'\nblocks = 2");
    // Two blocks: 3.6 s. In eight it would be 14.4 s.
    bench.run(bench.request(plan.clone())).unwrap();
    assert_eq!(left_out(&bench.last().0), [""; 0]);
    let plan = Plan {
        blocks: None,
        ..plan
    };
    bench.run(bench.request(plan)).unwrap();
    let (run, made) = bench.last();
    assert_eq!(left_out(&run), ["mock:ns=3,take=200ms"]);
    assert_eq!(trials(&made, 2), 2, "at two points");
    assert_eq!((trials(&made, 0), trials(&made, 1)), (24, 24));
}

/// Three trials of 100 ms a block, of which the plan knows 50: eight blocks are 2.4 s, and 1.3 s may
/// become 1.95 s.
#[test]
fn a_layer_that_turns_out_not_to_fit_is_left_out_with_what_it_had() {
    let mut bench = Bench::new();
    let layers = [
        "mock:take=100ms",
        "mock:take=100ms,ns=2000",
        "mock:take=100ms,ns=3000",
    ];
    let plan = plan(&layers, 1, "control = false\nbudget = '1300ms'");
    let outcome = bench.run(bench.request(plan)).unwrap();
    assert_eq!(
        (outcome.run.status, outcome.lost.len()),
        (RunStatus::Done, 0)
    );
    let (run, made) = bench.last();
    assert_eq!(left_out(&run), [run.layers[2].name.as_str()]);
    assert_eq!((trials(&made, 0), trials(&made, 1)), (8, 8));
    assert!((1..=2).contains(&trials(&made, 2)), "{}", trials(&made, 2));
    let report = Report::build(&run, &made);
    let told: Vec<&str> = report.results.iter().map(|r| r.layer.as_str()).collect();
    assert_eq!(
        told,
        [&run.layers[0].name, &run.layers[1].name],
        "no result of two blocks"
    );
    assert_eq!(report.left_out.len(), 1);
}

/// What a person sees: how many trials and how much time, and the ratio as it narrows.
#[test]
fn progress_has_trials_time_left_and_the_ratio_as_it_narrows() {
    let mut bench = Bench::new();
    let plan = plan(
        &["mock:noise=0.05", "mock:noise=0.05,ns=2000"],
        2,
        "budget = '2m'\nprecision = 0.02",
    );
    let mut request = bench.request(plan);
    request.catalog = CATALOG;
    assert!(settled(&bench.run(request)));
    let (mut planned_before, budget) = (0, Duration::from_mins(2));
    let mut widths = Vec::new();
    let (run, _) = bench.last();
    let first = &run.points[0].label;
    for event in &bench.events {
        let Event::TrialDone {
            planned,
            left,
            block,
            layer,
            point,
            ratio,
            ..
        } = event
        else {
            continue;
        };
        assert!(*planned >= planned_before, "{event:?}");
        assert!(left.is_some_and(|l| l <= budget), "{event:?}");
        planned_before = *planned;
        if layer == "mock:noise=0.05" {
            assert_eq!(*ratio, None, "native is not set against itself");
        } else if layer.ends_with("ns=2000") && point == first {
            assert_eq!(
                ratio.is_some(),
                *block > 3,
                "from three blocks on: {event:?}"
            );
            widths.extend(ratio.map(|r| r.interval[1] / r.interval[0]));
        }
    }
    assert!(widths.len() > 8, "{widths:?}");
    assert!(widths[widths.len() - 1] < widths[0], "{widths:?}");
}
