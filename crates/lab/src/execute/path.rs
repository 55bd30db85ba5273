//! Layers for work with two ends: `client..server`, or one layer with this host at the near end.

use std::{
    net::IpAddr,
    path::{Path as FilePath, PathBuf},
};

use layermark_layers::{Base, KernelCaches, LayerError, Place, Undo, Wire, mounts, spread};
use layermark_model::{CpuTime, DroppedCaches, Facts, Spec};

use crate::{Catalog, ends::Ends, execute::layer_failure::LayerFailure};

/// Prefix of the names of facts about the near end.
const NEAR: &str = "near_";

impl Ends {
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

    fn drop_caches(&mut self, kernel: KernelCaches) -> Result<DroppedCaches, LayerError> {
        let mut all = DroppedCaches {
            how: Vec::new(),
            complete: true,
        };
        for place in self.both_mut() {
            let one = place.drop_caches(kernel)?;
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

    fn servers(&self) -> Vec<u32> {
        self.both().flat_map(Place::servers).collect()
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
