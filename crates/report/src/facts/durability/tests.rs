//! Rules on synthetic trials, and a simulation of other programs that flush the same disk.

use layermark_model::{Device, DeviceBytes, Mount, Pass};

use super::*;
use crate::words::said;
use DurabilityVerdict::{Absorbed, CannotTell, Honoured, NotAsked};

fn facts_on(fs: &str, write_cache: &str) -> Facts {
    let device = Device {
        name: "vda".into(),
        write_cache: write_cache.into(),
        physical: true,
        ..Device::default()
    };
    Facts {
        mounts: vec![Mount {
            fs: fs.into(),
            ..Mount::default()
        }],
        devices: vec![device],
        ..Facts::default()
    }
}

fn disk() -> Facts {
    facts_on("overlay", "write back")
}

fn mounted(options: &str) -> Facts {
    let mut facts = disk();
    facts.mounts[0].options = options.into();
    facts
}

/// 50 ms of work, with as much time in control windows.
fn trial(syncs: u64, flushes: Option<u64>, others: u64) -> Trial {
    Trial {
        syncs,
        passes: vec![Pass {
            elapsed_ns: 50_000_000,
            ..Pass::default()
        }],
        device: flushes.map(|flushes| DeviceBytes {
            flushes,
            ..DeviceBytes::default()
        }),
        background: Some(DeviceBackground {
            flushes: others,
            ns: 50_000_000,
            ..DeviceBackground::default()
        }),
        ..Trial::default()
    }
}

fn flushing() -> Meaning {
    Meaning {
        flushes: true,
        ..Meaning::default()
    }
}

fn judged(facts: &Facts, trials: &[WithReference]) -> Durability {
    judge(&Case {
        meaning: &flushing(),
        facts,
        is_baseline: false,
        baseline: "native",
        names: Names { baseline: "native" },
        reference: Some("native"),
        trials,
        late: None,
        disturbers: &[],
        ratio: None,
    })
}

/// Ten blocks with the same trial, and an honest native.
fn ten(facts: &Facts, here: &Trial) -> Durability {
    let native = trial(20, Some(20), 0);
    judged(facts, &[(here, Some(&native)); 10])
}

/// A server that flushes at every second fsync was explained by being another file system.
#[test]
fn fewer_flushes_than_syncs_are_counted_and_said() {
    let half = ten(&disk(), &trial(332, Some(199), 0));
    assert_eq!(
        (half.verdict, half.per_sync),
        (CannotTell, Some(1990.0 / 3320.0))
    );
    assert_eq!(half.words(), "0.6 flushes a sync");
    let because = half.because.expect("evidence");
    assert_eq!(because, "1990 device flushes for 3320 syncs");
    for (here, why) in [
        (trial(332, Some(330), 0), "honest"),
        (trial(332, Some(0), 0), "none at all is another word"),
        (
            trial(332, Some(199), 40),
            "flushes of others may be among them",
        ),
        (trial(1, Some(0), 0), "too few to tell"),
    ] {
        assert_eq!(ten(&disk(), &here).per_sync, None, "{why}");
    }
    let case = |meaning: &Meaning, facts: &Facts| {
        let (here, native) = (trial(332, Some(199), 0), trial(20, Some(20), 0));
        judge(&Case {
            meaning,
            facts,
            is_baseline: false,
            baseline: "native",
            names: Names { baseline: "native" },
            reference: Some("native"),
            trials: &[(&here, Some(&native)); 10],
            late: None,
            disturbers: &[],
            ratio: None,
        })
    };
    let threads = Meaning {
        concurrency: 4,
        ..flushing()
    };
    assert_eq!(
        case(&threads, &disk()).per_sync,
        None,
        "calls share a flush"
    );
    let past_it = Meaning {
        sync: Some("odsync".into()),
        ..flushing()
    };
    let mut forced = disk();
    forced.devices[0].fua = true;
    assert_eq!(case(&past_it, &forced).per_sync, None, "not counted");
    assert_eq!(Honoured.words(), "flushes reached the device");
}

