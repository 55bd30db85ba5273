//! Which unflushed writes a power cut leaves on a disk.

use std::fmt;

use crate::fuse::requests::mixed;

/// Up to this many unflushed writes, every subset of them is tried.
pub const EXHAUSTIVE: usize = 10;

/// Which of the writes that are only in the cache survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Each of them: the cache was written back just before the cut.
    All,
    /// None of them.
    None,
    /// Those whose bit is set, the first write in the lowest bit.
    Subset(u64),
    /// Each with a chance of one half, drawn from this seed.
    Seeded(u64),
    /// Each whole, not at all, up to some sector, or in some of its sectors, drawn from this seed.
    Torn(u64),
}

/// What is left of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Whole,
    Nothing,
    Sectors(Sectors),
}

/// Some sectors of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sectors {
    /// Each with a chance of one half.
    Some(u64),
    /// The first ones: an eighth to seven eighths of eight.
    First(u64),
}

impl Sectors {
    /// Whether the `n`th sector of the write is kept.
    pub(super) fn has(self, n: u64) -> bool {
        match self {
            Self::Some(seed) => mixed(seed ^ n) & 1 == 1,
            Self::First(count) => n < count,
        }
    }
}

impl Choice {
    /// Choices for a cut with this many writes in the cache: each subset of up to [`EXHAUSTIVE`]; else
    /// all, none and `seeds` random subsets. In both cases `seeds` more in which writes are torn.
    pub fn of_cached(cached: usize, seeds: u64) -> Vec<Self> {
        if cached == 0 {
            return vec![Self::None];
        }
        let mut choices: Vec<Self> = if cached <= EXHAUSTIVE {
            (0..1 << cached).map(Self::Subset).collect()
        } else {
            let seeded = (0..seeds).map(Self::Seeded);
            [Self::All, Self::None].into_iter().chain(seeded).collect()
        };
        choices.extend((0..seeds).map(Self::Torn));
        choices
    }

    /// What is left of the write that is the `index`th in the cache.
    pub(super) fn of(self, index: u64) -> Kept {
        let whole = |kept| if kept { Kept::Whole } else { Kept::Nothing };
        let drawn = |seed| mixed(mixed(seed).wrapping_add(index));
        match self {
            Self::All => Kept::Whole,
            Self::None => Kept::Nothing,
            Self::Subset(bits) => whole(index < 64 && bits >> index & 1 == 1),
            Self::Seeded(seed) => whole(drawn(seed) & 1 == 1),
            Self::Torn(seed) => {
                let drawn = drawn(seed);
                match drawn & 3 {
                    0 => Kept::Nothing,
                    1 => Kept::Whole,
                    2 => Kept::Sectors(Sectors::First(1 + (drawn >> 2) % 7)),
                    _ => Kept::Sectors(Sectors::Some(drawn)),
                }
            }
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::None => f.write_str("none"),
            Self::Subset(bits) => write!(f, "subset={bits}"),
            Self::Seeded(seed) => write!(f, "seed={seed}"),
            Self::Torn(seed) => write!(f, "torn={seed}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_cover_every_subset() {
        let choices = Choice::of_cached(3, 2);
        assert_eq!(choices.len(), 8 + 2);
        let many = Choice::of_cached(EXHAUSTIVE + 1, 4);
        assert_eq!(many.len(), 2 + 4 + 4);
        assert_eq!(Choice::of_cached(0, 4), [Choice::None]);
    }

    #[test]
    fn seeds_differ_and_tear() {
        let of = |choice: Choice| (0..64).map(|n| choice.of(n)).collect::<Vec<_>>();
        assert_ne!(of(Choice::Seeded(0)), of(Choice::Seeded(1)));
        let torn = of(Choice::Torn(0));
        for part in [Sectors::First(1), Sectors::Some(1)] {
            let same = |kept: &&Kept| {
                matches!(
                    (kept, part),
                    (Kept::Sectors(Sectors::First(_)), Sectors::First(_))
                ) || matches!(
                    (kept, part),
                    (Kept::Sectors(Sectors::Some(_)), Sectors::Some(_))
                )
            };
            assert!(torn.iter().any(|k| same(&k)), "{part:?}");
        }
    }
}
