//! What studies say, as the other statements.

use layermark_model::Claim;

use super::{Draw, NAMES, check, each, hundred, plain_data};
use crate::{
    statements::{
        power_cuts::{ControlCut, Controls, CutEvidence},
        studies::{
            ByClaim, ClaimSides, CountedClaims,
            buffer_size::{BufferAnswer, EnoughBytes, Saved},
            declared::{
                ClaimPoint, ClaimPoints, DeclaredClaim, HostCpu, MissingPoint, MissingWhy,
                NoReference, NotDecided, WorkUnit,
            },
            fileio_appvirt::{
                AgainstNative, FileioClaim, LeftToWrite, MeanOfRepeats, OneRepeat, RepeatsVerdict,
            },
            iozone_vm::{
                CountedFlushes, FastSync, IozoneAnswer, IozoneClaim, LibraryTimes, PartOf,
                SyncProof, Than,
            },
        },
    },
    types::{BufferRow, Holds, Pick, ServedBy, Verdict},
    words::{Words, studies::Claimed},
};

fn pick(d: &mut Draw) -> Pick {
    let record = d.n();
    Pick {
        record,
        between: Some([record, record + d.n()]),
        best: record,
        seconds_per_byte: 1.0,
        best_seconds_per_byte: 1.0,
    }
}

/// A quotient is said as such, or as its inverse.
fn both_ways(ratio: f64) -> [f64; 2] {
    [ratio, 1.0 / ratio]
}

#[test]
fn claims_and_buffer_sizes() {
    let (place, variants) = variants!(BufferAnswer<'_>:
        BufferAnswer::Open(_), BufferAnswer::Enough(_), BufferAnswer::Costs(..));
    hundred(|d| {
        let by_claim = ByClaim(vec![ClaimSides {
            claim: "is fast",
            yes: vec!["fuse"],
            no: vec!["nfs", "vm"],
        }]);
        check(&by_claim.words(&NAMES), &by_claim, &[]);
        let counted = CountedClaims {
            yes: d.count(),
            no: d.count(),
            open: d.count(),
        };
        let all = counted.yes + counted.no + counted.open;
        check(&counted.words(&NAMES), &counted, &[all as f64]);
        let row = BufferRow {
            workload: String::new(),
            label: "read".into(),
            operation: "read".into(),
            point: serde_json::Map::new(),
            layer: "fuse".into(),
            records: vec![d.n()],
            wall: pick(d),
            cpu: None,
        };
        // The size and the share of the study.
        let constants = vec![1024.0, 5.0];
        let all = [
            BufferAnswer::Open(&row),
            BufferAnswer::Enough(&row),
            BufferAnswer::Costs(&row, vec![(d.x(), "read"), (d.x(), "write")]),
        ];
        let all = all.map(|answer| (answer, constants.clone()));
        each(Vec::from(all), place, variants);
        for what in [Saved::Throughput, Saved::CpuTime] {
            let absent = [d.n(), d.n()];
            let claim = EnoughBytes {
                what,
                op: "read",
                row: &row,
                pick: &row.wall,
                absent: &absent,
            };
            check(&claim.words(&NAMES), &claim, &constants);
            check(&claim.claim(&NAMES), &claim, &constants);
        }
    });
}

#[test]
fn repeats_of_virtualised_applications() {
    let (place, variants) = variants!(FileioClaim<'_>:
        FileioClaim::LaterReads { .. }, FileioClaim::Written { .. }, FileioClaim::InPlace { .. });
    let (left, lefts) = variants!(LeftToWrite:
        LeftToWrite::Unknown, LeftToWrite::NotCounted, LeftToWrite::Much { .. }, LeftToWrite::Little(_));
    let (apart, aparts) = variants!(AgainstNative:
        AgainstNative::No, AgainstNative::Slower(_), AgainstNative::Faster(_), AgainstNative::Open);
    hundred(|d| {
        let row = d.row();
        let of = [
            AgainstNative::No,
            AgainstNative::Slower(d.x()),
            AgainstNative::Faster(d.x()),
            AgainstNative::Open,
        ];
        assert_eq!(of.map(|one| apart(&one)).len(), aparts);
        for apart in of {
            let verdict = RepeatsVerdict { row: &row, apart };
            let ratio = match apart {
                AgainstNative::Slower(ratio) | AgainstNative::Faster(ratio) => {
                    both_ways(ratio).to_vec()
                }
                AgainstNative::No | AgainstNative::Open => Vec::new(),
            };
            check(&verdict.words(&NAMES), &apart, &ratio);
        }
        let all = [
            LeftToWrite::Unknown,
            LeftToWrite::NotCounted,
            LeftToWrite::Much {
                bytes: [d.x(), d.x()],
                seconds: [d.x(), d.x()],
            },
            LeftToWrite::Little([d.x(), d.x()]),
        ];
        each(plain_data(all), left, lefts);
        let size = d.n();
        let all = [
            FileioClaim::LaterReads {
                layer: "fuse",
                first: [d.count(), d.count()],
                again: [d.count(), d.count()],
                seconds: Some([d.x(), d.x()]),
            },
            FileioClaim::Written {
                layer: "fuse",
                left: all[3],
            },
            FileioClaim::InPlace {
                layer: "fuse",
                size: 1024 * size,
                seconds: [d.x(), d.x()],
                verdict: None,
            },
        ];
        let sizes = vec![size as f64, size as f64 / 1024.0];
        let all = all.map(|claim| (claim, sizes.clone()));
        each(Vec::from(all), place, variants);
        let mean = d.x();
        let mean = MeanOfRepeats {
            mean,
            range: [0.9 * mean, 1.1 * mean],
        };
        check(&mean.words(&NAMES), &mean, &[]);
        let one = OneRepeat {
            seconds: d.x(),
            apart: Some(ServedBy::Device),
        };
        check(&one.words(&NAMES), &one, &[]);
    });
}

