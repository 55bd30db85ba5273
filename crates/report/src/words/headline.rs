//! The sentence for the whole run.

use layermark_model::brief;
use layermark_stats::MIN_BLOCKS;

use crate::{
    facts::power_cuts,
    number::{self, count, list, times, verb},
    statements::headline::{Choice, Headline, Most, Named, Near, Part, Ratio, Slows, Sure, Takes},
    types::{ResultRow, Verdict},
    words::{Names, Text, Words, lists::layers, text},
};

/// Longest headline, words. [`BUSY`] is not counted.
const LONGEST: usize = 24;
/// Precedes a headline about figures that other programs disturbed, since it is quoted alone.
pub const BUSY: &str = "Measured on a busy machine: ";

/// A sentence with a capital letter, or with what limits it.
pub fn qualified(sentence: Text, busy: bool) -> Text {
    if busy {
        text!("{BUSY}{sentence}")
    } else {
        sentence.capitalised()
    }
}

/// A part of the headline: without its end it is shorter, and still a sentence.
struct Said {
    text: Text,
    end: Text,
}

impl From<Text> for Said {
    fn from(text: Text) -> Self {
        let end = Text::default();
        Self { text, end }
    }
}

impl Said {
    fn new(text: Text, end: Text) -> Self {
        Self { text, end }
    }

    fn whole(&self) -> Text {
        text!("{}{}", self.text, self.end)
    }
}

impl Words for Headline<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::LostData(cuts) => {
                let lost = power_cuts::sentence(cuts);
                lost.map(|lost| lost.words(names)).unwrap_or_default()
            }
            Self::Study {
                busy,
                warnings,
                answer,
            } => {
                let warnings = warnings.iter().flat_map(|part| said(part, names));
                let warnings = warnings.map(|said| said.whole());
                let all = warnings.chain([Text::from(*answer)]);
                qualified(Text::joined(all, "; "), *busy)
            }
            Self::Parts { busy, parts } => {
                let parts: Vec<Said> = parts.iter().flat_map(|part| said(part, names)).collect();
                qualified(fitted(&parts), *busy)
            }
        }
    }
}

/// The most important parts that fit, most important first.
fn fitted(parts: &[Said]) -> Text {
    let mut room = LONGEST;
    let mut kept: Vec<Text> = Vec::new();
    for part in parts {
        let mut text = part.whole();
        if text.length() > room {
            // Without the label, which may be long.
            text = part.text.clone();
        }
        if text.length() <= room {
            room -= text.length();
            kept.push(text);
        }
    }
    if kept.is_empty() {
        // A long name may leave no room for a whole part.
        let first = parts.first().map(Said::whole).unwrap_or_default();
        return first.cut_to(LONGEST);
    }
    Text::joined(kept, "; ")
}

/// The texts of a part: one, or one for each choice.
fn said(part: &Part, names: &Names) -> Vec<Said> {
    if let Part::Choices(choices, kinds) = part {
        let each = choices.iter().map(|choice| choice.words(names));
        let each: Vec<Text> = each.filter(|text| text.length() <= LONGEST).collect();
        if !each.is_empty() {
            return each.into_iter().map(Said::from).collect();
        }
        let kinds = kinds.iter().map(|(word, n)| format!("{n} {word}"));
        let kinds = list(&kinds.collect::<Vec<_>>());
        return vec![text!("compared with the first one: {kinds}").into()];
    }
    vec![one(part, names)]
}

