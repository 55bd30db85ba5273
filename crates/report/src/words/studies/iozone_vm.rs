//! What the study of development machines says.

use layermark_model::format_size;

use super::Claimed;
use crate::{
    number::{self, count, list, of_baseline, result_value, times_about},
    statements::{
        power_cuts::CutEvidence,
        studies::iozone_vm::{
            CountedFlushes, FastSync, IozoneAnswer, IozoneClaim, LibraryTimes, PartOf, SyncProof,
            Than,
        },
    },
    types::ServedBy,
    words::{Names, Text, Words, lists::layers, text},
};

const CONSTANT: &str = "costs nothing per operation";
/// Claim about flushes.
pub const HONEST: &str = "flushes honestly";
/// Claim about the place of a database.
pub const DATABASE: &str = "keep the database here";
/// Claim about the layer that reads best.
pub const READING: &str = "prefer it for reading";
const FAST_SYNC: &str = "the fastest sync in a guest is one that is done";

impl Words for IozoneAnswer<'_> {
    fn words(&self, _: &Names) -> Text {
        let said = |names: &[&str], text: &dyn Fn(Text) -> Text| {
            (!names.is_empty()).then(|| text(layers(names)))
        };
        let parts = [
            said(&self.lose, &|l| {
                text!("acknowledged writes can be lost in {l}")
            }),
            said(&self.off, &|l| text!("keep databases off {l}")),
            said(&self.database, &|l| text!("a database can be in {l}")),
            said(&self.reading, &|l| text!("prefer {l} for reading")),
        ];
        Text::joined(parts.into_iter().flatten(), "; ")
    }
}

/// `rand-read of a 64M file`.
impl Words for PartOf<'_> {
    fn words(&self, _: &Names) -> Text {
        text!("{} of a {} file", self.op, format_size(self.file))
    }
}

impl Words for IozoneClaim<'_> {
    fn words(&self, names: &Names) -> Text {
        let base = names.baseline();
        match self {
            Self::Ceiling(here, there, part) => text!(
                "{} reaches half of {base}'s best: at most {} whatever the record ({}; {base} {})",
                Text::code(&here.layer),
                result_value(here),
                part.words(names),
                result_value(there)
            ),
            Self::Constant(layer, None) => text!(
                "{} {CONSTANT}: no line fits its record sizes, or there are too few repeats for an interval",
                Text::code(layer)
            ),
            Self::Constant(layer, Some(row)) => {
                text!("{} {CONSTANT}: {}", Text::code(layer), row.text)
            }
            Self::Cached {
                layer,
                part,
                own: [own, all],
                elsewhere,
            } => {
                let part = part.words(names);
                text!(
                    "{} is cached by the guest: its memory served {part} at {own} of {}{}",
                    Text::code(layer),
                    count(*all, "record size"),
                    rest(elsewhere)
                )
            }
            Self::Honest(layer, proof) => {
                text!("{} {HONEST}: {}", Text::code(layer), proof.words(names))
            }
            Self::FastSync(of) => of.words(names),
            Self::Database {
                layer,
                loses,
                us,
                than,
            } => {
                let why = match loses {
                    true => "it loses what it has acknowledged when the power goes; ",
                    false => "",
                };
                text!(
                    "keep the database in {}: {why}a synced random write takes {}{}",
                    Text::code(layer),
                    number::time(*us),
                    than.words(names)
                )
            }
            Self::Reading([first, second, last]) => text!(
                "prefer {} for reading: {} in the mean of all reads, {} {}, {} {}",
                Text::code(first.0),
                of_baseline(first.1, &base.to_string()),
                Text::code(second.0),
                times_about(second.1),
                Text::code(last.0),
                times_about(last.1)
            ),
            Self::Library(op, times) => {
                text!(
                    "f{op}() takes as long as {op}() {}: {}",
                    names.natively(),
                    library(op, times)
                )
            }
        }
    }
}

impl Claimed for IozoneClaim<'_> {
    fn claim(&self, names: &Names) -> Text {
        match self {
            Self::Ceiling(..) => text!("reaches half of {}'s best", names.baseline()),
            Self::Constant(..) => CONSTANT.into(),
            Self::Cached { .. } => "is cached by the guest".into(),
            Self::Honest(..) => HONEST.into(),
            Self::FastSync(_) => FAST_SYNC.into(),
            Self::Database { .. } => DATABASE.into(),
            Self::Reading(_) => READING.into(),
            Self::Library(op, _) => text!("f{op}() takes as long as {op}()"),
        }
    }
}

/// `, from the device at 3 and mixed at 1`.
fn rest(elsewhere: &[(ServedBy, usize)]) -> Text {
    let each = elsewhere.iter();
    let each: Vec<Text> = each.map(|(s, n)| text!("{} at {n}", s.word())).collect();
    if each.is_empty() {
        return Text::default();
    }
    text!(", from {}", list(&each))
}

