//! Settings as a user writes them, read by a workload's list of parameters.

use std::collections::BTreeMap;

use layermark_model::{
    Param, ParamKind, PointError, Settings, nearest, parse_duration, parse_sizes,
};
use serde_json::{Map, Value};

/// Values of every parameter: given ones, else the default.
#[derive(Clone)]
pub struct Values {
    workload: String,
    lists: BTreeMap<&'static str, Vec<Value>>,
    given: Vec<&'static str>,
}

/// Reads `settings`. Unknown names, values of the wrong type and lists where one value is wanted
/// are errors that say what would be right.
pub fn read(params: &'static [Param], settings: &Settings) -> Result<Values, PointError> {
    let workload = settings.workload.clone();
    for key in settings.params.keys() {
        if !params.iter().any(|p| p.name == key) {
            return Err(unknown(&workload, key, params));
        }
    }
    let mut lists = BTreeMap::new();
    let mut given = Vec::new();
    for param in params {
        let read = match settings.params.get(param.name) {
            Some(value) => {
                given.push(param.name);
                read_one(&workload, param, value)?
            }
            None => read_one(&workload, param, &Value::String(param.default.into()))?,
        };
        lists.insert(param.name, read);
    }
    Ok(Values {
        workload,
        lists,
        given,
    })
}

fn unknown(workload: &str, key: &str, params: &'static [Param]) -> PointError {
    let names = || params.iter().map(|p| p.name);
    let error = PointError::new(format!("{workload}: unknown parameter `{key}`"));
    match nearest(key, names()) {
        Some(name) => error.hint(format!("did you mean `{name}`?")),
        None => error.hint(format!(
            "known are {}",
            names().collect::<Vec<_>>().join(", ")
        )),
    }
}

fn read_one(workload: &str, param: &Param, value: &Value) -> Result<Vec<Value>, PointError> {
    if matches!(param.kind, ParamKind::Texts | ParamKind::Env) {
        return texts(workload, param, value).map(|all| vec![all]);
    }
    let mut out = Vec::new();
    match value {
        Value::Array(items) if param.list => {
            for item in items {
                scalar(workload, param, item, &mut out)?;
            }
        }
        Value::Array(_) => return Err(one_value(workload, param, value)),
        other => scalar(workload, param, other, &mut out)?,
    }
    match out.len() {
        0 => Err(
            PointError::new(format!("{workload}: `{}` is an empty list", param.name))
                .hint("give at least one value, or leave the parameter out"),
        ),
        1 => Ok(out),
        _ if !param.list => Err(one_value(workload, param, value)),
        _ => {
            let mut seen = Vec::with_capacity(out.len());
            out.retain(|v| {
                !seen.contains(v) && {
                    seen.push(v.clone());
                    true
                }
            });
            Ok(out)
        }
    }
}

/// A text or a list of texts as one value; the empty text is the empty list.
fn texts(workload: &str, param: &Param, value: &Value) -> Result<Value, PointError> {
    let items = match value {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::Array(items) => items.clone(),
        other => vec![other.clone()],
    };
    if let Some(bad) = items.iter().find(|v| !v.is_string()) {
        let name = param.name;
        // What is in an environment is not shown.
        let shown = match param.kind {
            ParamKind::Env => String::new(),
            _ => format!(" = {bad}"),
        };
        return Err(PointError::new(format!(
            "{workload}: `{name}`{shown}: it must be text"
        )));
    }
    Ok(Value::Array(items))
}

fn one_value(workload: &str, param: &Param, value: &Value) -> PointError {
    PointError::new(format!(
        "{workload}: `{}` = {value}: it takes one value, not a list",
        param.name
    ))
    .hint("write a [[work]] table for each value")
}

