//! Which acknowledged records survived. Pure: a log and a survey in, findings out.

use std::collections::{BTreeMap, BTreeSet};

use super::{Acknowledged, Checked, Content, Found, Outcome, Stamp, Survey, WitnessFinding};

/// What a check needs to know about the writer.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Its run.
    pub run: u64,
    /// Records acknowledged before the cut, in their order.
    pub log: &'a [Acknowledged],
    /// The one write that may have been under way, which was not acknowledged.
    pub under_way: Option<Stamp>,
    /// Number of the last record that is known to have been written. Above the log's last one if
    /// acknowledgements were lost on their way to the log.
    pub reached: u64,
    /// Blocks that held generation 0 on the disk before the first record.
    pub prepared: u64,
    /// Each block is a name of its own.
    pub named: bool,
    /// Names were synced with their directory. If not, a lost name is permitted.
    pub names_synced: bool,
}

impl Asked<'_> {
    /// Records that were written and are not in the log.
    fn unlogged(&self) -> std::ops::RangeInclusive<u64> {
        self.log.last().map_or(0, |a| a.sequence) + 1..=self.reached
    }

    /// Block and generation of a record, by its number.
    fn place(&self, sequence: u64) -> (u64, u64) {
        let before = sequence - 1;
        match self.prepared {
            0 => (before, 1),
            slots => (before % slots, before / slots + 1),
        }
    }

    /// Whether a write that is not in the log may have been under way in a block.
    fn being_written(&self, block: u64) -> bool {
        let mut unlogged = self.unlogged().rev().take(self.prepared.max(1) as usize);
        self.under_way.is_some_and(|s| s.block == block)
            || match self.prepared {
                0 => self.unlogged().contains(&block.saturating_add(1)),
                _ => unlogged.any(|sequence| self.place(sequence).0 == block),
            }
    }
}

/// What was acknowledged last in a block.
#[derive(Clone, Copy)]
struct Expected {
    sequence: u64,
    generation: u64,
}

/// Looks for each acknowledged record. A record that a later one of its block has replaced counts as
/// kept with it, and is lost with it only if an older one is there.
pub fn check(asked: &Asked, survey: &Survey) -> Checked {
    let mut expected: BTreeMap<u64, Expected> = (0..asked.prepared)
        .map(|block| {
            let prepared = Expected {
                sequence: 0,
                generation: 0,
            };
            (block, prepared)
        })
        .collect();
    for ack in asked.log {
        let last = Expected {
            sequence: ack.sequence,
            generation: ack.generation,
        };
        expected.insert(ack.block, last);
    }
    let mut checked = Checked {
        acknowledged: asked.log.len() as u64,
        ..Checked::default()
    };
    // Blocks that are absent or older than acknowledged, and the generation that is there.
    let mut held: BTreeMap<u64, Option<u64>> = BTreeMap::new();
    let mut survived = BTreeSet::new();
    let found: BTreeMap<u64, &Found> = survey.found.iter().map(|f| (f.block, f)).collect();
    for (block, last) in &expected {
        let (outcome, text, there) = match found.get(block) {
            _ if survey.absent => (Outcome::LostName, "its file is absent".into(), None),
            _ if survey.damage.is_some() && !found.contains_key(block) => {
                let why = survey.damage.as_deref().unwrap_or_default();
                (Outcome::Damaged, unreadable(why), None)
            }
            None if asked.named => (Outcome::LostName, "its name is absent".into(), None),
            None => (Outcome::Lost, "it is absent".into(), None),
            Some(found) => judge(asked, *block, *last, &found.content),
        };
        held.insert(*block, there);
        if outcome == Outcome::Kept {
            survived.extend(sequence_of(found.get(block)));
            continue;
        }
        checked.findings.push(WitnessFinding {
            outcome,
            sequence: last.sequence,
            block: *block,
            text,
            permitted: outcome == Outcome::LostName && !survey.absent && !asked.names_synced,
        });
    }
    checked.missing = missing(asked.log, &held);
    checked.kept = checked.acknowledged - checked.missing.len() as u64;
    for found in survey
        .found
        .iter()
        .filter(|f| !expected.contains_key(&f.block))
    {
        checked.findings.extend(unexpected(asked, found));
    }
    if let Some(damage) = survey.damage.as_ref().filter(|_| checked.is_kept()) {
        let last = asked.log.last();
        checked.findings.push(WitnessFinding {
            outcome: Outcome::Damaged,
            sequence: last.map_or(0, |a| a.sequence),
            block: last.map_or(0, |a| a.block),
            text: unreadable(damage),
            permitted: false,
        });
    }
    checked.findings.extend(order(&checked, &survived));
    checked.findings.sort_by_key(|f| (f.sequence, f.outcome));
    checked
}

