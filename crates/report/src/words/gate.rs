//! Results of gates.

use crate::{
    number::{self, count, list, verb},
    statements::gate::{FailedGates, Held, Lacks, Repeated},
    types::{Estimate, GateState},
    words::{Names, Text, Words, text},
};

/// More layers are only counted.
const LISTED: usize = 3;

/// An outcome in a word.
pub fn state(of: GateState) -> &'static str {
    match of {
        GateState::Passed => "passed",
        GateState::Failed => "failed",
        GateState::Undecided => "cannot be told",
    }
}

/// How many gates have which outcome, as a heading.
pub fn counted(counts: &[(usize, GateState)]) -> Text {
    let each = counts.iter();
    let each: Vec<Text> = each.map(|(n, of)| text!("{n} {}", state(*of))).collect();
    text!("Gates: {}", list(&each))
}

impl Words for Held<'_> {
    /// `slower: 1.25x (1.21-1.29), at most 1.10x is allowed`.
    fn words(&self, names: &Names) -> Text {
        let lacks = self.lacks.map(|lacks| text!("; {}", lacks.words(names)));
        let lacks = lacks.unwrap_or_default();
        let Some(row) = self.row else {
            return text!("not measured{lacks}");
        };
        let word = Some(row.word()).filter(|word| !word.is_empty());
        let ratio = number::Written::in_row(row).map(|r| r.with_ends());
        let average = row.ratio.filter(|_| row.has_stalls());
        let average = average.and_then(|r| r.average).map(Estimate::from);
        let average = average.map(|e| text!("{} on average", number::ratio_with(&e)));
        let told = [word.map(Text::from), ratio.map(Text::from), average];
        let told = Text::joined(told.into_iter().flatten(), ": ");
        let allowed = self.limit.map(|limit| {
            let limit = number::ratio(limit);
            text!(", at most {limit}x is allowed")
        });
        text!("{told}{}{lacks}", allowed.unwrap_or_default())
    }
}

impl Words for Lacks {
    /// `3 more launches are needed`, or `about 40 more launches may tell`.
    fn words(&self, _: &Names) -> Text {
        let n = self.more;
        let more = match self.of {
            Repeated::Launch => format!("{n} more {}", verb(n, "launch", "launches")),
            Repeated::Block => count(n, "more repeat"),
        };
        if self.needed {
            text!("{more} {} needed", verb(n, "is", "are"))
        } else {
            text!("about {more} may tell")
        }
    }
}

impl Words for FailedGates<'_> {
    fn words(&self, _: &Names) -> Text {
        let layers = if self.layers.len() > LISTED {
            count(self.layers.len(), "layer")
        } else {
            let layers: Vec<Text> = self.layers.iter().map(|l| Text::code(l)).collect();
            list(&layers)
        };
        text!(
            "{} of {} {}: {layers}, first at \u{201c}{}\u{201d}: {}.",
            self.failed,
            count(self.of, "gated result"),
            verb(self.failed, "fails", "fail"),
            self.first.point,
            self.first.text
        )
    }
}
