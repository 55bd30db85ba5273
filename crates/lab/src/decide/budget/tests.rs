use layermark_model::{Cell, Pass, Trial};

use super::*;

/// A guess of a point with files of this size.
fn guess(space: u64) -> Guess {
    let needs = layermark_model::Needs {
        space,
        ..Default::default()
    };
    Guess::of(&needs, 8, crate::decide::guess::Speed::default())
}

/// A guess of so many seconds.
fn seconds(work: u64) -> Guess {
    Guess {
        work: Duration::from_secs(work),
        ..Guess::default()
    }
}

/// What does not fit of this, in eight blocks, or three of what was named.
fn out_of(clock: &Clock, due: &[Due], blocks: [u32; 2], control: Option<usize>) -> Omitted {
    clock.left_out(&Ask {
        due,
        wanted: blocks[0],
        least: blocks[1],
        control,
    })
}

/// Points that all layers have.
fn all(points: usize, layers: usize) -> Vec<Due> {
    let due = |point| Due {
        point,
        layers: (0..layers).collect(),
        width: f64::INFINITY,
    };
    (0..points).map(due).collect()
}

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
    clock.pass_to(Duration::from_secs(2 * points as u64));
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
fn nothing_is_begun_when_the_budget_is_spent() {
    let clock = clock(6, 3);
    assert_eq!(clock.left(), Some(Duration::ZERO));
    for block in 0..9 {
        assert!(clock.fit(block, due(&[f64::INFINITY; 3])).is_empty());
    }
}

#[test]
fn a_usual_budget_is_exceeded_for_the_fewest_blocks_and_no_more() {
    let at = |spent, block| {
        let mut clock = clock(10, 3).usual(true);
        clock.pass_to(Duration::from_secs(spent));
        clock.fit(block, due(&[f64::INFINITY; 3])).len()
    };
    assert_eq!([at(99, 0), at(99, 2)], [3, 3], "an interval takes three");
    assert_eq!(
        [at(14, 7), at(15, 7)],
        [1, 0],
        "half as long again for eight"
    );
    assert_eq!([at(9, 8), at(10, 8)], [1, 0]);
}

#[test]
fn layers_that_nobody_named_are_left_out_in_their_order() {
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
        clock.pass_to(Duration::from_secs(13));
        out_of(&clock, &due, [7, 2], Some(4)).layers
    };
    // 13 s are spent and 7 blocks of 13 s remain.
    assert_eq!(left_out(104), [0; 0]);
    assert_eq!(left_out(103), [3], "7 s more than there are");
    assert_eq!(
        left_out(96),
        [2],
        "without the slow one there is room for the next"
    );
    assert_eq!(left_out(41), [2]);
    assert_eq!(left_out(40), [2, 3]);
    assert_eq!(left_out(34), [2, 3], "the control stays as long as it can");
    assert_eq!(left_out(33), [2, 3, 4]);
    assert_eq!(
        left_out(1),
        [2, 3, 4],
        "one layer is left whatever it takes"
    );
    let unlimited = Clock::new(None, Vec::new());
    assert_eq!(out_of(&unlimited, &due, [7, 2], None), Omitted::default());
}

/// Native, two named layers and the control, each a second a block; the second named one takes four.
fn named(budget: u64) -> Clock {
    let clock = Clock::new(Some(Duration::from_secs(budget)), vec![seconds(1); 3]);
    let slow = Slowdown {
        work: 4.0,
        files: 1.0,
    };
    let others = Slowdown::default();
    let clock = clock.slowdowns(vec![others, others, slow, others]);
    clock.keep(vec![1, 2])
}

#[test]
fn named_layers_stay_with_fewer_blocks_then_without_the_control_then_with_fewer_points() {
    let out = |budget| {
        let Omitted { layers, points } = out_of(&named(budget), &all(3, 4), [8, 3], Some(3));
        (layers, points)
    };
    // A block of a point takes 7 s: three of three points are 63 s. Eight would be 168 s.
    assert_eq!(out(63), (vec![], vec![]), "fewer blocks");
    assert_eq!(out(62), (vec![3], vec![]), "without the control");
    assert_eq!(out(54), (vec![3], vec![]));
    assert_eq!(out(53), (vec![3], vec![2]), "fewer points");
    assert_eq!(out(35), (vec![3], vec![1, 2]));
    assert_eq!(out(1), (vec![3], vec![1, 2]), "one point stays");
}

#[test]
fn a_point_that_is_too_long_makes_room_for_those_after_it() {
    let mut clock = Clock::new(Some(Duration::from_secs(30)), Vec::new());
    for (point, took) in [(0, 1), (1, 20), (2, 2)] {
        for layer in 0..2 {
            clock.note(layer, point, Duration::from_secs(took));
        }
    }
    let clock = clock.keep(vec![1]);
    assert_eq!(out_of(&clock, &all(3, 2), [8, 3], None).points, [1]);
}

