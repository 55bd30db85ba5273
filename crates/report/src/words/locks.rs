//! Locks that exclude nobody on the other side of a layer's directory.

use crate::{
    number::{self, count, list, verb},
    statements::locks::{OpenLocks, is_open},
    types::{LockReason, ResultRow},
    words::{Names, Text, Words, text},
};

/// The clause of the layer's sentence.
impl Words for OpenLocks<'_> {
    fn words(&self, _: &Names) -> Text {
        text!("does not exclude the other side by {}", self.kinds())
    }
}

impl Words for LockReason {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Took { taken, tried } => text!(
                "the other side took {taken} of {} that this side held",
                count(*tried as usize, "lock")
            ),
            Self::Refused { tried, longest_us } => {
                let within = longest_us.map(|us| text!(", the slowest after {}", number::time(us)));
                text!(
                    "the other side was refused {} of {tried}{}",
                    count(*tried as usize, "lock"),
                    within.unwrap_or_default()
                )
            }
            Self::Stored(why) => why.as_str().into(),
            Self::OneClient => {
                "one client took them all, and a file system such as sshfs keeps them there".into()
            }
        }
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
