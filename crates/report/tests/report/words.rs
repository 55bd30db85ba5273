//! The verdict in words follows the data.

use layermark_model::{Debt, GuestFacts, Run, Target, TrialRecord, flags};
use layermark_report::{
    DurabilityVerdict, LockVerdict, Report, ServedBy, TrustState, Verdict, render,
};
use layermark_testkit::sample::Sample;

pub fn made(layers: &[&'static str], change: impl Fn(&mut Run, &mut Vec<TrialRecord>)) -> Report {
    let (mut run, mut trials) = Sample {
        layers: layers.to_vec(),
        ..Sample::default()
    }
    .build();
    change(&mut run, &mut trials);
    Report::build(&run, &trials)
}

fn text<'a>(report: &'a Report, layer: &str) -> &'a str {
    &report
        .verdicts
        .iter()
        .find(|v| v.layer == layer)
        .unwrap()
        .text
}

/// Scales the cost of every trial of a layer and point.
fn scale(trials: &mut [TrialRecord], layer: usize, point: usize, factor: f64) {
    for t in trials
        .iter_mut()
        .filter(|t| t.cell.layer == layer && t.cell.point == point)
    {
        times(t, factor);
    }
}

/// Scales the cost of a trial.
pub fn times(record: &mut TrialRecord, factor: f64) {
    for pass in &mut record.trial.as_mut().unwrap().passes {
        pass.elapsed_ns = (pass.elapsed_ns as f64 * factor) as u64;
    }
}

#[test]
fn copy_up_is_told_with_its_cost() {
    let report = made(&["overlay:upper"], |_, _| {});
    let text = text(&report, "overlay:upper");
    assert!(
        text.starts_with("`overlay:upper` is the same as native for reading"),
        "{text}"
    );
    assert!(
        text.contains("costs 40.5 ms (") && text.contains("copy-up"),
        "{text}"
    );
    let copy = report
        .results
        .iter()
        .find(|r| r.label.starts_with("first write") && r.layer == "overlay:upper")
        .unwrap();
    assert!(
        report
            .advice
            .iter()
            .any(|a| a.text.contains("rarely") && a.evidence == [copy.id.clone()])
    );
    assert!(
        report.headline.contains("`overlay:upper` takes "),
        "{}",
        report.headline
    );
}

#[test]
fn a_skipped_flush_is_told_and_advised_against() {
    let report = made(&["overlay:volatile"], |_, _| {});
    let row = report
        .results
        .iter()
        .find(|r| r.layer == "overlay:volatile" && r.label.contains("fsync"))
        .unwrap();
    assert_eq!(
        (row.verdict, row.durability.verdict),
        (Verdict::Faster, DurabilityVerdict::Absorbed)
    );
    let text = text(&report, "overlay:volatile");
    assert!(
        text.contains(
            "because it skips fsync (0 device flushes for 2200 syncs): keep no data there"
        ),
        "{text}"
    );
    assert!(
        report.headline.contains("`overlay:volatile` skips fsync"),
        "{}",
        report.headline
    );
    assert_eq!(report.result(&row.id).unwrap().layer, "overlay:volatile");
}

/// Flushes of other programs in every window and turn.
fn disturb(trials: &mut [TrialRecord]) {
    for trial in trials.iter_mut().filter_map(|t| t.trial.as_mut()) {
        if let Some(background) = &mut trial.background {
            background.flushes = 240;
            let others = background.expected_in(trial.elapsed_ns()) as u64;
            trial.device.as_mut().unwrap().flushes += others;
        }
    }
}

/// "198 device flushes for 85 syncs, about 10985 of them not its own" was said to be a skipped flush, of
/// native too.
#[test]
fn nobody_skips_a_flush_while_other_programs_flush() {
    let layers = ["overlay:upper", "fuse", "overlay:volatile"];
    let report = made(&layers, |_, trials| disturb(trials));
    let flushes = report.results.iter().filter(|r| r.durability.syncs > 0);
    for row in flushes {
        let durability = &row.durability;
        assert_eq!(
            durability.verdict,
            DurabilityVerdict::CannotTell,
            "{}: {durability:?}",
            row.layer
        );
        assert!(durability.background.is_some_and(|others| others > 1.0));
    }
    let mut said: Vec<&str> = report.verdicts.iter().map(|v| v.text.as_str()).collect();
    said.extend(report.findings.iter().map(|f| f.text.as_str()));
    said.push(&report.headline);
    assert!(!said.iter().any(|s| s.contains("skips fsync")), "{said:?}");
    let hint = |a: &layermark_report::Advice| a.text.contains("again when the disk is quiet");
    assert!(report.advice.iter().any(hint), "{:?}", report.advice);
}

/// Where not all layers fit the disk at once, native takes turns with each part of them, and only the
/// turns with this layer say whether the device was silent.
#[test]
fn native_counts_in_the_rounds_of_the_layer() {
    use layermark_model::Turn;
    let report = made(&["overlay:volatile"], |_, trials| {
        let turns = |trial: &mut layermark_model::Trial, round| {
            let pass = trial.passes[0];
            trial.turns = vec![Turn {
                round,
                elapsed_ns: pass.elapsed_ns,
                ops: pass.ops,
                bytes: pass.bytes,
                ..Turn::default()
            }];
        };
        let mut others = Vec::new();
        for record in trials.iter_mut() {
            turns(record.trial.as_mut().unwrap(), 0);
            if record.cell.layer == 0 {
                // The other part, which others disturbed.
                let mut other = record.clone();
                let trial = other.trial.as_mut().unwrap();
                turns(trial, 1);
                trial.background = trial
                    .background
                    .map(|b| layermark_model::DeviceBackground { flushes: 500, ..b });
                others.push(other);
            }
        }
        for (n, other) in others.iter_mut().enumerate() {
            other.seq = (trials.len() + n) as u64;
        }
        trials.extend(others);
    });
    let of = report.results.iter();
    let mut of = of.filter(|r| r.layer == "overlay:volatile" && r.durability.syncs > 0);
    let row = of.next().unwrap();
    assert_eq!(
        row.durability.verdict,
        DurabilityVerdict::Absorbed,
        "{:?}",
        row.durability
    );
}