#[test]
fn syncs_and_what_they_are_compared_with() {
    let (than, thans) = variants!(Than<'_>:
        Than::Baseline(_), Than::Fastest, Than::Guest(..), Than::Nothing);
    let (proof, proofs) = variants!(SyncProof<'_>:
        SyncProof::Kept { .. }, SyncProof::Counted(..), SyncProof::Lost(..));
    hundred(|d| {
        let answer = IozoneAnswer {
            lose: vec!["vm"],
            off: vec!["nfs"; 4],
            database: vec!["fuse"],
            reading: vec!["overlay"],
        };
        check(&answer.words(&NAMES), &answer, &[4.0]);
        let all = [
            Than::Baseline(d.x()),
            Than::Fastest,
            Than::Guest("vm", d.x()),
            Than::Nothing,
        ];
        each(plain_data(all), than, thans);
        let mut counted = d.row();
        (counted.durability.flushes, counted.durability.syncs) = (Some(d.n()), d.n());
        let flushes = |faster| CountedFlushes {
            row: &counted,
            counted: true,
            faster,
        };
        let faster = d.estimate();
        let win = both_ways(faster.estimate).to_vec();
        let kept = SyncProof::Kept {
            records: d.n(),
            cuts: d.n(),
            killed: Some(CutEvidence::LostWhenKilled(d.n())),
        };
        let by_flushes = SyncProof::Counted(flushes(Some(faster)), Some("no cut was made"));
        assert_eq!([proof(&kept), proof(&by_flushes)], [0, 1]);
        assert_eq!(
            proofs, 3,
            "`Lost` holds a `Lie`, which has a test of its own"
        );
        check(&kept.words(&NAMES), &kept, &[0.0]);
        check(&by_flushes.words(&NAMES), &by_flushes, &win);
    });
}

#[test]
fn development_machines() {
    let (place, variants) = variants!(IozoneClaim<'_>:
        IozoneClaim::Ceiling(..), IozoneClaim::Constant(..), IozoneClaim::Cached { .. }, IozoneClaim::Honest(..),
        IozoneClaim::FastSync(_), IozoneClaim::Database { .. }, IozoneClaim::Reading(_), IozoneClaim::Library(..));
    hundred(|d| {
        let [here, there] = [d.x(), d.x()].map(|value| crate::ResultRow {
            value: Some(value),
            unit: "B/s".into(),
            ..d.row()
        });
        let counted = d.row();
        let flushes = CountedFlushes {
            row: &counted,
            counted: false,
            faster: None,
        };
        let file = d.n();
        let part = PartOf {
            op: "read",
            file: 1024 * file,
        };
        let files = vec![file as f64, file as f64 / 1024.0];
        let control = ControlCut {
            layer: "loop",
            losing: d.n(),
            cuts: d.n(),
            open: None,
        };
        let ratios = [d.x(), d.x(), d.x()];
        let records = [d.n(), d.n()];
        let all = [
            (IozoneClaim::Ceiling(&here, &there, part), files.clone()),
            (IozoneClaim::Constant("fuse", None), Vec::new()),
            (
                IozoneClaim::Cached {
                    layer: "vm",
                    part,
                    own: [d.count(), d.count()],
                    elsewhere: vec![(ServedBy::Device, d.count())],
                },
                files,
            ),
            (
                IozoneClaim::Honest("vm", SyncProof::Counted(flushes, None)),
                Vec::new(),
            ),
            (
                IozoneClaim::FastSync(Box::new(FastSync {
                    fast: ("vm", d.x()),
                    honest: ("qemu", d.x()),
                    cpus_differ: true,
                    lost: vec!["vm"],
                    kept: vec!["qemu"],
                    controls: Controls {
                        honest: Some(control),
                        lying: Some(control),
                    },
                })),
                Vec::new(),
            ),
            (
                IozoneClaim::Database {
                    layer: "vm",
                    loses: true,
                    us: d.x(),
                    than: Than::Nothing,
                },
                Vec::new(),
            ),
            (
                IozoneClaim::Reading([("a", ratios[0]), ("b", ratios[1]), ("c", ratios[2])]),
                ratios.map(both_ways).concat(),
            ),
            (
                IozoneClaim::Library(
                    "read",
                    LibraryTimes::Apart(vec![
                        (ratios[0], 1024 * records[0]),
                        (ratios[1], 1024 * records[1]),
                    ]),
                ),
                records.map(|n| [n as f64, n as f64 / 1024.0]).concat(),
            ),
        ];
        each(Vec::from(all), place, variants);
        for times in [LibraryTimes::Unknown, LibraryTimes::Same(d.count())] {
            let claim = IozoneClaim::Library("read", times);
            check(&claim.words(&NAMES), &claim, &[]);
            check(&claim.claim(&NAMES), &claim, &[]);
        }
    });
}

