//! The layers at the ends of a path: `client..server`, or one layer with this host at the near end.

use layermark_layers::{LayerError, Missing, check, find};
use layermark_model::Spec;

use crate::Catalog;

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
            Some(layer) => layer.describe(spec)?.linked(spec, switch),
            None => Ok(spec.clone()),
        };
        if client.is_native() {
            return Ok(Self::Alone(linked(&server, None)?));
        }
        if server.is_native() {
            return Ok(Self::Client(linked(&client, None)?));
        }
        let network = |spec: &Spec| catalog.describe(spec)?.network;
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
}
