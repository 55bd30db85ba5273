//! Whether flushes reached the device: configuration, plausibility, flush accounting.
//!
//! A flush counter includes the flushes of all programs. So a trial is evidence only as far as the
//! control windows around its rounds show what others flushed. A layer is convicted of skipping
//! flushes only by trials in which the device was otherwise silent and did count another layer's
//! flushes.

use layermark_model::{DeviceBackground, Facts, Meaning, Target, Trial};

use crate::{
    facts::storage,
    statements::durability::{
        Agrees, Counted, Drops, FlushCount, FlushEvidence, Seen, Suspicion, Undecided,
    },
    types::{Durability, DurabilityVerdict, Estimate, LateFlushes},
    words::{Names, Words},
};

/// Flushes below this share of the calls count as stray commits.
const ABSORBED_BELOW: f64 = 0.05;
/// Flushes from this share of the calls on count as honoured; the rest are shared journal commits.
const HONOURED_FROM: f64 = 0.9;
/// From this share of the counted flushes on, other programs' flushes may be the explanation.
const OTHERS: f64 = 0.1;
/// Share of the trials whose calls must be honoured, because a burst of others can do so for a few.
const MOST_TRIALS: f64 = 0.75;
/// Fewer syncs than this, over all blocks together, prove nothing.
const FEWEST_SYNCS: u64 = 8;
/// Fewest syncs for a conviction. With fewer, honoured requires that every call has its flush while
/// no other program flushes.
const MANY_SYNCS: u64 = 20;
/// Fewest flushes in a trial of a program that flushes.
const PROGRAM_FLUSHES: u64 = 5;
/// Fewest trials of a program that flushes. A burst of another program may hit one or two and no
/// control window.
const PROGRAM_TRIALS: usize = 3;
/// Fewest flushes per second of a program that flushes. ext4 commits its journal every 5 s in any
/// case.
const COMMITS_A_SECOND: f64 = 2.0;
/// A flush that takes less than this share of the baseline's time is suspicious.
const SUSPICIOUS_RATIO: f64 = 0.5;

/// A trial, and one of another layer in the same block, which shows that the device counts flushes.
pub type WithReference<'a> = (&'a Trial, Option<&'a Trial>);

/// The evidence about a layer at a point.
pub struct Case<'a> {
    /// The point's meaning.
    pub meaning: &'a Meaning,
    /// The layer's facts.
    pub facts: &'a Facts,
    /// Whether it is the baseline.
    pub is_baseline: bool,
    /// The baseline's name in a sentence.
    pub baseline: &'a str,
    /// Names that sentences use.
    pub names: Names<'a>,
    /// Name of the reference in a sentence. Without one, that of the layer that was to be it, if
    /// there is such a layer on the same device.
    pub reference: Option<&'a str>,
    /// Its trials. The reference is the baseline, or another layer for the baseline itself. There is
    /// none if its flushes are not known to have reached the device.
    pub trials: &'a [WithReference<'a>],
    /// Flushes that follow its turns alone.
    pub late: Option<LateFlushes>,
    /// Names of other layers on its devices that are late.
    pub disturbers: &'a [String],
    /// Time per operation over the baseline's, if that is known, and if the baseline has nothing
    /// between it and the device that would make its flushes slow.
    pub ratio: Option<&'a Estimate>,
}

impl Case<'_> {
    fn told(&self, statement: &impl Words) -> String {
        statement.words(&self.names).into()
    }
}

/// The evidence of one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Count {
    syncs: u64,
    flushes: u64,
    /// Expected flushes of others among them. Absent without control windows.
    others: Option<f64>,
    /// Others flushed nothing in the control windows.
    silent: bool,
    /// Time on the clock, nanoseconds.
    ns: u64,
}

impl Count {
    /// `None` if the device's flushes were not counted.
    fn of(trial: &Trial) -> Option<Self> {
        let background = background(trial);
        Some(Self {
            syncs: trial.syncs,
            flushes: trial.device?.flushes,
            others: background.map(|b| b.expected_in(trial.elapsed_ns())),
            silent: background.is_some_and(|b| b.flushes == 0),
            ns: trial.elapsed_ns(),
        })
    }