#[test]
fn tells_an_honest_layer_from_a_liar() {
    let fast = Estimate {
        estimate: 0.03,
        interval: Some([0.027, 0.033]),
        average: None,
    };
    let (honest, liar, native) = (
        trial(20, Some(21), 0),
        trial(20, Some(0), 0),
        trial(20, Some(20), 0),
    );
    let with = |here| {
        judge(&Case {
            meaning: &flushing(),
            facts: &disk(),
            is_baseline: false,
            baseline: "native",
            names: Names { baseline: "native" },
            reference: Some("native"),
            trials: &[(here, Some(&native)); 10],
            late: None,
            disturbers: &[],
            ratio: Some(&fast),
        })
    };
    assert_eq!(with(&honest).verdict, Honoured);
    let convicted = with(&liar);
    assert_eq!(
        (convicted.verdict, convicted.level.as_deref()),
        (Absorbed, Some("L2"))
    );
    assert_eq!(
        convicted.suspicion.as_deref(),
        Some("33.3x as fast as native's flush")
    );
    assert_eq!(
        convicted.because.as_deref(),
        Some(
            "0 device flushes for 200 syncs, on a device whose cache is volatile and that flushed nothing else meanwhile"
        )
    );
    assert_eq!(with(&trial(20, Some(10), 0)).verdict, CannotTell);
}

/// Each of these was once reported as an absorbed flush, with "198 device flushes for 85 syncs".
#[test]
fn nobody_is_convicted_beside_others_who_flush() {
    for (syncs, flushes, others) in [(85, 198, 10_985), (20, 5, 30), (20, 0, 3), (20, 19, 19)] {
        let found = ten(&disk(), &trial(syncs, Some(flushes), others));
        assert_eq!(
            found.verdict, CannotTell,
            "{syncs} {flushes} {others}: {found:?}"
        );
        let because = found.because.unwrap();
        assert!(because.contains("when the disk is quiet"), "{because}");
        assert!(found.background.is_some_and(|others| others > 0.0));
    }
}

#[test]
fn nobody_is_convicted_without_a_native_that_is_counted_in_the_same_blocks() {
    let liar = trial(20, Some(0), 0);
    for native in [
        None,
        Some(trial(20, Some(0), 0)),
        Some(trial(20, None, 0)),
        Some(trial(20, Some(400), 300)),
    ] {
        let found = judged(&disk(), &[(&liar, native.as_ref()); 10]);
        assert_eq!(found.verdict, CannotTell, "{native:?}: {found:?}");
    }
}

#[test]
fn nobody_is_convicted_where_counting_says_nothing() {
    let liar = trial(20, Some(0), 0);
    let cases = [
        (facts_on("tmpfs", ""), &liar, "L0"),
        (Facts::default(), &liar, "L0"),
        (facts_on("ext4", "write through"), &liar, "L2"),
        (facts_on("ext4", ""), &liar, "L2"),
        (disk(), &trial(20, None, 0), "L1"),
    ];
    for (facts, here, level) in cases {
        let found = ten(&facts, here);
        assert_eq!(
            (found.verdict, found.level.as_deref()),
            (CannotTell, Some(level)),
            "{facts:?}"
        );
    }
}

#[test]
fn nobody_is_convicted_by_fewer_than_twenty_syncs() {
    let native = trial(1, Some(1), 0);
    let with = |blocks, flushes| {
        let here = trial(1, Some(flushes), 0);
        judged(&disk(), &vec![(&here, Some(&native)); blocks]).verdict
    };
    assert_eq!((with(19, 0), with(20, 0)), (CannotTell, Absorbed));
    assert_eq!((with(7, 1), with(8, 1)), (CannotTell, Honoured));
    // With few syncs, one that is unanswered, or may have been answered by others, is too many.
    let (here, odd) = (trial(1, Some(1), 0), trial(1, Some(0), 0));
    let mut trials = vec![(&here, Some(&native)); 12];
    trials[5].0 = &odd;
    assert_eq!(judged(&disk(), &trials).verdict, CannotTell);
}

#[test]
fn a_flush_shared_by_many_threads_convicts_nobody() {
    let here = trial(640, Some(20), 0);
    let native = trial(640, Some(640), 0);
    let with = |concurrency| {
        judge(&Case {
            meaning: &Meaning {
                concurrency,
                ..flushing()
            },
            facts: &disk(),
            is_baseline: false,
            baseline: "native",
            names: Names { baseline: "native" },
            reference: Some("native"),
            trials: &[(&here, Some(&native)); 10],
            late: None,
            disturbers: &[],
            ratio: None,
        })
    };
    assert_eq!((with(1).verdict, with(64).verdict), (Absorbed, CannotTell));
}

