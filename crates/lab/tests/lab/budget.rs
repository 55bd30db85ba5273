//! What a run does with its time: which layers it leaves out, and what it tells on the way.

use std::time::Duration;

use crate::common::{Bench, CATALOG, SLOW, plan, settled};
use layermark_lab::{Ended, Event, Request};
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

/// Four layers and the control at five points: by the plan 2 s a layer in eight blocks, and 0.15 s to set it
/// up: 10.8 s in all.
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
    let outcome = bench.run(too_many(&bench, "7s")).unwrap();
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
        "left out, because 8 blocks of all layers would take about 15 s: mock:ns=3000, mock:ns=4000"
    );
    let store = bench.store.option();
    let command = format!("layermark run --replay {}{store} --budget 15s", run.id);
    assert_eq!(*hint, format!("for all of them: {command}"));
    assert_eq!(bench.warnings().len(), 1, "said once");
    let counts = [0, 1, 2, 3, 4].map(|layer| trials(&made, layer));
    assert_eq!(counts, [40, 40, 0, 0, 40], "the control is measured");

    // The seconds are stored with the run, and the report makes the command, with the store's path.
    let stored = run.layers.iter().map(|l| (l.enough_s, l.hint.as_deref()));
    let all = [None, None, Some(15), Some(15), None].map(|enough_s| (enough_s, None));
    assert_eq!(stored.collect::<Vec<_>>(), all);
    for name in OUT {
        let report = Report::build(&run, &made);
        let left = report.left_out.iter().find(|l| l.layer == name).unwrap();
        assert_eq!(
            left.reason,
            "8 blocks of all layers would take about 15 s, and the budget is 7 s"
        );
        assert_eq!(left.hint.as_ref(), Some(&command));
    }
}

