//! A sentence for each layer.

use layermark_model::brief;

use crate::{
    number::{self, count},
    statements::{
        remarks,
        verdicts::{Clause, LayerVerdict, RowGroup},
    },
    types::{Cause, DurabilityVerdict, Estimate, ResultRow},
    words::{
        Names, Text, Words,
        lists::{first_of, labels, name_all, quoted},
        text,
    },
};

/// From this ratio on, a factor is easier to read than per cent.
const AS_FACTOR: f64 = 3.0;

impl Words for LayerVerdict<'_> {
    fn words(&self, names: &Names) -> Text {
        let clauses = self.clauses.iter().map(|clause| clause.words(names));
        let clauses = Text::joined(clauses, "; ");
        text!("{} {clauses}.", Text::code(self.layer))
    }
}

impl Words for Clause<'_> {
    fn words(&self, names: &Names) -> Text {
        let baseline = names.baseline();
        match self {
            Self::Same(group) => {
                let span = number::ratio_span(group.hull().unwrap_or_default());
                text!("is the same as {baseline} for {} ({span})", group.name())
            }
            Self::CostsMore(row) => costs_more(row, names),
            Self::SlowerToo(rows) => text!("is slower at {}", labels(rows)),
            Self::Adds(group) => group.adds(names),
            Self::Faster(group) => group.faster(names),
            Self::Locks(open) => open.words(names),
            Self::Late(late) => late.words(names),
            Self::Stalls(row) => {
                let verb = match row.ratio {
                    Some(ratio) if ratio.estimate < 1.0 => "is",
                    _ => "takes",
                };
                let times = remarks::stalls(row)
                    .map(|r| r.words(names))
                    .unwrap_or_default();
                text!("{verb} {times} at {}", quoted(&row.label))
            }
            Self::Changed(verdict, rows) => {
                let (word, at) = (verdict.word(), labels(rows));
                text!("is {word} at {at}, by how much changed during the run")
            }
            Self::SkipsFlush(most, rows) => {
                let proof = most.durability.because.as_deref().unwrap_or_default();
                text!("skips fsync at {} ({proof})", labels(rows))
            }
            Self::FewerFlushes(most, rows) => {
                let proof = most.durability.because.as_deref().unwrap_or_default();
                let words = most.durability.words();
                text!("has {words} at {} ({proof})", labels(rows))
            }
            Self::Withheld(rows) => withheld(rows),
            Self::ProbablySlower(group) => group.probably_slower(names),
            Self::ProbablyFaster(group) => group.probably_faster(names),
            Self::Noisy(n, all) => text!("is too noisy to tell at {n} of {all} operations"),
            Self::TooNoisy(rows) => {
                let each = first_of(rows, |r| {
                    text!("{} ({})", quoted(&r.label), between(r, &baseline))
                });
                text!("is too noisy to tell at {each}")
            }
            Self::TooFew(rows, more) => {
                let (at, more) = (labels(rows), count(*more, "more repeat"));
                text!("has too few repeats for a verdict on {at} ({more} missing)")
            }
            Self::Drifts(rows) => {
                text!(
                    "has no steady state at {}, so no single number",
                    labels(rows)
                )
            }
            Self::Untrusted(rows) => {
                let why = rows[0].untrusted.as_deref().unwrap_or_default();
                text!("is not to be trusted at {} ({why})", labels(rows))
            }
            Self::Failed(rows) => {
                let trials: usize = rows.iter().map(|r| r.trials + r.failed_trials).sum();
                let failed: usize = rows.iter().map(|r| r.failed_trials).sum();
                let (of, at) = (count(trials, "measurement"), labels(rows));
                let why = brief(rows[0].error.as_deref().unwrap_or_default());
                text!("failed in {failed} of {of} at {at}: {why}")
            }
        }
    }
}

/// End of a clause with the reason for being slower; empty if no cause is known.
fn because(cause: Option<&Cause>, names: &Names) -> Text {
    let text = cause.map(|c| text!(": {}", c.words(names)));
    text.unwrap_or_default()
}

/// End of a clause with the reason for being faster.
fn explained(cause: Option<&Cause>, names: &Names) -> Text {
    let Some(cause) = cause else {
        return Text::default();
    };
    let joint = match cause {
        Cause::Unexplained | Cause::Small(_) | Cause::OtherFileSystem(_) => ", and",
        _ => " because",
    };
    text!("{joint} {}", cause.words(names))
}