#[test]
fn a_budget_too_small_for_one_point_of_what_was_named_is_known_beforehand() {
    let ask = |due, control| Ask {
        due,
        wanted: 8,
        least: 3,
        control,
    };
    let due = all(3, 4);
    // Three blocks of native and both layers take 18 s at a point, 54 s at all.
    let needs = |budget| Some(named(budget).too_small(&ask(&due, Some(3)))?.0);
    assert_eq!(needs(14), Some(Duration::from_secs(54)));
    assert_eq!(needs(15), None, "a forecast may be a quarter too long");
    assert_eq!(named(1).usual(true).too_small(&ask(&due, Some(3))), None);
    // Of layers that nobody named, one has to fit.
    let default = |budget| {
        named(budget)
            .keep(Vec::new())
            .too_small(&ask(&due, Some(3)))
    };
    assert_eq!(default(4), Some((Duration::from_secs(18), vec![0, 1])));
    assert_eq!(default(5), None);
    // Guests that boot, on a machine on which everything takes five times as long.
    let guests = |budget| {
        let set_ups = vec![Duration::from_secs(25); 3];
        let guests = named(budget).set_ups(set_ups);
        Some(guests.too_small(&ask(&due, Some(3)))?.0)
    };
    assert_eq!(guests(74), Some(Duration::from_secs(129)));
    assert_eq!(guests(75), None);
    // Files whose removal takes as long as all the rest.
    let files = |budget| {
        let files = named(budget).clean_ups(vec![Duration::from_secs(18); 3]);
        Some(files.too_small(&ask(&due, Some(3)))?.0)
    };
    assert_eq!(
        (files(57), files(58)),
        (Some(Duration::from_secs(108)), None)
    );
    let mut left = named(60).clean_ups(vec![Duration::from_secs(18); 3]);
    assert_eq!(left.left(), Some(Duration::from_secs(6)));
    left.leave_out(&[2]);
    assert_eq!(left.left(), Some(Duration::from_secs(24)));
}

/// Everything takes five times the guess.
#[test]
fn on_a_slow_machine_points_go_as_soon_as_it_shows() {
    let mut clock = Clock::new(Some(Duration::from_mins(1)), vec![seconds(1); 6]).keep(vec![1]);
    let due = all(6, 2);
    let out = |clock: &Clock, blocks| out_of(clock, &due, blocks, None).points;
    // By the guess three blocks of six points in two layers take 36 s.
    assert_eq!(out(&clock, [8, 3]), [0; 0]);
    for point in 0..2 {
        for layer in 0..2 {
            clock.note(layer, point, Duration::from_secs(5));
        }
    }
    clock.pass_to(Duration::from_secs(20));
    // Two points of six tell: the others are taken for 2.3 s. Two blocks have 40 s.
    assert_eq!(out(&clock, [4, 2]), [1, 4, 5]);
}

#[test]
fn before_anything_is_timed_the_plan_says_what_a_trial_takes() {
    let guesses = vec![guess(0), guess(500_000_000)];
    let clock = || Clock::new(Some(Duration::from_secs(15)), guesses.clone());
    let ms = |point| clock().estimate(3, point).as_millis();
    assert_eq!((ms(0), ms(1)), (50, 1050), "50 ms and making its file");
    let due = all(2, 3);
    // Eight blocks of 1.1 s are 8.8 s a layer.
    assert_eq!(out_of(&clock(), &due, [8, 3], Some(2)).layers, [2]);
    let small = |spent| {
        let mut clock = clock();
        clock.pass_to(Duration::from_secs(spent));
        out_of(&clock, &due[..1], [8, 3], Some(2)).layers
    };
    assert!(small(0).is_empty());
    assert_eq!(small(14), [2], "setting up took most of 15 s");
    let set_ups = [0, 1, 14].map(Duration::from_secs).to_vec();
    let slow = clock().set_ups(set_ups);
    assert_eq!(
        out_of(&slow, &due[..1], [8, 3], Some(2)).layers,
        [2],
        "it will take that long"
    );
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
    let long = Guess {
        work: guess(0).work * 4,
        ..guess(0)
    };
    let mut clock = Clock::new(None, vec![guess(0), guess(0), long]);
    clock.note(0, 2, Duration::from_secs(4));
    clock.note(0, 1, Duration::from_secs(2));
    assert_eq!(clock.estimate(0, 1), Duration::from_secs(2));
    // 6 s instead of 250 ms, at points with five sixths of the time.
    let times = 1.0 + 23.0 * 5.0 / 6.0;
    assert_eq!(clock.estimate(0, 0), guess(0).work.mul_f64(times));
    assert_eq!(clock.estimate(5, 0), guess(0).work.mul_f64(times));
}

/// A forecast that was five times too long left 93 points of 98 out, and half of the time was not used.
#[test]
fn one_point_that_takes_less_gives_hope_for_the_others() {
    let mut clock = Clock::new(Some(Duration::from_mins(1)), vec![seconds(10); 6]);
    clock = clock.keep(vec![1]);
    assert_eq!(out_of(&clock, &all(6, 2), [8, 3], None).points.len(), 5);
    for layer in 0..2 {
        clock.note(layer, 2, Duration::from_secs(1));
    }
    assert_eq!(clock.estimate(1, 5), Duration::from_secs(1));
    assert!(out_of(&clock, &all(6, 2), [8, 3], None).points.is_empty());
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
        let mut clock = Clock::new(Some(Duration::from_secs(30)), vec![guess(0); 14]);
        for point in 0..timed {
            for layer in 0..3 {
                clock.note(layer, point, guess(0).work * times);
            }
        }
        out_of(&clock, &due, [8, 3], None).layers
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
    assert_eq!(clock.afresh(), Duration::from_secs(7), "files were made");
}

#[test]
fn the_set_up_is_part_of_the_budget() {
    let mut clock = clock(20, 3);
    clock.note_set_up(Duration::from_secs(10));
    clock.pass_to(Duration::from_secs(16));
    assert_eq!(clock.left(), Some(Duration::from_secs(4)));
    let block = Duration::from_secs(6);
    let needed = clock.needed(11, block, [0, 1].into_iter());
    assert_eq!(needed, Duration::from_secs(76));
}
