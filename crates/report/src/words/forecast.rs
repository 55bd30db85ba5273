//! Forecasts of steps.

use layermark_model::Untraced;

use crate::{
    number::{self, list},
    statements::forecast::{Besides, CallAdvice, Lack, StepForecast, Terms},
    words::{Names, Text, Words, text},
};

/// How forecasts are made, and up to which gap the calls explain a time.
pub fn about_forecasts(names: &Names, close: f64) -> Text {
    text!(
        "A forecast is {}'s time, and for each system call the time that it takes longer in the layer, as `meta` and `file` measured it. The calls on the layer's files were counted in the layer native, with strace, in an execution that does not count. The gap is forecast over measured time, less 1. Beyond {} and outside the interval of the measured time, the calls do not explain it. Steps with a cold cache have no forecast.",
        names.baseline(),
        number::percent(close)
    )
}

/// A measured time with its forecast, both in microseconds.
pub fn with_forecast(us: f64, forecast_us: f64) -> Text {
    text!("{} ({})", number::time(us), number::time(forecast_us))
}

impl Words for StepForecast<'_> {
    /// `` `git status` in `sshfs`: 9,412 stat at +310 us = 2.9 s of the forecast's 3.1 s``, and what the calls do
    /// not explain.
    fn words(&self, names: &Names) -> Text {
        let row = self.row;
        let all = number::time(row.forecast_us);
        let most = row.costly().first().map(|call| {
            let terms = Terms(call).words(names);
            text!(": {terms} of the forecast's {all}")
        });
        let head = text!(
            "{} in {}{}",
            Text::code(&row.label),
            Text::code(&row.layer),
            most.unwrap_or_default()
        );
        let Some(besides) = &self.besides else {
            return head;
        };
        let facts = if besides.is_empty() {
            Text::default()
        } else {
            let facts = besides.iter().map(|fact| fact.words(names));
            text!(" ({})", Text::joined(facts, "; "))
        };
        text!(
            "{head}; the calls do not explain it: forecast {all}, measured {}{facts}",
            number::time(row.measured_us)
        )
    }
}

impl Words for Terms<'_> {
    /// `9,412 stat at +310 us = 2.9 s`.
    fn words(&self, _: &Names) -> Text {
        let Self(call) = self;
        text!(
            "{} {} at {} = {}",
            number::thousands(call.calls),
            call.kind,
            number::extra(call.each_us),
            number::time(call.sum_us)
        )
    }
}

impl Words for Besides {
    fn words(&self, _: &Names) -> Text {
        let time = |seconds: f64| number::time(seconds * 1e6);
        match self {
            Self::Rested(every_s, rested_s) => {
                let before = match rested_s {
                    None => "just before".into(),
                    Some(seconds) => format!("{} before", time(*seconds)),
                };
                text!(
                    "it was executed every {}, and the costs are of names that were asked for {before}",
                    time(*every_s)
                )
            }
            Self::Tasks(share) => text!(
                "one of its tasks made {} of the calls, and those of the others may overlap with them",
                number::percent(*share)
            ),
            Self::Cpu(step_us, own_us) => text!(
                "CPU time: {} in the step, {} in the layer's own processes",
                number::time(*step_us),
                number::time(*own_us)
            ),
        }
    }
}

impl Words for Untraced {
    /// The reason, and what to do about it.
    fn words(&self, _: &Names) -> Text {
        match &self.hint {
            Some(hint) => text!("{}: {hint}", self.why),
            None => self.why.as_str().into(),
        }
    }
}

impl Words for Lack<'_> {
    fn words(&self, names: &Names) -> Text {
        let codes = |names: &[&str]| {
            let names: Vec<Text> = names.iter().map(|n| Text::code(n)).collect();
            list(&names)
        };
        match self {
            Self::Costs([plain, flushed]) => {
                let lines = [work(plain, ""), work(flushed, " and sync = \"fsync\"")];
                let lines = Text::joined(lines.into_iter().flatten(), ", and ");
                text!(
                    "A forecast of the steps needs the costs of their system calls, and the plan does not measure all of them: add {lines}"
                )
            }
            Self::Untrusted(kind, layers) => text!(
                "Some steps have no forecast: the cost of {kind} has no trusted result in {}",
                codes(layers)
            ),
            Self::NotCounted(steps, untraced) => text!(
                "The system calls of {} were not counted: {}",
                codes(steps),
                untraced.words(names)
            ),
        }
    }
}

/// The lines of a plan that measure these operations.
fn work(operations: &[&str], sync: &str) -> Option<Text> {
    let line = text!(
        "[[work]] with workload = \"meta\" and op = \"{}\"{sync}",
        operations.join(",")
    );
    (!operations.is_empty()).then_some(line)
}

impl Words for CallAdvice<'_> {
    fn words(&self, _: &Names) -> Text {
        text!("{}: {}.", self.row.text, instead(self.kind))
    }
}

/// What to do about many calls of a kind; empty for an unknown one.
pub fn instead(kind: &str) -> &'static str {
    match kind {
        "stat" => {
            "ask for fewer names there (for git: core.untrackedCache and core.fsmonitor), or keep large trees in another place"
        }
        "open" => "open fewer files there, or keep what is only read in another place",
        "list" => "list fewer directories there",
        "create" => {
            "create fewer files there: unpack in another place, or keep them in one archive"
        }
        "unlink" => "remove fewer files one by one there: keep what is made anew in another place",
        "set-attr" => {
            "leave owner, mode and times of files as they are (for tar: -m --no-same-owner --no-same-permissions)"
        }
        "read" => "read larger pieces there, or keep what is only read in another place",
        "write" => "write larger pieces there",
        "flush" => "flush less often there: put more changes into one commit",
        _ => "",
    }
}
