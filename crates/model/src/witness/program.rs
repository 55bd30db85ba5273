//! A program under power cuts: the items that it acknowledged by lines of its output, and what its check says of them
//! afterwards. Pure: a log and the check's answer in, what was lost out.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use regex::bytes::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{UnseenCuts, WitnessControl};

/// Most items that a program acknowledges before it is stopped.
pub const MOST_ITEMS: u64 = 10_000;
/// Longest name of an item, bytes.
pub const LONGEST_ITEM: usize = 256;

/// A program to cut, and the command that looks for what it acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CutProgram {
    /// Its name in the report.
    pub name: String,
    /// Command for `sh -c`, in a directory of its own in the layer. It prints a line for each item that it has
    /// acknowledged.
    pub run: String,
    /// Command for `sh -c` in the same directory after a cut. It reads the acknowledged items, a line each, and prints
    /// `lost ITEM` or `torn ITEM` for what is missing or damaged. Exit code 0, or 1 if anything is.
    pub check: String,
    /// Regular expression of a line that acknowledges an item: its first group, or all that matches, is the item.
    #[serde(default = "default_ack")]
    pub ack: String,
    /// What it promises by an acknowledgement.
    #[serde(default)]
    pub promises: Promise,
    /// How long it works before it is killed, ms.
    #[serde(default = "default_time")]
    pub time_ms: u64,
    /// Several of its checks may be under way at a time, each after another cut and in a directory of its own: they share
    /// no port, no socket and no file outside `$TMPDIR`, which is another one for each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel_checks: bool,
}

/// The lines that acknowledge an item.
///
/// # Errors
///
/// What is wrong with the expression.
pub fn acknowledges(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|e| {
        let text = e.to_string();
        text.lines().last().unwrap_or_default().trim().to_owned()
    })
}

fn default_time() -> u64 {
    CutProgram::TIME_MS
}

fn default_ack() -> String {
    CutProgram::ACK.into()
}

impl CutProgram {
    /// Lines that acknowledge an item where nothing else is said.
    pub const ACK: &str = r"^ack (\S+)";
    /// How long a program works where nothing else is said, ms.
    pub const TIME_MS: u64 = 3000;
    /// Longest time that a program works, ms.
    pub const MOST_TIME_MS: u64 = 600_000;

    /// What is wrong with it: a value of which key, and what it must be.
    pub fn wrong(&self) -> Option<(&'static str, String, &'static str)> {
        let commands = [
            ("power_cuts.programs.run", &self.run),
            ("power_cuts.programs.check", &self.check),
            ("power_cuts.programs.ack", &self.ack),
        ];
        let empty = commands
            .into_iter()
            .find(|(_, text)| text.trim().is_empty());
        if let Some((key, text)) = empty {
            return Some((key, text.clone(), "it must not be empty"));
        }
        if acknowledges(&self.ack).is_err() {
            let must = "it must be a regular expression";
            return Some(("power_cuts.programs.ack", self.ack.clone(), must));
        }
        let in_time = (1..=Self::MOST_TIME_MS).contains(&self.time_ms);
        let must = "it must be between 1 and 600000";
        (!in_time).then(|| {
            (
                "power_cuts.programs.time_ms",
                self.time_ms.to_string(),
                must,
            )
        })
    }

    /// How long it works before it is killed.
    pub fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms)
    }
}

/// What a program promises by an acknowledgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// The item survives a power cut.
    #[default]
    Kept,
    /// It may be lost: the program flushes later, or never.
    Nothing,
}

/// An item that was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckedItem {
    /// Its name, as the program printed it.
    pub name: String,
    /// When the line arrived outside the layer, nanoseconds after the first one.
    pub ns: u64,
}

/// What a check says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemCheck {
    /// Items that it calls lost, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Items that it calls torn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub torn: Vec<String>,
    /// It ended with exit code 1: something is wrong.
    #[serde(default)]
    pub fault: bool,
    /// The last line that it printed and that names no item, for a fault without items.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub said: String,
}

impl ItemCheck {
    /// It found nothing wrong.
    pub fn is_clean(&self) -> bool {
        !self.fault && self.lost.is_empty() && self.torn.is_empty()
    }
}

/// Which of the acknowledged items are missing, seen in the order of their acknowledgement.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LossOrder {
    /// All of them, by name, or because the check says that nothing can be read.
    All,
    /// The last ones: what is there is a beginning.
    Tail,
    /// A stretch before items that are there.
    Gap,
    /// Several stretches.
    Scattered,
}

