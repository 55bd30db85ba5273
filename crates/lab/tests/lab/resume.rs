//! A run that is stopped anywhere and resumed comes to what an uninterrupted one comes to.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Bench, CATALOG, plan, settled};
use layermark_lab::{Ended, Event, LabError, Resume, Stop};
use layermark_model::{
    BASELINE, Plan, Run, RunStatus, TrialRecord,
    flags::{CUT_OFF, MADE_AGAIN},
};
use layermark_report::Report;

fn noisy() -> Plan {
    plan(
        &[
            "mock:noise=0.02",
            "mock:noise=0.02,ns=1500",
            "mock:noise=0.12",
        ],
        2,
        "",
    )
}

/// A run of it that nothing interrupts.
fn whole() -> (Run, Vec<TrialRecord>) {
    let mut bench = Bench::new();
    let mut request = bench.request(noisy());
    request.catalog = CATALOG;
    assert!(settled(&bench.run(request)));
    bench.last()
}

/// Which cells there are, and the value of the newest session in each.
fn cells(trials: &[TrialRecord]) -> BTreeMap<(u32, usize, usize), u64> {
    let mut cells = BTreeMap::new();
    for t in trials {
        // How many rounds there were depends on when it was stopped.
        let ns = t.trial.as_ref().unwrap().ns_per_op().unwrap().to_bits();
        cells.insert((t.cell.block, t.cell.point, t.cell.layer), ns);
    }
    cells
}

type Told = (String, String, usize, Option<f64>, Option<f64>);

/// What the report makes of it: blocks, ratio and value of each result.
fn told(report: &Report) -> Vec<Told> {
    let rows = report.results.iter();
    rows.map(|r| {
        let ratio = r.ratio.map(|e| e.estimate);
        (r.layer.clone(), r.label.clone(), r.blocks, ratio, r.value)
    })
    .collect()
}

#[test]
fn stopped_at_any_trial_and_resumed_is_the_same_run() {
    let (run, uninterrupted) = whole();
    let report = told(&Report::build(&run, &uninterrupted));
    let expected = cells(&uninterrupted);
    let per_layer: BTreeSet<usize> = (1..4)
        .map(|l| uninterrupted.iter().filter(|t| t.cell.layer == l).count())
        .collect();
    assert!(
        per_layer.len() > 1,
        "the layers must settle at different times to prove anything"
    );

    let total = uninterrupted.len() as u64;
    // Every place in the first block, every place around a look, and some between.
    let some = (6..total).step_by(total as usize / 3);
    let stops = (1..=4).chain(63..=65).chain(some).chain([total - 1]);
    for stop in stops {
        let mut bench = Bench::new();
        let mut request = bench.request(noisy());
        request.catalog = CATALOG;
        let first = bench.run_until(request, stop).unwrap();
        // Those of a block are told of while the next one is made ready, which is in hand then.
        assert!(
            (stop..stop + 8).contains(&first.trials),
            "{stop}: {first:?}"
        );
        assert_eq!(first.ended, Ended::Stopped);
        let stop = first.trials;
        assert_eq!(bench.last().0.status, RunStatus::Stopped);
        assert!(settled(&bench.resume(CATALOG)), "stopped after {stop}");
        let (run, trials) = bench.last();
        assert_eq!(cells(&trials), expected, "stopped after {stop} of {total}");
        assert_eq!(run.status, RunStatus::Done);
        // A group made again counts once, in the report as in the lab.
        let again = told(&Report::build(&run, &trials));
        assert_eq!(again, report, "stopped after {stop} of {total}");
        assert!(trials.iter().zip(0..).all(|(t, seq)| t.seq == seq));
        assert!(
            trials
                .iter()
                .all(|t| t.cell.session == u32::from(t.seq >= stop)),
            "set up afresh"
        );
        // A group that was cut in two is made again as a whole, so that its pairs are of one session.
        let mut sessions: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for t in trials.iter().filter(|t| t.seq >= stop) {
            sessions
                .entry((t.cell.block, t.cell.point))
                .or_default()
                .insert(t.cell.layer);
        }
        assert!(
            sessions.values().all(|layers| layers.contains(&0)),
            "native in each new group"
        );
    }
}

