use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Ids that a layer can have. In a path, one of them must follow the two dots, so that
/// `dir:/mnt/a..b` remains a directory.
pub const LAYERS: [&str; 17] = [
    "native",
    "dir",
    "tmpfs",
    "bind",
    "overlay",
    "fuse",
    "sshfs",
    "rclone",
    "loop",
    "image",
    "netns",
    "vm",
    "container",
    "exec",
    "command",
    "ssh",
    "mock",
];

/// The option that every layer has: its name in every output.
pub const LABEL: &str = "label";

/// A layer as a user writes it: `name[:variant][,key=value]...`. Two of them joined by two dots are
/// a path, `client..server`, for work with two ends.
///
/// `overlay:writecopy`, `dir:/mnt/nas`, `loop:xfs,direct-io=off`,
/// `vm:nic=e1000..vm:nic=virtio-net`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Spec {
    /// In a path: the client, the near end. The other fields are the server, the far end.
    pub near: Option<Box<Spec>>,
    /// The layer's id, such as `overlay`.
    pub layer: String,
    /// The text after the colon, if it is not `key=value`.
    pub variant: Option<String>,
    /// Options in alphabetical order.
    pub options: BTreeMap<String, String>,
}

/// A layer that cannot be parsed.
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
    /// A path with more than two ends.
    #[error("`{0}` has more than two ends: a path is client..server")]
    TooManyEnds(String),
    /// Two layers in one.
    #[error(
        "`{spec}` names two layers: to compare them, write -l {first} -l {second}; to have one on the other, name a \
         directory on it with --dir"
    )]
    TwoLayers {
        /// The whole text.
        spec: String,
        /// One of them.
        first: String,
        /// The other one.
        second: String,
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

impl Spec {
    /// The layer of this name, with no variant and no options.
    pub fn bare(layer: &str) -> Self {
        Self {
            near: None,
            layer: layer.into(),
            variant: None,
            options: BTreeMap::new(),
        }
    }

    /// The name that the user gave the layer with `label=`. A path has that of its server, the end that
    /// is written last.
    pub fn label(&self) -> Option<&str> {
        self.options.get(LABEL).map(String::as_str)
    }

    /// The layer's name in every output: its label, or else the layer as it is written.
    pub fn name(&self) -> String {
        self.label().map_or_else(|| self.to_string(), str::to_owned)
    }

    /// The layer without its label: two layers that differ in it alone are set up in the same way.
    #[must_use]
    pub fn unlabelled(&self) -> Self {
        let mut spec = self.clone();
        spec.options.remove(LABEL);
        spec
    }

    /// Whether it is `native`, at both ends of a path.
    pub fn is_native(&self) -> bool {
        self.layer == "native" && self.near.as_ref().is_none_or(|near| near.is_native())
    }

    /// Client and server as separate layers. Without a path the client is `native`.
    pub fn ends(&self) -> (Self, Self) {
        let near = self.near.as_deref().cloned();
        let far = Self {
            near: None,
            ..self.clone()
        };
        (near.unwrap_or_else(|| Self::bare("native")), far)
    }

    /// Whether this spec matches a layer. A spec without variant and options matches any variant
    /// and options. A spec that is not a path matches either end of one.
    pub fn names(&self, layer: &Self) -> bool {
        let (near, far) = layer.ends();
        if self.near.is_some() {
            let (own_near, own_far) = self.ends();
            return own_near.names_end(&near) && own_far.names_end(&far);
        }
        self.names_end(&far) || layer.near.is_some() && self.names_end(&near)
    }

    fn names_end(&self, end: &Self) -> bool {
        let mut options = self.options.iter();
        self.layer == end.layer
            && (self.variant.is_none() || self.variant == end.variant)
            && options.all(|(key, value)| end.options.get(key) == Some(value))
    }
}

/// Splits at the last two dots that a layer's id follows.
fn as_path(text: &str) -> Option<(&str, &str)> {
    let dots = text.rmatch_indices('.').map(|(at, _)| at);
    let is_named = |far: &str, name: &&str| {
        let rest = far.trim_start().strip_prefix(*name).map(str::trim_start);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', ',']))
    };
    dots.filter_map(|at| Some((&text[..at], text[at..].strip_prefix("..")?)))
        .find(|(_, far)| LAYERS.iter().any(|name| is_named(far, name)))
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        if let Some((near, far)) = as_path(text) {
            // Checked before parsing, because each further end would recurse one level deeper.
            if as_path(near.trim()).is_some() {
                return Err(SpecError::TooManyEnds(text.into()));
            }
            let [near, far]: [Self; 2] = [near.parse()?, far.parse()?];
            let near = Some(Box::new(near));
            return Ok(Self { near, ..far });
        }
        let (head, tail) = match text.split_once([':', ',']) {
            None => (text, None),
            Some((head, tail)) => (head, Some((text.as_bytes()[head.len()], tail))),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if head.is_empty() || !head.chars().all(plain) {
            return Err(two_or(text, SpecError::NoName(text.into())));
        }
        let mut spec = Self::bare(head);
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
                .ok_or_else(|| {
                    let wrong = SpecError::NotKeyValue {
                        spec: text.into(),
                        part: part.into(),
                    };
                    two_or(text, wrong)
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

/// The error for a text that names two layers, or else this one.
fn two_or(text: &str, wrong: SpecError) -> SpecError {
    match two_layers(text) {
        Some([first, second]) => SpecError::TwoLayers {
            spec: text.into(),
            first: first.into(),
            second: second.into(),
        },
        None => wrong,
    }
}

/// The layers in a text that cannot be one layer, such as `vm+loop:xfs` or `overlay:upper,fuse`.
pub fn two_layers(text: &str) -> Option<[&str; 2]> {
    let is_layer = |text: &&str| {
        let name = text.split([':', ',']).next().unwrap_or(text);
        LAYERS.contains(&name)
    };
    text.match_indices(['+', '@', ',', ' ', '/', '>'])
        .map(|(at, sign)| {
            let first = text[..at].trim().trim_end_matches(" on").trim();
            [first, text[at + sign.len()..].trim()]
        })
        .find(|both| both.iter().all(is_layer))
}

/// Whether a part is `key=value`. A path or a command may contain `=`, but an option's key contains neither
/// `/` nor a blank within it.
fn is_option(part: &str) -> bool {
    part.split_once('=')
        .is_some_and(|(key, _)| !key.trim().contains(['/', ' ']))
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(near) = &self.near {
            write!(f, "{near}..")?;
        }
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
            "description": "A layer: name[:variant][,key=value]..., such as overlay:writecopy or loop:xfs,direct-io=off; or a path client..server of two"
        })
    }
}

/// Splits a layer from its own command: `overlay:upper=./app --x`. After a comma, `=` belongs to an
/// option and does not end the name: `fuse,delay=6ms=./app`.
pub fn split_layer(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find('=')?;
        let (layer, command) = (&text[..at], &text[at + 1..]);
        let last = layer.rsplit_once(',').map(|(_, last)| last);
        if last.is_some_and(|last| !last.contains('=')) {
            from = at + 1;
            continue;
        }
        return (!layer.is_empty()).then_some((layer, command));
    }
}

/// The command of a layer among `LAYER=COMMAND`: the one for its full name, else the one for its
/// layer id.
pub fn layers_command<'a>(all: &'a [String], layer: &Spec) -> Option<&'a str> {
    let read = |text: &'a String| {
        let (name, command) = split_layer(text)?;
        Some((name.parse::<Spec>().ok()?, command))
    };
    let pairs: Vec<(Spec, &str)> = all.iter().filter_map(read).collect();
    let exact = pairs.iter().find(|(spec, _)| spec == layer);
    let kind = |s: &Spec| *s == Spec::bare(&layer.layer);
    let found = exact.or_else(|| pairs.iter().find(|(spec, _)| kind(spec)));
    found.map(|(_, command)| *command)
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
        let spec: Spec = "exec:env A=b in --x=y,dir=/d".parse().unwrap();
        assert_eq!(spec.variant.as_deref(), Some("env A=b in --x=y"));
        assert_eq!(spec.options["dir"], "/d");
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
    fn two_layers_in_one_are_named() {
        for (text, first, second) in [
            ("overlay:upper,fuse", "overlay:upper", "fuse"),
            ("vm:disk=ide,loop:xfs", "vm:disk=ide", "loop:xfs"),
            ("vm+loop:xfs", "vm", "loop:xfs"),
            ("vm on loop:xfs", "vm", "loop:xfs"),
            ("fuse / overlay:upper", "fuse", "overlay:upper"),
        ] {
            let e = text.parse::<Spec>().unwrap_err();
            let [first, second] = [first, second].map(str::to_owned);
            let spec = text.to_owned();
            let wanted = SpecError::TwoLayers {
                spec,
                first,
                second,
            };
            assert_eq!(e, wanted);
        }
        let said = "overlay:upper,fuse".parse::<Spec>().unwrap_err();
        let said = said.to_string();
        assert!(said.contains("write -l overlay:upper -l fuse;"), "{said}");
        for text in ["loop:xfs,fast", "fuse,vmm", "a+b", "vm+", ",fuse"] {
            let e = text.parse::<Spec>().unwrap_err();
            assert!(!matches!(e, SpecError::TwoLayers { .. }), "{text}: {e}");
        }
        // An option's value is not a layer, and a program may have any words.
        for text in ["container:podman,image=fuse", "exec:ssh native vm"] {
            text.parse::<Spec>().unwrap();
        }
    }

    #[test]
    fn refuses_what_is_not_a_layer() {
        assert!("".parse::<Spec>().is_err());
        assert!(":x".parse::<Spec>().is_err());
        assert!("loop:xfs,fast".parse::<Spec>().is_err());
        assert!("loop:a=1,a=2".parse::<Spec>().is_err());
        // In alphabetical order the first of these would be parsed as a variant.
        assert!("vm:share=x,../a=b".parse::<Spec>().is_err());
        assert!("vm:share=x, =b".parse::<Spec>().is_err());
    }

    #[test]
    fn a_label_is_the_name_of_a_layer() {
        let name = |text: &str| text.parse::<Spec>().unwrap().name();
        assert_eq!(name("vm:disk=ide,label=old disk"), "old disk");
        assert_eq!(name("vm..vm:nic=e1000,label=to e1000"), "to e1000");
        assert_eq!(name("vm:disk=ide,cache=none"), "vm:cache=none,disk=ide");
        let old: Spec = "vm:disk=ide,label=old disk".parse().unwrap();
        assert_eq!(old.unlabelled(), "vm:disk=ide".parse().unwrap());
    }

    #[test]
    fn a_path_is_two_layers() {
        let spec: Spec = "vm:nic=e1000,cpus=1..vm:switch=a".parse().unwrap();
        let (near, far) = spec.ends();
        assert_eq!(
            [near.to_string(), far.to_string(), spec.to_string()],
            [
                "vm:cpus=1,nic=e1000",
                "vm:switch=a",
                "vm:cpus=1,nic=e1000..vm:switch=a"
            ]
        );
        let (near, far) = "netns".parse::<Spec>().unwrap().ends();
        assert_eq!([near.layer, far.layer], ["native", "netns"]);
        let native = |text: &str| text.parse::<Spec>().unwrap().is_native();
        assert!(native("native") && native("native..native"));
        assert!(!native("vm..native") && !native("native..vm"));
    }

    #[test]
    fn a_name_stands_for_variants_and_options_that_it_does_not_have() {
        let names = |name: &str, layer: &str| {
            let [name, layer]: [Spec; 2] = [name, layer].map(|text| text.parse().unwrap());
            name.names(&layer)
        };
        for (name, layer) in [
            ("fuse", "fuse:cache=none,delay=2ms"),
            ("fuse:delay=2ms", "fuse:cache=none,delay=2ms"),
            ("fuse:delay=2ms,cache=none", "fuse:cache=none,delay=2ms"),
            ("loop", "loop:xfs,direct-io=off"),
            ("loop:direct-io=off", "loop:xfs,direct-io=off"),
            ("vm", "vm:nic=e1000..netns"),
            ("netns", "vm:nic=e1000..netns"),
            ("vm..netns", "vm:nic=e1000..netns"),
            ("native..netns", "netns"),
            ("native", "native..vm"),
        ] {
            assert!(names(name, layer), "{name} is {layer}");
        }
        for (name, layer) in [
            ("fus", "fuse"),
            ("fuse:delay=2ms", "fuse"),
            ("fuse:delay=2ms", "fuse:delay=2ms0"),
            ("loop:xfs", "loop:ext4"),
            ("loop:xfs", "loop"),
            ("netns..vm", "vm..netns"),
            ("vm:nic=e1000", "vm..netns"),
            ("native", "netns"),
        ] {
            assert!(!names(name, layer), "{name} is not {layer}");
        }
    }

    #[test]
    fn two_dots_before_anything_else_are_part_of_a_path_of_files() {
        for text in [
            "dir:/a..b",
            "dir:/a/../native",
            "dir:..",
            "dir:/a..vm/",
            "dir:/a..vms",
            "dir:/a..vm..b",
            "vm:kernel=/k..1,root=/vm..x",
        ] {
            let spec: Spec = text.parse().unwrap();
            assert_eq!((spec.near, spec.layer.len() <= 3), (None, true), "{text}");
        }
        let spec: Spec = "native..dir:/a..b".parse().unwrap();
        assert_eq!(spec.variant.as_deref(), Some("/a..b"));
        let spec: Spec = "dir:/a...vm".parse().unwrap();
        assert_eq!(spec.near.unwrap().variant.as_deref(), Some("/a."));
        let three = "vm..vm..native".parse::<Spec>().unwrap_err();
        assert!(three.to_string().contains("two ends"), "{three}");
        let many = "vm..".repeat(100_000) + "vm";
        let many = many.parse::<Spec>();
        assert!(matches!(many, Err(SpecError::TooManyEnds(_))));
        assert!("..vm".parse::<Spec>().is_err());
    }

    proptest! {
        #[test]
        fn paths_read_back(text in "(vm|native|dir)[:,][ab=./, ]{0,8}[.]{2,3}(vm|netns)[a-z:,= .]{0,6}") {
            if let Ok(spec) = text.parse::<Spec>() {
                prop_assert_eq!(spec.to_string().parse::<Spec>(), Ok(spec));
            }
        }

        #[test]
        fn no_text_panics_and_what_is_written_reads_back(text in ".*") {
            if let Ok(spec) = text.parse::<Spec>() {
                prop_assert_eq!(spec.to_string().parse::<Spec>(), Ok(spec));
            }
        }
    }
}
