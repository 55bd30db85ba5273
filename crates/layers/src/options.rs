use std::time::Duration;

use layermark_model::{LABEL, Reach, Reached, Spec, nearest, two_layers};

use crate::{ALL, Layer, LayerError, find};

mod values;

pub(crate) use values::{
    LayerOptions, NoOptions, OptionValue, given, layer_options, on_off, option_rows, option_words,
    read,
};

/// One option of a layer. Parsing, help and docs are derived from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerOption {
    /// Name before the `=`; `variant` is the part after the colon.
    pub name: &'static str,
    /// Values it accepts; empty: any text, checked by the layer.
    pub values: &'static [&'static str],
    /// Used when it is not given; empty for a variant that must be given.
    pub default: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// What it reaches beyond the run's directory, and the only value with which it does; empty: any but the
    /// default.
    pub reach: Option<(Reach, &'static str)>,
}

/// The option that every layer has.
pub const NAMED: LayerOption = LayerOption {
    name: LABEL,
    values: &[],
    default: "",
    help: "name of the layer in every output, for every layer; default: the layer as it is written",
    reach: None,
};

/// The variants of a layer as they are listed and tested: those that a run builds without `-l`, then all others.
/// Empty if variants cannot be listed, such as directories.
pub fn listed(layer: &dyn Layer) -> Vec<Spec> {
    let id = layer.id();
    let defaults = layer.describe(&Spec::bare(id)).map(|info| info.defaults);
    let defaults = defaults.unwrap_or_default().iter();
    let mut texts: Vec<String> = defaults.map(|s| (*s).to_owned()).collect();
    if let Some(variant) = named(layer.options(), "variant") {
        let whole = texts.iter().any(|text| text == id);
        for value in variant.values {
            let text = format!("{id}:{value}");
            let is_default = whole && *value == variant.default;
            if !is_default && !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    texts.iter().filter_map(|s| s.parse().ok()).collect()
}

/// Checks that the layer, its variant, its options and their values exist.
pub fn check(spec: &Spec) -> Result<(), LayerError> {
    let layer = find(&spec.layer).ok_or_else(|| unknown(&spec.layer))?;
    let options = layer.options();
    check_variant(spec, options)?;
    for (name, value) in &spec.options {
        if name == LABEL {
            check_label(spec, value)?;
            continue;
        }
        let Some(option) = named(options, name).filter(|o| o.name != "variant") else {
            let known: Vec<&str> = names(options).chain([LABEL]).collect();
            let near = nearest(name, known.iter().copied()).map(str::to_owned);
            if is_below(name, value, near.is_none()) {
                return Err(on_another(spec, name, value));
            }
            return Err(LayerError::UnknownOption {
                layer: spec.layer.clone(),
                option: name.clone(),
                nearest: near,
                known,
            });
        };
        check_value(spec, option, value)?;
    }
    layer.describe(spec)?.check()
}

/// Whether the value of an option that a layer does not have names what the layer is to be on. An option that is nearly
/// another one is a slip of the hand: `unlike` says that it is none.
fn is_below(option: &str, value: &str, unlike: bool) -> bool {
    const PLACES: [&str; 6] = ["on", "in", "at", "dir", "base", "path"];
    let placed = PLACES.contains(&option);
    is_layer(value) && (placed || unlike) || placed && value.contains('/')
}

fn is_layer(text: &str) -> bool {
    text.parse()
        .is_ok_and(|spec: Spec| find(&spec.layer).is_some())
}

fn on_another(spec: &Spec, option: &str, below: &str) -> LayerError {
    let mut layer = spec.clone();
    match option {
        "variant" => layer.variant = None,
        option => drop(layer.options.remove(option)),
    }
    LayerError::OnAnother {
        layer: layer.to_string(),
        below: below.into(),
    }
}

/// What a layer reaches beyond the run's directory, even if it is invalid. Both ends of a path.
pub fn reaches(spec: &Spec) -> Vec<Reached> {
    let (near, far) = spec.ends();
    [near, far].iter().flat_map(reached_by).collect()
}

fn reached_by(spec: &Spec) -> Vec<Reached> {
    let options = find(&spec.layer).map_or(&[][..], |layer| layer.options());
    let mut reached = Vec::new();
    for option in options {
        let Some((what, only)) = option.reach else {
            continue;
        };
        let by = match option.name {
            "variant" => format!("{}:", spec.layer),
            name => format!("{}: {name} = ", spec.layer),
        };
        let given = values::text_of(spec, option).filter(|text| match only {
            "" => !["", option.default].contains(text),
            only => *text == only,
        });
        reached.extend(given.map(|text| Reached {
            what,
            by: format!("{by}{text}"),
        }));
    }
    reached
}

/// The error for a name that no layer has.
pub fn unknown(name: &str) -> LayerError {
    LayerError::UnknownLayer {
        name: name.into(),
        nearest: nearest(name, ALL.iter().map(|l| l.id())).map(str::to_owned),
    }
}

/// A suggestion for a name that is not a layer's: a variant or an option's value, or a program that
/// uses layers.
pub(crate) fn instead(name: &str) -> Option<String> {
    match name {
        "docker" => {
            return Some(
                "did you mean `container:docker`? One that runs already: -l 'exec:docker exec -i ID,dir=/data'"
                    .into(),
            );
        }
        "lxc" | "lxd" | "kubernetes" | "kubectl" | "vagrant" | "lima" | "wsl" => {
            return Some(
                "any place behind a command is a layer: -l 'exec:kubectl exec -i POD --,dir=/data'; layermark layers exec"
                    .into(),
            );
        }
        "cifs" | "samba" => return instead("smb"),
        "fuse-overlayfs" => return Some("did you mean `overlay:fuse`?".into()),
        "qemu" | "kvm" => return Some("did you mean `vm`? layermark layers vm".into()),
        _ => {}
    }
    let options = ALL
        .iter()
        .flat_map(|l| l.options().iter().map(|o| (l.id(), o)));
    // Other options have values such as `on`, which do not identify a layer.
    let named = |option: &LayerOption| ["variant", "share", "disk", "nic"].contains(&option.name);
    let (layer, option) = options
        .filter(|(layer, option)| *layer != "mock" && named(option))
        .find(|(_, option)| option.values.contains(&name) && name != "none")?;
    Some(match option.name {
        "variant" => format!("did you mean `{layer}:{name}`?"),
        "share" => {
            format!("did you mean `{layer}:share={name}`? Where it is mounted already: -l dir:DIR")
        }
        other => format!("did you mean `{layer}:{other}={name}`?"),
    })
}

/// A label is read in tables, so it has to be there and short.
fn check_label(spec: &Spec, label: &str) -> Result<(), LayerError> {
    const LONGEST: usize = 40;
    let must = match label.chars().count() {
        0 => "is empty: give the layer a name".to_owned(),
        n if n > LONGEST => format!("is longer than {LONGEST} characters"),
        _ if label.contains(char::is_control) => "has control characters".to_owned(),
        _ => return Ok(()),
    };
    Err(bad(spec, LABEL, label, must))
}

fn check_variant(spec: &Spec, options: &'static [LayerOption]) -> Result<(), LayerError> {
    let option = named(options, "variant");
    match (option, &spec.variant) {
        (Some(option), Some(value)) => check_value(spec, option, value),
        (Some(option), None) if option.default.is_empty() => Err(bad(
            spec,
            "variant",
            "",
            format!("has to be given: {}", option.help),
        )),
        (None, Some(value)) => Err(bad(
            spec,
            "variant",
            value,
            "is not known: the layer has no variants".into(),
        )),
        _ => Ok(()),
    }
}

/// File systems that nothing here makes: they can be measured where they are mounted.
pub(crate) const ONLY_MOUNTED: [&str; 8] = [
    "zfs", "bcachefs", "f2fs", "ntfs", "exfat", "vfat", "jfs", "nilfs2",
];

fn check_value(spec: &Spec, option: &LayerOption, value: &str) -> Result<(), LayerError> {
    if option.values.is_empty() || option.values.contains(&value) {
        return Ok(());
    }
    if option.name == "variant" {
        let layer = spec.to_string();
        if let Some(both) = two_layers(&layer) {
            let both = both.map(str::to_owned);
            return Err(LayerError::TwoLayers { layer, both });
        }
    }
    // `fs=loop:xfs` is an `xfs`; `disk=loop:xfs` is a disk on another layer.
    let own = value
        .rsplit(':')
        .next()
        .filter(|own| option.values.contains(own));
    if own.is_none() && value.contains(':') && is_layer(value) {
        return Err(on_another(spec, option.name, value));
    }
    let must = format!("is not one of {}", option.values.join(", "));
    let mut e = bad(spec, option.name, value, must);
    if let LayerError::BadValue { nearest: near, .. } = &mut e
        && !ONLY_MOUNTED.contains(&value)
    {
        let similar = || nearest(value, option.values.iter().copied());
        *near = own.or_else(similar).map(str::to_owned);
    }
    Err(e)
}

fn named(options: &'static [LayerOption], name: &str) -> Option<&'static LayerOption> {
    options.iter().find(|o| o.name == name)
}

fn names(options: &'static [LayerOption]) -> impl Iterator<Item = &'static str> {
    options.iter().map(|o| o.name).filter(|n| *n != "variant")
}

/// The error for a value that an option does not accept.
pub(crate) fn bad(spec: &Spec, option: &str, value: &str, must: String) -> LayerError {
    LayerError::BadValue {
        layer: spec.to_string(),
        option: option.into(),
        value: value.into(),
        must,
        nearest: None,
    }
}

/// A duration, which may be in microseconds (`us`).
pub(crate) fn delay(text: &str) -> Option<Duration> {
    if let Some(number) = text.strip_suffix("us") {
        let micros: f64 = number.trim().parse().ok()?;
        return Duration::try_from_secs_f64(micros / 1e6).ok();
    }
    layermark_model::parse_duration(text).ok()
}

/// Bits a second of the option `rate`; `None`: no limit.
pub(crate) fn rate(spec: &Spec, text: &str) -> Result<Option<u64>, LayerError> {
    const UNITS: [(&str, u64); 3] = [
        ("kbit", 1_000),
        ("mbit", 1_000_000),
        ("gbit", 1_000_000_000),
    ];
    // At a lower rate, sending a stream's buffers takes longer than a probe may be silent.
    const POSSIBLE: std::ops::RangeInclusive<u64> = 1_000_000..=1_000_000_000_000;
    if text == "none" {
        return Ok(None);
    }
    let bits = UNITS.iter().find_map(|(unit, bits)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*bits)
    });
    match bits.filter(|bits| POSSIBLE.contains(bits)) {
        Some(bits) => Ok(Some(bits)),
        None => Err(bad(
            spec,
            "rate",
            text,
            "is not from 1mbit to 1000gbit".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::About;

    fn error(text: &str) -> String {
        let e = check(&text.parse().unwrap()).unwrap_err();
        assert!(
            e.is_usage() && e.hint().is_some_and(|h| !h.is_empty()),
            "{e}"
        );
        e.to_string()
    }

    #[test]
    fn says_what_was_meant() {
        assert_eq!(
            error("overlya"),
            "unknown layer `overlya`: did you mean `overlay`?"
        );
        for (name, hint) in [
            ("xfs", "did you mean `loop:xfs`?"),
            ("writecopy", "did you mean `overlay:writecopy`?"),
            (
                "nfs",
                "did you mean `vm:share=nfs`? Where it is mounted already: -l dir:DIR",
            ),
            (
                "docker",
                "did you mean `container:docker`? One that runs already: -l 'exec:docker",
            ),
            (
                "kubectl",
                "any place behind a command is a layer: -l 'exec:",
            ),
            ("kvm", "did you mean `vm`?"),
            ("samba", "did you mean `vm:share=smb`?"),
            ("fuse-overlayfs", "did you mean `overlay:fuse`?"),
            ("gocryptfs", "did you mean `fuse:gocryptfs`?"),
            ("teleport", "what there is: layermark layers"),
        ] {
            let said = unknown(name).hint().unwrap();
            assert!(said.starts_with(hint), "{name}: {said}");
        }
        assert!(error("overlay:uper").ends_with("did you mean `upper`?"));
        assert!(error("loop:xfs,direct_io=on").ends_with("did you mean `direct-io`?"));
        assert!(error("loop:ext4,direct-io=of").contains("did you mean `off`?"));
        assert!(error("native:fast").contains("no variants"));
        assert!(error("native,fast=1").contains("no option `fast`"));
        assert!(error("loop:zfs").ends_with("is not one of ext4, xfs, btrfs"));
        assert!(error("loop:ext4,variant=xfs").contains("no option"));
        assert!(error("loop:xfs,size=1M").contains("below 320M"));
        assert!(error("tmpfs,size=-1").contains("size"));
        assert!(error("dir:/nonexistent").contains("does not exist"));
        assert!(error("dir").contains("has to be given"));
        assert!(error("mock,step=2").contains("AT:FACTOR"));
        assert!(error("native,label=").contains("is empty"));
        assert!(error("fuse,labl=a").ends_with("did you mean `label`?"));
        check(&"loop:ext4,label=a b".parse().unwrap()).unwrap();
    }

    /// Each lies below `--dir`: the way to have one on another is a directory there, and the hint has its command.
    #[test]
    fn a_layer_on_another_is_refused_with_the_command_that_measures_it() {
        let refused = |text: &str| {
            let e = check(&text.parse().unwrap()).unwrap_err();
            assert!(e.is_usage(), "{text}");
            (e.to_string(), e.hint().unwrap())
        };
        for (text, layer, below) in [
            ("vm:disk=ide,on=loop:xfs", "vm:disk=ide", "loop:xfs"),
            ("vm:on=loop:xfs", "vm", "loop:xfs"),
            ("vm:disk=loop:xfs", "vm", "loop:xfs"),
            ("overlay:upper,lower=fuse", "overlay:upper", "fuse"),
            ("vm:share=9p,base=tmpfs", "vm:share=9p", "tmpfs"),
            ("overlay:loop:xfs", "overlay", "loop:xfs"),
        ] {
            let (said, hint) = refused(text);
            let start = format!("layer `{layer}` cannot be set up on `{below}`");
            assert!(said.starts_with(&start), "{said}");
            let command = format!("layermark run -l {} --dir DIR", shell_words::quote(layer));
            assert!(hint.contains(&command), "{hint}");
            assert!(
                hint.ends_with("layermark docs howto/file-systems"),
                "{hint}"
            );
        }
        for text in ["vm:on=/mnt/xfs", "vm:dir=/mnt/xfs"] {
            let hint = refused(text).1;
            assert_eq!(hint, "layermark run -l vm --dir /mnt/xfs", "{text}");
        }
        let hint = refused("loop:xfs,dir=/mnt/a b").1;
        assert_eq!(hint, "layermark run -l loop:xfs --dir '/mnt/a b'");
        let (said, hint) = refused("loop:xfs+vm");
        assert_eq!(said, "layer `loop:xfs+vm` names two layers");
        assert!(
            hint.starts_with("to compare them: -l loop:xfs -l vm; "),
            "{hint}"
        );
        assert!(hint.contains("with --dir"), "{hint}");
        assert!(error("vm:fs=loop:xfs").ends_with("did you mean `xfs`?"));
    }

    #[test]
    fn every_layer_is_described_and_its_defaults_are_its_own() {
        for layer in ALL {
            let about = |spec: Spec| layer.describe(&spec).unwrap().about;
            let all: Vec<About> = listed(*layer).into_iter().map(about).collect();
            let different: BTreeSet<&About> = all.iter().collect();
            assert_eq!(different.len(), all.len(), "{all:?}");
            let whole = layer.describe(&Spec::bare(layer.id())).unwrap();
            let mut briefs = all.iter().chain([&whole.about]).map(|about| about.brief);
            assert!(briefs.all(|brief| !brief.is_empty() && !brief.contains([':', ';', '('])));
            assert!(listed(*layer).len() >= whole.defaults.len());
            for spec in listed(*layer) {
                assert_eq!(spec.layer, layer.id());
                check(&spec).unwrap();
            }
            for option in layer.options() {
                assert!(!option.help.is_empty(), "{} {}", layer.id(), option.name);
                let known = option.values.is_empty() || option.values.contains(&option.default);
                assert!(known, "{} {}", layer.id(), option.name);
                assert!(!option.name.contains('_'), "{} {}", layer.id(), option.name);
                for value in option.values {
                    let spec = with_value(*layer, option, value);
                    if let Err(e) = layer.describe(&spec).unwrap().check() {
                        assert!(!e.to_string().contains("is not known"), "{spec}: {e}");
                    }
                }
            }
            let names: BTreeSet<&str> = layer.options().iter().map(|o| o.name).collect();
            assert_eq!(names.len(), layer.options().len(), "{}", layer.id());
        }
    }

    fn with_value(layer: &dyn Layer, option: &LayerOption, value: &str) -> Spec {
        let mut spec = Spec::bare(layer.id());
        match option.name {
            "variant" => spec.variant = Some(value.into()),
            name => drop(spec.options.insert(name.into(), value.into())),
        }
        spec
    }

    /// The values of a stored run are not checked.
    #[test]
    fn a_value_that_was_not_checked_is_refused() {
        for layer in ALL {
            let listed = layer.options().iter().filter(|o| !o.values.is_empty());
            for option in listed {
                let spec = with_value(*layer, option, "doctored");
                let base = crate::Base {
                    dir: "/nonexistent".into(),
                    packaged: "/nonexistent".into(),
                    exe: "/nonexistent".into(),
                    silence: Duration::ZERO,
                    until: None,
                    content: crate::Content::Fresh,
                };
                let opened = layer.open(&base, &spec, &mut crate::Undo::default());
                let e = opened.err().unwrap();
                assert!(
                    e.is_usage() && e.to_string().contains("`doctored` is not"),
                    "{spec}: {e}"
                );
            }
        }
    }

    #[test]
    fn a_path_can_name_every_layer() {
        let known: std::collections::BTreeSet<&str> = ALL.iter().map(|l| l.id()).collect();
        assert_eq!(known, layermark_model::LAYERS.into());
    }

    /// A new file with a layer in it must be in the list.
    #[test]
    fn every_file_is_listed() {
        let src = layermark_testkit::crate_dir(env!("CARGO_MANIFEST_DIR")).join("src");
        let list = std::fs::read_to_string(src.join("lib.rs")).unwrap();
        let mut found = 0;
        for entry in std::fs::read_dir(&src).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let module = path.file_stem().unwrap().to_str().unwrap();
            let names = text
                .lines()
                .filter_map(|l| l.strip_prefix("impl LayerKind for "));
            for name in names {
                let line = format!("    &{module}::{},", name.trim_end_matches(" {"));
                assert!(
                    list.contains(&line),
                    "add to ALL in src/lib.rs the line\n{line}"
                );
                found += 1;
            }
        }
        assert_eq!(found, ALL.len());
    }

    /// What a layer can do is asked of its description, so that a new one edits no other file.
    #[test]
    fn nobody_else_asks_for_a_layer_by_its_name() {
        // The words of a study, and of a section, about these layers.
        const ABOUT_ONE: [&str; 2] = [
            "report/src/studies/virtual_io/stacks.rs",
            "report/src/views/durability.rs",
        ];
        fn sources(dir: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                match path.file_name().and_then(|name| name.to_str()) {
                    Some("tests" | "tests.rs") => {}
                    _ if path.is_dir() => sources(&path, found),
                    _ => found.push(path),
                }
            }
        }
        let crates = layermark_testkit::crate_dir(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        for name in ["lab", "cli", "store", "report"] {
            sources(&crates.join(name).join("src"), &mut files);
        }
        assert!(files.len() > 100, "{}", files.len());
        let asks = |line: &str| {
            ALL.iter()
                .filter(|layer| layer.id() != "mock")
                .any(|layer| {
                    let (word, start) =
                        (format!("\"{}\"", layer.id()), layer.id().to_owned() + ":");
                    let of_id = [".layer ", ".layer.as_str()", ".id()"].iter();
                    let compares = ["==", "!=", "matches!"]
                        .iter()
                        .any(|how| line.contains(how));
                    compares && line.contains(&word) && of_id.clone().any(|of| line.contains(of))
                        || line.contains(&format!("starts_with(\"{start}"))
                        || line.contains(&format!("strip_prefix(\"{start}"))
                })
        };
        for file in files {
            let path = file.to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&file).unwrap();
            let product = text.split("#[cfg(test)]").next().unwrap();
            for line in product.lines().filter(|line| asks(line)) {
                let known = ABOUT_ONE.iter().any(|end| path.ends_with(end));
                assert!(known, "{path}: ask `Layer::describe` in place of\n{line}");
            }
        }
    }
}
