use std::time::Duration;

/// A size, count or duration that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number with a known unit.
    #[error(
        "`{0}` is not a size: write a number and K, M, G, T (powers of 1024) or kB, MB, KiB, MiB"
    )]
    Unreadable(String),
    /// Below zero.
    #[error("`{0}` is negative: a size starts at 1")]
    Negative(String),
    /// More bytes than fit in 63 bits.
    #[error("`{0}` is more than 8 EiB")]
    TooLarge(String),
    /// Not a count.
    #[error("`{0}` is not a count: write a whole number, 0 or above")]
    Count(String),
    /// More than fits in 63 bits.
    #[error("`{0}` is too large for a count")]
    LargeCount(String),
    /// A range whose end is below its start, or that starts at 0.
    #[error("`{0}` is not a range: write START..END with START at least 1 and not above END")]
    Range(String),
    /// Not a duration.
    #[error("`{0}` is not a duration: write a number and ms, s, m or h, such as 90s or 2m")]
    Duration(String),
    /// A duration that would become 0 milliseconds.
    #[error("`{0}` is shorter than 1ms: write 0, or at least 1ms")]
    Short(String),
}

/// Units: K, M, G, T and `KiB` are powers of 1024, kB and MB powers of 1000 (IEC 80000-13).
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("K", 1 << 10),
    ("k", 1 << 10),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("M", 1 << 20),
    ("m", 1 << 20),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("G", 1 << 30),
    ("g", 1 << 30),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("T", 1 << 40),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
];

/// A size as fio and other programs write it: `4k`, `1m`, `4KiB`, `65536`. All units are powers of 1024.
pub fn binary_size(text: &str) -> Option<u64> {
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

fn split(text: &str) -> (&str, &str) {
    let at = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    (&text[..at], text[at..].trim_start())
}

/// Parses a size in bytes: `4096`, `4K`, `1.5M`, `4kB`, `4KiB`.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(SizeError::Negative(text.into()));
    }
    let (number, unit) = split(text);
    let factor = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
        .ok_or_else(|| SizeError::Unreadable(text.into()))?;
    let bytes = if number.contains('.') {
        let value: f64 = number
            .parse()
            .map_err(|_| SizeError::Unreadable(text.into()))?;
        let bytes = value * factor as f64;
        if bytes > i64::MAX as f64 {
            return Err(SizeError::TooLarge(text.into()));
        }
        bytes as u64
    } else {
        if number.is_empty() {
            return Err(SizeError::Unreadable(text.into()));
        }
        let too_large = || SizeError::TooLarge(text.into());
        let value: u64 = number.parse().map_err(|_| too_large())?;
        value.checked_mul(factor).ok_or_else(too_large)?
    };
    if bytes > i64::MAX as u64 {
        return Err(SizeError::TooLarge(text.into()));
    }
    Ok(bytes)
}

/// Parses a count: a whole number without a unit.
fn parse_count(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(SizeError::Count(text.into()));
    }
    let count = text.parse().ok().filter(|n| i64::try_from(*n).is_ok());
    count.ok_or_else(|| SizeError::LargeCount(text.into()))
}

/// Parses one size, a comma list (`4K,64K`), or a doubling range (`32..4K` is 32, 64, ... 4096).
pub fn parse_sizes(text: &str) -> Result<Vec<u64>, SizeError> {
    parse_list(text, parse_size)
}

/// Parses one count, a comma list (`1,8`), or a doubling range (`1..8` is 1, 2, 4, 8).
pub fn parse_counts(text: &str) -> Result<Vec<u64>, SizeError> {
    parse_list(text, parse_count)
}

fn parse_list(
    text: &str,
    parse: impl Fn(&str) -> Result<u64, SizeError>,
) -> Result<Vec<u64>, SizeError> {
    let mut all = Vec::new();
    for part in text.split(',') {
        if let Some((start, end)) = part.split_once("..") {
            let (start, end) = (parse(start)?, parse(end)?);
            if start == 0 || start > end {
                return Err(SizeError::Range(part.trim().into()));
            }
            all.extend(
                std::iter::successors(Some(start), |s| s.checked_mul(2)).take_while(|s| *s <= end),
            );
        } else {
            all.push(parse(part)?);
        }
    }
    Ok(all)
}

/// Formats bytes with the largest power of 1024 that divides them: `4K`, `64M`, `1000`.
pub fn format_size(bytes: u64) -> String {
    [("T", 40), ("G", 30), ("M", 20), ("K", 10)]
        .into_iter()
        .find(|(_, shift)| bytes != 0 && bytes.is_multiple_of(1 << shift))
        .map_or_else(
            || bytes.to_string(),
            |(unit, shift)| format!("{}{unit}", bytes >> shift),
        )
}

