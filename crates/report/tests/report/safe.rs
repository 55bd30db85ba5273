//! Answers of `layermark safe`, from made-up results of a directory.

use std::collections::BTreeMap;

use layermark_model::{
    CLIENTS, Defect, Device, Facts, FigureTable, FigureValue, Meaning, Mount, Target,
};
use layermark_report::{
    Durability, DurabilityVerdict, FigureGroup, FigureRow, LatencyUs, LockReason, LockRow,
    LockVerdict, Report, ResultRow, SafeQuestion, SafeTopic, SafeVerdict, Safety, TrustItem,
    TrustState,
};
use layermark_testkit::fixtures::fixture;

const ALL: [SafeTopic; 5] = [
    SafeTopic::Locks,
    SafeTopic::Mappings,
    SafeTopic::Fsync,
    SafeTopic::Names,
    SafeTopic::Coherence,
];
const DIR: &str = "dir:/mnt/x,other=/mnt/x";
const KINDS: [&str; 3] = ["flock", "fcntl", "ofd"];

fn row(id: &str, target: Target, operation: &str) -> ResultRow {
    ResultRow {
        id: id.into(),
        label: format!("{operation}, seen on the host"),
        layer: DIR.into(),
        meaning: Meaning {
            target,
            operation: operation.into(),
            ..Meaning::default()
        },
        trials: 3,
        op_us: Some(2e6),
        latency_us: Some(LatencyUs {
            max: 1000.0,
            ..LatencyUs::default()
        }),
        ..ResultRow::default()
    }
}

/// A directory on ext4, on a disk whose flushes were counted.
fn directory() -> Report {
    let kept = fixture("scripted").read();
    let mut report = Report::build(&kept.run, &kept.trials);
    report.layers.truncate(1);
    // Nothing proves where the scripted layer ran.
    report.trust.clear();
    let layer = &mut report.layers[0];
    (layer.name, layer.spec) = (DIR.into(), DIR.into());
    layer.facts = Facts {
        mounts: vec![Mount {
            at: "/mnt/x".into(),
            fs: "ext4".into(),
            source: "/dev/vda".into(),
            options: "rw,relatime".into(),
        }],
        devices: vec![Device {
            name: "vda".into(),
            write_cache: "write back".into(),
            physical: true,
            ..Device::default()
        }],
        notes: BTreeMap::from([(CLIENTS.to_owned(), "1".to_owned())]),
        ..Facts::default()
    };
    let mut append = row("r9", Target::Data, "append");
    append.meaning.flushes = true;
    append.durability = Durability {
        verdict: DurabilityVerdict::Honoured,
        because: Some("60 device flushes for 60 syncs".into()),
        ..Durability::default()
    };
    report.results = vec![
        row("r1", Target::SharedDirectory, "mapped"),
        row("r2", Target::SharedDirectory, "rename"),
        append,
    ];
    for (n, kind) in KINDS.iter().enumerate() {
        report
            .results
            .push(row(&format!("l{n}"), Target::Lock, kind));
    }
    report.locks = KINDS.map(lock).to_vec();
    report
}

fn lock(kind: &str) -> LockRow {
    LockRow {
        layer: DIR.into(),
        kind: kind.into(),
        verdict: LockVerdict::Excludes,
        because: String::new(),
        why: LockReason::OneClient,
        tried: 60,
        excluded: 60,
        longest_us: Some(1000.0),
        evidence: Vec::new(),
    }
}

#[track_caller]
fn answer(report: &Report, question: SafeQuestion) -> (SafeVerdict, String, String) {
    let safety = Safety::of(report, &ALL);
    assert_eq!(safety.dir, "/mnt/x");
    let mut all = safety.answers.into_iter();
    let of = all.find(|a| a.question == question).expect("an answer");
    assert_eq!(of.advice.is_some(), of.answer != SafeVerdict::Yes, "{of:?}");
    (of.answer, of.because, of.advice.unwrap_or_default())
}

