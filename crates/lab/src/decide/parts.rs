//! Divides a block whose layers cannot all be ready at the same time.

use std::collections::BTreeSet;

use layermark_model::BASELINE;

/// A file by its device and inode.
pub(crate) type FileId = (u64, u64);

/// A layer that is to be placed in a part.
pub(crate) struct Member {
    pub layer: usize,
    /// A served layer must not be in one part with layers that are not served.
    pub served: bool,
    /// It must not be in one part with another layer that has one of these files.
    pub files: BTreeSet<FileId>,
}

/// Parts of at most this many layers, at least two, all served or none, with each file at most
/// once. The baseline is in each part; the order of layers stays.
pub(crate) fn divide(layers: &[Member], most: usize) -> Vec<Vec<usize>> {
    let most = most.max(2);
    let baseline = layers.iter().find(|m| m.layer == BASELINE);
    let mut parts: Vec<(Vec<usize>, bool, BTreeSet<FileId>)> = Vec::new();
    for member in layers.iter().filter(|m| m.layer != BASELINE) {
        let fits = |(part, served, seen): &(Vec<usize>, bool, BTreeSet<FileId>)| {
            part.len() < most && *served == member.served && seen.is_disjoint(&member.files)
        };
        let at = parts.iter().position(fits).unwrap_or_else(|| {
            let first = baseline.map(|m| (vec![m.layer], m.files.clone()));
            let (first, files) = first.unwrap_or_default();
            parts.push((first, member.served, files));
            parts.len() - 1
        });
        let part = &mut parts[at];
        part.0.push(member.layer);
        part.2.extend(&member.files);
    }
    if parts.is_empty() {
        return vec![layers.iter().map(|m| m.layer).collect()];
    }
    let place = |layer: &usize| layers.iter().position(|m| m.layer == *layer);
    for (part, ..) in &mut parts {
        part.sort_by_key(place);
    }
    parts.into_iter().map(|(part, ..)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(files: &[(usize, &[u64])]) -> Vec<Member> {
        let member = |(layer, files): &(usize, &[u64])| Member {
            layer: *layer,
            served: false,
            files: files.iter().map(|inode| (1, *inode)).collect(),
        };
        files.iter().map(member).collect()
    }

    #[test]
    fn each_part_has_the_baseline_and_the_order_stays() {
        let all = layers(&[(3, &[]), (0, &[]), (2, &[]), (1, &[])]);
        assert_eq!(divide(&all, 9), [[3, 0, 2, 1]]);
        assert_eq!(divide(&all, 3), [vec![3, 0, 2], vec![0, 1]]);
        assert_eq!(divide(&all, 0), [[3, 0], [0, 2], [0, 1]]);
        assert_eq!(divide(&layers(&[(0, &[])]), 9), [[0]]);
    }

    #[test]
    fn those_that_are_served_are_in_parts_of_their_own() {
        let mut all = layers(&[(1, &[]), (2, &[]), (0, &[]), (3, &[])]);
        all[1].served = true;
        assert_eq!(divide(&all, 9), [vec![1, 0, 3], vec![2, 0]]);
        assert_eq!(divide(&all[1..3], 9), [[2, 0]]);
    }

    #[test]
    fn layers_that_show_one_file_are_not_in_one_part() {
        let all = layers(&[(0, &[7]), (1, &[8]), (2, &[9, 8]), (3, &[])]);
        assert_eq!(divide(&all, 9), [vec![0, 1, 3], vec![0, 2]]);
    }
}
