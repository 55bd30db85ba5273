//! The run, and whether to believe it, in a line each.

use crate::{
    number::{count, list},
    statements::run_line::{RunLine, TrustLine},
    words::{Names, Text, Words, machine::status, text},
};

impl Words for RunLine<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::One {
                run,
                plan,
                status: of,
                layers,
                trials,
                seed,
            } => text!(
                "run {run} of plan {plan} ({}), {}, {}, seed {seed}",
                status(*of),
                count(*layers, "layer"),
                count(*trials, "measurement")
            ),
            Self::Two {
                new: [new, started],
                old: [old, before],
                plan,
            } => text!("run {new} of {started} against run {old} of {before}, plan {plan}"),
        }
    }
}

impl Words for TrustLine<'_> {
    fn words(&self, _: &Names) -> Text {
        let believed = self.believed.map(|trusted| {
            let word = trusted.word.word();
            match &trusted.reason {
                Some(why) => text!("{word}: {why}; "),
                None => text!("{word}, "),
            }
        });
        let believed = believed.unwrap_or_default();
        let passed = count(self.passed, "check");
        if self.warnings.is_empty() {
            return text!("{believed}{passed} passed, no warning");
        }
        text!(
            "{believed}{passed} passed; warnings: {}",
            list(&self.warnings)
        )
    }
}
