//! Which of several runs is the odd one.

use crate::{
    number::{self, amount, count, list},
    statements::odd::{Apart, OddAnswer, OddAt, RunSays, Unlike},
    words::{Names, Text, Words, text},
};

fn named(runs: &[&str]) -> Text {
    let names: Vec<Text> = runs.iter().map(|run| Text::code(run)).collect();
    list(&names).into()
}

impl Words for OddAt<'_> {
    /// ``at stat in `fuse` by +30 %``.
    fn words(&self, names: &Names) -> Text {
        let place = if self.layer == names.baseline {
            names.natively()
        } else {
            text!("in {}", Text::code(self.layer))
        };
        text!("at {} {place} by {}", self.point, amount(self.ratio))
    }
}

impl Words for OddAnswer<'_> {
    fn words(&self, names: &Names) -> Text {
        let results = |n: usize| count(n, "result");
        match self {
            Self::Odd(odd) => match odd.as_slice() {
                [one] => text!(
                    "{} is the odd one, most {}",
                    Text::code(one.run),
                    one.words(names)
                ),
                odd => {
                    let each = odd.iter();
                    let each =
                        each.map(|one| text!("{} most {}", Text::code(one.run), one.words(names)));
                    let each: Vec<Text> = each.collect();
                    text!("{} runs are odd: {}", odd.len(), list(&each))
                }
            },
            Self::Split(split, of) => text!(
                "none is shown to be the odd one: at {split} of {} the runs differ, and none of them from each of the others",
                results(*of)
            ),
            Self::Alike {
                runs,
                results: n,
                delta,
            } => text!(
                "all {runs} runs are alike: each within {} of the others at {}",
                number::percent(*delta),
                results(*n)
            ),
            Self::Unknown(alike, of) => text!(
                "none is known to be odd: all are alike at {alike} of {}, and the rest does not decide",
                results(*of)
            ),
        }
    }
}

impl Words for RunSays<'_> {
    fn words(&self, names: &Names) -> Text {
        let (n, of) = (self.counts, self.counts.compared());
        if of == 0 {
            return "not compared: it has no result that two others have".into();
        }
        let whole = (n.like == of).then(|| text!("like the others at all {of}"));
        let part = |n: usize, words: &str| (n > 0).then(|| text!("{words} {n} of {of}"));
        let odd = self.most.map(|most| {
            let more = (n.odd > 1).then(|| text!(" and at {} more of {of}", n.odd - 1));
            text!("odd {}{}", most.words(names), more.unwrap_or_default())
        });
        let parts = [
            odd,
            whole.clone(),
            part(n.like, "like the others at").filter(|_| whole.is_none()),
            part(n.split, "the runs differ at"),
            part(n.unknown, "cannot tell at"),
            (n.not_compared > 0).then(|| text!("not compared at {}", n.not_compared)),
        ];
        Text::joined(parts.into_iter().flatten(), "; ")
    }
}

impl Words for Apart<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::NotMeasured => "not measured".into(),
            Self::Untrusted(why) => text!("{why}"),
            Self::OtherWork => "other work of the same name".into(),
            Self::Unsteady => "its ratio changed during the run".into(),
            Self::SkipsFlush => {
                "its flushes do not wait for the disk, and those of other runs do".into()
            }
            Self::NoBaseline => "the baseline was not measured there".into(),
            Self::TooFew => "fewer than three runs have enough blocks".into(),
        }
    }
}

impl Words for Unlike<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Values(what, groups) => {
                let each = groups.iter().map(|(value, runs)| {
                    let value = if value.is_empty() { "unknown" } else { value };
                    text!("{value} in {}", named(runs))
                });
                text!("{what}: {}", Text::joined(each, "; "))
            }
            Self::NoBaseline => {
                "not all runs have the same baseline, so a change of the machine is in every ratio"
                    .into()
            }
            Self::Untrusted(run, id, store) => text!(
                "{} is not trustworthy: layermark report {}",
                Text::code(run),
                store.find(id)
            ),
            Self::Unfinished(run, status) => {
                text!("{} is not complete ({status})", Text::code(run))
            }
            Self::Busy(run, busy) => text!(
                "{} had other programs beside it: {}",
                Text::code(run),
                busy.words(names)
            ),
            Self::SetUpOnce(runs) => text!(
                "layers were set up once in {}: what differs between set-ups is not in the intervals; \
                 --sessions 3 tells it",
                named(runs)
            ),
            Self::SkipsFlush(runs) => text!(
                "flushes do not wait for the disk in {}, and those of other runs do",
                named(runs)
            ),
        }
    }
}
