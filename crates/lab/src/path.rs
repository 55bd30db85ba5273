//! Layers for work with two ends: `client..server`, or one layer with this host at the near end.

use std::{
    net::IpAddr,
    path::{Path as FilePath, PathBuf},
};

use layermark_layers::{Base, LayerError, Missing, Place, Undo, Wire, check, find, mounts, spread};
use layermark_model::{CpuTime, DroppedCaches, Facts, Spec};

use crate::{Catalog, session::LayerFailure};

/// Prefix of the names of facts about the near end.
const NEAR: &str = "near_";

/// The layers to build for a layer as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ends {
    /// One layer; work with two ends has its near end on this host.
    Alone(Spec),
    /// The layer at the near end; the far end is on this host.
    Client(Spec),
    /// A layer at each end.
    Both { client: Spec, server: Spec },
}

impl Ends {
    /// The ends of a layer in a run whose work may have `two_ends`. `default` names the network of
    /// two layers that name none.
    pub(crate) fn of(
        spec: &Spec,
        two_ends: bool,
        default: &str,
        catalog: Catalog,
    ) -> Result<Self, LayerError> {
        let (client, server) = spec.ends();
        for end in [&client, &server] {
            // A layer from a test's catalogue is not known to the crate's own check.
            if find(&end.layer).is_some() || catalog.layer(&end.layer).is_none() {
                check(end)?;
            }
        }
        if !two_ends {
            return Ok(Self::Alone(spec.clone()));
        }
        let linked = |spec: &Spec, switch| match catalog.layer(&spec.layer) {
            Some(layer) => layer.linked(spec, switch),
            None => Ok(spec.clone()),
        };
        if client.is_native() {
            return Ok(Self::Alone(linked(&server, None)?));
        }
        if server.is_native() {
            return Ok(Self::Client(linked(&client, None)?));
        }
        let network = |spec: &Spec| catalog.layer(&spec.layer)?.network(spec);
        let named = network(&client).or_else(|| network(&server));
        let switch = named.as_ref().map_or(default, |network| &network.switch);
        let [client, server] = [&client, &server].map(|end| linked(end, Some(switch)));
        let (client, server) = (client?, server?);
        if network(&client) != network(&server) {
            return Err(LayerError::NoNetwork {
                layer: spec.to_string(),
                why: "has two ends that are not in one network".into(),
                hint: "give both the same switch=NAME and the same backend".into(),
            });
        }
        Ok(Self::Both { client, server })
    }

    fn all(&self) -> Vec<&Spec> {
        match self {
            Self::Alone(one) | Self::Client(one) => vec![one],
            Self::Both { client, server } => vec![client, server],
        }
    }

    /// What this host lacks for these layers, each once.
    pub(crate) fn missing(&self, catalog: Catalog) -> Vec<Missing> {
        let mut all: Vec<Missing> = Vec::new();
        for spec in self.all() {
            let layer = catalog.layer(&spec.layer);
            for missing in layer.map(|l| l.missing(spec)).unwrap_or_default() {
                if !all.contains(&missing) {
                    all.push(missing);
                }
            }
        }
        all
    }

    /// Builds them in `base`.
    pub(crate) fn open(
        &self,
        base: &Base,
        undo: &mut Undo,
        catalog: Catalog,
    ) -> Result<Box<dyn Place>, LayerFailure> {
        let mut open = |spec: &Spec, base: &Base| -> Result<Box<dyn Place>, LayerFailure> {
            let unknown =
                || LayerFailure::new(format!("this layermark has no layer `{}`", spec.layer));
            let layer = catalog.layer(&spec.layer).ok_or_else(unknown)?;
            Ok(layer.open(base, spec, undo)?)
        };
        let other = || -> Result<Base, LayerFailure> {
            let dir = other_dir(&base.dir)?;
            Ok(Base {
                dir,
                ..base.clone()
            })
        };
        match self {
            Self::Alone(spec) => open(spec, base),
            Self::Client(spec) => Ok(Box::new(Path {
                client: open(spec, base)?,
                server: None,
                dir: other()?.dir,
            })),
            Self::Both { client, server } => {
                let server = open(server, base).map_err(|lost| lost.at("far end"))?;
                let client = open(client, &other()?).map_err(|lost| lost.at("near end"))?;
                let dir = server.dir().to_owned();
                let server = Some(server);
                Ok(Box::new(Path {
                    client,
                    server,
                    dir,
                }))
            }
        }
    }
}

