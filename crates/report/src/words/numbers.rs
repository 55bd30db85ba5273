//! Each number that a sentence says is one of its data. Each variant of a statement has a generator here: the list
//! `variants` of a kind does not compile without it.

use std::{fmt::Debug, path::PathBuf};

use layermark_model::{
    Limit, RunStatus, StoreOption, Untraced,
    witness::{ClosedFiles, LostRecord, Outcome, WitnessFinding, WitnessTrial},
};
use layermark_testkit::fixtures;

use crate::{
    code_span::Span,
    facts::machine::{FactValue, MachineFact},
    numerals::printed,
    statements::{
        alike::{AlikeCheck, Checked, Difference},
        caveats::BusyMachine,
        compare::{BaselineChange, ChangeFinding, ChangeHeadline, Drifted},
        cost::{AddedCost, CostModel, OperationCost},
        depth::{Bend, DepthBend},
        durability::{
            Agrees, Counted, Drops, FlushCount, FlushEvidence, Seen, Suspicion, Undecided,
        },
        estimate_checks::EstimateSaid,
        forecast::{Besides, CallAdvice, Lack, StepForecast, Terms},
        gate::{FailedGates, Held, Lacks, Repeated},
        left_out::Hint,
        odd::{Coverage, NotAmong, OddAnswer, OddAt, RunSays, Unlike},
        power_cuts::{self, ControlCut, ControlFault, ControlOpen, Controls, Lie, Loss, PowerCuts},
        remarks::{self, Crossed, Quick, Remark},
        scaling::NotScaling,
        series::{CallKind, SeriesFinding, TracedCalls},
        served::ServedBecause,
    },
    types::{
        Average, Cause, ChangePoint, CostRow, DepthPoint, Distrust, Estimate, EstimateCheck,
        EstimateVerdict, FewerBytes, FirstApart, ForecastCall, ForecastRow, GateRow, GateState,
        InTrials, LateFlushes, LaunchLevel, LaunchRun, MountPlace, Report, ResultRow, ServedBy,
        Setting, Sides, SlowOperations, Stalls, Standings, ThreadsRow, TwoKinds, Unproved, Verdict,
        WaitedIn, Withheld,
    },
    words::{Names, Text, Words},
};

/// Numbers for generators: the same on every machine.
struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u64 {
        // Knuth's MMIX generator; its high bits are good.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// From 1 to 9,999.
    fn n(&mut self) -> u64 {
        1 + self.bits() % 9999
    }

    fn count(&mut self) -> usize {
        self.n() as usize
    }

    /// From 0.01 to a million.
    fn x(&mut self) -> f64 {
        10f64.powf(-2.0 + 8.0 * (self.bits() as f64 / (1u64 << 31) as f64))
    }

    /// Threads whose speeds differ.
    fn threads(&mut self) -> ThreadsRow {
        ThreadsRow {
            count: self.count(),
            slowest: self.x(),
            mean: self.x(),
            fastest: self.x(),
            stonewall: self.x(),
            least_done: self.share(),
        }
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        self.bits() as f64 / (1u64 << 31) as f64
    }

    fn sides(&mut self) -> Sides<f64> {
        Sides {
            here: self.x(),
            native: self.x(),
        }
    }

    fn estimate(&mut self) -> Estimate {
        let estimate = self.x();
        Estimate::new(estimate, Some([estimate * 0.9, estimate * 1.1]))
    }

    fn row(&mut self) -> ResultRow {
        let mut ratio = self.estimate();
        let average = ratio.estimate * 1.5;
        ratio.average = Some(Average {
            estimate: average,
            interval: Some([average * 0.9, average * 1.1]),
        });
        ResultRow {
            layer: "fuse".into(),
            label: "small read".into(),
            trials: 9,
            ratio: Some(ratio),
            extra_us: Some(self.estimate()),
            verdict: Verdict::Slower,
            ..ResultRow::default()
        }
    }
}

/// Numbers of a statement's data.
fn numbers(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for c in text.chars().chain([' ']) {
        let last = all.last_mut().expect("one");
        if c.is_ascii_digit() || (matches!(c, '.' | ',') && !last.is_empty()) {
            last.push(c);
        } else if !last.is_empty() {
            all.push(String::new());
        }
    }
    let trimmed = all
        .iter()
        .map(|n| n.trim_end_matches(['.', ',']).replace(',', ""));
    trimmed.filter(|n| !n.is_empty()).collect()
}

/// The words of a text that are not names.
fn plain(text: &Text) -> String {
    let parts = text.parts().into_iter();
    let words = parts.map(|part| match part {
        Span::Words(words) => words,
        Span::Code(_) => " ",
    });
    // The section of a manual page.
    words.collect::<String>().replace("fsync(2)", "fsync")
}

/// How marked words begin that are commands, a field of the JSON, a setting or a test of iozone's, and no names.
const COMMANDS: [&str; 7] = [
    "layermark ",
    "--",
    "schema",
    "cache=unsafe",
    "min_ms",
    "fwrite",
    "re-fwrite",
];

