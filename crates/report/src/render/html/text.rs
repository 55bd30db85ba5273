//! Text for the page.

use maud::{Markup, html};

use crate::{
    code_span::{Span, parts},
    page::name_parts,
};

/// Text in which names are marked as code.
pub fn rich(text: &str) -> Markup {
    html! {
        @for part in parts(text) {
            @match part { Span::Code(name) => code { (name) }, Span::Words(words) => (words) }
        }
    }
}

/// A layer's name that may wrap only between its parts.
pub fn breakable(name: &str) -> Markup {
    html! { @for part in name_parts(name) { (part) wbr; } }
}

/// Replaces `12 us` with `12 \u{b5}s`, but not other words that start with `us`.
pub fn micro(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(" us") {
        let (head, tail) = rest.split_at(at);
        let number = head.ends_with(|c: char| c.is_ascii_digit());
        let ends = !tail[3..].starts_with(|c: char| c.is_alphanumeric());
        out.push_str(head);
        out.push_str(if number && ends { " \u{b5}s" } else { " us" });
        rest = &tail[3..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_unit_becomes_micro() {
        assert_eq!(
            micro("adds 12 us, for us users: 3 us"),
            "adds 12 \u{b5}s, for us users: 3 \u{b5}s"
        );
        assert_eq!(micro("30 users"), "30 users");
    }

    #[test]
    fn names_are_code_and_escaped() {
        assert_eq!(
            rich("`<script>` is x").into_string(),
            "<code>&lt;script&gt;</code> is x"
        );
        assert_eq!(
            rich("``  a`b  `` is x").into_string(),
            "<code> a`b </code> is x"
        );
    }
}
