//! A text for people.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::code_span::{self, Span};

/// A text for people, whose names are code spans of Markdown. It can be shown, joined into other words and drawn part by
/// part. It cannot be searched, split or compared by its beginning: who wants to know what it means asks the statement
/// that it was made from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Text(String);

impl Text {
    /// A name as a code span.
    pub fn code(name: &str) -> Self {
        Self(code_span::code(name))
    }

    /// The texts, with a joint between each two.
    pub fn joined(texts: impl IntoIterator<Item = Self>, joint: &str) -> Self {
        let texts: Vec<String> = texts.into_iter().map(|text| text.0).collect();
        Self(texts.join(joint))
    }

    /// How many words it has.
    pub fn length(&self) -> usize {
        self.0.split_whitespace().count()
    }

    /// Its first words.
    pub fn cut_to(&self, words: usize) -> Self {
        let words: Vec<&str> = self.0.split_whitespace().take(words).collect();
        Self(words.join(" "))
    }

    /// With a capital letter.
    pub fn capitalised(self) -> Self {
        let mut chars = self.0.chars();
        let first = chars.next().into_iter().flat_map(char::to_uppercase);
        Self(first.chain(chars).collect())
    }

    /// With a remark behind each code span of this name.
    pub fn remarked(&self, name: &str, remark: &Self) -> Self {
        let name = code_span::code(name);
        Self(self.0.replace(&name, &(name.clone() + &remark.0)))
    }

    /// Its parts in order, for drawing.
    pub fn parts(&self) -> Vec<Span<'_>> {
        code_span::parts(&self.0)
    }

    /// The text without marks, where nothing can be drawn in another type.
    pub fn unmarked(&self) -> String {
        code_span::unmarked(&self.0)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// For the fields of the JSON contract.
impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

/// Names that sentences use.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// The layer that the others are compared with.
    pub baseline: &'a str,
}

impl<'a> Names<'a> {
    /// Names of runs that may have no baseline in common.
    pub fn of(baseline: Option<&'a str>) -> Self {
        Self {
            baseline: baseline.unwrap_or(SOME_BASELINE),
        }
    }
}

/// What is said of a baseline without a name.
pub const SOME_BASELINE: &str = "the baseline";

impl Names<'_> {
    /// The baseline in a sentence: `native`, or another name as a code span.
    pub fn baseline(&self) -> Text {
        code_span::baseline(self.baseline).into()
    }

    /// Whether the baseline is said as a word and not as a name: it is the machine itself.
    pub fn is_word(&self) -> bool {
        self.baseline() != Text::code(self.baseline)
    }

    /// Where the baseline is measured: `natively`, or in a layer.
    pub fn natively(&self) -> Text {
        code_span::in_baseline(&code_span::baseline(self.baseline)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_string_in_json_and_in_its_schema() {
        let text = Text::joined([Text::code("a"), "b".into()], " and ");
        assert_eq!(serde_json::to_string(&text).unwrap(), r#""`a` and b""#);
        assert_eq!(
            serde_json::from_str::<Text>(r#""`a` and b""#).unwrap(),
            text
        );
        let [of_text, of_string] = [schemars::schema_for!(Text), schemars::schema_for!(String)];
        assert_eq!(of_text.get("type"), of_string.get("type"));
        assert_eq!(text.unmarked(), "a and b");
        assert_eq!(
            text.parts(),
            [Span::Words(""), Span::Code("a"), Span::Words(" and b")]
        );
    }

    #[test]
    fn the_baseline_is_a_word_or_a_name() {
        let names = |baseline| {
            let names = Names { baseline };
            [names.baseline(), names.natively()].map(String::from)
        };
        assert_eq!(names("native"), ["native", "natively"]);
        assert_eq!(names("fuse"), ["`fuse`", "in `fuse`"]);
    }
}