/// In a container, whose root is mounted `fsync=volatile`, a volume took "101x native's time".
#[test]
fn a_native_that_skips_flushes_is_the_headline_and_no_baseline_for_them() {
    let report = made(&["overlay:upper", "overlay:volatile"], |run, trials| {
        run.layers[0].facts.mounts[0].options = "rw,fsync=volatile".into();
        run.layers[0].facts.devices.clear();
        for t in trials.iter_mut().filter(|t| t.cell.layer == 0) {
            t.trial.as_mut().unwrap().device = None;
        }
    });
    assert!(
        report
            .headline
            .starts_with("Native skips fsync: trust no ratio of a flush"),
        "{}",
        report.headline
    );
    assert!(
        report.findings[0].text.starts_with(
            "`native` skips fsync (it is mounted `fsync=volatile`, which passes no flush on; "
        ),
        "{:?}",
        report.findings[0]
    );
    let row = |layer: &str| {
        let of = report.results.iter();
        let mut of = of.filter(|r| r.layer == layer && r.meaning.flushes);
        of.next().unwrap()
    };
    assert_eq!(row("overlay:upper").verdict, Verdict::Untrusted);
    assert_eq!(
        row("overlay:upper").untrusted.as_deref(),
        Some("native skips the flush, this does not")
    );
    let reads = report.results.iter().filter(|r| !r.meaning.flushes);
    assert!(
        reads.clone().all(|r| r.untrusted.is_none()),
        "reads are compared"
    );
    let advice = |a: &layermark_report::Advice| a.text.contains("whose flushes reach the device");
    assert!(report.advice.iter().any(advice), "{:?}", report.advice);
}

/// A layer that is set up to pass no flush on, and whose flushes the device counts.
#[test]
fn where_counts_and_configuration_disagree_that_is_a_finding() {
    let report = made(&["overlay:upper"], |run, _| {
        let mount = &mut run.layers[1].facts.mounts[0];
        mount.options = format!("{},nobarrier", mount.options);
    });
    let said =
        |f: &&layermark_report::Statement| f.text.contains("counts and configuration disagree");
    let finding = report.findings.iter().find(said).expect("a finding");
    assert!(
        finding.text.contains("although it is mounted `nobarrier`"),
        "{finding:?}"
    );
    let row = report.result(&finding.evidence[0]).unwrap();
    assert_eq!(row.durability.verdict, DurabilityVerdict::CannotTell);
}

#[test]
fn each_layer_that_skips_flushes_has_its_own_figures() {
    let report = made(&["overlay:volatile", "fuse"], |run, trials| {
        for t in trials.iter_mut().filter(|t| t.cell.layer == 2) {
            let trial = t.trial.as_mut().unwrap();
            trial.syncs /= 2;
            trial.device.as_mut().unwrap().flushes = 0;
        }
        assert_eq!(run.layers[2].name, "fuse");
    });
    let said = |f: &&layermark_report::Statement| f.text.contains("skip fsync");
    let finding = report.findings.iter().find(said).expect("a finding");
    assert_eq!(
        finding.text,
        "`fuse` and `overlay:volatile` skip fsync (`fuse`: 0 flushes at the device for 1100 syncs; `overlay:volatile`: 0 flushes at the device for 2200 syncs)."
    );
}

/// At 60 columns the word on fsync was left out.
#[test]
fn what_became_of_an_fsync_is_on_the_narrowest_terminal() {
    use layermark_report::render::{Style, print_full};
    let report = made(&["overlay:volatile"], |_, _| {});
    for width in [40, 60, 80, 120, 200] {
        let mut out = Vec::new();
        print_full(
            &report,
            Style {
                width,
                colour: false,
                ..Style::default()
            },
            &mut out,
        )
        .unwrap();
        let text = String::from_utf8(out).unwrap();
        let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in ["fsync skipped", "flushes reached"] {
            assert!(said.contains(word), "{width}: {text}");
        }
    }
}

#[test]
fn fuse_adds_to_each_operation() {
    let report = made(&["fuse"], |_, _| {});
    let text = text(&report, "fuse");
    assert!(
        text.contains("adds 11.")
            && text.contains("us an operation")
            && text.contains("program in user space"),
        "{text}"
    );
}

#[test]
fn memory_is_not_a_disk() {
    let report = made(&["tmpfs"], |_, _| {});
    assert!(
        text(&report, "tmpfs").contains("lies in memory"),
        "{}",
        text(&report, "tmpfs")
    );
    assert!(
        report.headline.contains("`tmpfs` is memory, not a disk"),
        "{}",
        report.headline
    );
    let flush = report
        .results
        .iter()
        .find(|r| r.layer == "tmpfs" && r.label.contains("fsync"))
        .unwrap();
    assert_eq!(flush.durability.verdict, DurabilityVerdict::CannotTell);
}

#[test]
fn a_win_without_a_reason_is_an_alarm() {
    let report = made(&["overlay:upper"], |_, trials| scale(trials, 1, 2, 0.5));
    let text = text(&report, "overlay:upper");
    assert!(text.contains("no reason was found in the data"), "{text}");
    assert!(
        report
            .advice
            .iter()
            .any(|a| a.text.contains("nothing in the data explains it"))
    );
}

/// A difference that is known and that nobody would count on.
#[test]
fn a_small_win_without_a_reason_is_no_alarm() {
    // Small, and with an interval that reaches beyond delta: else it is the same.
    let small = |report: &Report| {
        let mut rows = report.results.iter();
        rows.any(|r| {
            let ratio = r.ratio.map_or(0.0, |e| e.estimate);
            r.layer == "overlay:upper"
                && r.label == "large read, warm"
                && r.verdict == Verdict::Faster
                && ratio >= 1.0 / (1.0 + report.delta)
        })
    };
    let factors = (900..1100).step_by(2).map(|f| f64::from(f) / 1e3);
    let mut reports = factors.map(|f| made(&["overlay:upper"], |_, trials| scale(trials, 1, 2, f)));
    let report = reports.find(small).expect("a small win");
    let row = report.results.iter().find(|r| {
        r.layer == "overlay:upper" && r.verdict == Verdict::Faster && r.label == "large read, warm"
    });
    assert_eq!(
        row.expect("a small win").reasons,
        ["no reason was found for so small a difference (below 5 %)"]
    );
    let text = text(&report, "overlay:upper");
    assert!(
        text.contains(", and no reason was found for so small a difference (below 5 %)"),
        "{text}"
    );
    let sentences = report.findings.iter().map(|s| &s.text);
    let mut sentences = sentences.chain(report.advice.iter().map(|a| &a.text));
    let alarm = sentences.find(|t| t.contains("explains it") || t.contains("count on"));
    assert_eq!(alarm, None);
}

