use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// How a user names a layer: `name[:variant][,key=value]...`.
///
/// `overlay:writecopy`, `dir:/mnt/nas`, `loop:xfs,direct-io=off`, `vm:disk=nvme,cache=none`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Spec {
    /// The layer's id, such as `overlay`.
    pub layer: String,
    /// What follows the colon, when it is not `key=value`.
    pub variant: Option<String>,
    /// Options in the order of their names.
    pub options: BTreeMap<String, String>,
}

/// A layer name that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No name before the colon.
    #[error("`{0}` names no layer: write name[:variant][,key=value]...")]
    NoName(String),
    /// A part after a comma that is not `key=value`.
    #[error("`{part}` in layer `{spec}` is not key=value")]
    NotKeyValue {
        /// The whole text.
        spec: String,
        /// The part of it.
        part: String,
    },
    /// The same option twice.
    #[error("layer `{spec}` sets `{key}` twice")]
    Twice {
        /// The whole text.
        spec: String,
        /// The option.
        key: String,
    },
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        let (head, tail) = match text.split_once([':', ',']) {
            None => (text, None),
            Some((head, tail)) => (head, Some((text.as_bytes()[head.len()], tail))),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if head.is_empty() || !head.chars().all(plain) {
            return Err(SpecError::NoName(text.into()));
        }
        let mut spec = Self {
            layer: head.into(),
            variant: None,
            options: BTreeMap::new(),
        };
        let Some((separator, tail)) = tail else {
            return Ok(spec);
        };
        for (index, part) in tail.split(',').enumerate() {
            if index == 0 && separator == b':' && !is_option(part) {
                spec.variant = Some(part.into());
                continue;
            }
            let (key, value) = part
                .split_once('=')
                .map(|(key, value)| (key.trim(), value.trim()))
                .filter(|(key, _)| !key.is_empty() && key.chars().all(plain))
                .ok_or_else(|| SpecError::NotKeyValue {
                    spec: text.into(),
                    part: part.into(),
                })?;
            if spec.options.insert(key.into(), value.into()).is_some() {
                return Err(SpecError::Twice {
                    spec: text.into(),
                    key: key.into(),
                });
            }
        }
        Ok(spec)
    }
}

/// A path may contain `=`; an option's key may not contain `/`.
fn is_option(part: &str) -> bool {
    part.split_once('=')
        .is_some_and(|(key, _)| !key.contains('/'))
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.layer)?;
        let mut separator = ':';
        if let Some(variant) = &self.variant {
            write!(f, ":{variant}")?;
            separator = ',';
        }
        for (key, value) in &self.options {
            write!(f, "{separator}{key}={value}")?;
            separator = ',';
        }
        Ok(())
    }
}

impl TryFrom<String> for Spec {
    type Error = SpecError;
    fn try_from(text: String) -> Result<Self, SpecError> {
        text.parse()
    }
}

impl From<Spec> for String {
    fn from(spec: Spec) -> Self {
        spec.to_string()
    }
}

impl schemars::JsonSchema for Spec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Spec".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A layer: name[:variant][,key=value]..., such as overlay:writecopy or loop:xfs,direct-io=off"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_name_variant_and_options() {
        let spec: Spec = "loop:xfs,direct-io=off".parse().unwrap();
        assert_eq!(
            (spec.layer.as_str(), spec.variant.as_deref()),
            ("loop", Some("xfs"))
        );
        assert_eq!(spec.options["direct-io"], "off");
        let spec: Spec = "vm:disk=nvme,cache=none".parse().unwrap();
        assert_eq!((spec.variant, spec.options.len()), (None, 2));
        let spec: Spec = "dir:/mnt/a=b".parse().unwrap();
        assert_eq!(spec.variant.as_deref(), Some("/mnt/a=b"));
        for text in [
            "native",
            "overlay:upper",
            "vm:cache=none,disk=nvme",
            "fuse,delay=1ms",
        ] {
            let spec: Spec = text.parse().unwrap();
            assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec);
        }
    }

    #[test]
    fn refuses_what_is_not_a_layer() {
        assert!("".parse::<Spec>().is_err());
        assert!(":x".parse::<Spec>().is_err());
        assert!("loop:xfs,fast".parse::<Spec>().is_err());
        assert!("loop:a=1,a=2".parse::<Spec>().is_err());
        // Written in the order of names the first of these would be read as a variant.
        assert!("vm:share=x,../a=b".parse::<Spec>().is_err());
        assert!("vm:share=x, =b".parse::<Spec>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_written_reads_back(text in ".*") {
            if let Ok(spec) = text.parse::<Spec>() {
                prop_assert_eq!(spec.to_string().parse::<Spec>(), Ok(spec));
            }
        }
    }
}
