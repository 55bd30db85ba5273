//! A block whose layers cannot all be ready at once is divided.

use std::{collections::BTreeSet, os::unix::fs::MetadataExt, path::Path};

use layermark_probe::Divided;

use crate::{Event, LabError, budget::Due, check, drive::Lab};

/// A file by its device and inode.
type FileId = (u64, u64);

impl Lab<'_> {
    /// The layers of a point in parts whose files fit into memory and on the disk together, each
    /// with the baseline; one part where all fit.
    ///
    /// Layers that show the same file of this host (two overlays over one lower directory) are cold
    /// one after the other only: what one has read is in memory for the other.
    pub(crate) fn parts_that_fit(
        &mut self,
        due: &Due,
        divided: Divided,
    ) -> Result<Vec<Vec<usize>>, LabError> {
        let at = &self.run.points[due.point];
        let workload = self.setup.catalog.workload(&at.workload)?;
        let in_memory = if divided.in_memory {
            divided.working_set
        } else {
            0
        };
        let most = check::fit(self.run.dir.as_ref(), in_memory, workload.space(at));
        let files: Vec<(usize, BTreeSet<FileId>)> = due
            .layers
            .iter()
            .map(|layer| {
                let up = self.ups[*layer].as_ref().filter(|_| divided.uses_up);
                let behind = up.map(|up| up.place.behind(&workload.open_before(at)));
                let files = behind.unwrap_or_default();
                let files = files.iter().filter_map(|f| file_id(&f.path));
                (*layer, files.collect())
            })
            .collect();
        let parts = divide(&files, most);
        if parts.len() > 1 && self.divided.insert(due.point) {
            let text = format!(
                "`{}` is made in {} parts, each with {}: the files of all layers do not fit into memory or on the disk at once, or are the same",
                at.label,
                parts.len(),
                self.run.layers[0].name
            );
            (self.on_event)(Event::Note(text));
        }
        Ok(parts)
    }
}

fn file_id(path: &Path) -> Option<FileId> {
    let meta = path.metadata().ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Parts of at most so many layers, two at least, in none of which a file comes twice. The baseline
/// (layer 0) is in each; their order stays.
fn divide(layers: &[(usize, BTreeSet<FileId>)], most: usize) -> Vec<Vec<usize>> {
    let most = most.max(2);
    let baseline = layers.iter().find(|(layer, _)| *layer == 0);
    let mut parts: Vec<(Vec<usize>, BTreeSet<FileId>)> = Vec::new();
    for (layer, files) in layers.iter().filter(|(layer, _)| *layer != 0) {
        let fits = |(part, seen): &(Vec<usize>, BTreeSet<FileId>)| {
            part.len() < most && seen.is_disjoint(files)
        };
        let at = parts.iter().position(fits).unwrap_or_else(|| {
            let first = baseline.cloned().map(|(layer, files)| (vec![layer], files));
            parts.push(first.unwrap_or_default());
            parts.len() - 1
        });
        let part = &mut parts[at];
        part.0.push(*layer);
        part.1.extend(files);
    }
    if parts.is_empty() {
        return vec![layers.iter().map(|(layer, _)| *layer).collect()];
    }
    let place = |layer: &usize| layers.iter().position(|(l, _)| l == layer);
    for (part, _) in &mut parts {
        part.sort_by_key(place);
    }
    parts.into_iter().map(|(part, _)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(files: &[(usize, &[u64])]) -> Vec<(usize, BTreeSet<FileId>)> {
        let of = |files: &[u64]| files.iter().map(|inode| (1, *inode)).collect();
        files.iter().map(|(layer, f)| (*layer, of(f))).collect()
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
    fn layers_that_show_one_file_are_not_in_one_part() {
        let all = layers(&[(0, &[7]), (1, &[8]), (2, &[9, 8]), (3, &[])]);
        assert_eq!(divide(&all, 9), [vec![0, 1, 3], vec![0, 2]]);
    }
}