#[test]
fn claims_of_a_plan() {
    let (place, variants) = variants!(NotDecided<'_>:
        NotDecided::Cpus(_), NotDecided::Emulated(_), NotDecided::Flushes(_), NotDecided::OtherPrograms, NotDecided::Stalls, NotDecided::Changes,
        NotDecided::FewBlocks, NotDecided::NoCopy);
    let (reference, references) = variants!(NoReference<'_>:
        NoReference::Native, NoReference::OfItsCpu, NoReference::Named(_), NoReference::Several(..));
    let (kind, kinds) = variants!(DeclaredClaim<'_>:
        DeclaredClaim::NotMeasured(..), DeclaredClaim::NoReference(..), DeclaredClaim::Points(_));
    let texts = [
        None,
        Some(
            "{layer} against {against}: {yes} of {n}, {same} the same, {slower} slower, {faster} faster{mean}",
        ),
        Some("{layer}: {spread}; {costs}{why}"),
        Some("{layer}: {verdicts}"),
    ];
    let claims = texts.map(|text| {
        let text = text.map_or_else(String::new, |t| format!("text = \"{t}\"\n"));
        let claim = format!("says = \"is as fast\"\nholds = \"same\"\n{text}");
        toml::from_str::<Claim>(&claim).expect("a claim")
    });
    hundred(|d| {
        let all = [
            NotDecided::Cpus(d.n() as u32),
            NotDecided::Emulated("native"),
            NotDecided::Flushes("nothing counts"),
            NotDecided::OtherPrograms,
            NotDecided::Stalls,
            NotDecided::Changes,
            NotDecided::FewBlocks,
            NotDecided::NoCopy,
        ];
        for why in all {
            check(&why.words(&NAMES), &why, &[]);
        }
        assert_eq!(all.map(|why| place(&why)).len(), variants);
        let all = [
            NoReference::Native,
            NoReference::OfItsCpu,
            NoReference::Named("nfs"),
            NoReference::Several("vm", vec!["a", "b"]),
        ];
        each(plain_data(all), reference, references);
        let rows = [d.row(), d.row()];
        let cpu = HostCpu {
            us: d.x(),
            per: WorkUnit::Kilobyte,
        };
        for claim in &claims {
            let point = |at: usize, ratio, verdict| ClaimPoint {
                row: &rows[at],
                other: Ok(&rows[at]),
                ratio: Some(ratio),
                verdict,
                cpu: Some([cpu, cpu]),
                holds: Holds::No,
            };
            let ratios = [d.estimate(), d.estimate()];
            let mean = (ratios[0].estimate * ratios[1].estimate).sqrt();
            let of = |points, absent| {
                DeclaredClaim::Points(Box::new(ClaimPoints {
                    claim,
                    layer: "fuse",
                    against: "native",
                    points,
                    absent,
                    mean: Some(mean),
                    why: Some(NotDecided::Changes),
                    why_is_needed: true,
                }))
            };
            // Counts of its points, and quotients the other way.
            let mut derived: Vec<f64> = (0..=3).map(f64::from).collect();
            derived.extend(ratios.iter().flat_map(super::noise));
            derived.extend(ratios.iter().flat_map(|r| both_ways(r.estimate)));
            derived.extend(both_ways(mean));
            let two = vec![
                point(0, ratios[0], Verdict::Slower),
                point(1, ratios[1], Verdict::Faster),
            ];
            let missing = vec![MissingPoint(MissingWhy::NotMeasured, "write")];
            let some = of(two, missing);
            check(&some.words(&NAMES), &some, &derived);
            let whole = of(vec![point(0, ratios[0], Verdict::Same)], Vec::new());
            let all = [
                DeclaredClaim::NotMeasured(claim, true),
                DeclaredClaim::NoReference(claim, "fuse", NoReference::Native),
                whole,
            ];
            let all = all.map(|claim| (claim, derived.clone()));
            each(Vec::from(all), kind, kinds);
        }
    });
}
