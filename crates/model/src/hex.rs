/// Two lower-case hexadecimal digits of each byte.
pub fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let both = |byte: u8| [byte >> 4, byte & 15].map(|n| char::from(DIGITS[usize::from(n)]));
    bytes.into_iter().flat_map(both).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(super::hex([0, 10, 0xfe]), "000afe");
    }
}
