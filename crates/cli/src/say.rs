//! Messages on standard error: the one place that writes them.

use std::{
    borrow::Cow,
    env,
    fmt::Display,
    io::{Write, stderr},
};

use layermark_model::plain;

/// Longest line that is printed whole, characters. Paths have at most 4096 bytes, and are shorter in practice.
const LONGEST: usize = 2000;
/// Characters of the two ends of a longer one. The reason often stands at the end.
const ENDS: [usize; 2] = [800, 400];

/// Prints one or more lines without control characters, because names of files and layers and
/// output of programs are untrusted. A closed terminal is not an error.
pub fn say(text: impl Display) {
    let _ = writeln!(stderr(), "{}", short(&plain(&text.to_string())));
}

/// The text without the middle of its long lines, such as a value that the user gave.
pub fn short(text: &str) -> Cow<'_, str> {
    let shorten = |line: &str| {
        let count = line.chars().count();
        if count <= LONGEST {
            return line.to_owned();
        }
        let [first, last] = ENDS;
        let begin: String = line.chars().take(first).collect();
        let end: String = line.chars().skip(count - last).collect();
        format!("{begin} [{} more characters] {end}", count - first - last)
    };
    if text.len() <= LONGEST {
        return text.into();
    }
    let lines: Vec<String> = text.split('\n').map(shorten).collect();
    lines.join("\n").into()
}

/// Whether the terminal can neither show colours nor move its cursor, such as that of an editor.
pub fn is_dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_lines_lose_their_middle() {
        let long = format!("error: layer {}: no such layer", "\u{e4}".repeat(100_000));
        let said = short(&long);
        assert!(said.starts_with("error: layer \u{e4}") && said.ends_with("\u{e4}: no such layer"));
        assert!(said.contains(" [98828 more characters] "), "{said}");
        assert_eq!(
            said.chars().count(),
            1200 + " [98828 more characters] ".len()
        );
        let many = "a line\n".repeat(1000);
        assert_eq!(short(&many), many);
    }
}
