//! In which order a run measures, and when it ends.

use std::collections::BTreeSet;

use crate::common::{self, Bench, CATALOG, plan, ratio, settled};
use layermark_lab::{Ended, Event, LabError, LookEvents, Schedule};
use layermark_model::{ForeignWrites, LayerStatus, RunStatus, TrialRecord, flags::WRITE_BACK};
use layermark_stats::{Pair, Verdict, compare_all, judge};

#[test]
fn upkeep_is_that_of_the_turns_alone() {
    let mut bench = Bench::new();
    // The probe of the last one has work between its turns.
    let layers = ["mock", "mock:ns=2000", "mock:ns=2000,take=1ms"];
    let mut request = bench.request(plan(&layers, 1, "control = false"));
    request.catalog = common::CATALOG;
    assert!(settled(&bench.run(request)));
    let (_, trials) = bench.last();
    for layer in [1, 2] {
        let of_it = trials.iter().filter(|t| t.cell.layer == layer);
        let upkeep: Vec<u64> = of_it.map(|t| t.upkeep_ns).collect();
        // Without what was used in lead-ins, between two turns and after the last turn.
        assert_eq!(upkeep, [common::DURING * 4 / 5; 8]);
    }
}

/// Trap of short turns: what another layer has left dirty is written in this one's turns.
#[test]
fn a_neighbours_write_back_in_the_turns_of_a_reading_layer_is_flagged() {
    let mut bench = Bench::new();
    let layers = ["mock", "mock:fail-facts=on"];
    let mut request = bench.request(plan(&layers, 1, "control = false\nblocks = 2"));
    request.catalog = common::CATALOG;
    assert!(settled(&bench.run(request)));
    let (_, trials) = bench.last();
    assert_eq!(trials.len(), 4);
    for record in &trials {
        let trial = record.trial.as_ref().unwrap();
        let flagged = record.flags.iter().any(|flag| flag == WRITE_BACK);
        if record.cell.layer == 0 {
            assert_eq!((trial.foreign_writes, flagged), (None, false));
            continue;
        }
        let turns = trial.turns.len() as u64;
        let bytes = turns * (8 << 20);
        assert_eq!(trial.foreign_writes, Some(ForeignWrites { turns, bytes }));
        assert!(flagged, "{:?}", record.flags);
    }
}

/// A step that took longer than a block has room for in the first one, and is short from then on.
#[test]
fn a_step_that_had_one_round_has_one_in_later_blocks() {
    let step = "name = 'test'\nlayers = ['mock:ns=400000000,step=1:0.001', 'mock:ns=500000000,step=1:0.001']\n\
        seed = 7\nsessions = 1\ncontrol = false\nblocks = 3\n[[work]]\nworkload = 'steps'\nrun = 'true'\n";
    let mut bench = Bench::new();
    let request = bench.request(layermark_model::Plan::from_toml(step).unwrap());
    bench.run(request).unwrap();
    let (_, trials) = bench.last();
    let turns = trials.iter().map(|t| t.trial.as_ref().unwrap().turns.len());
    assert_eq!(turns.collect::<Vec<_>>(), [1; 6]);
}

/// Several threads in turns of 10 ms: nine rounds or so of two layers, at least eight.
#[test]
fn threads_take_turns_too() {
    let mut bench = Bench::new();
    let mut plan = plan(&["mock", "mock:ns=2000"], 1, "control = false\nblocks = 1");
    plan.work[0].params.insert("threads".into(), 4.into());
    let request = bench.request(plan);
    bench.run(request).unwrap();
    let (_, trials) = bench.last();
    for record in &trials {
        assert_eq!(rounds(record), [0, 1, 2, 3, 4, 5, 6, 7]);
        let turns = &record.trial.as_ref().unwrap().turns;
        assert!(
            turns.iter().all(|t| t.elapsed_ns == 10_000_000),
            "{turns:?}"
        );
    }
}

