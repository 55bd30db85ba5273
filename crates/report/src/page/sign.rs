//! Signs of the matrix, and what each means.

use crate::facts::stalls;

/// A sign that replaces a ratio, or stands beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// The inverse of a ratio is written.
    Faster,
    /// The verdict is probable.
    Probably,
    /// The difference does not matter.
    Same,
    /// An estimate with the half-width of its interval, which does not decide.
    Noisy,
    /// An estimate of too few blocks.
    Open,
    /// The ratio changed during the run.
    Drifts,
    /// Too much of the time waited for a CPU.
    Waits,
    /// Something other than the layer was measured.
    Untrusted,
    /// There is no result.
    Missing,
    /// The plan asks for no verdict.
    Unasked,
    /// Typical time and average differ.
    Stalls,
    /// Faster or not, its flushes do not reach the device.
    Unflushed,
    /// The half-width of an interval is larger than its estimate.
    Wild,
}

impl Sign {
    /// In the order of legends.
    pub const ALL: [Self; 13] = [
        Self::Faster,
        Self::Probably,
        Self::Same,
        Self::Noisy,
        Self::Wild,
        Self::Open,
        Self::Drifts,
        Self::Waits,
        Self::Untrusted,
        Self::Missing,
        Self::Unasked,
        Self::Stalls,
        Self::Unflushed,
    ];

    /// The sign as a cell shows it, or an example.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Faster => "3.0x faster:",
            Self::Probably => "~",
            Self::Same => "=",
            Self::Noisy => "0.97 \u{b1}5%:",
            Self::Open => "?",
            Self::Drifts => "?drift",
            Self::Waits => "?cpu",
            Self::Untrusted => "!",
            Self::Missing => "-",
            Self::Unasked => "(1.80x)",
            Self::Stalls => stalls::SIGN,
            Self::Unflushed => "#",
            Self::Wild => "?noise",
        }
    }

    /// What it means.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Faster => "a ratio of 1/3.0",
            Self::Probably => "probably",
            Self::Same => "same",
            Self::Noisy => "too noisy for a verdict",
            Self::Open => "no verdict: measured too few times",
            Self::Drifts => "no steady state, so no number",
            Self::Waits => "no verdict: too much of the time waited for a CPU",
            Self::Untrusted => "not trusted",
            Self::Missing => "none",
            Self::Unasked => "no verdict asked",
            Self::Stalls => {
                "usual time alone: a few operations take so long that the average is far from it"
            }
            Self::Unflushed => "fsync does not wait for the disk: a power cut may lose the data",
            Self::Wild => "too noisy for a number",
        }
    }
}

/// The signs of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignSet(u16);

impl SignSet {
    /// Whether the cell has this sign.
    pub fn has(self, sign: Sign) -> bool {
        self.0 & Self::bit(sign) != 0
    }

    /// The signs of both.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn with(self, sign: Sign) -> Self {
        Self(self.0 | Self::bit(sign))
    }

    fn bit(sign: Sign) -> u16 {
        1 << sign as u16
    }
}