    fn is_quiet(&self) -> bool {
        self.others
            .is_some_and(|others| others <= OTHERS * self.flushes as f64)
    }

    /// Flushes beyond the expected ones of others.
    fn own(&self) -> f64 {
        self.flushes as f64 - self.others.unwrap_or(0.0)
    }

    /// Whether they exceed the commits that a journal makes every few seconds.
    fn is_of_flushing_program(&self) -> bool {
        let commits = COMMITS_A_SECOND * self.ns as f64 / 1e9;
        self.is_quiet() && self.flushes >= PROGRAM_FLUSHES && self.flushes as f64 >= commits
    }

    fn is_answered(&self) -> bool {
        self.own() >= HONOURED_FROM * self.syncs as f64
    }
}

fn background(trial: &Trial) -> Option<DeviceBackground> {
    // A rate per second, as a count in a thousand seconds.
    let of_session = |rate: f64| DeviceBackground {
        flushes: (rate * 1e3) as u64,
        ns: 1_000_000_000_000,
        ..DeviceBackground::default()
    };
    trial
        .background
        .or_else(|| trial.idle_flushes.map(of_session))
}

/// Sums of trials.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    trials: usize,
    syncs: u64,
    flushes: u64,
    others: f64,
}

impl Sum {
    fn of<'a>(counts: impl IntoIterator<Item = &'a Count>) -> Self {
        let add = |sum: Self, count: &Count| Self {
            trials: sum.trials + 1,
            syncs: sum.syncs + count.syncs,
            flushes: sum.flushes + count.flushes,
            others: sum.others + count.others.unwrap_or(0.0),
        };
        counts.into_iter().fold(Self::default(), add)
    }

    fn own(&self) -> f64 {
        self.flushes as f64 - self.others
    }

    fn count(&self) -> FlushCount {
        FlushCount {
            flushes: self.flushes,
            syncs: self.syncs,
        }
    }

    /// These trials of so many.
    fn told(&self, of: usize) -> Counted {
        Counted {
            count: self.count(),
            others: self.others,
            trials: self.trials,
            of,
        }
    }
}

/// Whether the device counted a flush for each call of these trials, excluding others' flushes.
pub fn answered<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> bool {
    let counts: Vec<Count> = trials.into_iter().filter_map(Count::of).collect();
    quiet_answers(&counts).is_some()
}

/// Sum of the trials that show an answer in silence.
fn quiet_answers(counts: &[Count]) -> Option<Sum> {
    let counts: Vec<Count> = counts.iter().copied().filter(|c| c.syncs > 0).collect();
    let quiet: Vec<&Count> = counts.iter().filter(|c| c.is_quiet()).collect();
    let sum = Sum::of(quiet.iter().copied());
    let share = quiet.iter().filter(|c| c.is_answered()).count() as f64 / quiet.len() as f64;
    let good = if sum.syncs < MANY_SYNCS {
        let all = quiet.len() == counts.len() && share >= 1.0;
        sum.syncs >= FEWEST_SYNCS && all && sum.others < 0.5
    } else {
        share >= MOST_TRIALS && sum.own() >= HONOURED_FROM * sum.syncs as f64
    };
    good.then_some(sum)
}

/// The verdict on a point in a layer.
pub fn judge(case: &Case) -> Durability {
    let of_programs = matches!(
        case.meaning.target,
        Target::Program | Target::Script | Target::Step
    );
    let syncs: u64 = case.trials.iter().map(|(here, _)| here.syncs).sum();
    if of_programs && syncs == 0 {
        return programs(case);
    }
    let counts: Vec<Count> = case
        .trials
        .iter()
        .filter_map(|(here, _)| Count::of(here))
        .collect();
    let all = Sum::of(&counts);
    let blind = counts.is_empty();
    let flushes = (!blind).then_some(all.flushes);
    if !case.meaning.flushes || syncs == 0 {
        return Durability {
            flushes,
            ..Durability::default()
        };
    }
    let drops = storage::passes_no_flush(case.facts, case.meaning);
    let mut durability = Durability {
        flushes,
        syncs,
        configured: drops.as_ref().map(|how| case.told(how)),
        background: (!blind).then_some(all.others).filter(|n| *n > 0.0),
        late: case.late,
        disturbed_by: case.disturbers.to_vec(),
        ..Durability::default()
    };
    account(case, &counts, drops.as_ref(), &mut durability);
    if !matches!(
        durability.verdict,
        DurabilityVerdict::Honoured | DurabilityVerdict::Late
    ) {
        durability.suspicion = suspicion(case).map(|s| case.told(&s));
    }
    durability
}

