//! What goes wrong on the way: probes, layers, disks, directories.

use crate::common::{Bench, CATALOG, SLOW, plan, settled};
use layermark_lab::{LabError, Stop};
use layermark_model::{LayerStatus, RunStatus, TrialRecord, flags::LAYER_LOST};

/// A good baseline and a good layer, and one that is not.
fn beside(bad: &str) -> layermark_model::Plan {
    plan(&["mock", "mock:ns=2000", bad], 1, "control = false")
}

#[test]
fn a_layer_that_cannot_be_set_up_is_left_out_and_the_others_go_on() {
    for (bad, why) in [
        ("mock:fail-open=on", "open"),
        ("mock:fail-mount=on", "mount"),
        ("mock:fail-start=on", "start the probe"),
        ("mock:fail-facts=on", "the layer is not there"),
        (
            "mock:protocol=9",
            "speaks version 9 of the protocol, this one 2",
        ),
    ] {
        let mut bench = Bench::new();
        let outcome = bench.run(bench.request(beside(bad)));
        assert!(settled(&outcome), "{bad}: {outcome:?}");
        let outcome = outcome.unwrap();
        assert_eq!(
            (outcome.lost, outcome.run.status),
            (vec![bad.to_owned()], RunStatus::Done)
        );
        let (run, trials) = bench.last();
        assert_eq!(run.layers[2].status, LayerStatus::Failed);
        assert!(
            run.layers[2].reason.as_ref().unwrap().contains(why),
            "{:?}",
            run.layers[2].reason
        );
        assert_eq!(bench.failed_layers()[0].0, bad);
        // Two comparisons: eight blocks of two layers that are up.
        assert_eq!(trials.len(), 16);
    }
}

#[test]
fn a_probe_that_breaks_is_started_again_once_and_then_its_layer_is_lost() {
    for (bad, why) in [
        (
            "mock:die-after=2",
            "the probe ended (exit code 101)\n  mock: last words",
        ),
        (
            "mock:rubbish-after=2",
            "sent an invalid message: `rubbish, as the mock was asked to`",
        ),
        (
            "mock:silent-after=2",
            "the probe was silent for 1s\n  mock: last words",
        ),
    ] {
        let mut bench = Bench::new();
        let outcome = bench.run(bench.request(beside(bad)));
        assert!(settled(&outcome), "{bad}: {outcome:?}");
        assert_eq!(outcome.unwrap().exit_code(), 3);
        let (run, trials) = bench.last();
        let of_it: Vec<_> = trials.iter().filter(|t| t.cell.layer == 2).collect();
        // Two good trials, a bad one, two good ones of the new probe, a bad one.
        let good: Vec<bool> = of_it.iter().map(|t| t.trial.is_some()).collect();
        assert_eq!(good, [true, true, false, true, true, false], "{bad}");
        assert!(
            of_it[2].error.as_ref().unwrap().contains(why),
            "{:?}",
            of_it[2].error
        );
        assert!(
            run.layers[2].reason.as_ref().unwrap().contains(why),
            "{:?}",
            run.layers[2].reason
        );
        assert_eq!(bench.warnings().len(), 1, "{:?}", bench.warnings());
        assert_eq!(trials.iter().filter(|t| t.cell.layer == 1).count(), 8);
    }
}

