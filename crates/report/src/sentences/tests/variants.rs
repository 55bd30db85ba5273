//! Each variant of each statement is made, from stored and from random runs: each number in its words is one of its
//! data, as printed, and each name is one of its data. A variant that is not made fails the test, and one that is not
//! listed here does not compile.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use layermark_model::{
    CacheState, Cut, DirectIo, GuestFacts, LayerStatus, Limit, Limited, Run, RunStatus, Trial,
    TrialRecord, Verified, flags,
    witness::{
        LossOrder, ProgramCut, Promise, SequenceCut, WitnessControl,
        sequence::{Basis, LostSequence},
    },
};
use layermark_testkit::{fixtures, sample};

use super::*;
use crate::{
    code_span::Span,
    facts::index::Index,
    numerals::printed,
    statements::{
        advice::{self, Advised},
        caveats::{self, Caveat},
        checks::{self, Check, CheckedRun, Proof},
        findings::{self, Finding},
        headline::{self, Headline, HeadlinePart},
        in_short::{self, How, Kept, ShortLine},
        left_out::{self, Reason},
        verdicts::{self, Clause},
    },
    types::{
        AlternativeRow, Average, Comparison, Control, DebtRow, Distrust, FewerBytes, InTrials,
        LockReason, LockRow, LockVerdict, ServedBy, SlowOperations, Stalls, SustainedRatio,
        Unproved, WaitingRow,
    },
    words::{Names, Text, Words},
};

/// An enum of statements whose variants are all known by name.
trait Kinds {
    const ALL: &'static [&'static str];
    fn kind(&self) -> &'static str;
}

/// The match is exhaustive: a new variant does not compile until it is listed, and the test fails until it is made.
macro_rules! kinds {
    ($of:ident: $($variant:ident),+ $(,)?) => {
        impl Kinds for $of<'_> {
            const ALL: &'static [&'static str] =
                &[$(concat!(stringify!($of), "::", stringify!($variant))),+];
            fn kind(&self) -> &'static str {
                match self {
                    $($of::$variant { .. } => concat!(stringify!($of), "::", stringify!($variant))),+
                }
            }
        }
    };
}

kinds!(Headline: LostData, Programs, Sequences, Study, Parts);
kinds!(HeadlinePart: ControlFailed, BaselineSkips, Choices, NoLayer, NotMeasured, OnlyBaseline, AllFailed, NotAsked, TooLittle,
    Costs, Uncertain, Locks, Late, Failed, Skip, Free, Near, Memory, SlowerUnsteady,
    Faster, ProbablyFaster, Wait, Open, Untrusted, Undecided);
kinds!(ShortLine: Layer, Open);
kinds!(How: Slower, Faster, Same);
kinds!(Finding: BaselineSkips, SkipsFlushes, AnsweredEarly, Contradicted, Sustained, FewerBytes, Failures,
    Stalls, Locks, Late, Slower, Near, Unexplained, Open);
kinds!(Clause: Same, CostsMore, SlowerToo, Adds, Faster, Locks, Late, Stalls, Changed, SkipsFlush, FewerFlushes, Withheld,
    ProbablySlower, ProbablyFaster, Noisy, TooNoisy, TooFew, Drifts, Untrusted, Failed);
kinds!(Advised: OtherBaseline, KeepNothing, KeepNothingLate, Suspected, FewerFlushes, FastFlush, BusyDisk, Memory,
    CopyUp, StallsHere, StallsOfBaseline, Locks, Fresher, FewerOperations, Cached, Unexplained, Owes, NotKnown, RunAsRoot,
    NameTheDisk);
kinds!(Caveat: Emulated, Busy, Limits, Locks, CutShort, CutByBudget, Waited);
kinds!(Check: NoControl, Control, Drift, Contamination, Cache, Verified, Proof, Family, Direct, Emulated, Trials,
    OwnCost);
kinds!(Proof: Lost, NoLayer, Bare, Read);
kinds!(Reason: Reported, NotSetUp, Failed, ReadOnly, NeverCold, OfBaseline, NobodyElse, Budget, Ended);