fn one(part: &Part, names: &Names) -> Said {
    let baseline = names.baseline();
    match part {
        Part::Choices(..) => Text::default(),
        Part::ControlFailed => text!("{baseline} differed from itself: trust no figure"),
        Part::BaselineSkips => text!("{baseline} skips fsync: trust no ratio of a flush"),
        Part::NoLayer => "no layer could be set up, so nothing was measured".into(),
        Part::NotMeasured => "nothing was measured yet".into(),
        Part::OnlyBaseline => {
            text!("only {baseline} was measured, so there is nothing to compare")
        }
        Part::AllFailed(all, error) => {
            let text = text!("every trial of {} failed", layers(all));
            return Said::new(text, text!(" ({})", brief(error)));
        }
        Part::NotAsked => "nothing that a verdict was asked on was measured".into(),
        Part::TooLittle(blocks) => {
            let blocks = count(*blocks, "block");
            text!("too little was measured for a verdict: {blocks} of at least {MIN_BLOCKS}")
        }
        Part::Slows(slows) => return slows.said(),
        Part::Takes(takes) => return takes.said(&baseline),
        Part::TakesMost(name, ratio) => {
            let text = text!("{} takes {}", named(name), ratio.times());
            return Said::new(text, ratio.at());
        }
        Part::Larger(name, sure, row) => {
            let may = match sure {
                Sure::Probably | Sure::Yes => "probably takes",
                Sure::May => "may take",
            };
            let times = row.ratio.as_ref().map(times).unwrap_or_default();
            // Only one fits: failures are the reason for the uncertainty.
            let why = failed_of(row).unwrap_or_else(|| row.label.as_str().into());
            let text = text!("{} {may} {times}", named(name));
            return Said::new(text, text!(" ({why})"));
        }
        Part::Uncertain(name, sure, ratio) => {
            let verb = match sure {
                Sure::May => "may take",
                Sure::Probably | Sure::Yes => "is probably slowest, taking",
            };
            let (name, times) = (named(name), ratio.times());
            let text = text!("no cost is certain; {name} {verb} {times} {baseline}'s time");
            return Said::new(text, ratio.at());
        }
        Part::Locks(open) => open.part(names),
        Part::Late(late) => late.part(),
        Part::Failed(layer, fails, all) => {
            let of = count(*all, "operation");
            text!("{} failed at {fails} of {of}", Text::code(layer))
        }
        Part::Near(near, delta) => within(near, *delta, &baseline),
        _ => of_layers(part, &baseline),
    }
    .into()
}

/// Parts that say the same of one or of some layers.
fn of_layers(part: &Part, baseline: &Text) -> Text {
    let some = |all: &[&str], one: &'static str, many: &'static str, what: &str| {
        text!("{} {} {what}", layers(all), verb(all.len(), one, many))
    };
    match part {
        Part::Skip(all) => some(all, "skips", "skip", "fsync"),
        Part::Free(all) => some(all, "costs", "cost", "nothing measurable"),
        Part::Memory(all) if all.len() == 1 => text!("{} is memory, not a disk", layers(all)),
        Part::Memory(all) => text!("{} are memory, not disks", layers(all)),
        Part::SlowerUnsteady(all) => some(
            all,
            "is",
            "are",
            "slower, by how much changed during the run",
        ),
        Part::Faster(all, explained) => {
            let below = if *explained {
                ", for the reasons below"
            } else {
                ""
            };
            let what = format!("faster than {baseline}{below}");
            some(all, "is", "are", &what)
        }
        Part::ProbablyFaster(all) => {
            let what = format!("probably faster than {baseline}");
            some(all, "is", "are", &what)
        }
        Part::Wait(all) => some(all, "waits", "wait", "too much for a CPU to tell"),
        Part::Open(all) => some(all, "is", "are", "too noisy to tell"),
        Part::Untrusted(all) => some(all, "is", "are", "not trusted"),
        _ => Text::default(),
    }
}

impl Words for Choice<'_> {
    fn words(&self, _: &Names) -> Text {
        let [here, there] = [self.here, self.there].map(Text::code);
        let probably = if self.probably { "probably " } else { "" };
        match (self.verdict, &self.ratio) {
            (Verdict::Slower | Verdict::Faster, Some(ratio)) => {
                match (times(ratio), number::written(ratio).1) {
                    (ratio, "") => text!("{here} {probably}takes {ratio} as long as {there}"),
                    (ratio, _) => text!("{here} is {probably}{ratio} than {there}"),
                }
            }
            _ => text!("{here} takes as long as {there}"),
        }
    }
}

