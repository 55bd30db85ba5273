//! Divides a block whose layers cannot all be ready at the same time.

use std::{collections::BTreeSet, os::unix::fs::MetadataExt, path::Path};

use layermark_model::{BASELINE, Divided, Point};

use crate::{Event, LabError, budget::Due, check, drive::Lab, remote_layer};

/// A file by its device and inode.
type FileId = (u64, u64);

/// A layer that is to be placed in a part.
struct Member {
    layer: usize,
    /// A served layer must not be in one part with layers that are not served.
    served: bool,
    /// It must not be in one part with another layer that has one of these files.
    files: BTreeSet<FileId>,
}

impl Lab<'_> {
    /// Divides the layers of a point into parts whose files fit into memory and on the disk
    /// together. Each part includes the baseline. There is one part if all fit.
    ///
    /// Layers that show the same file of this host (two overlays over one lower directory) cannot
    /// be cold at the same time: what one has read is in memory for the other. Layers that a
    /// process serves are separated from those that can be kept on one CPU: see
    /// [`OneCpu`](crate::pin::OneCpu).
    pub(crate) fn parts_that_fit(
        &mut self,
        due: &Due,
        divided: Divided,
    ) -> Result<Vec<Vec<usize>>, LabError> {
        let at = &self.run.points[due.point];
        let needs = self.setup.catalog.needs(at)?;
        let in_memory = if divided.in_memory {
            divided.working_set
        } else {
            0
        };
        let most = check::fit(self.run.dir.as_ref(), in_memory, needs.space);
        let one_cpu = self.fits_one_cpu(at)?;
        let mut members: Vec<Member> = due
            .layers
            .iter()
            .map(|layer| {
                let up = self.running[*layer].as_ref().filter(|_| divided.uses_up);
                let behind = up.map(|up| up.place.backing_extents(&needs.open_before));
                let files = behind.unwrap_or_default();
                Member {
                    layer: *layer,
                    served: one_cpu && self.is_served(*layer),
                    files: files.iter().filter_map(|f| file_id(&f.path)).collect(),
                }
            })
            .collect();
        // The control is placed with the layers it applies to: those that are not served, or all if
        // every layer is served.
        if members
            .iter()
            .all(|m| m.served || self.is_baseline(m.layer))
        {
            for member in &mut members {
                member.served = true;
            }
        }
        let parts = divide(&members, most);
        let others = members.iter().filter(|m| m.layer != BASELINE);
        let kinds = others.map(|m| m.served).collect::<BTreeSet<_>>().len();
        if parts.len() > kinds.max(1) && self.divided.insert(due.point) {
            let text = format!(
                "`{}` is measured in {} parts, each with {}: the files of all layers do not fit into memory or on the disk at once, or are shared",
                at.label,
                parts.len(),
                self.run.layers[BASELINE].name
            );
            (self.on_event)(Event::Note(text));
        }
        Ok(parts)
    }

    /// Whether a point can run on one CPU. Both ends of work with two ends run at the same time,
    /// and a point that requests a number of CPUs is meant to show their effect.
    pub(crate) fn fits_one_cpu(&self, at: &Point) -> Result<bool, LabError> {
        let two_ends = self.setup.catalog.needs(at)?.two_ends;
        let divided = at.meaning.divided.is_some_and(|d| d.on_one_cpu());
        Ok(divided && at.meaning.cpus().is_none() && !two_ends)
    }

    /// The baseline, or the control.
    fn is_baseline(&self, layer: usize) -> bool {
        layer == BASELINE || self.run.layers[layer].control
    }

    /// Whether a process serves it, on this host or elsewhere.
    pub(crate) fn is_served(&self, layer: usize) -> bool {
        let up = self.running[layer].as_ref();
        up.is_some_and(|up| !up.place.helpers().is_empty() || remote_layer::has_server(&up.facts))
    }
}

fn file_id(path: &Path) -> Option<FileId> {
    let meta = path.metadata().ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Parts of at most this many layers, at least two, all served or none, with each file at most
/// once. The baseline is in each part; the order of layers stays.
fn divide(layers: &[Member], most: usize) -> Vec<Vec<usize>> {
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
