//! Finds a JSON document with other text around or in it.

use serde::de::DeserializeOwned;
use serde_json::{Deserializer, error::Category};

/// A document found in a text, and what was skipped to find it.
pub struct Document<T> {
    pub value: T,
    /// Lines that are not JSON.
    pub skipped: usize,
    /// Documents before this one. A program that reports while it runs writes several.
    pub earlier: usize,
}

/// Finds the last JSON object that begins at the start of a line. Lines of other text may occur
/// before it, after it, and between its own lines (fio issues 731, 1685, 2048).
pub fn find<T: DeserializeOwned>(text: &str) -> Result<Document<T>, String> {
    match parse(text) {
        Ok(found) => Ok(found),
        Err(first) => {
            let (kept, dropped) = without_words(text);
            if dropped == 0 {
                return Err(first);
            }
            let mut found = parse(&kept).map_err(|_| first)?;
            found.skipped = dropped;
            Ok(found)
        }
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<Document<T>, String> {
    let mut last: Option<Document<T>> = None;
    let mut from = next_start(text, 0).ok_or("there is no JSON object in it")?;
    let skipped = text[..from]
        .lines()
        .filter(|l| !l.trim().is_empty())
        .count();
    loop {
        let mut stream = Deserializer::from_str(&text[from..]).into_iter::<T>();
        match stream.next() {
            Some(Ok(value)) => {
                let earlier = last.map_or(0, |d| d.earlier + 1);
                last = Some(Document {
                    value,
                    skipped,
                    earlier,
                });
            }
            // Invalid JSON after a complete document is other text.
            Some(Err(e)) if last.is_none() || e.classify() == Category::Eof => {
                return Err(told(&e, text, from));
            }
            _ => break,
        }
        let end = from + stream.byte_offset();
        match next_start(text, end) {
            Some(next) => from = next,
            None => break,
        }
    }
    last.ok_or_else(|| "there is no JSON object in it".into())
}

/// Offset of the next line whose first character opens an object.
fn next_start(text: &str, from: usize) -> Option<usize> {
    let mut at = from;
    // Text after a document on the same line may open the next.
    for line in text.get(from..)?.split_inclusive('\n') {
        if line.trim_start().starts_with('{') {
            return Some(at + line.len() - line.trim_start().len());
        }
        at += line.len();
    }
    None
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

/// Removes lines that cannot be part of JSON as programs print it. Returns the rest, and how many
/// were removed.
fn without_words(text: &str) -> (String, usize) {
    let mut dropped = 0;
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let begins = |c: char| c.is_ascii_digit() || "{}[]\"-,:".contains(c);
        if line.trim_start().starts_with(begins) || line.trim().is_empty() {
            kept.push_str(line);
        } else {
            dropped += 1;
        }
    }
    (kept, dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn text_may_stand_before_in_and_after() {
        let text = "fio: pid=1, err=5\nnote: x\n{\n \"a\" : 1,\nfio: terminating on signal 2\n \"b\" : 2\n}\nRun status:\n";
        let found: Document<Value> = find(text).unwrap();
        assert_eq!(found.value["b"], 2);
        assert_eq!(found.skipped, 4);
        let found: Document<Value> = find("{\"a\":1}\n{\"a\":2}\ndisk stats: none\n").unwrap();
        assert_eq!((found.value["a"].as_i64(), found.earlier), (Some(2), 1));
    }

    #[test]
    fn what_is_cut_off_is_told_with_its_line() {
        for text in ["words\n{\n \"a\" : {\n", "{\"a\":1}\n{\"a\":"] {
            let e = find::<Value>(text).err().unwrap();
            assert!(e.contains("cut off") && e.contains("line"), "{e}");
        }
        let e = find::<Value>("{\n\"a\" 1}").err().unwrap();
        assert!(e.contains("line 2"), "{e}");
        assert!(find::<Value>("no json").is_err());
    }
}
