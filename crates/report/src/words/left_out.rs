//! Why work was not measured.

use crate::{
    statements::left_out::{Hint, Reason},
    words::{Names, Text, Words, text},
};

impl Words for Reason<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Reported(why) => (*why).into(),
            Self::NotSetUp => "it could not be set up".into(),
            Self::Failed => "it failed".into(),
            Self::ReadOnly => "the layer is read-only".into(),
            Self::NeverCold => "what lies in memory cannot be cold".into(),
            Self::OfBaseline(why) => {
                let (name, why) = (names.baseline(), why.words(names));
                text!("{name}, the baseline, does not do it: {why}")
            }
            Self::NobodyElse => "no other layer does it, so there is nothing to compare".into(),
            Self::Budget => "the budget was spent before it was measured".into(),
            Self::Ended => "the run ended before it was measured".into(),
        }
    }
}

impl Words for Hint<'_> {
    fn words(&self, _: &Names) -> Text {
        let Some(seconds) = self.enough_s else {
            return self.own.unwrap_or_default().into();
        };
        let run = self.store.find(self.run);
        let command = text!("layermark run --replay {run} --budget {seconds}s");
        match self.own {
            None => command,
            Some(own) => text!("{own}, or give it more time: {command}"),
        }
    }
}
