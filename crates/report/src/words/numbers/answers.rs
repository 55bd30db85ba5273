//! What comparisons of runs, imports, `safe`, `why` and power cuts of programs say, as the other statements.

use std::{borrow::Cow, fs, path::Path};

use layermark_model::{
    CacheState, ImportedPoint, RunStatus, StoreOption,
    witness::{LossOrder, ProgramCut},
};

use super::{Draw, NAMES, check, each, forecast_row, hundred, noise, plain_data};
use crate::{
    facts::{
        machine::{COMPARED, FactValue, MachineFact},
        safe::Unseen,
    },
    statements::{
        alike::{AlikeCheck, CaveatOf, Checked, Difference, Holes, NotCompared, NotInBoth, OneRun},
        caveats::BusyMachine,
        checks::{AgainstItself, VerifiedData},
        compare::NotAReport,
        external::{Condition, ImportDifference, Imported},
        in_short::Kept,
        programs::{Blame, Open, ProgramAnswer},
        safe::{SafeAdvice, SafeBecause, SafeSecond},
        why::{Answer, CallCost, SlowCommand, UseInstead, WithoutCommand},
    },
    types::{LeftOut, ResultRow, ServedBy, Verdict},
    words::Words,
};

fn busy(d: &mut Draw) -> BusyMachine {
    BusyMachine {
        disturbed: d.count(),
        trials: d.count(),
        wholly: d.count(),
        cells: d.count(),
    }
}

#[test]
fn differences_between_two_runs() {
    let (place, variants) = variants!(Difference<'_>:
        Difference::Values(..), Difference::Layers(..), Difference::Points(..), Difference::Baselines(_),
        Difference::OtherWork(..), Difference::OtherMeasure(..), Difference::Holes(_), Difference::SetUpOnce(_), Difference::Untrusted(..),
        Difference::Unfinished(..), Difference::Busy(..));
    let (not, reasons) = variants!(NotCompared<'_>:
        NotCompared::Untrusted(..), NotCompared::Alone, NotCompared::FlushLost, NotCompared::FlushWon,
        NotCompared::OtherTimes);
    let store = StoreOption::default();
    hundred(|d| {
        let holes = Holes {
            run: OneRun::New,
            results: d.count(),
            point: "stat",
            layer: "fuse",
        };
        let busy = busy(d);
        let keys = vec![("record".to_owned(), [d.n().into(), d.n().into()])];
        let bytes = [d.n(), d.n()].map(FactValue::Bytes);
        let all = vec![
            (Difference::Values(MachineFact::Memory, bytes), vec![]),
            // Those beyond four are counted.
            (Difference::Layers(OneRun::Old, vec!["fuse"; 6]), vec![2.0]),
            (Difference::Points(OneRun::New, vec!["stat"]), vec![]),
            (Difference::Baselines(["native", "fuse"]), vec![]),
            (Difference::OtherWork(vec!["stat"], keys), vec![]),
            (Difference::OtherMeasure(vec!["stat"], OneRun::Old), vec![]),
            (Difference::Holes(vec![holes, holes]), vec![]),
            // The command with three sessions.
            (
                Difference::SetUpOnce(vec![OneRun::Old, OneRun::New]),
                vec![3.0],
            ),
            (Difference::Untrusted(OneRun::Old, "RUN", &store), vec![]),
            (
                Difference::Unfinished(OneRun::New, RunStatus::Stopped),
                vec![],
            ),
            (Difference::Busy(OneRun::New, busy), vec![busy.share()]),
        ];
        let differences = all.iter().map(|(one, _)| one.clone()).collect();
        each(all, place, variants);
        let checked = Checked {
            check: AlikeCheck::Work,
            differences,
        };
        check(&checked.words(&NAMES), &checked, &[2.0, 3.0, busy.share()]);
        for fact in COMPARED {
            let one = Difference::Values(fact, [FactValue::Count(7), FactValue::Flag(true)]);
            check(&one.words(&NAMES), &one, &[]);
        }
        let all = [
            NotCompared::Untrusted(OneRun::Old, "`fuse` was gone"),
            NotCompared::Alone,
            NotCompared::FlushLost,
            NotCompared::FlushWon,
            NotCompared::OtherTimes,
        ];
        each(plain_data(all), not, reasons);
        for run in [OneRun::Old, OneRun::New] {
            check(&NotInBoth(run).words(&NAMES), &run, &[]);
            let caveat = CaveatOf(run, "7 of 9 trials were disturbed");
            check(&caveat.words(&NAMES), &caveat, &[]);
        }
    });
}

