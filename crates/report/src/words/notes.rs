//! Notes next to the verdict of a result.

use layermark_model::{brief, flags};

use crate::{
    number::{self, count},
    statements::notes::{RowNote, RowNotes},
    words::{Names, Text, Words, locks, text, verdicts::within},
};

impl RowNotes<'_> {
    /// The notes in one line; may be empty.
    pub fn words(&self) -> Text {
        let names = Names::of(self.baseline);
        let notes = self.all.iter().map(|note| note.words(&names));
        Text::joined(notes.filter(|note| note.length() > 0), "; ")
    }
}

impl Words for RowNote<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Untrusted(why)
            | Self::Withheld(why)
            | Self::Because(why)
            | Self::Flushes(why) => (*why).into(),
            Self::Never(row) => locks::never(row).unwrap_or_default(),
            Self::Remark(remark) => remark.words(names),
            Self::NoNumber(None) => "no number".into(),
            Self::NoNumber(Some(why)) => brief(why).into(),
            Self::Failed([failed, of], why) => {
                let all = count(*of, "measurement");
                text!("{failed} of {all} failed: {}", brief(why))
            }
            Self::Unsteady => flags::UNSTEADY.into(),
            Self::FewBlocks(n) => text!("no interval yet: {} missing", count(*n, "repeat")),
            Self::WeakerRule => "by the weaker rule: one such word in twenty is wrong".into(),
            Self::Within(margin) => within(*margin),
            Self::Suspicion(cause) => cause.words(names),
            Self::Threads(threads) => threads.words(names),
            Self::Tail(percentile, us) => text!("p{percentile} {}", number::time(*us)),
        }
    }
}
