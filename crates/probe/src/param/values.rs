//! Reads settings as a user writes them, by a list of parameters.

use std::{borrow::Cow, collections::BTreeMap, fmt::Display};

use layermark_model::{
    Param, ParamKind, PointError, Settings, nearest, parse_counts, parse_milliseconds, parse_sizes,
};
use serde_json::{Map, Number, Value};

use super::Row;

/// Maximum number of points: more than a run could ever complete.
pub const MAX_POINTS: usize = 10_000;

/// The word for a size that the workload or the system chooses.
const AUTO: &str = "auto";

/// The error for more than [`MAX_POINTS`].
pub fn too_many_points(workload: &str) -> PointError {
    let what = format!("the lists of its parameters make more than {MAX_POINTS} points");
    PointError::of_workload(workload, what).hint(format!(
        "shorten a list, or write several plans; what takes a list: layermark {workload} --help"
    ))
}

/// Values of every parameter: those given, or else the default.
#[derive(Clone)]
pub struct Values {
    workload: String,
    lists: BTreeMap<&'static str, Vec<Value>>,
    given: Vec<&'static str>,
}

impl Values {
    /// Reads `settings`. Unknown names, values of the wrong type, and lists for single values are
    /// errors that say what is accepted.
    pub fn read(params: &[Param], settings: &Settings) -> Result<Self, PointError> {
        let workload = &settings.workload;
        let names = || params.iter().map(|p| p.name);
        if let Some(key) = settings.params.keys().find(|k| names().all(|n| n != *k)) {
            let error = PointError::of(workload, key, " is not a parameter");
            return Err(did_you_mean(error, key, names()));
        }
        let mut values = Self {
            workload: workload.clone(),
            lists: BTreeMap::new(),
            given: Vec::new(),
        };
        for param in params {
            let reader = Reader { workload, param };
            let list = match settings.params.get(param.name) {
                Some(value) => {
                    values.given.push(param.name);
                    reader.list(value)?
                }
                None => reader.list(&param.default.into())?,
            };
            values.lists.insert(param.name, list);
        }
        Ok(values)
    }

    /// Whether the user gave this parameter.
    pub fn given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// A copy with other values of one parameter.
    pub fn with(&self, name: &'static str, values: Vec<Value>) -> Self {
        let mut changed = self.clone();
        changed.lists.insert(name, values);
        changed
    }

    /// The values of a parameter that takes words.
    pub fn words(&self, name: &str) -> Vec<&str> {
        self.all(name).iter().filter_map(Value::as_str).collect()
    }

    /// The values of a parameter that takes sizes or numbers.
    pub fn numbers(&self, name: &str) -> Vec<u64> {
        self.all(name).iter().filter_map(Value::as_u64).collect()
    }

    /// Whether a switch is on.
    pub fn flag(&self, name: &str) -> bool {
        self.all(name) == [Value::Bool(true)]
    }

    /// All values of one parameter.
    pub fn all(&self, name: &str) -> &[Value] {
        self.lists.get(name).map_or(&[], Vec::as_slice)
    }

    /// Every combination, in the order of the table: the last parameter changes fastest.
    pub fn combinations<P>(&self, table: &[Row<P>]) -> Result<Vec<Map<String, Value>>, PointError> {
        let lists = || {
            let names = table.iter().map(|row| row.param.name);
            names.map(|name| (name, self.all(name)))
        };
        let count = lists().try_fold(1usize, |n, (_, list)| n.checked_mul(list.len()));
        if count.is_none_or(|n| n > MAX_POINTS) {
            return Err(too_many_points(&self.workload));
        }
        let mut maps = vec![Map::new()];
        for (name, list) in lists() {
            let with = |map: &Map<String, Value>, value: &Value| {
                let mut map = map.clone();
                map.insert(name.into(), value.clone());
                map
            };
            let each = |map| list.iter().map(move |value| with(map, value));
            maps = maps.iter().flat_map(each).collect();
        }
        Ok(maps)
    }
}