/// What the device's cache, or the absence of a device, leaves unknown, and the level of the check.
fn blind(facts: &Facts) -> Option<(&'static str, Seen<'static>)> {
    Some(if facts.in_memory() {
        ("L0", Seen::InMemory)
    } else if storage::physical(facts).is_empty() {
        ("L0", Seen::NoDevice)
    } else if storage::volatile_cache(facts) {
        return None;
    } else if storage::cache_known(facts) {
        ("L2", Seen::WritesThrough)
    } else {
        ("L2", Seen::CacheUnknown)
    })
}

fn account(case: &Case, counts: &[Count], drops: Option<&Drops>, durability: &mut Durability) {
    let unsure = DurabilityVerdict::CannotTell;
    let decide = |durability: &mut Durability, verdict, level: &str, seen| {
        durability.verdict = verdict;
        durability.level = Some(level.into());
        let alone = drops.filter(|_| verdict == unsure);
        let configured = alone.map(|how| (how, Agrees::Alone));
        durability.because = Some(case.told(&FlushEvidence { seen, configured }));
    };
    if let Some((level, seen)) = blind(case.facts) {
        return decide(durability, unsure, level, seen);
    }
    if counts.is_empty() {
        return decide(durability, unsure, "L1", Seen::NotCounted);
    }
    let all = Sum::of(counts);
    if all.syncs < FEWEST_SYNCS {
        let seen = Seen::FewSyncs(all.syncs, FEWEST_SYNCS);
        return decide(durability, unsure, "L2", seen);
    }
    if let Some(late) = case.late {
        return decide(durability, DurabilityVerdict::Late, "L2", Seen::Late(late));
    }
    let with = |durability: &mut Durability, sum: &Sum| {
        (durability.flushes, durability.syncs) = (Some(sum.flushes), sum.syncs);
        durability.background = Some(sum.others).filter(|n| *n > 0.0);
    };
    if let Some(sum) = quiet_answers(counts) {
        with(durability, &sum);
        durability.level = Some("L2".into());
        durability.contradicted = drops.is_some();
        durability.verdict = if durability.contradicted {
            unsure
        } else {
            DurabilityVerdict::Honoured
        };
        durability.because = Some(case.told(&FlushEvidence {
            seen: Seen::Counted(sum.told(counts.len())),
            configured: drops.map(|how| (how, Agrees::Not)),
        }));
        return;
    }
    if let Some(sum) = absorbed(case) {
        with(durability, &sum);
        durability.background = None;
        durability.verdict = DurabilityVerdict::Absorbed;
        durability.level = Some("L2".into());
        durability.because = Some(case.told(&FlushEvidence {
            seen: Seen::Silent(sum.told(counts.len())),
            configured: drops.map(|how| (how, Agrees::Both)),
        }));
        return;
    }
    if let Some(sum) = fewer(case, counts) {
        let seen = Seen::Counted(sum.told(counts.len()));
        decide(durability, unsure, "L2", seen);
        with(durability, &sum);
        durability.per_sync = Some(sum.own() / sum.syncs as f64);
        return;
    }
    let seen = Seen::Open(all.count(), open(case, counts, &all));
    decide(durability, unsure, "L2", seen);
}

