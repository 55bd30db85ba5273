//! Numbers as strace writes them.

/// A number as strace writes it: decimal, `0x1f`, `0644`, `1<<20`.
pub fn integer(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Some((base, shift)) = text.split_once("<<") {
        return integer(base)?.checked_shl(shift.parse().ok()?);
    }
    let (sign, digits) = text
        .strip_prefix('-')
        .map_or((1, text), |digits| (-1, digits));
    let number = if let Some(hex) = digits.strip_prefix("0x") {
        u64::from_str_radix(hex, 16).ok()?.cast_signed()
    } else if digits.len() > 1 && digits.starts_with('0') {
        i64::from_str_radix(digits, 8).ok()?
    } else {
        // Addresses and (size_t)-1 are larger than i64.
        digits
            .parse::<i64>()
            .ok()
            .or_else(|| digits.parse::<u64>().ok().map(u64::cast_signed))?
    };
    Some(number.wrapping_mul(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read() {
        assert_eq!(integer("-0x8000000000000000"), Some(i64::MIN));
        let all = [
            "12",
            "-1",
            "0x10",
            "0644",
            "0",
            "1<<4",
            "18446744073709551615",
            "x",
        ];
        let read = all.map(integer);
        assert_eq!(
            read,
            [
                Some(12),
                Some(-1),
                Some(16),
                Some(0o644),
                Some(0),
                Some(16),
                Some(-1),
                None
            ]
        );
    }
}