fn did_you_mean(
    error: PointError,
    word: &str,
    known: impl Iterator<Item = &'static str>,
) -> PointError {
    let known: Vec<&str> = known.collect();
    let help = error.hint.clone().unwrap_or_default();
    match nearest(word, known.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`? {help}")),
        None => error.hint(format!("known are {}: {help}", known.join(", "))),
    }
}

/// Reads the values of one parameter.
struct Reader<'a> {
    workload: &'a str,
    param: &'a Param,
}

impl Reader<'_> {
    fn list(&self, value: &Value) -> Result<Vec<Value>, PointError> {
        if matches!(self.param.kind, ParamKind::Texts | ParamKind::Env) {
            return self.texts(value).map(|all| vec![all]);
        }
        let one_value = || {
            self.wrong(value, "it takes one value, not a list")
                .hint("write a [[work]] table for each value")
        };
        let mut all = Vec::new();
        match value {
            Value::Array(items) if self.param.list => {
                for item in items {
                    all.extend(self.values(item)?);
                }
            }
            Value::Array(_) => return Err(one_value()),
            other => all = self.values(other)?,
        }
        if all.is_empty() {
            return Err(self
                .error(format!("`{}` is an empty list", self.param.name))
                .hint("give at least one value, or leave the parameter out"));
        }
        if all.len() > 1 && !self.param.list {
            return Err(one_value());
        }
        let mut different: Vec<Value> = Vec::with_capacity(all.len());
        for value in all {
            if !different.contains(&value) {
                different.push(value);
            }
        }
        Ok(different)
    }

    /// A text or a list of texts as one value. The empty text is the empty list.
    fn texts(&self, value: &Value) -> Result<Value, PointError> {
        let items = match value {
            Value::String(text) if text.is_empty() => Vec::new(),
            Value::Array(items) => items.clone(),
            other => vec![other.clone()],
        };
        match items.iter().find(|v| !v.is_string()) {
            None => Ok(Value::Array(items)),
            // The value of an environment variable may be a secret.
            Some(_) if self.param.kind == ParamKind::Env => Err(self.error(": it must be text")),
            Some(bad) => Err(self.wrong(bad, "it must be text")),
        }
    }

    /// The values in one item: a text may hold several.
    fn values(&self, value: &Value) -> Result<Vec<Value>, PointError> {
        let wrong = |must: &str| self.wrong(value, must);
        let one = |value: Value| Ok(vec![value]);
        match (self.param.kind, value) {
            (ParamKind::Word(words), Value::String(text)) => {
                let all = text.split(',').map(str::trim);
                all.map(|word| self.word(word, words)).collect()
            }
            (ParamKind::Word(words), _) => {
                Err(wrong(&format!("it must be one of {}", words.join(", "))))
            }
            (ParamKind::Text | ParamKind::Command, Value::String(_)) => one(value.clone()),
            (ParamKind::Text | ParamKind::Command, _) => Err(wrong("it must be text")),
            (ParamKind::Texts | ParamKind::Env, _) => Err(wrong("a list within a list")),
            (ParamKind::Switch, Value::Bool(on)) => one((*on).into()),
            (ParamKind::Switch, Value::String(text)) if switch(text).is_some() => {
                one(switch(text).into())
            }
            (ParamKind::Switch, _) => Err(wrong("it must be true or false")),
            (ParamKind::Duration, Value::String(text)) => {
                let milliseconds = parse_milliseconds(text).map_err(|e| self.unreadable(e))?;
                one(milliseconds.into())
            }
            (ParamKind::Duration, _) => {
                Err(wrong("it must be text with a unit, such as \"300ms\""))
            }
            (ParamKind::Size | ParamKind::Count, Value::String(text)) => {
                let parse = match self.param.kind {
                    ParamKind::Count => parse_counts,
                    _ => parse_sizes,
                };
                let all = parse(&self.without_auto(text)).map_err(|e| self.unreadable(e))?;
                Ok(all.into_iter().map(Value::from).collect())
            }
            (ParamKind::Size | ParamKind::Count, Value::Number(number)) => match whole(number) {
                Some(number) => one(number),
                None => Err(wrong("it must be a whole number, 0 or above")),
            },
            (ParamKind::Count, _) => Err(wrong(
                "it must be a whole number, or text such as \"4\" or \"1,4\" or \"1..64\"",
            )),
            (ParamKind::Size, _) => Err(wrong(
                "it must be a number, or text such as \"4K\" or \"4K,64K\" or \"32..4K\"",
            )),
        }
    }

    /// A parameter that is `auto` by default accepts that word in a list too. It means 0.
    fn without_auto<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.param.default != AUTO {
            return text.into();
        }
        let number = |item: &'a str| if item.trim() == AUTO { "0" } else { item };
        let items: Vec<&str> = text.split(',').map(number).collect();
        items.join(",").into()
    }

    fn word(&self, word: &str, words: &[&'static str]) -> Result<Value, PointError> {
        if words.contains(&word) {
            return Ok(word.into());
        }
        let error = self.error(format!(" = `{word}` is not known"));
        Err(did_you_mean(error, word, words.iter().copied()))
    }

    fn wrong(&self, value: &Value, must: &str) -> PointError {
        self.error(format!(" = {value}: {must}"))
    }

    fn unreadable(&self, why: impl Display) -> PointError {
        self.error(format!(": {why}"))
    }

    fn error(&self, what: impl Display) -> PointError {
        PointError::of(self.workload, self.param.name, what)
    }
}

/// A number without a fraction: `4096`, or `4096.0` as some TOML writers put it.
fn whole(number: &Number) -> Option<Value> {
    if let Some(n) = number.as_u64() {
        return i64::try_from(n).is_ok().then(|| n.into());
    }
    let f = number.as_f64()?;
    (f >= 0.0 && f.fract() == 0.0 && f < 9e18).then(|| (f as u64).into())
}

fn switch(text: &str) -> Option<bool> {
    match text.trim() {
        "true" | "on" | "yes" | "1" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const TABLE: &[Row<()>] = &[
        Row::word("op", &["read", "write"], "read").list(),
        Row::size("record", "4K").list(),
        Row::count("passes", "0"),
        Row::switch("direct", "false"),
        Row::duration("time", "300ms"),
        Row::text("spec", "a, b").list(),
        Row::size("buffer", "auto").list(),
    ];
    fn declared() -> Vec<Param> {
        TABLE.iter().map(|row| row.param).collect()
    }

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
        Values::read(&declared(), &settings(params))
            .err()
            .expect("an error")
    }

    #[test]
    fn reads_text_numbers_and_lists() {
        let v = Values::read(
            &declared(),
            &settings(json!({"op": "read,write", "record": ["1K", 512, "32..64"], "direct": "on"})),
        )
        .unwrap();
        assert_eq!(v.all("record"), [1024, 512, 32, 64].map(Value::from));
        assert_eq!(v.combinations(TABLE).unwrap().len(), 8);
        assert_eq!(v.all("passes"), [Value::from(0)]);
        assert!(v.given("op") && !v.given("passes"));
        let v = Values::read(&declared(), &settings(json!({"record": "4K,4096"}))).unwrap();
        assert_eq!(v.all("record").len(), 1);
        assert_eq!(v.all("buffer"), [Value::from(0)]);
        let v = Values::read(&declared(), &settings(json!({"buffer": "32K, auto"}))).unwrap();
        assert_eq!(v.all("buffer"), [32768, 0].map(Value::from));
        let e = fails(json!({"record": "auto"}));
        assert!(e.message.contains("`auto` is not"), "{e}");
    }

    #[test]
    fn times_become_milliseconds_and_text_stays_whole() {
        let v = Values::read(&declared(), &settings(json!({"time": "1.5s"}))).unwrap();
        assert_eq!(v.all("time"), [Value::from(1500)]);
        assert_eq!(v.all("spec"), [Value::from("a, b")]);
        let v = Values::read(&declared(), &settings(json!({"spec": ["a", " b; c "]}))).unwrap();
        assert_eq!(v.all("spec"), ["a", " b; c "].map(Value::from));
        for bad in [
            json!({"time": 300}),
            json!({"time": "soon"}),
            json!({"time": "-1s"}),
            json!({"time": "0.9ms"}),
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
                "w: `recrod` is not a parameter",
                Some("did you mean `record`? layermark w --help")
            )
        );
        assert_eq!(
            fails(json!({"op": "raed"})).hint.as_deref(),
            Some("did you mean `read`? layermark w --help")
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
    fn a_count_is_not_read_as_a_size() {
        let v = Values::read(&declared(), &settings(json!({"passes": " 12 "}))).unwrap();
        assert_eq!(v.all("passes"), [Value::from(12)]);
        for (bad, says) in [
            (json!("1.5"), "`1.5` is not a count"),
            (json!("four"), "`four` is not a count"),
            (json!("-1"), "`-1` is not a count"),
            (json!(true), "it must be a whole number"),
        ] {
            let e = fails(json!({"passes": bad}));
            assert!(e.message.contains(says), "{e}");
            assert!(!e.message.contains("size"), "{e}");
        }
    }

    #[test]
    fn too_many_points_are_refused() {
        let many: Vec<u64> = (1..=6000).collect();
        let v = Values::read(
            &declared(),
            &settings(json!({"op": "read,write", "record": many})),
        )
        .unwrap();
        assert!(v.combinations(TABLE).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(key in ".*", text in ".*", number: f64, negative: i64) {
            for value in [json!(text), json!(number), json!(negative), json!([text, number])] {
                for name in ["op", "record", "passes", "direct", key.as_str()] {
                    let mut params = Map::new();
                    params.insert(name.into(), value.clone());
                    let _ = Values::read(&declared(), &Settings { workload: "w".into(), label: None, params });
                }
            }
        }
    }
}
