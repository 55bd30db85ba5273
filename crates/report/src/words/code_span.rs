//! Names inside sentences, marked like Markdown code (`CommonMark`, code spans).

/// A name as a code span. Backquotes in the name do not end it.
pub fn code(name: &str) -> String {
    let fence = fence(name, 1);
    let pad = if fence.len() > 1 { " " } else { "" };
    format!("{fence}{pad}{name}{pad}{fence}")
}

/// The baseline's name in a sentence: `native` and `the baseline` are words, any other name is a code span.
pub fn baseline(name: &str) -> String {
    if matches!(name, "native" | "the baseline") {
        name.to_owned()
    } else {
        code(name)
    }
}

/// Where the baseline is measured: `natively`, or in a layer. Takes what [`baseline`] returns.
pub fn in_baseline(baseline: &str) -> String {
    if baseline == "native" {
        "natively".into()
    } else {
        format!("in {baseline}")
    }
}

/// At least `least` backquotes, and more than the longest run of them in the text.
pub fn fence(text: &str, least: usize) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(least.max(longest + 1))
}

/// A part of a marked text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span<'a> {
    /// Plain text. Backquotes in it mark nothing.
    Words(&'a str),
    /// The content of a code span.
    Code(&'a str),
}

/// The parts of a marked text in order.
pub fn parts(mut text: &str) -> Vec<Span<'_>> {
    let mut parts = Vec::new();
    while let Some((before, inside, after)) = next_span(text) {
        parts.extend([Span::Words(before), Span::Code(inside)]);
        text = after;
    }
    parts.push(Span::Words(text));
    parts
}

/// The text without its marks.
pub fn unmarked(text: &str) -> String {
    let parts = parts(text).into_iter();
    let inner = parts.map(|(Span::Words(text) | Span::Code(text))| text);
    inner.collect()
}

/// The text before the first code span, its content, and the text after it.
fn next_span(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(open) = next_run(text, from) {
        let mut next = open.end;
        while let Some(close) = next_run(text, next) {
            if close.len() == open.len() {
                let inside = &text[open.end..close.start];
                return Some((&text[..open.start], unpadded(inside), &text[close.end..]));
            }
            next = close.end;
        }
        from = open.end;
    }
    None
}

/// The next run of backquotes.
fn next_run(text: &str, from: usize) -> Option<std::ops::Range<usize>> {
    let start = from + text[from..].find('`')?;
    let length = text[start..].find(|c| c != '`');
    Some(start..length.map_or(text.len(), |n| start + n))
}

fn unpadded(inside: &str) -> &str {
    let inner = inside.strip_prefix(' ').and_then(|i| i.strip_suffix(' '));
    inner.filter(|i| i.contains('`')).unwrap_or(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back_from_its_code_span() {
        for name in ["fuse", "dir:/a`b", "`", "``a`", "dir:/a`b`c", " a ", "a b"] {
            let text = format!("in {} and so on", code(name));
            let expected = [
                Span::Words("in "),
                Span::Code(name),
                Span::Words(" and so on"),
            ];
            assert_eq!(parts(&text), expected, "{text}");
            assert_eq!(unmarked(&text), format!("in {name} and so on"));
        }
    }

    #[test]
    fn a_fence_without_an_end_is_words() {
        assert_eq!(parts("a ` b"), [Span::Words("a ` b")]);
        let after = [
            Span::Words("a `` b "),
            Span::Code("c"),
            Span::Words(" ``` d"),
        ];
        assert_eq!(parts("a `` b `c` ``` d"), after);
    }
}
