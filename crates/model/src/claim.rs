//! Claims as data: `[[claim]]` in a plan. The report decides each from the results of the run.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::{Map, Value};

use crate::{LAYERS, nearest, parse_size, plan::names};

/// A sentence that a run decides for each layer: yes, no, or cannot be decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim in few words, worded so that yes is good where it can be: `a volume costs nothing`. It may
    /// have `{against}`.
    #[serde(deserialize_with = "few_words")]
    pub says: Words,
    /// What must be true of a point: `same`, `faster`, `slower`, `not slower`, `flushes`, `in place`, or
    /// `time`, `cpu` or a figure (`printed.tps`) with `<=`, `>=`, `<`, `>` or `~` (within 10 %) and a ratio,
    /// such as `time <= 1.31`.
    pub holds: Predicate,
    /// Of how many points it must be true.
    #[serde(default)]
    pub of: Share,
    /// The sentence about a layer, with `{layer}`, `{against}` and figures in braces. Absent: made from
    /// `says`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Words>,
    /// What one of its points is, such as `program`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// Where it was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Layers that it is about, as they are written in the plan; `*` stands for any text. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Layers>,
    /// The layer that they are compared with. Absent: native.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Layers>,
    /// Parameters of its points, and `workload` and `label`; `"<=64K"` is a largest value, a list has
    /// several values, `false` also stands for a parameter that is not set.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub work: Map<String, Value>,
    /// Compares each point with the one of the same layer that differs in these parameters. With `label`: with
    /// the point of that name, whatever else differs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub against_work: Map<String, Value>,
}

impl Claim {
    /// Whether it is about a point with these parameters.
    pub fn is_about(&self, workload: &str, label: &str, point: &Map<String, Value>) -> bool {
        self.work.iter().all(|(key, wanted)| match key.as_str() {
            "label" => any(wanted, |name| {
                name.as_str().is_some_and(|n| names(n, label))
            }),
            "workload" => any(wanted, |name| name.as_str() == Some(workload)),
            _ => any(wanted, |value| is(point.get(key), value)),
        })
    }

    /// Whether a point is the counterpart of another one: of the name in `against_work`, or the same but for
    /// its parameters.
    pub fn pairs(
        &self,
        point: &Map<String, Value>,
        label: &str,
        with: &Map<String, Value>,
    ) -> bool {
        if let Some(name) = self.against_work.get("label") {
            return name.as_str().is_some_and(|name| names(name, label));
        }
        let own = |key: &str| !self.against_work.contains_key(key);
        let rest = |of: &Map<String, Value>| of.keys().filter(|k| own(k)).count();
        let mut set = self.against_work.iter();
        rest(point) == rest(with)
            && point.iter().all(|(k, v)| !own(k) || with.get(k) == Some(v))
            && set.all(|(key, value)| is(with.get(key), value))
    }
}

/// Words without figures: the same for every layer, as a column of the report needs them.
fn few_words<'de, D: Deserializer<'de>>(from: D) -> Result<Words, D::Error> {
    let words = Words::deserialize(from)?;
    match PLACEHOLDERS
        .iter()
        .find(|p| **p != "against" && words.has(p))
    {
        Some(p) => Err(D::Error::custom(format!(
            "`says` cannot have `{{{p}}}`: write it in `text`, here only {{against}}"
        ))),
        None => Ok(words),
    }
}

fn any(wanted: &Value, one: impl Fn(&Value) -> bool) -> bool {
    match wanted {
        Value::Array(all) => all.iter().any(one),
        only => one(only),
    }
}

/// Whether a parameter has a value as a user writes it: `"64K"` is 65536.
fn is(here: Option<&Value>, wanted: &Value) -> bool {
    let number = here.and_then(Value::as_u64);
    match (wanted, number) {
        (Value::Bool(false), _) => matches!(here, None | Some(Value::Null | Value::Bool(false))),
        (Value::String(text), Some(n)) => match text.strip_prefix("<=") {
            Some(most) => parse_size(most.trim()).is_ok_and(|most| n <= most),
            None => parse_size(text).is_ok_and(|size| n == size),
        },
        _ => here == Some(wanted),
    }
}

/// Of how many points a claim must be true.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// Of all; false of one refutes it.
    #[default]
    All,
    /// Of more than half.
    Most,
    /// Of at least one; false of all refutes it.
    Any,
    /// Of more than half, and false of none. False of half refutes it. Probable verdicts count: for plans
    /// with few repeats.
    Undisputed,
}