#[test]
fn a_win_from_another_cache_says_so() {
    let report = made(&["overlay:upper"], |_, trials| {
        scale(trials, 1, 1, 0.2);
        for t in trials
            .iter_mut()
            .filter(|t| t.cell.layer == 1 && t.cell.point == 1)
        {
            t.trial.as_mut().unwrap().device.as_mut().unwrap().read = 0;
        }
    });
    let row = report
        .results
        .iter()
        .find(|r| r.layer == "overlay:upper" && r.label == "small read, cold")
        .unwrap();
    assert_eq!(
        (row.verdict, row.served_by),
        (Verdict::Faster, Some(ServedBy::HostMemory))
    );
    assert_eq!(
        row.reasons,
        ["it read from host memory, native from device"]
    );
}

#[test]
fn a_win_on_another_device_says_so() {
    let report = made(&["overlay:upper"], |run, trials| {
        run.layers[1].facts.devices[0].name = "nvme0n1".into();
        // What memory serves does not show the device; a cold read does.
        scale(trials, 1, 1, 0.5);
        scale(trials, 1, 2, 0.4);
    });
    let mut rows = report.results.iter();
    let warm = rows.find(|r| r.layer == "overlay:upper" && r.label == "large read, warm");
    assert_eq!(
        warm.unwrap().reasons,
        ["no reason was found in the data, so do not count on it"]
    );
    assert!(
        text(&report, "overlay:upper")
            .contains("it stands on another device (nvme0n1, natively vda)")
    );
    let proof = report.trust.iter().find(|t| t.id == "proof").unwrap();
    assert!(
        proof
            .text
            .contains("not on native's device: `overlay:upper`"),
        "{}",
        proof.text
    );
}

#[test]
fn a_cache_not_as_asked_is_not_trusted() {
    let report = made(&["overlay:upper"], |_, trials| {
        for t in trials
            .iter_mut()
            .filter(|t| t.cell.layer == 1 && t.cell.point == 1)
        {
            t.flags.push(flags::CACHE.into());
        }
    });
    let row = report
        .results
        .iter()
        .find(|r| r.layer == "overlay:upper" && r.label == "small read, cold")
        .unwrap();
    assert_eq!(row.verdict, Verdict::Untrusted);
    assert_eq!(row.flag_counts[flags::CACHE], 11);
    assert!(text(&report, "overlay:upper").contains("is not to be trusted at \u{201c}small read, cold\u{201d} (the cache was not as asked in 11 of 11 measurements)"));
    assert!(
        report
            .trust
            .iter()
            .any(|t| t.id == "cache" && t.state == TrustState::Warn)
    );
}

#[test]
fn a_cold_cache_that_nothing_proves_is_not_trusted() {
    let report = made(&["overlay:upper"], |run, trials| {
        run.machine.privilege = "none".into();
        for t in trials
            .iter_mut()
            .filter(|t| t.cell.layer == 1 && t.cell.point == 1)
        {
            t.flags.push(flags::CACHE_UNPROVED.into());
        }
    });
    assert!(text(&report, "overlay:upper").contains(
        "\u{201c}small read, cold\u{201d} (nothing proves that the cache was cold in 11 of 11 measurements: without root the kernel's name caches cannot be emptied)"
    ));
    let cache = report.trust.iter().find(|t| t.id == "cache").unwrap();
    assert_eq!(cache.state, TrustState::Warn);
    let why = "; not proved in 11, in `overlay:upper` (without root the kernel's name caches cannot be emptied)";
    assert!(cache.text.contains(why), "{}", cache.text);
    assert_eq!(evidence_for_root(&report), 1);
}

/// The kernel's name caches were blamed for warm trials too, beside which something read from the device.
#[test]
fn a_warm_cache_that_nothing_proves_has_a_reason_of_its_own() {
    let report = made(&["overlay:upper"], |run, trials| {
        run.machine.privilege = "root".into();
        for t in trials.iter_mut().filter(|t| t.cell.layer == 1) {
            t.flags.push(flags::CACHE_UNPROVED.into());
        }
    });
    let cache = report.trust.iter().find(|t| t.id == "cache").unwrap();
    let warm = "`overlay:upper` (other programs may have read from the device meanwhile)";
    let cold = "`overlay:upper` (the kernel's name caches could not be emptied)";
    let both = format!(", in {warm} and {cold}; ");
    assert!(cache.text.contains(&both), "{}", cache.text);
}

/// Of a server that answers from its own memory, with no known disk, it said: cold was cold in all trials.
#[test]
fn proved_not_proved_and_refuted_trials_are_counted_apart() {
    let report = made(&["overlay:upper", "loop:xfs"], |run, trials| {
        run.machine.privilege = "root".into();
        run.layers[2].facts.devices.clear();
        for t in trials.iter_mut().filter(|t| t.cell.layer == 2) {
            t.flags.push(flags::CACHE_UNPROVED.into());
        }
        let mut wrong = trials
            .iter_mut()
            .filter(|t| t.cell.layer == 1 && t.cell.point == 1);
        let wrong = wrong.next().unwrap();
        wrong.flags.push(flags::CACHE.into());
    });
    let of = |label: &str| {
        let mut rows = report.results.iter();
        let found = rows.find(|r| r.layer == "loop:xfs" && r.label == label);
        found.unwrap_or_else(|| panic!("{label}"))
    };
    let cold = of("small read, cold");
    assert_eq!(cold.verdict, Verdict::Untrusted);
    let why = "nothing proves that the cache was cold in 11 of 11 measurements: nothing below it counts what was read";
    assert_eq!(cold.untrusted.as_deref(), Some(why));
    assert_ne!(of("large read, warm").verdict, Verdict::Untrusted);
    let cache = report.trust.iter().find(|t| t.id == "cache").unwrap();
    assert_eq!(cache.state, TrustState::Warn);
    let numbers = ["proved in ", "; not proved in ", "; refuted in "].map(|words| {
        let (_, rest) = cache.text.split_once(words).unwrap();
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|n| n.parse::<usize>().ok()).unwrap()
    });
    let (_, rest) = cache.text.split_once(" of ").unwrap();
    let all: usize = rest.split(' ').next().unwrap().parse().unwrap();
    assert_eq!(numbers.iter().sum::<usize>(), all, "{}", cache.text);
    assert_eq!(numbers[2], 1, "{}", cache.text);
    let words = "in `loop:xfs` (nothing below it counts what was read)";
    assert!(cache.text.contains(words), "{}", cache.text);
    assert_eq!(evidence_for_root(&report), 0);
    let below = |a: &&layermark_report::Advice| a.text.contains("dir:PATH,below=DIRECTORY");
    let advice = report.advice.iter().find(below).expect("advice");
    assert_eq!(advice.evidence, std::slice::from_ref(&cold.id));
}

