//! What a layer is and what it can do, as data. A capability that is absent says why: the same words make the refusal,
//! `layermark layers` and the table in `docs/src/layers.md`.

use std::{fmt, path::PathBuf};

use layermark_model::Spec;

use crate::{LayerError, net};

/// A layer as its options describe it.
pub struct LayerInfo {
    /// Where `layermark layers` lists it.
    pub group: Group,
    /// One line for `layermark layers`; without a variant, about the whole layer.
    pub about: About,
    /// The layers of this kind that `run` builds when the user names none. Layers that start a server or a guest, need
    /// a name of the user's, or tell little beside `native` have none.
    pub defaults: &'static [&'static str],
    /// The same for plans in which all work has two ends. Most layers are left out, since their two ends would meet on
    /// the same loopback.
    pub default_paths: &'static [&'static str],
    /// Where its files are stored.
    pub storage: Storage,
    /// How it takes part in work with two ends.
    pub path: PathEnds,
    /// The network that it joins. Layers in the same network reach each other.
    pub network: Option<NamedNetwork>,
    /// Whether it can be set up again on what a power cut left ([`crate::Content::Survived`]).
    pub power_cut: PowerCut,
    /// Whether it has programs besides layermark.
    pub programs: Programs,
    /// Whether this host has its files in a second directory, [`crate::PlaceInfo::other_side`].
    pub other_side: OtherSide,
    /// Answers that take a look at this host.
    pub(crate) on_demand: Box<dyn OnDemand>,
}

/// What a description looks up on this host when it is asked, and not before: a server may not answer.
pub(crate) trait OnDemand: Send + Sync {
    /// Checks values that [`crate::LayerOption::values`] cannot list.
    fn check(&self) -> Result<(), LayerError> {
        Ok(())
    }
    /// See [`LayerInfo::slowdown`].
    fn slowdown(&self) -> f64 {
        1.0
    }
}

struct Nothing;

impl OnDemand for Nothing {}

impl LayerInfo {
    /// A layer that keeps its files below [`crate::Base::dir`], has this host's programs and network, and is not known
    /// to have anything else.
    pub fn new(group: Group, about: impl Into<About>) -> Self {
        Self {
            group,
            about: about.into(),
            defaults: &[],
            default_paths: &[],
            storage: Storage::Base,
            path: PathEnds::default(),
            network: None,
            power_cut: PowerCut::No("it is not known how to set it up again on what survives"),
            programs: Programs::Some,
            other_side: OtherSide::NONE,
            on_demand: Box::new(Nothing),
        }
    }

    /// Checks the values that cannot be listed, such as a directory of the user's. May look at this host.
    ///
    /// # Errors
    ///
    /// If the layer cannot be set up with them.
    pub fn check(&self) -> Result<(), LayerError> {
        self.on_demand.check()
    }

    /// How many times longer work is expected to take in it than natively, for a forecast before anything is measured.
    /// 1 where only measuring can tell. May look at this host.
    pub fn slowdown(&self) -> f64 {
        self.on_demand.slowdown()
    }

    /// The layer to build for work with two ends. With `switch`, it joins the network of this name, where the other end
    /// is. Otherwise this host is the other end.
    ///
    /// # Errors
    ///
    /// If it cannot be such an end.
    pub fn linked(&self, spec: &Spec, switch: Option<&str>) -> Result<Spec, LayerError> {
        let may = match switch {
            None => self.path.with_host,
            Some(_) => self.path.with_layer,
        };
        if let PathEnd::No(why) = may {
            return Err(why.error(&spec.to_string()));
        }
        let mut linked = spec.clone();
        for (option, value) in &self.path.options {
            linked.options.insert((*option).into(), value.clone());
        }
        if let Some(name) = switch {
            net::join(&mut linked, name);
        }
        Ok(linked)
    }

    /// What it can do: each capability, and why it is absent.
    pub fn capabilities(&self) -> [(&'static str, Option<&'static str>); 5] {
        let end = |end: PathEnd| match end {
            PathEnd::Yes => None,
            PathEnd::No(no) => Some(no.why),
        };
        [
            (
                "power cuts",
                match self.power_cut {
                    PowerCut::Yes { .. } => None,
                    PowerCut::No(why) => Some(why),
                },
            ),
            (
                "programs",
                match self.programs {
                    Programs::Some => None,
                    Programs::None(why) => Some(why),
                },
            ),
            (
                "both sides",
                match self.other_side {
                    OtherSide::Yes => None,
                    OtherSide::No(why) => Some(why),
                },
            ),
            ("path to this host", end(self.path.with_host)),
            ("path to another layer", end(self.path.with_layer)),
        ]
    }
}