/// What a claim says of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Predicate {
    /// The report's verdict is *same*.
    Same,
    /// The verdict is *faster*.
    Faster,
    /// The verdict is *slower*.
    Slower,
    /// The verdict is *same* or *faster*.
    NotSlower,
    /// Flushes reach the device.
    Flushes,
    /// A packaged file is changed without a copy of it.
    InPlace,
    /// A ratio of two figures, here over there, by its interval.
    Ratio(Quotient, Relation, f64),
}

/// Figures whose ratio a claim is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quotient {
    /// Time per operation. Its inverse is the throughput.
    Time,
    /// Share of this machine's CPUs that are busy.
    Cpu,
    /// A figure of the trials by its name in JSON, such as `printed.tps`.
    Figure(String),
}

impl Quotient {
    fn of(word: &str) -> Option<Self> {
        match word {
            "time" => Some(Self::Time),
            "cpu" => Some(Self::Cpu),
            figure => figure.contains('.').then(|| Self::Figure(figure.into())),
        }
    }
}

impl fmt::Display for Quotient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Time => "time",
            Self::Cpu => "cpu",
            Self::Figure(name) => name,
        })
    }
}

/// Where a ratio must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// At most the number.
    AtMost,
    /// At least the number.
    AtLeast,
    /// Below it.
    Below,
    /// Above it.
    Above,
    /// Within 10 % of it.
    Near,
}

const VERDICTS: [(&str, Predicate); 6] = [
    ("same", Predicate::Same),
    ("faster", Predicate::Faster),
    ("slower", Predicate::Slower),
    ("not slower", Predicate::NotSlower),
    ("flushes", Predicate::Flushes),
    ("in place", Predicate::InPlace),
];
const RELATIONS: [(&str, Relation); 5] = [
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("<", Relation::Below),
    (">", Relation::Above),
    ("~", Relation::Near),
];

fn entry<T: Clone>(table: &[(&str, T)], word: &str) -> Option<T> {
    table
        .iter()
        .find(|(w, _)| *w == word)
        .map(|(_, t)| t.clone())
}

fn name<T: PartialEq>(table: &[(&'static str, T)], of: &T) -> &'static str {
    table.iter().find(|(_, t)| t == of).map_or("", |(w, _)| w)
}

impl FromStr for Predicate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ratio = |words: &[&str]| {
            let [figure, relation, number] = words else {
                return None;
            };
            let number = number
                .parse()
                .ok()
                .filter(|n: &f64| n.is_finite() && *n > 0.0);
            Some(Self::Ratio(
                Quotient::of(figure)?,
                entry(&RELATIONS, relation)?,
                number?,
            ))
        };
        let found = entry(&VERDICTS, &words.join(" ")).or_else(|| ratio(&words));
        found.ok_or_else(|| {
            let near = nearest(text, VERDICTS.iter().map(|(w, _)| *w));
            let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            let all: Vec<&str> = VERDICTS.iter().map(|(w, _)| *w).collect();
            format!(
                "`{text}` cannot be decided: {near}write {}, or a ratio such as `time <= 1.31`, `cpu ~ 1` or `printed.tps >= 2`",
                all.join(", ")
            )
        })
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ratio(figure, relation, number) => {
                write!(f, "{figure} {} {number}", name(&RELATIONS, relation))
            }
            verdict => f.write_str(name(&VERDICTS, verdict)),
        }
    }
}

/// Layers that a claim names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Layers(String);

/// Layers by kind, for claims about any layer of a kind.
const KINDS: [&str; 4] = [
    "emulated",
    "paravirtual",
    "paravirtual..paravirtual",
    "alike",
];

impl Layers {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it names the layer that is written like this.
    pub fn names(&self, layer: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| layer.strip_prefix(first)) else {
            return false;
        };
        let mut parts: Vec<&str> = parts.collect();
        let Some(last) = parts.pop() else {
            return rest.is_empty();
        };
        for part in parts {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

impl FromStr for Layers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let id = text.split([':', ',', '*', '.']).next().unwrap_or_default();
        if KINDS.contains(&text) || LAYERS.contains(&id) || text.starts_with('*') {
            return Ok(Self(text.into()));
        }
        let near = nearest(id, LAYERS.into_iter().chain(KINDS));
        let near = near.map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
        Err(format!("`{text}` names no layer{near}"))
    }
}

