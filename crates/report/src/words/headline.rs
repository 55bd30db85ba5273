//! The sentence for the whole run.

use layermark_model::brief;
use layermark_stats::MIN_BLOCKS;

use crate::{
    facts::power_cuts,
    number::{self, count, list, times, verb},
    statements::{
        headline::{Choice, Costs, Headline, HeadlinePart, Named, Near, Ratio, Sure},
        programs::answers,
        sequences::{self, SequenceAnswer},
    },
    types::{ResultRow, Verdict},
    words::{Names, Text, Words, lists::layers, text},
};

/// Longest headline, words.
const LONGEST: usize = 24;
/// Most programs in a headline.
const PROGRAMS: usize = 2;

/// A part of the headline, and what remains of it where it has no room.
struct Said {
    whole: Text,
    short: Option<Text>,
}

impl From<Text> for Said {
    fn from(whole: Text) -> Self {
        Self { whole, short: None }
    }
}

impl Said {
    fn new(whole: Text, short: Text) -> Self {
        let short = Some(short);
        Self { whole, short }
    }
}

impl Words for Headline<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::LostData(cuts) => {
                let lost = power_cuts::sentence(cuts);
                lost.map(|lost| lost.words(names)).unwrap_or_default()
            }
            Self::Programs(cuts) => {
                let all = answers(cuts);
                let more = all.len().saturating_sub(PROGRAMS);
                let told = all.iter().take(PROGRAMS).map(|answer| answer.words(names));
                let more = (more > 0).then(|| text!("{} more below", count(more, "program")));
                Text::joined(told.chain(more), ". ")
            }
            Self::Sequences(cuts) => {
                if let Some(fault) = sequences::controls_failed(cuts) {
                    return fault.unbelievable(names);
                }
                let all = sequences::answers(cuts);
                let lied: Vec<&SequenceAnswer<'_>> = all.iter().filter(|a| a.lied()).collect();
                let more = lied.len().saturating_sub(1);
                let told = lied.first().map(|answer| answer.words(names));
                let more = (more > 0).then(|| text!("{} more below", count(more, "layer")));
                Text::joined(told.into_iter().chain(more), ". ")
            }
            Self::Study { warnings, answer } => {
                let warnings = warnings.iter().flat_map(|part| said(part, names));
                let warnings = warnings.map(|said| said.whole);
                let all = warnings.chain([Text::from(*answer)]);
                Text::joined(all, "; ").capitalised()
            }
            Self::Parts(parts) => {
                let parts: Vec<Said> = parts.iter().flat_map(|part| said(part, names)).collect();
                fitted(&parts).capitalised()
            }
        }
    }
}

/// The most important parts that fit, most important first.
fn fitted(parts: &[Said]) -> Text {
    let mut room = LONGEST;
    let mut kept: Vec<Text> = Vec::new();
    for part in parts {
        let mut ways = [Some(&part.whole), part.short.as_ref()]
            .into_iter()
            .flatten();
        if let Some(text) = ways.find(|text| text.length() <= room) {
            room -= text.length();
            kept.push(text.clone());
        }
    }
    if kept.is_empty() {
        // A long name may leave no room for a whole part.
        let first = parts.first().map(|part| part.whole.clone());
        return first.unwrap_or_default().cut_to(LONGEST);
    }
    Text::joined(kept, "; ")
}

