use layermark_model::{Cell, Pass, Trial};

use super::*;

fn due(widths: &[f64]) -> Vec<Due> {
    let due = widths.iter().enumerate();
    due.map(|(point, width)| Due {
        point,
        layers: vec![0, 1],
        width: *width,
    })
    .collect()
}

/// Each trial takes a second, so each point two.
fn clock(budget: u64, points: usize) -> Clock {
    let mut clock = Clock::new(Some(Duration::from_secs(budget)), Vec::new());
    for point in 0..points {
        for layer in 0..2 {
            clock.note(layer, point, Duration::from_secs(1));
        }
    }
    clock
}

fn points(due: &[Due]) -> Vec<usize> {
    due.iter().map(|d| d.point).collect()
}

#[test]
fn without_a_budget_everything_is_due() {
    let clock = Clock::new(None, Vec::new());
    assert_eq!(clock.fit(99, due(&[1.0, 2.0])).len(), 2);
    assert_eq!(clock.left(), None);
}

#[test]
fn the_fewest_blocks_are_made_whatever_the_budget_and_no_more() {
    let clock = clock(1, 3);
    assert_eq!(clock.left(), Some(Duration::ZERO));
    for block in 0..FEWEST_BLOCKS as u32 {
        assert_eq!(clock.fit(block, due(&[f64::INFINITY; 3])).len(), 3);
    }
    assert!(clock.fit(8, due(&[0.1; 3])).is_empty());
}

#[test]
fn layers_that_do_not_fit_are_left_out_in_their_order() {
    // One point; native, two fast layers, a slow one between them and the control.
    let sites = [(0, 1), (1, 1), (2, 9), (3, 1), (4, 1)];
    let due = [Due {
        point: 0,
        layers: vec![3, 0, 4, 2, 1],
        width: f64::INFINITY,
    }];
    let left_out = |budget| {
        let mut clock = Clock::new(Some(Duration::from_secs(budget)), Vec::new());
        for (layer, seconds) in sites {
            clock.note(layer, 0, Duration::from_secs(seconds));
        }
        clock.left_out(7, Duration::ZERO, &due, Some(4))
    };
    // 13 s are spent and 7 blocks of 13 s remain: 104 s, two thirds of which are 70.
    assert_eq!(left_out(70), [0; 0]);
    assert_eq!(left_out(69), [3], "7 s more than there are");
    assert_eq!(
        left_out(64),
        [2],
        "without the slow one there is room for the next"
    );
    assert_eq!(left_out(28), [2]);
    assert_eq!(left_out(27), [2, 3]);
    assert_eq!(left_out(23), [2, 3], "the control stays as long as it can");
    assert_eq!(left_out(22), [2, 3, 4]);
    assert_eq!(
        left_out(1),
        [2, 3, 4],
        "one layer is left whatever it takes"
    );
    let unlimited = Clock::new(None, Vec::new());
    assert!(unlimited.left_out(7, Duration::ZERO, &due, None).is_empty());
}

#[test]
fn layers_to_keep_stay_and_a_budget_too_small_for_them_is_known_beforehand() {
    let clock = |budget, keep: &[usize]| {
        let guesses = vec![Duration::from_secs(1)];
        let clock = Clock::new(Some(Duration::from_secs(budget)), guesses);
        let slow = clock.slowdowns(vec![1.0, 1.0, 4.0, 1.0]);
        slow.keep(keep.to_vec())
    };
    let due = [Due {
        point: 0,
        layers: vec![0, 1, 2, 3],
        width: f64::INFINITY,
    }];
    let out = |keep: &[usize]| clock(10, keep).left_out(8, Duration::ZERO, &due, Some(3));
    assert_eq!(out(&[]), [2, 3], "the first stays");
    assert_eq!(out(&[2]), [1, 3], "not the first");
    assert_eq!(out(&[2, 1]), [3]);
    // Eight blocks of 1 s natively and 4 s in the slow layer.
    let seconds = |budget, keep: &[usize]| {
        let takes = clock(budget, keep).too_long(8, |_, _| true);
        takes.map(|takes| takes.as_secs())
    };
    assert_eq!(seconds(26, &[2]), Some(40));
    assert_eq!(seconds(27, &[2]), None, "half as much again is allowed");
    assert_eq!(seconds(1, &[]), None, "one layer stays whatever it takes");
    let only_natively = clock(5, &[2]).too_long(8, |layer, _| layer == 0);
    assert_eq!(only_natively.map(|takes| takes.as_secs()), Some(8));
}

#[test]
fn before_anything_is_timed_the_plan_says_what_a_trial_takes() {
    let guesses = vec![guess(0), guess(500_000_000)];
    let clock = Clock::new(Some(Duration::from_secs(10)), guesses);
    let ms = |point| clock.estimate(3, point).as_millis();
    assert_eq!((ms(0), ms(1)), (50, 1050), "50 ms and making its file");
    let due: Vec<Due> = [0, 1]
        .map(|point| Due {
            point,
            layers: vec![0, 1, 2],
            width: f64::INFINITY,
        })
        .into();
    // Eight blocks of 1.1 s are 8.8 s a layer.
    assert_eq!(clock.left_out(8, Duration::ZERO, &due, Some(2)), [2]);
    let small = |spent| clock.left_out(8, Duration::from_secs(spent), &due[..1], Some(2));
    assert!(small(0).is_empty());
    assert_eq!(small(14), [2], "setting up took most of 15 s");
}

