//! Layers for work with two ends: `client..server`, or one layer with this host at the near end.

use std::{
    net::IpAddr,
    path::{Path as FilePath, PathBuf},
};

use layermark_layers::{
    Base, End, KernelCaches, LayerError, NearPlace, Place, PlaceInfo, Undo, Wire, mounts, spread,
};
use layermark_model::{CpuTime, DroppedCaches, Facts, NEAR, Spec};

use crate::{Catalog, ends::Ends, execute::layer_failure::LayerFailure};

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
            Self::Client(spec) => {
                let client = open(spec, base)?;
                let host = PlaceInfo::of_dir(other()?.dir);
                Ok(Box::new(Path::of(client, None, host)))
            }
            Self::Both { client, server } => {
                let server = open(server, base).map_err(|lost| lost.at("far end"))?;
                let client = open(client, &other()?).map_err(|lost| lost.at("near end"))?;
                let far = server.info().clone();
                Ok(Box::new(Path::of(client, Some(server), far)))
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
    info: PlaceInfo,
}

impl Path {
    /// A path whose far end is such a place.
    fn of(client: Box<dyn Place>, server: Option<Box<dyn Place>>, far: PlaceInfo) -> Self {
        let near = client.info();
        let info = PlaceInfo {
            dir: far.dir.clone(),
            seen_at: far.on_this_host.then_some(far.dir),
            on_this_host: far.on_this_host,
            kernel: far.kernel,
            read_only: false,
            other_side: None,
            near: Some(NearPlace {
                dir: near.dir.clone(),
                on_this_host: near.on_this_host,
                kernel: near.kernel,
            }),
            address: None,
            helpers: [&near.helpers[..], &far.helpers].concat(),
        };
        Self {
            client,
            server,
            info,
        }
    }

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
    fn info(&self) -> &PlaceInfo {
        &self.info
    }

    fn start(&mut self, end: End) -> Result<Wire, LayerError> {
        match (end, &mut self.server) {
            (End::Near, _) => self.client.start(End::Far),
            (End::Far, Some(server)) => server.start(End::Far),
            (End::Far, None) => self.client.start(End::Near),
        }
    }

    fn link(&mut self) -> Result<[IpAddr; 2], LayerError> {
        if let Some(server) = &mut self.server {
            return Ok([address(&mut self.client)?, address(server)?]);
        }
        let [host, near] = self.client.link()?;
        Ok([near, host])
    }

    fn facts(&self) -> Result<Facts, LayerError> {
        let client = self.client.facts()?;
        let Some(server) = &self.server else {
            let of_dir = mounts::facts_of(&self.info.dir).map_err(|source| LayerError::Io {
                layer: "native".into(),
                what: "find the mounts of".into(),
                path: self.info.dir.clone(),
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

    fn refresh(&mut self, names: &[String]) -> Result<(), LayerError> {
        self.both_mut().try_for_each(|place| place.refresh(names))
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

/// Address of the probe in an end of a path, as the other end reaches it.
fn address(end: &mut Box<dyn Place>) -> Result<IpAddr, LayerError> {
    let known = end.info().address;
    known.map_or_else(|| end.link().map(|[_, inside]| inside), Ok)
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