/// "0.99, same" was said of locks through sshfs, which keeps them on each client.
#[test]
fn locks_of_one_client_are_not_proved_between_machines() {
    let report = made(&["overlay:upper", "fuse"], |run, _| {
        run.points[0].meaning.target = Target::Lock;
    });
    let words = "Locks in `fuse` are not proved between machines: one client";
    let said = |c: &&String| c.starts_with(words);
    assert_eq!(report.caveats.iter().filter(said).count(), 1);
    let told: Vec<_> = report
        .locks
        .iter()
        .map(|l| (l.layer.as_str(), l.verdict))
        .collect();
    assert_eq!(told, [("fuse", LockVerdict::NotProved)]);
    let others = made(&["fuse"], |_, _| {});
    assert!(!others.caveats.iter().any(|c| c.contains("Locks")) && others.locks.is_empty());
}

/// "0.99, same" for sshfs, whose locks exclude the threads of one client only.
#[test]
fn two_clients_prove_whether_locks_exclude() {
    let asked = |refused: u64, taken: u64| {
        made(&["fuse"], |run, trials| {
            run.points.truncate(2);
            for (point, target) in run
                .points
                .iter_mut()
                .zip([Target::Lock, Target::SharedLock])
            {
                point.meaning.target = target;
                point.meaning.operation = "flock".into();
            }
            trials.retain(|t| t.cell.point < 2);
            for t in trials.iter_mut().filter(|t| t.cell.point == 1) {
                let (refused, taken) = if t.cell.layer == 0 {
                    (9, 0)
                } else {
                    (refused, taken)
                };
                let Some(trial) = &mut t.trial else { continue };
                trial.not_seen = refused == 0;
                trial.figures.set("seen", refused);
                trial.figures.set("absent", taken);
                if refused > 0 {
                    trial.figures.set("longest_ns", 2e6);
                }
            }
        })
    };
    let of = |report: &Report, layer: &str| {
        let row = report.locks.iter().find(|l| l.layer == layer).unwrap();
        (row.verdict, row.longest_us, row.because.clone())
    };
    let told = |report: &Report| {
        format!(
            "{} {:?} {:?} {:?}",
            report.headline, report.findings, report.verdicts, report.advice
        )
    };
    let closed = asked(4, 0);
    for layer in ["native", "fuse"] {
        let (verdict, longest, because) = of(&closed, layer);
        assert_eq!((verdict, longest), (LockVerdict::Excludes, Some(2000.0)));
        assert!(
            because.starts_with("the other side was refused "),
            "{because}"
        );
    }
    assert!(!closed.caveats.iter().any(|c| c.contains("Locks")));
    assert!(!told(&closed).contains("exclude"), "{}", told(&closed));
    for (refused, taken) in [(0, 1), (3, 1)] {
        let open = asked(refused, taken);
        let (verdict, _, because) = of(&open, "fuse");
        assert_eq!(verdict, LockVerdict::DoesNotExclude);
        assert!(because.starts_with("the other side took "), "{because}");
        assert_eq!(of(&open, "native").0, LockVerdict::Excludes);
        assert!(
            told(&open).contains("does not exclude the other side"),
            "{}",
            told(&open)
        );
    }
}

#[test]
fn only_points_that_ask_for_a_cache_are_counted() {
    let cache = |skip: usize| {
        let report = made(&["overlay:upper"], |run, trials| {
            for point in run.points.iter_mut().take(skip) {
                point.meaning.cache = None;
            }
            trials.retain(|t| t.trial.is_some());
        });
        let item = report.trust.iter().find(|t| t.id == "cache").unwrap();
        let count = item.text.split_whitespace().find_map(|w| w.parse().ok());
        count.unwrap_or(0usize)
    };
    let (all, fewer) = (cache(0), cache(1));
    assert!(fewer > 0 && fewer < all, "{fewer} of {all}");
    assert_eq!(cache(usize::MAX), 0);
}

/// Results that the advice to run as root rests on.
fn evidence_for_root(report: &Report) -> usize {
    let mut advice = report.advice.iter();
    let root = advice.find(|a| a.text.starts_with("Run as root"));
    root.map_or(0, |a| a.evidence.len())
}

#[test]
fn root_is_advised_for_caches_and_for_nothing_else() {
    let flagged = |flag: &str, privilege: &str| {
        made(&["overlay:upper"], |run, trials| {
            run.machine.privilege = privilege.into();
            let own = |t: &&mut TrialRecord| t.cell.layer == 1 && t.cell.point == 1;
            for t in trials.iter_mut().filter(own) {
                t.flags.push(flag.into());
            }
        })
    };
    let untrusted = |report: &Report| {
        let mut rows = report.results.iter();
        rows.any(|r| r.verdict == Verdict::Untrusted)
    };
    let direct = flagged(flags::DIRECT_IGNORED, "none");
    assert!(untrusted(&direct));
    assert_eq!(evidence_for_root(&direct), 0);
    assert_eq!(evidence_for_root(&flagged(flags::CACHE, "none")), 1);
    assert_eq!(evidence_for_root(&flagged(flags::CACHE, "root")), 0);
}