/// Parses a duration: `500ms`, `90s`, `2m`, `1h`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, SizeError> {
    let bad = || SizeError::Duration(text.trim().into());
    let (number, unit) = split(text.trim());
    let value: f64 = number.parse().map_err(|_| bad())?;
    let seconds = match unit {
        "ms" => value / 1e3,
        "" | "s" => value,
        "m" | "min" => value * 60.0,
        "h" => value * 3600.0,
        _ => return Err(bad()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}

/// Parses a duration as milliseconds. One below 1 ms that is not 0 is an error.
pub fn parse_milliseconds(text: &str) -> Result<u64, SizeError> {
    let time = parse_duration(text)?;
    match u64::try_from(time.as_millis()) {
        Ok(0) if !time.is_zero() => Err(SizeError::Short(text.trim().into())),
        milliseconds => Ok(milliseconds.unwrap_or(u64::MAX)),
    }
}

/// Formats milliseconds with the largest unit that divides them: `1h`, `90s`, `300ms`.
pub fn format_milliseconds(milliseconds: u64) -> String {
    [("h", 3_600_000), ("m", 60_000), ("s", 1000)]
        .into_iter()
        .find(|(_, unit)| milliseconds != 0 && milliseconds.is_multiple_of(*unit))
        .map_or_else(
            || format!("{milliseconds}ms"),
            |(name, unit)| format!("{}{name}", milliseconds / unit),
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_every_unit() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("4K"), Ok(4096));
        assert_eq!(parse_size("4 KiB"), Ok(4096));
        assert_eq!(parse_size("4kB"), Ok(4000));
        assert_eq!(parse_size("1.5M"), Ok(1_572_864));
        assert_eq!(parse_sizes("32..256"), Ok(vec![32, 64, 128, 256]));
        assert_eq!(parse_sizes("1,4K"), Ok(vec![1, 4096]));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
    }

    #[test]
    fn refuses_what_is_not_a_size() {
        assert!(matches!(parse_size("-4K"), Err(SizeError::Negative(_))));
        assert!(matches!(parse_size("4Q"), Err(SizeError::Unreadable(_))));
        assert!(matches!(parse_size(""), Err(SizeError::Unreadable(_))));
        assert!(matches!(
            parse_size("99999999999G"),
            Err(SizeError::TooLarge(_))
        ));
        assert!(matches!(parse_sizes("0..4K"), Err(SizeError::Range(_))));
        assert!(matches!(parse_sizes("8K..4K"), Err(SizeError::Range(_))));
        assert!(parse_duration("soon").is_err());
        assert!(parse_duration("-3s").is_err());
    }

    #[test]
    fn a_count_is_a_whole_number_without_a_unit() {
        assert_eq!(parse_counts("0, 3,1..8"), Ok(vec![0, 3, 1, 2, 4, 8]));
        for bad in ["1.5", "four", "-1", "", "4K", "1,,2", "+1"] {
            let e = parse_counts(bad).unwrap_err();
            assert!(matches!(e, SizeError::Count(_)), "{bad}: {e}");
        }
        let large = "9223372036854775808";
        assert_eq!(
            parse_counts(large),
            Err(SizeError::LargeCount(large.into()))
        );
        assert!(matches!(parse_counts("0..4"), Err(SizeError::Range(_))));
    }

    #[test]
    fn a_time_does_not_become_0_milliseconds_silently() {
        for (text, milliseconds) in [("0", 0), ("0ms", 0), ("1ms", 1), ("1.5s", 1500)] {
            assert_eq!(parse_milliseconds(text), Ok(milliseconds), "{text}");
        }
        for short in ["0.5ms", "0.0009s"] {
            let error = SizeError::Short(short.into());
            assert_eq!(parse_milliseconds(short), Err(error));
        }
        let texts = [0, 300, 1500, 2000, 90_000, 120_000, 3_600_000].map(format_milliseconds);
        assert_eq!(texts, ["0ms", "300ms", "1500ms", "2s", "90s", "2m", "1h"]);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(bytes in 0u64..(1 << 62)) {
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse_sizes(&text);
            let _ = parse_counts(&text);
            let _ = parse_milliseconds(&text);
        }
    }

    #[test]
    fn sizes_are_read_as_fio_reads_them() {
        for (text, expected) in [
            ("4k", 4096),
            ("4KiB", 4096),
            ("65536", 65536),
            ("1M", 1 << 20),
        ] {
            assert_eq!(binary_size(text), Some(expected), "{text}");
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
            assert_eq!(binary_size(bad), None, "{bad}");
        }
    }
}
