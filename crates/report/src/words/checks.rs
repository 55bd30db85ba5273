//! Checks.

use layermark_model::brief;
use layermark_stats::MIN_BLOCKS_FOR_CHANGE;

use crate::{
    number::{self, count, list},
    statements::checks::{
        AgainstItself, CONTROL_DELTA, Cache, Check, Contamination, Drift, Emulated, Moved, Proof,
        Trials, VerifiedData,
    },
    words::{Names, Text, Words, lists::quoted, text},
};

impl Check<'_> {
    /// Its id in JSON, and its name.
    pub fn title(&self) -> (&'static str, &'static str) {
        match self {
            Self::NoControl(_) | Self::Control(_) => ("control", "A/A control"),
            Self::Drift(_) => ("drift", "Drift"),
            Self::Contamination(_) => ("contamination", "Other programs"),
            Self::Cache(_) => ("cache", "Cache state"),
            Self::Verified(_) => ("verified", "Data verified"),
            Self::Proof(_) => ("proof", "Proof of layer"),
            Self::Family(..) => ("family", "Verdicts"),
            Self::Direct(..) => ("direct", "O_DIRECT"),
            Self::Emulated(_) => ("emulated", "Emulated CPU"),
            Self::Trials(_) => ("failures", "Failures"),
            Self::OwnCost(_) => ("own", "Cost of measuring"),
        }
    }
}

impl Words for Check<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::NoControl(why) => {
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                text!("{} was not measured a second time{why}", names.baseline())
            }
            Self::Control(control) => control.text.as_str().into(),
            Self::Drift(drift) => drift.words(names),
            Self::Contamination(contamination) => contamination.words(names),
            Self::Cache(cache) => cache.words(names),
            Self::Verified(verified) => verified.words(names),
            Self::Proof(proof) => proof.words(names),
            Self::Family(asked, rest) => {
                let asked = count(*asked, "operation");
                text!(
                    "the plan asks a verdict on {asked} and Holm's correction is over these; the other {rest} have an interval of their own each, and no verdict"
                )
            }
            Self::Direct(honoured, all) => {
                text!("honoured in {honoured} of {all} measurements that ask")
            }
            Self::Emulated(emulated) => emulated.words(names),
            Self::Trials(trials) => trials.words(names),
            Self::OwnCost(None) => "the cost of measuring is not known".into(),
            Self::OwnCost(Some((share, row))) => text!(
                "measuring is at most {} of an operation ({} in {})",
                number::percent(*share),
                row.label,
                Text::code(&row.layer)
            ),
        }
    }
}

fn layers(names: &[&str]) -> String {
    list(&names.iter().map(|l| Text::code(l)).collect::<Vec<_>>())
}

impl Words for AgainstItself {
    fn words(&self, names: &Names) -> Text {
        let (baseline, points) = (names.baseline(), self.points);
        if points == 0 {
            return text!("too few repeats to say whether {baseline} equals itself");
        }
        let range = number::ratio_span(self.span);
        let cover = self.cover;
        let held = text!(
            "{baseline} against itself: {cover} of {points} intervals hold 1, all within {range}"
        );
        let alarms = (self.alarms > 0).then(|| {
            let (alarms, delta) = (
                count(self.alarms, "operation"),
                number::percent(CONTROL_DELTA),
            );
            text!("{alarms} surely off by more than {delta}")
        });
        let wide = (self.wide > 0).then(|| {
            let (wide, hidden) = (self.wide, number::percent(self.hidden));
            text!("{wide} of {points} so wide that a difference of {hidden} would not be seen")
        });
        Text::joined([Some(held), alarms, wide].into_iter().flatten(), "; ")
    }
}

impl Words for Drift<'_> {
    fn words(&self, names: &Names) -> Text {
        let (changed, looked) = (self.changed, self.looked);
        let ratios = if changed > 0 {
            text!(
                "{changed} of {looked} ratios changed late in the run: no single number is given for them"
            )
        } else if looked == 0 {
            text!("changes are looked for from {MIN_BLOCKS_FOR_CHANGE} repeats on")
        } else {
            let all = self.compared;
            text!(
                "no late change in the {looked} of {all} ratios that have {MIN_BLOCKS_FOR_CHANGE} repeats"
            )
        };
        if self.moved.is_empty() {
            return ratios;
        }
        let each = self
            .moved
            .iter()
            .map(|Moved { point, us }| text!("{} at {}", number::time_span(*us), quoted(point)));
        let each = Text::joined(each, ", from ");
        let more = match self.more {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        text!(
            "{} itself ran from {each}{more}; {ratios}",
            names.baseline()
        )
    }
}

