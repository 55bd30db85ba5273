//! Which layers are ready at the same time in a block, by what they have open and who serves them.

use std::{collections::BTreeSet, os::unix::fs::MetadataExt, path::Path};

use layermark_model::{BASELINE, Divided, Point};

use crate::{
    check,
    decide::{
        budget::Due,
        parts::{FileId, Member, divide},
    },
    execute::drive::Lab,
};

impl Lab<'_> {
    /// Divides the layers of a point into parts whose files fit into memory and on the disk
    /// together. Each part includes the baseline. There is one part if all fit.
    ///
    /// Layers that show the same file of this host (two overlays over one lower directory) cannot
    /// be cold at the same time: what one has read is in memory for the other. Layers that a
    /// process serves are separated from the others where one thread works: those can be kept on one CPU, and have a
    /// higher priority. See [`OneCpu`](crate::execute::pin::OneCpu) and [`Raised`](crate::execute::priority::Raised).
    pub(crate) fn parts_that_fit(&mut self, due: &Due, divided: Divided) -> Vec<Vec<usize>> {
        let at = &self.progress.run.points[due.point];
        let needs = &at.needs;
        let in_memory = if divided.in_memory {
            divided.working_set
        } else {
            0
        };
        let most = check::fit(self.progress.run.dir.as_ref(), in_memory, needs.space);
        let one_thread = has_one_thread(at);
        let mut members: Vec<Member> = due
            .layers
            .iter()
            .map(|layer| {
                let up = self.machine.up(*layer).filter(|_| divided.uses_up);
                let behind = up.map(|up| up.place.backing_extents(&needs.open_before));
                let files = behind.unwrap_or_default();
                Member {
                    layer: *layer,
                    served: one_thread && self.machine.is_served(*layer),
                    files: files.iter().filter_map(|f| file_id(&f.path)).collect(),
                }
            })
            .collect();
        // The control is placed with the layers it applies to: those that are not served, or all if
        // every layer is served.
        if members
            .iter()
            .all(|m| m.served || self.progress.is_baseline(m.layer))
        {
            for member in &mut members {
                member.served = true;
            }
        }
        let parts = divide(&members, most);
        let others = members.iter().filter(|m| m.layer != BASELINE);
        let kinds = others.map(|m| m.served).collect::<BTreeSet<_>>().len();
        if parts.len() > kinds.max(1) && self.progress.divided.insert(due.point) {
            let text = format!(
                "`{}` is measured in {} parts, each with {}: the files of all layers do not fit into memory or on the disk at once, or are shared",
                at.label,
                parts.len(),
                self.progress.run.layers[BASELINE].name
            );
            self.out.note(text);
        }
        parts
    }
}

/// Whether the probe's own thread does all the work of a turn. Both ends of work with two ends run at the same time.
pub(crate) fn has_one_thread(at: &Point) -> bool {
    let alone = at.meaning.divided.is_some_and(|d| !d.cost.has_tasks());
    alone && !at.needs.near.has_two()
}

/// Whether a point can run on one CPU. One that requests a number of CPUs is meant to show their effect.
pub(crate) fn fits_one_cpu(at: &Point) -> bool {
    at.meaning.cpus().is_none() && has_one_thread(at)
}

fn file_id(path: &Path) -> Option<FileId> {
    let meta = path.metadata().ok()?;
    Some((meta.dev(), meta.ino()))
}
