//! A guest's network: its card, the network it is plugged into, and the check that both work.
//!
//! `tap`: a private network namespace. `user`: QEMU emulates a network itself. `socket`: QEMU sends
//! frames to a switch in this process. Guests that name the same switch reach each other.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    process::Command,
    sync::Arc,
};

use layermark_model::{GUEST_NIC, Missing, Spec};

use crate::{
    LayerError, NoPath,
    agent::{client::AgentError, protocol::AgentRequest},
    child, needs,
    net::{
        self, HOST,
        card_facts::CardFacts,
        device::TUN,
        echo,
        lan::{Fabric, Kind, Plug},
        link,
        relay::{Distance, Relay},
        space::Net,
    },
    options::{bad, given, on_off},
    sandbox,
    vm::{
        card::Card,
        options::{Backend, Vhost, VmOptions},
    },
};

pub(crate) mod server;

/// Address of the only guest in a network without a switch.
pub(crate) const GUEST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// Addresses of this host and of the guest in the network that QEMU emulates.
const USER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 2, 2), Ipv4Addr::new(10, 0, 2, 15)];

const VHOST: &str = "/dev/vhost-net";

/// A guest's network as the user described it.
pub(crate) struct Wiring<'a> {
    spec: &'a Spec,
    options: &'a VmOptions,
    /// Whether the guest's directory is served through this network.
    serves: bool,
}

impl<'a> Wiring<'a> {
    /// `None`: the guest has no card, since the user requested none and nothing is served through
    /// it.
    pub(super) fn of(spec: &'a Spec, options: &'a VmOptions, serves: bool) -> Option<Self> {
        let names = ["nic", "backend", "switch", "vhost"];
        let wired = serves || given(spec, &VmOptions::ROWS, &names).is_some();
        wired.then_some(Self {
            spec,
            options,
            serves,
        })
    }

    /// Checks combinations of options.
    pub(crate) fn check(&self) -> Result<(), LayerError> {
        let wrong = |name, value: &str, must: &str| Err(bad(self.spec, name, value, must.into()));
        let backend = self.options.backend;
        if self.serves && backend != Backend::Tap {
            let must = "is not tap, through which this share is served";
            return wrong("backend", &backend.to_string(), must);
        }
        if let Some(name) = self.options.switch_name() {
            net::check_switch_name(self.spec, name)?;
            if self.serves {
                let must = "is not for shares, whose server has the network";
                return wrong("switch", name, must);
            }
            if backend == Backend::User {
                return wrong("switch", name, "needs backend=tap or backend=socket");
            }
        }
        if self.options.vhost == Vhost::On && !self.may_use_vhost() {
            return wrong("vhost", "on", "needs nic=virtio-net and backend=tap");
        }
        Ok(())
    }

    fn may_use_vhost(&self) -> bool {
        self.options.backend == Backend::Tap && self.options.nic.name == "virtio-net"
    }

    pub(crate) fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        if self.options.backend == Backend::Tap {
            missing.extend(needs::device(TUN, "tun"));
            if sandbox::privilege() == sandbox::Privilege::None {
                let hint = if self.serves {
                    "sudo layermark ..."
                } else {
                    "sudo layermark ..., or backend=user or backend=socket"
                };
                missing.push(Missing {
                    hint: hint.into(),
                    ..sandbox::no_networks()
                });
            }
        }
        if self.options.vhost == Vhost::On {
            missing.extend(needs::device(VHOST, "vhost_net"));
        }
        missing
    }

    /// Modules that the guest needs.
    pub(crate) fn modules(&self) -> &'static [&'static str] {
        self.options.nic.modules
    }

    /// Makes the network. It ends with its last guest.
    pub(crate) fn make(&self) -> Result<Network, LayerError> {
        let (backend, switch) = (self.options.backend, self.options.switch_name());
        let plug = |kind| Plug::of_guest(kind, switch).map(Some);
        let made = match backend {
            Backend::User => Ok(None),
            Backend::Socket => plug(Kind::Switch),
            Backend::Tap if switch.is_some() => plug(Kind::Bridge),
            Backend::Tap => plug(Kind::Cable),
        };
        let layer = self.spec.to_string();
        let vhost = match self.options.vhost {
            Vhost::Off => false,
            Vhost::On => true,
            Vhost::Auto => self.may_use_vhost() && needs::device(VHOST, "vhost_net").is_none(),
        };
        let path = match backend {
            Backend::Tap => TUN,
            _ => "a socket",
        };
        Ok(Network {
            card: self.options.nic,
            backend,
            switch: switch.map(str::to_owned),
            plug: made.map_err(LayerError::io(&layer, "make a network with", path.as_ref()))?,
            vhost,
        })
    }
}

