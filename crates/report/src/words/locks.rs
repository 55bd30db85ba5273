//! Locks that exclude nobody on the other side of a layer's directory.

use crate::{
    number::{list, verb},
    statements::locks::OpenLocks,
    words::{Names, Text, Words, text},
};

/// The clause of the layer's sentence.
impl Words for OpenLocks<'_> {
    fn words(&self, _: &Names) -> Text {
        text!("does not exclude the other side by {}", self.kinds())
    }
}

impl OpenLocks<'_> {
    fn kinds(&self) -> Text {
        let locks = verb(self.kinds.len(), "lock", "locks");
        text!("{} {locks}", list(&self.kinds))
    }

    /// The part of the headline about the layer.
    pub fn part(&self, names: &Names) -> Text {
        text!("{} {}", Text::code(self.layer), self.words(names))
    }

    /// Where not to rely on them.
    pub fn advice(&self) -> Text {
        text!(
            "Do not let both sides of {} rely on {}: keep files that both write, such as databases and mail boxes, where locks exclude.",
            Text::code(self.layer),
            self.kinds()
        )
    }
}
