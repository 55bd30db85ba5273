use super::*;
use crate::{Pass, Trial, Turn};

fn trial(ns: u64, turns: &[(u32, u64)]) -> Trial {
    let turn = |(round, ns): &(u32, u64)| Turn {
        round: *round,
        elapsed_ns: *ns,
        ops: 1,
        ..Turn::default()
    };
    Trial {
        passes: vec![Pass {
            elapsed_ns: ns,
            ops: 1,
            ..Pass::default()
        }],
        turns: turns.iter().map(turn).collect(),
        ..Trial::default()
    }
}

fn record((session, block): (u32, u32), (layer, point): Site, ns: Option<u64>) -> TrialRecord {
    TrialRecord {
        cell: Cell {
            session,
            block,
            layer,
            point,
        },
        trial: ns.map(|ns| trial(ns, &[])),
        error: ns.is_none().then(|| "no".into()),
        ..TrialRecord::default()
    }
}

/// A pair as it was made.
struct Made {
    session: u32,
    rounds: Vec<[f64; 2]>,
}

impl Made {
    fn ratios(&self) -> Vec<f64> {
        self.rounds
            .iter()
            .map(|[here, there]| here / there)
            .collect()
    }
}

fn pairs(ledger: &Ledger, here: Site, there: Site) -> Vec<Made> {
    ledger.pairs(here, there, |(session, _), rounds, _| Made {
        session,
        rounds: rounds.to_vec(),
    })
}

fn ratios(here: &Trial, there: &Trial) -> Vec<f64> {
    let (here, there) = (Cost::of(here).unwrap(), Cost::of(there).unwrap());
    let rounds = here.raw.beside(&there.raw, true).into_iter();
    rounds.map(|[here, there]| here / there).collect()
}

#[test]
fn trials_of_a_group_that_was_cut_off_are_told_apart() {
    let mut ledger = Ledger::default();
    for (at, layer) in [
        ((0, 0), 0),
        ((0, 0), 1),
        ((0, 1), 0),
        ((1, 2), 1),
        ((1, 3), 1),
    ] {
        ledger.add(&record(at, (layer, 0), Some(10)));
    }
    ledger.add(&record((2, 2), (0, 0), Some(10)));
    ledger.add(&record((2, 2), (1, 0), Some(10)));
    let cut_off = |session, block| {
        let cell = Cell {
            session,
            block,
            layer: 0,
            point: 0,
        };
        ledger.cut_off(cell, 2)
    };
    assert_eq!((cut_off(0, 0), cut_off(2, 2)), (None, None));
    assert_eq!(cut_off(0, 1), Some(CUT_OFF), "native alone");
    assert_eq!(cut_off(1, 3), Some(CUT_OFF), "without native");
    assert_eq!(cut_off(1, 2), Some(MADE_AGAIN));
    let alone = Cell {
        session: 0,
        block: 1,
        layer: 0,
        point: 0,
    };
    assert_eq!(ledger.cut_off(alone, 1), None, "nothing to compare with");
}

#[test]
fn turns_of_the_same_round_make_a_pair() {
    let here = trial(500, &[(3, 80), (0, 20), (1, 60)]);
    let there = trial(100, &[(0, 10), (2, 7), (3, 20)]);
    let found = ratios(&here, &there);
    assert_eq!(found.len(), 2);
    assert!((found[0] - 2.0).abs() < 1e-12 && (found[1] - 4.0).abs() < 1e-12);
}

#[test]
fn parts_of_a_divided_block_pair_with_the_baseline_of_their_own() {
    let mut ledger = Ledger::default();
    let part = |layer: usize, rounds: &[(u32, u64)]| TrialRecord {
        trial: Some(trial(100, rounds)),
        ..record((0, 0), (layer, 0), Some(100))
    };
    for (layer, rounds) in [
        (0, [(0, 10), (1, 10)]),
        (1, [(0, 20), (1, 20)]),
        (0, [(2, 30), (3, 30)]),
        (2, [(2, 60), (3, 60)]),
    ] {
        ledger.add(&part(layer, &rounds));
    }
    for layer in [1, 2] {
        let found = pairs(&ledger, (layer, 0), (0, 0));
        let ratios = found[0].ratios();
        assert_eq!(ratios.len(), 2, "layer {layer}");
        assert!(ratios.iter().all(|r| (r - 2.0).abs() < 1e-12), "{ratios:?}");
    }
    // A trial whose rounds start again replaces the earlier one.
    ledger.add(&part(1, &[(0, 40), (1, 40)]));
    let found = pairs(&ledger, (1, 0), (0, 0));
    assert!((found[0].ratios()[0] - 4.0).abs() < 1e-12);
}