/// Why programs of this host cannot reach a network.
pub(crate) const UNREACHABLE: NoPath = NoPath {
    why: "has a network that no program of this host is in",
    hint: "use backend=tap, or a path between two guests: vm:backend=socket..vm:backend=socket",
};

/// An existing network, and one guest's position in it.
pub(crate) struct Network {
    pub(crate) card: &'static Card,
    backend: Backend,
    switch: Option<String>,
    /// `None`: QEMU emulates it.
    plug: Option<Plug>,
    vhost: bool,
}

impl Network {
    /// Addresses of this host and of the guest.
    fn addresses(&self) -> [Ipv4Addr; 2] {
        self.plug.as_ref().map_or(USER, |p| [HOST, p.address()])
    }

    /// The guest's address.
    pub(crate) fn guest(&self) -> Ipv4Addr {
        self.addresses()[1]
    }

    /// Addresses of this host and of the guest, where a program of this host reaches it. `None`: it
    /// cannot.
    pub(crate) fn linked(&self) -> Option<[Ipv4Addr; 2]> {
        self.space().map(|_| self.addresses())
    }

    /// Facts about this host's end; none if no program reaches it.
    pub(crate) fn near_notes(&self) -> io::Result<Vec<(String, String)>> {
        match (self.space(), &self.plug) {
            (Some(net), Some(plug)) => link::near_notes(net, net.host_device(plug.tap())),
            _ => Ok(Vec::new()),
        }
    }

    /// The namespace of the network.
    fn space(&self) -> Option<&Net> {
        match &self.plug.as_ref()?.lan.fabric {
            Fabric::Space(net) => Some(net),
            Fabric::Switch(_) => None,
        }
    }

    /// Starts a relay to a server in its namespace, which only the guest reaches.
    pub(crate) fn relay(&self, distance: Distance, port: u16) -> io::Result<Relay> {
        let net = self.space().ok_or(io::ErrorKind::NetworkDown)?;
        let server = SocketAddrV4::new(HOST, port);
        net.within(move || Relay::start(distance, HOST, server))
    }

    fn cable(&self) -> Option<&Arc<OwnedFd>> {
        self.plug.as_ref()?.cable.as_ref()
    }

    /// QEMU's arguments. Without the ROM, because nothing is booted from a network.
    pub(crate) fn devices(&self) -> Vec<String> {
        let mac = match &self.plug {
            Some(plug) => format!(",mac={}", plug.mac()),
            None => String::new(),
        };
        let netdev = match (&self.plug, self.cable()) {
            // Restricted, because otherwise it would lead to this host's loopback.
            (None, _) => "user,id=net,ipv6=off,restrict=on".into(),
            (_, Some(cable)) => {
                let number = cable.as_raw_fd();
                format!("dgram,id=net,local.type=fd,local.str={number}")
            }
            (Some(plug), None) => {
                let (tap, vhost) = (plug.tap(), on_off(self.vhost));
                format!("tap,id=net,ifname={tap},script=no,downscript=no,vhost={vhost}")
            }
        };
        let device = format!("{},netdev=net{mac},romfile=", self.card.device);
        vec!["-netdev".into(), netdev, "-device".into(), device]
    }

    /// Starts QEMU in its namespace.
    pub(crate) fn enter(&self, command: &mut Command) {
        if let Some(net) = self.space() {
            net.enter(command);
        }
        if let Some(cable) = self.cable() {
            child::inherit(command, cable.clone());
        }
    }

    /// Checks that the guest reaches this host and every other guest; `order` sends it the
    /// requests.
    pub(crate) fn prove(
        &self,
        order: impl Fn(&AgentRequest) -> Result<(), AgentError>,
    ) -> Result<(), AgentError> {
        let failed = |e: io::Error| AgentError::Failed(format!("this host's end: {e}"));
        let [host, _] = self.addresses();
        let Some(plug) = &self.plug else {
            // An emulated network answers by itself; no program of this host is involved.
            return order(&AgentRequest::Ping { to: host });
        };
        let reach = |to, port| {
            let to = SocketAddrV4::new(to, port);
            order(&AgentRequest::Reach { to })
        };
        match self.space() {
            Some(net) => {
                let socket = net.listen().map_err(failed)?;
                let port = socket.local_addr().map_err(failed)?.port();
                echo::answering(&socket, || reach(host, port)).map_err(failed)??;
            }
            None => reach(host, echo::PORT)?,
        }
        for to in plug.others() {
            order(&AgentRequest::Ping { to })?;
        }
        plug.has_come_up();
        Ok(())
    }

    /// Checks that QEMU (process `qemu`) has opened vhost-net, if the user requested that.
    pub(crate) fn check_vhost(&self, qemu: Option<u32>) -> Result<(), AgentError> {
        if !self.vhost || qemu.is_some_and(has_vhost) {
            return Ok(());
        }
        Err(AgentError::Failed(format!("QEMU has not opened {VHOST}")))
    }

