//! Whether a directory can be relied on, a line for each question.

use std::borrow::Cow;

use layermark_model::{Facts, Spec, StoreOption, Target};

use crate::{
    Report,
    facts::{
        safe::{Unseen, failure, refusal, unseen},
        storage,
    },
    types::{
        DurabilityVerdict, LayerReport, LockRow, LockVerdict, ResultRow, SafeQuestion, SafeTopic,
        SafeVerdict,
    },
};

/// The operation of a change in a shared mapping.
const MAPPED: &str = "mapped";

/// The answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct SafeLine<'a> {
    /// The question.
    pub question: SafeQuestion,
    /// The answer.
    pub answer: SafeVerdict,
    /// What it rests on.
    pub because: SafeBecause<'a>,
    /// What to do about it.
    pub advice: Option<SafeAdvice<'a>>,
    /// Ids of results.
    pub evidence: Vec<&'a str>,
}

/// What an answer rests on.
#[derive(Debug, Clone, PartialEq)]
pub enum SafeBecause<'a> {
    /// No result.
    NotMeasured,
    /// The operation was refused with this error, or this error shows that it does not do what it is for.
    Lacks(&'a str),
    /// A trial failed with this error, which shows neither.
    Failed(&'a str),
    /// What was measured is not trusted, for this reason.
    Untrusted(Cow<'a, str>),
    /// Locks that were refused to the second side, and all that were tried.
    Refused(u64, u64, SafeSecond<'a>),
    /// Locks that the second side took, and all that were tried.
    Taken(u64, u64, SafeSecond<'a>),
    /// The slowest change that was seen, microseconds.
    Seen(f64, SafeSecond<'a>),
    /// Changes that were not seen.
    Unseen(Unseen<'a>, SafeSecond<'a>),
    /// Processes of this machine agree; others may use the file system of this type.
    OtherMachines(&'a str),
    /// The evidence of the verdict on flushes.
    Flushes(&'a str),
    /// The setting that drops flushes.
    Drops(&'a str),
    /// The data lies in memory.
    InMemory,
    /// Flushes do not reach the device.
    Unflushed,
    /// Flushes reach the device only after they were answered.
    FlushedLate,
    /// Only a power cut by hand can show it.
    Uncut,
}

/// Who was the second side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SafeSecond<'a> {
    /// A process of this machine, whose kernel alone mounts a file system of this type.
    Alone(&'a str),
    /// A process of this machine.
    Process,
    /// Another client.
    Client,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SafeAdvice<'a> {
    /// Ask again with another path of this directory.
    OtherPath(&'a str),
    /// Ask again with a directory on the disk below this one.
    Below(&'a str),
    /// Ask about fsync again when the disk is quiet.
    Quiet(&'a str),
    /// Cut the power of this directory by hand.
    CutByHand(&'a str),
    /// Where to keep files that several programs lock.
    LockElsewhere,
    /// Where to keep files that several programs map.
    MapElsewhere,
    /// Where to keep what must survive a power cut.
    SurviveElsewhere,
    /// Do not rely on changes of the other side.
    WaitForChanges,
    /// See the results.
    SeeRun(&'a str, &'a StoreOption),
}

/// What is asked about a directory.
struct Asked<'a> {
    report: &'a Report,
    facts: &'a Facts,
    /// The directory as the user names it.
    dir: &'a str,
    rows: Vec<&'a ResultRow>,
}

/// The directory of a layer `dir`, as the user names it.
pub fn asked_dir(layer: &LayerReport) -> Option<String> {
    layer.spec.parse::<Spec>().ok()?.variant
}

/// The answers about the baseline of a run and its directory, in the order of the topics.
pub fn lines<'a>(report: &'a Report, dir: &'a str, topics: &[SafeTopic]) -> Vec<SafeLine<'a>> {
    let Some(layer) = report.layers.iter().find(|l| l.baseline) else {
        return Vec::new();
    };
    let asked = Asked {
        report,
        facts: &layer.facts,
        dir,
        rows: report
            .results
            .iter()
            .filter(|r| r.layer == layer.name)
            .collect(),
    };
    let mut topics = topics.to_vec();
    topics.sort_unstable();
    topics.dedup();
    topics
        .into_iter()
        .flat_map(|topic| match topic {
            SafeTopic::Locks => asked.locks(),
            SafeTopic::Mappings => vec![asked.mappings()],
            SafeTopic::Fsync => vec![asked.fsync()],
            SafeTopic::Names => vec![asked.names()],
            SafeTopic::Coherence => vec![asked.coherence()],
        })
        .collect()
}

impl<'a> Asked<'a> {
    /// Rows of a target and their ids.
    fn of(&self, is: impl Fn(&ResultRow) -> bool) -> Vec<&'a ResultRow> {
        self.rows.iter().copied().filter(|r| is(r)).collect()
    }

    /// Who the second side is.
    fn second(&self) -> SafeSecond<'a> {
        if !self.facts.one_client() {
            return SafeSecond::Client;
        }
        if storage::is_of_one_kernel(self.facts) {
            return SafeSecond::Alone(storage::file_system(self.facts));
        }
        SafeSecond::Process
    }

    /// The row of flushed writes.
    fn flushed(&self) -> Option<&'a ResultRow> {
        let is = |r: &ResultRow| r.meaning.target == Target::Data && r.meaning.flushes;
        self.of(is).first().copied()
    }

    /// What failed trials leave of an answer: one that was refused is a *no*, and what another error hides is not known.
    fn despite(
        &self,
        rows: &[&'a ResultRow],
        found: (SafeVerdict, SafeBecause<'a>),
    ) -> (SafeVerdict, SafeBecause<'a>) {
        if found.0 == SafeVerdict::No {
            return found;
        }
        if let Some(error) = refusal(self.report, rows) {
            return (SafeVerdict::No, SafeBecause::Lacks(error));
        }
        match failure(self.report, rows) {
            Some(error) => (SafeVerdict::NotProved, SafeBecause::Failed(error)),
            None => found,
        }
    }

    /// A *yes* of results that are not trusted is none.
    fn trusted(
        &self,
        rows: &[&'a ResultRow],
        found: (SafeVerdict, SafeBecause<'a>),
    ) -> (SafeVerdict, SafeBecause<'a>) {
        let own = rows
            .iter()
            .find_map(|r| r.untrusted.as_deref())
            .map(Cow::from);
        match own.or_else(|| self.report.distrust()) {
            Some(why) if found.0 == SafeVerdict::Yes => {
                (SafeVerdict::NotProved, SafeBecause::Untrusted(why))
            }
            _ => found,
        }
    }

    fn line(
        &self,
        question: SafeQuestion,
        found: (SafeVerdict, SafeBecause<'a>),
        advice: SafeAdvice<'a>,
        rows: &[&'a ResultRow],
    ) -> SafeLine<'a> {
        let (answer, because) = self.trusted(rows, found);
        let unknown = matches!(
            because,
            SafeBecause::NotMeasured | SafeBecause::Failed(_) | SafeBecause::Untrusted(_)
        );
        let advice = match answer {
            SafeVerdict::Yes => None,
            _ if unknown => Some(SafeAdvice::SeeRun(&self.report.run, &self.report.store)),
            _ => Some(advice),
        };
        SafeLine {
            question,
            answer,
            because,
            advice,
            evidence: rows.iter().map(|r| r.id.as_str()).collect(),
        }
    }

    fn locks(&self) -> Vec<SafeLine<'a>> {
        let kinds = [
            (SafeQuestion::Flock, "flock"),
            (SafeQuestion::Fcntl, "fcntl"),
            (SafeQuestion::Ofd, "ofd"),
        ];
        let line = |(question, kind)| {
            let is_lock =
                |r: &ResultRow| matches!(r.meaning.target, Target::Lock | Target::SharedLock);
            let rows = self.of(|r| is_lock(r) && r.meaning.operation == kind);
            let mut all = self.report.locks.iter();
            let both = all.find(|l| l.kind == kind && rows.iter().any(|r| r.layer == l.layer));
            let found = self.despite(&rows, self.lock(both));
            let advice = match found.0 {
                SafeVerdict::No => SafeAdvice::LockElsewhere,
                _ => SafeAdvice::OtherPath(self.dir),
            };
            self.line(question, found, advice, &rows)
        };
        kinds.into_iter().map(line).collect()
    }

    fn lock(&self, both: Option<&'a LockRow>) -> (SafeVerdict, SafeBecause<'a>) {
        let Some(lock) = both.filter(|lock| lock.tried > 0) else {
            return (SafeVerdict::NotProved, SafeBecause::NotMeasured);
        };
        let second = self.second();
        match lock.verdict {
            LockVerdict::DoesNotExclude => {
                let taken = lock.tried - lock.excluded;
                let because = SafeBecause::Taken(taken, lock.tried, second);
                (SafeVerdict::No, because)
            }
            LockVerdict::NotProved => self.of_other_machines(),
            LockVerdict::Excludes if second == SafeSecond::Process => self.of_other_machines(),
            LockVerdict::Excludes => {
                let because = SafeBecause::Refused(lock.excluded, lock.tried, second);
                (SafeVerdict::Yes, because)
            }
        }
    }

    fn of_other_machines(&self) -> (SafeVerdict, SafeBecause<'a>) {
        let because = SafeBecause::OtherMachines(storage::file_system(self.facts));
        (SafeVerdict::NotProved, because)
    }

    /// What the second side saw of changes.
    fn seen(&self, rows: &[&'a ResultRow]) -> (SafeVerdict, SafeBecause<'a>) {
        let second = self.second();
        if let Some(unseen) = unseen(self.report, rows) {
            return (SafeVerdict::No, SafeBecause::Unseen(unseen, second));
        }
        if rows.is_empty() || rows.iter().any(|r| r.trials == 0) {
            return (SafeVerdict::NotProved, SafeBecause::NotMeasured);
        }
        let longest = rows.iter().filter_map(|r| r.latency_us.as_ref());
        let longest = longest.map(|l| l.max).fold(0.0, f64::max);
        (SafeVerdict::Yes, SafeBecause::Seen(longest, second))
    }

    fn changes(&self, mapped: bool) -> Vec<&'a ResultRow> {
        self.of(|r| {
            r.meaning.target == Target::SharedDirectory && (r.meaning.operation == MAPPED) == mapped
        })
    }

    /// Two processes of this machine are what was asked about, also where a server has the files.
    fn mappings(&self) -> SafeLine<'a> {
        let rows = self.changes(true);
        let found = self.despite(&rows, self.seen(&rows));
        self.line(
            SafeQuestion::SharedMappings,
            found,
            SafeAdvice::MapElsewhere,
            &rows,
        )
    }

    fn coherence(&self) -> SafeLine<'a> {
        let rows = self.changes(false);
        let found = self.despite(&rows, self.seen(&rows));
        let found = match (&found.0, self.second()) {
            (SafeVerdict::Yes, SafeSecond::Process) => self.of_other_machines(),
            _ => found,
        };
        let advice = match found.0 {
            SafeVerdict::No => SafeAdvice::WaitForChanges,
            _ => SafeAdvice::OtherPath(self.dir),
        };
        self.line(SafeQuestion::Coherence, found, advice, &rows)
    }

    fn fsync(&self) -> SafeLine<'a> {
        let row = self.flushed();
        let found = row.map_or((SafeVerdict::NotProved, SafeBecause::NotMeasured), |row| {
            self.flushes(row)
        });
        let advice = if found.0 == SafeVerdict::No {
            SafeAdvice::SurviveElsewhere
        } else if storage::physical(self.facts).is_empty() {
            SafeAdvice::Below(self.dir)
        } else if storage::volatile_cache(self.facts) {
            SafeAdvice::Quiet(self.dir)
        } else {
            SafeAdvice::CutByHand(self.dir)
        };
        let rows: Vec<_> = row.into_iter().collect();
        self.line(SafeQuestion::Fsync, found, advice, &rows)
    }

    fn flushes(&self, row: &'a ResultRow) -> (SafeVerdict, SafeBecause<'a>) {
        if self.facts.in_memory() {
            return (SafeVerdict::No, SafeBecause::InMemory);
        }
        let said = row.durability.because.as_deref();
        let because = said.map_or(SafeBecause::NotMeasured, SafeBecause::Flushes);
        let drops = row.durability.configured.as_deref();
        // Without a barrier, such a device has what was written as soon as with one.
        let drops = drops.filter(|_| !storage::needs_no_barrier(self.facts, &row.meaning));
        let found = match (row.durability.verdict, drops) {
            (DurabilityVerdict::Honoured, _) => (SafeVerdict::Yes, because),
            (DurabilityVerdict::Absorbed | DurabilityVerdict::Late, _) => {
                (SafeVerdict::No, because)
            }
            (_, Some(how)) if !row.durability.contradicted => {
                (SafeVerdict::No, SafeBecause::Drops(how))
            }
            _ => (SafeVerdict::NotProved, because),
        };
        self.despite(&[row], found)
    }

    /// A file system whose flushes are lost keeps no name that was flushed. Of others only a power cut shows it.
    fn names(&self) -> SafeLine<'a> {
        let row = self.flushed();
        let flushed = row.map(|row| self.flushes(row));
        let found = match flushed {
            Some((SafeVerdict::No, SafeBecause::InMemory)) => {
                (SafeVerdict::No, SafeBecause::InMemory)
            }
            Some((SafeVerdict::No, _)) => {
                let is_late = |r: &ResultRow| r.durability.verdict == DurabilityVerdict::Late;
                let because = if row.is_some_and(is_late) {
                    SafeBecause::FlushedLate
                } else {
                    SafeBecause::Unflushed
                };
                (SafeVerdict::No, because)
            }
            _ => (SafeVerdict::NotProved, SafeBecause::Uncut),
        };
        let advice = match found.0 {
            SafeVerdict::No => SafeAdvice::SurviveElsewhere,
            _ => SafeAdvice::CutByHand(self.dir),
        };
        let rows: Vec<_> = row.into_iter().collect();
        self.line(SafeQuestion::Names, found, advice, &rows)
    }
}