#[test]
fn without_common_rounds_the_trials_are_the_pair() {
    for (here, there) in [
        (trial(300, &[]), trial(100, &[])),
        (trial(300, &[(0, 9)]), trial(100, &[])),
        (trial(300, &[(0, 9)]), trial(100, &[(1, 9)])),
        (trial(300, &[(0, 0)]), trial(100, &[(0, 9)])),
    ] {
        let found = ratios(&here, &there);
        assert!(found.len() == 1 && (found[0] - 3.0).abs() < 1e-12);
    }
    let mut paced = trial(300, &[(0, 9)]);
    paced.response_ns = Some(50.0);
    assert!((ratios(&paced, &trial(100, &[(0, 9)]))[0] - 0.5).abs() < 1e-12);
    assert!(Cost::of(&Trial::default()).is_none());
}

#[test]
fn pairs_need_both_and_a_group_made_again_counts_once() {
    let mut ledger = Ledger::default();
    let (native, layer) = ((0, 0), (1, 0));
    ledger.add(&record((0, 0), native, Some(10)));
    ledger.add(&record((0, 0), layer, Some(20)));
    ledger.add(&record((0, 1), native, Some(10)));
    ledger.add(&record((1, 1), layer, Some(90)));
    let found = pairs(&ledger, layer, native);
    assert_eq!(found.len(), 1, "a pair of two sessions is none");
    assert_eq!(ledger.tried(1, 0), [1]);
    ledger.add(&record((1, 1), native, Some(30)));
    ledger.add(&record((0, 1), native, Some(99)));
    let found = pairs(&ledger, layer, native);
    assert_eq!((found.len(), found[1].session), (2, 1));
    assert!(
        (found[1].rounds[0][1] - 30.0).abs() < 1e-12,
        "the older one is late"
    );
}

/// A block of layers whose turns take so long in these two rounds.
fn of_rounds(trials: &[(usize, u64, [u32; 2])]) -> Ledger {
    let mut ledger = Ledger::default();
    for &(layer, ns, rounds) in trials {
        let turns = rounds.map(|round| (round, ns));
        ledger.add(&TrialRecord {
            trial: Some(trial(ns, &turns)),
            ..record((0, 0), (layer, 0), Some(ns))
        });
    }
    ledger
}

#[test]
fn the_baseline_costs_what_it_did_in_the_part_of_the_other() {
    let ledger = of_rounds(&[
        (0, 100, [0, 1]),
        (1, 300, [0, 1]),
        (0, 200, [2, 3]),
        (2, 500, [2, 3]),
    ]);
    let values = |layer| pairs(&ledger, (layer, 0), (0, 0))[0].rounds.clone();
    assert_eq!(values(1), [[300.0, 100.0]; 2]);
    assert_eq!(values(2), [[500.0, 200.0]; 2]);
    let totals = |layer| ledger.totals((layer, 0), (0, 0));
    let both = |here, there| (0, vec![[[here, 1.0], [there, 1.0]]; 2]);
    assert_eq!(totals(1), [both(300.0, 100.0)]);
    assert_eq!(totals(2), [both(500.0, 200.0)]);
}

/// Native, a layer and the control in two rounds, and native with another layer in two more.
fn with_control() -> Ledger {
    of_rounds(&[
        (0, 100, [0, 1]),
        (1, 300, [0, 1]),
        (3, 120, [0, 1]),
        (0, 200, [2, 3]),
        (2, 500, [2, 3]),
    ])
}

#[test]
fn a_layer_is_compared_with_the_control_where_that_took_turns_with_it() {
    let mut ledger = with_control();
    let both = |ledger: &Ledger, layer| {
        ledger.pairs((layer, 0), (0, 0), |_, native, control| {
            (native.to_vec(), control.to_vec())
        })
    };
    let plain = both(&ledger, 1);
    assert!(plain[0].1.is_empty(), "nobody has named a control");
    ledger.set_control(Some(3));
    let expected = (vec![[300.0, 100.0]; 2], vec![[300.0, 120.0]; 2]);
    assert_eq!(both(&ledger, 1), [expected]);
    assert_eq!(
        ledger.totals((1, 0), (0, 0)),
        [(0, vec![[[300.0, 1.0], [220.0, 2.0]]; 2])]
    );
    assert!(both(&ledger, 2)[0].1.is_empty(), "it is in another part");
    let native = [[120.0, 100.0]; 2];
    assert_eq!(both(&ledger, 3), [(native.to_vec(), Vec::new())]);
    assert!(ledger.counts_control((1, 0), (0, 0), 0));
    assert!(!ledger.counts_control((2, 0), (0, 0), 0));
    ledger.set_control(None);
    assert_eq!(both(&ledger, 1), plain);
}