#[test]
fn a_probe_that_breaks_between_turns_drops_out_of_the_block_and_the_others_go_on() {
    for (bad, why) in [
        ("mock:silent-after=4", "the probe was silent for 1s"),
        (
            "mock:rubbish-after=4",
            "a turn that was not asked for instead of",
        ),
        (
            "mock:protocol=4",
            "a turn that was not asked for instead of",
        ),
        (
            "mock:fail-start=on",
            "a turn that was not asked for instead of",
        ),
    ] {
        let mut bench = Bench::new();
        let mut request = bench.request(beside(bad));
        request.catalog = CATALOG;
        let outcome = bench.run(request);
        assert!(settled(&outcome), "{bad}: {outcome:?}");
        assert_eq!(outcome.unwrap().lost, [bad]);
        let (run, trials) = bench.last();
        let of_it: Vec<_> = trials.iter().filter(|t| t.cell.layer == 2).collect();
        assert_eq!(of_it.len(), 2, "{bad}: it is started again once");
        for record in of_it {
            let error = record.error.as_deref().unwrap_or_default();
            assert!(
                error.contains(why) && record.trial.is_none(),
                "{bad}: {error}"
            );
        }
        let others = trials.iter().filter(|t| t.cell.layer != 2);
        for record in others {
            let turns = record.trial.as_ref().unwrap().turns.len();
            // Layer 2 broke in its fourth turn or before. How many more there are depends on the machine.
            assert!(turns > 5, "{bad}: {turns} turns in {:?}", record.cell);
        }
        assert_eq!(run.status, RunStatus::Done);
    }
}

/// All probes are asked before the first is waited for. One ends before it has answered: sooner than the others are ready, and
/// later.
#[test]
fn a_probe_that_ends_while_others_prepare_is_named_and_the_others_go_on() {
    for bad in [
        "ends:ends-late=6,late=1",
        "ends:ends-late=6,late=90",
        "ends:ends-late=6",
    ] {
        let mut bench = Bench::new();
        let layers = ["mock", bad, "ends:late=30"];
        let mut request = bench.request(plan(&layers, 1, "control = false"));
        request.catalog = SLOW;
        let outcome = bench.run(request);
        assert!(settled(&outcome), "{bad}: {outcome:?}");
        assert_eq!(outcome.unwrap().lost, [bad]);
        let (run, trials) = bench.last();
        let at = run.layers.iter().position(|l| l.spec.to_string() == bad);
        let of_it: Vec<_> = trials.iter().filter(|t| Some(t.cell.layer) == at).collect();
        let failed: Vec<_> = of_it.iter().filter_map(|t| t.error.as_ref()).collect();
        assert_eq!(failed.len(), 2, "{bad}: it is started again once");
        assert!(
            failed.iter().all(|e| e.contains("the probe ended")),
            "{bad}: {failed:?}"
        );
        assert!(of_it[0].trial.is_some(), "{bad}");
        let others = trials.iter().filter(|t| Some(t.cell.layer) != at);
        let others: Vec<_> = others.collect();
        assert!(others.len() >= 16, "{bad}: eight blocks of two");
        assert!(others.iter().all(|t| t.trial.is_some()), "{bad}");
    }
}

#[test]
fn a_layer_that_is_gone_in_mid_round_is_lost_and_the_others_go_on() {
    let mut bench = Bench::new();
    let mut request = bench.request(beside("mock:fail-mount=on"));
    request.catalog = CATALOG;
    assert_eq!(bench.run(request).unwrap().lost, ["mock:fail-mount=on"]);
    let (_, trials) = bench.last();
    let of_it: Vec<_> = trials.iter().filter(|t| t.cell.layer == 2).collect();
    assert!(of_it.len() == 1 && of_it[0].trial.is_none());
    assert_eq!(of_it[0].flags, [LAYER_LOST]);
    let first: Vec<_> = trials.iter().filter(|t| t.cell.block == 0).collect();
    for record in first.into_iter().filter(|t| t.cell.layer != 2) {
        assert!(record.trial.as_ref().unwrap().turns.len() > 20);
    }
}

