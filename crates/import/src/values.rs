//! Checks numbers that a benchmark can have measured.

/// Sizes as other programs write them.
pub use layermark_model::binary_size as size;

/// An upper bound of any rate, bytes or operations per second.
const FASTEST: f64 = 1e15;
/// An upper bound of any time, microseconds: thirty years.
const LONGEST: f64 = 1e15;

/// A rate per second: finite, not negative, below the bound.
pub fn rate(what: &str, value: f64) -> Result<f64, String> {
    bounded(what, value, FASTEST, "a rate")
}

/// Microseconds: finite, not negative, below the bound.
pub fn micros(what: &str, value: f64) -> Result<f64, String> {
    bounded(what, value, LONGEST, "a time")
}

fn bounded(what: &str, value: f64, most: f64, kind: &str) -> Result<f64, String> {
    if value.is_finite() && (0.0..=most).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{what} is {value}, which is not {kind}"))
    }
}

/// Text for people only, of bounded length.
pub fn clean(text: &str) -> String {
    const MOST: usize = 200;
    let mut out: String = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MOST)
        .collect();
    if text.trim().chars().count() > MOST {
        out.push_str("...");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_have_been_measured_is_refused() {
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e16] {
            assert!(rate("x", bad).unwrap_err().contains("x is"), "{bad}");
        }
        assert_eq!(clean(&format!("a\x1b[2J{}", "x".repeat(500))).len(), 203);
    }
}