impl LossOrder {
    /// As people read it.
    pub fn words(self) -> &'static str {
        match self {
            Self::All => "all items",
            Self::Tail => "the last items",
            Self::Gap => "earlier items, and later ones are there",
            Self::Scattered => "items here and there",
        }
    }
}

/// What one cut took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemsLost {
    /// Position of the first missing or damaged item in the log.
    pub first: usize,
    /// Items that are lost.
    pub lost: u64,
    /// Items that are damaged.
    pub torn: u64,
    /// Different items in all.
    pub of: u64,
    /// Which of all.
    pub order: LossOrder,
    /// From the first lost acknowledgement to the last one before the cut, nanoseconds.
    pub window_ns: u64,
}

/// What a check's answer means for what was acknowledged before a cut; `None`: nothing was lost. An answer that cannot
/// be believed is an error: it names an item that was not acknowledged.
pub fn judge_items(log: &[AckedItem], said: &ItemCheck) -> Result<Option<ItemsLost>, String> {
    // An item that was acknowledged again is missing if its last acknowledgement is.
    let places: BTreeMap<&str, usize> = log.iter().map(|i| i.name.as_str()).zip(0..).collect();
    let place = |name: &String| {
        let found = places.get(name.as_str()).copied();
        found.ok_or_else(|| format!("the check calls `{name}` lost, which was not acknowledged"))
    };
    let all = |names: &[String]| names.iter().map(place).collect::<Result<BTreeSet<_>, _>>();
    let (lost, torn) = (all(&said.lost)?, all(&said.torn)?);
    let missing: BTreeSet<usize> = lost.union(&torn).copied().collect();
    let window = |first: usize| match (log.get(first), log.last()) {
        (Some(from), Some(to)) => to.ns.saturating_sub(from.ns),
        _ => 0,
    };
    let Some(first) = missing.first().copied() else {
        // It cannot say which: to its user all are lost.
        return Ok((said.fault && !log.is_empty()).then(|| ItemsLost {
            first: 0,
            lost: places.len() as u64,
            torn: 0,
            of: places.len() as u64,
            order: LossOrder::All,
            window_ns: window(0),
        }));
    };
    Ok(Some(ItemsLost {
        first,
        lost: lost.difference(&torn).count() as u64,
        torn: torn.len() as u64,
        of: places.len() as u64,
        order: order(&places.into_values().collect(), &missing),
        window_ns: window(first),
    }))
}

/// Where the missing ones of all items lie.
fn order(all: &BTreeSet<usize>, missing: &BTreeSet<usize>) -> LossOrder {
    if missing.len() == all.len() {
        return LossOrder::All;
    }
    let (mut stretches, mut inside) = (0, false);
    for place in all {
        let is_missing = missing.contains(place);
        stretches += u32::from(is_missing && !inside);
        inside = is_missing;
    }
    match (stretches, inside) {
        (1, true) => LossOrder::Tail,
        (1, false) => LossOrder::Gap,
        _ => LossOrder::Scattered,
    }
}

/// What power cuts did to the items of one program in one layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramCut {
    /// The layer, as the user wrote it.
    pub layer: String,
    /// The program's name.
    pub program: String,
    /// What it promises.
    #[serde(default)]
    pub promises: Promise,
    /// A layer that is cut because it is known to lie, or to be honest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<WitnessControl>,
    /// The user named this control as a layer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
    /// Items that it acknowledged, cuts or not.
    pub items: u64,
    /// Of these, items behind which ten lines of its output or more could be read already: it may have flushed between
    /// their acknowledgement and the moment at which it was seen.
    #[serde(default)]
    pub ahead: u64,
    /// Time from the first of them to the end of its work, ns.
    #[serde(default)]
    pub elapsed_ns: u64,
    /// Time of all cuts with their recovery and the check, ns. Absent in earlier runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuts_ns: Option<u64>,
    /// How it ended before it was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Why nothing can be said of it here: it did not start, acknowledged nothing, or its check is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncut: Option<String>,
    /// Items that the check missed before the power was cut, when only the program had been killed.
    #[serde(default)]
    pub lost_when_killed: u64,
    /// The check found nothing missing in an empty directory, so what it does not report may be lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blind: bool,
    /// Power cuts after which the check was run.
    pub cuts: u64,
    /// Of these, cuts after which something acknowledged was lost or damaged.
    pub losing: u64,
    /// Cuts of which nothing was seen.
    #[serde(flatten)]
    pub unseen: UnseenCuts,
    /// Power cuts after which the check failed, so that nothing is known; not in `cuts`.
    #[serde(default)]
    pub unchecked: u64,
    /// What it failed with first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchecked_why: Option<String>,
    /// Items that were lost, in all cuts.
    pub lost: u64,
    /// Items that were damaged, in all cuts.
    pub torn: u64,
    /// Items lost or damaged by the cut that took most.
    #[serde(default)]
    pub most_lost: u64,
    /// Different items acknowledged before that cut.
    #[serde(default)]
    pub most_of: u64,
    /// Losing cuts by which items were missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub orders: BTreeMap<LossOrder, u64>,
    /// Longest time between the acknowledgement of a lost item and the last one before the cut, ns.
    #[serde(default)]
    pub window_ns: u64,
    /// The earliest item that was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<LostItem>,
    /// In a report: how much is lost at most. Absent where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<LossExtent>,
}