fn unreadable(why: &str) -> String {
    format!("it cannot be read: {why}")
}

fn sequence_of(found: Option<&&Found>) -> Option<u64> {
    match found?.content {
        Content::Whole(stamp) => Some(stamp.sequence),
        _ => None,
    }
}

/// Records of which neither their generation of their block nor a later one is there.
fn missing(log: &[Acknowledged], held: &BTreeMap<u64, Option<u64>>) -> Vec<u64> {
    let absent = |ack: &&Acknowledged| {
        let generation = held.get(&ack.block).copied().flatten();
        generation.is_none_or(|g| g < ack.generation)
    };
    log.iter().filter(absent).map(|ack| ack.sequence).collect()
}

/// What a block that has an acknowledged record holds, in words, and the generation that is there.
fn judge(
    asked: &Asked,
    block: u64,
    last: Expected,
    content: &Content,
) -> (Outcome, String, Option<u64>) {
    let being_written = asked.being_written(block);
    match content {
        Content::Whole(stamp) => match wrong(asked, block, stamp) {
            Some((outcome, text)) => (outcome, text, None),
            None if stamp.generation < last.generation => {
                let text = format!(
                    "generation {} of the block is there, and {} was acknowledged",
                    stamp.generation, last.generation
                );
                (Outcome::Lost, text, Some(stamp.generation))
            }
            None => (Outcome::Kept, String::new(), Some(stamp.generation)),
        },
        // The write under way may be torn: it replaces the acknowledged one in place.
        Content::Torn { .. } if being_written && !asked.named => {
            (Outcome::Kept, String::new(), Some(last.generation))
        }
        Content::Torn { sound, units } => {
            let text = format!("{sound} of its {units} units of 512 bytes are of one write");
            (Outcome::Torn, text, None)
        }
        Content::Empty => (Outcome::Lost, "its block is empty".into(), None),
    }
}

/// Why a whole record cannot be one that was written here.
fn wrong(asked: &Asked, block: u64, stamp: &Stamp) -> Option<(Outcome, String)> {
    if stamp.run != asked.run {
        let text = format!("a record of run {:016x} is there", stamp.run);
        return Some((Outcome::Phantom, text));
    }
    if stamp.block != block {
        let text = format!(
            "record {} of block {} is there",
            stamp.sequence, stamp.block
        );
        return Some((Outcome::Misplaced, text));
    }
    if asked.under_way == Some(*stamp) || (stamp.sequence == 0 && stamp.generation == 0) {
        return None;
    }
    if asked.unlogged().contains(&stamp.sequence)
        && asked.place(stamp.sequence) == (stamp.block, stamp.generation)
    {
        return None;
    }
    let at = asked
        .log
        .binary_search_by_key(&stamp.sequence, |a| a.sequence);
    let written = at.is_ok_and(|at| {
        let ack = asked.log[at];
        (ack.block, ack.generation) == (stamp.block, stamp.generation)
    });
    (!written).then(|| {
        let text = format!(
            "record {} is there, which was never written",
            stamp.sequence
        );
        (Outcome::Phantom, text)
    })
}

/// A block that nothing was acknowledged in. What the write under way left there is permitted.
fn unexpected(asked: &Asked, found: &Found) -> Option<WitnessFinding> {
    let being_written = asked.being_written(found.block);
    let (outcome, sequence, text) = match &found.content {
        Content::Whole(stamp) => {
            let (outcome, text) = wrong(asked, found.block, stamp)?;
            (outcome, stamp.sequence, text)
        }
        Content::Empty => return None,
        Content::Torn { .. } if being_written => return None,
        Content::Torn { .. } => {
            let text = "it holds data that was never written there".to_owned();
            (Outcome::Phantom, 0, text)
        }
    };
    Some(WitnessFinding {
        outcome,
        sequence,
        block: found.block,
        text,
        permitted: false,
    })
}