#[test]
fn a_local_directory_is_safe_but_for_what_only_a_power_cut_shows() {
    let report = directory();
    let safety = Safety::of(&report, &ALL);
    let verdicts: Vec<_> = safety.answers.iter().map(|a| a.answer).collect();
    let (yes, not_proved) = (SafeVerdict::Yes, SafeVerdict::NotProved);
    assert_eq!(verdicts, [yes, yes, yes, yes, yes, not_proved, yes]);
    assert_eq!(safety.worst(), not_proved);
    let (_, because, advice) = answer(&report, SafeQuestion::Names);
    assert_eq!(because, "only a power cut shows it, and none was made");
    assert!(
        advice.contains("`layermark durability record --to LOG /mnt/x`"),
        "{advice}"
    );
    let (_, because, _) = answer(&report, SafeQuestion::Ofd);
    assert_eq!(
        because,
        "60 of 60 locks were refused to a second process (this kernel alone mounts the ext4; exports of it were not looked for)"
    );
    let asked = Safety::of(&report, &[SafeTopic::Fsync, SafeTopic::Locks]);
    assert_eq!(asked.worst(), yes);
    assert_eq!(asked.answers[3].evidence, ["r9"]);
}

#[test]
fn two_processes_of_a_client_say_nothing_of_another_machine() {
    let mut report = directory();
    report.layers[0].facts.mounts[0].fs = "nfs4".into();
    for lock in &mut report.locks {
        lock.verdict = LockVerdict::NotProved;
    }
    for question in [SafeQuestion::Flock, SafeQuestion::Coherence] {
        let (verdict, because, advice) = answer(&report, question);
        assert_eq!(verdict, SafeVerdict::NotProved);
        assert!(
            because.contains("other machines may have the files too (nfs4)"),
            "{because}"
        );
        assert!(
            advice.contains("`layermark safe /mnt/x --other OTHER`"),
            "{advice}"
        );
    }
    // Two processes are what was asked about.
    let (verdict, because, _) = answer(&report, SafeQuestion::SharedMappings);
    assert_eq!(verdict, SafeVerdict::Yes);
    assert!(
        because.contains("a second process of this machine"),
        "{because}"
    );
    let notes = &mut report.layers[0].facts.notes;
    notes.insert(CLIENTS.into(), "2".into());
    let (verdict, because, _) = answer(&report, SafeQuestion::Coherence);
    assert_eq!(verdict, SafeVerdict::Yes);
    assert_eq!(
        because,
        "each change was seen by the second client, the slowest within 1.00 ms"
    );
}

#[test]
fn a_lock_that_was_taken_and_a_change_that_was_not_seen_are_a_no() {
    let mut report = directory();
    (report.locks[1].verdict, report.locks[1].excluded) = (LockVerdict::DoesNotExclude, 57);
    let (verdict, because, _) = answer(&report, SafeQuestion::Fcntl);
    assert_eq!(verdict, SafeVerdict::No);
    assert!(
        because.starts_with("3 of 60 locks were taken by a second process"),
        "{because}"
    );
    assert_eq!(answer(&report, SafeQuestion::Flock).0, SafeVerdict::Yes);
    assert_eq!(Safety::of(&report, &ALL).worst(), SafeVerdict::No);
}

/// How many changes of a result were seen and not seen.
fn changes(report: &mut Report, id: &str, seen: f64, absent: f64) {
    let number = FigureValue::Number;
    report.figures = vec![FigureGroup {
        workload: "coherence".into(),
        what: String::new(),
        declared: FigureTable::new("", ""),
        rows: vec![FigureRow {
            result: id.into(),
            layer: DIR.into(),
            label: String::new(),
            values: BTreeMap::from([
                ("seen".to_owned(), number(seen)),
                ("absent".to_owned(), number(absent)),
                ("wait".to_owned(), FigureValue::Text("2s".into())),
            ]),
            left_out: Vec::new(),
        }],
    }];
}

/// Of 162 changes, 160 were seen, and "each change was seen" was said.
#[test]
fn a_single_change_that_was_not_seen_is_a_no() {
    let mut report = directory();
    for (id, question, label) in [
        ("r1", SafeQuestion::SharedMappings, "mapped"),
        ("r2", SafeQuestion::Coherence, "rename"),
    ] {
        changes(&mut report, id, 160.0, 0.0);
        assert_eq!(answer(&report, question).0, SafeVerdict::Yes);
        changes(&mut report, id, 160.0, 2.0);
        let (verdict, because, _) = answer(&report, question);
        assert_eq!(verdict, SafeVerdict::No);
        let begins = "2 of 162 changes were not seen by a second process (";
        let ends = format!(" within 2s: `{label}, seen on the host`");
        assert!(
            because.starts_with(begins) && because.ends_with(&ends),
            "{because}"
        );
        report.figures.clear();
        // One of three trials saw nothing.
        let row = report.results.iter_mut().find(|r| r.id == id).unwrap();
        row.flag_counts = BTreeMap::from([("not seen in time".to_owned(), 1)]);
        assert_eq!(answer(&report, question).0, SafeVerdict::No);
    }
}

