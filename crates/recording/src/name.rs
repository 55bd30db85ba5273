//! Names of files, as bytes. JSON has them as text: `%` and bytes that are not printable UTF-8 become `%xx`.

use std::fmt::Write as _;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::limits;

/// Characters of a refused name that are shown.
const SHOWN: usize = 100;

/// A name relative to the recorded directory, a component of one, or the target of a link.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub Vec<u8>);

impl Name {
    /// The components.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/')
    }

    /// Whether it is the recorded directory itself.
    pub fn is_root(&self) -> bool {
        self.0 == b"."
    }

    /// The directory that it is in: `.` for a name of one component.
    #[must_use]
    pub fn parent(&self) -> Self {
        let at = self.0.iter().rposition(|byte| *byte == b'/');
        Self(at.map_or_else(|| b".".to_vec(), |at| self.0[..at].to_vec()))
    }

    /// As it is shown, and as JSON has it.
    pub fn escaped(&self) -> String {
        let mut text = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c == '%'
                    || layermark_model::plain(c.encode_utf8(&mut [0; 4])) == " " && c != ' '
                    || c.is_control()
                {
                    let mut bytes = [0; 4];
                    escape(&mut text, c.encode_utf8(&mut bytes).as_bytes());
                } else {
                    text.push(c);
                }
            }
            escape(&mut text, chunk.invalid());
        }
        text
    }

    /// The opposite of [`Self::escaped`]. `None` if an escape is incomplete.
    pub fn unescaped(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
        while let Some(byte) = bytes.get(at) {
            if *byte != b'%' {
                out.push(*byte);
                at += 1;
                continue;
            }
            let digits = text.get(at + 1..at + 3)?;
            if digits.starts_with('+') {
                return None;
            }
            out.push(u8::from_str_radix(digits, 16).ok()?);
            at += 3;
        }
        Some(Self(out))
    }

    /// Why it cannot be a name below the recorded directory. A walk along such a name only goes down.
    pub fn refused(&self) -> Option<String> {
        if self.0.len() > limits::NAME {
            let text = format!(
                "a name has {} bytes, more than {}",
                self.0.len(),
                limits::NAME
            );
            return Some(text);
        }
        if self.is_root() {
            return None;
        }
        let shown = || self.escaped().chars().take(SHOWN).collect::<String>();
        if self.0.first() == Some(&b'/') {
            return Some(format!("the name {:?} is absolute", shown()));
        }
        for component in self.components() {
            match component {
                b"" => return Some(format!("the name {:?} has an empty component", shown())),
                b"." | b".." => {
                    return Some(format!("the name {:?} goes up, or stays", shown()));
                }
                long if long.len() > limits::COMPONENT => {
                    return Some(format!(
                        "a component of a name has {} bytes, more than {}",
                        long.len(),
                        limits::COMPONENT
                    ));
                }
                other if other.contains(&0) => {
                    return Some(format!("the name {:?} has a zero byte", shown()));
                }
                _ => {}
            }
        }
        None
    }
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "%{byte:02x}");
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.escaped())
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::unescaped(&text).ok_or_else(|| D::Error::custom("a name has an incomplete escape"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back() {
        for bytes in [
            &b"a/b"[..],
            b"100%",
            b"\xff\x00 x",
            "ä\u{1b}[31m\u{202e}".as_bytes(),
            b"a b",
        ] {
            let name = Name(bytes.to_vec());
            let text = name.escaped();
            assert_eq!(layermark_model::plain(&text), text);
            assert_eq!(Name::unescaped(&text), Some(name), "{text}");
        }
        assert_eq!(Name::from("a b%").escaped(), "a b%25");
        for bad in ["%", "%4", "%zz", "%+1"] {
            assert_eq!(Name::unescaped(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_names_that_go_down_are_accepted() {
        for good in [".", "a", "a/b", "..a", "a../b"] {
            assert_eq!(Name::from(good).refused(), None, "{good}");
        }
        let (long, longer) = ("x".repeat(256), vec!["x"; 2048 + 1].join("/"));
        for bad in [
            "", "/", "/etc", "..", "a/..", "a//b", "a/", "./a", "a/.", "a\0b", &long, &longer,
        ] {
            assert!(Name::from(bad).refused().is_some(), "{bad}");
        }
        assert!(
            Name::from(longer.as_str())
                .refused()
                .unwrap()
                .contains("4097")
        );
    }

    #[test]
    fn parents() {
        assert_eq!(Name::from("a/b/c").parent(), Name::from("a/b"));
        assert_eq!(Name::from("a").parent(), Name::from("."));
    }
}