/// Text of a claim, with placeholders in braces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Words(String);

/// Placeholders: the layer, the one that it is compared with, numbers of points (in all, for which the claim
/// holds, and by verdict), the mean and the span of the ratios, the verdicts and ratios one by one, ratios
/// with this host's CPU, and why it cannot be decided.
const PLACEHOLDERS: [&str; 13] = [
    "layer", "against", "n", "yes", "same", "slower", "faster", "mean", "spread", "verdicts",
    "ratios", "costs", "why",
];

impl Words {
    /// Whether it has this placeholder.
    pub fn has(&self, placeholder: &str) -> bool {
        self.0.contains(&format!("{{{placeholder}}}"))
    }

    /// The text with its placeholders replaced.
    pub fn fill(&self, value: impl Fn(&str) -> String) -> String {
        let mut out = String::new();
        let mut rest = self.0.as_str();
        while let Some((before, (word, after))) = rest
            .split_once('{')
            .and_then(|(b, a)| Some((b, a.split_once('}')?)))
        {
            out.push_str(before);
            out.push_str(&value(word));
            rest = after;
        }
        out + rest
    }
}

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("a claim needs words".into());
        }
        for word in text.split('{').skip(1) {
            let word = word.split('}').next().unwrap_or_default();
            if !PLACEHOLDERS.contains(&word) {
                let all = PLACEHOLDERS.map(|p| format!("{{{p}}}")).join(", ");
                return Err(format!(
                    "`{{{word}}}` is not a placeholder: write one of {all}"
                ));
            }
        }
        Ok(Self(text.into()))
    }
}

macro_rules! written {
    ($($type:ty: $text:expr),*) => {$(
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                let text: fn(&$type) -> String = $text;
                text(&value)
            }
        }
    )*};
}

written!(Predicate: ToString::to_string, Layers: |l| l.0.clone(), Words: |w| w.0.clone());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_predicate_is_written_as_it_was_read() {
        for text in [
            "same",
            "not slower",
            "time <= 1.31",
            "cpu ~ 1",
            "printed.tps >= 2.28",
        ] {
            let read: Predicate = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
        }
        for text in [
            "",
            "sme",
            "time",
            "time <= x",
            "time <= -1",
            "time = 1",
            "tps > 1",
            "time > inf",
        ] {
            let e = text.parse::<Predicate>().unwrap_err();
            assert!(e.contains("cannot be decided"), "{e}");
        }
    }

    #[test]
    fn layers_are_named_as_they_are_written() {
        let names = |pattern: &str, layer| pattern.parse::<Layers>().unwrap().names(layer);
        assert!(names("container:podman", "container:podman"));
        assert!(!names("container:podman", "container:podman,at=volume"));
        assert!(names("container:*,at=volume", "container:podman,at=volume"));
        assert!(!names("container:*,at=volume", "container:podman,at=named"));
        assert!(names("vm:*share=*9p*", "vm:memory=1G,share=9p,root=host"));
        assert!(names("*", "native"));
        let e = "contaner:*".parse::<Layers>().unwrap_err();
        assert!(e.ends_with("did you mean `container`?"), "{e}");
    }

    #[test]
    fn a_claim_is_about_points_with_its_parameters() {
        let claim = |work: &str| -> Claim {
            let text = format!(
                "says = 'x'\nholds = 'same'\nwork = {{ {work} }}\nagainst_work = {{ cache = 'cold' }}"
            );
            toml::from_str(&text).unwrap()
        };
        let point = |cache: &str, size: u64| -> Map<String, Value> {
            let point = serde_json::json!({"op": "read", "cache": cache, "file_size": size});
            point.as_object().unwrap().clone()
        };
        let warm = point("warm", 65536);
        for (work, about) in [
            ("workload = 'file', op = 'read', file_size = '64K'", true),
            (
                "op = ['write', 'read'], file_size = '<=64K', cpus = false",
                true,
            ),
            ("label = 'small'", true),
            ("label = 'smal'", false),
            ("file_size = '<=63K'", false),
            ("cpus = 4", false),
            ("workload = 'meta'", false),
        ] {
            let found = claim(work).is_about("file", "small (4K)", &warm);
            assert_eq!(found, about, "{work}");
        }
        assert!(claim("").pairs(&warm, "", &point("cold", 65536)));
        assert!(!claim("").pairs(&warm, "", &point("cold", 4096)));
        assert!(!claim("").pairs(&warm, "", &warm));
    }
}