/// How much of what a program acknowledged is lost at most. The largest is first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LossExtent {
    /// All of several items, by a cut in the second half of them: an early one takes all of what only the last time is lost of.
    All,
    /// Several stretches of items, with others between them that are there.
    Scattered,
    /// A stretch of items before others that are there.
    Gap,
    /// Those of the last time.
    Time,
    /// The last one.
    Last,
}

impl LossExtent {
    /// Of a program that lost something.
    pub fn of(cut: &ProgramCut) -> Self {
        let seen = |order: LossOrder| cut.orders.contains_key(&order);
        let late = cut.most_of.saturating_mul(2) >= cut.items;
        if cut.most_lost > 1 && cut.most_lost == cut.most_of && late {
            Self::All
        } else if seen(LossOrder::Scattered) {
            Self::Scattered
        } else if seen(LossOrder::Gap) {
            Self::Gap
        } else if cut.window_ns == 0 {
            Self::Last
        } else {
            Self::Time
        }
    }
}

/// The earliest item that a program lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostItem {
    /// Its name.
    pub name: String,
    /// Its number, from 1.
    pub number: u64,
    /// Items acknowledged before that cut.
    pub acknowledged: u64,
    /// When it was acknowledged, milliseconds since 1970 UTC.
    pub at_ms: i64,
    /// What the check said where it named no item.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub said: String,
}

impl ProgramCut {
    /// It lost what it had acknowledged.
    pub fn lost_items(&self) -> bool {
        self.losing > 0
    }

    /// Adds the answer of the check after one more cut. `log` is what was acknowledged before it, `started_ms` when the
    /// first item was, milliseconds since 1970 UTC.
    pub fn add(&mut self, log: &[AckedItem], said: &ItemCheck, started_ms: i64) {
        let lost = match judge_items(log, said) {
            Ok(lost) => lost,
            Err(why) => return self.add_failed(why),
        };
        self.cuts += 1;
        let Some(lost) = lost else { return };
        self.losing += 1;
        self.lost += lost.lost;
        self.torn += lost.torn;
        let taken = lost.lost + lost.torn;
        if taken > self.most_lost {
            (self.most_lost, self.most_of) = (taken, lost.of);
        }
        *self.orders.entry(lost.order).or_default() += 1;
        self.window_ns = self.window_ns.max(lost.window_ns);
        let number = lost.first as u64 + 1;
        if self
            .first
            .as_ref()
            .is_none_or(|known| number < known.number)
        {
            let item = &log[lost.first];
            self.first = Some(LostItem {
                name: item.name.clone(),
                number,
                acknowledged: log.len() as u64,
                at_ms: started_ms.saturating_add((item.ns / 1_000_000).cast_signed()),
                said: if lost.order == LossOrder::All {
                    said.said.clone()
                } else {
                    String::new()
                },
            });
        }
    }

