use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the workload `devload` has seen of one trial, beside its time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct UserScripts {
    /// From the barrier to the end of each user's script, nanoseconds.
    pub script_ns: Vec<u64>,
    /// CPU time of layermark itself meanwhile, nanoseconds.
    pub own_ns: u64,
    /// XXH3-128 of each program that the jobs use. Trials with unlike programs are not compared.
    pub programs: BTreeMap<String, String>,
}

impl UserScripts {
    /// Programs that are not the same in both.
    pub fn unlike<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        let changed = |(name, hash): &(&String, &String)| other.programs.get(*name) != Some(*hash);
        self.programs
            .iter()
            .filter(changed)
            .map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_other_hashes_are_unlike() {
        let with = |sort: &str| UserScripts {
            programs: [("cc", "1"), ("sort", sort)]
                .map(|(name, hash)| (name.to_owned(), hash.to_owned()))
                .into(),
            ..UserScripts::default()
        };
        let (a, b) = (with("2"), with("3"));
        assert_eq!(a.unlike(&b).collect::<Vec<_>>(), ["sort"]);
        assert_eq!(a.unlike(&a).count(), 0);
    }
}
