//! Words, causes and advice that need a datum, by made-up data: said with it, and not without it.

use layermark_model::{
    CacheState, Cut, DeviceBytes, ENCRYPTION, FRESHER, GuestFacts, Run, Target, TrialRecord,
};
use layermark_report::{
    Report, ResultRow, Verdict,
    render::{Style, print_full},
};
use layermark_testkit::sample::{self, Sample};

use crate::words::{made, times};

/// Names more budget alone where a set-up had taken all of it: it takes as long again.
#[test]
fn a_set_up_that_took_all_of_the_budget_is_made_smaller() {
    let told = |block| -> String {
        let report = made(&["overlay:upper"], |run, _| {
            run.cut = Some(Cut {
                at_s: 5,
                block,
                point: None,
                layer: None,
                during: "the layers were set up".into(),
                enough_s: 20,
            });
        });
        let mut all = report.caveats.into_iter();
        all.find(|c| c.contains("was cut after")).expect("a caveat")
    };
    assert!(told(None).contains("--scale 0.1"), "{}", told(None));
    assert!(!told(Some(1)).contains("--scale"), "{}", told(Some(1)));
}

/// A layer at one point, compared with native: its row, and the sentences of the report.
fn case(
    layer: &'static str,
    point: &'static str,
    change: impl Fn(&mut Run, &mut Vec<TrialRecord>),
) -> (ResultRow, Report) {
    let (mut run, mut trials) = Sample {
        layers: vec![layer],
        points: vec![point],
        ..Sample::default()
    }
    .build();
    change(&mut run, &mut trials);
    let report = Report::build(&run, &trials);
    let row = report.results.iter().find(|r| r.layer == layer);
    (row.expect("a row").clone(), report)
}

/// The causes of a layer that takes so many times as long as natively, with facts of both sides.
fn reasons(point: &'static str, factor: f64, change: impl Fn(&mut Run)) -> String {
    let (row, _) = case("loop:xfs", point, |run, trials| {
        let own = |t: &&mut TrialRecord| t.cell.layer == 1;
        trials.iter_mut().filter(own).for_each(|t| times(t, factor));
        change(run);
    });
    row.reasons.join("; ")
}

/// The options of the layer's own mount, and of the one below it.
fn options(run: &mut Run, layer: usize, depth: usize, options: &str) {
    run.layers[layer].facts.mounts[depth].options = options.into();
}

/// A disk mounted with `sync` took 350 and 660 times as long, without a cause.
#[test]
fn a_mount_that_is_synchronous_is_the_cause_of_writes_that_wait() {
    let sync = |depth| {
        reasons("large write", 300.0, move |run| {
            options(run, 1, depth, "rw,sync,relatime");
        })
    };
    let words = "is mounted `sync`, so each write waits for its device";
    assert!(sync(0).starts_with(&format!("it {words}")), "{}", sync(0));
    assert!(
        sync(1).starts_with(&format!("/ below it {words}")),
        "{}",
        sync(1)
    );
    let both = reasons("large write", 300.0, |run| {
        options(run, 0, 0, "rw,sync");
        options(run, 1, 0, "rw,sync");
    });
    assert!(!both.contains("sync"), "{both}");
    let flushed = reasons("random write, fsync each", 2.0, |run| {
        options(run, 1, 0, "rw,sync,relatime");
    });
    assert!(
        !flushed.contains("`sync`"),
        "it waits natively too: {flushed}"
    );
}

#[test]
fn options_that_cost_changes_of_names_are_causes_of_these() {
    for (option, says) in [
        ("dirsync", "each change of a directory waits"),
        ("discard", "each block that becomes free"),
    ] {
        let told = |point| {
            reasons(point, 5.0, move |run| {
                options(run, 1, 0, &format!("rw,relatime,{option}"));
            })
        };
        assert!(
            told("small write").contains(says),
            "{}",
            told("small write")
        );
        assert!(!told("large write").contains(says), "one file");
        assert!(!told("open and stat").contains(says), "nothing changes");
    }
}