/// What is in the store when it is killed: the blocks that were stored, and maybe a part of one, since
/// each trial is committed by itself.
#[test]
fn a_block_that_was_stored_in_part_is_made_again() {
    let (run, uninterrupted) = whole();
    let report = told(&Report::build(&run, &uninterrupted));
    let flagged = |report: &Report, flag: &str| {
        let has = |flags: &[String]| flags.iter().any(|f| f == flag);
        report.trials.iter().filter(|t| has(&t.flags)).count()
    };
    for stored in [1, 3, 5, 10] {
        let mut bench = Bench::new();
        let mut killed = run.clone();
        killed.status = RunStatus::Running;
        killed.dir = bench.dir().canonicalize().unwrap().to_str().unwrap().into();
        bench.store.begin(&killed).unwrap();
        for record in &uninterrupted[..stored] {
            bench.store.trial(&killed.id, record).unwrap();
        }
        let ended = Run {
            status: RunStatus::Interrupted,
            ..killed.clone()
        };
        let before = Report::build(&ended, &uninterrupted[..stored]);
        // Trials without the baseline, or the baseline alone, have nothing to be compared with.
        let rest = &uninterrupted[stored - stored % 4..stored];
        let whole = rest.len() > 1 && rest.iter().any(|t| t.cell.layer == BASELINE);
        let cut_off = if whole { 0 } else { rest.len() };
        assert_eq!(flagged(&before, CUT_OFF), cut_off, "{stored} stored");
        bench.reopen();
        assert!(settled(&bench.resume(CATALOG)), "{stored} stored");
        let (again, trials) = bench.last();
        let after = Report::build(&again, &trials);
        assert_eq!(flagged(&after, CUT_OFF), 0, "{stored} stored");
        assert_eq!(flagged(&after, MADE_AGAIN), stored % 4, "{stored} stored");
        assert_eq!(cells(&trials), cells(&uninterrupted), "{stored} stored");
        assert_eq!(told(&after), report);
        // Two points of four layers each.
        let part = stored % 4;
        let twice = trials.len() - uninterrupted.len();
        assert_eq!(
            twice, part,
            "{stored} stored: only the block in hand is made again"
        );
    }
}

/// Ctrl-C in the first rounds of a block: one or two rounds are not what the block is to have, and a
/// trial that is stored is not made again.
#[test]
fn a_block_that_was_cut_short_is_made_again_as_a_whole() {
    let least = |trials: &[TrialRecord]| {
        let turns = trials.iter().map(|t| t.trial.as_ref().unwrap().turns.len());
        turns.min().unwrap()
    };
    // Trials of one point are told of while the next one is made ready, whose first round comes then.
    for stop in [1, 4] {
        let mut bench = Bench::new();
        let layers = ["mock", "mock:ns=2000"];
        let mut request = bench.request(plan(&layers, 2, "control = false\nblocks = 2"));
        request.catalog = CATALOG;
        let first = bench.run_until(request, stop).unwrap();
        assert_eq!(first.ended, Ended::Stopped);
        let (_, trials) = bench.last();
        assert_eq!(trials.len() as u64, first.trials);
        assert!(least(&trials) >= 8, "{stop}: {} rounds", least(&trials));
        assert!(settled(&bench.resume(CATALOG)), "stopped after {stop}");
        let (_, trials) = bench.last();
        assert_eq!(trials.len(), 8, "two layers, points and blocks");
        assert!(least(&trials) >= 8, "{stop}: {} rounds", least(&trials));
    }
}

#[test]
fn a_finished_run_and_an_unknown_one_cannot_be_resumed() {
    let mut bench = Bench::new();
    bench
        .run(bench.request(plan(&["mock", "mock:ns=2000"], 1, "")))
        .unwrap();
    let error = bench.resume(layermark_lab::Catalog::default()).unwrap_err();
    assert!(
        matches!(error, LabError::Finished { .. }) && error.exit_code() == 2,
        "{error}"
    );
    assert!(error.hint().unwrap().contains("--replay"));
    let mut empty = Bench::new();
    let error = empty.resume(CATALOG).unwrap_err();
    assert!(matches!(error, LabError::Store(_)) && error.exit_code() == 2);
}

#[test]
fn more_time_goes_on_with_a_run_that_has_ended() {
    let mut bench = Bench::new();
    let short = plan(
        &["mock", "mock:noise=2"],
        1,
        "budget = '700ms'\ncontrol = false\nprecision = 0.001",
    );
    let mut request = bench.request(short);
    request.catalog = CATALOG;
    let first = bench.run(request).unwrap().trials;
    let error = bench.resume_with(CATALOG, Some("soon")).unwrap_err();
    assert!(
        matches!(error, LabError::Plan(_)) && error.exit_code() == 2,
        "{error}"
    );
    let outcome = bench.resume_with(CATALOG, Some("4s")).unwrap();
    assert!(outcome.trials > first, "{first}");
    assert_eq!(outcome.run.status, RunStatus::Done);
    let (run, trials) = bench.last();
    assert_eq!(run.plan.budget.as_deref(), Some("4s"));
    assert_eq!(trials.len() as u64, outcome.trials);
    // Of a number of blocks that are all made there are no more.
    let mut bench = Bench::new();
    let blocks = plan(&["mock", "mock:ns=2000"], 1, "blocks = 2");
    bench.run(bench.request(blocks)).unwrap();
    let error = bench.resume_with(CATALOG, Some("1h")).unwrap_err();
    assert!(matches!(error, LabError::Finished { .. }), "{error}");
}