/// Fails if a sentence says a number that neither its data nor `derived` has, or a name that its data has not.
fn check(words: &Text, data: &impl Debug, derived: &[f64]) {
    let whole = format!("{data:?}");
    for part in words.parts() {
        let Span::Code(name) = part else { continue };
        let is_command = COMMANDS.iter().any(|command| name.starts_with(command));
        let is_known = is_command || name == NAMES.baseline || whole.contains(name);
        assert!(is_known, "{name} of {words}: {whole}");
    }
    let mut all: Vec<f64> = numbers(&exponents(&whole))
        .iter()
        .filter_map(|n| n.parse().ok())
        .collect();
    all.extend(derived.iter().map(|n| n.abs()));
    for number in printed(&plain(words)) {
        let written = number.value;
        assert!(number.is_of(&all), "{written} of {words}: {data:?}");
    }
}

/// A Debug text whose numbers have no exponents.
fn exponents(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || "[](){},:".contains(c));
    let plain = words.map(|word| match word.parse::<f64>() {
        Ok(value) if word.contains('e') => format!("{value}"),
        _ => word.to_owned(),
    });
    plain.collect::<Vec<_>>().join(" ")
}

const NAMES: Names = Names { baseline: "native" };

/// Checks each variant, in the order of `variant`, which says the place of each.
fn each<T: Words + Debug>(all: Vec<(T, Vec<f64>)>, variant: fn(&T) -> usize, variants: usize) {
    let found: Vec<usize> = all.iter().map(|(one, _)| variant(one)).collect();
    assert_eq!(
        found,
        (0..variants).collect::<Vec<_>>(),
        "a generator is missing"
    );
    for (one, derived) in all {
        check(&one.words(&NAMES), &one, &derived);
    }
}

/// The place of each variant of a kind, and how many there are.
macro_rules! variants {
    ($kind:ty: $($variant:pat),+ $(,)?) => {{
        const NAMES: &[&str] = &[$(stringify!($variant)),+];
        fn place(of: &$kind) -> usize {
            let name = match of {
                $( $variant => stringify!($variant), )+
            };
            NAMES.iter().position(|n| *n == name).expect("listed")
        }
        (place as fn(&$kind) -> usize, NAMES.len())
    }};
}

mod answers;
mod cut_levels;
mod fleet;
mod lines;
mod sequences;
mod studies;

/// Runs a check on a hundred draws.
fn hundred(check: impl Fn(&mut Draw)) {
    for seed in 0..100 {
        check(&mut Draw(seed));
    }
}

fn plain_data<T>(all: impl IntoIterator<Item = T>) -> Vec<(T, Vec<f64>)> {
    all.into_iter().map(|one| (one, Vec::new())).collect()
}

#[test]
fn causes() {
    let (place, variants) = variants!(Cause:
        Cause::CopyUp, Cause::NetworkFileSystem { .. }, Cause::KernelWorkers(_), Cause::EmulatedCpu,
        Cause::UserSpace, Cause::HelperCpu(_), Cause::SeccompFilters(_), Cause::CpuLimit(..), Cause::Setting(_),
        Cause::Memory, Cause::SkippedFlush { .. }, Cause::LateFlush, Cause::SuspectedFlush(_), Cause::Compression(_),
        Cause::OtherDevice(_), Cause::OtherSource(_), Cause::OtherFileSystem(_), Cause::WriteBackDebt(_),
        Cause::WriteAmplification(_), Cause::FlushesPerSync(_), Cause::WaitsForCpu { .. }, Cause::OfBaseline(_),
        Cause::Small(_), Cause::Unexplained);
    hundred(|d| {
        let words = |text: &str| text.to_owned();
        let all = [
            Cause::CopyUp,
            Cause::NetworkFileSystem {
                fs: words("nfs"),
                source: words("box"),
            },
            Cause::KernelWorkers(d.n()),
            Cause::EmulatedCpu,
            Cause::UserSpace,
            Cause::HelperCpu(d.x()),
            Cause::SeccompFilters(Sides {
                here: d.n() as u32,
                native: d.n() as u32 % 2,
            }),
            Cause::CpuLimit(Limit::of_probe(d.share()), d.n()),
            Cause::Setting(Setting::ReadAhead(Sides {
                here: d.n(),
                native: d.n(),
            })),
            Cause::Memory,
            Cause::SkippedFlush {
                flushes: d.n(),
                syncs: d.n(),
                natively: (d.n() % 2 == 0).then(|| d.n()),
            },
            Cause::LateFlush,
            Cause::SuspectedFlush(words("how")),
            Cause::Compression(words("zstd")),
            Cause::OtherDevice(Sides {
                here: vec![words("vda")],
                native: vec![words("vdb")],
            }),
            Cause::OtherSource(Sides {
                here: ServedBy::Device,
                native: ServedBy::HostMemory,
            }),
            Cause::OtherFileSystem(Sides {
                here: words("xfs"),
                native: words("btrfs"),
            }),
            Cause::WriteBackDebt(d.sides()),
            Cause::WriteAmplification(d.sides()),
            Cause::FlushesPerSync(d.sides()),
            Cause::WaitsForCpu {
                whole_us: d.x(),
                waits_us: d.x(),
            },
            Cause::OfBaseline(Box::new(Cause::HelperCpu(d.x()))),
            Cause::Small(d.share()),
            Cause::Unexplained,
        ];
        each(plain_data(all), place, variants);
    });
}