fn all_kinds() -> BTreeSet<&'static str> {
    let all = [
        Headline::ALL,
        HeadlinePart::ALL,
        ShortLine::ALL,
        How::ALL,
        Finding::ALL,
        Clause::ALL,
        Advised::ALL,
        Caveat::ALL,
        Check::ALL,
        Proof::ALL,
        Reason::ALL,
    ];
    all.into_iter().flatten().copied().collect()
}

/// The numbers of a statement's data, without exponents.
fn digits(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find(|c: char| c.is_ascii_digit()) {
        let start = from + start;
        let end = text[start..].find(|c: char| !(c.is_ascii_digit() || c == '.'));
        from = end.map_or(text.len(), |n| start + n);
        found.push(text[start..from].trim_end_matches('.'));
    }
    found
}

/// Values behind `name: ` in a statement's data.
fn fields(data: &str, name: &str) -> Vec<f64> {
    let name = format!("{name}: ");
    let parts = data.split(name.as_str()).skip(1);
    let number = |part: &str| {
        let part = part.trim_start_matches("Some(");
        let end = part.find(|c: char| !(c.is_ascii_digit() || ".e-".contains(c)));
        part[..end.unwrap_or(part.len())].parse().ok()
    };
    parts.filter_map(number).collect()
}

/// All numbers of a statement's data, and what may be written of them: inverse, share and sum.
fn known(data: &str) -> Vec<f64> {
    let mut values: Vec<&str> = digits(data);
    values.sort_unstable();
    values.dedup();
    let mut known: Vec<f64> = Vec::new();
    for v in values
        .into_iter()
        .filter_map(|digits| digits.parse::<f64>().ok())
    {
        known.extend([v, 1.0 / v, v - 1.0, 1.0 - v, 1.0 + v].map(f64::abs));
    }
    let [trials, failed] = ["trials", "failed_trials"].map(|f| fields(data, f).iter().sum::<f64>());
    let each = fields(data, " trials").into_iter();
    let each = each.zip(fields(data, "failed_trials"));
    known.extend(each.map(|(trials, failed)| trials + failed));
    known.extend([failed, trials, trials - failed]);
    let slow = fields(data, "slow").into_iter();
    let slow = slow.zip(fields(data, "operations"));
    known.extend(slow.map(|(slow, all)| slow / all));
    let disturbed = fields(data, "disturbed").into_iter();
    let disturbed = disturbed.zip(fields(data, "trials"));
    known.extend(disturbed.map(|(some, all)| some / all));
    known
}

/// The kinds of the statements that were made, and what is wrong with their words.
#[derive(Default)]
struct Made {
    kinds: BTreeSet<&'static str>,
    kept: BTreeSet<Kept>,
    wrong: BTreeSet<String>,
}

/// Checks the words of a statement against its data.
fn agree<T: Debug + Kinds>(made: &mut Made, of: &T, words: &Text, names: &Names) {
    made.kinds.insert(of.kind());
    let data = format!("{of:?}");
    let known = known(&data);
    // Rows and names are counted.
    let things = data.matches("ResultRow {").count() + data.matches('"').count() / 2;
    let constants = [
        0.1,
        1.0,
        10.0,
        layermark_stats::MIN_BLOCKS as f64,
        layermark_stats::MIN_BLOCKS_FOR_CHANGE as f64,
    ];
    for part in words.parts() {
        let text = match part {
            Span::Code(name) => {
                let is_command = ["layermark run", "--scale"]
                    .iter()
                    .any(|c| name.starts_with(c));
                let is_known = data.contains(&format!("{name:?}")) || data.contains(name);
                let known = is_command || is_known || name == names.baseline;
                if !known {
                    let wrong = format!("{name} of {words:?} is not in {data:.3000}");
                    made.wrong.insert(wrong);
                }
                continue;
            }
            Span::Words(text) => text,
        };
        for number in printed(text) {
            let value = number.value;
            let counted = value.fract() == 0.0 && value <= things as f64;
            if !counted && !number.is_of(known.iter().chain(&constants)) {
                let wrong = format!("{value} of {words:?} is not in {data:.3000}");
                made.wrong.insert(wrong);
            }
        }
    }
}

