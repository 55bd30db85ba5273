//! A comparison of two times of the same work: a number with its interval, and the verdict on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The number.
    pub estimate: f64,
    /// Its interval at the report's level. Absent below three pairs.
    pub interval: Option<[f64; 2]>,
    /// For a ratio to the baseline: the ratio of the averages, including stalls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<Average>,
}

/// Time over operations of all paired turns, here over the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Average {
    /// The ratio.
    pub estimate: f64,
    /// Its interval at the report's level: `BCa` bootstrap of sessions, then of their blocks.
    /// Absent below six blocks.
    pub interval: Option<[f64; 2]>,
}

impl Estimate {
    /// A number without an average.
    pub fn new(estimate: f64, interval: Option<[f64; 2]>) -> Self {
        Self {
            estimate,
            interval,
            average: None,
        }
    }

    /// Distance of a ratio from 1, as |ln|: that of 2 is that of 1/2.
    pub fn distance(&self) -> f64 {
        self.estimate.ln().abs()
    }

    /// Distance of the average from the number itself, as |ln|. Absent without an average.
    pub fn average_apart(&self) -> Option<f64> {
        Some((self.average?.estimate / self.estimate).ln().abs())
    }

    /// Half of a ratio's interval on the scale of logarithms. Absent without one.
    pub fn half_width(&self) -> Option<f64> {
        let [low, high] = self.interval?;
        Some((high / low).ln() / 2.0)
    }

    /// Whether a ratio is known to differ from 1 by more than this share, in either direction.
    pub fn differs_by_more_than(&self, delta: f64) -> bool {
        let beyond = 1.0 + delta;
        self.interval
            .is_some_and(|[low, high]| low > beyond || high < 1.0 / beyond)
    }
}

impl From<Average> for Estimate {
    fn from(Average { estimate, interval }: Average) -> Self {
        Self::new(estimate, interval)
    }
}

/// Verdict on a ratio.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within delta of the baseline.
    Same,
    /// Costs more.
    Slower,
    /// Costs less, which needs an explanation.
    Faster,
    /// The data does not decide.
    #[default]
    Undecided,
    /// The layer is the baseline.
    Baseline,
    /// Something other than the layer was measured.
    Untrusted,
    /// The plan requested no verdict here; the interval shows what is known.
    Descriptive,
}

impl Verdict {
    /// Whether the comparison is certain.
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Same | Self::Slower | Self::Faster)
    }

    /// The word in tables; empty if none was requested.
    pub fn word(self) -> &'static str {
        match self {
            Self::Undecided => "too noisy",
            Self::Untrusted => "not trusted",
            other => other.id(),
        }
    }

    /// The id for programs; empty if none was requested.
    pub fn id(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Undecided => "undecided",
            Self::Baseline => "baseline",
            Self::Untrusted => "untrusted",
            Self::Descriptive => "",
        }
    }
}

/// A comparison of two times of the same work, and the verdict on it. A row that has one holds it, or
/// ([`ResultRow`](super::ResultRow)) makes it of its fields, which the JSON contract has in another order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Time per operation over the reference's: above 1 is slower.
    pub ratio: Option<Estimate>,
    /// Additional microseconds per operation compared with the reference.
    pub extra_us: Option<Estimate>,
    /// Two-sided p of "it takes the reference's time".
    pub p: Option<f64>,
    /// `p` after Holm's correction over all rows.
    pub p_adjusted: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// `slower` or `faster` if the verdict is `undecided` and a weaker rule gives one of these.
    pub probably: Option<Verdict>,
    /// The largest difference, as a share, that the interval does not exclude.
    pub margin: Option<f64>,
    /// Missing blocks for an interval. Absent if there is one.
    pub more_blocks: Option<usize>,
}

impl Comparison {
    /// Takes its verdict away because something other than the layer was measured.
    pub fn distrust(&mut self) {
        self.verdict = Verdict::Untrusted;
        (self.probably, self.margin, self.more_blocks) = (None, None, None);
    }

    /// The verdict, or the probable one.
    pub fn leaning(&self) -> Verdict {
        self.probably.unwrap_or(self.verdict)
    }

    /// The verdict in a word or two, including the weaker ones.
    pub fn word(&self) -> &'static str {
        match self.probably {
            Some(Verdict::Slower) => "probably slower",
            Some(Verdict::Faster) => "probably faster",
            _ if self.verdict == Verdict::Undecided && self.more_blocks.is_some() => {
                "too few repeats"
            }
            _ => self.verdict.word(),
        }
    }
}
