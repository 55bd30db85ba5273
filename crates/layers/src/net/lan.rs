//! Networks in which guests and network namespaces of one run reach each other: those that name the
//! same switch.

use std::{
    collections::BTreeMap,
    io,
    net::Ipv4Addr,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{HOST, netlink, space::Net, switch::Switch};

/// Last number of the first guest's address; this host has the one before it.
const FIRST: u8 = 2;
const LAST: u8 = 254;

/// What a network is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A bridge in a network namespace, for many guests.
    Bridge,
    /// A cable from one guest to this host's end in a network namespace.
    Cable,
    /// Our own switch.
    Switch,
}

/// A local network.
pub(crate) struct Lan {
    pub(crate) fabric: Fabric,
    /// Guests by number, and whether each has proved that it can be reached.
    guests: Mutex<BTreeMap<u8, bool>>,
}

pub(crate) enum Fabric {
    /// In this host's kernel.
    Space(Net),
    /// Our own switch.
    Switch(Arc<Switch>),
}

/// Networks with a name, while a guest is in them.
static NAMED: Mutex<Vec<(Kind, String, Weak<Lan>)>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lan {
    fn new(kind: Kind) -> io::Result<Arc<Self>> {
        let fabric = match kind {
            Kind::Switch => Fabric::Switch(Arc::default()),
            Kind::Cable => Fabric::Space(Net::alone()?),
            Kind::Bridge => Fabric::Space(Net::bridged()?),
        };
        Ok(Arc::new(Self {
            fabric,
            guests: Mutex::default(),
        }))
    }

    /// The network of this name; without a name, a new one.
    fn named(kind: Kind, name: Option<&str>) -> io::Result<Arc<Self>> {
        let Some(name) = name else {
            return Self::new(kind);
        };
        let mut all = lock(&NAMED);
        all.retain(|(_, _, lan)| lan.strong_count() > 0);
        let same = |known: &&(Kind, String, Weak<Self>)| known.0 == kind && known.1 == name;
        if let Some(lan) = all.iter().find(same).and_then(|(_, _, lan)| lan.upgrade()) {
            return Ok(lan);
        }
        let lan = Self::new(kind)?;
        all.push((kind, name.to_owned(), Arc::downgrade(&lan)));
        Ok(lan)
    }
}

/// A position in a network. Dropping it leaves the network.
pub(crate) struct Plug {
    pub(crate) lan: Arc<Lan>,
    number: u8,
    /// A number that no other card in the network has ever had, because the kernel removes a card
    /// some time after the namespace of its other end.
    card: u32,
    /// QEMU's end of the cable to our own switch.
    pub(crate) cable: Option<Arc<OwnedFd>>,
}

impl Plug {
    /// A guest's position, with its cable.
    pub(crate) fn of_guest(kind: Kind, name: Option<&str>) -> io::Result<Self> {
        let mut plug = Self::join(kind, name)?;
        match &plug.lan.fabric {
            Fabric::Space(net) => net.plug(plug.tap())?,
            Fabric::Switch(switch) => {
                plug.cable = Some(Arc::new(OwnedFd::from(switch.plug(plug.number)?)));
            }
        }
        Ok(plug)
    }

    /// Joins the network of this name; without a name, a new one.
    pub(super) fn join(kind: Kind, name: Option<&str>) -> io::Result<Self> {
        static CARDS: AtomicU32 = AtomicU32::new(0);
        let lan = Lan::named(kind, name)?;
        let mut guests = lock(&lan.guests);
        let free = (FIRST..=LAST).find(|n| !guests.contains_key(n));
        let number = free.ok_or_else(|| io::Error::other("it has no address left"))?;
        guests.insert(number, false);
        drop(guests);
        Ok(Self {
            lan,
            number,
            card: CARDS.fetch_add(1, Ordering::Relaxed),
            cable: None,
        })
    }

    /// The namespace of the network.
    pub(super) fn space(&self) -> io::Result<&Net> {
        match &self.lan.fabric {
            Fabric::Space(net) => Ok(net),
            Fabric::Switch(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Makes a cable from the bridge to a card of this name in `there`.
    pub(super) fn connect(&self, there: &Net, card: &'static str) -> io::Result<()> {
        let (net, far, veth) = (self.space()?, there.clone(), self.veth());
        net.within(move || netlink::make_veth(&veth, card, far.as_fd()))?;
        net.join(self.veth())
    }

    /// Name of the card at the bridge's end of a cable.
    pub(super) fn veth(&self) -> String {
        format!("veth{}", self.card)
    }

    /// The tap device's name.
    pub(crate) fn tap(&self) -> String {
        format!("tap{}", self.number)
    }

    pub(crate) fn mac(&self) -> String {
        format!("52:54:00:6c:6d:{:02x}", self.number)
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        address(self.number)
    }

    /// Addresses of the other guests that are up.
    pub(crate) fn others(&self) -> Vec<Ipv4Addr> {
        let guests = lock(&self.lan.guests);
        let others = guests.iter().filter(|(n, up)| **up && **n != self.number);
        others.map(|(n, _)| address(*n)).collect()
    }

    /// From now on others may try to reach it.
    pub(crate) fn has_come_up(&self) {
        lock(&self.lan.guests).insert(self.number, true);
    }

    /// CPU time of our own switch for this guest's frames, nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        match &self.lan.fabric {
            Fabric::Space(_) => 0,
            Fabric::Switch(switch) => switch.cpu_ns(self.number),
        }
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        if let Fabric::Switch(switch) = &self.lan.fabric {
            switch.unplug(self.number);
        }
        lock(&self.lan.guests).remove(&self.number);
    }
}

fn address(number: u8) -> Ipv4Addr {
    let [a, b, c, _] = HOST.octets();
    Ipv4Addr::new(a, b, c, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_of_one_name_are_in_one_network() {
        let plug = |name| Plug::of_guest(Kind::Switch, name).unwrap();
        let (one, two) = (plug(Some("lan-a")), plug(Some("lan-a")));
        let (other, alone) = (plug(Some("lan-b")), plug(None));
        assert!(Arc::ptr_eq(&one.lan, &two.lan));
        for plug in [&other, &alone] {
            assert!(!Arc::ptr_eq(&one.lan, &plug.lan));
            assert_eq!(plug.address(), address(FIRST));
        }
        assert_eq!(two.address(), Ipv4Addr::new(10, 9, 0, 3));
        assert_eq!(
            (two.mac().as_str(), two.tap()),
            ("52:54:00:6c:6d:03", "tap3".into())
        );
        // Only guests that are up are named to the others.
        assert!(two.others().is_empty());
        one.has_come_up();
        two.has_come_up();
        assert_eq!(two.others(), [one.address()]);
        // A network has room for this many guests.
        let join = || Plug::join(Kind::Switch, Some("lan-full"));
        let all: Vec<Plug> = (FIRST..=LAST).map(|_| join().unwrap()).collect();
        let full = join().err().map(|e| e.to_string());
        assert_eq!(full.as_deref(), Some("it has no address left"));
        drop(all);
        // A guest that leaves makes room, and a network ends with its last guest.
        drop(one);
        assert!(two.others().is_empty());
        assert_eq!(plug(Some("lan-a")).address(), address(FIRST));
        let weak = Arc::downgrade(&two.lan);
        drop(two);
        assert_eq!(weak.strong_count(), 0);
    }
}
