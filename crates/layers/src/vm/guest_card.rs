//! What a guest knows of its network card.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

/// A guest's network card, as its kernel reports it.
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

/// Whether the cable is in: some cards need seconds to find out.
pub(crate) fn has_carrier(card: &str) -> bool {
    let path = Path::new("/sys/class/net").join(card).join("carrier");
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

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
