//! Which of several runs is the odd one.

use crate::{
    number::{self, amount, count, list},
    statements::odd::{Coverage, NotAmong, OddAnswer, OddAt, RunSays, Unlike},
    types::{Estimate, RunAmong},
    words::{
        Names, Text, Words, alike,
        lists::{coded, said_of},
        machine, text,
    },
};

/// What is said of a run, with its name and its machine's label.
pub fn line(run: &RunAmong) -> Text {
    let label = run.machine.label.as_deref();
    let label = label.map(|label| text!(" ({label})")).unwrap_or_default();
    said_of(&text!("{}{label}", Text::code(&run.name)), &run.text)
}

/// An answer as a heading.
pub fn title(answer: &str) -> Text {
    text!("{answer}.")
}

/// A ratio to the other runs, and what it makes of the run.
pub fn ratio_and_word(ratio: &Estimate, word: &str) -> Text {
    text!("{} {word}", number::times(ratio))
}

impl Words for OddAt<'_> {
    /// ``at stat in `fuse` (+30 %)``.
    fn words(&self, names: &Names) -> Text {
        let place = if self.layer == names.baseline {
            names.natively()
        } else {
            text!("in {}", Text::code(self.layer))
        };
        text!("at {} {place} ({})", self.point, amount(self.ratio))
    }
}

impl Words for OddAnswer<'_> {
    fn words(&self, names: &Names) -> Text {
        let results = |of: &Coverage| count(of.compared, "result");
        match self {
            Self::Odd(odd) => match odd.as_slice() {
                [(run, at)] => text!(
                    "{} is the odd one, most {}",
                    Text::code(run),
                    at.words(names)
                ),
                odd => {
                    let each = odd.iter();
                    let each =
                        each.map(|(run, at)| text!("{} most {}", Text::code(run), at.words(names)));
                    let each: Vec<Text> = each.collect();
                    text!("{} runs are odd: {}", odd.len(), list(&each))
                }
            },
            Self::Split(split, coverage) => text!(
                "none is shown to be the odd one: at {split} of {} the runs differ, and no smaller group stands out from \
                 the rest{}",
                results(coverage),
                left_out(coverage)
            ),
            Self::Alike {
                runs,
                of,
                delta,
                coverage,
            } => {
                let which = if runs == of {
                    format!("all {of} runs")
                } else {
                    format!("{runs} of {of} runs")
                };
                text!(
                    "{which} are alike: each within {} of the mean of the others at {}{}",
                    number::percent(*delta),
                    results(coverage),
                    left_out(coverage)
                )
            }
            Self::Unknown(alike, coverage) => text!(
                "none is known to be odd: the runs are alike at {alike} of {}, and the rest does not decide{}",
                results(coverage),
                left_out(coverage)
            ),
            Self::Nowhere(of) => {
                text!(
                    "no answer: the runs are compared at none of {}",
                    count(*of, "result")
                )
            }
        }
    }
}

/// What is not compared: `; 2 of these without some runs; 3 more not compared`.
fn left_out(of: &Coverage) -> Text {
    let partly = (of.partly > 0).then(|| text!("; {} of these without some runs", of.partly));
    let none = (of.none > 0).then(|| text!("; {} more not compared", of.none));
    Text::joined(partly.into_iter().chain(none), "")
}

impl Words for RunSays<'_> {
    fn words(&self, names: &Names) -> Text {
        let (n, of) = (self.counts, self.counts.compared());
        if of == 0 {
            let why = self.because.map(|(why, at)| {
                let at = (at < n.not_compared).then(|| text!("; at {at} of them"));
                text!("{}: {}", at.unwrap_or_default(), why.words(names))
            });
            return text!(
                "compared at none of {}{}",
                count(n.not_compared, "result"),
                why.unwrap_or_default()
            );
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

impl Words for NotAmong<'_> {
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
            Self::OtherTimes => {
                "beside other programs, it or the others are without what threads of the kernel waited for a CPU".into()
            }
            Self::FewBlocks => "it has too few repeats".into(),
            Self::FewRuns => "fewer than three runs can be compared here".into(),
        }
    }
}

impl Words for Unlike<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Values(fact, groups) => machine::values(*fact, groups),
            Self::NoBaseline => {
                "not all runs have the same baseline, so a change of the machine is in every ratio"
                    .into()
            }
            Self::Untrusted(run, id, store) => alike::not_trustworthy(&Text::code(run), id, store),
            Self::Unfinished(run, status) => alike::not_complete(&Text::code(run), *status),
            Self::Busy(run, busy) => alike::was_busy(&Text::code(run), busy),
            Self::SetUpOnce(runs) => alike::set_up_once(&coded(runs)),
            Self::SkipsFlush(runs) => text!(
                "flushes do not wait for the disk in {}, and those of other runs do",
                coded(runs)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        types::{Estimate, Standings},
        words::said,
    };

    const WHOLE: Coverage = Coverage {
        compared: 6,
        partly: 0,
        none: 0,
    };
    const PARTLY: Coverage = Coverage {
        compared: 6,
        partly: 2,
        none: 3,
    };

    fn at<'a>(layer: &'a str, ratio: &'a Estimate) -> OddAt<'a> {
        OddAt {
            layer,
            point: "stat",
            ratio,
        }
    }

    #[test]
    fn answers_are_whole_sentences() {
        let (slower, twice) = (Estimate::new(1.3, None), Estimate::new(2.0, None));
        let all_alike = |runs, coverage| OddAnswer::Alike {
            runs,
            of: 4,
            delta: 0.05,
            coverage,
        };
        for (answer, sentence) in [
            (
                OddAnswer::Odd(vec![("b.lm", at("fuse", &slower))]),
                "`b.lm` is the odd one, most at stat in `fuse` (+30 %)",
            ),
            (
                OddAnswer::Odd(vec![
                    ("b.lm", at("fuse", &slower)),
                    ("c.lm", at("native", &twice)),
                ]),
                "2 runs are odd: `b.lm` most at stat in `fuse` (+30 %) and `c.lm` most at stat natively (2.0x)",
            ),
            (
                OddAnswer::Split(1, WHOLE),
                "none is shown to be the odd one: at 1 of 6 results the runs differ, and no smaller group stands out from \
                 the rest",
            ),
            (
                all_alike(4, WHOLE),
                "all 4 runs are alike: each within 5 % of the mean of the others at 6 results",
            ),
            (
                all_alike(3, PARTLY),
                "3 of 4 runs are alike: each within 5 % of the mean of the others at 6 results; 2 of these without some \
                 runs; 3 more not compared",
            ),
            (
                OddAnswer::Unknown(5, WHOLE),
                "none is known to be odd: the runs are alike at 5 of 6 results, and the rest does not decide",
            ),
            (
                OddAnswer::Nowhere(6),
                "no answer: the runs are compared at none of 6 results",
            ),
        ] {
            assert_eq!(said(&answer), sentence);
        }
    }

    #[test]
    fn a_run_that_is_not_compared_says_why() {
        let says = |at| RunSays {
            counts: Standings {
                not_compared: 6,
                ..Standings::default()
            },
            most: None,
            because: Some((NotAmong::Untrusted("it came from memory"), at)),
        };
        assert_eq!(
            said(&says(6)),
            "compared at none of 6 results: it came from memory"
        );
        assert_eq!(
            said(&says(4)),
            "compared at none of 6 results; at 4 of them: it came from memory"
        );
    }
}