#[test]
fn what_is_no_report_and_checks_of_its_data() {
    let (place, variants) = variants!(NotAReport:
        NotAReport::NotJson(_), NotAReport::OtherSchema, NotAReport::Incomplete(_), NotAReport::Comparison,
        NotAReport::WithoutBlocks);
    let error = || serde_json::from_str::<u8>("x").expect_err("no number");
    // The schema's own number.
    let all = [
        NotAReport::NotJson(error()),
        NotAReport::OtherSchema,
        NotAReport::Incomplete(error()),
        NotAReport::Comparison,
        NotAReport::WithoutBlocks,
    ];
    each(all.map(|of| (of, vec![1.0])).into(), place, variants);
    hundred(|d| {
        let [records, results] = [d.n(), d.n()];
        for (bad, steps) in [(0, true), (0, false), (d.n(), true)] {
            let data = VerifiedData {
                records,
                bad,
                results,
                steps,
            };
            check(&data.words(&NAMES), &data, &[]);
        }
        let span = [d.share(), 1.0 + d.share()];
        let itself = AgainstItself {
            points: d.count(),
            cover: d.count(),
            alarms: d.count(),
            wide: d.count(),
            hidden: d.share(),
            span,
        };
        // What the intervals hold, and the limit of an alarm.
        check(&itself.words(&NAMES), &itself, &[1.0]);
        let threads = d.threads();
        check(&threads.words(&NAMES), &threads, &[]);
    });
}

#[test]
fn imports() {
    let (place, variants) = variants!(Condition<'_>:
        Condition::Cache(..), Condition::Direct(..), Condition::Flush(..), Condition::Engine(..), Condition::OneOf(_),
        Condition::FileSize);
    hundred(|d| {
        let all = [
            Condition::Cache(Some(CacheState::Cold), ServedBy::Device),
            Condition::Direct(true, None),
            Condition::Flush("fsync", Some("none")),
            Condition::Engine("uring", Some("libaio")),
            Condition::OneOf(d.n()),
            Condition::FileSize,
        ];
        each(plain_data(all), place, variants);
        let point = ImportedPoint {
            name: "fio-rand".into(),
            op: Some("rand-read".into()),
            record: Some(1024 * d.n()),
            file_size: Some(1 << 20),
            queue_depth: Some(1 + d.n()),
            threads: Some(1 + d.n()),
            ..ImportedPoint::default()
        };
        check(&Imported(&point).words(&NAMES), &point, &[]);
        let difference = ImportDifference {
            what: "engine",
            old: Some("sync"),
            new: None,
        };
        check(&difference.words(&NAMES), &difference, &[]);
    });
}

