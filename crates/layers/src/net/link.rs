//! Connects two probes of this host: by a loopback, or by a cable between two network namespaces.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4},
    process::Command,
};

use super::{
    HOST,
    card_facts::CardFacts,
    echo,
    lan::{Kind, Plug},
    shape::Shape,
    space::Net,
};

/// An end: the namespace of its probe, its address and its device.
struct End {
    net: Net,
    address: Ipv4Addr,
    device: String,
}

/// A connection between two probes of this host.
pub(crate) struct Link {
    near: End,
    far: End,
    kind: &'static str,
    /// The position in a network that others may join.
    _plug: Option<Plug>,
}

/// Name of the card in a namespace at the end of a cable.
const CARD: &str = "eth0";

impl Link {
    /// Both ends in one new namespace.
    pub(crate) fn loopback() -> io::Result<Self> {
        let net = Net::alone()?;
        let end = || End {
            net: net.clone(),
            address: Ipv4Addr::LOCALHOST,
            device: "lo".into(),
        };
        Ok(Self {
            near: end(),
            far: end(),
            kind: "loopback of a network namespace",
            _plug: None,
        })
    }

    /// Puts the far end into a new namespace, with a cable to the bridge of the network of this
    /// name; without a name, of a new one.
    pub(crate) fn cable(switch: Option<&str>, shape: Shape) -> io::Result<Self> {
        let plug = Plug::join(Kind::Bridge, switch)?;
        let (hub, net) = (plug.space()?.clone(), Net::alone()?);
        plug.connect(&net, CARD)?;
        let port = plug.veth();
        hub.within(move || shape.apply(&port))?;
        let address = plug.address();
        net.within(move || {
            shape.apply(CARD)?;
            super::device::set_up(CARD, Some(address))
        })?;
        let link = Self {
            near: End {
                net: hub,
                address: HOST,
                device: plug.space()?.host_device(plug.veth()),
            },
            far: End {
                net,
                address,
                device: CARD.into(),
            },
            kind: "bridge and a pair of virtual cards in two network namespaces",
            _plug: None,
        };
        link.prove(plug.others())?;
        plug.has_come_up();
        Ok(Self {
            _plug: Some(plug),
            ..link
        })
    }

    /// Checks that the far end reaches the near one and all others.
    fn prove(&self, others: Vec<Ipv4Addr>) -> io::Result<()> {
        let socket = self.near.net.listen()?;
        let port = socket.local_addr()?.port();
        echo::answering(&socket, || {
            self.far
                .net
                .within(move || echo::reach(SocketAddrV4::new(HOST, port)))
        })??;
        let reach = |other| self.far.net.within(move || echo::ping(other));
        others.into_iter().try_for_each(reach)
    }

    /// Addresses of the near and the far end.
    pub(crate) fn addresses(&self) -> [Ipv4Addr; 2] {
        [self.near.address, self.far.address]
    }

    pub(crate) fn enter_near(&self, command: &mut Command) {
        self.near.net.enter(command);
    }

    pub(crate) fn enter_far(&self, command: &mut Command) {
        self.far.net.enter(command);
    }

    /// Entries for the layer's facts.
    pub(crate) fn notes(&self) -> io::Result<Vec<(String, String)>> {
        let mut notes = near_notes(&self.near.net, self.near.device.clone())?;
        let card = self.far.device.clone();
        let card = self.far.net.within(move || CardFacts::of(&card))?;
        notes.extend(card.notes().into_iter().map(|(name, v)| (name.into(), v)));
        notes.push(("network".into(), self.kind.into()));
        notes.push(("address".into(), self.far.address.to_string()));
        notes.push(("near_address".into(), self.near.address.to_string()));
        Ok(notes)
    }
}

/// Facts about the device through which the near end, in this namespace, reaches the far one.
pub(crate) fn near_notes(net: &Net, device: String) -> io::Result<Vec<(String, String)>> {
    let card = net.within(move || CardFacts::of(&device))?;
    let near = |(name, value)| (format!("near_{name}"), value);
    Ok(card.notes().into_iter().map(near).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::space::tested;

    #[test]
    fn both_ends_of_a_cable_are_what_they_say() {
        if tested(Net::alone()).is_none() {
            return;
        }
        let shape = Shape {
            mtu: Some(1400),
            ..Shape::default()
        };
        let link = Link::cable(None, shape).unwrap();
        let notes: std::collections::BTreeMap<_, _> = link.notes().unwrap().into_iter().collect();
        assert_eq!(link.addresses(), [HOST, Ipv4Addr::new(10, 9, 0, 2)]);
        for (name, value) in [
            ("nic_driver", "veth"),
            ("nic_mtu", "1400"),
            ("near_nic_driver", "bridge"),
            ("near_nic_mtu", "1400"),
            ("address", "10.9.0.2"),
            ("near_address", "10.9.0.1"),
        ] {
            assert_eq!(notes[name], value, "{name}");
        }
        assert!(notes["nic_offloads"].contains("tso"), "{notes:?}");
    }

    #[test]
    fn cables_of_one_name_lead_to_one_bridge() {
        if tested(Net::alone()).is_none() {
            return;
        }
        let cable = || Link::cable(Some("cables"), Shape::default()).unwrap();
        // The second reaches the first before the first is up.
        let (one, two) = (cable(), cable());
        assert_eq!(two.addresses()[1], Ipv4Addr::new(10, 9, 0, 3));
        let (from, to) = (&two.far.net, one.addresses()[1]);
        from.within(move || echo::ping(to)).unwrap();
        let loopback = Link::loopback().unwrap();
        assert_eq!(loopback.addresses(), [Ipv4Addr::LOCALHOST; 2]);
        assert!(loopback.notes().is_ok_and(|n| n.len() > 8));
    }
}
