//! Text in columns of a terminal, of which a letter takes none, one or two.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns that a text takes.
pub fn display_width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// At the left of so many columns.
pub fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", rest(text, columns))
}

/// At the right of so many columns.
pub fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", rest(text, columns))
}

/// As much of the beginning as so many columns hold.
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
