//! Key findings.

use layermark_model::brief;

use crate::{
    number::{self, count, times, verb},
    statements::{
        findings::{Finding, Open, Skipped},
        remarks,
    },
    types::ResultRow,
    words::{
        Names, Text, Words, limits,
        lists::{LISTED, layers, quoted},
        text,
    },
};

impl Words for Finding<'_> {
    fn words(&self, names: &Names) -> Text {
        let baseline = names.baseline();
        match self {
            Self::BaselineSkips(rows) => {
                let (name, why) = (Text::code(&rows[0].layer), because(rows[0]));
                text!("{name} skips fsync ({why}), so no ratio to it of what flushes is trusted.")
            }
            Self::SkipsFlushes(all, _) => skip_flushes(all, names),
            Self::AnsweredEarly(row) => {
                let (name, why) = (Text::code(&row.layer), because(row));
                text!("{name} answers fsync before the device is flushed: {why}.")
            }
            Self::Contradicted(row) => {
                let (name, why) = (Text::code(&row.layer), because(row));
                text!("{name} at {}: {why}.", row.label)
            }
            Self::Sustained(row, least, _) => sustained(row, *least, names),
            Self::FewerBytes(row) => {
                let fewer = remarks::fewer_bytes(row)
                    .map(|r| r.words(names))
                    .unwrap_or_default();
                text!("{} at {}: {fewer}.", Text::code(&row.layer), row.label)
            }
            Self::Failures(worst, rows) => failures(worst, rows.len() - 1),
            Self::Stalls(row, _) => {
                let times = remarks::stalls(row)
                    .map(|r| r.words(names))
                    .unwrap_or_default();
                let (name, at) = (Text::code(&row.layer), quoted(&row.label));
                text!("{name} at {at}: {times}.")
            }
            Self::Locks(open) => text!("{}.", open.part(names)),
            Self::Late(late) => text!("{}.", late.part()),
            Self::Slower(worst, rows, all) => slower(worst, rows.len(), *all),
            Self::Near(near, _, delta) => {
                let is = verb(near.len(), "is", "are");
                let delta = number::percent(*delta);
                let near = layers(near);
                text!("{near} {is} within {delta} of {baseline} wherever that could be told.")
            }
            Self::Unexplained(all, rows) => {
                let (is, n) = (verb(all.len(), "is", "are"), count(rows.len(), "operation"));
                let all = layers(all);
                text!("{all} {is} faster than {baseline} at {n}, and nothing measured explains it.")
            }
            Self::Open(open) => open.words(names),
        }
    }
}

fn because(row: &ResultRow) -> &str {
    row.durability.because.as_deref().unwrap_or_default()
}

fn skip_flushes(all: &[Skipped], names: &Names) -> Text {
    if let [only] = all {
        let name = Text::code(only.layer);
        return text!("{name} skips fsync: {}.", only.words(names));
    }
    let each = all.iter().take(LISTED);
    let each = each.map(|s| text!("{}: {}", Text::code(s.layer), s.words(names)));
    let rest = all.len().saturating_sub(LISTED);
    let rest = (rest > 0).then(|| text!("and {rest} more"));
    let each = Text::joined(each.chain(rest), "; ");
    let all: Vec<&str> = all.iter().map(|s| s.layer).collect();
    text!("{} skip fsync ({each}).", layers(&all))
}

impl Words for Skipped<'_> {
    fn words(&self, names: &Names) -> Text {
        let n = self.at_device;
        let flushes = verb(n as usize, "flush", "flushes");
        let of = if self.asked > 0 {
            format!("for {}", count(self.asked as usize, "sync"))
        } else {
            format!("where {} had {}", names.baseline(), self.reference)
        };
        text!("{n} {flushes} at the device {of}")
    }
}

/// `L at P: 1.1x native's time in short turns, 4.6x over 500 ms at a stretch: why`.
fn sustained(row: &ResultRow, least: f64, names: &Names) -> Text {
    let stretches = row.sustained.as_ref();
    let limit = stretches.and_then(|s| s.limit.as_ref());
    let why = limit.map_or("why is not proved".into(), limits::of_layer);
    let baseline = names.baseline().to_string();
    let average = row.ratio.and_then(|r| r.average);
    text!(
        "{} at {}: {} in short turns, {} over {} at a stretch: {why}.",
        Text::code(&row.layer),
        quoted(&row.label),
        number::of_baseline(average.map_or(1.0, |a| a.estimate), &baseline),
        number::of_baseline(least, &baseline),
        number::time(stretches.map_or(0.0, |s| s.length_s) * 1e6),
    )
}

fn failures(worst: &ResultRow, others: usize) -> Text {
    let others = match others {
        0 => String::new(),
        n => format!(
            "; {} {} failures too",
            count(n, "other result"),
            verb(n, "has", "have")
        ),
    };
    text!(
        "{} of {} of {} in {} failed: {}{others}.",
        worst.failed_trials,
        count(worst.trials + worst.failed_trials, "measurement"),
        quoted(&worst.label),
        Text::code(&worst.layer),
        brief(worst.error.as_deref().unwrap_or_default()),
    )
}

fn slower(worst: &ResultRow, slower: usize, all: usize) -> Text {
    // With stalls, the amount is the average's and appears with it.
    let extra = worst.extra_us.filter(|_| !worst.has_stalls());
    let extra = extra.map(|e| format!(", {}", number::extra_of(&e)));
    let extra = extra.unwrap_or_default();
    let most = match &worst.ratio {
        Some(ratio) => format!("most at {}: {}{extra}", worst.label, times(ratio)),
        None => "by how much changed during the run".into(),
    };
    let name = Text::code(&worst.layer);
    text!("{name} is slower at {slower} of {all}, {most}.")
}

impl Words for Open<'_> {
    fn words(&self, _: &Names) -> Text {
        let of = count(self.asked, "result");
        let part = |rows: &[&ResultRow], one: &'static str, more: &'static str, what: &str| {
            let n = rows.len();
            (n > 0).then(|| text!("{n} of {of} {} {what}", verb(n, one, more)))
        };
        let parts = [
            part(&self.few, "has", "have", "too few repeats"),
            part(&self.noisy, "is", "are", "too noisy to tell"),
            part(&self.waiting, "waits", "wait", "too much for a CPU to tell"),
            part(&self.untrusted, "is", "are", "not trusted"),
        ];
        text!("{}.", Text::joined(parts.into_iter().flatten(), "; "))
    }
}