/// Checks all statements about some rows.
fn statements(made: &mut Made, f: &Selection, trials: &[TrialRecord], control: Option<&Control>) {
    let names = &Names {
        baseline: f.run.baseline(),
    };
    let index = Index::new(f.run, trials);
    let busy = caveats::BusyMachine::of_run(f, trials).is_some();
    let head = headline::headline(f, busy, control.is_some_and(Control::failed));
    // The words of power cuts have times of day.
    match &head {
        Headline::LostData(_) => drop(made.kinds.insert(head.kind())),
        _ => agree(made, &head, &head.words(names), names),
    }
    if let Headline::Parts(parts)
    | Headline::Study {
        warnings: parts, ..
    } = &head
    {
        made.kinds.extend(parts.iter().map(HeadlinePart::kind));
    }
    for of in in_short::in_short(f) {
        agree(made, &of, &of.words(names), names);
        if let ShortLine::Layer(of) = &of {
            made.kinds
                .extend(of.told.iter().map(|told| told.how.kind()));
            made.kept.insert(of.kept);
        }
    }
    for of in findings::findings(f) {
        agree(made, &of, &of.words(names), names);
    }
    for layer in verdicts::verdicts(f) {
        for of in &layer.clauses {
            agree(made, of, &of.words(names), names);
        }
    }
    for of in advice::advice(f, busy) {
        agree(made, &of.what, &of.what.words(names), names);
    }
    for of in caveats::all(f, trials, &index) {
        agree(made, &of, &of.words(names), names);
    }
    for of in left_out::not_measured(f.run, &index) {
        agree(made, &of.reason, &of.reason.words(names), names);
    }
    let evidence = CheckedRun {
        run: f.run,
        trials,
        results: f.results,
        control,
        index: &index,
        baseline: 0,
    };
    for of in checks::checks(&evidence) {
        agree(made, &of, &of.words(names), names);
        if let Check::Proof(proof) = &of {
            agree(made, proof, &proof.words(names), names);
        }
    }
}

