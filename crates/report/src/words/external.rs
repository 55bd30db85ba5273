//! Differences between a result and that of another program.

use layermark_model::{CacheState, format_size};

use crate::{
    statements::external::{Condition, ImportDifference, Imported},
    words::{Names, Text, Words, text},
};

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

const NOT_TOLD: &str = "not told";

impl Words for Condition<'_> {
    fn words(&self, _: &Names) -> Text {
        let differs = |what: &str, ours: &str, theirs: Option<&str>| {
            text!("{what}: ours {ours}, theirs {}", theirs.unwrap_or(NOT_TOLD))
        };
        match self {
            Self::Cache(state, served) => {
                let state = state.map_or("", CacheState::word);
                let ours = format!("{state} ({})", served.word());
                differs("cache", ours.trim_start(), None)
            }
            Self::Direct(ours, theirs) => differs("O_DIRECT", switch(*ours), theirs.map(switch)),
            Self::Flush(ours, theirs) => differs("flush", ours, *theirs),
            Self::Engine(ours, theirs) => differs("engine", ours, *theirs),
            Self::OneOf(jobs) => {
                text!("rate: not compared, theirs is one of {jobs} jobs at once")
            }
            Self::FileSize => text!("file size: theirs {NOT_TOLD}"),
        }
    }
}

impl Words for Imported<'_> {
    fn words(&self, _: &Names) -> Text {
        let Self(point) = self;
        let op = point.op.as_deref().filter(|op| *op != point.name);
        let sizes = [(point.record, "records"), (point.file_size, "file")];
        let sizes = sizes.map(|(size, what)| size.map(|n| text!("{} {what}", format_size(n))));
        let numbers = [
            (point.queue_depth, "queue depth"),
            (point.threads, "threads"),
        ];
        let numbers = numbers.map(|(n, what)| n.filter(|n| *n > 1).map(|n| text!("{what} {n}")));
        let parts = [Some(Text::from(point.name.as_str())), op.map(Text::from)];
        let parts = parts.into_iter().chain(sizes).chain(numbers);
        Text::joined(parts.flatten(), ", ")
    }
}

impl Words for ImportDifference<'_> {
    fn words(&self, _: &Names) -> Text {
        let said = |value: Option<&'_ str>| value.unwrap_or(NOT_TOLD).to_owned();
        text!(
            "{}: older {}, newer {}",
            self.what,
            said(self.old),
            said(self.new)
        )
    }
}
