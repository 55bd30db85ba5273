//! Texts that the tables of several formats share.

use layermark_model::flags;

use crate::{
    DurabilityVerdict, Estimate, Report, ResultRow, ServedBy, TrustState, TrustWord, Verdict,
    number,
    statements::remarks::{self, Remark},
    types::Cause,
    views::by_work,
    words::{Names, Words, locks, machine::status},
};

/// The numbers of a result that stand beside each other, all of the same rounds and the same
/// statistic: time over the baseline's time is the ratio, and time minus it the difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Numbers {
    /// Empty for the typical operation, [`ON_AVERAGE`] for the average.
    pub of: &'static str,
    /// Time per operation, microseconds.
    pub time: Option<Estimate>,
    /// The baseline's, microseconds. `None` without a ratio.
    pub baseline_us: Option<f64>,
    /// The ratio.
    pub ratio: Option<Estimate>,
    /// The difference, microseconds.
    pub extra: Option<Estimate>,
    /// Whether that is the result's `extra_us`.
    pub extra_is_stored: bool,
    /// Whether time and ratio are what it took at least: the change was not seen.
    at_least: bool,
    verdict: Verdict,
}

/// Name of a result's second line.
pub const ON_AVERAGE: &str = "on average";
/// Heading of the column of [`Numbers::baseline`].
pub const BASELINE: &str = "baseline's";

/// The typical numbers of a result. A second line has the averages where they differ: see
/// [`ResultRow::has_two_lines`].
pub fn numbers(row: &ResultRow) -> Vec<Numbers> {
    let verdict = row.leaning();
    let typical = Numbers {
        of: "",
        time: row.op_time(),
        baseline_us: row.native_us,
        ratio: row.ratio,
        extra: if row.has_stalls() {
            difference(row.native_us, row.ratio)
        } else {
            row.extra_us
        },
        extra_is_stored: !row.has_stalls(),
        at_least: row.not_seen(),
        verdict,
    };
    let average = || {
        let ratio = row.ratio?.average.map(Estimate::from);
        Some(Numbers {
            of: ON_AVERAGE,
            time: row.average_us.map(exact),
            baseline_us: row.native_average_us,
            ratio,
            extra: difference(row.native_average_us, ratio),
            extra_is_stored: false,
            at_least: row.not_seen(),
            verdict,
        })
    };
    let average = row.has_two_lines().then(average).flatten();
    [typical].into_iter().chain(average).collect()
}

/// The baseline's time times (ratio - 1).
fn difference(baseline_us: Option<f64>, ratio: Option<Estimate>) -> Option<Estimate> {
    let (us, ratio) = baseline_us.zip(ratio)?;
    let more = |ratio: f64| us * (ratio - 1.0);
    Some(Estimate {
        estimate: more(ratio.estimate),
        interval: ratio.interval.map(|ends| ends.map(more)),
        average: None,
    })
}

fn exact(estimate: f64) -> Estimate {
    Estimate {
        estimate,
        interval: None,
        average: None,
    }
}

impl Numbers {
    /// Time per operation. Beside the baseline's time it has three digits: their ratio is known better
    /// than either.
    pub fn time(&self) -> String {
        let text = |e: Estimate| match self.baseline_us {
            _ if self.at_least => format!(">{}", number::time(e.estimate)),
            Some(_) => number::time(e.estimate),
            None => number::time_of(&e),
        };
        self.time.map(text).unwrap_or_default()
    }

    /// The baseline's time per operation in the same rounds.
    pub fn baseline(&self) -> String {
        self.baseline_us.map(number::time).unwrap_or_default()
    }

    /// The ratio with its interval, `1.02 [0.99-1.05]`, or with what is missing for one.
    pub fn ratio(&self) -> String {
        let text = |written: number::Written| {
            if self.at_least {
                return format!(">{}", written.ratio());
            }
            let ends = written.ends().map(|ends| ends.join("-"));
            let ends = ends.unwrap_or_else(|| "no interval".into());
            format!("{} [{ends}]", written.ratio())
        };
        self.written().map(text).unwrap_or_default()
    }

    /// How the ratio is written.
    pub fn written(&self) -> Option<number::Written> {
        let ratio = self.ratio.as_ref()?;
        Some(number::Written::beside(self.verdict, ratio))
    }