const FAILED: &str = "the trial took longer than 60 s";

/// One trial of a result fails, and as many have worked.
fn fail(report: &mut Report, id: &str, error: &str, defect: Option<Defect>, trials: usize) {
    let mut trial = report.trials[0].clone();
    let row = report.results.iter_mut().find(|r| r.id == id).unwrap();
    (row.trials, row.failed_trials) = (trials, 1);
    row.error = Some(error.into());
    (trial.layer, trial.point) = (row.layer.clone(), row.label.clone());
    (trial.error, trial.defect) = (Some(error.into()), defect);
    report.trials.push(trial);
}

/// A *no* says that the operation is not there or does not work; where it has worked, and of other errors, where to look.
#[test]
fn only_what_was_refused_is_a_no() {
    let refused =
        "cannot look in /mnt/x: a shared mapping (mmap) is refused: No such device (os error 19)";
    let lacks = Some(Defect::Lacks);
    for (error, defect, trials, verdict) in [
        (refused, lacks, 0, SafeVerdict::No),
        (refused, lacks, 2, SafeVerdict::NotProved),
        // What such an error shows was not stored with older trials.
        (refused, None, 0, SafeVerdict::NotProved),
        (FAILED, None, 0, SafeVerdict::NotProved),
        (FAILED, None, 2, SafeVerdict::NotProved),
    ] {
        let mut report = directory();
        fail(&mut report, "r1", error, defect, trials);
        let (found, because, advice) = answer(&report, SafeQuestion::SharedMappings);
        assert_eq!(found, verdict, "{because}");
        assert!(because.ends_with(error), "{because}");
        let looks = advice.contains("layermark report");
        assert_eq!(looks, verdict == SafeVerdict::NotProved, "{advice}");
        assert_eq!(answer(&report, SafeQuestion::Coherence).0, SafeVerdict::Yes);
    }
    let mut report = directory();
    fail(&mut report, "r9", FAILED, None, 2);
    let (verdict, _, advice) = answer(&report, SafeQuestion::Fsync);
    assert_eq!(verdict, SafeVerdict::NotProved);
    assert!(advice.contains("layermark report"), "{advice}");
    report.locks.clear();
    let (verdict, because, _) = answer(&report, SafeQuestion::Flock);
    assert_eq!(
        (verdict, &*because),
        (SafeVerdict::NotProved, "it was not measured")
    );
}

/// The error of one trial of several, of which the last failed otherwise: the result has the last error alone.
#[test]
fn an_update_that_was_lost_in_any_trial_is_a_no() {
    let mut report = directory();
    let lost = "the layer breaks flock locks: of 90 updates of a number, made under the lock by 2 threads, 3 were lost in /x";
    fail(&mut report, "l0", lost, Some(Defect::Breaks), 1);
    fail(&mut report, "l0", FAILED, None, 1);
    let (verdict, because, _) = answer(&report, SafeQuestion::Flock);
    assert_eq!(verdict, SafeVerdict::No);
    assert!(because.contains("3 were lost in /x"), "{because}");
    fail(&mut report, "l1", FAILED, None, 1);
    let (verdict, because, _) = answer(&report, SafeQuestion::Fcntl);
    assert_eq!(verdict, SafeVerdict::NotProved);
    assert_eq!(because, format!("a measurement failed: {FAILED}"));
}

/// Nothing is known of who else mounts a file system that is not on the list.
#[test]
fn a_file_system_that_others_may_mount_has_another_side() {
    let with = |all: &[&str]| {
        let mut report = directory();
        let facts = &mut report.layers[0].facts;
        let mount = facts.mounts[0].clone();
        let of = |fs: &&str| Mount {
            fs: (*fs).into(),
            ..mount.clone()
        };
        facts.mounts = all.iter().map(of).collect();
        let of = |question| answer(&report, question).0;
        [
            of(SafeQuestion::Flock),
            of(SafeQuestion::Coherence),
            of(SafeQuestion::SharedMappings),
        ]
    };
    let (yes, open) = (SafeVerdict::Yes, SafeVerdict::NotProved);
    for known in [
        &["xfs"][..],
        &["zfs"],
        &["vfat"],
        &["overlay", "ext4"],
        &["overlay", "overlay", "btrfs"],
    ] {
        assert_eq!(with(known), [yes; 3], "{known:?}");
    }
    for other in [
        &["gfs2"][..],
        &["ocfs2"],
        &["fuse.sshfs"],
        &["overlay"],
        &["overlay", "nfs4"],
    ] {
        assert_eq!(with(other), [open, open, yes], "{other:?}");
    }
}