#[test]
fn settings_and_reasons_of_distrust() {
    let (place, variants) = variants!(Setting:
        Setting::MountOption(..), Setting::ReadAhead(_), Setting::Decompresses(_), Setting::Compresses(_),
        Setting::Encrypts(_));
    let (distrust, reasons) = variants!(Distrust:
        Distrust::LayerLost, Distrust::WrongData(_), Distrust::UnknownPlace, Distrust::Cache(_),
        Distrust::CacheUnproved(..), Distrust::DirectIgnored(_), Distrust::UnlikePrograms(_),
        Distrust::BaselineSkipsFlush, Distrust::OfBaseline(_));
    let (place_of, whys) = variants!(Unproved:
        Unproved::NothingCounts, Unproved::Others, Unproved::NamesStayed, Unproved::Served, Unproved::WithoutRoot);
    let all = [
        Unproved::NothingCounts,
        Unproved::Others,
        Unproved::NamesStayed,
        Unproved::Served,
        Unproved::WithoutRoot,
    ];
    each(plain_data(all), place_of, whys);
    hundred(|d| {
        let below = MountPlace::Below(PathBuf::from("/srv"));
        let all = [
            Setting::MountOption("sync", below),
            Setting::ReadAhead(Sides {
                here: d.n(),
                native: d.n(),
            }),
            Setting::Decompresses("zstd".into()),
            Setting::Compresses("zstd".into()),
            Setting::Encrypts("LUKS".into()),
        ];
        each(plain_data(all), place, variants);
        let mut of = || InTrials {
            with: d.count(),
            all: d.count(),
        };
        let [cache, unproved, direct] = [of(), of(), of()];
        let all = [
            Distrust::LayerLost,
            Distrust::WrongData(d.n()),
            Distrust::UnknownPlace,
            Distrust::Cache(cache),
            Distrust::CacheUnproved(unproved, Unproved::NothingCounts),
            Distrust::DirectIgnored(direct),
            Distrust::UnlikePrograms("a and b".into()),
            Distrust::BaselineSkipsFlush,
            Distrust::OfBaseline(Box::new(Distrust::WrongData(d.n()))),
        ];
        each(plain_data(all), distrust, reasons);
    });
}

#[test]
fn waiting_and_sources() {
    let (place, variants) = variants!(Withheld: Withheld::Waits { .. }, Withheld::Without(_));
    let (served, sources) = variants!(ServedBecause:
        ServedBecause::FilesInMemory, ServedBecause::Counted { .. });
    let (scaling, reasons) = variants!(NotScaling:
        NotScaling::RateGiven, NotScaling::FewCpus(_), NotScaling::TwoGuests(_));
    hundred(|d| {
        for at in [
            WaitedIn::Layer,
            WaitedIn::Baseline,
            WaitedIn::OldRun,
            WaitedIn::NewRun,
        ] {
            let waits = Withheld::Waits {
                place: at,
                whole_us: d.x(),
                waits_us: d.x(),
                busy: true,
            };
            let ratio = Estimate::new(1.5 + d.x(), None);
            each(
                plain_data([waits, Withheld::Without(ratio)]),
                place,
                variants,
            );
        }
        let counted = ServedBecause::Counted {
            device: Some(d.share()),
            guest: Some(d.share()),
            resident: Some(d.share()),
            behind: Some(d.share()),
            in_image: true,
        };
        let all = plain_data([ServedBecause::FilesInMemory, counted]);
        each(all, served, sources);
        let [here, both, machine] = [d.n(), d.n(), d.n()].map(|n| n as u32);
        let all = [
            NotScaling::RateGiven,
            NotScaling::FewCpus(here),
            NotScaling::TwoGuests([both, machine]),
        ];
        each(plain_data(all), scaling, reasons);
    });
}

fn slow_side(d: &mut Draw, slow: bool) -> SlowOperations {
    let us = d.x();
    SlowOperations {
        operations: 100_000,
        slow: if slow { d.n() } else { 0 },
        slow_us: slow.then_some([us, 2.0 * us, 3.0 * us]),
        longest_other_us: Some(d.x()),
    }
}

#[test]
fn remarks_of_rows() {
    let (place, variants) = variants!(Remark<'_>:
        Remark::Stalls(..), Remark::WithWaiting(_), Remark::ReadFrom(..), Remark::FewerBytes(..),
        Remark::TwoKinds(..), Remark::FromMemory(_));
    hundred(|d| {
        let stalls = Stalls {
            here: slow_side(d, true),
            native: slow_side(d, false),
        };
        let share = stalls.here.slow as f64 / stalls.here.operations as f64;
        let kinds = TwoKinds {
            operations: 10_000,
            quick: d.n(),
            quick_us: d.x(),
            slow_us: d.x(),
        };
        let quick = kinds.quick as f64 / kinds.operations as f64;
        let bytes = FewerBytes {
            device: Some(d.n()),
            application: 10_000 * d.n(),
            mounted: Some("compress=zstd".into()),
        };
        let [typical, average] = [d.x() + 1.0, d.x() + 1.0].map(|r| Estimate::new(r, None));
        let with = d.estimate();
        let all = vec![
            (Remark::Stalls(typical, average, Some(stalls)), vec![share]),
            (Remark::WithWaiting(with), noise(&with)),
            (Remark::ReadFrom(ServedBy::Device, "because"), vec![]),
            (Remark::FewerBytes(&bytes, Crossed::To), vec![]),
            (Remark::TwoKinds(kinds, Quick::FromMemory), vec![quick]),
            (Remark::FromMemory(d.share()), vec![]),
        ];
        each(all, place, variants);
    });
}

