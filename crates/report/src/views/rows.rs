//! Texts that the tables of several formats share.

use layermark_model::flags;

use crate::{
    DurabilityVerdict, Report, ResultRow, ServedBy, TrustState, Verdict,
    analysis::{data_source, kinds, stalls, waiting},
    code_span, number,
    types::Cause,
    views::by_work,
};

/// A ratio with its interval, `1.02 [0.99-1.05]`, or with what is missing for one.
pub fn ratio(row: &ResultRow) -> String {
    match row.ratio {
        Some(e) if row.not_seen() => format!(">{}", number::ratio_of(&e)),
        Some(e) => {
            let ends = number::ratio_ends(&e).map(|ends| ends.join("-"));
            let ends = ends.unwrap_or_else(|| "no interval".into());
            format!("{} [{ends}]", number::ratio_of(&e))
        }
        None => String::new(),
    }
}

/// `+12.0 us`: the absolute difference next to the ratio.
pub fn extra(row: &ResultRow) -> String {
    if row.not_seen() {
        return String::new();
    }
    row.extra_us
        .map(|e| number::extra_of(&e))
        .unwrap_or_default()
}

/// Time per operation.
pub fn op_time(row: &ResultRow) -> String {
    if row.not_seen() {
        return format!(">{}", number::time(row.op_us.unwrap_or_default()));
    }
    row.op_time()
        .map(|e| number::time_of(&e))
        .unwrap_or_default()
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
        if row.not_seen() {
            notes.push(format!(
                "not seen within {}",
                number::time(row.op_us.unwrap_or_default())
            ));
        }
        let baseline = self.baseline.map_or("the baseline", |b| b.layer.as_str());
        notes.extend(stalls::words(row, &code_span::baseline(baseline)));
        notes.extend(waiting::beside(row));
        notes.extend(self.other_rounds(row));
        if row.trials == 0 {
            let why = row.error.as_deref().map(layermark_model::brief);
            notes.push(why.unwrap_or_else(|| "no number".into()));
        } else if row.failed_trials > 0 {
            notes.push(failed(row));
        }
        if row.trials > 0 && row.verdict == Verdict::Undecided && !self.brief {
            notes.push(crate::analysis::summary::undecided::note(row));
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
        notes.extend(data_source::surprise(row));
        notes.extend(kinds::words(row));
        let told = row
            .causes
            .iter()
            .any(|c| matches!(c, Cause::SuspectedFlush(_)));
        let proved = row.durability.verdict == DurabilityVerdict::Absorbed;
        let suspicion = row.durability.suspicion.as_ref();
        let suspicion = suspicion.filter(|_| !told && !proved);
        notes.extend(suspicion.map(|s| Cause::SuspectedFlush(s.clone()).words("")));
        notes.extend(durability_words(row).map(str::to_owned));
        notes.extend(row.threads.as_ref().map(crate::analysis::threads::words));
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
    Some(format!(
        "{percentile} % of them within {}",
        number::time(us)
    ))
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

/// `1 of 5 trials failed: tar: read error`.
fn failed(row: &ResultRow) -> String {
    let all = number::count(row.trials + row.failed_trials, "trial");
    let why = layermark_model::brief(row.error.as_deref().unwrap_or_default());
    format!("{} of {all} failed: {why}", row.failed_trials)
}

/// From this share on, a difference of the baseline's time in the rounds of a ratio from that of its row
/// is reported.
const OTHER_ROUNDS: f64 = 0.05;
/// The same where the two times have a ratio outside the interval.
const NOTICED: f64 = 0.01;

impl Notes<'_> {
    /// The baseline's time in the rounds of the ratio, if its own row differs. That row includes
    /// rounds with other layers, which may be on one CPU where these are not.
    fn other_rounds(&self, row: &ResultRow) -> Option<String> {
        let baseline = self.baseline.filter(|b| b.label == row.label)?;
        let here = in_other_rounds(row, baseline)?;
        let natively = code_span::in_baseline(&code_span::baseline(&baseline.layer));
        Some(format!(
            "{natively} {} in the same rounds",
            number::time(here)
        ))
    }
}

/// The baseline's microseconds an operation in the rounds of the layer's ratio, if its own row has
/// clearly another time.
pub fn in_other_rounds(row: &ResultRow, baseline: &ResultRow) -> Option<f64> {
    let (here, there) = (row.native_us?, baseline.op_us?);
    let apart = (here / there).ln().abs();
    // The two times that stand below each other contradict the ratio beside them.
    let shown = row.op_us.map(|us| us / there);
    let [low, high] = row
        .ratio
        .and_then(|r| r.interval)
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
        status(report),
        number::count(measured, "layer"),
        number::count(report.trials.len(), "trial"),
        report.seed
    )
}

/// How many checks passed, and which did not.
pub fn trust(report: &Report) -> String {
    let having = |state: TrustState| report.trust.iter().filter(move |t| t.state == state);
    let passed = number::count(having(TrustState::Ok).count(), "check");
    let warnings: Vec<&str> = having(TrustState::Warn).map(|t| t.title.as_str()).collect();
    if warnings.is_empty() {
        format!("{passed} passed, no warning")
    } else {
        format!("{passed} passed; warnings: {}", number::list(&warnings))
    }
}

/// State of the run in words.
pub fn status(report: &Report) -> &'static str {
    use layermark_model::RunStatus::{Done, Failed, Interrupted, Running, Stopped};
    match report.status {
        Running => "going on",
        Done => "done",
        Stopped => "stopped by the user",
        Failed => "ended by an error",
        Interrupted => "interrupted: its process is gone",
    }
}