/// What a layer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct About {
    /// In a few words, for the page.
    pub brief: &'static str,
    /// What follows them in `layermark layers`, with its punctuation; may be empty.
    pub more: &'static str,
}

impl About {
    /// Both parts.
    pub const fn of(brief: &'static str, more: &'static str) -> Self {
        Self { brief, more }
    }
}

impl From<&'static str> for About {
    fn from(brief: &'static str) -> Self {
        Self::of(brief, "")
    }
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.brief, self.more)
    }
}

/// Whether a layer can be set up again on what a power cut left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerCut {
    /// It can.
    Yes {
        /// Whether it needs a large disk: an image in it has a fixed size, and a guest has files of its own.
        large_disk: bool,
        /// Whether its files are unmounted when it ends. A guest is killed, and a container has its files on this host.
        unmounted: bool,
        /// Whether only one of its disks is set up at a time: a second one would be taken for the first one.
        alone: bool,
    },
    /// It cannot, because; after "cannot be cut: ".
    No(&'static str),
}

impl PowerCut {
    /// Of a layer that is mounted, and has no image.
    pub(crate) const MOUNTED: Self = Self::Yes {
        large_disk: false,
        unmounted: true,
        alone: false,
    };
}

/// Whether programs other than layermark are in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    /// They may be.
    Some,
    /// There are none, because.
    None(&'static str),
}

/// Whether this host has a layer's files in a second directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherSide {
    /// It has.
    Yes,
    /// It has not, because.
    No(&'static str),
}

impl OtherSide {
    /// Of most layers, and of every path.
    pub const NONE: Self = Self::No("this host has its files in no second directory");
}

/// How a layer takes part in work with two ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathEnds {
    /// Whether this host can be the other end.
    pub with_host: PathEnd,
    /// Whether another layer can be, in a network of both.
    pub with_layer: PathEnd,
    /// Whether this host is reached through a network of its own. Otherwise both ends meet on a loopback.
    pub network: bool,
    /// The option that gives it one.
    pub network_by: Option<(&'static str, &'static str)>,
    /// Options that it gets for such work.
    pub options: Vec<(&'static str, String)>,
}

impl Default for PathEnds {
    /// Its two ends meet on the loopback of this host.
    fn default() -> Self {
        Self {
            with_host: PathEnd::Yes,
            with_layer: PathEnd::No(NoPath {
                why: "cannot be in a network with another layer",
                hint: "name it alone: -l {layer}; netns and vm can be both ends of a path",
            }),
            network: false,
            network_by: None,
            options: Vec::new(),
        }
    }
}

impl PathEnds {
    /// Whether two ends reach each other through a network of its own.
    pub fn has_network(&self) -> bool {
        self.network || self.with_layer == PathEnd::Yes
    }

    /// The same layer with a network of its own, if an option gives it one.
    pub fn given_network(&self, spec: &Spec) -> Option<Spec> {
        let (option, value) = self.network_by?;
        let mut spec = spec.clone();
        spec.options.insert(option.into(), value.into());
        Some(spec)
    }

    /// No end of any path.
    pub(crate) fn none(why: NoPath) -> Self {
        Self {
            with_host: PathEnd::No(why),
            with_layer: PathEnd::No(why),
            ..Self::default()
        }
    }

    /// With this host, and with every layer in its network.
    pub(crate) fn any() -> Self {
        Self {
            with_layer: PathEnd::Yes,
            ..Self::default()
        }
    }
}

/// Whether a layer can be an end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathEnd {
    /// It can.
    Yes,
    /// It cannot, because.
    No(NoPath),
}

/// Why a layer cannot be an end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPath {
    /// After the layer's name.
    pub why: &'static str,
    /// What to do instead. `{layer}` is replaced by the layer as it is written.
    pub hint: &'static str,
}

impl NoPath {
    /// The error for this layer.
    pub(crate) fn error(self, layer: &str) -> LayerError {
        LayerError::NoNetwork {
            layer: layer.into(),
            why: self.why.into(),
            hint: self.hint.replace("{layer}", layer),
        }
    }
}

/// Where a layer keeps its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// On the disk of [`crate::Base::dir`].
    Base,
    /// On the disk of this directory.
    Directory(PathBuf),
    /// In memory.
    Memory,
    /// Where this host does not see its free space.
    Elsewhere,
    /// Nowhere: it has no files, so there is no disk to compare it with. It can be the baseline.
    Nowhere,
}

