//! Why results with several numbers of CPUs show no scaling.

use crate::{
    statements::scaling::NotScaling,
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