/// Three layers that took turns at two points, in two sessions: each started at almost the same
/// time.
#[test]
fn stored_trials_that_took_turns_divide_their_time_by_their_own_clocks() {
    let record = |[session, block]: [u32; 2], [point, layer]: [usize; 2], at_ms, own_ms: u64| {
        let pass = Pass {
            elapsed_ns: own_ms * 1_000_000,
            ops: 1,
            bytes: 0,
            ..Pass::default()
        };
        TrialRecord {
            cell: Cell {
                session,
                block,
                layer,
                point,
            },
            at_ms,
            trial: (own_ms > 0).then(|| Trial {
                passes: vec![pass],
                ..Trial::default()
            }),
            ..TrialRecord::default()
        }
    };
    let stored = [
        record([0, 0], [1, 2], 1003, 100),
        record([0, 0], [1, 0], 1000, 50),
        record([0, 0], [1, 1], 1006, 50),
        // Both failed before their clocks ran.
        record([0, 0], [0, 0], 1400, 0),
        record([0, 0], [0, 1], 1401, 0),
        record([0, 1], [0, 0], 1600, 60),
        record([1, 1], [0, 0], 9000, 30),
    ];
    let mut clock = Clock::new(None, Vec::new());
    clock.note_stored(&stored);
    let ms = |layer, point| clock.estimate(layer, point).as_millis();
    let turns = [0, 1, 2].map(|layer| ms(layer, 1));
    assert_eq!(turns, [100, 100, 200], "400 ms, half of them one layer's");
    assert_eq!(ms(1, 0), 100, "half of 200 ms");
    assert_eq!(ms(0, 0), 45, "the last of each session by its own clock");
    assert_eq!(clock.spent(), Duration::from_millis(690));
}

#[test]
fn afterwards_the_widest_come_first() {
    assert_eq!(points(&clock(9, 3).fit(8, due(&[0.1, 0.3, 0.2]))), [1, 2]);
    assert_eq!(points(&clock(7, 3).fit(8, due(&[0.1, 0.3, 0.2]))), [1]);
    assert_eq!(
        points(&clock(99, 3).fit(8, due(&[0.1, 0.3, 0.2]))),
        [0, 1, 2]
    );
}

#[test]
fn an_unknown_trial_takes_longer_than_was_planned_as_others_do() {
    let mut clock = Clock::new(None, vec![guess(0), guess(0), 4 * guess(0)]);
    clock.note(0, 2, Duration::from_secs(4));
    clock.note(0, 1, Duration::from_secs(2));
    assert_eq!(clock.estimate(0, 1), Duration::from_secs(2));
    // 6 s instead of 250 ms, at points with five sixths of the time.
    let times = 1.0 + 23.0 * 5.0 / 6.0;
    assert_eq!(clock.estimate(0, 0), guess(0).mul_f64(times));
    assert_eq!(clock.estimate(5, 0), guess(0).mul_f64(times));
    assert_eq!(clock.spent(), Duration::from_secs(6));
}

/// Seed 230957274 drew `git status` as the first point of the card: fuse was left out of a run
/// that took 60 s, since eight blocks "would take about 150 s".
#[test]
fn one_point_that_takes_longer_leaves_no_layer_out() {
    let due: Vec<Due> = (0..14)
        .map(|point| Due {
            point,
            layers: vec![0, 1, 2],
            width: f64::INFINITY,
        })
        .collect();
    let left_out = |times: u32, timed: usize| {
        let mut clock = Clock::new(Some(Duration::from_secs(20)), vec![guess(0); 14]);
        for point in 0..timed {
            for layer in 0..3 {
                clock.note(layer, point, guess(0) * times);
            }
        }
        clock.left_out(8, Duration::ZERO, &due, None)
    };
    // Eight blocks of 2.1 s.
    assert!(left_out(1, 0).is_empty());
    assert!(left_out(4, 1).is_empty());
    assert_eq!(left_out(4, 4), [2], "four of them tell");
}

#[test]
fn a_first_trial_says_little_about_later_ones() {
    let mut clock = Clock::new(None, Vec::new());
    for seconds in [9, 1, 3] {
        clock.note(0, 0, Duration::from_secs(seconds));
    }
    assert_eq!(clock.estimate(0, 0), Duration::from_secs(2));
    assert_eq!(clock.spent(), Duration::from_secs(13));
}

#[test]
fn the_set_up_is_part_of_the_budget() {
    let mut clock = clock(20, 3);
    clock.note_set_up(Duration::from_secs(10));
    assert_eq!(clock.left(), Some(Duration::from_secs(4)));
    let block = Duration::from_secs(6);
    assert_eq!(clock.needed(11, block), Duration::from_secs(76));
}
