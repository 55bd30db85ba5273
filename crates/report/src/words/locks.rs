//! Locks that exclude nobody on the other side of a layer's directory.

use crate::{
    number::{self, list, verb},
    statements::locks::{OpenLocks, is_open},
    types::ResultRow,
    words::{Names, Text, Words, text},
};

/// The clause of the layer's sentence.
impl Words for OpenLocks<'_> {
    fn words(&self, _: &Names) -> Text {
        text!("does not exclude the other side by {}", self.kinds())
    }
}

/// What a result is that never came: a change that was not seen, or a lock that excluded nobody.
pub fn never(row: &ResultRow) -> Option<Text> {
    if is_open(row) {
        return Some("the other side took it".into());
    }
    let wait = number::time(row.op_us.unwrap_or_default());
    row.not_seen().then(|| text!("not seen within {wait}"))
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