/// `strictatime` is the absence of its opposites. It costs some microseconds, and no more.
#[test]
fn a_strict_time_of_access_is_a_cause_of_little() {
    let told = |factor, mount: &'static str| {
        reasons("small read, cold", factor, move |run| {
            options(run, 1, 0, mount);
        })
    };
    let says = "it is mounted `strictatime`";
    assert!(told(0.93, "rw").contains(says), "{}", told(0.93, "rw"));
    assert!(!told(0.93, "rw,relatime").contains(says));
    assert!(!told(4.0, "rw").contains(says), "{}", told(4.0, "rw"));
}

/// Reads in order from a device, in both layers.
fn from_device(run: &mut Run, trials: &mut [TrialRecord]) {
    run.points[0].meaning.cache = Some(CacheState::Cold);
    for t in trials {
        let trial = t.trial.as_mut().expect("a trial");
        let bytes = trial.passes.iter().map(|p| p.bytes).sum();
        trial.resident = Some(0.0);
        trial.device = Some(DeviceBytes {
            read: bytes,
            ..DeviceBytes::default()
        });
    }
}

/// `read_ahead_kb` of 0 instead of 2560: 19x, without a cause.
#[test]
fn a_shorter_read_ahead_is_the_cause_of_slow_reads_in_order() {
    let told = |here: Option<u64>, native: Option<u64>, cold: bool| {
        let (row, _) = case("loop:xfs", "large read, warm", |run, trials| {
            let own = |t: &&mut TrialRecord| t.cell.layer == 1;
            trials.iter_mut().filter(own).for_each(|t| times(t, 19.0));
            run.layers[0].facts.read_ahead_kb = native;
            run.layers[1].facts.read_ahead_kb = here;
            if cold {
                from_device(run, trials);
            }
        });
        row.reasons.join("; ")
    };
    let says = "the kernel reads ahead 0 KiB, natively 2560 KiB";
    let short = told(Some(0), Some(2560), true);
    assert!(short.starts_with(says), "{short}");
    for (here, native, cold) in [
        (Some(0), Some(2560), false),
        (Some(2560), Some(2560), true),
        (None, Some(2560), true),
        (Some(8192), Some(128), true),
    ] {
        let told = told(here, native, cold);
        assert!(
            !told.contains("reads ahead"),
            "{here:?} {native:?} {cold}: {told}"
        );
    }
}

#[test]
fn compression_and_encryption_are_causes_where_the_data_passes_them() {
    let told = |cold: bool, name: &'static str, value: &'static str| {
        let (row, _) = case("loop:xfs", "large read, warm", |run, trials| {
            let own = |t: &&mut TrialRecord| t.cell.layer == 1;
            trials.iter_mut().filter(own).for_each(|t| times(t, 3.0));
            let note = (name.to_owned(), value.to_owned());
            run.layers[1].facts.notes.extend([note]);
            if cold {
                from_device(run, trials);
            }
        });
        row.reasons.join("; ")
    };
    let read = told(true, "compression", "xz");
    assert!(read.contains("has to be decompressed (xz)"), "{read}");
    let cached = told(false, "compression", "xz");
    assert!(!cached.contains("compressed"), "{cached}");
    let read = told(true, ENCRYPTION, "dm-crypt on dm-0");
    assert!(
        read.contains("it encrypts its data (dm-crypt on dm-0)"),
        "{read}"
    );
    let written = reasons("random write, fsync each", 3.0, |run| {
        options(run, 1, 1, "rw,relatime,compress=zstd:3");
    });
    assert!(
        written.contains("it compresses what is written (zstd:3)"),
        "{written}"
    );
}