/// A new directory next to this one, for the other end.
pub(crate) fn other_dir(beside: &FilePath) -> Result<PathBuf, LayerFailure> {
    let mut name = beside.as_os_str().to_owned();
    name.push("-other");
    let dir = PathBuf::from(name);
    let failed = |e| LayerFailure::new(format!("{}: {e}", dir.display()));
    if dir.exists() {
        std::fs::remove_dir_all(&dir).map_err(failed)?;
    }
    spread::create(&dir).map_err(failed)?;
    Ok(dir)
}

/// Two places as one: that of the far end, with the second probe in the near one.
struct Path {
    client: Box<dyn Place>,
    /// `None`: the far end is this host, at the other end of the client's network.
    server: Option<Box<dyn Place>>,
    /// Directory of the far end.
    dir: PathBuf,
}

impl Path {
    fn both(&self) -> impl Iterator<Item = &dyn Place> {
        let places = [Some(&self.client), self.server.as_ref()];
        places.into_iter().flatten().map(AsRef::as_ref)
    }

    fn both_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Place>> {
        [Some(&mut self.client), self.server.as_mut()]
            .into_iter()
            .flatten()
    }
}

impl Place for Path {
    fn dir(&self) -> &FilePath {
        &self.dir
    }

    fn on_this_host(&self) -> bool {
        self.server.as_ref().is_none_or(|s| s.on_this_host())
    }

    fn owns_kernel(&self) -> bool {
        self.server.as_ref().is_some_and(|s| s.owns_kernel())
    }

    fn near_owns_kernel(&self) -> bool {
        self.client.owns_kernel()
    }

    fn near_dir(&self) -> Option<&FilePath> {
        Some(self.client.dir())
    }

    fn near_on_this_host(&self) -> bool {
        self.client.on_this_host()
    }

    fn start(&mut self) -> Result<Wire, LayerError> {
        match &mut self.server {
            Some(server) => server.start(),
            None => self.client.start_near(),
        }
    }

    fn start_near(&mut self) -> Result<Wire, LayerError> {
        self.client.start()
    }

    fn link(&mut self) -> Result<[IpAddr; 2], LayerError> {
        if let Some(server) = &mut self.server {
            return Ok([self.client.address()?, server.address()?]);
        }
        let [host, near] = self.client.link()?;
        Ok([near, host])
    }

    fn facts(&self) -> Result<Facts, LayerError> {
        let client = self.client.facts()?;
        let Some(server) = &self.server else {
            let of_dir = mounts::facts_of(&self.dir).map_err(|source| LayerError::Io {
                layer: "native".into(),
                what: "find the mounts of".into(),
                path: self.dir.clone(),
                source,
            })?;
            return Ok(turned_round(client, of_dir));
        };
        let mut facts = server.facts()?;
        facts.notes.retain(|name, _| !name.starts_with(NEAR));
        let of_client = client.notes.into_iter();
        let own = of_client.filter(|(name, _)| !name.starts_with(NEAR));
        facts
            .notes
            .extend(own.map(|(name, value)| (format!("{NEAR}{name}"), value)));
        for (program, version) in client.versions {
            facts.versions.entry(program).or_insert(version);
        }
        facts.guest = facts.guest.or(client.guest);
        Ok(facts)
    }

    fn keeps_time(&mut self) -> Result<(), LayerError> {
        self.both_mut().try_for_each(|place| place.keeps_time())
    }

