//! Lines that programs print for people: sections of a text, and the numbers after a label.

use crate::values;

/// The lines of one result in a text that may hold several.
pub struct Section<'a> {
    /// Number of its first line in the file, from 1.
    pub first: usize,
    /// The lines, without the blanks around each.
    pub lines: Vec<&'a str>,
}

/// Splits a text where `begins` holds. Lines before the first such line belong to none.
pub fn sections<'a>(text: &'a str, begins: impl Fn(&str) -> bool) -> Vec<Section<'a>> {
    let mut all: Vec<Section<'a>> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if begins(line) {
            all.push(Section {
                first: at + 1,
                lines: Vec::new(),
            });
        }
        if let Some(last) = all.last_mut() {
            last.lines.push(line);
        }
    }
    all
}

/// Most lines of a text.
pub const MOST: usize = 2_000_000;

/// The error for a text with more than [`MOST`] lines.
pub fn too_many() -> String {
    format!("it has more than {MOST} lines, the most that are read")
}

/// The lines of a text with their numbers from 1, without the blanks around each. A carriage return
/// also ends one: a program overwrites its progress so.
pub fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut number = 1;
    text.split_inclusive(['\n', '\r']).map(move |line| {
        let at = number;
        number += usize::from(line.ends_with('\n'));
        (at, line.trim())
    })
}

impl<'a> Section<'a> {
    /// The rest of the first line that begins with `label`.
    pub fn after(&self, label: &str) -> Option<&'a str> {
        self.all(label).next()
    }

    /// The rest of each line that begins with `label`.
    pub fn all(&self, label: &str) -> impl Iterator<Item = &'a str> {
        let rest = self.lines.iter().filter_map(move |l| l.strip_prefix(label));
        rest.map(str::trim)
    }

    /// As `after`.
    ///
    /// # Errors No line begins so, as in a file that is cut off.
    pub fn need(&self, label: &str) -> Result<&'a str, String> {
        self.after(label).ok_or_else(|| {
            let (first, label) = (self.first, label.trim_end_matches([':', ' ', '=']));
            format!("the result that begins in line {first} has no line `{label}`: it is cut off")
        })
    }

    /// The number after a label.
    ///
    /// # Errors There is no such line, or no number.
    pub fn number(&self, label: &str) -> Result<f64, String> {
        let text = self.need(label)?;
        number(text).ok_or_else(|| {
            let (first, label) = (self.first, label.trim_end_matches([':', ' ', '=']));
            let text = values::clean(text);
            format!("the result that begins in line {first}: `{label}` is `{text}`")
        })
    }
}

/// The number that a text begins with; units may follow.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let end = text.find(|c| !digits(c)).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// A number with a unit behind it: `4.04ms`, `1.19 MB`.
pub fn with_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic() || c == '%');
    let (value, unit) = text.split_at(end.unwrap_or(text.len()));
    Some((value.trim().parse().ok()?, unit.trim()))
}

/// The words of a command line as a shell splits them; as they stand if it could not.
pub fn words(command: &str) -> Vec<String> {
    shell_words::split(command)
        .unwrap_or_else(|_| command.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let text = "words\nrun 1\n  a = 1.5 ms\nrun 2\na = x\n";
        let all = sections(text, |l| l.starts_with("run "));
        assert_eq!((all.len(), all[0].first, all[1].first), (2, 2, 4));
        assert_eq!(all[0].number("a ="), Ok(1.5));
        assert_eq!(
            all[1].number("a =").unwrap_err(),
            "the result that begins in line 4: `a` is `x`"
        );
        assert!(all[0].number("b:").unwrap_err().contains("no line `b`"));
    }

    #[test]
    fn a_carriage_return_ends_a_piece_and_no_line() {
        let all: Vec<_> = pieces("a\r b\rc\r\nd").collect();
        assert_eq!(all, [(1, "a"), (1, "b"), (1, "c"), (1, ""), (2, "d")]);
    }

    #[test]
    fn numbers_end_where_their_unit_begins() {
        assert_eq!(number(" 727.327297 (without"), Some(727.327_297));
        assert_eq!(number("inf"), None);
        assert_eq!(with_unit("4.04ms"), Some((4.04, "ms")));
        assert_eq!(with_unit("0.98k"), Some((0.98, "k")));
        assert_eq!(with_unit("ms"), None);
    }
}
