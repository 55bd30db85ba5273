//! Published studies that a plan repeats: one file each, listed here. A study builds its own tables
//! and charts from the results. Its claims are data in its plan (`declared.rs`). A claim is code where it
//! needs more than points compared with their counterparts:
//!
//! * `buffer_size.rs`: the smallest record within 5 % of the best, over a sweep;
//! * `fileio_appvirt.rs`: where reads came from, data left to write, and means over three repeats;
//! * `claims.rs`: the best of a sweep against another one's, a fitted constant cost, an order of layers;
//! * `syncs.rs`: power cuts.

use layermark_model::{Run, StudyId};

use crate::{
    facts::index::Index,
    group,
    statements::studies::{ByClaim, ClaimSides, CountedClaims},
    types::{BufferRow, Conclusion, CostRow, Holds, ResultRow, Section},
    words::{self, Names, Text, Words, studies::Claimed},
};

mod buffer_size;
mod claims;
mod declared;
mod fileio_appvirt;
mod iozone_vm;
mod launch_share;
mod parts;
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
    /// Index of the baseline.
    pub baseline: usize,
    /// Results by point, then by layer, without the control.
    pub results: &'a [ResultRow],
    /// Cost models.
    pub cost: &'a [CostRow],
    /// Recommended record sizes.
    pub buffer: &'a [BufferRow],
}

impl Data<'_> {
    /// Names that sentences use.
    pub fn names(&self) -> Names<'_> {
        Names {
            baseline: self.run.baseline(),
        }
    }
}

/// One study.
pub trait Study: Sync {
    /// Its id in a plan.
    fn id(&self) -> StudyId;
    /// The beginning of its section.
    fn head(&self, data: &Data) -> Section {
        let id = self.id();
        Section {
            name: id.id().into(),
            title: words::studies::heading(id).into(),
            about: words::studies::about(id, &data.names()).into(),
            ..Section::default()
        }
    }
    /// Its tables and charts, and the conclusions that are not data.
    fn section(&self, data: &Data) -> Section;
    /// Its answer, made from the same data as its section. Without a full stop.
    fn headline(&self, data: &Data, section: &Section) -> Option<Text> {
        by_claim(&section.conclusions).map(|said| said.words(&data.names()))
    }
}

/// A claim and its sentence.
fn conclusion(
    said: &impl Claimed,
    layer: &str,
    holds: Holds,
    evidence: Vec<String>,
    names: &Names,
) -> Conclusion {
    Conclusion {
        text: said.words(names).into(),
        claim: said.claim(names).into(),
        layer: layer.into(),
        holds,
        evidence,
    }
}

/// Most claims of a headline.
const CLAIMS: usize = 2;

/// The first decided claims.
fn by_claim(all: &[Conclusion]) -> Option<ByClaim<'_>> {
    let decided = all.iter().filter(|c| c.holds != Holds::Open);
    let claims = group::distinct(decided.map(|c| c.claim.as_str()));
    let sides = |claim: &'_ str| {
        let of = |holds| {
            let own = all.iter().filter(|c| c.claim == claim && c.holds == holds);
            own.map(|c| c.layer.as_str()).collect()
        };
        (of(Holds::Yes), of(Holds::No))
    };
    let sides = claims.into_iter().take(CLAIMS).map(|claim| {
        let (yes, no) = sides(claim);
        ClaimSides { claim, yes, no }
    });
    let sides: Vec<ClaimSides> = sides.collect();
    (!sides.is_empty()).then_some(ByClaim(sides))
}

/// How many claims hold, do not hold, and are not decided. `None` if none is decided.
fn counted(all: &[Conclusion]) -> Option<CountedClaims> {
    let of = |holds: Holds| all.iter().filter(|c| c.holds == holds).count();
    let (yes, no, open) = (of(Holds::Yes), of(Holds::No), of(Holds::Open));
    (yes + no > 0).then_some(CountedClaims { yes, no, open })
}

/// Every study.
pub const ALL: &[&dyn Study] = &[
    &fileio_appvirt::FileioAppvirt,
    &buffer_size::BufferSize,
    &iozone_vm::IozoneVm,
    &launch_share::LaunchShare,
    &virtual_io::VirtualIo,
];

/// What the study with this id is about, in a few words.
pub fn title(id: &str) -> Option<&'static str> {
    let study = ALL.iter().find(|s| s.id().id() == id);
    study.map(|s| words::studies::title(s.id()))
}

/// The section of the study that the plan repeats, or of the plan's own claims. Claims of the plan come first.
pub fn build(data: &Data) -> Option<Section> {
    let claims = declared::conclusions(data);
    let study = ALL.iter().find(|s| Some(s.id()) == data.run.plan.study);
    let [title, about] = words::studies::CLAIMS;
    let mut section = match study {
        Some(study) => study.section(data),
        None if claims.is_empty() => return None,
        None => Section {
            name: "claims".into(),
            title: title.into(),
            about: about.into(),
            ..Section::default()
        },
    };
    // What a run was stopped before.
    section.tables.retain(|table| !table.rows.is_empty());
    section.conclusions.splice(0..0, claims);
    section.remarks.extend(declared::sources(data));
    let headline = match study {
        Some(study) => study.headline(data, &section),
        None => by_claim(&section.conclusions).map(|said| said.words(&data.names())),
    };
    section.headline = headline.map(String::from);
    Some(section)
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