#[test]
fn a_control_that_failed_or_took_no_turns_leaves_the_baseline_alone() {
    let mut ledger = with_control();
    ledger.set_control(Some(3));
    let of_control = |ledger: &Ledger, block: u32| ledger.counts_control((1, 0), (0, 0), block);
    for (block, control) in [
        (1, None),
        (2, Some(trial(120, &[]))),
        (3, Some(trial(120, &[(7, 120)]))),
    ] {
        for (layer, trial) in [
            (0, Some(trial(100, &[(0, 100)]))),
            (1, Some(trial(300, &[(0, 300)]))),
            (3, control.clone()),
        ] {
            ledger.add(&TrialRecord {
                error: trial.is_none().then(|| "no".into()),
                trial,
                ..record((0, block), (layer, 0), None)
            });
        }
        assert!(!of_control(&ledger, block), "block {block}");
    }
    assert!(of_control(&ledger, 0));
    // Trials in one stretch have no rounds.
    for (layer, ns) in [(0, 100), (1, 300), (3, 120)] {
        ledger.add(&record((0, 4), (layer, 0), Some(ns)));
    }
    let whole = ledger.totals((1, 0), (0, 0)).pop();
    assert_eq!(whole, Some((0, vec![[[300.0, 1.0], [220.0, 2.0]]])));
}

#[test]
fn the_last_number_of_a_group_counts_and_a_failure_takes_none_away() {
    let mut ledger = Ledger::default();
    let (cold, warm) = ((1, 0), (1, 1));
    assert!(ledger.add(&record((0, 0), cold, Some(10))));
    assert!(ledger.add(&record((0, 0), cold, Some(40))));
    assert!(!ledger.add(&record((0, 0), cold, None)));
    assert!(!ledger.add(&record((0, 0), warm, Some(0))));
    assert!(pairs(&ledger, warm, cold).is_empty());
    ledger.add(&record((0, 0), warm, Some(20)));
    let found = pairs(&ledger, warm, cold);
    assert!(
        (found[0].ratios()[0] - 0.5).abs() < 1e-12,
        "two points, one block"
    );
}

/// Where the kernel's threads waited for 3 ms an operation, the rest was two to four times what it is elsewhere.
#[test]
fn rounds_with_turns_that_hardly_worked_are_left_out_where_that_is_chance() {
    type Turns = &'static [(u32, u64, u64)];
    // Blocks of the layer's turns and native's.
    let compared = |blocks: &[[Turns; 2]]| {
        let mut ledger = Ledger::default();
        for (block, layers) in blocks.iter().enumerate() {
            for (at, turns) in [layers[1], layers[0]].into_iter().enumerate() {
                ledger.add(&TrialRecord {
                    trial: Some(waits(true, turns)),
                    ..record((0, block as u32), (at, 0), Some(1))
                });
            }
        }
        ledger.pairs((1, 0), (0, 0), |_, rounds, _| rounds.to_vec())
    };
    let good: Turns = &[(0, 100, 0), (1, 100, 0), (2, 100, 0), (3, 100, 0)];
    // A tenth of the third turn is left. Two fifteenths are enough.
    let bad: Turns = &[(0, 100, 0), (1, 100, 0), (2, 3000, 2700), (3, 3000, 2600)];
    let worse: Turns = &[(0, 100, 0), (1, 100, 0), (2, 3000, 2700), (3, 3000, 2700)];
    let kept = [[100.0, 100.0], [100.0, 100.0], [400.0, 100.0]];
    assert_eq!(compared(&[[bad, good], [good, bad]])[0], kept);
    assert_eq!(compared(&[[worse, good]])[0].len(), 4, "too few are left");
    // Four blocks may all be chance, five are not.
    assert_eq!(compared(&[[bad, good]; 4])[3], kept);
    assert!(compared(&[[bad, good]; 5]).iter().all(|d| d.len() == 4));
}

