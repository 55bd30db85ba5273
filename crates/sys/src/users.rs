//! Which user ids exist in a user namespace (`user_namespaces(7)`).

use std::{fs, io, path::Path};

/// A `uid_map`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UidMap(Vec<UidRange>);

/// Consecutive ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UidRange {
    /// First id in this namespace.
    pub inside: u64,
    /// First id in the namespace of the process that reads the map.
    pub outside: u64,
    /// How many there are.
    pub count: u64,
}

impl UidMap {
    /// That of this process.
    ///
    /// # Errors
    ///
    /// If it cannot be read. A kernel without user namespaces has no map.
    pub fn own() -> io::Result<Self> {
        Self::of(Path::new("/proc/self"))
    }

    /// That of the process with this directory in `/proc`.
    ///
    /// # Errors
    ///
    /// As for [`Self::own`].
    pub fn of(process: &Path) -> io::Result<Self> {
        Ok(fs::read_to_string(process.join("uid_map"))?.as_str().into())
    }

    /// Its ranges, in the kernel's order.
    pub fn ranges(&self) -> &[UidRange] {
        &self.0
    }

    /// Whether a user has an id in the namespace.
    pub fn has(&self, uid: u32) -> bool {
        let holds = |r: &UidRange| (r.inside..r.inside + r.count).contains(&uid.into());
        self.0.iter().any(holds)
    }

    /// Whether this is the first namespace of the machine, where every id maps to itself.
    pub fn is_of_machine(&self) -> bool {
        let all = UidRange {
            inside: 0,
            outside: 0,
            count: u32::MAX.into(),
        };
        self.0 == [all]
    }
}

/// Lines of three numbers; others are ignored.
impl From<&str> for UidMap {
    fn from(text: &str) -> Self {
        let range = |line: &str| {
            let numbers: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
            let [inside, outside, count] = numbers[..] else {
                return None;
            };
            Some(UidRange {
                inside,
                outside,
                count,
            })
        };
        Self(text.lines().filter_map(range).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_the_ids_of_its_ranges() {
        let map =
            UidMap::from("         0       1000          1\n         1     100000      65536\n");
        assert!(map.has(0) && map.has(65536) && !map.has(65537) && !map.is_of_machine());
        assert_eq!(map.ranges()[1].outside, 100_000);
        let machine = UidMap::from("0 0 4294967295\n");
        assert!(machine.is_of_machine() && machine.has(65534));
        for other in ["0 65534 1\n", "0 100000 65536\n", "0 0 1\n", ""] {
            assert!(!UidMap::from(other).is_of_machine(), "{other}");
        }
        for none in ["", "a b c", "0 0"] {
            assert!(UidMap::from(none).ranges().is_empty(), "{none}");
        }
    }
}