/// `vm:disk=virtio-blk,cache=unsafe` was once honoured with "1077 device flushes for 235 syncs".
#[test]
fn what_is_configured_to_pass_no_flush_on_is_never_honoured() {
    let mut vm = facts_on("ext4", "write back");
    vm.notes.insert("disk_cache".into(), "unsafe".into());
    for facts in [
        vm,
        mounted("rw,volatile"),
        mounted("rw,fsync=volatile"),
        mounted("rw,nobarrier"),
        mounted("rw,barrier=0"),
    ] {
        let found = ten(&facts, &trial(23, Some(107), 0));
        assert_eq!(found.verdict, CannotTell);
        let because = found.because.clone().unwrap();
        assert!(
            because.starts_with("1070 device flushes for 230 syncs, although"),
            "{because}"
        );
        assert!(because.ends_with("counts and configuration disagree"));
        assert!(found.contradicted && !found.skips());
        let noisy = ten(&facts, &trial(23, Some(107), 100));
        assert!(noisy.verdict == CannotTell && noisy.skips(), "{noisy:?}");
        let silent = ten(&facts, &trial(23, Some(0), 0));
        assert!(silent.verdict == Absorbed && silent.skips());
        assert!(silent.because.unwrap().contains("meanwhile; it"));
    }
    let mut unseen = mounted("rw,fsync=volatile");
    unseen.devices.clear();
    let found = ten(&unseen, &trial(20, None, 0));
    assert!(found.verdict == CannotTell && found.skips());
    assert_eq!(
        found.because.as_deref(),
        Some(
            "it is mounted `fsync=volatile`, which passes no flush on; no physical device is known below this layer"
        )
    );
    assert!(!ten(&disk(), &trial(20, Some(20), 0)).skips());
}

#[test]
fn forced_unit_access_which_no_device_counts_convicts_nobody() {
    let (liar, native) = (trial(20, Some(0), 0), trial(20, Some(20), 0));
    let with = |sync: &str, fua| {
        let mut facts = disk();
        facts.devices[0].fua = fua;
        judge(&Case {
            meaning: &Meaning {
                sync: Some(sync.into()),
                ..flushing()
            },
            facts: &facts,
            is_baseline: false,
            baseline: "native",
            names: Names { baseline: "native" },
            reference: Some("native"),
            trials: &[(&liar, Some(&native)); 10],
            late: None,
            disturbers: &[],
            ratio: None,
        })
    };
    assert_eq!(with("odsync", false).verdict, Absorbed);
    assert_eq!(with("each", true).verdict, Absorbed);
    for sync in ["odsync", "osync"] {
        let found = with(sync, true);
        assert_eq!(found.verdict, CannotTell, "{found:?}");
        let because = found.because.expect("a reason");
        assert!(because.ends_with("past its cache (FUA)"), "{because}");
    }
}

#[test]
fn overlayfs_passes_o_dsync_on_whatever_it_does_with_fsync() {
    let of = |sync: &str, options| {
        let meaning = Meaning {
            sync: Some(sync.into()),
            ..flushing()
        };
        storage::passes_no_flush(&mounted(options), &meaning)
    };
    assert_eq!(of("odsync", "rw,volatile"), None);
    let drops = of("each", "rw,volatile").map(|how| said(&how));
    assert_eq!(drops.as_deref(), Some("it is mounted `volatile`"));
    assert!(of("odsync", "rw,nobarrier").is_some());
}

/// Stored runs of earlier versions have the rate at the start of the session.
#[test]
fn older_runs_have_the_rate_of_their_sessions_start() {
    let old = |rate| Trial {
        background: None,
        idle_flushes: Some(rate),
        ..trial(20, Some(20), 0)
    };
    assert_eq!(ten(&disk(), &old(0.0)).verdict, Honoured);
    assert_eq!(ten(&disk(), &old(500.0)).verdict, CannotTell);
    let unknown = Trial {
        background: None,
        ..trial(20, Some(20), 0)
    };
    let found = ten(&disk(), &unknown);
    assert_eq!(found.verdict, CannotTell);
    assert!(found.because.unwrap().contains("nobody looked"));
}

#[test]
fn a_point_without_flush_was_not_asked() {
    let found = judge(&Case {
        meaning: &Meaning::default(),
        facts: &disk(),
        is_baseline: false,
        baseline: "native",
        names: Names { baseline: "native" },
        reference: Some("native"),
        trials: &[(&trial(0, Some(9), 0), None)],
        late: None,
        disturbers: &[],
        ratio: None,
    });
    assert_eq!((found.verdict, found.level), (NotAsked, None));
}

