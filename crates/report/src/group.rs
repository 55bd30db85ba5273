//! Grouping in the order in which each key first appears.

/// The members of each key, keys in the order in which they first appear.
pub fn grouped<K: PartialEq, T>(members: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let groups = alike(members, |(known, _), (key, _)| known == key);
    let group = groups.into_iter().filter_map(|group| {
        let (mut keys, members): (Vec<K>, Vec<T>) = group.into_iter().unzip();
        Some((keys.drain(..).next()?, members))
    });
    group.collect()
}

/// Members that are like the first of a group, groups in the order in which they first appear.
pub fn alike<T>(
    members: impl IntoIterator<Item = T>,
    is_like: impl Fn(&T, &T) -> bool,
) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for member in members {
        match groups.iter_mut().find(|group| is_like(&group[0], &member)) {
            Some(group) => group.push(member),
            None => groups.push(vec![member]),
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
        let near = alike([1, 5, 2, 9, 6], |a: &i32, b| (a - b).abs() < 2);
        assert_eq!(near, [vec![1, 2], vec![5, 6], vec![9]]);
        assert_eq!(distinct([2, 1, 2, 3, 1]), [2, 1, 3]);
    }
}
