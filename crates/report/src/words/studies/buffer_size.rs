//! What the study of buffer sizes says.

use layermark_model::format_size;

use crate::{
    number::{list, ratio},
    statements::studies::buffer_size::{BufferAnswer, EnoughBytes, RECOMMENDED, Saved},
    types::Pick,
    words::{Names, Text, Words, studies::Claimed, text},
};

impl Words for BufferAnswer<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Open(row) => text!(
                "not decided whether {RECOMMENDED} bytes are enough: the smallest size within 5 % of the best throughput is {}",
                size(&row.wall, &row.records)
            ),
            Self::Enough(row) => text!(
                "{} are enough: within 5 % of the best throughput",
                size(&row.wall, &row.records)
            ),
            Self::Costs(row, costs) => {
                let each = costs
                    .iter()
                    .map(|(times, op)| text!("{}x ({op})", ratio(*times)));
                text!(
                    "use {}; {RECOMMENDED} costs {}",
                    size(&row.wall, &row.records),
                    Text::joined(each, ", ")
                )
            }
        }
    }
}

impl Saved {
    fn word(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::CpuTime => "CPU time",
        }
    }

    fn best(self) -> &'static str {
        match self {
            Self::Throughput => "best",
            Self::CpuTime => "least",
        }
    }
}

impl Words for EnoughBytes<'_> {
    fn words(&self, _: &Names) -> Text {
        text!(
            "records of {RECOMMENDED} bytes are enough for the {} of {} in {}: the smallest within 5 % of the {} is {}{}",
            self.what.word(),
            self.op,
            Text::code(&self.row.layer),
            self.what.best(),
            size(self.pick, &self.row.records),
            open(self.pick, self.absent)
        )
    }
}

impl Claimed for EnoughBytes<'_> {
    fn claim(&self, _: &Names) -> Text {
        let (what, op) = (self.what.word(), self.op);
        text!("{RECOMMENDED} bytes are enough for the {what} of {op}")
    }
}

/// `2048 bytes (1024 to 2048)`, of the sizes that were measured.
fn size(pick: &Pick, records: &[u64]) -> Text {
    let size = match pick.between {
        Some([low, high]) if low < high => text!("{} bytes ({low} to {high})", pick.record),
        _ => text!("{} bytes", pick.record),
    };
    if records.iter().max() == Some(&pick.record) {
        return text!("{size} or more (no larger size was measured)");
    }
    size
}

/// Why a choice decides nothing, if so.
fn open(pick: &Pick, absent: &[u64]) -> Text {
    match (absent.is_empty(), pick.between) {
        (false, _) => text!(" of those measured; {} were not", list(absent)),
        (true, None) => ", in too few repeats to be certain".into(),
        (true, Some(_)) => Text::default(),
    }
}

/// The title of the table of an operation on a file.
pub fn title(op: &str, file: u64) -> Text {
    text!("{op}, {}: seconds for the file", format_size(file))
}

/// The heads of a layer's columns.
pub fn heads(layer: &str) -> [String; 2] {
    ["time", "CPU"].map(|what| text!("{layer}, {what}").into())
}

/// The title of a chart, and the label of its axis.
pub fn chart(op: &str, what: Saved) -> [Text; 2] {
    let what = match what {
        Saved::Throughput => "time for the file",
        Saved::CpuTime => "CPU time for the file",
    };
    [text!("{op}: {what} over record size"), what.into()]
}

/// The label of the axis of record sizes.
pub const RECORD: &str = "record size";

/// The file with the lines of an operation in a layer.
pub fn file_name(layer: &str, op: &str) -> Text {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let layer: String = layer.chars().map(plain).collect();
    text!("{layer}-{op}.txt")
}

/// A line of the study's own program: sizes in bytes, times in seconds.
pub fn line([record, size]: [u64; 2], [time, clock]: [f64; 2]) -> Text {
    text!("block={record} size={size} time={time:.6} clock={clock:.3}s\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_that_decides_nothing_says_why() {
        let pick = |between| Pick {
            record: 512,
            between,
            best: 512,
            seconds_per_byte: 1.0,
            best_seconds_per_byte: 1.0,
        };
        let small = pick(Some([256, 1024]));
        assert_eq!(String::from(open(&small, &[])), "");
        assert_eq!(
            String::from(open(&small, &[2048, 4096])),
            " of those measured; 2048 and 4096 were not"
        );
        assert_eq!(
            String::from(open(&pick(None), &[])),
            ", in too few repeats to be certain"
        );
    }
}