/// `SplitMix64` (Steele, Lea, Flood 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True once in `n` times.
    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn cell(&mut self, often: Kind) -> Cell {
        use Kind::*;
        let word = self.pick(&[Verdict::Slower, Verdict::Faster, Verdict::Undecided]);
        let any = self.pick(&[
            Missing,
            Failed,
            Same,
            Decided,
            Probable,
            Noisy,
            Few,
            Unsteady(word),
            Untrusted,
            Described,
        ]);
        Cell {
            kind: if self.once_in(3) { any } else { often },
            ratio: self.pick(&[0.12, 0.5, 0.9, 1.08, 1.3, 2.7, 11.0, 430.0]),
            native_us: self.pick(&[0.7, 21.0, 900.0, 120_000.0]),
            disturbed: self.once_in(6),
            failed: if self.once_in(5) { 2 } else { 0 },
            absorbed: self.once_in(12),
            cause: self.below(4) as usize,
        }
    }

    /// What only some rows have.
    fn decorate(&mut self, row: &mut ResultRow) {
        let because = || Some("3 device flushes for 300 syncs".into());
        match self.below(16) {
            0 => row.durability.verdict = DurabilityVerdict::Late,
            1 => (row.durability.contradicted, row.durability.because) = (true, because()),
            2 => row.durability.per_sync = Some(0.4),
            3 => row.durability.verdict = DurabilityVerdict::CannotTell,
            4 => row.withheld = Some("of 3.10 ms, 2.90 ms wait for a CPU".into()),
            5 => self.stall(row),
            6 => row.meaning.target = Target::SharedDirectory,
            7 => row.meaning.target = Target::Lock,
            8 => {
                row.sustained = Some(SustainedRatio {
                    ratios: vec![40.0, 44.0],
                    length_s: 0.5,
                    limit: self.once_in(2).then(|| Limit::of_probe(0.05)),
                });
            }
            9 => {
                row.fewer_bytes = Some(FewerBytes {
                    device: Some(340),
                    application: 67_000,
                    mounted: None,
                });
            }
            10 => row.served_by = Some(ServedBy::HostMemory),
            11 => {
                let of = InTrials { with: 8, all: 9 };
                let whys = [
                    Distrust::CacheUnproved(of, Unproved::Served),
                    Distrust::Cache(of),
                ];
                row.distrust = Some(whys[self.below(2) as usize].clone());
            }
            12 => {
                row.write_back_debt = Some(DebtRow {
                    bytes: Some(3.2e8),
                    seconds: 4.2,
                    us_per_op: 1.0,
                });
            }
            13 => row.causes = vec![self.pick(&[&Cause::CopyUp, &Cause::UserSpace]).clone()],
            14 => row.causes = vec![Cause::Unexplained],
            15 if self.once_in(2) => {
                row.waiting = Some(WaitingRow {
                    left_out: true,
                    ..WaitingRow::default()
                });
            }
            _ => row.median_ratio = Some(40.0),
        }
        match row.durability.verdict {
            DurabilityVerdict::Late => row.durability.because = because(),
            DurabilityVerdict::CannotTell if self.once_in(2) => {
                row.durability.suspicion = Some("0.2 ms".into());
            }
            DurabilityVerdict::CannotTell => row.durability.background = Some(7.0),
            _ => {}
        }
        if row.meaning.target == Target::SharedDirectory && self.once_in(3) {
            row.flag_counts.insert(flags::NOT_SEEN.into(), row.trials);
        }
        if row.served_by.is_some() {
            row.meaning.cache = Some(CacheState::Cold);
        }
        if row.sustained.is_some() {
            let average = row.ratio.map(|e| e.estimate.min(3.0));
            average_of(row, average.unwrap_or(1.0));
        }
    }

    fn program(&mut self) -> ProgramCut {
        let losing = self.pick(&[0, 3, 38]);
        let most_lost = losing.min(1) * self.pick(&[1, 7, 212]);
        let order = self.pick(&[
            LossOrder::Tail,
            LossOrder::Gap,
            LossOrder::Scattered,
            LossOrder::All,
        ]);
        let sometimes = |draw: &mut Self, n| if draw.once_in(4) { n } else { 0 };
        ProgramCut {
            layer: self.pick(&LAYERS).into(),
            program: self.pick(&["queue", "redis", "sync"]).into(),
            promises: self.pick(&[Promise::Kept, Promise::Nothing]),
            items: 212,
            uncut: self.once_in(4).then(|| "it has no programs".into()),
            lost_when_killed: sometimes(self, 4),
            blind: self.once_in(4),
            cuts: 38,
            losing,
            unseen: sample::unseen((sometimes(self, 6), ""), (sometimes(self, 5), "")),
            torn: losing.min(1) * sometimes(self, 2),
            most_lost,
            most_of: 212,
            orders: BTreeMap::from([(order, losing)]),
            window_ns: losing.min(1) * self.pick(&[0, 81_000_000, 1_013_000_000]),
            ..ProgramCut::default()
        }
    }

    fn sequences(&mut self) -> SequenceCut {
        let lost = self.pick(&[0, 3]);
        let lost = (0..lost).map(|n| {
            let basis = self.pick(&[Basis::Posix, Basis::Linux]);
            sample::lost_sequence(&format!("create a/g; fsync {n}"), basis)
        });
        let lost: Vec<LostSequence> = lost.collect();
        let unrecovered = self.pick(&[0, 0, 6]);
        let unjudged = self.pick(&[0, 0, 5]);
        SequenceCut {
            layer: self.pick(&LAYERS).into(),
            control: self.pick(&[
                None,
                Some(WitnessControl::Honest),
                Some(WitnessControl::Liar),
            ]),
            named: self.once_in(2),
            uncut: self.once_in(4).then(|| "its files are in memory".into()),
            sequences: 198,
            unfinished: self.pick(&[0, 0, 68]),
            unseen: sample::unseen((unrecovered, "mount: broken"), (unjudged, "no loop device")),
            cuts: self.pick(&[0, 792, 792, 792]),
            smallest: lost.iter().min_by_key(|l| l.basis()).cloned(),
            lost,
            ..SequenceCut::default()
        }
    }

    fn stall(&mut self, row: &mut ResultRow) {
        let times = self.pick(&[0.3, 4.0]);
        average_of(row, row.ratio.map_or(1.0, |e| e.estimate * times));
        row.flag_counts.insert(flags::STALLS.into(), row.trials);
        let side = |slow, slow_us| SlowOperations {
            operations: 1000,
            slow,
            slow_us,
            longest_other_us: Some(1500.0),
        };
        row.stalls = Some(Stalls {
            here: side(17, Some([20e3, 21e3, 29e3])),
            native: side(0, None),
        });
    }
}

