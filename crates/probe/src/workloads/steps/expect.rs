//! Outcomes that each execution of a step must have.

use layermark_model::{PointError, nearest};
use regex::bytes::{Regex, RegexBuilder};

/// An expected outcome.
#[derive(Debug, Clone)]
pub enum Expect {
    /// The exit code.
    Exit(i32),
    /// A line that it prints.
    Line(Regex),
    /// A directory whose content is the same before, and the same after, each execution in each
    /// layer.
    Tree(String),
}

/// What a user may write.
const FORMS: [(&str, &str); 3] = [
    ("exit", "exit=CODE"),
    ("line", "line=REGEX"),
    ("tree", "tree=DIRECTORY"),
];

impl Expect {
    /// Reads `exit=1`, `line=clean$` or `tree=src`.
    pub fn parse(text: &str) -> Result<Self, PointError> {
        let (id, value) = text.split_once('=').unwrap_or((text, ""));
        let Some((_, form)) = FORMS.iter().find(|(known, _)| *known == id) else {
            let error = PointError::of("steps", "expect", format!(" = {text}: no such outcome"));
            let forms = FORMS.map(|(_, form)| form).join(", ");
            let near = nearest(id, FORMS.map(|(known, _)| known));
            return Err(error.hint(match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are {forms}"),
            }));
        };
        let wrong = |why: &str| {
            PointError::of("steps", "expect", format!(" = {text}: {why}"))
                .hint(format!("write {form}"))
        };
        if value.is_empty() {
            return Err(wrong("it needs a value"));
        }
        match id {
            "exit" => match value.parse() {
                Ok(code) if (0..=255).contains(&code) => Ok(Self::Exit(code)),
                _ => Err(wrong("an exit code is between 0 and 255")),
            },
            "line" => match RegexBuilder::new(value).build() {
                Ok(wanted) => Ok(Self::Line(wanted)),
                Err(e) => {
                    let text = e.to_string();
                    Err(wrong(text.lines().last().unwrap_or_default().trim()))
                }
            },
            _ => Ok(Self::Tree(value.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_and_wrong_ones_refused() {
        assert!(matches!(Expect::parse("exit=1"), Ok(Expect::Exit(1))));
        assert!(matches!(Expect::parse("line=a=b$"), Ok(Expect::Line(r)) if r.as_str() == "a=b$"));
        assert!(matches!(Expect::parse("tree=a/b"), Ok(Expect::Tree(d)) if d == "a/b"));
        for (bad, hint) in [
            ("exti=1", "did you mean `exit`?"),
            ("", "known are exit=CODE, line=REGEX, tree=DIRECTORY"),
            ("exit", "write exit=CODE"),
            ("exit=256", "write exit=CODE"),
            ("line=(", "write line=REGEX"),
            ("tree=", "write tree=DIRECTORY"),
        ] {
            assert_eq!(
                Expect::parse(bad).unwrap_err().hint.as_deref(),
                Some(hint),
                "{bad}"
            );
        }
    }
}