fn costs_more(row: &ResultRow, names: &Names) -> Text {
    let extra = row.extra_us.as_ref();
    let extra = extra.map(number::time_with).unwrap_or_default();
    let ratio = row.ratio.as_ref().map(number::ratio_of);
    let times = ratio
        .map(|ratio| format!(", {ratio} times {}'s time", names.baseline()))
        .unwrap_or_default();
    let why = because(row.causes.first(), names);
    text!("costs {extra} more at {}{times}{why}", quoted(&row.label))
}

impl RowGroup<'_> {
    fn name(&self) -> Text {
        name_all(&self.all, &self.rows)
    }

    fn adds(&self, names: &Names) -> Text {
        let (to, baseline) = (self.name(), names.baseline());
        let why = because(self.cause.as_ref(), names);
        if let [row] = &self.rows[..]
            && let (Some(extra), Some(ratio)) = (row.extra_us, row.ratio)
        {
            let (time, ratio) = (number::time_with(&extra), number::ratio_with(&ratio));
            return text!("adds {time} an operation to {to}, {ratio} {baseline}'s time{why}");
        }
        let span = |pick: fn(&ResultRow) -> Option<Estimate>| {
            let values = self.rows.iter().filter_map(|r| pick(r));
            values
                .map(|e| [e.estimate; 2])
                .reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
                .unwrap_or([0.0, 0.0])
        };
        let extra = number::time_span(span(|r| r.extra_us));
        let ratios = number::ratio_span(span(|r| r.ratio));
        text!("adds {extra} an operation to {to} ({ratios}x {baseline}'s time){why}")
    }

    fn faster(&self, names: &Names) -> Text {
        let ratios = || self.rows.iter().filter_map(|r| r.ratio);
        let by = |a: &Estimate, b: &Estimate| a.estimate.total_cmp(&b.estimate);
        let ends = [ratios().max_by(by), ratios().min_by(by)];
        let [least, most] = ends.map(|e| e.map(|e| number::gain(&e)).unwrap_or_default());
        let gain = if least == most {
            most
        } else {
            format!("{least} to {most}")
        };
        let absorbed = |r: &&ResultRow| r.durability.verdict == DurabilityVerdict::Absorbed;
        let warning = if self.rows.iter().any(absorbed) {
            ": keep no data there that has to survive a power cut"
        } else {
            ""
        };
        let (at, baseline) = (self.name(), names.baseline());
        let why = explained(self.cause.as_ref(), names);
        text!("is {gain} faster than {baseline} at {at}{why}{warning}")
    }

    fn probably_slower(&self, names: &Names) -> Text {
        let span = number::ratio_span(self.hull().unwrap_or_default());
        let (at, baseline) = (self.name(), names.baseline());
        let why = because(self.cause.as_ref(), names);
        text!("probably takes {span} times {baseline}'s time at {at}{why}")
    }

    fn probably_faster(&self, names: &Names) -> Text {
        let [low, high] = self.hull().unwrap_or_default();
        let span = number::ratio_span([1.0 / high, 1.0 / low]);
        let (at, baseline) = (self.name(), names.baseline());
        let why = explained(self.cause.as_ref(), names);
        text!("is probably {span}x faster than {baseline} at {at}{why}")
    }
}

fn withheld(rows: &[&ResultRow]) -> Text {
    let why = rows[0].withheld.as_deref().unwrap_or_default();
    let at = labels(rows);
    if rows.len() > 1 {
        text!(
            "has no verdict at {at} (at {}, {why})",
            quoted(&rows[0].label)
        )
    } else {
        text!("has no verdict at {at} ({why})")
    }
}

/// The interval in words: `between 4 % faster and 9 % slower`.
fn between(row: &ResultRow, baseline: &Text) -> Text {
    let Some([low, high]) = row.ratio.and_then(|r| r.interval) else {
        return Text::default();
    };
    if high >= AS_FACTOR || low <= 1.0 / AS_FACTOR {
        let span = number::ratio_span([low, high]);
        return text!("{span} times {baseline}'s time");
    }
    let side = |r: f64| {
        let (share, word) = if r < 1.0 {
            (1.0 - r, "faster")
        } else {
            (r - 1.0, "slower")
        };
        format!("{} {word}", number::percent(share))
    };
    text!("between {} and {}", side(low), side(high))
}

/// `no difference beyond 7 %`, from the margin.
pub fn within(margin: f64) -> Text {
    if margin >= AS_FACTOR - 1.0 {
        return text!("a factor of up to {}", number::ratio(1.0 + margin));
    }
    text!("no difference beyond {}", number::percent(margin))
}
