//! Published studies that a plan repeats: one file each, listed here. A study builds its own tables
//! and charts from the results, and decides which of its conclusions hold here.

use layermark_model::{Run, StudyId};

use crate::{
    analysis::index::Index,
    types::{BufferRow, CostRow, ResultRow, Section},
};

mod buffer_size;
mod claims;
mod fileio_appvirt;
mod iozone_vm;
mod launch_share;
mod repeats;
mod rows;
mod syncs;
mod virtual_io;

/// Input of a study.
pub struct Data<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its trials.
    pub index: &'a Index<'a>,
    /// Index of the native layer.
    pub baseline: usize,
    /// Results by point, then by layer, without the control.
    pub results: &'a [ResultRow],
    /// Cost models.
    pub cost: &'a [CostRow],
    /// Recommended record sizes.
    pub buffer: &'a [BufferRow],
}

/// One study.
pub trait Study: Sync {
    /// Its id in a plan.
    fn id(&self) -> StudyId;
    /// Its tables, charts and conclusions.
    fn section(&self, data: &Data) -> Section;
}

/// Every study.
pub const ALL: &[&dyn Study] = &[
    &fileio_appvirt::FileioAppvirt,
    &buffer_size::BufferSize,
    &iozone_vm::IozoneVm,
    &launch_share::LaunchShare,
    &virtual_io::VirtualIo,
];

/// The section of the study that the plan repeats.
pub fn build(data: &Data) -> Option<Section> {
    let id = data.run.plan.study?;
    let study = ALL.iter().find(|s| s.id() == id)?;
    Some(study.section(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_that_a_plan_can_name_is_listed() {
        for id in StudyId::ALL {
            assert!(
                ALL.iter().any(|s| s.id() == id),
                "add a file for {} to ALL in studies/mod.rs",
                id.id()
            );
        }
    }
}