#[test]
fn directories_that_can_be_relied_on() {
    let (place, variants) = variants!(SafeBecause<'_>:
        SafeBecause::NotMeasured, SafeBecause::Lacks(_), SafeBecause::Failed(_), SafeBecause::Untrusted(_),
        SafeBecause::Refused(..), SafeBecause::Taken(..), SafeBecause::Seen(..), SafeBecause::Unseen(..),
        SafeBecause::OtherMachines(_), SafeBecause::Flushes(_), SafeBecause::Drops(_), SafeBecause::InMemory,
        SafeBecause::Unflushed, SafeBecause::FlushedLate, SafeBecause::Uncut);
    let (second, sides) = variants!(SafeSecond<'_>:
        SafeSecond::Alone(_), SafeSecond::Process, SafeSecond::Client);
    let (what, ways) = variants!(SafeAdvice<'_>:
        SafeAdvice::OtherPath(_), SafeAdvice::Below(_), SafeAdvice::Quiet(_), SafeAdvice::CutByHand(_),
        SafeAdvice::LockElsewhere, SafeAdvice::MapElsewhere, SafeAdvice::SurviveElsewhere,
        SafeAdvice::WaitForChanges, SafeAdvice::SeeRun(..));
    let store = StoreOption::default();
    hundred(|d| {
        let seconds = [
            SafeSecond::Alone("ext4"),
            SafeSecond::Process,
            SafeSecond::Client,
        ];
        each(plain_data(seconds), second, sides);
        for who in seconds {
            let unseen = Unseen {
                labels: vec!["a change"],
                absent: d.n(),
                all: d.n(),
                waited: Some("5 s"),
            };
            let all = [
                SafeBecause::NotMeasured,
                SafeBecause::Lacks("flock: ENOLCK"),
                SafeBecause::Failed("no space"),
                SafeBecause::Untrusted(Cow::Borrowed("the layer was gone")),
                SafeBecause::Refused(d.n(), d.n(), who),
                SafeBecause::Taken(d.n(), d.n(), who),
                SafeBecause::Seen(d.x(), who),
                SafeBecause::Unseen(unseen, who),
                SafeBecause::OtherMachines("nfs"),
                SafeBecause::Flushes("8 flushes for 8 calls"),
                SafeBecause::Drops("it is mounted `volatile`"),
                SafeBecause::InMemory,
                SafeBecause::Unflushed,
                SafeBecause::FlushedLate,
                SafeBecause::Uncut,
            ];
            each(plain_data(all), place, variants);
        }
        let all = [
            SafeAdvice::OtherPath("/mnt/a"),
            SafeAdvice::Below("/mnt/a"),
            SafeAdvice::Quiet("/mnt/a"),
            SafeAdvice::CutByHand("/mnt/a"),
            SafeAdvice::LockElsewhere,
            SafeAdvice::MapElsewhere,
            SafeAdvice::SurviveElsewhere,
            SafeAdvice::WaitForChanges,
            SafeAdvice::SeeRun("RUN", &store),
        ];
        each(plain_data(all), what, ways);
    });
}

#[test]
fn why_a_command_is_slow() {
    let (place, variants) = variants!(UseInstead<'_>:
        UseInstead::Untrusted(_), UseInstead::Nothing, UseInstead::NoneKeeps, UseInstead::Free(_),
        UseInstead::Least(_), UseInstead::NotApart(_), UseInstead::Unknown(_));
    let verdicts = [
        Verdict::Same,
        Verdict::Slower,
        Verdict::Faster,
        Verdict::Undecided,
    ];
    let kept = [Kept::Yes, Kept::Skipped, Kept::Early, Kept::Memory];
    hundred(|d| {
        let forecast = forecast_row(d);
        for (verdict, kept) in verdicts.into_iter().zip(kept) {
            let row = ResultRow {
                verdict,
                op_us: Some(d.x()),
                native_us: Some(d.x()),
                ..d.row()
            };
            let extra = row
                .op_us
                .zip(row.native_us)
                .map(|(here, there)| here - there);
            let mut derived = noise(&row.ratio.expect("a ratio"));
            derived.extend(extra);
            for forecast in [None, Some(&forecast)] {
                let slow = SlowCommand {
                    row: &row,
                    forecast,
                    kept,
                    delta: d.share(),
                };
                check(&slow.words(&NAMES), &slow, &derived);
                let all = [
                    UseInstead::Untrusted(Cow::Borrowed("the control failed")),
                    UseInstead::Nothing,
                    UseInstead::NoneKeeps,
                    UseInstead::Free(vec![slow]),
                    UseInstead::Least(&row),
                    UseInstead::NotApart(vec!["fuse", "nfs"]),
                    UseInstead::Unknown(vec!["fuse"]),
                ];
                for instead in all.clone() {
                    let answer = Answer {
                        instead,
                        aside: vec![slow],
                    };
                    check(&answer.words(&NAMES), &answer, &derived);
                }
                let all = all.map(|one| (one, derived.clone()));
                each(all.into(), place, variants);
            }
        }
        let cost = CallCost(&forecast.calls[0]);
        check(&cost.words(&NAMES), &cost, &[]);
        let left = LeftOut {
            layer: "fuse".into(),
            point: None,
            reason: "it was not set up".into(),
            hint: Some("apt-get install fuse3".into()),
        };
        let without = WithoutCommand(&left);
        check(&without.words(&NAMES), &without, &[]);
    });
}

