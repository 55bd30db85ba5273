//! Answers of `layermark safe`, from made-up results of a directory.

use std::collections::BTreeMap;

use layermark_model::{CLIENTS, Device, Facts, Meaning, Mount, Target};
use layermark_report::{
    Durability, DurabilityVerdict, LatencyUs, LockReason, LockRow, LockVerdict, Report, ResultRow,
    SafeQuestion, SafeTopic, SafeVerdict, Safety,
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
        "60 of 60 locks were refused to a second process, and no other machine has the files (ext4)"
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
    let unseen = report.results.iter_mut().find(|r| r.id == "r2").unwrap();
    unseen.flag_counts = BTreeMap::from([("not seen in time".to_owned(), 3)]);
    let (verdict, because, _) = answer(&report, SafeQuestion::Coherence);
    assert_eq!(verdict, SafeVerdict::No);
    assert!(
        because.contains("within 2.00 s: `rename, seen on the host`"),
        "{because}"
    );
    assert_eq!(Safety::of(&report, &ALL).worst(), SafeVerdict::No);
}

/// What fails where files can be written is not there; where nothing can be written, nothing is known.
#[test]
fn what_is_refused_is_a_no_where_files_can_be_written() {
    let mut report = directory();
    let fail = |report: &mut Report, id: &str| {
        let row = report.results.iter_mut().find(|r| r.id == id).unwrap();
        (row.trials, row.error) = (0, Some("mmap: No such device (os error 19)".into()));
    };
    fail(&mut report, "r1");
    let (verdict, because, _) = answer(&report, SafeQuestion::SharedMappings);
    assert_eq!(verdict, SafeVerdict::No);
    assert!(because.contains("No such device"), "{because}");
    fail(&mut report, "r9");
    let (verdict, _, advice) = answer(&report, SafeQuestion::SharedMappings);
    assert_eq!(verdict, SafeVerdict::NotProved);
    assert!(advice.contains("layermark report"), "{advice}");
    report.locks.clear();
    let (verdict, because, _) = answer(&report, SafeQuestion::Flock);
    assert_eq!(
        (verdict, &*because),
        (SafeVerdict::NotProved, "it was not measured")
    );
}

#[test]
fn flushes_that_go_nowhere_keep_no_name() {
    let set = |change: &dyn Fn(&mut Durability)| {
        let mut report = directory();
        let append = report.results.iter_mut().find(|r| r.id == "r9").unwrap();
        change(&mut append.durability);
        report
    };
    for lost in [
        set(&|d| d.verdict = DurabilityVerdict::Absorbed),
        set(&|d| d.verdict = DurabilityVerdict::Late),
        set(&|d| {
            d.verdict = DurabilityVerdict::CannotTell;
            d.configured = Some("it is mounted `nobarrier`".into());
        }),
    ] {
        assert_eq!(answer(&lost, SafeQuestion::Fsync).0, SafeVerdict::No);
        let (verdict, because, _) = answer(&lost, SafeQuestion::Names);
        assert_eq!(verdict, SafeVerdict::No);
        assert_eq!(because, "fsync does not reach the device");
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
