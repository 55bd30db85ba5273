//! Locks that exclude nobody on the other side, and those that are not proved.

use crate::{
    number::{list, verb},
    statements::locks::{OpenLocks, UnprovedLocks},
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
        let names: Vec<&str> = self.kinds.iter().map(|r| r.kind.as_str()).collect();
        text!("{} {}", list(&names), verb(names.len(), "lock", "locks"))
    }

    /// The part of the headline about the layer.
    pub fn part(&self, names: &Names) -> Text {
        text!("{} {}", Text::code(self.layer), self.words(names))
    }

    /// Where not to rely on locks.
    pub fn advice(&self) -> Text {
        text!(
            "Do not let both sides of {} rely on {}: keep files that both write, such as databases and mail boxes, \
             where locks exclude.",
            Text::code(self.layer),
            self.kinds()
        )
    }
}

impl Words for UnprovedLocks<'_> {
    fn words(&self, _: &Names) -> Text {
        let layers: Vec<Text> = self.layers.iter().map(|l| Text::code(l)).collect();
        let (layers, why) = (list(&layers), self.why);
        text!("Locks in {layers} are not proved between machines: {why}")
    }
}
