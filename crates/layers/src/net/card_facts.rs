//! Facts about a network card, as the kernel reports them.

use std::io;

use serde::{Deserialize, Serialize};

use super::device::{self, CHANNELS, DRIVER, LINK, SETTINGS, ethtool};

/// Offloads, and the ethtool request for each.
const OFFLOADS: [(&str, u32); 6] = [
    ("rx-checksum", 0x14),
    ("tx-checksum", 0x16),
    ("scatter-gather", 0x18),
    ("tso", 0x1e),
    ("gso", 0x23),
    ("gro", 0x2b),
];

/// A network card, as its kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CardFacts {
    /// The kernel's driver for it.
    pub(crate) driver: String,
    pub(crate) mac: String,
    /// Whether a link is detected.
    pub(crate) carrier: bool,
    /// Mbit/s, where the card has a speed.
    pub(crate) speed: Option<u64>,
    /// Longest packet, bytes.
    pub(crate) mtu: u32,
    /// Number of queues in each direction. `None`: the driver does not report queues and has one.
    pub(crate) queues: Option<u32>,
    /// Offloads that are switched on.
    pub(crate) offloads: Vec<String>,
}

impl CardFacts {
    /// Reads the card of that name in the calling thread's network namespace.
    pub(crate) fn of(card: &str) -> io::Result<Self> {
        let mac = device::mac(card)?.map(|byte| format!("{byte:02x}"));
        let is_on = |(_, question): &&(&str, u32)| {
            let answer = ethtool(card, device::number(*question));
            answer.is_some_and(|a| number(&a, 4) != 0)
        };
        Ok(Self {
            driver: ethtool(card, DRIVER).map_or_else(|| "loopback".into(), |a| text(&a[4..36])),
            mac: mac.join(":"),
            carrier: has_carrier(card),
            speed: ethtool(card, SETTINGS).and_then(|a| speed(&a)),
            mtu: device::mtu(card)?,
            queues: ethtool(card, CHANNELS).map(|a| queues(&a)),
            offloads: OFFLOADS
                .iter()
                .filter(is_on)
                .map(|(name, _)| (*name).into())
                .collect(),
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

    /// Entries for the layer's facts, with names that begin with `nic`.
    pub(crate) fn notes(&self) -> Vec<(&'static str, String)> {
        let offloads = match self.offloads.join(", ") {
            none if none.is_empty() => "none".into(),
            some => some,
        };
        vec![
            ("nic_driver", self.driver.clone()),
            ("nic_mac", self.mac.clone()),
            ("nic_link", self.link()),
            ("nic_mtu", self.mtu.to_string()),
            ("nic_queues", self.queues.unwrap_or(1).to_string()),
            ("nic_offloads", offloads),
        ]
    }
}

/// Whether a link is detected. Some cards need seconds for that.
pub(crate) fn has_carrier(card: &str) -> bool {
    ethtool(card, LINK).is_some_and(|a| number(&a, 4) == 1)
}

fn number(answer: &[u8], at: usize) -> u32 {
    answer[at..at + 4].try_into().map_or(0, u32::from_ne_bytes)
}

/// Up to the first zero byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// `struct ethtool_cmd`: the speed is in two halves. All bits are set when it is unknown.
fn speed(answer: &[u8]) -> Option<u64> {
    let half = |at: usize| u32::from(u16::from_ne_bytes([answer[at], answer[at + 1]]));
    let mbits = half(28) << 16 | half(12);
    (mbits != u32::MAX && mbits != 0 && mbits != 0xffff).then_some(mbits.into())
}

/// `struct ethtool_channels`: four maxima, then the current numbers of queues for receiving,
/// sending, others and both.
fn queues(answer: &[u8]) -> u32 {
    let [receive, send, both] = [20, 24, 32].map(|at| number(answer, at));
    both + receive.max(send)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_a_speed_or_none() {
        let link = |carrier, speed| {
            CardFacts {
                driver: String::new(),
                mac: String::new(),
                carrier,
                speed,
                mtu: 1500,
                queues: None,
                offloads: Vec::new(),
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

    #[test]
    fn the_loopback_has_facts() {
        let facts = CardFacts::of("lo").unwrap();
        assert_eq!((facts.driver.as_str(), facts.speed), ("loopback", None));
        assert_eq!(facts.mac, "00:00:00:00:00:00");
        assert!(facts.offloads.contains(&"tso".into()), "{facts:?}");
        let notes = facts.notes();
        assert!(notes.contains(&("nic_queues", "1".into())), "{notes:?}");
    }

    #[test]
    fn answers_are_read_where_the_kernel_writes_them() {
        let mut settings = [0; 44];
        settings[12..14].copy_from_slice(&10_000_u16.to_ne_bytes());
        assert_eq!(speed(&settings), Some(10_000));
        settings[28..30].copy_from_slice(&1_u16.to_ne_bytes());
        assert_eq!(speed(&settings), Some(75_536));
        assert_eq!(speed(&[0xff; 44]), None);
        let mut channels = [0; 36];
        channels[32..36].copy_from_slice(&4_u32.to_ne_bytes());
        assert_eq!(queues(&channels), 4);
    }
}