#[test]
fn a_resumed_run_leaves_out_the_same_layers() {
    let mut bench = Bench::new();
    let request = too_many(&bench, "7s");
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
    bench.run(too_many(&bench, "7s")).unwrap();
    let (first, _) = bench.last();
    let again = |budget: Option<&str>| {
        let mut request = Request::replay(&first, "/proc/self/exe");
        request.catalog = CATALOG;
        request.silence = Duration::from_secs(1);
        request.rehearse = false;
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
    bench.run(again(Some("15s"))).unwrap();
    let (run, made) = bench.last();
    assert_eq!(left_out(&run), [""; 0]);
    assert!(trials(&made, 2) > 0 && trials(&made, 3) > 0);
}

#[test]
fn layers_that_are_named_stay_and_a_budget_too_small_for_them_is_refused() {
    let mut bench = Bench::new();
    let request = |bench: &Bench, budget: &str| {
        let mut request = too_many(bench, budget);
        let keep = ["mock:ns=4000", "mock:ns=3000"];
        request.plan.keep = keep.map(|l| l.parse().unwrap()).to_vec();
        request
    };
    // Eight blocks of three layers take 6 s by the plan: fewer have to do.
    bench.run(request(&bench, "5s")).unwrap();
    assert_eq!(left_out(&bench.last().0), ["mock:ns=2000"]);
    let (run, made) = bench.last();
    assert!(run.cut.is_none() && trials(&made, 3) == 40);
    // Three blocks of a single point take 0.45 s, and the set-ups as much.
    let e = bench.run(request(&bench, "600ms")).unwrap_err();
    assert_eq!(e.exit_code(), 2);
    let said = "the budget of 600ms is too small: 3 blocks of mock, mock:ns=4000, mock:ns=3000 take about 3 s";
    assert_eq!(e.to_string(), said);
    assert!(e.hint().unwrap().contains("--budget 3s"), "{e:?}");
    assert_eq!(bench.store.list(9).unwrap().len(), 1, "nothing was begun");
}

/// Layers that make files for so many seconds on the run's clock, all named.
fn slow(bench: &Bench, layers: &[&str], points: usize, budget: &str) -> Request {
    let all = [&["mock"], layers].concat();
    let more = format!("control = false\nbudget = '{budget}'");
    let mut request = bench.request(plan(&all, points, &more));
    request.plan.keep = layers.iter().map(|l| l.parse().unwrap()).collect();
    request.catalog = SLOW;
    request
}

#[test]
fn what_is_at_work_when_the_budget_is_spent_is_cut_and_what_was_made_counts() {
    let mut bench = Bench::new();
    let layers = ["ends:slow=1", "ends:stuck=20,ns=3000"];
    let outcome = bench.run(slow(&bench, &layers, 2, "60s")).unwrap();
    assert_eq!((outcome.ended, outcome.exit_code()), (Ended::Budget, 0));
    let (run, made) = bench.last();
    assert_eq!(run.status, RunStatus::Done);
    // Trial 20 is in the fourth block of two points in three layers.
    let cut = run.cut.clone().unwrap();
    let named = run
        .points
        .iter()
        .any(|p| Some(&p.label) == cut.point.as_ref());
    assert!(named && cut.block == Some(4), "{cut:?}");
    assert_eq!(cut.layer.as_deref(), Some("ends:ns=3000,stuck=20"));
    assert_eq!(cut.during, "its files were made");
    assert!((3600..3700).contains(&cut.at_s) && cut.enough_s > 60);
    // The layer has its turn at different places of a block.
    assert!([18, 21].contains(&made.len()), "{}", made.len());
    assert!(made.iter().all(|t| t.error.is_none()));
    let report = Report::build(&run, &made);
    assert_eq!(
        report.results.iter().filter(|r| r.ratio.is_some()).count(),
        4
    );
    // Other tests may make the machine busy, which is said first.
    let spent = |said: &&String| said.starts_with("The budget of 60s was spent: ");
    let said = report.caveats.iter().find(spent).expect("a caveat");
    assert!(said.contains("in repeat 4 was cut"), "{said}");
    assert!(said.contains("layermark run --resume"), "{said}");
}

#[test]
fn nothing_is_begun_that_would_miss_the_end() {
    let mut bench = Bench::new();
    // A block takes 10 s on the run's clock, of which the plan knows nothing.
    let outcome = bench
        .run(slow(&bench, &["ends:slow=10"], 1, "45s"))
        .unwrap();
    assert_eq!(outcome.ended, Ended::Budget);
    let (run, made) = bench.last();
    assert_eq!(
        (made.len(), run.cut),
        (8, None),
        "four blocks, and none was cut"
    );
}

#[test]
fn points_that_turn_out_not_to_fit_are_left_out_and_named_layers_stay() {
    let mut bench = Bench::new();
    // A point takes 10 s in a block, of which the plan knows 0.1.
    let outcome = bench
        .run(slow(&bench, &["ends:slow=10"], 5, "70s"))
        .unwrap();
    assert!(outcome.lost.is_empty());
    let (run, made) = bench.last();
    assert!(left_out(&run).is_empty());
    let skipped = run.layers[1].skips.len();
    assert!((3..=4).contains(&skipped), "{:?}", run.layers[1].skips);
    let reason = run.layers[1].skips.values().next().unwrap();
    assert!(
        reason.contains("3 blocks of all points would take about"),
        "{reason}"
    );
    assert!(reason.ends_with("and the budget is 70 s"), "{reason}");
    let warned = bench.warnings();
    assert!(
        warned
            .iter()
            .any(|w| w.contains(" of all points would take about ")),
        "{warned:?}"
    );
    let most = (0..5).map(|p| made.iter().filter(|t| t.cell.point == p).count());
    assert!(most.max() >= Some(6), "a point has its three blocks");
    // A replay leaves out the same.
    let mut again = Request::replay(&run, "/proc/self/exe");
    (again.catalog, again.rehearse) = (SLOW, false);
    let again = bench.run(again).unwrap();
    assert_eq!(again.run.layers[1].skips, run.layers[1].skips);
}

#[test]
fn a_layer_whose_first_trials_fail_for_one_reason_ends_and_the_others_have_its_time() {
    let mut bench = Bench::new();
    let layers = ["ends:refuses=1", "ends:ns=3000"];
    let outcome = bench.run(slow(&bench, &layers, 5, "60s")).unwrap();
    assert_eq!(outcome.lost, ["ends:refuses=1"]);
    assert_eq!(outcome.exit_code(), 3);
    let (run, made) = bench.last();
    assert_eq!(trials(&made, 1), 3, "the first three");
    assert_eq!(trials(&made, 2), 40);
    let reason = run.layers[1].reason.as_ref().unwrap();
    assert!(
        reason.starts_with("its first 3 trials failed for one reason: open "),
        "{reason}"
    );
    assert_eq!(bench.failed_layers()[0].0, "ends:refuses=1");
}

#[test]
fn what_has_no_word_is_measured_on_while_there_is_time() {
    let mut bench = Bench::new();
    let mut run = |ns: u32, budget: &str| {
        let layer = format!("mock:noise=0.03,ns={ns}");
        let more = format!("control = false\nprecision = 0.05\n{budget}");
        let mut request = bench.request(plan(&["mock:noise=0.03", &layer], 1, &more));
        request.catalog = CATALOG;
        assert!(settled(&bench.run(request)));
        let (run, made) = bench.last();
        let report = Report::build(&run, &made);
        let row = report.results.iter().find(|r| r.ratio.is_some()).unwrap();
        let known = row.verdict.is_decided() || row.probably.is_some();
        (known, made.len())
    };
    // Some per cent more, of which an interval of 5 % says nothing.
    let all = (0..9).map(|n| 1000 + 8 * n);
    let open: Vec<u32> = all.filter(|ns| !run(*ns, "").0).collect();
    assert!(!open.is_empty());
    for ns in open {
        let (known, trials) = run(ns, "budget = '2m'");
        assert!(known && trials > 16, "{ns}: {trials}");
    }
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
    let plan = plan(&layers, 3, "control = false\nbudget = '6s'\nblocks = 2");
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
    assert!(
        (1..=2).contains(&trials(&made, 2)),
        "before the block was complete"
    );
    let [native, other] = [0, 1].map(|layer| trials(&made, layer));
    assert!(
        native == other && (9..=18).contains(&native),
        "{native} {other}"
    );
}

/// Three trials of 100 ms a block, of which the plan knows 50: eight blocks are 2.4 s.
#[test]
fn a_layer_that_turns_out_not_to_fit_is_left_out_with_what_it_had() {
    let mut bench = Bench::new();
    let layers = [
        "mock:take=100ms",
        "mock:take=100ms,ns=2000",
        "mock:take=100ms,ns=3000",
    ];
    let plan = plan(&layers, 1, "control = false\nbudget = '1800ms'");
    let outcome = bench.run(bench.request(plan)).unwrap();
    assert_eq!(
        (outcome.run.status, outcome.lost.len()),
        (RunStatus::Done, 0)
    );
    let (run, made) = bench.last();
    assert_eq!(left_out(&run), [run.layers[2].name.as_str()]);
    assert!(trials(&made, 0) == trials(&made, 1) && trials(&made, 0) > 3);
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