/// Sum of the trials that show fewer flushes than calls, if most of them do. Calls of several threads may share a
/// flush, and writes past the cache need none.
fn fewer(case: &Case, counts: &[Count]) -> Option<Sum> {
    if case.meaning.under_way() > 1.0 || storage::forces_unit_access(case.facts, case.meaning) {
        return None;
    }
    let quiet = counts.iter().filter(|c| c.syncs > 0 && c.is_quiet());
    let quiet: Vec<&Count> = quiet.collect();
    let few = quiet.iter().filter(|c| !c.is_answered()).count();
    let sum = Sum::of(quiet);
    let share = sum.own() / sum.syncs.max(1) as f64;
    let most = few * 2 > counts.len() && sum.syncs >= MANY_SYNCS;
    (most && share > ABSORBED_BELOW && share < HONOURED_FROM).then_some(sum)
}

/// Why counting decided nothing.
fn open<'a>(case: &Case<'a>, counts: &[Count], all: &Sum) -> Undecided<'a> {
    let quiet = Sum::of(counts.iter().filter(|c| c.is_quiet()));
    let noisy = counts.len() - quiet.trials;
    if noisy > 0 && (quiet.syncs < MANY_SYNCS || all.others > OTHERS * all.flushes as f64) {
        if counts.iter().all(|c| c.others.is_none()) {
            return Undecided::Unwatched;
        }
        let of = [noisy, counts.len()];
        if case.disturbers.is_empty() {
            return Undecided::Others(of);
        }
        return Undecided::LateOthers(of, case.disturbers);
    }
    if all.syncs < MANY_SYNCS {
        return Undecided::TooFew(MANY_SYNCS);
    }
    if all.flushes as f64 > ABSORBED_BELOW * all.syncs as f64 {
        return Undecided::Some;
    }
    if storage::forces_unit_access(case.facts, case.meaning) {
        return Undecided::ForcedUnitAccess;
    }
    if case.trials.iter().all(|(_, reference)| reference.is_none()) {
        let reference = case.reference.map(Undecided::NorThoseOf);
        return reference.unwrap_or(Undecided::NoReference);
    }
    Undecided::FewSilent(case.reference.unwrap_or(case.baseline))
}

/// Sum of the trials that convict: no flush, or nearly none, while the device was otherwise silent
/// and counted the reference's.
fn absorbed(case: &Case) -> Option<Sum> {
    if storage::forces_unit_access(case.facts, case.meaning) {
        return None;
    }
    let silent = case.trials.iter().filter_map(|(here, reference)| {
        let (here, there) = (Count::of(here)?, Count::of(reference.as_ref()?)?);
        let counts = there.silent && there.syncs > 0 && there.is_answered();
        (here.silent && here.syncs > 0 && counts).then_some(here)
    });
    let silent: Vec<Count> = silent.collect();
    // Operations in flight at the same time may share a flush.
    let shared = case.meaning.under_way();
    let none = |c: &&Count| c.flushes as f64 * shared <= ABSORBED_BELOW * c.syncs as f64;
    let sum = Sum::of(silent.iter().filter(none));
    // A burst of others may have hit a turn and no window.
    let most = sum.trials * 2 > silent.len();
    (most && sum.syncs >= MANY_SYNCS).then_some(sum)
}

/// The verdict on programs, whose own syncs are not counted. Only the device's flushes are known,
/// here and in the reference. A program that flushes rarely cannot be distinguished from a
/// journal's commits.
fn programs(case: &Case) -> Durability {
    let pairs: Vec<(Option<Count>, Count)> = case
        .trials
        .iter()
        .filter_map(|(here, there)| Some((Count::of(here), Count::of(there.as_ref()?)?)))
        .filter(|(_, there)| there.is_of_flushing_program())
        .collect();
    let own = flushed_by_programs(case.trials.iter().map(|(here, _)| Some(*here)));
    let there = flushed_by_programs(case.trials.iter().map(|(_, there)| *there));
    let drops = storage::passes_no_flush(case.facts, case.meaning);
    // Another layer may flush when the programs do not, which proves nothing against the baseline.
    let of_own = case.is_baseline && own.flushes >= MANY_SYNCS;
    let of_other = (!case.is_baseline || drops.is_some()) && there.flushes >= MANY_SYNCS;
    if !of_own && !of_other {
        return Durability::default();
    }
    let mut durability = Durability {
        verdict: DurabilityVerdict::CannotTell,
        configured: drops.as_ref().map(|how| case.told(how)),
        ..Durability::default()
    };
    let (level, seen) = match blind(case.facts) {
        Some(known) => known,
        None if case.is_baseline => ("L2", of_baseline_programs(&own, &mut durability)),
        None => ("L2", of_layer_programs(&pairs, &mut durability)),
    };
    durability.level = Some(level.into());
    let agrees = if durability.contradicted {
        Agrees::Not
    } else {
        Agrees::Alone
    };
    durability.because = Some(case.told(&FlushEvidence {
        seen,
        configured: drops.as_ref().map(|how| (how, agrees)),
    }));
    durability
}