fn scalar(
    workload: &str,
    param: &Param,
    value: &Value,
    out: &mut Vec<Value>,
) -> Result<(), PointError> {
    let wrong =
        |must: String| PointError::new(format!("{workload}: `{}` = {value}: {must}", param.name));
    match param.kind {
        ParamKind::Word(words) => {
            let text = value
                .as_str()
                .ok_or_else(|| wrong(format!("it must be one of {}", words.join(", "))))?;
            for word in text.split(',').map(str::trim) {
                out.push(known_word(workload, param, word, words)?);
            }
            Ok(())
        }
        ParamKind::Text | ParamKind::Command => match value {
            Value::String(_) => {
                out.push(value.clone());
                Ok(())
            }
            _ => Err(wrong("it must be text".into())),
        },
        ParamKind::Texts | ParamKind::Env => Err(wrong("a list within a list".into())),
        ParamKind::Switch => {
            let on = match value {
                Value::Bool(on) => Some(*on),
                Value::String(text) => switch(text),
                _ => None,
            };
            out.push(Value::Bool(
                on.ok_or_else(|| wrong("it must be true or false".into()))?,
            ));
            Ok(())
        }
        ParamKind::Duration => {
            let text = value
                .as_str()
                .ok_or_else(|| wrong("it must be text with a unit, such as \"300ms\"".into()))?;
            let time = parse_duration(text)
                .map_err(|e| PointError::new(format!("{workload}: `{}`: {e}", param.name)))?;
            let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            out.push(ms.into());
            Ok(())
        }
        ParamKind::Size | ParamKind::Count => match value {
            Value::String(text) => {
                let sizes = parse_sizes(text)
                    .map_err(|e| PointError::new(format!("{workload}: `{}`: {e}", param.name)))?;
                out.extend(sizes.into_iter().map(Value::from));
                Ok(())
            }
            Value::Number(number) => {
                out.push(
                    whole(number)
                        .ok_or_else(|| wrong("it must be a whole number, 0 or above".into()))?,
                );
                Ok(())
            }
            _ => Err(wrong(
                "it must be a number, or text such as \"4K\" or \"4K,64K\" or \"32..4K\"".into(),
            )),
        },
    }
}

/// A number without a fraction that fits: `4096`, also `4096.0` as some TOML writers put it.
fn whole(number: &serde_json::Number) -> Option<Value> {
    if let Some(n) = number.as_u64() {
        return (i64::try_from(n).is_ok()).then(|| Value::from(n));
    }
    let f = number.as_f64()?;
    (f >= 0.0 && f.fract() == 0.0 && f < 9e18).then(|| Value::from(f as u64))
}

fn known_word(
    workload: &str,
    param: &Param,
    word: &str,
    words: &[&'static str],
) -> Result<Value, PointError> {
    if words.contains(&word) {
        return Ok(Value::from(word));
    }
    let error = PointError::new(format!(
        "{workload}: `{}` = `{word}` is not known",
        param.name
    ));
    Err(match nearest(word, words.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("known are {}", words.join(", "))),
    })
}

