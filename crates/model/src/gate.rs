//! Gates: limits that fail a build, such as `fuse slower=3x at "small read"`.

use std::{fmt, str::FromStr};

use crate::{Spec, nearest};

/// A limit on the cost of layers: in a run against the baseline, between two runs against the older one.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    text: String,
    /// The layer it applies to. Absent: every compared layer.
    pub layer: Option<String>,
    /// The highest allowed ratio. Absent: no result may be decidedly slower.
    pub limit: Option<f64>,
    /// Label of the point it applies to. Absent: every point.
    pub point: Option<String>,
}

/// A gate that cannot be parsed, or names something missing: a usage error, exit code 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Not in the form of a gate.
    #[error("--fail-if {text}: {why}")]
    Grammar {
        /// As written.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nothing of this name is compared.
    #[error("--fail-if {gate}: no {what} `{name}` is compared{}", nearest.as_ref().map(|n| format!(": did you mean `{n}`?")).unwrap_or_default())]
    NotThere {
        /// The gate.
        gate: String,
        /// `layer` or `point`.
        what: &'static str,
        /// As written.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
        /// All names.
        known: Vec<String>,
    },
    /// Nothing is compared.
    #[error("--fail-if {gate}: there is no layer to compare with the baseline")]
    Nothing {
        /// The gate.
        gate: String,
    },
}

impl GateError {
    /// A hint: what to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Grammar { .. } => {
                "--fail-if slower, --fail-if slower=10%, --fail-if 'fuse slower=3x at \"small read\"'".into()
            }
            Self::NotThere { what, known, .. } => format!("each {what} that is compared: {}", known.join(", ")),
            Self::Nothing { .. } => "name one: -l fuse".into(),
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The word in every gate.
const SLOWER: &str = "slower";

impl FromStr for Gate {
    type Err = GateError;

    /// Parses `[LAYER] slower[=10%|=3x] [at "POINT"]`.
    fn from_str(text: &str) -> Result<Self, GateError> {
        let wrong = |why: &str| GateError::Grammar {
            text: text.into(),
            why: why.into(),
        };
        let Some((layer, verb, rest)) = parts(text) else {
            return Err(wrong("the word `slower` is missing"));
        };
        let limit = match verb.strip_prefix(SLOWER).and_then(|v| v.strip_prefix('=')) {
            None => None,
            Some(limit) => Some(ratio(limit).map_err(wrong)?),
        };
        let point = match (rest, rest.strip_prefix("at ").map(str::trim)) {
            ("", _) => None,
            (_, Some(point)) => Some(unquoted(point)).filter(|p| !p.is_empty()),
            _ => return Err(wrong("what follows `slower` is not `at \"POINT\"`")),
        };
        if point.is_none() && !rest.is_empty() {
            return Err(wrong("the point after `at` is missing"));
        }
        // The report names a layer with its options in alphabetical order.
        let name = |layer: &str| {
            let spec = layer.parse::<Spec>().map(|spec| spec.to_string());
            spec.unwrap_or_else(|_| layer.to_owned())
        };
        Ok(Self {
            text: text.trim().to_owned(),
            layer: (!layer.is_empty()).then(|| name(layer)),
            limit,
            point: point.map(str::to_owned),
        })
    }
}

/// Splits a gate: the text before the word `slower`, that word with its limit, and the text after
/// it.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let starts = text.match_indices(SLOWER).map(|(at, _)| at);
    let word = |at: &usize| {
        let before = text[..*at].chars().next_back();
        let after = text[at + SLOWER.len()..].chars().next();
        before.is_none_or(char::is_whitespace)
            && after.is_none_or(|c| c == '=' || c.is_whitespace())
    };
    let at = starts.into_iter().find(word)?;
    let end = text[at..].find(char::is_whitespace);
    let end = end.map_or(text.len(), |length| at + length);
    Some((text[..at].trim(), &text[at..end], text[end..].trim()))
}

fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