#[test]
fn write_back_of_others_and_major_faults_are_told() {
    let report = made(&["overlay:upper"], |_, trials| {
        for t in trials.iter_mut().filter(|t| t.cell.layer == 1) {
            let both = [flags::WRITE_BACK, flags::MAJOR_FAULTS];
            t.flags.extend(both.map(str::to_owned));
        }
    });
    let said = |id: &str| report.trust.iter().find(|t| t.id == id).unwrap();
    let contamination = said("contamination");
    assert_eq!(contamination.state, TrustState::Warn);
    let words = "while a device wrote data of another layer or program";
    assert!(contamination.text.contains(words), "{}", contamination.text);
    let cache = said("cache");
    assert_eq!(cache.state, TrustState::Warn);
    let words = "waited for pages that had been warm (major faults), in `overlay:upper`";
    assert!(cache.text.contains(words), "{}", cache.text);
    let counted = |flag| {
        let rows = report.results.iter();
        rows.filter_map(|r| r.flag_counts.get(flag)).sum::<usize>()
    };
    assert!(counted(flags::WRITE_BACK) > 0 && counted(flags::MAJOR_FAULTS) > 0);
    let clean = made(&["overlay:upper"], |_, _| {});
    let said = |id: &str| &clean.trust.iter().find(|t| t.id == id).unwrap().text;
    assert!(!said("contamination").contains("wrote") && !said("cache").contains("faults"));
}

#[test]
fn untrusted_natively_is_untrusted_everywhere() {
    let report = made(&["overlay:upper"], |_, trials| {
        for t in trials
            .iter_mut()
            .filter(|t| t.cell.layer == 0 && t.cell.point == 1)
        {
            t.flags.push(flags::CACHE.into());
        }
    });
    for row in report
        .results
        .iter()
        .filter(|r| r.label == "small read, cold")
    {
        assert_eq!(row.verdict, Verdict::Untrusted, "{}", row.layer);
    }
}

#[test]
fn wrong_data_and_a_failed_control_end_trust() {
    let report = made(&["overlay:upper"], |_, trials| {
        for t in trials.iter_mut() {
            t.trial.as_mut().unwrap().verified = Some(layermark_model::Verified {
                records: 10,
                bad: u64::from(t.seq == 3),
            });
        }
    });
    assert!(!report.trustworthy());
    assert!(
        report
            .results
            .iter()
            .any(|r| r.untrusted.as_deref() == Some("1 record came back with wrong data"))
    );
    let report = made(&["overlay:upper"], |_, trials| {
        for point in 0..5 {
            scale(trials, 2, point, 1.4);
        }
    });
    assert!(
        !report.trustworthy() && report.headline.contains("trust no figure"),
        "{}",
        report.headline
    );
    assert_eq!(report.control.as_ref().unwrap().false_alarms, 5);
    assert!(made(&["overlay:upper"], |_, _| {}).trustworthy());
}

#[test]
fn a_debt_is_told_in_the_advice() {
    for (bytes, told) in [
        (Some(250_000_000), "250 MB took 4.20 s more"),
        (None, "an unknown amount took 4.20 s more"),
    ] {
        debt_of(bytes, told);
    }
}

fn debt_of(bytes: Option<u64>, told: &str) {
    let (run, mut trials) = Sample {
        layers: vec!["overlay:upper"],
        points: vec!["large write"],
        ..Sample::default()
    }
    .build();
    for t in trials.iter_mut().filter(|t| t.cell.layer == 1) {
        t.trial.as_mut().unwrap().debt = Some(Debt {
            bytes,
            seconds: 4.2,
        });
    }
    let report = Report::build(&run, &trials);
    assert!(
        report.advice.iter().any(|a| a.text.contains(told)),
        "{:?}",
        report.advice
    );
}

#[test]
fn a_late_step_has_no_single_number() {
    let (run, mut trials) = Sample {
        blocks: 24,
        layers: vec!["overlay:upper"],
        points: vec!["large read, warm"],
        ..Sample::default()
    }
    .build();
    for t in trials
        .iter_mut()
        .filter(|t| t.cell.layer == 1 && t.cell.block >= 12)
    {
        t.trial.as_mut().unwrap().passes[0].elapsed_ns *= 2;
    }
    let report = Report::build(&run, &trials);
    let row = report
        .results
        .iter()
        .find(|r| r.layer == "overlay:upper")
        .unwrap();
    assert_eq!(
        (row.ratio, row.steady, row.change_points.as_slice()),
        (None, Some(false), &[12][..])
    );
    assert!(text(&report, "overlay:upper").contains("has no steady state"));
    assert!(
        report
            .trust
            .iter()
            .any(|t| t.id == "drift" && t.state == TrustState::Warn)
    );
}

#[test]
fn what_only_the_weaker_rule_finds_is_probable() {
    let swing = |trials: &mut Vec<TrialRecord>, by: f64| {
        for t in trials.iter_mut().filter(|t| t.cell.layer == 1) {
            let wave = [-0.12, 0.13, -0.02, 0.18, -0.17, 0.08, 0.03, -0.07];
            let factor = by * (1.0 + wave[(t.cell.block as usize + t.cell.point) % 8]);
            for pass in &mut t.trial.as_mut().unwrap().passes {
                pass.elapsed_ns = (pass.elapsed_ns as f64 * factor) as u64;
            }
        }
    };
    let report = made(&["overlay:upper"], |run, trials| {
        trials.retain(|t| t.cell.block < 8);
        run.layers[1].facts = run.layers[0].facts.clone();
        swing(trials, 1.14);
    });
    let probable: Vec<_> = report
        .results
        .iter()
        .filter(|r| r.probably.is_some())
        .collect();
    let known: Vec<_> = report
        .results
        .iter()
        .map(|r| (r.ratio, r.p, r.p_adjusted))
        .collect();
    assert!(!probable.is_empty(), "{known:?}");
    for row in &probable {
        assert_eq!(
            (row.verdict, row.word()),
            (Verdict::Undecided, "probably slower")
        );
        assert!(row.p_adjusted.unwrap() > 0.05 && row.ratio.unwrap().interval.unwrap()[0] > 1.0);
    }
    let text = text(&report, "overlay:upper");
    assert!(text.contains("probably takes 1."), "{text}");
    let told = |a: &layermark_report::Advice| a.text.contains("(probably slower)");
    assert!(report.advice.iter().any(told), "{:?}", report.advice);
}

/// Marks the trials of these points as disturbed, in all layers.
fn contaminate(trials: &mut [TrialRecord], points: &[usize]) {
    let hit = |t: &&mut TrialRecord| points.contains(&t.cell.point);
    for t in trials.iter_mut().filter(hit) {
        t.flags.push(flags::CONTAMINATED.into());
    }
}

