//! Makes text safe to show: without terminal escapes and characters that are invalid in XML.

use std::borrow::Cow;

/// Removes escape sequences and control characters. Line feeds and tabs stay.
///
/// All untrusted text passes through this before it is shown: output of programs, names of files
/// and layers, contents of a store or an imported file. Two places call it: the report model, from
/// which every exporter prints, and the command line's messages.
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(length) = sequence(rest) {
            rest = &rest[length..];
            continue;
        }
        out.push(if is_plain(c) { c } else { ' ' });
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(out)
}

/// Not a control character (C0, DEL, C1) or one that changes the direction of text, and allowed in
/// XML 1.0.
fn is_plain(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => false,
        _ => !c.is_control(),
    }
}

/// Length of the complete control sequence (colours, cursor movements) at the start of a text. An
/// incomplete one has no length: skipping it would drop the text after it.
fn sequence(text: &str) -> Option<usize> {
    const LONGEST: usize = 32;
    let body = text
        .strip_prefix("\u{1b}[")
        .or(text.strip_prefix('\u{9b}'))?;
    let length = body
        .bytes()
        .take(LONGEST)
        .position(|b| (0x40..=0x7e).contains(&b))?;
    let parameters = &body.as_bytes()[..length];
    let complete = parameters.iter().all(|b| (0x20..=0x3f).contains(b));
    complete.then_some(text.len() - body.len() + length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn colours_go_and_words_stay() {
        for (text, expected) in [
            ("\u{1b}[1;31merror\u{1b}[0m: no", "error: no"),
            ("a\u{1b}]0;title\u{7}b", "a ]0;title b"),
            ("\u{1b}[2J\u{1b}[", " ["),
            ("two\nlines\tand\r\n", "two\nlines\tand \n"),
            ("\u{9b}31mx \u{202e}evil\u{ffff}", "x  evil "),
            ("\u{7f}\0", "  "),
            ("Grüße 你好", "Grüße 你好"),
        ] {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_not_plain_is_left(text in "[\\x00-\\x1f\\[;0-9a-z\u{80}-\u{9f}\u{202a}-\u{202e}]*") {
            let once = plain(&text);
            prop_assert!(once.chars().all(is_plain));
            prop_assert_eq!(plain(&once), once.clone());
        }
    }
}