fn average_of(row: &mut ResultRow, estimate: f64) {
    let interval = Some([estimate * 0.98, estimate * 1.02]);
    let average = Average { estimate, interval };
    row.ratio.iter_mut().for_each(|r| r.average = Some(average));
}

/// A run with random rows, and the trials of these.
fn random(seed: u64) -> (Run, Vec<ResultRow>, Vec<TrialRecord>) {
    let mut draw = Draw(seed);
    let (mut run, mut report) = BASE.clone();
    let like = report.results.remove(0);
    let layers = 1 + draw.below(LAYERS.len() as u64) as usize;
    let points = 1 + draw.below(POINTS.len() as u64) as usize;
    take_layers(&mut run, &mut report, layers);
    run.points.truncate(points);
    let often = draw.pick(&[
        Kind::Missing,
        Kind::Failed,
        Kind::Same,
        Kind::Decided,
        Kind::Decided,
        Kind::Probable,
        Kind::Noisy,
        Kind::Few,
        Kind::Unsteady(Verdict::Slower),
        Kind::Untrusted,
        Kind::Described,
    ]);
    let alone = draw.once_in(9);
    let mut rows = Vec::new();
    for (at, label) in POINTS.iter().take(points).enumerate() {
        (*label).clone_into(&mut run.points[at].label);
        let mut native = ResultRow {
            layer: "native".into(),
            label: (*label).into(),
            verdict: Verdict::Baseline,
            trials: if draw.once_in(9) { 0 } else { 9 },
            ..ResultRow::default()
        };
        native.durability.verdict =
            draw.pick(&[DurabilityVerdict::Honoured, DurabilityVerdict::NotAsked]);
        if draw.once_in(20) {
            native.durability.verdict = DurabilityVerdict::Absorbed;
            native.durability.because = Some("0 device flushes for 300 syncs".into());
        }
        rows.push(native);
        for layer in LAYERS.iter().take(if alone { 0 } else { layers }) {
            let Some(mut row) = draw.cell(often).row(&like, layer, label) else {
                continue;
            };
            if draw.once_in(2) && row.trials > 0 {
                draw.decorate(&mut row);
            }
            rows.push(row);
        }
    }
    for (n, row) in rows.iter_mut().enumerate() {
        row.id = format!("r{}", n + 1);
    }
    let mut trials = made_trials(&mut draw, &mut run, &rows);
    change(&mut draw, &mut run);
    let up = |l: &LayerRun| l.status == LayerStatus::Ready;
    if !run.layers.iter().any(up) && draw.once_in(2) {
        trials.clear();
    }
    if draw.once_in(20) {
        run.layers[0].facts.program_cuts = (0..3).map(|_| draw.program()).collect();
    }
    if draw.once_in(20) {
        run.layers[0].facts.sequence_cuts = (0..3).map(|_| draw.sequences()).collect();
    }
    (run, rows, trials)
}