    /// Whether this is the requested card, with a link.
    pub(crate) fn is_at(&self, card: &CardFacts) -> bool {
        card.driver == self.card.driver && card.carrier
    }

    /// CPU time of this process for the network, ns.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.plug.as_ref().map_or(0, Plug::cpu_ns)
    }

    /// Entries for the layer's facts.
    pub(crate) fn notes(&self, card: &CardFacts) -> Vec<(&'static str, String)> {
        let [host, guest] = self.addresses();
        let kind = match (&self.plug, self.space()) {
            (None, _) => "QEMU's own (slirp)",
            (_, Some(net)) if net.is_bridged() => "bridge and tap in a network namespace",
            (_, Some(_)) => "tap in a network namespace",
            _ => "a switch in layermark",
        };
        let mut notes = card.notes();
        notes.extend([
            (GUEST_NIC, self.card.name.into()),
            ("backend", self.backend.to_string()),
            ("network", kind.into()),
            ("network_host", host.to_string()),
            ("network_guest", guest.to_string()),
            ("address", guest.to_string()),
            ("near_address", host.to_string()),
        ]);
        if self.backend == Backend::Tap {
            notes.push(("vhost", on_off(self.vhost).into()));
        }
        notes.extend(self.switch.clone().map(|name| ("switch", name)));
        let others = self.plug.as_ref().map(Plug::others).unwrap_or_default();
        if !others.is_empty() {
            let others: Vec<String> = others.iter().map(Ipv4Addr::to_string).collect();
            notes.push(("network_others", others.join(", ")));
        }
        notes
    }
}

/// Whether a process has opened vhost-net.
fn has_vhost(pid: u32) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let links = open.into_iter().flatten().flatten();
    links
        .filter_map(|e| fs::read_link(e.path()).ok())
        .any(|path| path == Path::new(VHOST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LayerOptions;

    #[test]
    fn a_guest_has_a_card_when_it_is_asked_for() {
        let card = |text: &str, serves| {
            let spec: Spec = text.parse().unwrap();
            let options = VmOptions::read(&spec).unwrap();
            Wiring::of(&spec, &options, serves).map(|_| (options.nic.name, options.backend))
        };
        assert_eq!(card("vm", false), None);
        let usual = Some(("virtio-net", Backend::Tap));
        assert_eq!(card("vm", true), usual);
        assert_eq!(card("vm:switch=a", false), usual);
        let user = card("vm:nic=e1000,backend=user", false);
        assert_eq!(user, Some(("e1000", Backend::User)));
    }

    #[test]
    fn options_that_do_not_fit_are_refused() {
        for (text, says) in [
            ("vm:nic=e100", "did you mean `e1000`"),
            ("vm:backend=users", "did you mean `user`"),
            ("vm:share=nfs,backend=user", "not tap"),
            ("vm:share=smb,switch=a", "not for shares"),
            ("vm:backend=user,switch=a", "backend=socket"),
            ("vm:switch=a b", "not a name"),
            ("vm:switch=", "not a name"),
            ("vm:nic=e1000,vhost=on", "virtio-net"),
            ("vm:backend=socket,vhost=on", "backend=tap"),
        ] {
            let e = crate::check(&text.parse().unwrap()).unwrap_err();
            assert!(e.is_usage() && e.to_string().contains(says), "{text}: {e}");
        }
        for text in [
            "vm:share=9p,nic=vmxnet3,backend=socket,switch=lan-1",
            "vm,nic=virtio-net,vhost=on",
            "vm:share=nfs,nic=e1000,backend=tap,vhost=auto",
        ] {
            crate::check(&text.parse().unwrap()).unwrap();
        }
    }

    #[test]
    fn what_vhost_lacks_is_told() {
        let spec: Spec = "vm:vhost=on".parse().unwrap();
        let options = VmOptions::read(&spec).unwrap();
        let missing = Wiring::of(&spec, &options, false).unwrap().missing();
        let told = missing.iter().any(|m| m.what.contains(VHOST));
        assert_eq!(told, needs::device(VHOST, "vhost_net").is_some());
        assert!(!has_vhost(std::process::id()));
    }

    #[test]
    fn each_backend_has_its_arguments() {
        for (text, says) in [
            (
                "vm:nic=e1000,backend=user",
                "user,id=net,ipv6=off,restrict=on -device e1000,netdev=net,romfile=",
            ),
            ("vm:backend=socket", "dgram,id=net,local.type=fd,local.str="),
        ] {
            let spec: Spec = text.parse().unwrap();
            let options = VmOptions::read(&spec).unwrap();
            let wiring = Wiring::of(&spec, &options, false).unwrap();
            let network = wiring.make().unwrap();
            let said = network.devices().join(" ");
            assert!(said.contains(says), "{said}");
        }
    }
}