/// Turns of a trial by their rounds.
fn rounds(record: &TrialRecord) -> Vec<u32> {
    let turns = &record.trial.as_ref().unwrap().turns;
    turns.iter().map(|t| t.round).collect()
}

#[test]
fn layers_take_turns_until_the_share_of_time_is_spent() {
    let mut bench = Bench::new();
    // A turn of the mock takes what it is asked to, or one operation of 100 us, 10 or 400 ms.
    let layers = ["mock:ns=100000", "mock:ns=10000000"];
    let request = bench.request(plan(&layers, 1, "control = false\nblocks = 1"));
    bench.run(request).unwrap();
    let (_, trials) = bench.last();
    // 12 ms a round, twice 50 ms to spend.
    assert_eq!(rounds(&trials[0]), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(rounds(&trials[0]), rounds(&trials[1]), "rounds make pairs");
    let trial = trials[0].trial.as_ref().unwrap();
    let sum: u64 = trial.turns.iter().map(|t| t.elapsed_ns).sum();
    assert_eq!((trial.passes.len(), trial.elapsed_ns()), (1, sum));
    // A few rounds in any case, but not for ever.
    let layers = ["mock:ns=100000", "mock:ns=400000000"];
    let request = bench.request(plan(&layers, 1, "control = false\nblocks = 1"));
    bench.run(request).unwrap();
    assert_eq!(rounds(&bench.last().1[0]), [0]);
    let request = bench.request(plan(
        &["mock"],
        1,
        "control = false\nblocks = 1\nturn = '20ms'",
    ));
    bench.run(request).unwrap();
    assert_eq!(rounds(&bench.last().1[0]), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn what_cannot_be_divided_is_one_stretch() {
    let mut bench = Bench::new();
    let mut plan = plan(&["mock", "mock:ns=2000"], 1, "control = false\nblocks = 1");
    plan.work[0].params.insert("passes".into(), 3.into());
    bench.run(bench.request(plan)).unwrap();
    for record in bench.last().1 {
        assert_eq!(rounds(&record), [0; 0]);
        assert!(record.trial.unwrap().elapsed_ns() >= 50_000_000);
    }
}

#[test]
fn a_plan_may_ask_for_exactly_so_many_blocks() {
    for blocks in [3, 12] {
        let mut bench = Bench::new();
        let more = format!("control = false\nblocks = {blocks}");
        let request = bench.request(plan(&["mock", "mock:ns=2000"], 2, &more));
        assert!(settled(&bench.run(request)));
        assert_eq!(bench.last().1.len(), blocks * 4);
    }
}

#[test]
fn eight_blocks_are_enough_however_many_verdicts_are_asked_on() {
    for (confirm, blocks) in [("", 8), ("confirm = ['read 512 of 32K, warm']", 8)] {
        let mut bench = Bench::new();
        let more = format!("control = false\n{confirm}");
        let request = bench.request(plan(&["mock", "mock:ns=2000"], 3, &more));
        assert!(settled(&bench.run(request)));
        assert_eq!(bench.last().1.len(), blocks * 3 * 2, "{confirm}");
    }
    let mut bench = Bench::new();
    let more = "confirm = ['raed 512 of 32K, warm']";
    let request = bench.request(plan(&["mock", "mock:ns=2000"], 3, more));
    let error = bench.run(request).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(
        error.to_string().contains("`raed 512 of 32K, warm`"),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("`read 512 of 32K, warm`"));
}

#[test]
fn trials_follow_the_schedule_of_the_seed() {
    let mut bench = Bench::new();
    let plan = plan(&["mock", "mock:ns=2000"], 3, "");
    let mut outcome = bench.run(bench.request(plan)).unwrap();
    let (run, trials) = bench.last();
    // What a point needs is not stored.
    for point in &mut outcome.run.points {
        assert!(!point.needs.packaged.is_empty());
        point.needs = std::sync::Arc::default();
    }
    assert_eq!(run, outcome.run);
    let names: Vec<&str> = run.layers.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["mock", "mock:ns=2000", "mock (control)"]);
    assert!(run.layers[2].control && !run.layers[0].control);
    assert!(
        run.layers
            .iter()
            .all(|l| l.status == LayerStatus::Ready && !l.facts.is_empty())
    );
    // Eight blocks are the fewest; the mock is exact.
    let schedule = Schedule::new(7, 3, 3);
    let mut expected = Vec::new();
    for block in 0..8 {
        for point in schedule.points(block) {
            expected.extend(
                schedule
                    .turns(block, point)
                    .into_iter()
                    .map(|layer| (block, point, layer)),
            );
        }
    }
    let made: Vec<_> = trials
        .iter()
        .map(|t| (t.cell.block, t.cell.point, t.cell.layer))
        .collect();
    assert_eq!(made, expected);
    assert!(
        trials
            .iter()
            .zip(0..)
            .all(|(t, seq)| t.seq == seq && t.error.is_none())
    );
    assert!(trials.windows(2).all(|t| t[0].at_ms <= t[1].at_ms));
    assert!((ratio(&trials, 1, 0).ratio - 2.0).abs() < 1e-3);
    assert_eq!(
        (run.status, outcome.ended, outcome.exit_code()),
        (RunStatus::Done, Ended::Settled, 0)
    );
    assert!(run.ended_ms.is_some() && run.plan.seed == Some(7) && run.plan.precision == Some(0.05));
}

#[test]
fn events_come_in_order_and_tell_how_much_is_left() {
    let mut bench = Bench::new();
    bench
        .run(bench.request(plan(&["mock", "mock:ns=2000"], 1, "control = false")))
        .unwrap();
    let kinds: Vec<&str> = bench.events.iter().map(kind).collect();
    assert_eq!(kinds[..5], ["run", "dir", "ready", "ready", "session"]);
    assert_eq!(kinds[5..21], ["trial"; 16]);
    assert_eq!(kinds[21..], ["settled", "end"]);
    let Event::TrialDone {
        done,
        planned,
        left,
        ..
    } = &bench.events[10]
    else {
        panic!()
    };
    assert_eq!((*done, *planned), (6, 16));
    assert!(
        left.is_none(),
        "without a budget nobody knows how many blocks it takes"
    );
    let Event::TrialDone { left: Some(_), .. } = &bench.events[15] else {
        panic!("three blocks tell: {:?}", bench.events[15])
    };
    let Event::PointSettled {
        blocks, half_width, ..
    } = &bench.events[21]
    else {
        panic!()
    };
    assert!(*blocks == 8 && *half_width < 0.01);
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::RunStarted { .. } => "run",
        Event::WorkDir { .. } => "dir",
        Event::LayerReady { .. } => "ready",
        Event::LayerFailed { .. } => "failed",
        Event::SessionStarted { .. } => "session",
        Event::TrialDone { .. } => "trial",
        Event::PointSettled { .. } => "settled",
        Event::Looked { .. } => "looked",
        Event::Note(_) => "note",
        Event::Warning { .. } => "warning",
        Event::RunEnded { .. } => "end",
    }
}

#[test]
fn results_so_far_are_told_at_looks_and_only_if_they_are_asked_for() {
    for looks in [LookEvents::Emitted, LookEvents::Silent] {
        let mut bench = Bench::new();
        let plan = plan(&["mock", "mock:noise=0.1,ns=1300"], 1, "blocks = 12");
        let request = layermark_lab::Request {
            looks,
            ..bench.request(plan)
        };
        assert!(settled(&bench.run(request)));
        let looked = bench.events.iter().filter_map(|event| match event {
            Event::Looked {
                run,
                trials,
                blocks,
            } => Some((run.status, trials.len(), *blocks)),
            _ => None,
        });
        let looked: Vec<_> = looked.collect();
        // All trials of native, its control and the layer.
        let expected = [8, 11].map(|n| (RunStatus::Running, 3 * n as usize, n));
        let asked = looks == LookEvents::Emitted;
        assert_eq!(looked, if asked { &expected[..] } else { &[] });
    }
}

#[test]
fn a_layer_against_itself_is_the_same_and_a_true_ratio_is_found() {
    let mut bench = Bench::new();
    let plan = plan(
        &[
            "mock:noise=0.03",
            "mock:noise=0.03,ns=1300",
            "mock:noise=0.03,ns=1020",
        ],
        2,
        "precision = 0.025",
    );
    let mut request = bench.request(plan);
    request.catalog = CATALOG;
    assert!(settled(&bench.run(request)));
    let (_, trials) = bench.last();
    let verdict = |layer| {
        let family: Vec<_> = (0..2)
            .map(|point| Some(ratio(&trials, layer, point)))
            .collect();
        judge(&family, 0.05)
            .iter()
            .map(|j| j.verdict)
            .collect::<Vec<_>>()
    };
    assert_eq!(verdict(1), [Verdict::Slower; 2]);
    assert_eq!(verdict(3), [Verdict::Same; 2], "the control");
    assert!((ratio(&trials, 1, 0).ratio - 1.3).abs() < 0.05);
    let all: BTreeSet<u32> = trials.iter().map(|t| t.cell.block).collect();
    assert!(all.len() < 40, "3 % noise needs few blocks: {}", all.len());
}

#[test]
fn a_point_that_is_known_rests_while_others_go_on() {
    let mut bench = Bench::new();
    let mut request = bench.request(plan(&["mock", "mock:ns=2000", "mock:noise=0.2"], 1, ""));
    request.catalog = CATALOG;
    assert!(settled(&bench.run(request)));
    let (_, trials) = bench.last();
    let count = |layer| trials.iter().filter(|t| t.cell.layer == layer).count();
    assert_eq!(
        (count(1), count(3)),
        (8, 8),
        "exact: settled at the first look"
    );
    assert!(count(2) > 15, "{}", count(2));
    assert_eq!(count(0), count(2), "native stays while a layer needs it");
}

#[test]
fn sessions_divide_the_blocks_and_set_the_layers_up_afresh() {
    let mut bench = Bench::new();
    // Scripted layers are set up in no time, so it is done three times whatever the profile.
    let mut plan = plan(&["mock", "mock:ns=2000"], 1, "control = false");
    plan.sessions = None;
    assert!(settled(&bench.run(bench.request(plan))));
    let (_, trials) = bench.last();
    let session = |block| {
        trials
            .iter()
            .filter(|t| t.cell.block == block)
            .map(|t| t.cell.session)
            .collect::<Vec<_>>()
    };
    let sessions: Vec<_> = (0..8).map(session).collect();
    let [a, b, c] = [[0, 0], [1, 1], [2, 2]];
    assert_eq!(sessions, [a, a, a, b, b, b, c, c]);
    assert_eq!(
        bench.events.iter().filter(|e| kind(e) == "ready").count(),
        6
    );
}

#[test]
fn nothing_is_set_up_for_a_run_that_is_over() {
    let mut bench = Bench::new();
    // Six blocks are two whole sessions.
    let layers = ["mock:take=20ms", "mock:take=20ms,ns=2000"];
    let mut plan = plan(&layers, 1, "control = false\nblocks = 6");
    plan.sessions = None;
    assert!(settled(&bench.run(bench.request(plan))));
    let (_, trials) = bench.last();
    let sessions: BTreeSet<u32> = trials.iter().map(|t| t.cell.session).collect();
    let started = bench.events.iter().filter(|e| kind(e) == "session");
    assert_eq!(started.count(), sessions.len());
}

#[test]
fn later_blocks_are_divided_into_sessions_too() {
    let mut bench = Bench::new();
    let layers = ["mock:take=20ms", "mock:take=20ms,noise=0.2"];
    let mut plan = plan(&layers, 1, "control = false");
    plan.sessions = None;
    assert!(settled(&bench.run(bench.request(plan))));
    let (_, trials) = bench.last();
    let mut blocks = std::collections::BTreeMap::<u32, BTreeSet<u32>>::new();
    for cell in trials.iter().map(|t| t.cell) {
        blocks.entry(cell.session).or_default().insert(cell.block);
    }
    let all: usize = blocks.values().map(BTreeSet::len).sum();
    let longest = blocks.values().map(BTreeSet::len).max();
    // On a busy machine setting up takes longer, so sessions do.
    assert!(all > 15 && longest < Some(all / 2), "{blocks:?}");
    let (_, whole) = blocks.pop_last().map(|last| (last, blocks)).unwrap();
    assert!(whole.values().all(|b| b.len() >= 3), "{whole:?}");
}

#[test]
fn a_usual_budget_is_exceeded_for_the_blocks_of_an_interval() {
    let mut bench = Bench::new();
    let slow = plan(
        &["mock:take=20ms", "mock:take=20ms,ns=2000"],
        2,
        "budget = '300ms'\ncontrol = false",
    );
    // A command's own, which nobody has named.
    let usual = |bench: &Bench, plan| layermark_lab::Request {
        usual_budget: true,
        ..bench.request(plan)
    };
    let outcome = bench.run(usual(&bench, slow)).unwrap();
    assert_eq!(outcome.run.status, RunStatus::Done);
    let made = bench.last().1.len();
    assert!((3 * 4..=8 * 4).contains(&made), "{made}");
    assert!(bench.warnings().is_empty(), "{:?}", bench.warnings());
    let mut bench = Bench::new();
    let tiny = plan(
        &["mock", "mock:noise=2"],
        2,
        "budget = '1ms'\nprecision = 0.001",
    );
    let mut request = usual(&bench, tiny);
    request.catalog = CATALOG;
    assert_eq!(bench.run(request.clone()).unwrap().ended, Ended::Budget);
    assert_eq!(bench.last().1.len(), 3 * 4, "all but the control");
    request.usual_budget = false;
    let refused = bench.run(request).unwrap_err();
    assert!(matches!(refused, LabError::Budget { .. }), "{refused}");
}

#[test]
fn a_wide_point_ends_at_the_most_blocks() {
    let mut bench = Bench::new();
    let plan = plan(
        &["mock", "mock:noise=2"],
        1,
        "control = false\nprecision = 0.001",
    );
    let mut request = bench.request(plan);
    request.catalog = CATALOG;
    assert_eq!(bench.run(request).unwrap().ended, Ended::Cap);
    assert_eq!(bench.last().1.len() as u32, 2 * layermark_lab::MAX_BLOCKS);
}

#[test]
fn a_read_only_layer_leaves_writing_out() {
    let mut bench = Bench::new();
    let mut plan = plan(&["mock", "mock:read-only=on"], 1, "control = false");
    let mut write = plan.work[0].clone();
    write.params["op"] = "write".into();
    plan.work.push(write);
    assert!(settled(&bench.run(bench.request(plan))));
    let (run, trials) = bench.last();
    assert!(run.layers[1].read_only);
    assert!(
        trials
            .iter()
            .all(|t| run.points[t.cell.point].text("op") == "read")
    );
    assert_eq!(trials.len(), 16);
}

#[test]
fn the_baseline_alone_can_be_measured() {
    let mut bench = Bench::new();
    assert!(settled(&bench.run(bench.request(plan(
        &["mock"],
        1,
        "control = false"
    )))));
    assert_eq!(bench.last().1.len(), 8);
}

#[test]
fn a_replay_has_the_order_of_the_first_run() {
    let mut bench = Bench::new();
    let mut first = plan(&["mock", "mock:ns=2000"], 3, "");
    first.seed = None;
    bench.run(bench.request(first)).unwrap();
    let (run, trials) = bench.last();
    let mut replay = layermark_lab::Request::replay(&run, "/proc/self/exe");
    replay.silence = bench.request(run.plan.clone()).silence;
    bench.run(replay).unwrap();
    let (again, more) = bench.last();
    assert!(again.id != run.id && again.seed == run.seed);
    let cells = |t: &[layermark_model::TrialRecord]| t.iter().map(|t| t.cell).collect::<Vec<_>>();
    assert_eq!(cells(&trials), cells(&more));
}

#[test]
fn a_label_is_the_name_of_a_layer() {
    let mut bench = Bench::new();
    let labelled = bench
        .run(bench.request(plan(&["mock,label=base", "mock,ns=2,label=other"], 1, "")))
        .unwrap();
    let names: Vec<&str> = labelled
        .run
        .layers
        .iter()
        .map(|l| l.name.as_str())
        .collect();
    assert_eq!(names, ["base", "other", "base (control)"]);
}

#[test]
fn what_is_not_named_is_every_layer_and_what_is_twice_is_refused() {
    let mut bench = Bench::new();
    let mut request = bench.request(plan(&[], 1, ""));
    request.catalog = CATALOG;
    let outcome = bench.run(request).unwrap();
    let names: Vec<&str> = outcome.run.layers.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(
        names,
        ["mock", "mock (control)"],
        "all that this catalogue has"
    );
    let twice = bench
        .run(bench.request(plan(&["mock", "mock"], 1, "")))
        .unwrap_err();
    assert!(matches!(twice, LabError::DuplicateLayer(_)) && twice.exit_code() == 2);
    for layers in [
        ["mock,label=a", "mock,ns=2,label=a"],
        ["mock,label=native,ns=2", "native"],
    ] {
        let same = bench.run(bench.request(plan(&layers, 1, ""))).unwrap_err();
        assert!(matches!(same, LabError::SameName { .. }) && same.exit_code() == 2);
        let hint = same.hint().unwrap_or_default();
        assert!(
            hint.contains("label=a-2") || hint.contains("label=native-2"),
            "{hint}"
        );
    }
    let mut same = plan(&["mock"], 1, "");
    same.work.push(same.work[0].clone());
    let same = bench.run(bench.request(same)).unwrap_err();
    assert!(matches!(same, LabError::DuplicatePoint { .. }) && same.exit_code() == 2);
    let mut unknown = plan(&["mock"], 1, "");
    unknown.work[0].workload = "fiel".into();
    let unknown = bench.run(bench.request(unknown)).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "unknown workload `fiel`: did you mean `file`?"
    );
    assert_eq!(bench.store.list(9).unwrap().len(), 1, "nothing was begun");
}