/// The report in a format.
fn written(report: &Report, name: &str) -> String {
    let mut out = Vec::new();
    let exporter = render::for_path(std::path::Path::new(name)).unwrap();
    exporter.write(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The headline was "fuse is too noisy to tell." above 11x, 10x and 9x, whose trials were disturbed.
#[test]
fn a_disturbed_row_is_not_left_out_of_the_headline() {
    let report = made(&["fuse"], |_, trials| {
        contaminate(trials, &[0, 1, 2, 4]);
        for t in trials
            .iter_mut()
            .filter(|t| t.cell.layer == 1 && t.cell.point == 3)
        {
            let factor = [0.8, 1.2, 1.0, 1.3][t.cell.block as usize % 4];
            let pass = &mut t.trial.as_mut().unwrap().passes[0];
            pass.elapsed_ns = (pass.elapsed_ns as f64 * factor) as u64;
        }
    });
    let largest = report.results.iter().filter(|r| r.layer == "fuse");
    let largest = largest.filter(|r| r.verdict == Verdict::Slower);
    let largest = largest.filter_map(|r| Some((r.extra_us?.estimate, r)));
    let (_, row) = largest.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    let told = format!(" native's time at {} (+", row.label);
    assert!(
        report.headline.starts_with("`fuse` takes ")
            && report.headline.contains(&told)
            && report
                .headline
                .ends_with("and slows 4 of 5 operations; 1 of 5 results not decided"),
        "{}",
        report.headline
    );
    assert_eq!(
        report.caveats,
        [
            "Busy machine: other programs disturbed 80 % of the measurements, in 4 of 5 results all of them"
        ]
    );
    for name in ["x.txt", "x.md", "x.full.md", "x.html"] {
        let text = written(&report, name);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(
            words.join(" ").contains(&report.caveats[0]),
            "{name}: {text}"
        );
    }
    assert!(made(&["fuse"], |_, _| {}).caveats.is_empty());
}

/// It was the largest ratio, of an operation that is over at once.
#[test]
fn the_headline_names_the_largest_loss_of_time() {
    let report = made(&["overlay:upper"], |_, trials| {
        scale(trials, 1, 0, 1.68);
        scale(trials, 1, 1, 1.78);
        scale(trials, 1, 4, 0.001);
        contaminate(trials, &[1]);
    });
    let row = |label: &str| {
        let mut rows = report.results.iter();
        let row = rows.find(|r| r.layer == "overlay:upper" && r.label == label);
        row.unwrap().ratio.unwrap().estimate
    };
    assert!(row("small read, cold") > row("open and stat"));
    let lost = |label: &str| {
        let mut rows = report.results.iter();
        let row = rows.find(|r| r.layer == "overlay:upper" && r.label == label);
        row.unwrap().extra_us.unwrap().estimate
    };
    let most = if lost("small read, cold") > lost("open and stat") {
        "small read, cold"
    } else {
        "open and stat"
    };
    let told = format!("x native's time at {most} (+");
    assert!(report.headline.contains(&told), "{}", report.headline);
}

/// It was "slower at 5 of 12", then "each of the 6 operations".
#[test]
fn findings_and_advice_count_the_same_rows() {
    let report = made(&["fuse"], |_, trials| contaminate(trials, &[0]));
    let rows = report.results.iter().filter(|r| r.layer == "fuse");
    let n = rows.filter(|r| r.verdict == Verdict::Slower).count();
    let finding = format!("`fuse` is slower at {n} of 5, ");
    assert!(
        report.findings.iter().any(|f| f.text.starts_with(&finding)),
        "{n}: {:?}",
        report.findings
    );
    let advice = format!("each of the {n} operations where it is slower");
    assert!(
        report.advice.iter().any(|a| a.text.contains(&advice)),
        "{:?}",
        report.advice
    );
}

/// The headline was "." where a verdict was asked on two points, and both were disturbed.
#[test]
fn a_headline_is_a_sentence() {
    let report = made(&["fuse"], |run, trials| {
        run.plan.confirm = vec![run.points[0].label.clone(), run.points[1].label.clone()];
        contaminate(trials, &[0, 1]);
    });
    assert!(
        report.headline.ends_with("and slows 2 of 2 operations"),
        "{:?}",
        report.headline
    );
    let all = made(&["fuse"], |_, trials| contaminate(trials, &[0, 1, 2, 3, 4]));
    assert!(
        all.headline.ends_with("and slows 5 of 5 operations"),
        "{}",
        all.headline
    );
    assert_eq!(
        all.caveats,
        [
            "Busy machine: other programs disturbed 100 % of the measurements, in 5 of 5 results all of them"
        ]
    );
}

/// One of five trials of the slowest layer failed, and the headline called another one the slowest.
#[test]
fn a_row_with_failed_trials_counts_and_its_error_is_printed() {
    let error = "tar ended with exit code 2; it said: tar: begins\ntar: ./big: Cannot write: No space left on device.";
    let (run, mut trials) = Sample {
        layers: vec!["overlay:upper", "loop:xfs"],
        points: vec!["open and stat", "large read, warm"],
        blocks: 5,
        ..Sample::default()
    }
    .build();
    scale(&mut trials, 1, 0, 9.0);
    scale(&mut trials, 2, 0, 37.0);
    for t in trials
        .iter_mut()
        .filter(|t| t.cell.layer == 2 && t.cell.point == 0)
    {
        // Four trials that are far apart do not decide.
        let factor = [0.05, 8.0, 0.05, 8.0, 1.0][t.cell.block as usize];
        let pass = &mut t.trial.as_mut().unwrap().passes[0];
        pass.elapsed_ns = (pass.elapsed_ns as f64 * factor) as u64;
        if t.cell.block == 4 {
            (t.trial, t.error) = (None, Some(error.into()));
        }
    }
    let report = Report::build(&run, &trials);
    let head = &report.headline;
    assert!(!head.contains("slowest"), "{head}");
    let told = "1 of 5 measurements failed)";
    assert!(
        head.contains("`loop:xfs` may take ") && head.contains(told),
        "{head}"
    );
    let line =
        "tar ended with exit code 2; it said: tar: ./big: Cannot write: No space left on device";
    let finding = format!(
        "1 of 5 measurements of \u{201c}open and stat\u{201d} in `loop:xfs` failed: {line}."
    );
    assert!(
        report.findings.iter().any(|f| f.text == finding),
        "{:?}",
        report.findings
    );
    let verdict =
        format!("failed in 1 of 5 measurements at \u{201c}open and stat\u{201d}: {line}.");
    assert!(text(&report, "loop:xfs").ends_with(&verdict));
    let mut short = Vec::new();
    render::print(&report, render::Style::default(), &mut short).unwrap();
    let mut all = vec![String::from_utf8(short).unwrap()];
    all.extend(["x.txt", "x.html", "x.md", "x.full.md"].map(|name| written(&report, name)));
    for text in all {
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains(line), "{text}");
    }
}

/// Its intervals ran from 0.69 to 1.26, and it was "ok".
#[test]
fn a_control_with_wide_intervals_says_how_wide() {
    let wide = made(&["overlay:upper"], |_, trials| {
        for t in trials.iter_mut().filter(|t| t.cell.layer == 2) {
            let factor = [0.6, 1.4, 0.9, 1.3, 0.7][t.cell.block as usize % 5];
            let pass = &mut t.trial.as_mut().unwrap().passes[0];
            pass.elapsed_ns = (pass.elapsed_ns as f64 * factor) as u64;
        }
    });
    let item = wide.trust.iter().find(|t| t.id == "control").unwrap();
    assert_eq!(item.state, TrustState::Warn, "{}", item.text);
    let told = "so wide that a difference of 10 % would not be seen";
    assert!(item.text.contains(told), "{}", item.text);
    let control = wide.control.as_ref().unwrap();
    assert!(control.wide > 0 && control.false_alarms == 0, "{control:?}");
    // Native did not differ from itself: it was not measured well enough to say.
    assert!(wide.trustworthy() && !wide.headline.contains("trust no figure"));
    let narrow = made(&["overlay:upper"], |_, _| {});
    let item = narrow.trust.iter().find(|t| t.id == "control").unwrap();
    assert_eq!(item.state, TrustState::Ok, "{}", item.text);
}

/// Reasons of a layer at the first point.
fn reasons<'a>(report: &'a Report, layer: &str) -> &'a [String] {
    let mut rows = report.results.iter();
    &rows.find(|r| r.layer == layer).unwrap().reasons
}