fn switch(text: &str) -> Option<bool> {
    match text.trim() {
        "true" | "on" | "yes" | "1" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

impl Values {
    /// Whether the user gave it.
    pub fn given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// The same with other values of one parameter.
    pub fn with(&self, name: &'static str, values: Vec<Value>) -> Self {
        let mut changed = self.clone();
        changed.lists.insert(name, values);
        changed
    }

    /// The values of a parameter that takes words.
    pub fn words(&self, name: &str) -> Vec<&str> {
        self.all(name).iter().filter_map(Value::as_str).collect()
    }

    /// Whether a switch is on.
    pub fn flag(&self, name: &str) -> bool {
        self.all(name) == [Value::Bool(true)]
    }

    /// All values of one parameter.
    pub fn all(&self, name: &str) -> &[Value] {
        self.lists.get(name).map_or(&[], Vec::as_slice)
    }

    /// Every combination, in the order of `params`: the last one changes fastest.
    pub fn combinations(
        &self,
        params: &'static [Param],
    ) -> Result<Vec<Map<String, Value>>, PointError> {
        /// More points than a run could ever get through.
        const MOST: usize = 10_000;
        let count = params
            .iter()
            .try_fold(1usize, |n, p| n.checked_mul(self.all(p.name).len()));
        if count.is_none_or(|n| n > MOST) {
            return Err(PointError::new(format!(
                "{}: the lists make more than {MOST} points",
                self.workload
            ))
            .hint("shorten a list, or write several plans"));
        }
        let mut maps = vec![Map::new()];
        for param in params {
            maps = maps
                .into_iter()
                .flat_map(|map| {
                    self.all(param.name).iter().map(move |value| {
                        let mut map = map.clone();
                        map.insert(param.name.into(), value.clone());
                        map
                    })
                })
                .collect();
        }
        Ok(maps)
    }
}

/// Labels that differ: made from `describe` alone, or the user's label with what differs behind.
pub fn labels<T>(
    settings: &Settings,
    points: &[T],
    full: impl Fn(&T) -> String,
    parts: impl Fn(&T) -> Vec<String>,
) -> Vec<String> {
    let Some(label) = &settings.label else {
        return points.iter().map(full).collect();
    };
    if points.len() <= 1 {
        return points.iter().map(|_| label.clone()).collect();
    }
    let all: Vec<Vec<String>> = points.iter().map(parts).collect();
    all.iter()
        .map(|mine| {
            let differs: Vec<&str> = mine
                .iter()
                .enumerate()
                .filter(|(i, part)| {
                    !part.is_empty() && all.iter().any(|other| other.get(*i) != Some(part))
                })
                .map(|(_, part)| part.as_str())
                .collect();
            format!("{label} ({})", differs.join(", "))
        })
        .collect()
}

/// A size or count times the plan's scale, at least 1.
pub fn scaled(value: u64, scale: f64) -> u64 {
    ((value as f64 * scale) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const PARAMS: &[Param] = &[
        Param {
            name: "op",
            kind: ParamKind::Word(&["read", "write"]),
            default: "read",
            list: true,
            help: "",
        },
        Param {
            name: "record",
            kind: ParamKind::Size,
            default: "4K",
            list: true,
            help: "",
        },
        Param {
            name: "passes",
            kind: ParamKind::Count,
            default: "0",
            list: false,
            help: "",
        },
        Param {
            name: "direct",
            kind: ParamKind::Switch,
            default: "false",
            list: false,
            help: "",
        },
        Param {
            name: "time",
            kind: ParamKind::Duration,
            default: "300ms",
            list: false,
            help: "",
        },
        Param {
            name: "spec",
            kind: ParamKind::Text,
            default: "a, b",
            list: true,
            help: "",
        },
    ];

    fn settings(params: Value) -> Settings {
        let Value::Object(params) = params else {
            panic!("not a table")
        };
        Settings {
            workload: "w".into(),
            label: None,
            params,
        }
    }

    fn fails(params: Value) -> PointError {
        read(PARAMS, &settings(params)).err().expect("an error")
    }

    #[test]
    fn reads_text_numbers_and_lists() {
        let v = read(
            PARAMS,
            &settings(json!({"op": "read,write", "record": ["1K", 512, "32..64"], "direct": "on"})),
        )
        .unwrap();
        assert_eq!(v.all("record"), [1024, 512, 32, 64].map(Value::from));
        assert_eq!(v.combinations(PARAMS).unwrap().len(), 8);
        assert_eq!(v.all("passes"), [Value::from(0)]);
        assert!(v.given("op") && !v.given("passes"));
        let v = read(PARAMS, &settings(json!({"record": "4K,4096"}))).unwrap();
        assert_eq!(v.all("record").len(), 1);
    }

    #[test]
    fn times_become_milliseconds_and_text_stays_whole() {
        let v = read(PARAMS, &settings(json!({"time": "1.5s"}))).unwrap();
        assert_eq!(v.all("time"), [Value::from(1500)]);
        assert_eq!(v.all("spec"), [Value::from("a, b")]);
        let v = read(PARAMS, &settings(json!({"spec": ["a", " b; c "]}))).unwrap();
        assert_eq!(v.all("spec"), ["a", " b; c "].map(Value::from));
        for bad in [
            json!({"time": 300}),
            json!({"time": "soon"}),
            json!({"time": "-1s"}),
            json!({"spec": 4}),
        ] {
            assert!(fails(bad.clone()).message.starts_with("w: "), "{bad}");
        }
    }

    #[test]
    fn says_what_would_be_right() {
        let e = fails(json!({"recrod": 1}));
        assert_eq!(
            (e.message.as_str(), e.hint.as_deref()),
            (
                "w: unknown parameter `recrod`",
                Some("did you mean `record`?")
            )
        );
        assert_eq!(
            fails(json!({"op": "raed"})).hint.as_deref(),
            Some("did you mean `read`?")
        );
        assert!(
            fails(json!({"passes": [1, 2]}))
                .message
                .contains("not a list")
        );
        assert!(
            fails(json!({"passes": "1,2"}))
                .message
                .contains("not a list")
        );
        for bad in [
            json!({"record": -4}),
            json!({"record": "-4K"}),
            json!({"record": 1.5}),
            json!({"record": true}),
            json!({"record": []}),
            json!({"op": 3}),
            json!({"direct": "maybe"}),
            json!({"direct": 7}),
            json!({"record": null}),
            json!({"record": u64::MAX}),
            json!({"colour": "red"}),
        ] {
            assert!(fails(bad.clone()).message.starts_with("w: "), "{bad}");
        }
    }

    #[test]
    fn too_many_points_are_refused() {
        let many: Vec<u64> = (1..=6000).collect();
        let v = read(
            PARAMS,
            &settings(json!({"op": "read,write", "record": many})),
        )
        .unwrap();
        assert!(v.combinations(PARAMS).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(key in ".*", text in ".*", number: f64, negative: i64) {
            for value in [json!(text), json!(number), json!(negative), json!([text, number])] {
                for name in ["op", "record", "passes", "direct", key.as_str()] {
                    let mut params = Map::new();
                    params.insert(name.into(), value.clone());
                    let _ = read(PARAMS, &Settings { workload: "w".into(), label: None, params });
                }
            }
        }
    }
}
