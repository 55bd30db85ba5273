//! Colours behind numbers: how large a ratio or a throughput is.

use crate::{
    ResultRow, Verdict,
    words::matrix::{shade_below, shade_from},
};

/// Ratios at which a stronger shade begins: about half a decade each. A ratio of 5.5 and one of 220
/// have different shades.
pub const BOUNDS: [f64; 5] = [1.5, 3.0, 10.0, 30.0, 100.0];
/// Share of the full colour in each shade. `style.css` has the same shares.
pub const SHARES: [f64; 6] = [0.09, 0.18, 0.28, 0.38, 0.50, 0.75];
/// Step of the highest throughput.
const LAST: f64 = 5.0;

/// Step of a ratio, from 1 to 6. A ratio and its inverse have the same step.
pub fn of_ratio(ratio: f64) -> usize {
    let size = ratio.max(1.0 / ratio);
    1 + BOUNDS.iter().filter(|bound| size >= **bound).count()
}

/// The colour of a cell of the matrix. Orange and blue differ for every kind of colour vision (Okabe
/// and Ito 2008), and their shades in brightness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shade {
    /// Slower, with its step.
    Slower(usize),
    /// Faster, with its step.
    Faster(usize),
    /// Within delta.
    Same,
    /// Not trusted.
    Untrusted,
    /// No verdict.
    Open,
}

impl Shade {
    /// The shade of a result. Probable verdicts have the lightest one.
    pub fn of(row: &ResultRow) -> Self {
        match (row.verdict, row.ratio, row.leaning()) {
            (Verdict::Slower, Some(r), _) => Self::Slower(of_ratio(r.estimate)),
            (Verdict::Faster, Some(r), _) => Self::Faster(of_ratio(r.estimate)),
            (Verdict::Same, ..) => Self::Same,
            (Verdict::Untrusted, ..) => Self::Untrusted,
            (.., Verdict::Slower) => Self::Slower(1),
            (.., Verdict::Faster) => Self::Faster(1),
            _ => Self::Open,
        }
    }

    /// The colour on white paper. None for a cell without a verdict.
    pub fn rgb(self) -> Option<[u8; 3]> {
        match self {
            Self::Slower(step) => Some(mixed([0xd5, 0x5e, 0x00], step)),
            Self::Faster(step) => Some(mixed([0x00, 0x72, 0xb2], step)),
            Self::Same => Some([0xe0, 0xf2, 0xec]),
            Self::Untrusted => Some([0xfa, 0xe4, 0xef]),
            Self::Open => None,
        }
    }
}

/// A colour of this step on white.
fn mixed(colour: [u8; 3], step: usize) -> [u8; 3] {
    let share = SHARES[step.clamp(1, SHARES.len()) - 1];
    colour.map(|c| (255.0 - share * (255.0 - f64::from(c))).round() as u8)
}

/// The shades in words, from the lightest: `<1.5x`, `1.5x`, ... `100x+`.
pub fn scale() -> [String; SHARES.len()] {
    std::array::from_fn(|n| match n {
        0 => shade_below(BOUNDS[0]).into(),
        n => shade_from(BOUNDS[n - 1], n == BOUNDS.len()).into(),
    })
}

/// The range of a table's throughputs.
pub struct Scale {
    /// Logarithms of the lowest and the highest.
    ends: (f64, f64),
}

impl Scale {
    /// The range of these numbers.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let logs = values.filter(|v| *v > 0.0).map(f64::ln);
        Self {
            ends: logs.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v))),
        }
    }

    /// Step of a throughput, from 0.
    pub fn step(&self, value: f64) -> f64 {
        let (low, high) = self.ends;
        if high <= low {
            return 0.0;
        }
        ((value.ln() - low) / (high - low) * LAST)
            .round()
            .clamp(0.0, LAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_grow_with_the_logarithm_of_the_ratio() {
        let steps = [1.02, 1.6, 5.5, 12.0, 48.0, 220.0].map(of_ratio);
        assert_eq!(steps, [1, 2, 3, 4, 5, 6]);
        assert_eq!(of_ratio(1.0 / 48.0), of_ratio(48.0));
        assert_eq!(scale(), ["<1.5x", "1.5x", "3x", "10x", "30x", "100x+"]);
    }

    #[test]
    fn the_page_has_the_same_shades() {
        for (step, share) in (1..).zip(SHARES) {
            for (class, colour) in [('s', 1), ('f', 0)] {
                let rule = format!(
                    ".{class}{step} {{ background: color-mix(in srgb, var(--c{colour}) {}%, var(--surface)); }}",
                    (share * 100.0).round()
                );
                assert!(crate::render::STYLE.contains(&rule), "{rule}");
            }
        }
    }
}