/// The first lost record that a later one survived. Serial writes reach the disk in their order when
/// each fsync does what it says.
fn order(checked: &Checked, survived: &BTreeSet<u64>) -> Option<WitnessFinding> {
    let lost = |f: &&WitnessFinding| matches!(f.outcome, Outcome::Lost | Outcome::LostName);
    let first = checked.broken().filter(lost).min_by_key(|f| f.sequence)?;
    let later = survived.range(first.sequence + 1..).next()?;
    Some(WitnessFinding {
        outcome: Outcome::OrderViolation,
        text: format!("record {later}, written after it was acknowledged, survived"),
        ..first.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u64 = 7;
    const SLOTS: u64 = 4;

    /// Record `sequence` of a writer with four blocks that are overwritten in turn.
    fn stamp(sequence: u64) -> Stamp {
        Stamp {
            run: RUN,
            block: (sequence - 1) % SLOTS,
            sequence,
            generation: (sequence - 1) / SLOTS + 1,
        }
    }

    fn log(n: u64) -> Vec<Acknowledged> {
        let ack = |sequence| {
            let s = stamp(sequence);
            Acknowledged {
                sequence,
                block: s.block,
                generation: s.generation,
                ns: sequence * 1000,
            }
        };
        (1..=n).map(ack).collect()
    }

    fn asked(log: &[Acknowledged]) -> Asked<'_> {
        Asked {
            run: RUN,
            log,
            under_way: Some(stamp(log.len() as u64 + 1)),
            reached: log.len() as u64,
            prepared: SLOTS,
            named: false,
            names_synced: true,
        }
    }

    /// What an honest layer holds after `n` records.
    fn survey(n: u64) -> Survey {
        let mut found: Vec<Found> = (0..SLOTS)
            .map(|block| Found {
                block,
                content: Content::Whole(Stamp {
                    run: RUN,
                    block,
                    ..Stamp::default()
                }),
            })
            .collect();
        for sequence in 1..=n {
            let s = stamp(sequence);
            found[s.block as usize].content = Content::Whole(s);
        }
        Survey {
            found,
            ..Survey::default()
        }
    }

    /// Outcomes of broken findings, after `change` was made to an honest survey of ten records.
    fn broken(change: impl FnOnce(&mut Survey)) -> Vec<Outcome> {
        let (log, mut survey) = (log(10), survey(10));
        change(&mut survey);
        let checked = check(&asked(&log), &survey);
        checked.broken().map(|f| f.outcome).collect()
    }

    #[test]
    fn an_honest_layer_is_acquitted_whatever_the_write_under_way_left() {
        for n in 0..12 {
            let log = log(n);
            for there in [n, n + 1] {
                let checked = check(&asked(&log), &survey(there));
                assert!(checked.is_kept(), "{n}: {checked:?}");
                assert_eq!((checked.kept, checked.acknowledged), (n, n));
            }
            let mut torn = survey(n);
            let block = stamp(n + 1).block as usize;
            torn.found[block].content = Content::Torn { sound: 3, units: 8 };
            assert!(check(&asked(&log), &torn).is_kept(), "{n}");
        }
    }

    #[test]
    fn each_damage_has_its_name() {
        // Records 7, 8, 9 and 10 are the last ones of blocks 2, 3, 0 and 1; 11 is under way in block 2.
        assert_eq!(broken(|_| {}), []);
        let lost = [Outcome::Lost];
        assert_eq!(
            broken(|s| s.found[1].content = Content::Whole(stamp(6))),
            lost
        );
        assert_eq!(broken(|s| s.found[1].content = Content::Empty), lost);
        assert_eq!(
            broken(|s| {
                s.found.remove(1);
            }),
            lost
        );
        let torn = |s: &mut Survey| s.found[1].content = Content::Torn { sound: 4, units: 8 };
        assert_eq!(broken(torn), [Outcome::Torn]);
        let other_run = Stamp {
            run: 8,
            ..stamp(10)
        };
        let phantom = [Outcome::Phantom];
        assert_eq!(
            broken(|s| s.found[1].content = Content::Whole(other_run)),
            phantom
        );
        assert_eq!(
            broken(|s| s.found[1].content = Content::Whole(stamp(14))),
            phantom
        );
        let misplaced = |s: &mut Survey| s.found[1].content = Content::Whole(stamp(9));
        assert_eq!(broken(misplaced), [Outcome::Misplaced]);
        // 8 is lost, and 9 and 10 survived it.
        let hole = |s: &mut Survey| s.found[3].content = Content::Whole(stamp(4));
        assert_eq!(broken(hole), [Outcome::Lost, Outcome::OrderViolation]);
        assert_eq!(broken(|s| s.absent = true), [Outcome::LostName; 4]);
        assert_eq!(
            broken(|s| s.damage = Some("row 3 missing".into())),
            [Outcome::Damaged]
        );
    }

    /// "2432 lost" was said of 40 records and 38 cuts: 64 blocks that were made before the first one.
    #[test]
    fn no_more_records_are_lost_than_were_acknowledged() {
        let (log, mut survey) = (log(2), survey(2));
        survey.absent = true;
        let checked = check(&asked(&log), &survey);
        let counts = checked.counts();
        let lost = [Outcome::LostName, Outcome::LostPrepared].map(|o| counts[&o]);
        assert_eq!(lost, [2, SLOTS - 2]);
        assert_eq!(checked.acknowledged, 2);
    }

    #[test]
    fn a_name_that_was_not_synced_may_be_lost_and_its_file_may_not_be_damaged() {
        let log = log(3);
        let permitted = Asked {
            prepared: 0,
            named: true,
            names_synced: false,
            ..asked(&log)
        };
        let mut survey = survey(3);
        survey.found.truncate(3);
        let torn = Found {
            block: 0,
            content: Content::Torn { sound: 1, units: 8 },
        };
        survey.found.remove(2);
        let checked = check(&permitted, &survey);
        assert!(checked.is_kept() && checked.kept == 2, "{checked:?}");
        assert_eq!(checked.counts()[&Outcome::LostName], 1);
        let synced = Asked {
            names_synced: true,
            ..permitted
        };
        assert!(!check(&synced, &survey).is_kept());
        survey.found[0] = torn;
        assert!(!check(&permitted, &survey).is_kept());
    }

    /// The link to the log was cut before the power was.
    #[test]
    fn acknowledgements_that_never_reached_the_log_convict_nobody() {
        let log = log(8);
        let whole = survey(11);
        assert!(!check(&asked(&log), &whole).is_kept());
        let reached = Asked {
            reached: 11,
            under_way: Some(stamp(12)),
            ..asked(&log)
        };
        assert!(check(&reached, &whole).is_kept());
        let mut torn = whole;
        let block = stamp(11).block as usize;
        torn.found[block].content = Content::Torn { sound: 1, units: 8 };
        assert!(check(&reached, &torn).is_kept());
        assert!(!check(&reached, &survey(7)).is_kept());
    }

    proptest::proptest! {
        /// A layer that keeps a prefix of the writes is convicted exactly if the prefix is shorter than
        /// what it acknowledged.
        #[test]
        fn a_prefix_is_convicted_exactly_where_it_is_too_short(n in 0u64..40, there in 0u64..40) {
            let there = there.min(n + 1);
            let log = log(n);
            let checked = check(&asked(&log), &survey(there));
            proptest::prop_assert_eq!(checked.is_kept(), there >= n);
            proptest::prop_assert_eq!(checked.kept, there.min(n));
        }

        /// Any change of one block beside the one being written is found.
        #[test]
        fn any_other_content_is_convicted(n in 1u64..40, block in 0u64..SLOTS, kind in 0u8..4) {
            let log = log(n);
            let asked = asked(&log);
            let expected = log.iter().rev().find(|a| a.block == block);
            proptest::prop_assume!(expected.is_some() && stamp(n + 1).block != block);
            let mut survey = survey(n);
            let at = block as usize;
            let was = stamp(expected.unwrap().sequence);
            survey.found[at].content = match kind {
                0 => Content::Empty,
                1 => Content::Torn { sound: 7, units: 8 },
                2 => Content::Whole(Stamp { generation: was.generation - 1, sequence: was.sequence.saturating_sub(SLOTS), ..was }),
                _ => Content::Whole(Stamp { run: was.run + 1, ..was }),
            };
            proptest::prop_assert!(!check(&asked, &survey).is_kept());
        }
    }
}
