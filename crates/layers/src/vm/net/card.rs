//! Network cards, as QEMU offers them and as the guest sees them.

use std::{fs, io, net::Ipv4Addr, path::Path};

use serde::{Deserialize, Serialize};

use super::set_up;

/// A model of a network card.
pub(crate) struct Card {
    pub(crate) name: &'static str,
    pub(crate) modules: &'static [&'static str],
    /// What the guest's kernel calls the driver, which is how the card proves what it is.
    pub(crate) driver: &'static str,
    /// QEMU's device.
    pub(super) device: &'static str,
}

pub(super) const CARDS: [Card; 5] = [
    Card {
        name: "virtio-net",
        modules: &["virtio_pci", "virtio_net"],
        driver: "virtio_net",
        device: "virtio-net-pci",
    },
    Card {
        name: "e1000",
        modules: &["e1000"],
        driver: "e1000",
        device: "e1000",
    },
    Card {
        name: "e1000e",
        modules: &["e1000e"],
        driver: "e1000e",
        device: "e1000e",
    },
    Card {
        name: "rtl8139",
        modules: &["8139cp"],
        driver: "8139cp",
        device: "rtl8139",
    },
    Card {
        name: "vmxnet3",
        modules: &["vmxnet3"],
        driver: "vmxnet3",
        device: "vmxnet3",
    },
];

/// Values of the option `nic`.
pub(crate) const NAMES: &[&str] = &["virtio-net", "e1000", "e1000e", "rtl8139", "vmxnet3"];

/// What a guest says of its card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CardFacts {
    /// Its kernel's driver.
    pub(crate) driver: String,
    pub(crate) mac: String,
    /// The cable is in.
    pub(crate) carrier: bool,
    /// Mbit/s, where the card has a speed.
    pub(crate) speed: Option<u64>,
}

impl CardFacts {
    /// Of this machine's card of that name.
    pub(crate) fn of(card: &str) -> io::Result<Self> {
        let at = Path::new("/sys/class/net").join(card);
        let driver = fs::canonicalize(at.join("device/driver"))?;
        // One that is off or has no speed answers with an error or with -1.
        let read = |name: &str| fs::read_to_string(at.join(name)).unwrap_or_default();
        Ok(Self {
            driver: driver
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into(),
            mac: read("address").trim().into(),
            carrier: has_carrier(card),
            speed: read("speed").trim().parse().ok(),
        })
    }

    /// The link, in words.
    pub(crate) fn link(&self) -> String {
        match (self.carrier, self.speed) {
            (false, _) => "down".into(),
            (true, None) => "up".into(),
            (true, Some(speed)) => format!("up, {speed} Mbit/s"),
        }
    }
}

/// The first card of this machine.
pub(crate) fn first() -> Option<String> {
    let cards = fs::read_dir("/sys/class/net").ok()?;
    let names = cards
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok());
    names.filter(|n| n != "lo").min()
}

/// Whether the cable is in: some cards need seconds to find out.
pub(crate) fn has_carrier(card: &str) -> bool {
    let path = Path::new("/sys/class/net").join(card).join("carrier");
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
}

/// Switches this machine's card on.
pub(crate) fn switch_on(card: &str, address: Ipv4Addr) -> io::Result<()> {
    set_up("lo", None)?;
    set_up(card, Some(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_card_can_be_named() {
        let names: Vec<&str> = CARDS.iter().map(|c| c.name).collect();
        assert_eq!(names, NAMES);
    }

    #[test]
    fn a_link_has_a_speed_or_none() {
        let link = |carrier, speed| {
            let (driver, mac) = (String::new(), String::new());
            CardFacts {
                driver,
                mac,
                carrier,
                speed,
            }
            .link()
        };
        assert_eq!(link(true, Some(1000)), "up, 1000 Mbit/s");
        assert_eq!(
            (link(true, None), link(false, None)),
            ("up".into(), "down".into())
        );
        assert!(CardFacts::of("no-such-card").is_err());
    }
}