/// The disk gets slower by 15 % from the first turn to the last, and the layer always costs 5 % more.
#[test]
fn a_disk_that_drifts_hides_no_difference() {
    const BLOCKS: u32 = 12;
    let compare = |order: &[(u32, usize)]| {
        let mut took = vec![[Vec::new(), Vec::new()]; BLOCKS as usize];
        for (turn, (block, layer)) in order.iter().enumerate() {
            let disk = 1.0 + 0.15 * turn as f64 / order.len() as f64;
            took[*block as usize][*layer].push([1.0e-6, 1.05e-6][*layer] * disk);
        }
        let pairs = (0..BLOCKS).zip(&took).map(|(block, [native, layer])| {
            let rounds = layer.iter().zip(native).map(|(l, n)| [*l, *n]);
            Pair::of_rounds((0, block), &rounds.collect::<Vec<_>>(), &[])
        });
        let mut compared = compare_all(&[pairs.collect::<Vec<_>>().into()], 0.95, 1);
        compared.remove(0).unwrap()
    };
    let (schedule, mut order) = (Schedule::new(7, 2, 1), Vec::new());
    for block in 0..BLOCKS {
        let first = schedule.turns(block, 0);
        for round in 0..8 {
            let layers = schedule.round(block, 0, &first, round);
            order.extend(layers.into_iter().map(|layer| (block, layer)));
        }
    }
    let found = compare(&order).ratio_interval.unwrap();
    assert!(found.low > 1.04 && found.high < 1.06, "{found:?}");
    // One after the other: the layer while the disk is fast.
    order.sort_by_key(|(_, layer)| std::cmp::Reverse(*layer));
    let hidden = compare(&order);
    assert!(hidden.ratio < 1.0, "{}", hidden.ratio);
}
