//! Removes control characters from untrusted text where it enters the report: see
//! [`layermark_model::plain`].

use std::{borrow::Cow, io};

use layermark_model::plain;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{
    Serializer, Value,
    ser::{CharEscape, Formatter},
};

/// The same value with all texts plain, including names of parameters. Numbers stay exact.
pub fn texts<T: Serialize + DeserializeOwned>(of: T) -> T {
    if is_plain(&of) {
        return of;
    }
    let mut value = serde_json::to_value(&of).unwrap_or_default();
    clean(&mut value);
    // The text was just written and can be read back, unless a number is NaN.
    serde_json::from_value(value).unwrap_or(of)
}

/// Whether all texts are plain already, which is the usual case.
fn is_plain(of: &impl Serialize) -> bool {
    let mut look = Serializer::with_formatter(io::sink(), Look);
    of.serialize(&mut look).is_ok()
}

fn clean(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = plain(text) {
                *text = clean;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(clean),
        Value::Object(map) => {
            let old = std::mem::take(map);
            map.extend(old.into_iter().map(|(name, mut value)| {
                clean(&mut value);
                (plain(&name).into_owned(), value)
            }));
        }
        _ => {}
    }
}

/// A serializer that writes nothing, and fails at the first text that is not plain.
struct Look;

impl Formatter for Look {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        _: &mut W,
        text: &str,
    ) -> io::Result<()> {
        match plain(text) {
            Cow::Borrowed(_) => Ok(()),
            Cow::Owned(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn write_char_escape<W: io::Write + ?Sized>(
        &mut self,
        _: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        match escape {
            CharEscape::Backspace
            | CharEscape::FormFeed
            | CharEscape::CarriageReturn
            | CharEscape::AsciiControl(_) => Err(io::ErrorKind::InvalidData.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_and_names_are_made_plain_and_numbers_stay() {
        let dirty = json!({ "a\u{1b}[1m": ["\u{1b}[31mred\u{1b}[0m\n", 0.1], "n": u64::MAX });
        assert!(!is_plain(&dirty));
        let clean = texts(dirty);
        assert_eq!(clean, json!({ "a": ["red\n", 0.1], "n": u64::MAX }));
        assert!(is_plain(&clean) && is_plain(&json!("Grüße\t\"x\"\n")));
        assert!(!is_plain(&json!("\u{85}")));
    }
}