#[test]
fn a_layer_that_is_gone_after_a_trial_is_lost_with_that_trial() {
    let mut bench = Bench::new();
    // The third block has the places 6 to 8.
    let mut request = bench.request(beside("mock:die-after=6"));
    request.catalog = CATALOG;
    let outcome = bench.run(request).unwrap();
    assert_eq!(outcome.lost, ["mock:die-after=6"]);
    let (run, trials) = bench.last();
    let reason = run.layers[2].reason.as_deref().unwrap_or_default();
    assert!(
        reason.contains("has changed while it was measured"),
        "{reason}"
    );
    let of_it: Vec<_> = trials.iter().filter(|t| t.cell.layer == 2).collect();
    assert_eq!(of_it.len(), 3);
    // Other programs may have been at work.
    let lost = |t: &TrialRecord| t.flags.iter().any(|f| f == LAYER_LOST);
    assert!(of_it[1].trial.is_some() && !lost(of_it[1]));
    assert!(of_it[2].trial.is_none(), "nothing says what was measured");
    assert_eq!(of_it[2].flags, [LAYER_LOST]);

    let report = layermark_report::Report::build(&run, &trials);
    let rows = report.results.iter();
    let verdicts: Vec<_> = rows.map(|r| r.verdict.word()).collect();
    assert_eq!(verdicts, ["baseline", "slower", "not trusted"]);
    let proof = report.trust.iter().find(|t| t.id == "proof").unwrap();
    assert!(
        proof
            .text
            .contains("lost while it was measured: `mock:die-after=6`")
    );
    assert!(!report.trustworthy());
}

#[test]
fn one_failed_trial_costs_a_pair_and_no_more() {
    let mut bench = Bench::new();
    assert!(settled(
        &bench.run(bench.request(beside("mock:error-after=1")))
    ));
    let (run, trials) = bench.last();
    assert_eq!(run.layers[2].status, LayerStatus::Ready);
    let errors: Vec<_> = trials.iter().filter_map(|t| t.error.as_deref()).collect();
    assert_eq!(
        errors,
        ["an error, as the mock was asked to; hint: use another layer"]
    );
    assert_eq!(
        trials.iter().filter(|t| t.cell.layer == 2).count(),
        9,
        "eight good ones are needed"
    );
}

#[test]
fn a_baseline_that_is_lost_ends_the_run_and_what_was_measured_stays() {
    let mut bench = Bench::new();
    let plan = plan(&["mock:die-after=2", "mock:ns=2000"], 1, "");
    let error = bench.run(bench.request(plan)).unwrap_err();
    assert!(
        matches!(error, LabError::Baseline { .. }) && error.exit_code() == 3,
        "{error}"
    );
    let (run, trials) = bench.last();
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(
        trials
            .iter()
            .filter(|t| t.cell.layer == 0 && t.trial.is_some())
            .count(),
        4
    );
    assert!(trials.len() >= 10);
}

#[test]
fn with_nothing_left_to_compare_the_run_ends() {
    let mut bench = Bench::new();
    let plan = plan(&["mock", "mock:fail-open=on"], 1, "");
    let error = bench.run(bench.request(plan)).unwrap_err();
    assert!(
        matches!(error, LabError::NoLayers { .. }) && error.exit_code() == 3,
        "{error}"
    );
    assert!(
        error.to_string().contains("the mock was asked to"),
        "{error}"
    );
    assert_eq!(bench.last().0.status, RunStatus::Failed);
}

#[test]
fn a_full_layer_is_left_out_and_a_full_disk_ends_the_run() {
    let mut bench = Bench::new();
    let mut request = bench.request(beside("mock:error-after=0"));
    request.catalog = CATALOG;
    assert!(settled(&bench.run(request)));
    let (run, trials) = bench.last();
    assert!(
        run.layers[2]
            .reason
            .as_ref()
            .unwrap()
            .contains("No space left on device")
    );
    assert!(run.layers[2].hint.as_ref().unwrap().contains("--scale"));
    assert_eq!(trials.iter().filter(|t| t.cell.layer == 2).count(), 1);

    let mut request = bench.request(plan(&["mock:error-after=0", "mock:ns=2000"], 1, ""));
    request.catalog = CATALOG;
    let error = bench.run(request).unwrap_err();
    assert!(matches!(error, LabError::DiskFull { .. }), "{error}");
    let (run, trials) = bench.last();
    assert_eq!(run.status, RunStatus::Failed);
    assert!(
        trials
            .last()
            .unwrap()
            .error
            .as_ref()
            .unwrap()
            .contains("No space left")
    );
    assert!(
        error
            .hint()
            .unwrap()
            .contains(&format!("--resume {}", run.id))
    );
}