impl Words for Contamination {
    fn words(&self, _: &Names) -> Text {
        let (n, written, all) = (self.disturbed, self.written, self.all);
        if all == 0 {
            return "no measurement was made".into();
        }
        let others = if written > 0 {
            format!("; {written} of {all} while a device wrote data of another layer or program")
        } else {
            String::new()
        };
        text!(
            "{n} of {all} measurements while other programs or the hypervisor took more than 10 % of the CPUs{others}"
        )
    }
}

impl Words for Cache<'_> {
    fn words(&self, names: &Names) -> Text {
        let (all, unproved) = (self.all, self.unproved_trials);
        if all == 0 {
            return "no operation asks for a cold or warm cache".into();
        }
        if self.is_proved() {
            return text!("cold was cold and warm was warm in all {all} measurements that ask");
        }
        let ((wrong, wrong_in), (faulted, faulted_in)) = (&self.refuted, &self.faulted);
        let mut parts = Vec::new();
        if wrong + unproved > 0 {
            let proved = self.proved;
            parts.push(text!("proved in {proved} of {all} measurements that ask"));
        }
        if unproved > 0 {
            let each = self.unproved.iter();
            let each = each.map(|(why, of)| text!("{} ({})", layers(of), why.words(names)));
            let why = list(&each.collect::<Vec<_>>());
            parts.push(text!("not proved in {unproved}, in {why}"));
        }
        if *wrong > 0 {
            parts.push(text!("refuted in {wrong}, in {}", layers(wrong_in)));
        }
        if *wrong > 0 || self.unproved_cold {
            let cells = if *wrong == 0 {
                "a cold result"
            } else {
                "a result"
            };
            parts.push(text!("{cells} where it is most of them is not trusted"));
        }
        if *faulted > 0 {
            let of = layers(faulted_in);
            parts.push(text!(
                "{faulted} of {all} waited for pages that had been warm (major faults), in {of}"
            ));
        }
        Text::joined(parts, "; ")
    }
}

impl Words for VerifiedData {
    fn words(&self, _: &Names) -> Text {
        let (records, bad, results) = (self.records, self.bad, self.results);
        if records + results == 0 {
            return "not asked for: add --verify".into();
        }
        if bad > 0 {
            return text!("{bad} of {records} records came back wrong");
        }
        let read = (records > 0).then(|| text!("{records} records read back as written"));
        let whose = if self.steps { "steps" } else { "jobs" };
        let right = (results > 0).then(|| text!("{results} results of {whose} were right"));
        Text::joined(read.into_iter().chain(right), "; ")
    }
}

impl Words for Proof<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Lost(lost) => text!("lost while it was measured: {}", layers(lost)),
            Self::NoLayer => "no layer was set up".into(),
            Self::Bare(bare) => text!("nothing proves where {} ran", layers(bare)),
            Self::Read(others, apart) => {
                let (baseline, natively) = (names.baseline(), names.natively());
                let other = if names.is_word() { "" } else { "other " };
                let others = match others {
                    0 => String::new(),
                    n => format!(" and in {}", count(*n, &format!("{other}layer"))),
                };
                let apart = match &apart[..] {
                    [] => String::new(),
                    _ => format!("; not on {baseline}'s device: {}", layers(apart)),
                };
                text!("the mount below the probe was read {natively}{others}{apart}")
            }
        }
    }
}

impl Words for Emulated<'_> {
    fn words(&self, names: &Names) -> Text {
        let name = names.baseline();
        let whose = if self.baseline {
            format!("the ratio of any other layer to {name} includes")
        } else {
            format!("their ratio to {name} includes")
        };
        let real = match &self.real[..] {
            [] => String::new(),
            real => format!("; do not compare them with {}", layers(real)),
        };
        text!(
            "{} ran on an emulated CPU: compare these with each other, {whose} what the emulation costs{real}",
            layers(&self.layers)
        )
    }
}

impl Words for Trials<'_> {
    fn words(&self, _: &Names) -> Text {
        let first = self.first.map(|[layer, point, error]| {
            let (layer, point) = (Text::code(layer), quoted(point));
            text!(", the first in {layer} at {point}: {}", brief(error))
        });
        let made = count(self.made, "measurement");
        text!(
            "{made} made, {} failed{}",
            self.failed,
            first.unwrap_or_default()
        )
    }
}
