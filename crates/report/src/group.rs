//! Grouping in the order in which each key first appears.

/// The members of each key, keys in the order in which they first appear.
pub fn grouped<K: PartialEq, T>(members: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, member) in members {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(member),
            None => groups.push((key, vec![member])),
        }
    }
    groups
}

/// [`grouped`] by a key that each member has.
pub fn by<K: PartialEq, T>(
    members: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    grouped(members.into_iter().map(|member| (key(&member), member)))
}

/// Each value once, in the order in which they first appear.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_their_members_keep_their_order() {
        let groups = by(["b1", "a1", "b2", "c1", "a2"], |name| name.as_bytes()[0]);
        let wanted = vec![
            (b'b', vec!["b1", "b2"]),
            (b'a', vec!["a1", "a2"]),
            (b'c', vec!["c1"]),
        ];
        assert_eq!(groups, wanted);
        assert_eq!(grouped::<u8, u8>([]), Vec::new());
        assert_eq!(distinct([2, 1, 2, 3, 1]), [2, 1, 3]);
    }
}
