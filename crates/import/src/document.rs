//! Finds JSON documents with other text around or in them.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use serde_json::{Deserializer, error::Category};

use crate::formats::Found;

/// Most documents of a file. A program that reports each second for hours writes some thousand.
const MOST: usize = 10_000;

/// The documents of a text, and what was skipped to find them.
pub struct Documents<T> {
    /// At least one.
    pub values: Vec<T>,
    /// Lines that are not JSON.
    pub skipped: usize,
}

/// Finds the JSON objects that have `key`, with its quotes, among their first. Text may stand before
/// them, also on the same line (a prompt, a progress line, an outer object), after them, and in lines
/// of its own between theirs (fio issues 731, 1685, 2048). Each line may begin with the same words, as
/// containers' logs have them.
pub fn find<T: DeserializeOwned>(text: &str, key: &str) -> Result<Documents<T>, String> {
    let first = match parse(text, key) {
        Ok(found) => return Ok(found),
        Err(first) => first,
    };
    let bare = without_prefix(text, key);
    if let Some(found) = bare.as_deref().and_then(|bare| parse(bare, key).ok()) {
        return Ok(found);
    }
    let (kept, dropped) = without_words(bare.as_deref().unwrap_or(text));
    if dropped == 0 {
        return Err(first);
    }
    let mut found = parse(&kept, key).map_err(|_| first)?;
    found.skipped = dropped;
    Ok(found)
}

fn parse<T: DeserializeOwned>(text: &str, key: &str) -> Result<Documents<T>, String> {
    const NONE: &str = "there is no JSON object in it";
    let mut from = start(text, 0, key)
        .or_else(|| first_object(text))
        .ok_or(NONE)?;
    let skipped = text[..from].lines().filter(|l| is_words(l)).count();
    let mut values = Vec::new();
    loop {
        let mut stream = Deserializer::from_str(&text[from..]).into_iter::<T>();
        match stream.next() {
            Some(Ok(_)) if values.len() == MOST => {
                return Err(format!("it has more than {MOST} reports"));
            }
            Some(Ok(value)) => values.push(value),
            // It has the key, so it is a report, and would be missed.
            Some(Err(e)) => return Err(told(&e, text, from)),
            None => break,
        }
        match start(text, from + stream.byte_offset(), key) {
            Some(next) => from = next,
            None => break,
        }
    }
    if values.is_empty() {
        return Err(NONE.into());
    }
    Ok(Documents { values, skipped })
}

/// Offset of the brace that opens the next object with this key.
fn start(text: &str, from: usize, key: &str) -> Option<usize> {
    let at = from + text.get(from..)?.find(key)?;
    // Objects that end before the key are values beside it: some programs sort keys.
    let mut ended = 0_usize;
    for (place, byte) in text.as_bytes()[from..at].iter().enumerate().rev() {
        match byte {
            b'}' => ended += 1,
            b'{' if ended == 0 => return Some(from + place),
            b'{' => ended -= 1,
            _ => {}
        }
    }
    None
}

/// Offset of the first line that begins with a brace.
fn first_object(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('{') {
            return Some(at + line.len() - line.trim_start().len());
        }
        at += line.len();
    }
    None
}

/// Of reports of the same jobs the last, as a program that reports while it runs writes several; of
/// different ones all. Notes say what was read.
pub fn latest<T>(all: Vec<T>, key: impl Fn(&T) -> String, found: &mut Found) -> Vec<T> {
    let of_all = all.len();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<T> = Vec::new();
    for one in all {
        let next = kept.len();
        let at = *places.entry(key(&one)).or_insert(next);
        if at == next {
            kept.push(one);
        } else {
            kept[at] = one;
        }
    }
    match (of_all, kept.len()) {
        (1, _) => {}
        (n, 1) => found.note(format!("the last of {n} reports in the file was read")),
        (n, k) if n == k => found.note(format!("{n} reports of different work were read")),
        (n, k) => found.note(format!(
            "{n} reports in the file are of {k} different works: the last of each was read"
        )),
    }
    kept
}