    /// Adds a cut after which the check failed.
    pub fn add_failed(&mut self, why: String) {
        self.unchecked += 1;
        self.unchecked_why.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(n: u64) -> Vec<AckedItem> {
        let item = |n: u64| AckedItem {
            name: format!("row{n}"),
            ns: n * 1_000_000,
        };
        (1..=n).map(item).collect()
    }

    fn said(lost: &[u64], torn: &[u64]) -> ItemCheck {
        let names = |all: &[u64]| all.iter().map(|n| format!("row{n}")).collect();
        ItemCheck {
            lost: names(lost),
            torn: names(torn),
            fault: true,
            ..ItemCheck::default()
        }
    }

    /// "All of 600 items" was said of a server that loses a second at most.
    #[test]
    fn an_early_cut_that_takes_everything_takes_a_time() {
        let of = |most_of, items| {
            LossExtent::of(&ProgramCut {
                most_lost: most_of,
                most_of,
                items,
                window_ns: 9_000_000,
                ..ProgramCut::default()
            })
        };
        assert_eq!(of(600, 1500), LossExtent::Time);
        assert_eq!(
            (of(1400, 1500), of(2, 2)),
            (LossExtent::All, LossExtent::All)
        );
    }

    /// It was refused after the measurement.
    #[test]
    fn an_expression_that_is_none_is_refused_with_the_plan() {
        let program = |ack: &str| CutProgram {
            name: "queue".into(),
            run: "run".into(),
            check: "check".into(),
            ack: ack.into(),
            promises: Promise::Kept,
            time_ms: 1,
            parallel_checks: false,
        };
        assert_eq!(program(CutProgram::ACK).wrong(), None);
        let wrong = program("(").wrong().map(|(key, value, _)| (key, value));
        assert_eq!(wrong, Some(("power_cuts.programs.ack", "(".into())));
    }

    #[test]
    fn what_is_missing_is_told_by_its_place_among_the_items() {
        let log = log(10);
        let order = |lost: &[u64], torn: &[u64]| {
            let lost = judge_items(&log, &said(lost, torn)).unwrap().unwrap();
            (
                lost.order,
                lost.first,
                lost.lost,
                lost.torn,
                lost.window_ns / 1_000_000,
            )
        };
        assert_eq!(order(&[9, 10], &[]), (LossOrder::Tail, 8, 2, 0, 1));
        assert_eq!(order(&[4, 5], &[]), (LossOrder::Gap, 3, 2, 0, 6));
        assert_eq!(order(&[10], &[2]), (LossOrder::Scattered, 1, 1, 1, 8));
        // Damaged and lost at once is damaged.
        assert_eq!(order(&[10], &[10]), (LossOrder::Tail, 9, 0, 1, 0));
        let all: Vec<u64> = (1..=10).collect();
        assert_eq!(order(&all, &[]), (LossOrder::All, 0, 10, 0, 9));
        // A fault without names: nothing can be read.
        assert_eq!(order(&[], &[]), (LossOrder::All, 0, 10, 0, 9));
        assert_eq!(judge_items(&log, &ItemCheck::default()), Ok(None));
        assert_eq!(judge_items(&[], &said(&[], &[])), Ok(None));
    }

    #[test]
    fn a_check_that_names_what_was_never_acknowledged_is_not_believed() {
        let mut cut = ProgramCut::default();
        cut.add(&log(3), &said(&[7], &[]), 0);
        assert_eq!((cut.cuts, cut.losing, cut.unchecked), (0, 0, 1));
        let why = cut.unchecked_why.unwrap();
        assert!(why.contains("`row7`"), "{why}");
    }

    #[test]
    fn the_earliest_item_of_all_cuts_and_the_longest_window_are_kept() {
        let mut cut = ProgramCut::default();
        cut.add(&log(10), &ItemCheck::default(), 5);
        cut.add(&log(10), &said(&[10], &[]), 5);
        cut.add(&log(8), &said(&[6, 7, 8], &[]), 5);
        cut.add(&log(10), &said(&[9, 10], &[]), 5);
        assert_eq!((cut.cuts, cut.losing, cut.lost, cut.torn), (4, 3, 6, 0));
        assert_eq!(cut.window_ns, 2_000_000);
        assert_eq!((cut.most_lost, cut.most_of), (3, 8));
        assert_eq!(cut.orders, BTreeMap::from([(LossOrder::Tail, 3)]));
        let first = cut.first.unwrap();
        assert_eq!(
            (
                first.name.as_str(),
                first.number,
                first.acknowledged,
                first.at_ms
            ),
            ("row6", 6, 8, 11)
        );
    }

    /// The same key written again: only its last value can be asked for.
    #[test]
    fn an_item_that_was_acknowledged_twice_counts_once() {
        let mut log = log(3);
        log[2].name = "row1".into();
        let all = judge_items(&log, &said(&[1, 2], &[])).unwrap().unwrap();
        assert_eq!(
            (all.order, all.first, all.lost, all.of),
            (LossOrder::All, 1, 2, 2)
        );
    }
}