/// A trial whose turns take and wait this many nanoseconds.
fn waits(apart: bool, turns: &[(u32, u64, u64)]) -> Trial {
    let each = turns.iter().map(|(round, ns, _)| (*round, *ns));
    let sum = |of: fn(&(u32, u64, u64)) -> u64| turns.iter().map(of).sum();
    let mut made = trial(sum(|t| t.1), &each.collect::<Vec<_>>());
    made.waiting = Some(crate::Waiting {
        apart,
        ..crate::Waiting::default()
    });
    made.passes[0].ops = turns.len() as u64;
    made.passes[0].waited_ns = Some(sum(|t| t.2));
    for (turn, (.., waited)) in made.turns.iter_mut().zip(turns) {
        turn.waited_ns = Some(*waited);
    }
    made
}

fn ledger_of(native: &Trial, layer: &Trial) -> Ledger {
    let mut ledger = Ledger::default();
    for (at, trial) in [native, layer].into_iter().enumerate() {
        ledger.add(&TrialRecord {
            trial: Some(trial.clone()),
            ..record((0, 0), (at, 0), Some(1))
        });
    }
    ledger
}

#[test]
fn waiting_is_left_out_where_it_is_no_cost_of_either() {
    let native = waits(true, &[(0, 500, 400), (1, 100, 0), (2, 90, 90)]);
    let turns = [(0, 230, 100), (1, 930, 800), (2, 130, 0)];
    let of = |layer: &Trial| {
        let ledger = ledger_of(&native, layer);
        let made = pairs(&ledger, (1, 0), (0, 0)).remove(0);
        (ledger.time((1, 0), (0, 0)), made, ledger)
    };
    let (time, made, ledger) = of(&waits(true, &turns));
    let each = made.ratios();
    assert_eq!(time, ClockTime::Net);
    // The last round has nothing left natively.
    assert_eq!(each.len(), 2);
    assert!(each.iter().all(|r| (r - 1.3).abs() < 1e-9), "{each:?}");
    let natively: Vec<f64> = made.rounds.iter().map(|[_, native]| *native).collect();
    assert_eq!(natively, [100.0, 100.0], "without waiting");
    assert_eq!(
        ledger.totals((1, 0), (0, 0))[0].1[0],
        [[130.0, 1.0], [100.0, 1.0]]
    );
    let raw = ledger.pairs_by(ClockTime::Raw, (1, 0), (0, 0), |_, rounds, _| rounds.len());
    assert_eq!(raw, [3], "and the whole time is there too");
    // A process serves it: both sides have all of their time.
    let (time, made, ledger) = of(&waits(false, &turns));
    assert_eq!(time, ClockTime::Raw);
    assert!((made.ratios()[0] - 0.46).abs() < 1e-9);
    assert_eq!(ledger.time((0, 0), (0, 0)), ClockTime::Net, "native's own");
    // A control that a quota stopped has that as its cost, and no share in ratios without waiting.
    for (apart, counts) in [(true, true), (false, false)] {
        let mut ledger = ledger_of(&native, &waits(true, &turns));
        ledger.add(&TrialRecord {
            trial: Some(waits(apart, &[(0, 500, 400), (1, 100, 0), (2, 90, 90)])),
            ..record((0, 0), (2, 0), Some(1))
        });
        ledger.set_control(Some(2));
        assert_eq!(ledger.counts_control((1, 0), (0, 0), 0), counts);
    }
    // Threads of the kernel waited too, in a block that others disturbed. A layer that does not see them is compared
    // by what the one thread waited.
    let clear = |of: &Trial, each: [u64; 3]| {
        let mut made = of.clone();
        made.waiting.as_mut().unwrap().disturbed = true;
        made.passes[0].kernel_waited_ns = Some(each.iter().sum());
        for (turn, ns) in made.turns.iter_mut().zip(each) {
            turn.kernel_waited_ns = Some(ns);
        }
        made
    };
    let quick = waits(true, &turns);
    let ledger = ledger_of(&clear(&native, [50, 50, 0]), &clear(&quick, [65, 65, 0]));
    assert_eq!(ledger.time((1, 0), (0, 0)), ClockTime::Clear);
    let made = pairs(&ledger, (1, 0), (0, 0)).remove(0);
    assert!(made.ratios().iter().all(|r| (r - 1.3).abs() < 1e-9));
    let natively = |made: &Made| made.rounds[0][1].round() as u64;
    assert_eq!(natively(&made), 50);
    let ledger = ledger_of(&clear(&native, [50, 50, 0]), &quick);
    assert_eq!(ledger.time((1, 0), (0, 0)), ClockTime::Net);
    assert_eq!(natively(&pairs(&ledger, (1, 0), (0, 0))[0]), 100);
    // One turn whose waiting is not known.
    let mut partly = waits(true, &turns);
    partly.passes[0].waited_ns = None;
    assert_eq!(of(&partly).0, ClockTime::Raw);
}