#[test]
fn another_machine_is_refused() {
    let mut bench = Bench::new();
    let stopped = bench
        .run_until(bench.request(plan(&["mock", "mock:ns=2000"], 1, "")), 3)
        .unwrap();
    let mut elsewhere = stopped.run;
    elsewhere.id = "ZZ".into();
    elsewhere.started_ms += 1;
    elsewhere.machine.cpus += 62;
    // Its process was killed.
    elsewhere.status = RunStatus::Running;
    bench.store.begin(&elsewhere).unwrap();
    let error = bench.resume(layermark_lab::Catalog::default()).unwrap_err();
    assert!(
        matches!(error, LabError::OtherMachine { .. }) && error.exit_code() == 4,
        "{error}"
    );
}

/// Its store can be changed by others, and its owner changes it while the caller looks.
#[test]
fn a_run_that_was_changed_after_it_was_looked_at_is_refused() {
    type Doctor = fn(&mut Run);
    let doctors: [Doctor; 4] = [
        |run| run.dir = "/root".into(),
        |run| run.layers[1].spec = "dir:/root".parse().unwrap(),
        |run| run.plan.layers.clear(),
        |run| {
            let params = &mut run.points[0].params;
            params.insert("url".into(), "http://[::1]/".into());
        },
    ];
    let mut bench = Bench::new();
    let request = bench.request(noisy());
    bench.run_until(request, 3).unwrap();
    let (run, _) = bench.last();
    let as_seen = |seen: &Run| Resume {
        seen: Some(Box::new(seen.clone())),
        catalog: CATALOG,
        ..Resume::new("last", "/proc/self/exe")
    };
    for doctor in doctors {
        let mut seen = run.clone();
        doctor(&mut seen);
        let error = bench.resume_as(as_seen(&seen)).unwrap_err();
        let told = error.to_string();
        assert!(told.contains("changed after it was looked at"), "{told}");
        assert_eq!(error.exit_code(), 2);
    }
    assert!(settled(&bench.resume_as(as_seen(&run))));
}

#[test]
fn asked_twice_it_ends_at_once_and_can_be_resumed() {
    let mut bench = Bench::new();
    // A trial that were not cut off would be given up for its silence, which is another error.
    let mut request = bench.request(plan(&["mock:take=1h", "mock:take=1h,ns=2000"], 1, ""));
    request.silence = std::time::Duration::from_secs(30);
    let stop = Stop::new();
    let mut on_event = |event| {
        if !matches!(event, Event::SessionStarted { .. }) {
            return;
        }
        let asking = stop.clone();
        std::thread::spawn(move || {
            // Until the first trial is under way.
            std::thread::sleep(std::time::Duration::from_secs(1));
            asking.ask();
            asking.ask();
        });
    };
    let error = layermark_lab::run(request, &mut bench.store, &stop, &mut on_event).unwrap_err();
    assert!(matches!(error, LabError::CutOff { .. }), "{error}");
    bench.nothing_left();
    let (run, trials) = bench.last();
    assert_eq!((run.status, trials.len()), (RunStatus::Stopped, 0));
}

#[test]
fn trials_that_no_run_can_have_are_refused_at_once() {
    type Doctor = fn(&mut TrialRecord);
    let doctors: [(&str, Doctor); 5] = [
        ("block 4294967295", |t| t.cell.block = u32::MAX),
        ("session 4294967295", |t| t.cell.session = u32::MAX),
        ("layer 7", |t| t.cell.layer = 7),
        ("point 9", |t| t.cell.point = 9),
        ("trial 9223372036854775807", |t| t.seq = i64::MAX as u64),
    ];
    for (why, doctor) in doctors {
        let mut bench = Bench::new();
        let request = bench.request(noisy());
        bench.run_until(request, 3).unwrap();
        let (run, trials) = bench.last();
        let mut more = trials[0].clone();
        more.seq = 1000;
        doctor(&mut more);
        bench.store.trial(&run.id, &more).unwrap();
        // At once: what is far off is not looked for in each block between, which would take hours.
        let error = bench.resume(CATALOG).unwrap_err();
        let told = error.to_string();
        assert!(
            told.contains("cannot be resumed") && told.contains(why),
            "{told}"
        );
        assert_eq!(error.exit_code(), 2);
    }
    // Far off and still possible: nothing is looked at between.
    let mut bench = Bench::new();
    let mut plan = noisy();
    plan.blocks = Some(10_000);
    let request = bench.request(plan);
    bench.run_until(request, 3).unwrap();
    let (run, trials) = bench.last();
    let mut more = trials[0].clone();
    (more.seq, more.cell.block) = (1000, 9_999);
    bench.store.trial(&run.id, &more).unwrap();
    assert!(bench.resume(CATALOG).is_ok());
}