    /// `+12.0 us`: the absolute difference next to the ratio.
    pub fn extra(&self) -> String {
        let text = |e: Estimate| match self.time.filter(|_| self.baseline_us.is_some()) {
            Some(time) => number::extra_beside(&e, time.estimate),
            None => number::extra_of(&e),
        };
        let extra = self.extra.filter(|_| !self.at_least);
        extra.map(text).unwrap_or_default()
    }
}

/// Heading of the column of [`label`].
pub const SOURCE: &str = "data came from, fsync";

/// Where the data of a read came from, or the result of an fsync.
pub fn label(row: &ResultRow) -> String {
    let source = row.served_by.map_or("", ServedBy::word);
    let mut parts = vec![source.to_owned(), row.durability.words()];
    parts.retain(|p| !p.is_empty());
    parts.join(", ")
}

/// The layer's name, with a mark if its instructions were emulated: its figures say nothing about
/// other machines.
pub fn layer(row: &ResultRow) -> String {
    if row.flags.iter().any(|f| f == flags::EMULATED_CPU) {
        format!("{} ({})", row.layer, flags::EMULATED_CPU)
    } else {
        row.layer.clone()
    }
}

/// Notes next to verdicts. A cause is given once for each layer, where it first explains something.
#[derive(Default)]
pub struct Notes<'a> {
    brief: bool,
    told: Vec<(&'a str, &'a Cause)>,
    /// The baseline's row of the same point, which comes first.
    baseline: Option<&'a ResultRow>,
}

impl<'a> Notes<'a> {
    /// Without what would settle an undecided result: the sentences below the table say it.
    pub fn brief() -> Self {
        Self {
            brief: true,
            ..Self::default()
        }
    }

    /// The note of the next row; may be empty.
    pub fn of(&mut self, row: &'a ResultRow) -> String {
        let mut notes: Vec<String> = Vec::new();
        if row.verdict == Verdict::Baseline {
            self.baseline = Some(row);
        }
        notes.extend(row.untrusted.clone());
        notes.extend(locks::never(row).map(String::from));
        let names = Names {
            ..Names::of(self.baseline.map(|b| b.layer.as_str()))
        };
        let said = |remark: Option<Remark>| remark.map(|r| String::from(r.words(&names)));
        notes.extend(said(remarks::stalls(row)));
        notes.extend(said(remarks::with_waiting(row)));
        if row.trials == 0 {
            let why = row.error.as_deref().map(layermark_model::brief);
            notes.push(why.unwrap_or_else(|| "no number".into()));
        } else if row.failed_trials > 0 {
            notes.push(failed(row));
        }
        if row.trials > 0 && row.verdict == Verdict::Undecided && !self.brief {
            notes.push(crate::words::verdicts::note(row).into());
        }
        if let Some((cause, reason)) = row.causes.first().zip(row.reasons.first()) {
            let layer = row.layer.as_str();
            if !self
                .told
                .iter()
                .any(|(l, c)| *l == layer && c.is_like(cause))
            {
                self.told.push((layer, cause));
                notes.push(reason.clone());
            }
        }
        notes.extend(said(remarks::read_from(row)));
        notes.extend(said(remarks::fewer_bytes(row)));
        notes.extend(said(remarks::two_kinds(row)));
        let told = row
            .causes
            .iter()
            .any(|c| matches!(c, Cause::SuspectedFlush(_)));
        let proved = row.durability.verdict == DurabilityVerdict::Absorbed;
        let suspicion = row.durability.suspicion.as_ref();
        let suspicion = suspicion.filter(|_| !told && !proved);
        let suspicion = suspicion.map(|s| Cause::SuspectedFlush(s.clone()));
        notes.extend(suspicion.map(|cause| String::from(cause.words(&names))));
        notes.extend(durability_words(row).map(str::to_owned));
        notes.extend(row.threads.as_ref().map(|t| String::from(t.words(&names))));
        notes.extend(flush_tail(row));
        notes.retain(|n| !n.is_empty());
        notes.join("; ")
    }
}