#[test]
fn programs_in_power_cuts() {
    let (reason, reasons) = variants!(Open<'_>:
        Open::NotCut(_), Open::NotSeen { .. }, Open::Stopped, Open::Blind, Open::LiarLostNothing(_), Open::NoLiar,
        Open::Ahead(..), Open::Partly(_));
    let (whose, blames) = variants!(Blame:
        Blame::Promised, Blame::Killed(_), Blame::Program, Blame::Layers, Blame::NotKnown);
    hundred(|d| {
        let cut = |d: &mut Draw, layer: &str, order| ProgramCut {
            layer: layer.into(),
            program: "redis".into(),
            items: d.n(),
            cuts: d.n(),
            losing: d.n(),
            torn: d.n(),
            most_lost: 1 + d.n(),
            most_of: 20_000,
            orders: [(order, 1)].into(),
            window_ns: d.n(),
            ..ProgramCut::default()
        };
        let [tail, gap, kept, open] = [
            ("fuse", LossOrder::Tail),
            ("nfs", LossOrder::Gap),
            ("loop", LossOrder::Tail),
            ("vm", LossOrder::Tail),
        ]
        .map(|(layer, order)| cut(d, layer, order));
        let why = [
            Open::NotCut("it has no programs"),
            Open::NotSeen {
                unrecovered: d.n(),
                unchecked: d.n(),
                unjudged: d.n(),
                why: "it lacks a key",
            },
            Open::Stopped,
            Open::Blind,
            Open::LiarLostNothing("overlay:volatile"),
            Open::NoLiar,
            Open::Ahead(d.n(), d.n()),
            Open::Partly(d.n()),
        ];
        let found: Vec<usize> = why.iter().map(reason).collect();
        assert_eq!(found, (0..reasons).collect::<Vec<_>>());
        let whose_loss = [
            Blame::Promised,
            Blame::Killed(d.n()),
            Blame::Program,
            Blame::Layers,
            Blame::NotKnown,
        ];
        let found: Vec<usize> = whose_loss.iter().map(whose).collect();
        assert_eq!(found, (0..blames).collect::<Vec<_>>());
        for why in why {
            for blame in whose_loss {
                let answer = ProgramAnswer {
                    program: "redis",
                    lost: vec![&tail, &gap],
                    kept: vec![&kept],
                    open: vec![(&open, why)],
                    blame: Some(blame),
                };
                check(&answer.words(&NAMES), &answer, &[]);
            }
        }
    });
}

/// Statements whose words are those of others that a test makes, each with these.
const INSIDE: [(&str, &str); 3] = [
    ("Choice", "HeadlinePart::Choices"),
    ("LayerVerdict", "the clauses of a layer"),
    ("OpenLocks", "Clause::Locks"),
];

/// A kind of statement without a generator fails here, and a variant without one does not compile.
#[test]
fn every_kind_of_statement_has_a_generator() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let tests = ["words/numbers", "sentences/tests"];
    let tests = tests.map(|dir| sources(&src.join(dir))).concat();
    let tests = tests.join("\n") + &fs::read_to_string(src.join("words/numbers.rs")).expect("text");
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let made: std::collections::BTreeSet<&str> = tests.split(|c| !is_part(c)).collect();
    let words = sources(&src.join("words")).join("\n");
    let kinds = words.split(" Words for ").skip(1);
    let kinds = kinds.map(|rest| {
        let end = rest.find(|c: char| !is_part(c) && c != ':');
        let path = &rest[..end.unwrap_or(rest.len())];
        path.rsplit("::").next().unwrap_or(path)
    });
    let kinds: Vec<&str> = kinds.filter(|kind| !kind.is_empty()).collect();
    assert!(kinds.len() > 60, "{}", kinds.len());
    let is_inside = |kind: &str| INSIDE.iter().any(|(of, _)| *of == kind);
    let missing = kinds
        .iter()
        .filter(|kind| !made.contains(**kind) && !is_inside(kind));
    let missing: Vec<&&str> = missing.collect();
    assert!(missing.is_empty(), "no test makes {missing:?}");
}

/// The texts of all files in and below a folder.
fn sources(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else {
            all.push(fs::read_to_string(&path).expect("text"));
        }
    }
    all
}