/// What happened to a run as a whole.
fn change(draw: &mut Draw, run: &mut Run) {
    let last = run.layers.len() - 1;
    let layer = &mut run.layers[last];
    match draw.below(13) {
        0 => {
            layer.facts.guest = Some(GuestFacts {
                accelerator: "tcg".into(),
                emulated_cpu: true,
                ..GuestFacts::default()
            });
        }
        1 => {
            layer.facts.limits = vec![Limit {
                uncounted: true,
                of: Limited::Cpu,
                ..Limit::of_probe(0.05)
            }];
        }
        2 => drop(
            layer
                .facts
                .notes
                .insert(layermark_model::FRESHER.into(), "cache=none".into()),
        ),
        3 => layer.facts.mounts.clear(),
        4 => (layer.status, layer.reason) = (LayerStatus::Failed, None),
        5 => layer.facts.mounts[0].fs = "fuse.sshfs".into(),
        6 => run.machine.privilege = "user".into(),
        7 => {
            run.cut = Some(Cut {
                at_s: 61,
                block: draw.once_in(2).then_some(3),
                point: None,
                layer: Some(layer.name.clone()),
                during: "its files were made".into(),
                enough_s: 240,
            });
        }
        8 => layer.read_only = true,
        9 => drop(
            layer
                .skips
                .insert(run.points[0].label.clone(), "it has no such call".into()),
        ),
        11 => layer.facts.devices.clear(),
        10 => run
            .layers
            .iter_mut()
            .for_each(|l| l.status = LayerStatus::Failed),
        _ => run.plan.confirm = vec!["stat".into()],
    }
    run.status = draw.pick(&[
        RunStatus::Done,
        RunStatus::Running,
        RunStatus::Stopped,
        RunStatus::Failed,
        RunStatus::Interrupted,
    ]);
    if draw.once_in(8) {
        for point in &mut run.points {
            point.meaning.changes = true;
        }
        run.layers[0].read_only = true;
    }
    if draw.once_in(8) {
        run.points[0].meaning.cache = Some(CacheState::Cold);
        for mount in &mut run.layers[last].facts.mounts {
            mount.fs = "tmpfs".into();
        }
    }
}

fn made_trials(draw: &mut Draw, run: &mut Run, rows: &[ResultRow]) -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    let asks = draw.below(4);
    let steps = draw.once_in(2);
    if asks == 1 {
        run.points[0].meaning.cache = Some(CacheState::Warm);
    }
    for row in rows {
        let Some((layer, point)) = run.site(&row.layer, &row.label) else {
            continue;
        };
        for block in 0..(row.trials + row.failed_trials) as u32 {
            let failed = block as usize >= row.trials;
            let flag = match draw.below(8) {
                _ if row.disturbed() => flags::CONTAMINATED,
                0 => flags::WRITE_BACK,
                1 if asks == 1 => flags::CACHE,
                2 if asks == 1 => flags::CACHE_UNPROVED,
                3 if asks == 1 => flags::MAJOR_FAULTS,
                _ => "",
            };
            let mut trial = Trial {
                direct: (asks == 2).then_some(DirectIo::Honoured),
                verified: (asks == 3).then_some(Verified {
                    records: 70,
                    bad: u64::from(steps),
                }),
                ..Trial::default()
            };
            trial.passes.push(layermark_model::Pass {
                elapsed_ns: 1000 * (1 + u64::from(block / 5) * 4),
                waited_ns: Some(170),
                ops: 1,
                ..layermark_model::Pass::default()
            });
            let mut record = TrialRecord {
                seq: trials.len() as u64,
                trial: (!failed).then_some(trial),
                error: (failed && steps).then(|| ERROR.into()),
                flags: Some(flag.to_owned())
                    .filter(|f| !f.is_empty())
                    .into_iter()
                    .collect(),
                ..TrialRecord::default()
            };
            (record.cell.layer, record.cell.point, record.cell.block) = (layer, point, block);
            trials.push(record);
        }
    }
    trials
}

