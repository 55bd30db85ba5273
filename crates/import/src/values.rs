//! Checks numbers that a benchmark can have measured, and parses sizes as other programs write
//! them.

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

/// Parses a size: `4k`, `1m`, `4KiB`, `65536`. Units are powers of 1024, fio's default.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
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
    fn sizes_are_read_as_fio_reads_them() {
        for (text, expected) in [
            ("4k", 4096),
            ("4KiB", 4096),
            ("65536", 65536),
            ("1M", 1 << 20),
        ] {
            assert_eq!(size(text), Some(expected), "{text}");
        }
        for bad in [
            "",
            "k",
            "4q",
            "-4k",
            "4k-8k",
            "50%",
            "99999999999999999999",
            "18446744073709551615k",
        ] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_cannot_have_been_measured_is_refused() {
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e16] {
            assert!(rate("x", bad).unwrap_err().contains("x is"), "{bad}");
        }
        assert_eq!(clean(&format!("a\x1b[2J{}", "x".repeat(500))).len(), 203);
    }
}
