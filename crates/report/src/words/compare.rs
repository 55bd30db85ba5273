//! What a comparison of two runs says.

use crate::{
    number::{self, count, list, times, verb},
    statements::{
        compare::{BaselineChange, ChangeFinding, ChangeHeadline, Drifted, NotAReport},
        remarks,
    },
    types::{ResultRow, SCHEMA},
    words::{Names, Text, Words, text},
};

/// `1.25x at small read`.
fn at(row: &ResultRow) -> Text {
    let times = row.ratio.as_ref().map(times);
    let times = times.unwrap_or_else(|| "by how much changed during a run".into());
    text!("{times} at {}", row.label)
}

impl Words for ChangeHeadline<'_> {
    fn words(&self, _: &Names) -> Text {
        let of = |n: usize| count(n, "result");
        match self {
            Self::Slower(layers, most) => than_before(layers, "slower", most),
            Self::NewStalls(row) => new_stalls(row),
            Self::Faster(layers, most) => {
                let faster = than_before(layers, "faster", most);
                text!("{faster}; nothing is slower")
            }
            Self::ProbablySlower(row) => text!(
                "nothing is certainly slower; {} probably is, {}",
                Text::code(&row.layer),
                at(row)
            ),
            Self::Unchanged(n) => text!("nothing changed: {}, all the same", of(*n)),
            Self::Unknown(n) => text!("nothing can be told: none of {} is certain", of(*n)),
            Self::NothingKnown { same, of: all } => text!(
                "nothing is known to be slower or faster: {same} of {} {} the same",
                of(*all),
                verb(*same, "is", "are")
            ),
        }
    }
}

fn than_before(layers: &[&str], word: &str, most: &ResultRow) -> Text {
    let most = at(most);
    match layers {
        [layer] => text!(
            "{} is {word} than in the old run, {most}",
            Text::code(layer)
        ),
        _ => text!(
            "{} are {word} than in the old run, {most} most",
            count(layers.len(), "layer")
        ),
    }
}

fn new_stalls(row: &ResultRow) -> Text {
    text!(
        "{} has stalls that it did not have in the old run, at {}",
        Text::code(&row.layer),
        row.label
    )
}

impl Words for ChangeFinding<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::NotAlike(checks) => {
                let each = checks.iter().map(|check| check.words(names));
                text!("The runs are not alike: {}.", Text::joined(each, "; "))
            }
            Self::OnlyBaseline(name, _) => text!(
                "Only {} is in both runs: a change of the machine cannot be told from one of what it ran.",
                Text::code(name)
            ),
            Self::NoBaseline(_) => text!("{}.", no_baseline().capitalised()),
            Self::BaselineChange(drift, _) => text!("{}.", drift.words(names).capitalised()),
            Self::Changed { rows, of, most } => {
                let extra = most.extra_us.as_ref().map(number::extra_of);
                let extra = extra.map(|extra| text!(", {extra}"));
                text!(
                    "{} is {} than in the old run at {} of {of}, most {}{}.",
                    Text::code(&most.layer),
                    most.verdict.word(),
                    rows.len(),
                    at(most),
                    extra.unwrap_or_default()
                )
            }
            Self::NewStalls(_, row) => {
                let stalls = remarks::stalls(row).map(|stalls| stalls.words(names));
                text!("{}: {}.", new_stalls(row), stalls.unwrap_or_default())
            }
            Self::Open {
                undecided,
                untrusted,
                of,
            } => {
                let part = |rows: &[&ResultRow], what: &str| {
                    let n = rows.len();
                    let (of, is) = (count(*of, "result"), verb(n, "is", "are"));
                    (n > 0).then(|| text!("{n} of {of} {is} {what}"))
                };
                let parts = [
                    part(undecided, "too noisy to tell"),
                    part(untrusted, "not trusted"),
                ];
                let parts: Vec<Text> = parts.into_iter().flatten().collect();
                text!("{}.", list(&parts))
            }
        }
    }
}

impl Words for BaselineChange<'_> {
    fn words(&self, _: &Names) -> Text {
        let (of, name) = (count(self.of, "operation"), Text::code(self.baseline));
        match self.how {
            Drifted::Changed(n, most) => text!(
                "{name} itself changed at {n} of {of}, most {}; that is taken out of the other layers",
                at(most)
            ),
            Drifted::Same(same) => {
                text!("{name} is the same at {same} of {of}, and nowhere known to have changed")
            }
        }
    }
}

/// Why a change of the machine is not known.
pub fn no_baseline() -> Text {
    "no baseline is in both runs: a change of the machine is in every ratio".into()
}

/// The id of the check of the baseline's change, and its name for people.
pub const DRIFT: (&str, &str) = ("drift", "The machine itself");

impl Words for NotAReport {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::NotJson(why) => text!("this is not JSON: {why}"),
            Self::OtherSchema => {
                text!("this is not a report of layermark: its `schema` is not {SCHEMA}")
            }
            Self::Incomplete(why) => text!("this is not a complete report: {why}"),
            Self::Comparison => "this is a comparison of two runs, not a run".into(),
            Self::WithoutBlocks => {
                "it was written by an older layermark, without the ratios of its repeats".into()
            }
        }
    }
}