/// Flushes in the trials of programs that flush. None if they do so in few of their trials:
/// another program's burst that no control window saw looks the same.
fn flushed_by_programs<'a>(trials: impl Iterator<Item = Option<&'a Trial>>) -> Sum {
    let counts = trials.flatten().filter_map(Count::of);
    let watched: Vec<Count> = counts.filter(|c| c.others.is_some()).collect();
    let flushing = Sum::of(watched.iter().filter(|c| c.is_of_flushing_program()));
    let most = MOST_TRIALS * watched.len() as f64;
    if flushing.trials >= PROGRAM_TRIALS && flushing.trials as f64 >= most {
        flushing
    } else {
        Sum::default()
    }
}

/// Whether the device below the baseline flushes while the programs run.
fn of_baseline_programs(own: &Sum, durability: &mut Durability) -> Seen<'static> {
    durability.flushes = Some(own.flushes);
    if own.flushes >= MANY_SYNCS {
        durability.contradicted = durability.configured.is_some();
        if !durability.contradicted {
            durability.verdict = DurabilityVerdict::Honoured;
        }
    }
    Seen::BaselinePrograms(own.flushes)
}

/// A layer's trials next to the baseline's of the same blocks.
fn of_layer_programs(
    pairs: &[(Option<Count>, Count)],
    durability: &mut Durability,
) -> Seen<'static> {
    let counted = pairs
        .iter()
        .filter_map(|(here, there)| Some(((*here)?, *there)));
    let counted: Vec<(Count, Count)> = counted.collect();
    let sums = |keep: &dyn Fn(&(Count, Count)) -> bool| {
        let kept: Vec<&(Count, Count)> = counted.iter().filter(|pair| keep(pair)).collect();
        let here = Sum::of(kept.iter().map(|(here, _)| here));
        (here, Sum::of(kept.iter().map(|(_, there)| there)))
    };
    let silent = |(here, there): &(Count, Count)| here.silent && there.silent;
    let none = |(here, there): &(Count, Count)| {
        here.flushes as f64 <= ABSORBED_BELOW * there.flushes as f64
    };
    let all_silent = counted.iter().filter(|pair| silent(pair)).count();
    let convicting = sums(&|pair| silent(pair) && none(pair));
    let keeping = sums(&|(here, _)| here.is_quiet());
    let kept = keeping.0.own() >= HONOURED_FROM * keeping.1.flushes as f64;
    let (here, there) =
        if convicting.1.flushes >= MANY_SYNCS && convicting.0.trials * 2 > all_silent {
            durability.verdict = DurabilityVerdict::Absorbed;
            convicting
        } else if kept && keeping.1.flushes >= MANY_SYNCS {
            durability.contradicted = durability.configured.is_some();
            if !durability.contradicted {
                durability.verdict = DurabilityVerdict::Honoured;
            }
            keeping
        } else {
            sums(&|_| true)
        };
    durability.flushes = Some(here.flushes);
    durability.reference_flushes = Some(there.flushes);
    Seen::LayerPrograms(here.flushes, there.flushes)
}

/// L1: faster than the flush below it can be.
fn suspicion(case: &Case) -> Option<Suspicion> {
    let ratio = *case.ratio?;
    let bound = ratio.interval.map_or(ratio.estimate, |[_, high]| high);
    (bound < SUSPICIOUS_RATIO).then_some(Suspicion { ratio })
}

#[cfg(test)]
mod tests;
