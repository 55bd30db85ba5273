//! Text in columns of a terminal. A character takes zero, one or two columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Width of a text in columns.
pub fn display_width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Aligns a text to the left in this many columns.
pub fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", rest(text, columns))
}

/// Aligns a text to the right in this many columns.
pub fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", rest(text, columns))
}

/// The longest start of a text that fits into this many columns.
pub fn cut(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let too_wide = |&(_, c): &(usize, char)| {
        used += c.width().unwrap_or(0);
        used > columns
    };
    let end = text.char_indices().find(too_wide);
    end.map_or(text, |(at, _)| &text[..at])
}

fn rest(text: &str, columns: usize) -> String {
    " ".repeat(columns.saturating_sub(display_width(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_take_two_columns() {
        assert_eq!(["データ", "e\u{301}", "ab"].map(display_width), [6, 1, 2]);
        assert_eq!(
            (left("デ", 4), right("デ", 4)),
            ("デ  ".into(), "  デ".into())
        );
        assert_eq!((left("abc", 2), cut("abc", 2)), ("abc".into(), "ab"));
        assert_eq!((cut("aデb", 2), cut("aデb", 3)), ("a", "aデ"));
    }
}