/// What a ratio may be written as: its inverse, and half of its interval in percent.
fn noise(e: &Estimate) -> Vec<f64> {
    let mut all = vec![e.estimate, 1.0 / e.estimate];
    if let Some([low, high]) = e.interval {
        all.extend([1.0 / low, 1.0 / high]);
        let [low, high] = [e.estimate - low, high - e.estimate].map(|part| part / e.estimate);
        let half = low.max(high);
        all.extend([half, (100.0 * half).ceil(), 100.0]);
        let inverse = (1.0 / (1.0 - low) - 1.0).max(1.0 - 1.0 / (1.0 + high));
        all.push((100.0 * inverse).ceil());
    }
    all
}

#[test]
fn evidence_of_flushes() {
    let (place, variants) = variants!(Seen<'_>:
        Seen::InMemory, Seen::NoDevice, Seen::WritesThrough, Seen::CacheUnknown, Seen::NotCounted,
        Seen::FewSyncs(..), Seen::Late(_), Seen::Counted(_), Seen::Silent(_), Seen::Open(..),
        Seen::BaselinePrograms(_), Seen::LayerPrograms(..));
    let late_layers = ["nfs".to_owned()];
    hundred(|d| {
        let mut counted = || Counted {
            count: FlushCount {
                flushes: d.n(),
                syncs: d.n(),
            },
            others: d.x(),
            trials: 3,
            of: 7,
        };
        let [some, silent] = [counted(), counted()];
        let late = LateFlushes {
            turns: d.count(),
            in_turns: d.n(),
            later: d.n(),
            within_ms: d.n(),
            other_turns: d.count(),
            after_others: d.n(),
        };
        let all = [
            Seen::InMemory,
            Seen::NoDevice,
            Seen::WritesThrough,
            Seen::CacheUnknown,
            Seen::NotCounted,
            Seen::FewSyncs(d.n(), d.n()),
            Seen::Late(late),
            Seen::Counted(some),
            Seen::Silent(silent),
            Seen::Open(some.count, Undecided::Unwatched),
            Seen::BaselinePrograms(d.n()),
            Seen::LayerPrograms(d.n(), d.n()),
        ];
        each(plain_data(all), place, variants);
        let of = [d.count(), d.count()];
        let (open, reasons) = variants!(Undecided<'_>:
            Undecided::Unwatched, Undecided::Others(_), Undecided::LateOthers(..), Undecided::TooFew(_),
            Undecided::ForcedUnitAccess, Undecided::NorThoseOf(_), Undecided::NoReference,
            Undecided::FewSilent(_), Undecided::Some);
        let all = [
            Undecided::Unwatched,
            Undecided::Others(of),
            Undecided::LateOthers(of, &late_layers),
            Undecided::TooFew(d.n()),
            Undecided::ForcedUnitAccess,
            Undecided::NorThoseOf("native"),
            Undecided::NoReference,
            Undecided::FewSilent("native"),
            Undecided::Some,
        ];
        let found: Vec<usize> = all.iter().map(open).collect();
        assert_eq!(found, (0..reasons).collect::<Vec<_>>());
        let drops = [
            Drops::DiskCache,
            Drops::Mounted(MountPlace::Own, "volatile".into()),
        ];
        let (dropped, ways) = variants!(Drops: Drops::DiskCache, Drops::Mounted(..));
        each(plain_data(drops.clone()), dropped, ways);
        for why in all {
            let seen = Seen::Open(some.count, why);
            for agrees in [Agrees::Alone, Agrees::Both, Agrees::Not] {
                let evidence = FlushEvidence {
                    seen: seen.clone(),
                    configured: Some((&drops[1], agrees)),
                };
                check(&evidence.words(&NAMES), &evidence, &[]);
            }
        }
        let ratio = Estimate::new(d.share() / 2.0 + 0.001, None);
        let suspicion = Suspicion { ratio };
        check(
            &suspicion.words(&NAMES),
            &suspicion,
            &[1.0 / ratio.estimate],
        );
    });
}

fn cut(d: &mut Draw) -> (WitnessTrial, LostRecord) {
    let first = LostRecord {
        finding: WitnessFinding {
            outcome: Outcome::Lost,
            sequence: d.n(),
            block: d.n(),
            text: "it is absent".into(),
            permitted: false,
        },
        at_ms: 0,
        timeline: Vec::new(),
    };
    let trial = WitnessTrial {
        layer: "fuse".into(),
        writer: "append".into(),
        cuts: d.n(),
        losing: d.n(),
        ..WitnessTrial::default()
    };
    (trial, first)
}

