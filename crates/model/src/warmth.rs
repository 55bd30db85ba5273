//! Whether a program was started from cold caches, by the counters of its own processes.

use crate::Trial;

/// What the counters of a program's processes prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmth {
    /// It waited for a device or a file system.
    Cold,
    /// It waited for neither.
    Warm,
    /// It waited so little that it may be either.
    Uncertain,
}

/// Up to this many major faults prove nothing: a page may have been reclaimed.
const FEW_FAULTS: u64 = 2;
/// Up to this many input blocks (32 KiB) prove nothing: for example, the directory of a log file.
const FEW_BLOCKS: u64 = 64;

impl Warmth {
    /// Of faults that had to wait for a device or a file system (`ru_majflt`), and blocks of 512 bytes read
    /// from block devices (`ru_inblock`, getrusage(2)).
    pub fn of(major_faults: u64, input_blocks: u64) -> Self {
        match (major_faults, input_blocks) {
            (0, 0) => Self::Warm,
            (f, b) if f <= FEW_FAULTS && b <= FEW_BLOCKS => Self::Uncertain,
            _ => Self::Cold,
        }
    }

    /// Its word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
            Self::Uncertain => "uncertain",
        }
    }
}

impl Trial {
    /// What the faults and blocks of its programs prove; absent where the trial did not count both.
    pub fn warmth(&self) -> Option<Warmth> {
        let count = |name| Some(self.figures.number(name)? as u64);
        Some(Warmth::of(count("major_faults")?, count("input_blocks")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_tell_cold_from_warm() {
        assert_eq!(Warmth::of(0, 0), Warmth::Warm);
        assert_eq!(Warmth::of(1, 8), Warmth::Uncertain);
        assert_eq!(Warmth::of(3, 0), Warmth::Cold);
        assert_eq!(Warmth::of(0, 4000), Warmth::Cold);
        let mut trial = Trial::default();
        trial.figures.set("major_faults", 3_u64);
        assert_eq!(trial.warmth(), None, "blocks were not counted");
        trial.figures.set("input_blocks", 0_u64);
        assert_eq!(trial.warmth(), Some(Warmth::Cold));
    }
}
