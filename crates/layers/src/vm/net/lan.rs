//! Guests that can reach each other: those of one run that name the same switch.

use std::{
    collections::BTreeMap,
    io,
    net::Ipv4Addr,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::{Backend, HOST, space::Net, switch::Switch};

/// The first guest's last number of its address; this host has the one before it.
const FIRST: u8 = 2;
const LAST: u8 = 254;

/// A local network of guests.
pub(super) struct Lan {
    pub(super) fabric: Fabric,
    /// Guests by number, and whether they have proved that they are reached.
    guests: Mutex<BTreeMap<u8, bool>>,
}

pub(super) enum Fabric {
    /// Of this host's kernel.
    Space(Net),
    /// Our own switch.
    Switch(Arc<Switch>),
}

/// Those that have a name, while a guest is in them.
static NAMED: Mutex<Vec<(Backend, String, Weak<Lan>)>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lan {
    fn new(backend: Backend, many: bool) -> io::Result<Arc<Self>> {
        let fabric = match backend {
            Backend::Socket => Fabric::Switch(Arc::default()),
            Backend::Tap | Backend::User => Fabric::Space(Net::new(many)?),
        };
        Ok(Arc::new(Self {
            fabric,
            guests: Mutex::default(),
        }))
    }

    /// The one of this name; without a name, a new one for one guest.
    fn named(backend: Backend, name: Option<&str>) -> io::Result<Arc<Self>> {
        let Some(name) = name else {
            return Self::new(backend, false);
        };
        let mut all = lock(&NAMED);
        all.retain(|(_, _, lan)| lan.strong_count() > 0);
        let same = |known: &&(Backend, String, Weak<Self>)| known.0 == backend && known.1 == name;
        if let Some(lan) = all.iter().find(same).and_then(|(_, _, lan)| lan.upgrade()) {
            return Ok(lan);
        }
        let lan = Self::new(backend, true)?;
        all.push((backend, name.to_owned(), Arc::downgrade(&lan)));
        Ok(lan)
    }
}

/// A guest's place in a network, which it leaves when this is dropped.
pub(super) struct Plug {
    pub(super) lan: Arc<Lan>,
    number: u8,
    /// QEMU's end of the cable to our own switch.
    pub(super) cable: Option<Arc<OwnedFd>>,
}

impl Plug {
    /// Into the network of this name; without one, into a new one.
    pub(super) fn join(backend: Backend, name: Option<&str>) -> io::Result<Self> {
        let lan = Lan::named(backend, name)?;
        let mut guests = lock(&lan.guests);
        let free = (FIRST..=LAST).find(|n| !guests.contains_key(n));
        let number = free.ok_or_else(|| io::Error::other("it has no address left"))?;
        guests.insert(number, false);
        drop(guests);
        let mut plug = Self {
            lan,
            number,
            cable: None,
        };
        match &plug.lan.fabric {
            Fabric::Space(net) => net.plug(plug.tap())?,
            Fabric::Switch(switch) => {
                plug.cable = Some(Arc::new(OwnedFd::from(switch.plug(number)?)));
            }
        }
        Ok(plug)
    }

    /// The tap device's name.
    pub(super) fn tap(&self) -> String {
        format!("tap{}", self.number)
    }

    pub(super) fn mac(&self) -> String {
        format!("52:54:00:6c:6d:{:02x}", self.number)
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        address(self.number)
    }

    /// The others that are up.
    pub(super) fn others(&self) -> Vec<Ipv4Addr> {
        let guests = lock(&self.lan.guests);
        let others = guests.iter().filter(|(n, up)| **up && **n != self.number);
        others.map(|(n, _)| address(*n)).collect()
    }

    /// Others may be asked to reach it.
    pub(super) fn has_come_up(&self) {
        lock(&self.lan.guests).insert(self.number, true);
    }

    /// CPU time of our own switch for this guest's frames, nanoseconds.
    pub(super) fn cpu_ns(&self) -> u64 {
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
        let plug = |name| Plug::join(Backend::Socket, name).unwrap();
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
        // Who leaves makes room, and a network ends with its last guest.
        drop(one);
        assert!(two.others().is_empty());
        assert_eq!(plug(Some("lan-a")).address(), address(FIRST));
        let weak = Arc::downgrade(&two.lan);
        drop(two);
        assert_eq!(weak.strong_count(), 0);
    }
}