/// A network that several layers of a run can join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedNetwork {
    /// Its name.
    pub switch: String,
    /// Its kind: networks with the same name and different kinds are separate.
    pub backend: String,
}

/// Where a layer's files are served, as `layermark layers` groups them. In the order in which they are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// File systems and mounts of the kernel that runs here.
    ThisKernel,
    /// Programs that serve files.
    UserSpace,
    /// Containers on this kernel.
    Containers,
    /// Virtual machines.
    Guests,
    /// Networks, and what is reached through one.
    Network,
    /// Places that the user describes.
    Yours,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ThisKernel => "this kernel",
            Self::UserSpace => "user space",
            Self::Containers => "containers",
            Self::Guests => "guests",
            Self::Network => "network",
            Self::Yours => "places of yours",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::{ALL, listed};

    /// The rows of the table in the docs: each capability that some layers lack, with these layers and the reason.
    fn absences() -> String {
        let mut rows: Vec<(&str, &str, Vec<String>)> = Vec::new();
        for layer in ALL.iter().filter(|layer| layer.id() != "mock") {
            let mut specs = listed(*layer);
            if specs.is_empty() {
                specs.push(Spec::bare(layer.id()));
            }
            let infos: Vec<_> = specs.iter().map(|s| layer.describe(s).unwrap()).collect();
            let lacks = |info: &LayerInfo, absent| info.capabilities().contains(&absent);
            for absent in infos.iter().flat_map(LayerInfo::capabilities) {
                let (what, Some(why)) = absent else { continue };
                // Some hosts cannot read what survives on a guest's disk.
                if why.contains("on this host, whose kernel lacks") {
                    continue;
                }
                let own = specs.iter().zip(&infos);
                let own = own.filter(|(_, info)| lacks(info, absent));
                let own: Vec<String> = own.map(|(spec, _)| format!("`{spec}`")).collect();
                let names = if own.len() == specs.len() {
                    vec![format!("`{}`", layer.id())]
                } else {
                    own
                };
                let known = rows.iter_mut().find(|(w, y, _)| (*w, *y) == (what, why));
                match known {
                    Some((.., all)) if all.ends_with(&names) => {}
                    Some((.., all)) => all.extend(names),
                    None => rows.push((what, why, names)),
                }
            }
        }
        let mut text = String::new();
        for kind in LayerInfo::new(Group::Yours, "").capabilities() {
            for (what, why, layers) in rows.iter().filter(|(what, ..)| *what == kind.0) {
                writeln!(text, "| {what} | {} | {why} |", layers.join(", ")).unwrap();
            }
        }
        text
    }

    #[test]
    fn the_table_in_the_docs_is_what_layers_say_of_themselves() {
        let crate_dir = layermark_testkit::crate_dir(env!("CARGO_MANIFEST_DIR"));
        let docs = std::fs::read_to_string(crate_dir.join("../../docs/src/layers.md")).unwrap();
        let rows = absences();
        assert!(rows.lines().count() > 8, "{rows}");
        assert!(
            docs.contains(&rows),
            "the table in docs/src/layers.md has to be\n{rows}"
        );
    }

    #[test]
    fn a_capability_that_is_absent_says_why_in_the_refusal() {
        let spec: Spec = "tmpfs:size=1M".parse().unwrap();
        let info = crate::find("tmpfs").unwrap().describe(&spec).unwrap();
        let absent: Vec<&str> = info.capabilities().iter().filter_map(|c| c.1).collect();
        let refused = info.linked(&spec, Some("lan")).unwrap_err();
        assert!(refused.to_string().contains(absent[2]), "{refused}");
        let hint = refused.hint().unwrap();
        assert!(
            hint.starts_with("name it alone: -l tmpfs:size=1M"),
            "{hint}"
        );
        assert_eq!(info.linked(&spec, None).unwrap(), spec);
    }

    /// `describe` is asked by threads that may not wait: what a check looks at may be on a dead server.
    #[test]
    fn a_layer_is_described_before_it_is_checked() {
        for text in [
            "dir:/nonexistent",
            "command:/nonexistent.toml",
            "dir",
            "ssh",
        ] {
            let spec: Spec = text.parse().unwrap();
            let info = crate::find(&spec.layer).unwrap().describe(&spec).unwrap();
            assert!(info.check().is_err(), "{text}");
        }
        let spec: Spec = "overlay:uper".parse().unwrap();
        assert!(crate::find("overlay").unwrap().describe(&spec).is_err());
    }
}
