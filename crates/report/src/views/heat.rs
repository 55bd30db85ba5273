//! Steps of the colour scale behind numbers, for formats with colours.

use crate::{ResultRow, analysis::size_table::LayerTable};

/// The last step.
const LAST: f64 = 5.0;

/// Step of a ratio, from 1: one more for each factor of 1.5.
pub fn of_ratio(ratio: f64) -> f64 {
    (ratio.ln().abs() / 1.5f64.ln()).ceil().clamp(1.0, LAST)
}

/// The range of a table's throughputs.
pub struct Scale {
    /// Logarithms of the lowest and the highest.
    ends: (f64, f64),
}

impl Scale {
    /// The range of all numbers of the table.
    pub fn of(table: &LayerTable) -> Self {
        let values = table.measured().filter_map(|r: &ResultRow| r.value);
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
