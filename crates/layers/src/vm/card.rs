//! Network cards that QEMU emulates, with the guest's driver for each.

use std::{fs, io, net::Ipv4Addr};

use crate::{net::device::set_up, options::option_rows};

/// A model of a network card.
pub(crate) struct Card {
    pub(crate) name: &'static str,
    pub(crate) modules: &'static [&'static str],
    /// Name of the driver in the guest's kernel, which proves the model of the card.
    pub(crate) driver: &'static str,
    /// QEMU's device.
    pub(super) device: &'static str,
}

const CARDS: [Card; 5] = [
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

option_rows!(Card, CARDS);

/// The first card of this machine.
pub(crate) fn first() -> Option<String> {
    let cards = fs::read_dir("/sys/class/net").ok()?;
    let names = cards
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok());
    names.filter(|n| n != "lo").min()
}

/// Brings this machine's card up.
pub(crate) fn switch_on(card: &str, address: Ipv4Addr) -> io::Result<()> {
    set_up("lo", None)?;
    set_up(card, Some(address))
}