/// The highest known percentile of operations each of which waits for a flush: who commits waits for the slow
/// ones too.
fn flush_tail(row: &ResultRow) -> Option<String> {
    let sync = row.meaning.sync.as_deref()?;
    let latency = row.latency_us.as_ref();
    let latency = latency.filter(|_| matches!(sync, "each" | "each-data" | "osync" | "odsync"))?;
    let tail = latency.tail.map(|tail| (tail.percentile, tail.us));
    let (percentile, us) = latency.p99.map(|us| (99.0, us)).or(tail)?;
    Some(format!("p{percentile} {}", number::time(us)))
}

/// The evidence for the verdict on flushes, if one word in the table is not enough: the
/// configuration also says something, or other programs flushed.
fn durability_words(row: &ResultRow) -> Option<&str> {
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

/// `1 of 5 measurements failed: tar: read error`.
fn failed(row: &ResultRow) -> String {
    let all = number::count(row.trials + row.failed_trials, "measurement");
    let why = layermark_model::brief(row.error.as_deref().unwrap_or_default());
    format!("{} of {all} failed: {why}", row.failed_trials)
}

/// From this share on, a difference of the baseline's time in the rounds of a ratio from that of its row
/// is reported.
const OTHER_ROUNDS: f64 = 0.05;
/// The same where the two times have a ratio outside the interval.
const NOTICED: f64 = 0.01;

/// The baseline's average microseconds an operation in the rounds of the layer's ratio, if its own row has
/// clearly another time. That row includes rounds with other layers, which may be on one CPU where
/// these are not.
pub fn in_other_rounds(row: &ResultRow, baseline: &ResultRow) -> Option<f64> {
    let (here, there) = (row.native_average_us?, baseline.average_us?);
    let apart = (here / there).ln().abs();
    // The two times that stand below each other contradict their ratio.
    let shown = row.average_us.map(|us| us / there);
    let [low, high] = row
        .ratio
        .and_then(|r| r.average?.interval)
        .unwrap_or([0.0, f64::MAX]);
    let contradicts = shown.is_some_and(|ratio| ratio < low || ratio > high);
    let other = apart > OTHER_ROUNDS.ln_1p() || contradicts && apart > NOTICED.ln_1p();
    other.then_some(here)
}

/// The results of each point, in the plan's order.
pub fn groups(report: &Report) -> Vec<(&str, Vec<&ResultRow>)> {
    by_work(&report.results, |row| &row.label)
}

/// One line about the run.
pub fn about(report: &Report) -> String {
    if let Some(old) = &report.compared {
        return format!(
            "run {} of {} against run {} of {}, plan {}",
            report.run, report.started, old.run, old.started, report.label
        );
    }
    let measured = report
        .layers
        .iter()
        .filter(|l| !l.control && !l.baseline && l.status == layermark_model::LayerStatus::Ready)
        .count();
    format!(
        "run {} of plan {} ({}), {}, {}, seed {}",
        report.run,
        report.label,
        status(report.status),
        number::count(measured, "layer"),
        number::count(report.trials.len(), "measurement"),
        report.seed
    )
}

/// The mark before [`trust`].
pub fn trust_mark(report: &Report) -> TrustState {
    let warned = || report.trust.iter().any(|t| t.state == TrustState::Warn);
    let word = report.trusted.as_ref().map(|trusted| trusted.word);
    match word {
        Some(TrustWord::Yes) => TrustState::Ok,
        None if !warned() => TrustState::Ok,
        Some(TrustWord::WithCare | TrustWord::No) | None => TrustState::Warn,
    }
}

/// Whether to believe it, or why not, how many checks passed, and which did not.
pub fn trust(report: &Report) -> String {
    let having = |state: TrustState| report.trust.iter().filter(move |t| t.state == state);
    let warnings: Vec<&str> = having(TrustState::Warn).map(|t| t.title.as_str()).collect();
    let believed = report.trusted.as_ref().map(|trusted| {
        let word = trusted.word.word();
        match &trusted.reason {
            Some(why) => format!("{word}: {why}; "),
            None => format!("{word}, "),
        }
    });
    let believed = believed.unwrap_or_default();
    let passed = number::count(having(TrustState::Ok).count(), "check");
    if warnings.is_empty() {
        format!("{believed}{passed} passed, no warning")
    } else {
        let warnings = number::list(&warnings);
        format!("{believed}{passed} passed; warnings: {warnings}")
    }
}
