//! Notes next to the verdict of a result in a table.

use crate::{
    statements::remarks::{self, Remark},
    types::{Cause, DurabilityVerdict, ResultRow, ThreadsRow, Verdict},
};

/// A note on a result.
#[derive(Debug, Clone, PartialEq)]
pub enum RowNote<'a> {
    /// Why its number is not trusted.
    Untrusted(&'a str),
    /// What it waited for never came.
    Never(&'a ResultRow),
    /// What the row says of itself.
    Remark(Remark<'a>),
    /// It has no number, with the error.
    NoNumber(Option<&'a str>),
    /// How many of all trials failed, with the error.
    Failed([usize; 2], &'a str),
    /// Why there is no verdict although the interval leaves out 1.
    Withheld(&'a str),
    /// Its ratio changed during the run.
    Unsteady,
    /// How many blocks are missing for an interval.
    FewBlocks(usize),
    /// Only the weaker rule gives its verdict.
    WeakerRule,
    /// The largest difference that is not excluded.
    Within(f64),
    /// Why it is slower or faster.
    Because(&'a str),
    /// That its flushes may be skipped.
    Suspicion(Cause),
    /// The evidence for the verdict on its flushes.
    Flushes(&'a str),
    /// How evenly its threads progressed.
    Threads(&'a ThreadsRow),
    /// A high percentile, and its microseconds.
    Tail(f64, f64),
}

/// The notes of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowNotes<'a> {
    /// The baseline of its operation, if it is in the same table.
    pub baseline: Option<&'a str>,
    /// The notes in order.
    pub all: Vec<RowNote<'a>>,
}

/// Notes of the rows of a table, in its order. A cause is given once for each layer, where it first explains something.
#[derive(Default)]
pub struct Notes<'a> {
    brief: bool,
    told: Vec<(&'a str, &'a Cause)>,
    /// The baseline of the same point, which comes first.
    baseline: Option<&'a str>,
}

impl<'a> Notes<'a> {
    /// Without what would settle an undecided result: the sentences below the table say it.
    pub fn brief() -> Self {
        Self {
            brief: true,
            ..Self::default()
        }
    }

    /// The notes of the next row.
    pub fn of(&mut self, row: &'a ResultRow) -> RowNotes<'a> {
        if row.verdict == Verdict::Baseline {
            self.baseline = Some(&row.layer);
        }
        let mut all: Vec<RowNote> = Vec::new();
        all.extend(row.untrusted.as_deref().map(RowNote::Untrusted));
        all.extend(row.not_seen().then_some(RowNote::Never(row)));
        let said = [remarks::stalls(row), remarks::with_waiting(row)];
        all.extend(said.into_iter().flatten().map(RowNote::Remark));
        all.extend(unsuccessful(row));
        if row.trials > 0 && row.verdict == Verdict::Undecided && !self.brief {
            all.extend(undecided(row));
        }
        all.extend(self.because(row));
        let said = [
            remarks::read_from(row),
            remarks::fewer_bytes(row),
            remarks::two_kinds(row),
        ];
        all.extend(said.into_iter().flatten().map(RowNote::Remark));
        all.extend(suspicion(row));
        all.extend(evidence(row).map(RowNote::Flushes));
        all.extend(row.threads.as_ref().map(RowNote::Threads));
        all.extend(flush_tail(row));
        RowNotes {
            baseline: self.baseline,
            all,
        }
    }

    /// The first cause, unless an earlier row of the layer has one like it.
    fn because(&mut self, row: &'a ResultRow) -> Option<RowNote<'a>> {
        let (cause, reason) = row.causes.first().zip(row.reasons.first())?;
        let layer = row.layer.as_str();
        let is_same = |(of, told): &(&str, &Cause)| *of == layer && told.is_like(cause);
        if self.told.iter().any(is_same) {
            return None;
        }
        self.told.push((layer, cause));
        Some(RowNote::Because(reason))
    }
}

/// That all or some of its trials failed.
fn unsuccessful(row: &ResultRow) -> Option<RowNote<'_>> {
    if row.trials == 0 {
        return Some(RowNote::NoNumber(row.error.as_deref()));
    }
    let of = [row.failed_trials, row.trials + row.failed_trials];
    let why = row.error.as_deref().unwrap_or_default();
    (row.failed_trials > 0).then_some(RowNote::Failed(of, why))
}

/// What would settle an undecided result. The table already shows the interval.
fn undecided(row: &ResultRow) -> Option<RowNote<'_>> {
    if let Some(why) = &row.withheld {
        return Some(RowNote::Withheld(why));
    }
    match (row.steady, row.margin, row.more_blocks) {
        (Some(false), ..) => Some(RowNote::Unsteady),
        (.., Some(n)) => Some(RowNote::FewBlocks(n)),
        _ if row.probably.is_some() => Some(RowNote::WeakerRule),
        (_, margin, _) => margin.map(RowNote::Within),
    }
}

/// A suspicion that is neither proved nor told as a cause.
fn suspicion(row: &ResultRow) -> Option<RowNote<'_>> {
    let is_suspicion = |cause: &Cause| matches!(cause, Cause::SuspectedFlush(_));
    let told = row.causes.iter().any(is_suspicion);
    let proved = row.durability.verdict == DurabilityVerdict::Absorbed;
    let how = row.durability.suspicion.as_ref();
    let how = how.filter(|_| !told && !proved)?;
    Some(RowNote::Suspicion(Cause::SuspectedFlush(how.clone())))
}

/// The evidence for the verdict on flushes, if one word in the table is not enough: the
/// configuration also says something, or other programs flushed.
fn evidence(row: &ResultRow) -> Option<&str> {
    let flushed = &row.durability;
    match flushed.verdict {
        DurabilityVerdict::Absorbed => flushed.configured.as_deref(),
        DurabilityVerdict::Late => flushed.because.as_deref(),
        DurabilityVerdict::CannotTell
            if flushed.configured.is_some() || flushed.background.is_some() =>
        {
            flushed.because.as_deref()
        }
        _ => None,
    }
}

/// The highest known percentile of operations each of which waits for a flush: who commits waits for the slow
/// ones too.
fn flush_tail(row: &ResultRow) -> Option<RowNote<'_>> {
    let sync = row.meaning.sync.as_deref()?;
    let latency = row.latency_us.as_ref();
    let latency = latency.filter(|_| matches!(sync, "each" | "each-data" | "osync" | "odsync"))?;
    let tail = latency.tail.map(|tail| (tail.percentile, tail.us));
    let (percentile, us) = latency.p99.map(|us| (99.0, us)).or(tail)?;
    Some(RowNote::Tail(percentile, us))
}