fn told(e: &serde_json::Error, text: &str, from: usize) -> String {
    let line = text[..from].matches('\n').count() + e.line();
    match e.classify() {
        Category::Eof => format!("it is cut off: the text ends inside its JSON, at line {line}"),
        Category::Data => format!("line {line}: {e}"),
        Category::Syntax | Category::Io => {
            format!("line {line}: this is not JSON: {e}")
        }
    }
}

/// Whether a line cannot be part of JSON as programs print it.
fn is_words(line: &str) -> bool {
    let begins = |c: char| c.is_ascii_digit() || "{}[]\"-,:".contains(c);
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with(begins)
}

/// Removes lines of words. Returns the rest, and how many were removed.
fn without_words(text: &str) -> (String, usize) {
    let mut dropped = 0;
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if is_words(line) {
            dropped += 1;
        } else {
            kept.push_str(line);
        }
    }
    (kept, dropped)
}

/// Removes what stands before the brace of the first document from each line that begins alike, but
/// for its digits, which may be a time. `None` if nothing stands there.
fn without_prefix(text: &str, key: &str) -> Option<String> {
    let at = start(text, 0, key)?;
    let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let prefix = &text[begin..at];
    if prefix.trim().is_empty() {
        return None;
    }
    let lines = text[begin..].split_inclusive('\n');
    Some(
        lines
            .map(|line| after(prefix, line).unwrap_or(line))
            .collect(),
    )
}

/// The rest of a line that begins like `prefix`.
fn after<'a>(prefix: &str, line: &'a str) -> Option<&'a str> {
    let (begin, rest) = line.split_at_checked(prefix.len())?;
    let digit = |c: char| if c.is_ascii_digit() { '0' } else { c };
    let same = begin.chars().map(digit).eq(prefix.chars().map(digit));
    same.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const KEY: &str = "\"a\"";

    #[test]
    fn text_may_stand_before_in_and_after() {
        let text = "fio: pid=1, err=5\nnote: x\n{\n \"a\" : 1,\nfio: terminating on signal 2\n \"b\" : 2\n}\nRun status:\n";
        let found: Documents<Value> = find(text, KEY).unwrap();
        assert_eq!(found.values[0]["b"], 2);
        assert_eq!(found.skipped, 4);
        let found: Documents<Value> =
            find("{\"a\":1}\n{\"a\":2}\ndisk stats: none\n", KEY).unwrap();
        assert_eq!((found.values.len(), &found.values[1]["a"]), (2, &2.into()));
    }

    #[test]
    fn text_may_stand_on_the_same_line() {
        for text in [
            "$ fio x.fio >{\n\"a\": 1,\n\"b\": {}}\n$ ",
            "Jobs: 1 (f=1) [eta 00m:00s]{\"a\": 1, \"b\": {}}",
            "{\"host\": \"x\", \"fio\": {\"a\": 1, \"b\": {}}}",
            "{\"b\": {\"c\": {}}, \"a\": 1}",
            "bench-1  | {\nbench-1  |  \"a\": 1,\nbench-1  |  \"b\": {}\nbench-1  | }\n",
            "2026-01-02T03:04:05Z {\n2026-01-02T03:04:06Z \"a\": 1,\n2026-01-02T03:04:06Z \"b\": {}}\n",
        ] {
            let found: Documents<Value> = find(text, KEY).unwrap();
            assert_eq!(found.values.len(), 1, "{text}");
            assert_eq!(found.values[0]["a"], 1, "{text}");
        }
    }

    #[test]
    fn what_is_cut_off_is_told_with_its_line() {
        for text in ["words\n{\n \"a\" : {\n", "{\"a\":1}\n{\"a\":"] {
            let e = find::<Value>(text, KEY).err().unwrap();
            assert!(e.contains("cut off") && e.contains("line"), "{e}");
        }
        let e = find::<Value>("{\n\"a\" 1}", KEY).err().unwrap();
        assert!(e.contains("line 2"), "{e}");
        assert!(find::<Value>("no json", KEY).is_err());
    }

    #[test]
    fn of_the_same_work_the_last_report_is_kept() {
        let mut found = Found::default();
        let kept = latest(
            vec![(1, 'x'), (2, 'x'), (3, 'y')],
            |d| d.1.to_string(),
            &mut found,
        );
        assert_eq!(kept, [(2, 'x'), (3, 'y')]);
        assert_eq!(found.notes.len(), 1);
    }
}