#[test]
fn power_cuts_and_their_controls() {
    let (place, variants) =
        variants!(PowerCuts<'_>: PowerCuts::Unbelievable(_), PowerCuts::Lost { .. });
    let (seen, kinds) = variants!(power_cuts::CutEvidence<'_>:
        power_cuts::CutEvidence::Closed(_), power_cuts::CutEvidence::LostWhenKilled(_),
        power_cuts::CutEvidence::NotSetUpWhenKilled(_), power_cuts::CutEvidence::Refuses(_));
    let (faults, wrong) = variants!(ControlFault<'_>:
        ControlFault::LiarNotCaught(_), ControlFault::HonestLost(_), ControlFault::LiarKeptSequences(_),
        ControlFault::HonestLostSequence(_));
    let (losses, ways) = variants!(Loss<'_>: Loss::Lie(_), Loss::Closed(..));
    hundred(|d| {
        let (worst, first) = cut(d);
        let control = ControlCut {
            layer: "native",
            losing: d.n(),
            cuts: d.n(),
            open: None,
        };
        let unseen = ControlCut {
            layer: "liar",
            losing: 0,
            cuts: 0,
            open: Some(if d.n() % 2 == 0 {
                ControlOpen::Unjudged(d.n(), "no loop device")
            } else {
                ControlOpen::Unrecovered(d.n(), "it lacks a key")
            }),
        };
        let closed = ClosedFiles {
            files: d.n(),
            lost: Some(d.n()),
            why: Some("it is absent".into()),
        };
        let lie = Loss::Lie(Lie {
            layer: "fuse",
            worst: &worst,
            first: &first,
            records: d.n(),
            flushes: Some(d.n()),
            only: Some(vec!["create"]),
        });
        let closed_files = Loss::Closed("rclone", &closed);
        each(plain_data([lie.clone(), closed_files]), losses, ways);
        let fault = ControlFault::LiarNotCaught("liar");
        let all = [
            fault,
            ControlFault::HonestLost("native"),
            ControlFault::LiarKeptSequences("liar"),
            ControlFault::HonestLostSequence("native"),
        ];
        each(plain_data(all), faults, wrong);
        let lost = PowerCuts::Lost {
            first: lie,
            more_lies: d.count(),
            more_closed: d.count(),
            controls: Controls {
                honest: Some(control),
                lying: Some(unseen),
            },
        };
        each(
            plain_data([PowerCuts::Unbelievable(fault), lost]),
            place,
            variants,
        );
        let all = [
            power_cuts::CutEvidence::Closed(&closed),
            power_cuts::CutEvidence::LostWhenKilled(d.n()),
            power_cuts::CutEvidence::NotSetUpWhenKilled("it lacks a key"),
            power_cuts::CutEvidence::Refuses("fsync of a directory"),
        ];
        each(plain_data(all), seen, kinds);
    });
}

fn forecast_row(d: &mut Draw) -> ForecastRow {
    let call = ForecastCall {
        kind: "stat".into(),
        calls: d.n() as f64,
        each_us: d.x(),
        sum_us: d.x(),
        rested_ms: Some(d.n()),
        evidence: Vec::new(),
    };
    ForecastRow {
        result: String::new(),
        label: "git status".into(),
        layer: "sshfs".into(),
        native_us: d.x(),
        forecast_us: d.x(),
        measured_us: d.x(),
        measured_interval_us: None,
        gap: 1.0,
        calls: vec![call],
        every_s: d.x(),
        busiest_task: d.share(),
        text: "what the calls cost".into(),
    }
}

#[test]
fn forecasts() {
    let (place, variants) =
        variants!(Besides: Besides::Rested(..), Besides::Tasks(_), Besides::Cpu(..));
    let (lack, lacks) =
        variants!(Lack<'_>: Lack::Costs(_), Lack::Untrusted(..), Lack::NotCounted(..));
    hundred(|d| {
        let besides = vec![
            Besides::Rested(d.x(), Some(d.x())),
            Besides::Tasks(d.share()),
            Besides::Cpu(d.x(), d.x()),
        ];
        each(plain_data(besides.clone()), place, variants);
        let row = forecast_row(d);
        for besides in [None, Some(Vec::new()), Some(besides)] {
            let step = StepForecast { row: &row, besides };
            check(&step.words(&NAMES), &step, &[]);
        }
        let terms = Terms(&row.calls[0]);
        check(&terms.words(&NAMES), &row, &[]);
        let advice = CallAdvice {
            row: &row,
            kind: "stat",
        };
        check(&advice.words(&NAMES), &row, &[]);
        let untraced = Untraced {
            why: "strace is missing".into(),
            hint: None,
        };
        let all = [
            Lack::Costs([vec!["stat"], vec!["small-write"]]),
            Lack::Untrusted("stat", vec!["fuse"]),
            Lack::NotCounted(vec!["unpack"], &untraced),
        ];
        each(plain_data(all), lack, lacks);
    });
}

fn launch_level(d: &mut Draw) -> LaunchLevel {
    LaunchLevel {
        from: 1,
        to: 9,
        runs: 9,
        min_ms: d.x(),
        max_ms: d.x(),
        mean_ms: d.x(),
        median_ms: d.x(),
        typical_ms: d.x(),
        native_ms: None,
        interval_ms: None,
        ratio: None,
    }
}

#[test]
fn series_of_launches_and_depths() {
    let (place, variants) = variants!(SeriesFinding<'_>:
        SeriesFinding::FirstApart(..), SeriesFinding::Step(_), SeriesFinding::Restarted { .. },
        SeriesFinding::WaitedForIo { .. }, SeriesFinding::Traced(..),
        SeriesFinding::NotTraced(_));
    let (bend, bends) = variants!(Bend<'_>: Bend::Beyond(_), Bend::At { .. });
    let (apart, aparts) = variants!(FirstApart: FirstApart::Cold, FirstApart::FarSlower);
    let all = [FirstApart::Cold, FirstApart::FarSlower];
    each(plain_data(all), apart, aparts);
    let (run, trials) = layermark_testkit::sample::launches(&[1400.0; 6]);
    let launches = Report::build(&run, &trials).series.remove(0).runs;
    hundred(|d| {
        let first = LaunchRun {
            elapsed_ms: d.x(),
            ..launches[0].clone()
        };
        let change = ChangePoint {
            at: d.count() + 1,
            time: "noon".into(),
            before: launch_level(d),
            after: launch_level(d),
            step_ms: d.x(),
            interval: Some([-d.x(), d.x()]),
        };
        let calls = TracedCalls {
            kind: CallKind::FailedLookup,
            calls: d.n(),
            ms: d.x(),
        };
        let untraced = Untraced {
            why: "no strace".into(),
            hint: None,
        };
        let all = vec![
            (SeriesFinding::FirstApart(&first, "cold"), vec![1.0]),
            (SeriesFinding::Step(&change), vec![change.at as f64 - 1.0]),
            (
                SeriesFinding::Restarted {
                    launches: d.count(),
                    of: d.count(),
                    ms: d.x(),
                },
                vec![],
            ),
            (
                SeriesFinding::WaitedForIo {
                    ms: d.x(),
                    of_ms: d.x(),
                },
                vec![],
            ),
            (
                SeriesFinding::Traced(vec![calls], d.x()),
                vec![calls.ms / calls.calls as f64],
            ),
            (SeriesFinding::NotTraced(&untraced), vec![]),
        ];
        each(all, place, variants);
        let mut point = || DepthPoint {
            iodepth: d.n(),
            iops: 1000.0 + d.x(),
            response_ms: d.x(),
            result: String::new(),
        };
        let [knee, next] = [point(), point()];
        let growth = vec![
            (next.iops / knee.iops - 1.0) * 100.0,
            next.response_ms / knee.response_ms,
        ];
        let at = Bend::At {
            knee: &knee,
            is_least: true,
            next: &next,
            last: None,
        };
        let beyond = Bend::Beyond(&next);
        let whole = DepthBend {
            bend: beyond.clone(),
            agree: d.count(),
            blocks: d.count(),
        };
        check(&whole.words(&NAMES), &whole, &[]);
        each(vec![(beyond, vec![]), (at, growth)], bend, bends);
    });
}

#[test]
fn costs() {
    let (place, variants) = variants!(OperationCost:
        OperationCost::NoModel { .. }, OperationCost::Whole(..), OperationCost::More(_),
        OperationCost::Nothing { .. });
    let (added, parts) = variants!(AddedCost:
        AddedCost::Constant(_), AddedCost::PerByte(_), AddedCost::LessConstant(_), AddedCost::LessPerByte(_));
    let (run, trials) = layermark_testkit::sample::full().build();
    let model = Report::build(&run, &trials).cost.into_iter().next();
    hundred(|d| {
        let all = [
            AddedCost::Constant(d.estimate()),
            AddedCost::PerByte(d.estimate()),
            AddedCost::LessConstant(d.estimate()),
            AddedCost::LessPerByte(d.estimate()),
        ];
        each(plain_data(all), added, parts);
        let all = [
            OperationCost::NoModel {
                record: 1024 * d.n(),
                off: d.share(),
            },
            OperationCost::Whole(d.estimate(), d.estimate()),
            OperationCost::More(all.to_vec()),
            OperationCost::Nothing {
                with_interval: false,
            },
        ];
        let record = |cost: &OperationCost| match cost {
            OperationCost::NoModel { record, .. } => vec![*record as f64 / 1024.0],
            _ => Vec::new(),
        };
        let all = all.map(|cost| (cost.clone(), record(&cost)));
        each(all.to_vec(), place, variants);
        if let Some(row) = &model {
            let row = CostRow {
                label: "read".into(),
                ceiling: Some(1e6 * d.x()),
                ..row.clone()
            };
            let cost = OperationCost::Whole(d.estimate(), d.estimate());
            let model = CostModel { row: &row, cost };
            check(&model.words(&NAMES), &model, &[]);
        }
    });
}

#[test]
fn gates_and_changes_between_runs() {
    let (place, variants) = variants!(ChangeHeadline<'_>:
        ChangeHeadline::Slower(..), ChangeHeadline::NewStalls(_), ChangeHeadline::Faster(..),
        ChangeHeadline::ProbablySlower(_), ChangeHeadline::Unchanged(_), ChangeHeadline::Unknown(_),
        ChangeHeadline::NothingKnown { .. });
    let (finding, findings) = variants!(ChangeFinding<'_>:
        ChangeFinding::NotAlike(_), ChangeFinding::OnlyBaseline(..), ChangeFinding::NoBaseline(_),
        ChangeFinding::BaselineChange(..), ChangeFinding::Changed { .. }, ChangeFinding::NewStalls(..),
        ChangeFinding::Open { .. });
    hundred(|d| {
        let row = d.row();
        let inverse = noise(&row.ratio.expect("a ratio"));
        let with = |headline| (headline, inverse.clone());
        let all = vec![
            with(ChangeHeadline::Slower(vec!["fuse", "nfs"], &row)),
            with(ChangeHeadline::NewStalls(&row)),
            with(ChangeHeadline::Faster(vec!["fuse"], &row)),
            with(ChangeHeadline::ProbablySlower(&row)),
            with(ChangeHeadline::Unchanged(d.count())),
            with(ChangeHeadline::Unknown(d.count())),
            with(ChangeHeadline::NothingKnown {
                same: d.count(),
                of: d.count(),
            }),
        ];
        // How many layers there are, is the length of a list.
        let all = all.into_iter().map(|(h, mut derived)| {
            derived.push(2.0);
            (h, derived)
        });
        each(all.collect(), place, variants);
        let drift = BaselineChange {
            baseline: "native",
            of: d.count(),
            how: Drifted::Changed(d.count(), &row),
        };
        let same = BaselineChange {
            how: Drifted::Same(d.count()),
            ..drift
        };
        check(&same.words(&NAMES), &same, &[]);
        let rows = vec![&row];
        let kernel = Checked {
            check: AlikeCheck::Kernel,
            differences: vec![Difference::Values(
                MachineFact::Kernel,
                [FactValue::Name("6.1"), FactValue::Name("6.12")],
            )],
        };
        let all = [
            ChangeFinding::NotAlike(vec![&kernel]),
            ChangeFinding::OnlyBaseline("native", rows.clone()),
            ChangeFinding::NoBaseline(""),
            ChangeFinding::BaselineChange(drift, rows.clone()),
            ChangeFinding::Changed {
                rows: rows.clone(),
                of: d.count(),
                most: &row,
            },
            ChangeFinding::NewStalls(rows.clone(), &row),
            ChangeFinding::Open {
                undecided: rows.clone(),
                untrusted: rows,
                of: d.count(),
            },
        ];
        let counted = [inverse.clone(), vec![1.0]].concat();
        let all = all.map(|finding| (finding, counted.clone()));
        each(all.to_vec(), finding, findings);
        for (of, needed) in [(Repeated::Block, true), (Repeated::Launch, false)] {
            let more = d.count();
            let held = Held {
                row: Some(&row),
                limit: Some(d.x()),
                lacks: Some(Lacks { more, of, needed }),
            };
            check(&held.words(&NAMES), &held, &inverse);
        }
        let first = GateRow {
            gate: "slower=10%".into(),
            layer: "fuse".into(),
            point: "small read".into(),
            limit: None,
            state: GateState::Failed,
            text: "slower".into(),
        };
        let failed = FailedGates {
            failed: d.count(),
            of: d.count(),
            layers: vec!["fuse"; 4],
            first: &first,
        };
        check(&failed.words(&NAMES), &failed, &[4.0]);
    });
}

#[test]
fn odd_runs() {
    let (answer, answers) = variants!(OddAnswer<'_>:
        OddAnswer::Odd(_), OddAnswer::Split(..), OddAnswer::Alike { .. }, OddAnswer::Unknown(..),
        OddAnswer::Nowhere(_));
    let (apart, aparts) = variants!(NotAmong<'_>:
        NotAmong::NotMeasured, NotAmong::Untrusted(_), NotAmong::OtherWork, NotAmong::Unsteady, NotAmong::SkipsFlush,
        NotAmong::NoBaseline, NotAmong::OtherTimes, NotAmong::FewBlocks, NotAmong::FewRuns);
    let (unlike, unlikes) = variants!(Unlike<'_>:
        Unlike::Values(..), Unlike::NoBaseline, Unlike::Untrusted(..), Unlike::Unfinished(..), Unlike::Busy(..),
        Unlike::SetUpOnce(_), Unlike::SkipsFlush(_));
    let all = [
        NotAmong::NotMeasured,
        NotAmong::Untrusted("it came from memory"),
        NotAmong::OtherWork,
        NotAmong::Unsteady,
        NotAmong::SkipsFlush,
        NotAmong::NoBaseline,
        NotAmong::OtherTimes,
        NotAmong::FewBlocks,
        NotAmong::FewRuns,
    ];
    each(plain_data(all), apart, aparts);
    let store = StoreOption::default();
    hundred(|d| {
        let ratio = d.estimate();
        let of_ratio = [noise(&ratio), vec![ratio.estimate - 1.0]].concat();
        let at = |layer| OddAt {
            layer,
            point: "small read",
            ratio: &ratio,
        };
        let coverage = Coverage {
            compared: d.count(),
            partly: d.count(),
            none: d.count(),
        };
        let alike = OddAnswer::Alike {
            runs: d.count(),
            of: d.count(),
            delta: d.share(),
            coverage,
        };
        let two = OddAnswer::Odd(vec![("a.lm", at("fuse")), ("b.lm", at("native"))]);
        let all = vec![
            (two, [of_ratio.clone(), vec![2.0]].concat()),
            (OddAnswer::Split(d.count(), coverage), vec![]),
            (alike, vec![]),
            (OddAnswer::Unknown(d.count(), coverage), vec![]),
            (OddAnswer::Nowhere(d.count()), vec![]),
        ];
        each(all, answer, answers);
        let one = OddAnswer::Odd(vec![("a.lm", at("fuse"))]);
        check(&one.words(&NAMES), &one, &of_ratio);
        let counts = Standings {
            like: d.count(),
            odd: d.count(),
            split: d.count(),
            unknown: d.count(),
            not_compared: d.count(),
        };
        let says = RunSays {
            counts,
            most: Some(at("fuse")),
            because: None,
        };
        let more = vec![counts.compared() as f64, counts.odd as f64 - 1.0];
        check(&says.words(&NAMES), &says, &[of_ratio, more].concat());
        let nowhere = RunSays {
            counts: Standings {
                not_compared: d.count(),
                ..Standings::default()
            },
            most: None,
            because: Some((NotAmong::Untrusted("it came from memory"), d.count())),
        };
        check(&nowhere.words(&NAMES), &nowhere, &[]);
        let busy = BusyMachine {
            disturbed: d.count(),
            trials: d.count(),
            wholly: d.count(),
            cells: d.count(),
        };
        let values = vec![
            (FactValue::Bytes(d.n()), vec!["a.lm", "b.lm"]),
            (FactValue::Name(""), vec!["c.lm"]),
        ];
        let all = vec![
            (Unlike::Values(MachineFact::Memory, values), vec![]),
            (Unlike::NoBaseline, vec![]),
            (Unlike::Untrusted("a.lm", "RUN", &store), vec![]),
            (Unlike::Unfinished("a.lm", RunStatus::Stopped), vec![]),
            (Unlike::Busy("a.lm", busy), vec![busy.share()]),
            // The command with three sessions.
            (Unlike::SetUpOnce(vec!["a.lm"]), vec![3.0]),
            (Unlike::SkipsFlush(vec!["a.lm", "b.lm"]), vec![]),
        ];
        each(all, unlike, unlikes);
    });
}

#[test]
fn estimates_and_hints() {
    let (place, variants) = variants!(EstimateSaid<'_>:
        EstimateSaid::Explained(..), EstimateSaid::NotExplained(..), EstimateSaid::Undecided(..),
        EstimateSaid::NoRatio(_));
    let store = StoreOption::default();
    hundred(|d| {
        let (estimate, measured) = (d.estimate(), d.estimate());
        let row = EstimateCheck {
            layer: "fuse".into(),
            estimate: String::new(),
            measured: String::new(),
            estimate_us: None,
            measured_us: None,
            estimate_ratio: Some(estimate),
            measured_ratio: Some(measured),
            difference: None,
            within: d.share(),
            verdict: EstimateVerdict::Undecided,
            text: String::new(),
        };
        let share = d.share();
        let sides = Estimate::new(share, Some([-share, 2.0 * share]));
        let plain = Estimate::new(-share, None);
        // The first end of an interval has no unit.
        let ends = [share, 2.0 * share].map(|end| 100.0 * end).to_vec();
        let derived = [noise(&estimate), noise(&measured), ends].concat();
        let all = [
            EstimateSaid::Explained(&row, sides),
            EstimateSaid::NotExplained(&row, plain),
            EstimateSaid::Undecided(&row, sides),
            EstimateSaid::NoRatio(&row),
        ];
        let all = all.map(|said| (said, derived.clone()));
        each(all.to_vec(), place, variants);
        for (own, enough_s) in [
            (Some("install fuse3"), None),
            (None, Some(d.n())),
            (Some("install fuse3"), Some(d.n())),
        ] {
            let hint = Hint {
                own,
                enough_s,
                run: "RUN",
                store: &store,
            };
            check(&hint.words(&NAMES), &hint, &[3.0]);
        }
    });
}

/// The stored runs: their causes, remarks, series, and what two of them and gates say.
#[test]
fn stored_runs() {
    let reports = fixtures::ALL.iter().map(|fixture| {
        let kept = fixture.read();
        Report::build(&kept.run, &kept.trials)
    });
    let mut checked = 0;
    for mut report in reports {
        let gate = "slower=10%".parse().expect("a gate");
        report.hold_to(&[gate], false);
        for row in &report.results {
            let derived: Vec<f64> = row.ratio.iter().flat_map(noise).collect();
            let all = [
                remarks::stalls(row),
                remarks::with_waiting(row),
                remarks::fewer_bytes(row),
            ];
            for remark in all.iter().flatten() {
                let share = row.stalls.map_or(Vec::new(), |s| {
                    [s.here, s.native]
                        .map(|of| of.slow as f64 / of.operations as f64)
                        .to_vec()
                });
                // It is of another ratio than the row's.
                let waiting = match remark {
                    Remark::WithWaiting(with) => noise(with),
                    _ => Vec::new(),
                };
                let derived = [derived.clone(), share, waiting].concat();
                check(&remark.words(&NAMES), remark, &derived);
                checked += 1;
            }
            for cause in &row.causes {
                check(&cause.words(&NAMES), cause, &[]);
                checked += 1;
            }
            for gate in report
                .gates
                .iter()
                .filter(|g| (&g.layer, &g.point) == (&row.layer, &row.label))
            {
                let said = Text::from(gate.text.as_str());
                // What further blocks may tell follows from the interval and the number of blocks.
                if gate.state != GateState::Undecided {
                    check(&said, &(row.ratio, gate.limit), &derived);
                    checked += 1;
                }
            }
        }
        for row in &report.forecast.rows {
            let cpu = report.result(&row.result).and_then(|r| r.cpu_us_per_op);
            check(&Text::from(row.text.as_str()), &(row, cpu), &[]);
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
}