/// Every third result is a lock that the other side took, and every fourth one that it did not try.
fn locks(rows: &[ResultRow]) -> Vec<LockRow> {
    let of = |(at, row): (usize, &ResultRow)| {
        let verdict = match at {
            at if at % 3 == 1 => LockVerdict::DoesNotExclude,
            at if at % 4 == 3 => LockVerdict::NotProved,
            _ => return None,
        };
        Some(LockRow {
            layer: row.layer.clone(),
            kind: ["flock", "fcntl", "ofd"][at % 3].into(),
            verdict,
            because: "one client took them all".into(),
            why: LockReason::OneClient,
            tried: 9,
            excluded: 0,
            longest_us: None,
            evidence: vec![row.id.clone()],
        })
    };
    rows.iter().enumerate().filter_map(of).collect()
}

/// Results of the baseline, compared with its first one.
fn alternatives(rows: &[ResultRow]) -> Vec<AlternativeRow> {
    let own: Vec<&ResultRow> = rows
        .iter()
        .filter(|r| r.verdict == Verdict::Baseline)
        .collect();
    let verdicts = [Verdict::Slower, Verdict::Same, Verdict::Undecided];
    let others = own.iter().skip(1).zip(verdicts);
    let row = |(row, verdict): (&&ResultRow, Verdict)| AlternativeRow {
        result: row.id.clone(),
        reference: own[0].id.clone(),
        layer: row.layer.clone(),
        what: String::new(),
        blocks: 9,
        comparison: Comparison {
            ratio: Some(Estimate::new(1.73, Some([1.7, 1.76]))),
            verdict,
            ..Comparison::default()
        },
    };
    others.map(row).collect()
}

#[test]
fn every_statement_is_made_and_says_what_its_data_say() {
    let mut made = Made::default();
    for fixture in fixtures::ALL {
        let kept = fixture.read();
        let report = Report::build(&kept.run, &kept.trials);
        let f = Selection {
            run: &kept.run,
            results: &report.results,
            alternatives: &report.alternatives,
            locks: &report.locks,
            study: report.study.as_ref().and_then(|s| s.headline.as_deref()),
        };
        statements(&mut made, &f, &kept.trials, report.control.as_ref());
    }
    let sound = BASE.1.control.as_ref();
    let failed = sound.map(|control| Control {
        false_alarms: 1,
        ..control.clone()
    });
    for seed in 0..600 {
        let (run, results, trials) = random(seed);
        let control = match seed % 4 {
            0 => None,
            1 => failed.as_ref(),
            _ => sound,
        };
        let locks = if seed % 5 == 0 {
            locks(&results)
        } else {
            Vec::new()
        };
        let f = Selection {
            run: &run,
            results: &results,
            alternatives: &alternatives(&results),
            locks: &locks,
            study: None,
        };
        statements(&mut made, &f, &trials, control);
    }
    let Made { kinds, kept, wrong } = made;
    let wrong: Vec<&String> = wrong.iter().take(9).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let missing: Vec<_> = all_kinds().difference(&kinds).copied().collect();
    assert!(missing.is_empty(), "no run makes {missing:?}");
    let all = [
        Kept::NotAsked,
        Kept::Yes,
        Kept::Skipped,
        Kept::Early,
        Kept::Memory,
        Kept::NotProved,
    ];
    assert_eq!(kept, BTreeSet::from(all));
}

#[test]
fn a_number_and_a_name_of_nothing_are_found() {
    let row = ResultRow {
        layer: "fuse".into(),
        ratio: Some(Estimate {
            estimate: 2.74,
            interval: Some([2.7, 2.8]),
            average: None,
        }),
        ..ResultRow::default()
    };
    let names = Names { baseline: "native" };
    let clause = Clause::CostsMore(&row);
    let says = |text: &str| {
        let text = Text::from(text);
        let mut made = Made::default();
        agree(&mut made, &clause, &text, &names);
        made.wrong.is_empty()
    };
    assert!(says("`fuse` takes 2.7x native's time, 2.74 times"));
    assert!(!says("`fuse` takes 2.9x native's time"));
    assert!(!says("`tmpfs` takes 2.7x native's time"));
}