/// The texts of a part: one, or one for each choice.
fn said(part: &HeadlinePart, names: &Names) -> Vec<Said> {
    if let HeadlinePart::Choices(choices, kinds) = part {
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

fn one(part: &HeadlinePart, names: &Names) -> Said {
    let baseline = names.baseline();
    match part {
        HeadlinePart::Choices(..) => Text::default(),
        HeadlinePart::ControlFailed => text!("{baseline} differed from itself: trust no figure"),
        HeadlinePart::BaselineSkips => text!("{baseline} skips fsync: trust no ratio of a flush"),
        HeadlinePart::NoLayer => "no layer could be set up, so nothing was measured".into(),
        HeadlinePart::NotMeasured => "nothing was measured yet".into(),
        HeadlinePart::OnlyBaseline => {
            text!("only {baseline} was measured, so there is nothing to compare")
        }
        HeadlinePart::AllFailed(all, error) => {
            let text = text!("every measurement of {} failed", layers(all));
            return Said::new(text!("{text} ({})", brief(error)), text);
        }
        HeadlinePart::NotAsked => "nothing that a verdict was asked on was measured".into(),
        HeadlinePart::TooLittle(blocks) => {
            let blocks = count(*blocks, "repeat");
            text!("too little was measured for a verdict: {blocks} of at least {MIN_BLOCKS}")
        }
        HeadlinePart::Costs(costs) => return costs.said(&baseline),
        HeadlinePart::Uncertain(costs) => {
            let costs = costs.takes(&baseline);
            text!("no cost is certain; {costs}")
        }
        HeadlinePart::Locks(open) => open.part(names),
        HeadlinePart::Late(late) => late.part(),
        HeadlinePart::Failed(layer, fails, all) => {
            let of = count(*all, "operation");
            text!("{} failed at {fails} of {of}", Text::code(layer))
        }
        HeadlinePart::Near(near, delta) => within(near, *delta, &baseline),
        HeadlinePart::Undecided(open, asked) => {
            text!("{open} of {} not decided", count(*asked, "result"))
        }
        _ => of_layers(part, &baseline),
    }
    .into()
}

/// Parts that say the same of one or of some layers.
fn of_layers(part: &HeadlinePart, baseline: &Text) -> Text {
    let some = |all: &[&str], one: &'static str, many: &'static str, what: &str| {
        text!("{} {} {what}", layers(all), verb(all.len(), one, many))
    };
    match part {
        HeadlinePart::Skip(all) => some(all, "skips", "skip", "fsync"),
        HeadlinePart::Free(all) => some(all, "costs", "cost", "nothing measurable"),
        HeadlinePart::Memory(all) if all.len() == 1 => {
            text!("{} is memory, not a disk", layers(all))
        }
        HeadlinePart::Memory(all) => text!("{} are memory, not disks", layers(all)),
        HeadlinePart::SlowerUnsteady(all) => some(
            all,
            "is",
            "are",
            "slower, by how much changed during the run",
        ),
        HeadlinePart::Faster(all, explained) => {
            let below = if *explained {
                ", for the reasons below"
            } else {
                ""
            };
            let what = format!("faster than {baseline}{below}");
            some(all, "is", "are", &what)
        }
        HeadlinePart::ProbablyFaster(all) => {
            let what = format!("probably faster than {baseline}");
            some(all, "is", "are", &what)
        }
        HeadlinePart::Wait(all) => some(all, "waits", "wait", "too much for a CPU to tell"),
        HeadlinePart::Open(all) => some(all, "is", "are", "too noisy to tell"),
        HeadlinePart::Untrusted(all) => some(all, "is", "are", "not trusted"),
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

impl Costs<'_> {
    /// `` `fuse` takes 4.0x native's time at git status (+4.3 ms), slowing 10 of 14 operations``.
    fn said(&self, baseline: &Text) -> Said {
        let takes = self.takes(baseline);
        let of = count(self.asked, "operation");
        match self.slowed {
            0 => takes.into(),
            1 => Said::new(takes, text!("{} slows 1 of {of}", named(&self.name))),
            n => Said::new(
                text!("{takes}, and slows {n} of {of}"),
                text!("{} slows {n} of {of}", named(&self.name)),
            ),
        }
    }

    fn takes(&self, baseline: &Text) -> Text {
        let verb = match self.sure {
            Sure::Yes => "takes",
            Sure::Probably => "probably takes",
            Sure::May => "may take",
        };
        let ratio = &self.ratio;
        let (times, label) = (ratio.times(), &ratio.row.label);
        let notes = ratio.notes();
        text!(
            "{} {verb} {times} {baseline}'s time at {label}{notes}",
            named(&self.name)
        )
    }
}

impl Ratio<'_> {
    fn times(&self) -> String {
        self.row.ratio.as_ref().map(times).unwrap_or_default()
    }

    /// ` (+4.3 ms; 12x at the median; 1 of 5 measurements failed)`.
    fn notes(&self) -> Text {
        let extra = self.row.extra_us.filter(|e| e.estimate > 0.0);
        let extra = extra.map(|e| number::extra_of(&e).into());
        let median = self.median.map(number::times_about);
        let median = median.map(|times| text!("{times} at the median"));
        let notes = [extra, median, failed_of(self.row)];
        let notes = Text::joined(notes.into_iter().flatten(), "; ");
        match notes.length() {
            0 => notes,
            _ => text!(" ({notes})"),
        }
    }
}

/// A layer's name, with what its numbers do not hold for.
pub fn named(name: &Named) -> Text {
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
        format!("{same} of {}", count(all, "operation"))
    } else if near.iter().all(|n| 2 * n.same > n.all) {
        "most operations".into()
    } else {
        "some operations".into()
    };
    text!(
        "{} {} within {} of {baseline} at {points}",
        layers(&names),
        verb(names.len(), "is", "are"),
        number::percent(delta)
    )
}

/// `1 of 5 measurements failed`.
fn failed_of(row: &ResultRow) -> Option<Text> {
    let n = row.failed_trials;
    (n > 0).then(|| text!("{n} of {} failed", count(n + row.trials, "measurement")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_keeps_what_has_room_and_drops_a_long_label() {
        let long = "x ".repeat(LONGEST + 1);
        let told = fitted(&[
            Said::new(long.as_str().into(), "`a` slows 3 of 4 operations".into()),
            Text::from("`b` skips fsync").into(),
            Text::from("`c` costs nothing measurable").into(),
        ]);
        assert_eq!(
            told.to_string(),
            "`a` slows 3 of 4 operations; `b` skips fsync; `c` costs nothing measurable"
        );
        assert!(told.length() <= LONGEST);
        let long = "x ".repeat(LONGEST - 2);
        let parts = ["one two three", &long, "four"].map(|part| Text::from(part).into());
        assert_eq!(fitted(&parts).to_string(), "one two three; four");
    }
}
