//! A closed interval of real numbers.

/// A closed interval `[low, high]`, in the unit of the quantity it describes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end, included.
    pub low: f64,
    /// Upper end, included.
    pub high: f64,
}

impl Interval {
    /// `high - low`.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }

    /// Half of [`Interval::width`].
    pub fn half_width(&self) -> f64 {
        self.width() / 2.0
    }

    /// Whether `x` lies inside, ends included. Always false for NaN.
    pub fn contains(&self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    /// The interval of the logarithm: from ratios to log ratios, as [`crate::reached`] requires it.
    #[must_use]
    pub fn ln(&self) -> Self {
        Self {
            low: self.low.ln(),
            high: self.high.ln(),
        }
    }

    /// The interval of the exponential: from log ratios to ratios.
    #[must_use]
    pub fn exp(&self) -> Self {
        Self {
            low: self.low.exp(),
            high: self.high.exp(),
        }
    }

    /// The smallest interval that covers both.
    #[must_use]
    pub fn hull(&self, other: &Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Interval;

    #[test]
    fn measures_itself() {
        let i = Interval {
            low: 0.5,
            high: 2.0,
        };
        assert!((i.width() - 1.5).abs() < 1e-15);
        assert!((i.half_width() - 0.75).abs() < 1e-15);
        assert!(i.contains(0.5) && i.contains(2.0) && !i.contains(2.1) && !i.contains(f64::NAN));
        assert!((i.ln().low + i.ln().high).abs() < 1e-15);
        assert!((i.ln().exp().high - 2.0).abs() < 1e-15);
        let j = Interval {
            low: 1.0,
            high: 3.0,
        };
        assert_eq!(
            i.hull(&j),
            Interval {
                low: 0.5,
                high: 3.0
            }
        );
    }
}