fn launched(facts: &Facts, is_baseline: bool, here: u64, there: u64) -> Durability {
    let (here, there) = (trial(0, Some(here), 0), trial(0, Some(there), 0));
    let found = [Target::Program, Target::Script, Target::Step].map(|target| {
        let meaning = Meaning {
            target,
            ..Meaning::default()
        };
        judge(&Case {
            meaning: &meaning,
            facts,
            is_baseline,
            baseline: "native",
            names: Names { baseline: "native" },
            reference: Some("native"),
            trials: &[(&here, Some(&there)); 10],
            late: None,
            disturbers: &[],
            ratio: None,
        })
    });
    // `pgbench` is a step, and was "another file system" in `overlay:volatile`.
    assert!(found.iter().all(|other| *other == found[0]), "{found:?}");
    let [found, ..] = found;
    found
}

#[test]
fn a_programs_flushes_are_compared_with_natives() {
    let liar = launched(&disk(), false, 0, 40);
    assert_eq!((liar.verdict, liar.syncs), (Absorbed, 0));
    assert_eq!(
        liar.because.as_deref(),
        Some(
            "0 device flushes, natively 400 in the same repeats (the programs' own syncs are not counted)"
        )
    );
    assert_eq!(launched(&disk(), false, 39, 40).verdict, Honoured);
    assert_eq!(launched(&disk(), false, 20, 40).verdict, CannotTell);
    // A journal's commit in each trial is not the program's.
    assert_eq!(launched(&disk(), false, 0, 4).verdict, NotAsked);
    // Another layer's own commits prove nothing against native.
    assert_eq!(launched(&disk(), true, 0, 40).verdict, NotAsked);
    assert_eq!(launched(&disk(), true, 40, 40).verdict, Honoured);
    let volatile = launched(&mounted("fsync=volatile"), true, 0, 40);
    assert!(volatile.verdict == CannotTell && volatile.skips());
}

#[test]
fn a_burst_of_others_is_not_a_programs_flush() {
    let meaning = Meaning {
        target: Target::Program,
        ..Meaning::default()
    };
    let (silent, burst) = (trial(0, Some(0), 0), trial(0, Some(43), 0));
    // No flush in the trial, one in its control windows.
    let beside = trial(0, Some(0), 1);
    let judged_with = |other: &Trial, is_baseline: bool, hit: usize, of: usize| {
        let native = |n: usize| if n < hit { &burst } else { other };
        let here = |n: usize| if is_baseline { native(n) } else { &silent };
        let trials: Vec<WithReference> = (0..of).map(|n| (here(n), Some(native(n)))).collect();
        judge(&Case {
            meaning: &meaning,
            facts: &disk(),
            is_baseline,
            baseline: "native",
            names: Names { baseline: "native" },
            reference: Some("native"),
            trials: &trials,
            late: None,
            disturbers: &[],
            ratio: None,
        })
        .verdict
    };
    let judged = |is_baseline, hit, of| judged_with(&silent, is_baseline, hit, of);
    assert_eq!(judged_with(&beside, false, 3, 10), NotAsked);
    // A burst that hits native's trials and no control window convicts nobody, and honours nobody.
    for (hit, of) in [(1, 1), (2, 2), (1, 10), (3, 10), (7, 10)] {
        assert_eq!(judged(false, hit, of), NotAsked, "{hit} of {of}");
        assert_eq!(judged(true, hit, of), NotAsked, "{hit} of {of}");
    }
    // A program flushes each time. One trial in four may hide it behind others' flushes.
    assert_eq!(judged(false, 8, 10), Absorbed);
    assert_eq!(judged(true, 8, 10), Honoured);
}

/// Cumulative flushes of another program up to a time in seconds.
type Others = Box<dyn Fn(f64) -> f64>;

/// Seconds of a simulated run of 200 blocks.
const RUN: f64 = 120.0;

fn scenarios() -> Vec<(String, Others)> {
    let mut all: Vec<(String, Others)> = vec![("idle".into(), Box::new(|_| 0.0))];
    for rate in [50.0, 700.0, 12_000.0] {
        all.push((format!("steady {rate}"), Box::new(move |t| rate * t)));
        // Active one second in every five.
        let bursts = move |t: f64| rate * ((t / 5.0).floor() + (t % 5.0).min(1.0));
        all.push((format!("bursts {rate}"), Box::new(bursts)));
        let begins = move |t: f64| rate * (t - RUN / 2.0).max(0.0);
        all.push((format!("begins {rate}"), Box::new(begins)));
        let ends = move |t: f64| rate * t.min(RUN / 2.0);
        all.push((format!("ends {rate}"), Box::new(ends)));
    }
    all
}

/// Microseconds per sync, and device flushes per sync: native first, the liar last.
const LAYERS: [(f64, u64); 8] = [
    (300.0, 2),
    (310.0, 2),
    (450.0, 1),
    (700.0, 3),
    (2_500.0, 1),
    (90.0, 1),
    (350.0, 2),
    (4.0, 0),
];

