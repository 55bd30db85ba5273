//! Moments at which the power is cut, and which of the unflushed writes survive.

use std::collections::BTreeSet;

use layermark_layers::volatile::{Choice, EXHAUSTIVE, Journal};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How many moments are drawn in search of one with few enough unflushed writes.
const TRIES: usize = 64;

/// A point of the journal, and what survives a cut there.
pub(super) type State = (usize, Choice);

/// `cuts` states between two points. In the first nothing that was not flushed survives the end of the
/// writing. Then nothing unflushed survives just after each of `acknowledged`, the latest first: a flush of
/// a later writer may cover what was acknowledged and not flushed. Then all of it survives the end. Up to
/// half of the others are every subset of the unflushed writes at some moments, where those are
/// [`EXHAUSTIVE`] or fewer. The rest are at a moment each.
pub(super) fn drawn(
    seed: u64,
    cuts: usize,
    (from, to): (usize, usize),
    acknowledged: impl IntoIterator<Item = usize>,
    journal: &Journal,
) -> Vec<State> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut boundaries = journal.points();
    boundaries.retain(|p| (from..=to).contains(p));
    // Half of the moments are where a flush began or ended, or between two.
    let moment = |random: &mut ChaCha8Rng| {
        let at_boundary = random.random() && !boundaries.is_empty();
        if at_boundary {
            boundaries[random.random_range(0..boundaries.len())]
        } else {
            random.random_range(from..=to)
        }
    };
    let mut moments = BTreeSet::from_iter(acknowledged);
    moments.retain(|point| (from..to).contains(point));
    moments.insert(to);
    let mut states: Vec<State> = moments.iter().rev().map(|p| (*p, Choice::None)).collect();
    // Before what acknowledgements there are: with two cuts, one leaves nothing unflushed and the other all of it.
    states.insert(1, (to, Choice::All));
    let certain = states.len();
    let half = cuts.saturating_sub(certain) / 2;
    moments.clear();
    // One write has two subsets. Each try looks at all writes before it.
    let tries = if half < 2 { 0 } else { TRIES };
    for _ in 0..tries {
        let point = moment(&mut random);
        let cached = journal.cached(point);
        let fits =
            (1..=EXHAUSTIVE).contains(&cached) && states.len() - certain + (1 << cached) <= half;
        if fits && moments.insert(point) {
            states.extend((0..1 << cached).map(|bits| (point, Choice::Subset(bits))));
        }
    }
    for number in states.len()..cuts.max(states.len()) {
        let choice = match number % 4 {
            0 => Choice::None,
            3 => Choice::Torn(random.random()),
            _ => Choice::Seeded(random.random()),
        };
        states.push((moment(&mut random), choice));
    }
    states.truncate(cuts);
    states
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use layermark_layers::volatile::{Event, Mark, Write};

    use super::*;

    /// Flushes with these numbers of writes before each.
    fn journal(writes: &[usize]) -> Journal {
        let mut journal = Journal::default();
        let (mut end, mut covers) = (0, 0);
        for count in writes {
            for _ in 0..*count {
                end += 1;
                let write = Write {
                    offset: end * 4096,
                    length: 4096,
                    data: 0,
                    stable: false,
                };
                journal.push(Event::Write(write), Mark(end));
            }
            (end, covers) = (end + 1, covers + count);
            journal.push(
                Event::Flush {
                    covers,
                    failed: false,
                },
                Mark(end),
            );
        }
        journal
    }

    /// Points whose every subset is among the states.
    fn exhausted(states: &[State], journal: &Journal) -> usize {
        let points: BTreeSet<usize> = states.iter().map(|(point, _)| *point).collect();
        let subsets = |point: usize| {
            let of = states
                .iter()
                .filter(|(p, c)| *p == point && matches!(c, Choice::Subset(_)));
            of.collect::<HashSet<_>>().len()
        };
        let all = |point: &&usize| {
            journal.cached(**point) > 0 && subsets(**point) == 1 << journal.cached(**point)
        };
        points.iter().filter(all).count()
    }

    #[test]
    fn every_subset_of_few_unflushed_writes_survives_once() {
        let journal = journal(&[3; 20]);
        let range = (0, journal.events().len());
        for seed in 0..20 {
            let states = drawn(seed, 38, range, [], &journal);
            assert_eq!(states.len(), 38);
            assert_eq!(states, drawn(seed, 38, range, [], &journal));
            assert_eq!(
                states[..2],
                [(range.1, Choice::None), (range.1, Choice::All)]
            );
            assert!(exhausted(&states, &journal) >= 2, "{states:?}");
            // And the rest are elsewhere: cuts at many moments.
            let moments: BTreeSet<usize> = states.iter().map(|(point, _)| *point).collect();
            assert!(moments.len() >= 12, "{moments:?}");
            assert!(
                states.iter().any(|(_, c)| matches!(c, Choice::Torn(_))),
                "{states:?}"
            );
        }
        // Ten unflushed writes have 1024 subsets, eleven have none that are all tried.
        let ten = self::journal(&[10]);
        assert_eq!(exhausted(&drawn(1, 4096, (10, 11), [], &ten), &ten), 1);
        let eleven = self::journal(&[11]);
        assert_eq!(
            exhausted(&drawn(1, 4096, (11, 12), [], &eleven), &eleven),
            0
        );
    }

    #[test]
    fn there_are_as_many_states_as_cuts_and_all_are_between_the_points() {
        let journal = journal(&[1, 40, 2, 0]);
        for cuts in 0..60 {
            let states = drawn(7, cuts, (5, 43), [3, 9, 42, 43], &journal);
            assert_eq!(states.len(), cuts);
            assert!(
                states.iter().all(|(point, _)| (5..=43).contains(point)),
                "{states:?}"
            );
            // Before anything that is drawn: the end, twice, and the last acknowledgements.
            let certain = [
                (43, Choice::None),
                (43, Choice::All),
                (42, Choice::None),
                (9, Choice::None),
            ];
            let certain = &certain[..cuts.min(certain.len())];
            assert_eq!(states[..certain.len()], *certain);
        }
        assert_eq!(drawn(7, 3, (0, 0), [0], &Journal::default()).len(), 3);
    }
}
