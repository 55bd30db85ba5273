//! Names of layers in the heads of columns: short, and in parts.

use crate::words::matrix::every_has;

/// Names without the options that all layers of a kind share, and those options. Names stay as they
/// are where they would not differ from each other.
pub fn short_names(names: &[&str]) -> (Vec<String>, Vec<String>) {
    let (mut heads, mut common): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for name in names {
        let kind = kind_of(name);
        let alike: Vec<&str> = names
            .iter()
            .copied()
            .filter(|n| kind_of(n) == kind)
            .collect();
        let shared = |option: &str| {
            let has = |n: &&str| options(n).any(|other| other == option);
            // A quoted command is kept whole.
            alike.len() > 1 && alike.iter().all(|n| has(n) && !n.contains(['\'', '"']))
        };
        let (own, left_out): (Vec<&str>, Vec<&str>) = options(name).partition(|o| !shared(o));
        let head = if own.is_empty() {
            kind.to_owned()
        } else {
            [kind, &own.join(",")].join(":")
        };
        heads.push(head);
        let told = String::from(every_has(kind, &left_out.join(",")));
        if !left_out.is_empty() && !common.contains(&told) {
            common.push(told);
        }
    }
    let unique: std::collections::BTreeSet<&String> = heads.iter().collect();
    if unique.len() < names.len() {
        return (names.iter().map(|n| (*n).to_owned()).collect(), Vec::new());
    }
    (heads, common)
}

/// The parts of a name, between which a line may end.
pub fn name_parts(name: &str) -> impl Iterator<Item = &str> {
    name.split_inclusive([':', ','])
}

/// The name before the options.
fn kind_of(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// The variant and the options of a layer, as written.
fn options(name: &str) -> impl Iterator<Item = &str> {
    let rest = name.split_once(':').map_or("", |(_, rest)| rest);
    rest.split(',').filter(|o| !o.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_have_what_differs_between_layers() {
        let names = [
            "vm:cache=none,disk=ide",
            "vm:cache=none,disk=virtio-blk",
            "fuse",
        ];
        let (heads, common) = short_names(&names);
        assert_eq!(heads, ["vm:disk=ide", "vm:disk=virtio-blk", "fuse"]);
        assert_eq!(common, ["every vm has cache=none"]);
        // Only one of a kind, and two that do not differ, keep their names.
        let (heads, common) = short_names(&["vm:cache=none,disk=ide", "dir:/a,b"]);
        assert_eq!(heads, ["vm:cache=none,disk=ide", "dir:/a,b"]);
        assert!(common.is_empty());
        assert_eq!(short_names(&["vm:a,b", "vm:b,a"]).0, ["vm:a,b", "vm:b,a"]);
    }
}