    fn drop_caches(&mut self) -> Result<DroppedCaches, LayerError> {
        let mut all = DroppedCaches {
            how: Vec::new(),
            complete: true,
        };
        for place in self.both_mut() {
            let one = place.drop_caches()?;
            all.how.extend(one.how);
            all.complete &= one.complete;
        }
        Ok(all)
    }

    fn refresh(&mut self) -> Result<(), LayerError> {
        self.both_mut().try_for_each(|place| place.refresh())
    }

    fn helpers(&self) -> Vec<u32> {
        self.both().flat_map(Place::helpers).collect()
    }

    fn helper_cpu(&self) -> Result<CpuTime, LayerError> {
        self.both().try_fold(CpuTime::default(), |all, place| {
            let one = place.helper_cpu()?;
            Ok(CpuTime {
                ns: all.ns + one.ns,
                within_ns: all.within_ns + one.within_ns,
            })
        })
    }
}

/// Swaps the facts of a layer whose near end was this host: this host becomes the far end, which
/// works in a directory of its own.
fn turned_round(facts: Facts, of_dir: Facts) -> Facts {
    let turned = |(name, value): (String, String)| match name.strip_prefix(NEAR) {
        Some(host) => (host.to_owned(), value),
        None => (format!("{NEAR}{name}"), value),
    };
    Facts {
        mounts: of_dir.mounts,
        devices: of_dir.devices,
        backing: of_dir.backing,
        notes: facts.notes.into_iter().map(turned).collect(),
        ..facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(text: &str) -> Result<Ends, LayerError> {
        Ends::of(&text.parse().unwrap(), true, "path-3", Catalog::default())
    }

    #[test]
    fn what_names_no_network_gets_one() {
        let spec = |text: &str| text.parse::<Spec>().unwrap();
        assert_eq!(ends("netns").unwrap(), Ends::Alone(spec("netns")));
        assert_eq!(ends("native..netns").unwrap(), Ends::Alone(spec("netns")));
        assert_eq!(ends("netns..native").unwrap(), Ends::Client(spec("netns")));
        let both = |client: &str, server: &str| Ends::Both {
            client: spec(client),
            server: spec(server),
        };
        for (text, client, server) in [
            ("netns..netns", "netns:switch=path-3", "netns:switch=path-3"),
            ("netns..vm:switch=a", "netns:switch=a", "vm:switch=a"),
            (
                "vm:nic=e1000..vm:switch=none",
                "vm:nic=e1000,switch=path-3",
                "vm:switch=path-3",
            ),
        ] {
            assert_eq!(ends(text).unwrap(), both(client, server), "{text}");
        }
        let alone = Ends::of(&spec("vm"), false, "path", Catalog::default());
        assert_eq!(alone.unwrap(), Ends::Alone(spec("vm")));
    }

    #[test]
    fn ends_that_cannot_reach_each_other_are_refused() {
        for (text, says) in [
            ("overlay:upper..vm", "cannot be in a network"),
            ("vm..dir:/", "cannot be in a network"),
            ("netns:switch=a..vm:switch=b", "not in one network"),
            ("netns..vm:backend=socket", "not in one network"),
            ("vm:backend=user..vm", "backend"),
            ("vm:backend=socket", "no program of this host"),
            ("nets..vm", "did you mean `netns`"),
            ("vm..netns:rate=1", "1mbit"),
        ] {
            let e = ends(text).unwrap_err();
            assert!(e.is_usage() && e.to_string().contains(says), "{text}: {e}");
            assert!(e.hint().is_some(), "{text}");
        }
    }

    #[test]
    fn facts_turn_round() {
        let notes = [("near_address", "1"), ("address", "2")];
        let facts = Facts {
            notes: notes.map(|(k, v)| (k.into(), v.into())).into(),
            ..Facts::default()
        };
        let turned = turned_round(facts, Facts::default()).notes;
        assert_eq!((&*turned["near_address"], &*turned["address"]), ("2", "1"));
    }
}