/// A run of 200 blocks of 25 rounds, with turns of 2 ms and control windows like the lab's.
fn simulate(others: &Others, mut seed: u64) -> Vec<Vec<Trial>> {
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as f64 / (1u64 << 31) as f64
    };
    let between = |a: f64, b: f64| (others(b).floor() - others(a).floor()) as u64;
    let mut now = 0.0;
    let mut runs: Vec<Vec<Trial>> = vec![Vec::new(); LAYERS.len()];
    for _ in 0..200 {
        let mut block = vec![trial(0, Some(0), 0); LAYERS.len()];
        let mut background = DeviceBackground::default();
        for _ in 0..25 {
            let begun = now;
            for (made, (us, flushes)) in block.iter_mut().zip(LAYERS) {
                now += 200e-6 + 100e-6 * random();
                let syncs = (2_000.0 / us * (0.9 + 0.2 * random())).ceil();
                let end = now + syncs * us / 1e6;
                // The kernel merges waiting flushes into one.
                let own = syncs as u64 * flushes;
                let alone = (between(now, end) as f64 * random()) as u64;
                made.syncs += syncs as u64;
                made.device.as_mut().unwrap().flushes += own + alone;
                made.passes[0].elapsed_ns += ((end - now) * 1e9) as u64;
                now = end;
            }
            let window = ((now - begun) / 20.0).clamp(500e-6, 20e-3);
            background.flushes += between(now, now + window);
            background.ns += (window * 1e9) as u64;
            now += window;
        }
        for (run, mut made) in runs.iter_mut().zip(block) {
            made.passes[0].elapsed_ns -= 50_000_000;
            made.background = Some(background);
            run.push(made);
        }
    }
    runs
}

#[test]
fn two_hundred_trials_convict_no_honest_layer_and_the_liar_where_the_disk_is_silent() {
    for (seed, (name, others)) in scenarios().into_iter().enumerate() {
        let runs = simulate(&others, seed as u64);
        let calibrated = answered(&runs[0]);
        let verdict = |layer: usize| {
            let reference = usize::from(layer == 0);
            let there = (calibrated || layer == 0).then(|| &runs[reference]);
            let trials: Vec<WithReference> = (0..200)
                .map(|b| (&runs[layer][b], there.map(|t| &t[b])))
                .collect();
            judged(&disk(), &trials)
        };
        let liar = LAYERS.len() - 1;
        for layer in 0..liar {
            let found = verdict(layer);
            assert_ne!(found.verdict, Absorbed, "{name}, {layer}: {found:?}");
            if name == "idle" {
                assert_eq!(found.verdict, Honoured, "{name}, {layer}: {found:?}");
            }
        }
        let found = verdict(liar);
        let busy = name.starts_with("steady") && !name.ends_with(" 50");
        let wanted = if busy { CannotTell } else { Absorbed };
        assert_eq!(found.verdict, wanted, "{name}: {found:?}");
    }
}

#[test]
fn a_layer_that_answers_before_the_flush_is_late_and_disturbs_the_others() {
    let (here, native) = (trial(20, Some(20), 30), trial(20, Some(20), 30));
    let judged = |late: Option<LateFlushes>, disturbers: &[String]| {
        judge(&Case {
            meaning: &flushing(),
            facts: &disk(),
            is_baseline: false,
            baseline: "native",
            names: Names { baseline: "native" },
            reference: Some("native"),
            trials: &[(&here, Some(&native)); 10],
            late,
            disturbers,
            ratio: None,
        })
    };
    let late = LateFlushes {
        turns: 4,
        in_turns: 1,
        later: 28,
        within_ms: 300,
        other_turns: 8,
        after_others: 0,
    };
    let found = judged(Some(late), &[]);
    assert_eq!(found.verdict, DurabilityVerdict::Late);
    assert!(found.skips());
    assert_eq!(
        found.because.as_deref(),
        Some(
            "in 4 turns between pauses the device was flushed 1 times, in the 300 ms after each of them 28 times together, and 0 times after 8 such turns of other layers"
        )
    );
    let because = |disturbers: &[String]| judged(None, disturbers).because.unwrap();
    let beside = because(&["x".into()]);
    assert!(
        beside.ends_with("but the same device was also flushed by others in 10 of 10 measurements, and late, after its own turns, by `x`: measure without it"),
        "{beside}"
    );
    assert!(because(&[]).contains("other programs flushed the same device in 10 of 10"));
}