#[test]
fn a_layer_with_the_same_datum_that_is_much_cheaper_refutes_a_cause() {
    let guests = |factor: f64, network: bool| {
        made(&["overlay:upper", "loop:xfs"], |run, trials| {
            for layer in [1, 2] {
                run.layers[layer].facts.guest = Some(GuestFacts {
                    emulated_cpu: true,
                    ..GuestFacts::default()
                });
            }
            if network {
                let mount = &mut run.layers[2].facts.mounts[0];
                (mount.fs, mount.source) = ("nfs4".into(), "10.0.2.2:/srv".into());
            }
            scale(trials, 1, 0, 4.0);
            scale(trials, 2, 0, factor);
        })
    };
    let cpu = "emulated CPU, which makes every instruction slower";
    let alike = guests(2.5, false);
    assert_eq!(reasons(&alike, "overlay:upper"), [cpu]);
    assert_eq!(reasons(&alike, "loop:xfs"), [cpu]);
    // Twenty times as long, on the same CPU: it is something else.
    let apart = guests(80.0, false);
    assert_eq!(reasons(&apart, "overlay:upper"), [cpu]);
    assert!(reasons(&apart, "loop:xfs").is_empty(), "{apart:?}");
    let network = guests(80.0, true);
    assert_eq!(
        reasons(&network, "loop:xfs"),
        ["its data lies on a server (nfs4 from 10.0.2.2:/srv)"]
    );
}

#[test]
fn a_user_space_file_system_of_a_server_is_a_network_file_system() {
    let report = made(&["fuse"], |run, _| {
        run.layers[1].facts.mounts[0].source = "box:/srv".into();
    });
    assert_eq!(
        reasons(&report, "fuse")[0],
        "its data lies on a server (fuse.layermark from box:/srv)"
    );
}

#[test]
fn kernel_threads_of_io_uring_are_a_cause_where_native_has_none() {
    let with = |here: u64, natively: Option<u64>| {
        let report = made(&["overlay:upper"], |_, trials| {
            scale(trials, 1, 0, 3.0);
            for t in trials.iter_mut().filter(|t| t.cell.point == 0) {
                let count = [natively, Some(here), natively][t.cell.layer];
                t.trial.as_mut().unwrap().kernel_workers = count;
            }
        });
        reasons(&report, "overlay:upper").to_vec()
    };
    assert_eq!(
        with(4, Some(0)),
        [
            "io_uring hands its requests to 4 kernel threads (iou-wrk), natively to none; --engine pread needs none"
        ]
    );
    assert!(with(0, Some(0)).is_empty());
    assert!(with(4, Some(4)).is_empty());
    assert!(with(4, None).is_empty());
}

#[test]
fn seccomp_filters_are_a_cause_of_a_small_cost() {
    let with = |here: &str, natively: &str, ratio: f64| {
        let report = made(&["overlay:upper"], |run, trials| {
            scale(trials, 1, 0, ratio);
            for (layer, filters) in run.layers.iter_mut().zip([natively, here, natively]) {
                let note = ("seccomp_filters".to_owned(), filters.to_owned());
                layer.facts.notes.extend([note]);
            }
        });
        let said = reasons(&report, "overlay:upper").iter();
        said.filter(|r| r.contains("seccomp"))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        with("1", "", 1.2),
        ["each system call passes 1 seccomp filter, natively none"]
    );
    assert_eq!(
        with("5", "1", 1.2),
        ["each system call passes 5 seccomp filters, natively 1"]
    );
    assert!(with("1", "1", 1.2).is_empty());
    // No filter takes that long.
    assert!(with("1", "", 30.0).is_empty());
}

#[test]
fn a_baseline_that_moves_is_told_of_in_words() {
    let report = made(&["overlay:upper"], |_, trials| {
        for t in trials.iter_mut().filter(|t| t.cell.point == 1) {
            let factor = if t.cell.block % 3 == 0 { 9.0 } else { 1.0 };
            for pass in &mut t.trial.as_mut().unwrap().passes {
                pass.elapsed_ns = (pass.elapsed_ns as f64 * factor) as u64;
            }
        }
    });
    let drift = report.trust.iter().find(|t| t.id == "drift").unwrap();
    assert!(drift.state == TrustState::Warn, "{drift:?}");
    assert!(
        drift.text.starts_with("native itself ran from "),
        "{drift:?}"
    );
    assert!(
        drift.text.contains(&report.points()[1].to_owned()),
        "{drift:?}"
    );
}