#[test]
fn two_runs_at_once_in_one_directory_are_refused() {
    let mut bench = Bench::new();
    let other = layermark_layers::workdir::WorkDir::create(&bench.dir()).unwrap();
    let request = bench.request(plan(&["mock", "mock:ns=2000"], 1, ""));
    let error = layermark_lab::run(request.clone(), &mut bench.store, &Stop::new(), &mut |_| {})
        .unwrap_err();
    assert!(
        error.to_string().contains("another layermark run"),
        "{error}"
    );
    assert_eq!(error.exit_code(), 2);
    assert!(other.path().exists());
    assert!(bench.store.list(9).unwrap().is_empty(), "it was not begun");
    drop(other);
    assert!(settled(&bench.run(request)));
}

#[test]
fn a_directory_with_files_in_it_keeps_them() {
    let mut bench = Bench::new();
    let mine = bench.temp.path().join("mine");
    std::fs::create_dir(&mine).unwrap();
    std::fs::write(mine.join("letter"), "dear").unwrap();
    let mut request = bench.request(plan(&["mock", "mock:ns=2000"], 1, ""));
    request.dir = mine.clone();
    assert!(settled(&bench.run(request)));
    assert_eq!(
        std::fs::read_to_string(mine.join("letter")).unwrap(),
        "dear"
    );
    assert_eq!(std::fs::read_dir(&mine).unwrap().count(), 1);
}

#[test]
fn bad_directories_and_sizes_are_refused_before_anything_is_made() {
    let mut bench = Bench::new();
    let good = plan(&["mock", "mock:ns=2000"], 1, "");
    let mut gone = bench.request(good.clone());
    gone.dir = bench.temp.path().join("gone");
    let error = bench.run(gone).unwrap_err();
    assert!(
        matches!(error, LabError::Dir { .. }) && error.exit_code() == 2,
        "{error}"
    );
    let mut huge = good;
    // As large as a terabyte of read file, packaged or not, on whatever disk this is.
    huge.layers = vec!["native".parse().unwrap()];
    huge.work[0].params["file_size"] = 1_000_000_000_000_000_u64.into();
    huge.work[0].params["op"] = "write".into();
    let error = bench.run(bench.request(huge)).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    assert!(
        matches!(
            error,
            LabError::Space { .. } | LabError::Point(_) | LabError::Tmpfs { .. }
        ),
        "{error}"
    );
    assert!(bench.store.list(9).unwrap().is_empty());
}

#[test]
fn memory_is_not_taken_for_a_disk() {
    let memory = std::path::Path::new("/dev/shm");
    let is_tmpfs = layermark_layers::mounts::holding(memory).is_ok_and(|m| m.fs == "tmpfs");
    let Some(temp) = tempfile::tempdir_in(memory).ok().filter(|_| is_tmpfs) else {
        eprintln!("skipped: no tmpfs that can be written at /dev/shm");
        return;
    };
    let mut bench = Bench::new();
    let mut request = bench.request(plan(&["native", "mock"], 1, ""));
    request.dir = temp.path().into();
    let error = bench.run(request).unwrap_err();
    assert!(
        matches!(error, LabError::Tmpfs { .. }) && error.exit_code() == 2,
        "{error}"
    );
    assert!(error.hint().unwrap().contains("--allow-tmpfs"));
    let mut mock = bench.request(plan(&["mock", "mock:ns=2000"], 1, ""));
    mock.dir = temp.path().into();
    assert!(settled(&bench.run(mock)), "no disk is meant");
}