/// "16x make -j" of a guest whose instructions are emulated was the headline.
#[test]
fn the_headline_names_an_emulated_cpu() {
    let told = |emulated: [bool; 2]| {
        let (_, report) = case("loop:xfs", "large read, warm", |run, trials| {
            let own = |t: &&mut TrialRecord| t.cell.layer == 1;
            trials.iter_mut().filter(own).for_each(|t| times(t, 16.0));
            for (layer, emulated_cpu) in emulated.into_iter().enumerate() {
                run.layers[layer].facts.guest = Some(GuestFacts {
                    emulated_cpu,
                    ..GuestFacts::default()
                });
            }
        });
        report.headline
    };
    let guest = told([false, true]);
    assert!(
        guest.contains("`loop:xfs` on an emulated CPU takes "),
        "{guest}"
    );
    for other in [[false, false], [true, true]] {
        assert!(!told(other).contains("emulated"), "{}", told(other));
    }
}

/// "Do fewer and larger operations: it adds 1.00 s to each of the 5": nothing waits until a change is seen. What was never
/// seen was a failure without a verdict.
#[test]
fn a_change_that_is_seen_late_is_a_delay_and_not_a_cost() {
    let told = |seen: bool, fresher: Option<&'static str>| {
        case("fuse", "open and stat", |run, trials| {
            run.points[0].meaning.target = Target::SharedDirectory;
            let note = fresher.map(|options| (FRESHER.to_owned(), options.to_owned()));
            run.layers[1].facts.notes.extend(note);
            let own = |t: &&mut TrialRecord| t.cell.layer == 1;
            for t in trials.iter_mut().filter(own) {
                times(t, 1000.0);
                t.trial.as_mut().unwrap().not_seen = !seen;
            }
        })
    };
    let (row, report) = told(true, Some("cache=none"));
    assert_eq!((row.verdict, row.reasons.len()), (Verdict::Slower, 0));
    let all = format!(
        "{:?} {:?} {}",
        report.advice, report.verdicts, report.headline
    );
    assert!(
        !all.contains("fewer and larger") && !all.contains(" adds "),
        "{all}"
    );
    assert!(
        report.verdicts[0]
            .text
            .contains("shows changes of the other side later"),
        "{all}"
    );
    assert!(
        report
            .headline
            .starts_with("`fuse` shows 1 of 1 change later, by up to "),
        "{all}"
    );
    assert!(
        all.contains("layermark coherence -l fuse:cache=none"),
        "{all}"
    );
    let (row, report) = told(false, None);
    assert_eq!((row.verdict, row.failed_trials), (Verdict::Slower, 0));
    let all = format!(
        "{:?} {:?} {}",
        report.advice, report.verdicts, report.headline
    );
    assert!(
        report
            .headline
            .starts_with("`fuse` does not show 1 of 1 change within "),
        "{all}"
    );
    assert!(
        report.verdicts[0]
            .text
            .contains("does not show \u{201c}open and stat\u{201d} within"),
        "{all}"
    );
    assert!(
        !all.contains("layermark coherence -l"),
        "nothing is known to help: {all}"
    );
    let mut shown = Vec::new();
    let wide = Style {
        width: 200,
        ..Style::default()
    };
    print_full(&report, wide, &mut shown).unwrap();
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("not seen within"), "{shown}");
    let row = shown
        .lines()
        .find(|line| line.contains("  fuse "))
        .expect("a row");
    assert!(
        row.contains('<') && row.matches('>').count() == 2,
        "the wait is a bound: {row}"
    );
}

/// squashfuse took nine seconds of CPU, and a launch from it showed the CPU of the program alone.
#[test]
fn a_launch_shows_the_cpu_of_the_program_that_serves_its_layer() {
    let shown = |upkeep_ns| {
        let (run, mut trials) = sample::launches(&[400.0, 410.0, 405.0]);
        for t in &mut trials {
            t.upkeep_ns = upkeep_ns;
        }
        let report = Report::build(&run, &trials);
        let told_ms = report.series[0].runs[0].layer_ms;
        assert!((told_ms - upkeep_ns as f64 / 1e6).abs() < 1e-9, "{told_ms}");
        let mut text = Vec::new();
        print_full(&report, Style::default(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let served = shown(321_000_000);
    assert!(
        served.contains("CPU of the layer's program") && served.contains("321 ms"),
        "{served}"
    );
    assert!(!shown(0).contains("CPU of the layer's program"));
}
