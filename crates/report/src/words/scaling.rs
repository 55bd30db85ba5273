//! Why results with several numbers of CPUs show no scaling.

use crate::{
    statements::scaling::NotScaling,
    types::ScalingRow,
    words::{Names, Text, Words, text},
};

impl Words for NotScaling {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::RateGiven => "its rate is given".into(),
            Self::FewCpus(here) => text!("this machine has {here} of them"),
            Self::TwoGuests([both, machine]) => {
                text!("two guests have {both}, and this machine has {machine}")
            }
        }
    }
}

/// What the figures of the table mean.
pub fn about_scaling(names: &Names) -> Text {
    text!(
        "X(n) is the throughput with n CPUs: virtual ones of a guest; elsewhere the programs are pinned to n of this machine's. Speed-up is X(n)/X(1), efficiency speed-up/n, the MP factor (X(n)-X(n-1))/X(1). The ratio is time over that in {} with the same number of CPUs.",
        names.baseline()
    )
}

/// The title of a table of this work.
pub fn scaling(what: &str) -> Text {
    text!("Scaling: {what}")
}

/// The head of a column of ratios.
pub fn ratio_to(baseline: &str) -> Text {
    text!("ratio to {baseline}")
}

/// Why the figures of a row show no scaling.
pub fn not_scaling(row: &ScalingRow, why: &str) -> Text {
    let layer = Text::code(&row.layer);
    text!("{layer} with {} CPUs is no scaling: {why}.", row.cpus)
}
