//! What the study of virtualised applications says.

use layermark_model::format_size;

use super::{Claimed, us};
use crate::{
    number,
    statements::studies::fileio_appvirt::{
        AgainstNative, FileioClaim, LeftToWrite, MeanOfRepeats, OneRepeat, RepeatsVerdict,
    },
    types::{DebtRow, ServedBy},
    words::{Names, Text, Words, text},
};

const LATER_READS: &str = "later reads come from memory, the first from the device";
const WRITTEN: &str = "has written nearly everything when the application ends";
const IN_PLACE: &str = "changes a file without a copy of it";

impl Words for FileioClaim<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::LaterReads {
                layer,
                first: [fetched, first],
                again: [kept, again],
                seconds,
            } => {
                let times = seconds.map(|[slow, quick]| {
                    text!(
                        ": {} against {} for all record sizes, so the two are told apart and never averaged",
                        us(slow),
                        us(quick)
                    )
                });
                text!(
                    "in {} the first read comes from the device ({fetched} of {first} by proof) and later ones from memory ({kept} of {again}){}",
                    Text::code(layer),
                    times.unwrap_or_default()
                )
            }
            Self::Written { layer, left } => text!(
                "{} {WRITTEN}: {} (all record sizes together)",
                Text::code(layer),
                left.words(names)
            ),
            Self::InPlace {
                layer,
                size,
                seconds: [here, there],
                verdict,
            } => {
                let verdict = verdict.map(|v| text!(", {}", v.words(names)));
                text!(
                    "{} {IN_PLACE} ({}): {} for the first write, {} {}{}",
                    Text::code(layer),
                    format_size(*size),
                    us(*here),
                    names.natively(),
                    us(*there),
                    verdict.unwrap_or_default()
                )
            }
        }
    }
}

impl Claimed for FileioClaim<'_> {
    fn claim(&self, _: &Names) -> Text {
        let claim = match self {
            Self::LaterReads { .. } => LATER_READS,
            Self::Written { .. } => WRITTEN,
            Self::InPlace { .. } => IN_PLACE,
        };
        claim.into()
    }
}

impl Words for LeftToWrite {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Unknown => "nothing is known of what was left".into(),
            Self::NotCounted => "no device counts what was left".into(),
            Self::Much {
                bytes,
                seconds: [spent, more],
            } => {
                let [left, all] = bytes.map(number::bytes);
                text!(
                    "{left} of {all} were still to be written when the program had ended after {}, and took {} more",
                    us(*spent),
                    us(*more)
                )
            }
            Self::Little(bytes) => {
                let [left, all] = bytes.map(number::bytes);
                text!("only {left} of {all} were left")
            }
        }
    }
}

/// As the result has it: `probably slower 1.18x`.
impl Words for RepeatsVerdict<'_> {
    fn words(&self, _: &Names) -> Text {
        let word = self.row.word();
        match self.apart {
            AgainstNative::No => "the same".into(),
            AgainstNative::Open => "too noisy".into(),
            AgainstNative::Slower(ratio) => text!("{word} {}x", number::ratio(ratio)),
            AgainstNative::Faster(ratio) => text!("{word} {}x", number::ratio(1.0 / ratio)),
        }
    }
}

/// `8.97 s (8.36 to 9.66 s)`.
impl Words for MeanOfRepeats {
    fn words(&self, _: &Names) -> Text {
        text!("{} ({})", us(self.mean), range(self.range))
    }
}

impl Words for OneRepeat {
    fn words(&self, _: &Names) -> Text {
        let from = self.apart.map(|from| text!(", {}", from.word()));
        text!("{}{}", us(self.seconds), from.unwrap_or_default())
    }
}

/// The ends of times in seconds.
pub fn range(seconds: [f64; 2]) -> String {
    number::time_span(seconds.map(|s| s * 1e6))
}

/// A time in seconds.
pub fn seconds(of: f64) -> String {
    us(of)
}

/// Part of the study: operation, state of the cache, and its title.
pub const WORKS: [(&str, &str, &str); 3] = [
    ("write", "", "write"),
    ("read", "cold", "read, the first time"),
    ("read", "warm", "read, again"),
];

/// The table of a part: its title and note.
pub fn summary(part: &str, file: u64, names: &Names) -> [Text; 2] {
    let note = text!(
        "Mean and range of the repeats, and the report's verdict against {}.",
        names.baseline()
    );
    let part = Text::from(part).capitalised();
    [text!("{part}, {}: seconds", format_size(file)), note]
}

/// A cell of it.
pub fn summary_cell(of: &MeanOfRepeats, verdict: Option<RepeatsVerdict>, names: &Names) -> Text {
    let said = of.words(names);
    match verdict {
        Some(verdict) => text!("{said}, {}", verdict.words(names)),
        None => said,
    }
}

/// The table of each repeat in a layer: its title and note.
pub fn repeats(layer: &str, part: &str, set_apart: usize) -> [Text; 2] {
    let note = match set_apart {
        0 => Text::default(),
        n => text!(
            "{} came from elsewhere than the others and are not in the mean.",
            number::count(n, "repeat")
        ),
    };
    [text!("{layer}: {part}, each repeat"), note]
}

/// Its heads.
pub fn repeats_head(most: usize) -> Vec<String> {
    let each = (1..=most).map(|n| text!("repeat {n}").into());
    let mut head = vec!["record".to_owned()];
    head.extend(each);
    head.extend(["mean", "range", "data came from"].map(str::to_owned));
    head
}

/// Where most repeats came from.
pub fn source(of: Option<ServedBy>) -> &'static str {
    of.map_or("", ServedBy::word)
}

/// The table of what was left to write: its title and note.
pub const LEFT: [&str; 2] = [
    "Written after the program had ended: seconds",
    "From the last close until everything was on the device, and the bytes that crossed to it meanwhile; medians of the repeats.",
];

/// A cell of it.
pub fn left(of: &DebtRow) -> Text {
    let bytes = of.bytes.map(|b| text!(", {}", number::bytes(b)));
    text!("{}{}", us(of.seconds), bytes.unwrap_or_default())
}