/// A FUSE file system with an empty fsync was once explained by being another file system.
#[test]
fn a_flush_that_is_too_fast_is_suspected_whatever_the_file_system() {
    let report = made(&["fuse"], |run, trials| {
        for device in run.layers.iter_mut().flat_map(|l| &mut l.facts.devices) {
            device.write_cache = "write through".into();
        }
        for t in trials.iter_mut().filter(|t| t.cell.layer == 1) {
            for pass in &mut t.trial.as_mut().unwrap().passes {
                pass.elapsed_ns /= 40;
            }
        }
    });
    let row = report
        .results
        .iter()
        .find(|r| r.layer == "fuse" && r.durability.syncs > 0)
        .unwrap();
    assert_eq!(row.verdict, Verdict::Faster);
    let suspected = "fsync is suspected of not reaching the disk: ";
    assert!(row.reasons[0].starts_with(suspected), "{:?}", row.reasons);
    let advice = |a: &layermark_report::Advice| {
        a.text.starts_with("Do not rely on fsync in `fuse`")
            && a.text.contains("layermark durability --server 'COMMAND'")
    };
    assert!(report.advice.iter().any(advice), "{:?}", report.advice);
}

#[test]
fn noise_is_not_decided_and_says_between_what() {
    let report = made(&["overlay:upper"], |_, trials| {
        for t in trials
            .iter_mut()
            .filter(|t| t.cell.layer == 1 && t.cell.point == 2)
        {
            let factor = [0.9, 1.12, 1.0, 1.2][t.cell.block as usize % 4];
            let pass = &mut t.trial.as_mut().unwrap().passes[0];
            pass.elapsed_ns = (pass.elapsed_ns as f64 * factor) as u64;
        }
    });
    let row = report
        .results
        .iter()
        .find(|r| r.layer == "overlay:upper" && r.label == "large read, warm")
        .unwrap();
    assert_eq!(row.verdict, Verdict::Undecided);
    let text = text(&report, "overlay:upper");
    assert!(
        text.contains("is too noisy to tell at \u{201c}large read, warm\u{201d} (between "),
        "{text}"
    );
    let findings: Vec<&str> = report.findings.iter().map(|f| f.text.as_str()).collect();
    let open = findings.iter().find(|f| f.contains("too noisy to tell"));
    let open = open.expect("a finding of what is open");
    assert!(
        open.starts_with("1 of ") && open.contains(" is too noisy to tell"),
        "{open}"
    );
    // How many blocks would settle it was right half of the time: what is known is told instead.
    assert!(!text.contains("more block"), "{text}");
    let advice = |a: &layermark_report::Advice| a.text.contains("(no difference beyond ");
    assert!(report.advice.iter().any(advice), "{:?}", report.advice);
}

/// As in a container's root: what is made through the overlay lies in its upper directory, however long the first
/// write takes.
#[test]
fn only_what_lies_below_an_overlay_is_copied() {
    let report = made(&["overlay:upper"], |run, _| {
        run.layers[1].facts.notes.clear();
    });
    let text = text(&report, "overlay:upper");
    assert!(
        text.contains("costs 40.5 ms (") && !text.contains("copy-up"),
        "{text}"
    );
}

#[test]
fn a_copy_takes_as_long_as_its_bytes_need() {
    // 5 us more are no copy of 16 MiB.
    let report = made(&["overlay:upper"], |_, trials| {
        for t in trials
            .iter_mut()
            .filter(|t| t.cell.layer == 1 && t.cell.point == 4)
        {
            t.trial.as_mut().unwrap().passes[0].elapsed_ns = 20 * 70_000;
        }
    });
    let text = text(&report, "overlay:upper");
    assert!(
        text.contains("first write") && !text.contains("copy-up"),
        "{text}"
    );
}

#[test]
fn a_late_step_between_two_slow_levels_still_has_a_direction() {
    let (run, mut trials) = Sample {
        blocks: 24,
        layers: vec!["overlay:upper"],
        points: vec!["large read, warm"],
        ..Sample::default()
    }
    .build();
    for t in trials.iter_mut().filter(|t| t.cell.layer == 1) {
        let times = if t.cell.block >= 12 { 6 } else { 3 };
        t.trial.as_mut().unwrap().passes[0].elapsed_ns *= times;
    }
    let report = Report::build(&run, &trials);
    let row = report
        .results
        .iter()
        .find(|r| r.layer == "overlay:upper")
        .unwrap();
    assert_eq!((row.ratio, row.steady), (None, Some(false)));
    assert_eq!(row.verdict.word(), "slower");
    let words = "is slower at \u{201c}large read, warm\u{201d}, by how much changed during the run";
    assert!(text(&report, "overlay:upper").contains(words));
}

/// Every trial of layer 1 as long as native's in its block, but for a factor by point.
fn copied(factors: fn(usize, u32) -> f64) -> String {
    let report = made(&["overlay:upper"], |_, trials| {
        let native: Vec<TrialRecord> = trials
            .iter()
            .filter(|t| t.cell.layer == 0)
            .cloned()
            .collect();
        for t in trials.iter_mut().filter(|t| t.cell.layer == 1) {
            let at = (t.cell.point, t.cell.block);
            let pair = native.iter().find(|n| (n.cell.point, n.cell.block) == at);
            let factor = factors(at.0, at.1);
            let (ours, theirs) = (
                t.trial.as_mut().unwrap(),
                pair.unwrap().trial.as_ref().unwrap(),
            );
            ours.passes.clone_from(&theirs.passes);
            for pass in &mut ours.passes {
                pass.elapsed_ns = (pass.elapsed_ns as f64 * factor) as u64;
            }
        }
    });
    report.headline
}

#[test]
fn costs_nothing_only_where_every_point_says_so() {
    let free = copied(|_, block| if block.is_multiple_of(2) { 1.01 } else { 0.99 });
    assert_eq!(free, "`overlay:upper` costs nothing measurable");
    // A small cost that is certain is none that could not be measured.
    let certain = copied(|point, _| if point == 0 { 1.03 } else { 1.0 });
    assert_eq!(
        certain,
        "`overlay:upper` is within 5 % of native at 5 of 5 operations"
    );
    let open = copied(|point, block| match (point, block % 2) {
        (0, 0) => 1.3,
        (0, _) => 0.77,
        _ => 1.0,
    });
    assert_eq!(
        open,
        "`overlay:upper` is within 5 % of native at 4 of 5 operations"
    );
}