/// Parses `10%` or `3x` as a ratio of at least 1.
fn ratio(text: &str) -> Result<f64, &'static str> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    let ratio = match (text.strip_suffix('%'), text.strip_suffix('x')) {
        (Some(percent), _) => number(percent).map(|p| 1.0 + p / 100.0),
        (_, Some(times)) => number(times),
        _ => None,
    };
    match ratio {
        None => Err("a limit is written 10% or 3x"),
        Some(ratio) if ratio < 1.0 => Err("a limit is 0% or 1x at least"),
        Some(ratio) => Ok(ratio),
    }
}

impl Gate {
    /// Refuses a gate that names a layer or a point which is not compared.
    pub fn check(&self, layers: &[&str], points: &[&str]) -> Result<(), GateError> {
        if layers.is_empty() {
            return Err(GateError::Nothing {
                gate: self.text.clone(),
            });
        }
        let named = [
            ("layer", &self.layer, layers),
            ("point", &self.point, points),
        ];
        for (what, name, known) in named {
            let Some(name) = name.as_deref().filter(|name| !known.contains(name)) else {
                continue;
            };
            return Err(GateError::NotThere {
                gate: self.text.clone(),
                what,
                name: name.into(),
                nearest: nearest(name, known.iter().copied()).map(str::to_owned),
                known: known.iter().map(|k| (*k).to_owned()).collect(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read<'a> = (Option<&'a str>, Option<f64>, Option<&'a str>);

    #[test]
    fn gates_are_read() {
        let cases: [(&str, Read); 9] = [
            ("slower", (None, None, None)),
            (" slower=10% ", (None, Some(1.1), None)),
            ("slower=3x", (None, Some(3.0), None)),
            ("slower=0%", (None, Some(1.0), None)),
            ("fuse slower=2.5%", (Some("fuse"), Some(1.025), None)),
            (
                "fuse slower=3x at \"small read\"",
                (Some("fuse"), Some(3.0), Some("small read")),
            ),
            (
                "loop:xfs,direct-io=off slower at small read, cold",
                (
                    Some("loop:xfs,direct-io=off"),
                    None,
                    Some("small read, cold"),
                ),
            ),
            ("slower at 'x'", (None, None, Some("x"))),
            (
                "dir:/a slower/b slower",
                (Some("dir:/a slower/b"), None, None),
            ),
        ];
        for (text, (layer, limit, point)) in cases {
            let gate: Gate = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(
                (gate.layer.as_deref(), gate.point.as_deref()),
                (layer, point),
                "{text}"
            );
            let close = match (gate.limit, limit) {
                (Some(a), Some(b)) => (a - b).abs() < 1e-12,
                (a, b) => a == b,
            };
            assert!(
                close && gate.to_string() == text.trim(),
                "{text}: {:?}",
                gate.limit
            );
        }
    }

    #[test]
    fn what_is_no_gate_says_why() {
        for (text, why) in [
            ("", "`slower` is missing"),
            ("faster=10%", "`slower` is missing"),
            ("slowerr=10%", "`slower` is missing"),
            ("slower=", "10% or 3x"),
            ("slower=10", "10% or 3x"),
            ("slower=nan%", "10% or 3x"),
            ("slower=inf x", "10% or 3x"),
            ("slower=-5%", "at least"),
            ("slower=0.5x", "at least"),
            ("slower=10% on x", "not `at"),
            ("slower at", "not `at"),
            ("slower at \"\"", "is missing"),
        ] {
            let error = text.parse::<Gate>().unwrap_err();
            assert!(error.to_string().contains(why), "{text}: {error}");
            assert!(error.hint().contains("--fail-if slower=10%"));
        }
    }

    #[test]
    fn names_that_are_not_there_have_a_nearest_one() {
        let gate: Gate = "fuze slower at \"small raed\"".parse().unwrap();
        let check = |layers: &[&str]| gate.check(layers, &["small read", "stat"]);
        let error = check(&["fuse", "bind"]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("no layer `fuze` is compared: did you mean `fuse`?")
        );
        assert!(error.hint().ends_with("fuse, bind"));
        let error = check(&["fuze"]).unwrap_err();
        assert!(
            error.to_string().contains("did you mean `small read`?"),
            "{error}"
        );
        assert!(matches!(check(&[]), Err(GateError::Nothing { .. })));
    }
}
