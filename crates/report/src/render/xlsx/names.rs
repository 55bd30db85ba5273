//! Valid names of sheets.

/// Names used so far.
#[derive(Default)]
pub struct SheetNames(Vec<String>);

impl SheetNames {
    /// A valid name similar to the wanted one: at most 31 UTF-16 units, different from the others
    /// even without regard to case.
    pub fn next(&mut self, wanted: &str) -> String {
        let plain: String = wanted
            .chars()
            .map(|c| {
                if c.is_control() || "[]:*?/\\".contains(c) {
                    ' '
                } else {
                    c
                }
            })
            .collect();
        let words: Vec<&str> = plain.split_whitespace().collect();
        let base = words.join(" ");
        let mut again = 1;
        loop {
            let suffix = if again > 1 {
                format!(" ({again})")
            } else {
                String::new()
            };
            let name = format!("{}{suffix}", cut(&base, 31 - suffix.len()));
            let lower = name.to_lowercase();
            // Excel reserves `History`.
            if lower != "history" && !self.0.contains(&lower) {
                self.0.push(lower);
                return name;
            }
            again += 1;
        }
    }
}

/// Apostrophes are not allowed at the ends.
fn cut(text: &str, longest: usize) -> String {
    let mut units = 0;
    let head: String = text
        .chars()
        .take_while(|c| {
            units += c.len_utf16();
            units <= longest
        })
        .collect();
    let head = head.trim_matches(['\'', ' ']);
    if head.is_empty() { "sheet" } else { head }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_legal_and_unique() {
        let mut names = SheetNames::default();
        let long = "x".repeat(50);
        let made: Vec<String> = [
            "read, warm",
            "READ, warm",
            "iozone loop:ext4",
            "[]:*?/\\",
            "'quoted'",
            "History",
            "\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}",
            &long,
            &long,
        ]
        .iter()
        .map(|n| names.next(n))
        .collect();
        assert_eq!(
            made[..6],
            [
                "read, warm",
                "READ, warm (2)",
                "iozone loop ext4",
                "sheet",
                "quoted",
                "History (2)"
            ]
        );
        for name in &made {
            assert!(name.encode_utf16().count() <= 31, "{name}");
            assert!(
                rust_xlsxwriter::utility::check_sheet_name(name).is_ok(),
                "{name}"
            );
        }
        let lower: std::collections::BTreeSet<String> =
            made.iter().map(|n| n.to_lowercase()).collect();
        assert_eq!(lower.len(), made.len());
    }
}