#[test]
fn no_yes_rests_on_a_run_that_is_not_trusted() {
    let mut report = directory();
    (report.locks[1].verdict, report.locks[1].excluded) = (LockVerdict::DoesNotExclude, 57);
    report.trust = vec![TrustItem {
        id: "verified".into(),
        title: "Data verified".into(),
        state: TrustState::Warn,
        text: "3 records differ".into(),
    }];
    let safety = Safety::of(&report, &ALL);
    for of in &safety.answers {
        assert_ne!(of.answer, SafeVerdict::Yes, "{of:?}");
    }
    let (verdict, because, advice) = answer(&report, SafeQuestion::Flock);
    assert_eq!(verdict, SafeVerdict::NotProved);
    assert_eq!(because, "the measurement is not trusted: 3 records differ");
    assert!(advice.contains("layermark report"), "{advice}");
    assert_eq!(answer(&report, SafeQuestion::Fcntl).0, SafeVerdict::No);
    report.trust.clear();
    let row = report.results.iter_mut().find(|r| r.id == "r2").unwrap();
    row.untrusted = Some("it is unknown where it ran".into());
    let (verdict, because, _) = answer(&report, SafeQuestion::Coherence);
    assert_eq!(verdict, SafeVerdict::NotProved);
    assert!(because.ends_with("it is unknown where it ran"), "{because}");
    assert_eq!(answer(&report, SafeQuestion::Flock).0, SafeVerdict::Yes);
}

/// Such a device has what was written with a barrier and without.
#[test]
fn a_barrier_that_no_device_needs_is_not_missed() {
    let mut report = directory();
    let append = report.results.iter_mut().find(|r| r.id == "r9").unwrap();
    append.durability.verdict = DurabilityVerdict::CannotTell;
    append.durability.configured = Some("it is mounted `nobarrier`".into());
    let facts = &mut report.layers[0].facts;
    facts.mounts[0].options = "rw,nobarrier".into();
    assert_eq!(answer(&report, SafeQuestion::Fsync).0, SafeVerdict::No);
    report.layers[0].facts.devices[0].write_cache = "write through".into();
    for question in [SafeQuestion::Fsync, SafeQuestion::Names] {
        assert_eq!(answer(&report, question).0, SafeVerdict::NotProved);
    }
    // Nothing is written at all without a flush.
    report.layers[0].facts.mounts[0].options = "rw,volatile".into();
    assert_eq!(answer(&report, SafeQuestion::Fsync).0, SafeVerdict::No);
}

#[test]
fn flushes_that_go_nowhere_keep_no_name() {
    let set = |change: &dyn Fn(&mut Durability)| {
        let mut report = directory();
        let append = report.results.iter_mut().find(|r| r.id == "r9").unwrap();
        change(&mut append.durability);
        report
    };
    let never = "fsync does not reach the device";
    let late =
        "fsync reaches the device only after it was answered, so a cut in between loses the name";
    for (lost, why) in [
        (set(&|d| d.verdict = DurabilityVerdict::Absorbed), never),
        (set(&|d| d.verdict = DurabilityVerdict::Late), late),
        (
            set(&|d| {
                d.verdict = DurabilityVerdict::CannotTell;
                d.configured = Some("it is mounted `nobarrier`".into());
            }),
            never,
        ),
    ] {
        assert_eq!(answer(&lost, SafeQuestion::Fsync).0, SafeVerdict::No);
        let (verdict, because, _) = answer(&lost, SafeQuestion::Names);
        assert_eq!((verdict, &*because), (SafeVerdict::No, why));
    }
    let contradicted = set(&|d| {
        d.verdict = DurabilityVerdict::CannotTell;
        d.configured = Some("it is mounted `nobarrier`".into());
        d.contradicted = true;
    });
    let (verdict, _, advice) = answer(&contradicted, SafeQuestion::Fsync);
    assert_eq!(verdict, SafeVerdict::NotProved);
    assert!(advice.contains("when the disk is quiet"), "{advice}");
    let mut memory = directory();
    memory.layers[0].facts.mounts[0].fs = "tmpfs".into();
    memory.layers[0].facts.devices.clear();
    for question in [SafeQuestion::Fsync, SafeQuestion::Names] {
        let (verdict, because, _) = answer(&memory, question);
        assert_eq!(
            (verdict, &*because),
            (SafeVerdict::No, "the data lies in memory")
        );
    }
}