impl Slows<'_> {
    /// `` `fuse` slows 11 of 12 operations, up to 37x (untar)``.
    fn said(&self) -> Said {
        let of = count(self.asked, "operation");
        let slows = text!("{} slows {} of {of}", named(&self.name), self.slowed);
        match &self.most {
            Most::Unknown => slows.into(),
            Most::UpTo(ratio) => text!("{slows}, up to {}", times(ratio)).into(),
            Most::At(ratio, at_most) => {
                let joint = if *at_most { "up to" } else { "taking" };
                Said::new(text!("{slows}, {joint} {}", ratio.times()), ratio.at())
            }
        }
    }
}

impl Takes<'_> {
    /// `` `fuse` takes up to 37x native's time (untar; 1 of 5 trials failed)``.
    fn said(&self, baseline: &Text) -> Said {
        let verb = if self.slowest {
            "is slowest, taking"
        } else {
            "takes"
        };
        let up_to = if self.at_most { "up to " } else { "" };
        let (name, times) = (named(&self.name), self.ratio.times());
        let text = text!("{name} {verb} {up_to}{times} {baseline}'s time");
        Said::new(text, self.ratio.at())
    }
}

impl Ratio<'_> {
    fn times(&self) -> String {
        self.row.ratio.as_ref().map(times).unwrap_or_default()
    }

    /// ` (untar; 12x at the median; 1 of 5 trials failed)`.
    fn at(&self) -> Text {
        let median = self.median.map(number::times_about);
        let median = median.map(|times| text!("{times} at the median"));
        let notes = [
            Some(self.row.label.as_str().into()),
            median,
            failed_of(self.row),
        ];
        text!(" ({})", Text::joined(notes.into_iter().flatten(), "; "))
    }
}

fn named(name: &Named) -> Text {
    let layer = Text::code(name.layer);
    if name.emulated {
        text!("{layer} on an emulated CPU")
    } else {
        layer
    }
}

fn within(near: &[Near], delta: f64, baseline: &Text) -> Text {
    let names: Vec<&str> = near.iter().map(|n| n.layer).collect();
    let Near { same, all, .. } = near[0];
    let points = if near.iter().all(|n| (n.same, n.all) == (same, all)) {
        format!("{same} of {}", count(all, "point"))
    } else if near.iter().all(|n| 2 * n.same > n.all) {
        "most points".into()
    } else {
        "some points".into()
    };
    text!(
        "{} {} within {} of {baseline} at {points}",
        layers(&names),
        verb(names.len(), "is", "are"),
        number::percent(delta)
    )
}

/// `1 of 5 trials failed`.
fn failed_of(row: &ResultRow) -> Option<Text> {
    let n = row.failed_trials;
    (n > 0).then(|| text!("{n} of {} failed", count(n + row.trials, "trial")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_keeps_what_has_room_and_drops_a_long_label() {
        let label =
            " (a label that has far more words than anybody wants to read in one line, or in two)";
        let long = "`a` is slowest, taking up to 12x native's time";
        let told = fitted(&[
            Said::new(long.into(), label.into()),
            Text::from("`b` skips fsync").into(),
            Text::from("`c` costs nothing measurable").into(),
        ]);
        assert_eq!(
            told.to_string(),
            "`a` is slowest, taking up to 12x native's time; `b` skips fsync; `c` costs nothing measurable"
        );
        assert!(told.length() <= LONGEST);
        let long = "x ".repeat(LONGEST - 2);
        let parts = ["one two three", &long, "four"].map(|part| Text::from(part).into());
        assert_eq!(fitted(&parts).to_string(), "one two three; four");
    }
}
