//! The network of podman's container, for work with two ends.
//!
//! podman, and what serves the network, run in a network namespace of the layer. The near end is in it too, as a
//! program of this host is beside a container. So neither devices nor rules of this host's own network change, and
//! the container reaches nobody else.

use std::{
    ffi::OsString,
    io,
    net::{IpAddr, Ipv4Addr},
    path::Path,
};

use layermark_model::Missing;
use layermark_sys::packages;

use super::words;
use crate::{
    entered::Outside,
    needs,
    net::{device, space::Net},
    options::option_words,
};

option_words! {
    /// What connects a container.
    pub(crate) enum Network {
        None = "none",
        Slirp = "slirp4netns",
        Bridge = "bridge",
    }
}

/// Address of a container behind slirp4netns, which always gives it this one. The near end has it too: there the
/// published ports are, and so both ends name the far one alike.
const BEHIND_SLIRP: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
/// Addresses of podman's bridge and of the container on it.
const ON_BRIDGE: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 88, 0, 1), Ipv4Addr::new(10, 88, 0, 2)];
/// The published ports. A program in the container that asks for any port gets one of these.
const PORTS: [u16; 2] = [20_000, 20_127];
/// Where CNI finds the bridge's program.
const CNI: &str = "/usr/lib/cni/bridge";
/// Where podman keeps CNI's addresses, and where it finds the user's networks.
const CNI_STATE: [&str; 2] = ["/var/lib/cni", "/etc/cni/net.d"];

impl Network {
    /// Arguments of podman itself: the user's networks are left alone.
    pub(super) fn global(self) -> Option<OsString> {
        (self == Self::Bridge).then(|| "--network-config-dir=/run/networks".into())
    }

    /// Arguments of `podman run`.
    pub(super) fn words(self) -> Vec<OsString> {
        let [first, last] = PORTS;
        let network = format!("--network={self}");
        match self {
            Self::None => words([&network]),
            Self::Slirp => words([
                &network,
                &format!("--sysctl=net.ipv4.ip_local_port_range={first} {last}"),
                &format!("--publish={first}-{last}:{first}-{last}/tcp"),
            ]),
            Self::Bridge => words([&network, &format!("--ip={}", ON_BRIDGE[1])]),
        }
    }

    /// The network in which podman runs. `None`: this host's, of which the container sees nothing.
    pub(super) fn outside(self) -> io::Result<Option<Outside>> {
        let addresses = match self {
            Self::None => return Ok(None),
            Self::Slirp => [BEHIND_SLIRP; 2],
            Self::Bridge => ON_BRIDGE,
        };
        let net = Net::alone()?;
        if self == Self::Slirp {
            net.within(|| device::set_up("lo:1", Some(BEHIND_SLIRP)))?;
        }
        Ok(Some(Outside {
            net,
            addresses: addresses.map(IpAddr::from),
        }))
    }

    /// Directories that podman must see empty.
    pub(super) fn hidden(self) -> impl Iterator<Item = &'static Path> {
        let all = CNI_STATE.into_iter().filter(move |_| self == Self::Bridge);
        all.map(Path::new).filter(|dir| dir.is_dir())
    }

    /// What this host lacks for it.
    pub(super) fn missing(self) -> Vec<Missing> {
        match self {
            Self::None => Vec::new(),
            Self::Slirp => {
                let program = needs::program("slirp4netns", "slirp4netns");
                let device = needs::device(device::TUN, "tun");
                program.into_iter().chain(device).collect()
            }
            Self::Bridge => {
                let plugins = [
                    "/usr/lib/podman/netavark",
                    "/usr/libexec/podman/netavark",
                    CNI,
                ];
                let none = !plugins.iter().any(|path| Path::new(path).is_file());
                let plugins = none.then(|| Missing {
                    what: "podman's bridge: netavark, or the plugins of CNI".into(),
                    hint: packages::sudo_install("containernetworking-plugins"),
                    installable: true,
                });
                plugins
                    .into_iter()
                    .chain(needs::program("iptables", "iptables"))
                    .collect()
            }
        }
    }

    /// Facts of the layer.
    pub(super) fn notes(self) -> Vec<(String, String)> {
        let [kind, near, far] = match self {
            Self::None => return Vec::new(),
            Self::Slirp => [
                "slirp4netns, ports published by rootlessport".to_owned(),
                BEHIND_SLIRP.to_string(),
                BEHIND_SLIRP.to_string(),
            ],
            Self::Bridge => {
                let [near, far] = ON_BRIDGE.map(|address| address.to_string());
                [
                    "podman's bridge and a pair of virtual cards".to_owned(),
                    near,
                    far,
                ]
            }
        };
        let notes = [("network", kind), ("near_address", near), ("address", far)];
        notes.map(|(name, text)| (name.to_owned(), text)).into()
    }
}