impl Words for Than<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Baseline(us) => text!(", {} {}", names.natively(), number::time(*us)),
            Self::Fastest => ", the least of all layers on such a CPU that flush".into(),
            Self::Guest(layer, us) => text!(", in {} {}", Text::code(layer), number::time(*us)),
            Self::Nothing => Text::default(),
        }
    }
}

fn library(op: &str, times: &LibraryTimes) -> Text {
    match times {
        LibraryTimes::Unknown => "too few repeats for intervals".into(),
        LibraryTimes::Same(pairs) => {
            text!("the intervals overlap at all {}", count(*pairs, "pair"))
        }
        LibraryTimes::Apart(all) => {
            let all = all.iter().map(|(ratio, record)| {
                text!("{}x at {}", number::ratio(*ratio), format_size(*record))
            });
            let all: Vec<Text> = all.collect();
            text!("f{op}() takes {} of the time of {op}()", list(&all))
        }
    }
}

impl Words for SyncProof<'_> {
    fn words(&self, names: &Names) -> Text {
        let also = |killed: &Option<CutEvidence>| {
            let said = killed.as_ref().map(|k| text!("; {}", k.words(names)));
            said.unwrap_or_default()
        };
        match self {
            Self::Lost(lie, killed) => text!("{}{}", lie.loss(), also(killed)),
            Self::Kept {
                records,
                cuts,
                killed,
            } => text!(
                "0 of {} lost in {}{}",
                count(*records as usize, "acknowledged record"),
                count(*cuts as usize, "power cut"),
                also(killed)
            ),
            Self::Counted(flushes, uncut) => {
                let uncut = uncut.map(|why| text!("; power cuts say nothing: {why}"));
                text!("{}{}", flushes.words(names), uncut.unwrap_or_default())
            }
        }
    }
}

impl Words for CountedFlushes<'_> {
    fn words(&self, names: &Names) -> Text {
        let of = &self.row.durability;
        let proof = match of.flushes.filter(|_| self.counted) {
            Some(n) => text!("{n} device flushes for {} syncs", of.syncs),
            None => of.because.as_deref().unwrap_or_default().into(),
        };
        let Some(ratio) = &self.faster else {
            return proof;
        };
        let than = of_baseline(ratio.estimate, &names.baseline().to_string());
        match number::written(ratio) {
            (_, "") => text!("{proof}; that is why it takes {than}"),
            _ => text!("{proof}; that is why it is {than}"),
        }
    }
}

impl Words for FastSync<'_> {
    fn words(&self, names: &Names) -> Text {
        let all = |names: &[&str]| {
            let names: Vec<Text> = names.iter().map(|l| Text::code(l)).collect();
            list(&names)
        };
        let emulated = if self.cpus_differ {
            " (their CPUs differ)"
        } else {
            ""
        };
        text!(
            "{FAST_SYNC}: a synced write takes {} in {}, and {} in {}, the fastest guest that keeps its data{emulated}. Power cuts lost acknowledged data in {}, and none in {}. {}",
            number::time(self.fast.1),
            Text::code(self.fast.0),
            number::time(self.honest.1),
            Text::code(self.honest.0),
            all(&self.lost),
            all(&self.kept),
            self.controls.words(names)
        )
    }
}

/// The title of the table of a test.
pub fn test(title: &str, file: u64) -> Text {
    text!("{title}, {} file: KB/s", format_size(file))
}

/// The titles of a part's table and chart.
pub fn part(of: &PartOf, names: &Names) -> [Text; 2] {
    let of = of.words(names);
    [
        text!("{of}: KB/s"),
        text!("Throughput over record size: {of}"),
    ]
}

/// The labels of a chart's axes.
pub const AXES: [&str; 2] = ["record size", "throughput"];

/// A call, and the one of the C library.
pub fn calls(op: &str) -> [String; 2] {
    [text!("{op}()").into(), text!("f{op}()").into()]
}

/// The title of the table that compares both in a layer, and that of the chart.
pub fn streams(op: &str, layer: &Text) -> [Text; 2] {
    [
        text!("{layer}: {op}() against f{op}(), KB/s"),
        text!("{op}() against f{op}() in {layer}"),
    ]
}

/// The heads of that table.
pub fn streams_head(op: &str) -> Vec<String> {
    let [call, stream] = calls(op);
    let last = "time of the second over the first";
    vec!["file".into(), "record".into(), call, stream, last.into()]
}

/// Throughput in iozone's unit.
pub fn kilobytes(rate: f64) -> String {
    text!("{rate:.0}").into()
}

/// A quotient.
pub fn quotient(of: f64) -> String {
    number::ratio(of)
}
