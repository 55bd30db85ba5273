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
    code_span::{self, code},
    facts::index::Index,
    number::count,
    types::{BufferRow, Conclusion, CostRow, Holds, ResultRow, Section},
    words::{Names, lists::some_of},
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
    /// The baseline's name in a sentence.
    pub fn baseline_name(&self) -> String {
        code_span::baseline(self.run.baseline())
    }

    /// Names that sentences use.
    pub fn names(&self) -> Names<'_> {
        Names {
            baseline: self.run.baseline(),
        }
    }

    /// `natively`, or in which layer.
    pub fn natively(&self) -> String {
        code_span::in_baseline(&self.baseline_name())
    }
}

/// One study.
pub trait Study: Sync {
    /// Its id in a plan.
    fn id(&self) -> StudyId;
    /// What it is about, in a few words.
    fn title(&self) -> &'static str;
    /// The heading of its section.
    fn heading(&self) -> String {
        format!("Study: {}", self.title())
    }
    /// Its tables and charts, and the conclusions that are not data.
    fn section(&self, data: &Data) -> Section;
    /// Its answer, made from the same data as its section. Without a full stop.
    fn headline(&self, _data: &Data, section: &Section) -> Option<String> {
        by_claim(&section.conclusions)
    }
}

/// Most claims of a headline.
const CLAIMS: usize = 2;

/// The first decided claims, with the layers that they hold in and those that they do not hold in.
fn by_claim(all: &[Conclusion]) -> Option<String> {
    let mut claims: Vec<&str> = Vec::new();
    for c in all.iter().filter(|c| c.holds != Holds::Open) {
        if !claims.contains(&c.claim.as_str()) {
            claims.push(&c.claim);
        }
    }
    let said = |claim: &&str| {
        let of = |holds: Holds, word: &str| {
            let layers = layers_where(all, claim, holds);
            (!layers.is_empty()).then(|| format!("{word} in {}", some_of(&layers)))
        };
        let sides = [of(Holds::Yes, "yes"), of(Holds::No, "no")];
        let sides: Vec<String> = sides.into_iter().flatten().collect();
        format!("{claim}: {}", sides.join(", "))
    };
    let said: Vec<String> = claims.iter().take(CLAIMS).map(said).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Names of the layers whose answer to a claim is this one.
fn layers_where(all: &[Conclusion], claim: &str, holds: Holds) -> Vec<String> {
    let of = all.iter().filter(|c| c.claim == claim && c.holds == holds);
    of.map(|c| code(&c.layer)).collect()
}

/// How many claims hold, do not hold, and are not decided.
fn counted(all: &[Conclusion]) -> Option<String> {
    let of = |holds: Holds| all.iter().filter(|c| c.holds == holds).count();
    let (yes, no, open) = (of(Holds::Yes), of(Holds::No), of(Holds::Open));
    (yes + no > 0).then(|| {
        let claims = count(all.len(), "claim");
        format!("of {claims} of the study, {yes} hold here, {no} do not, {open} are not decided")
    })
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
    study.map(|s| s.title())
}

/// The section of the study that the plan repeats, or of the plan's own claims. Claims of the plan come first.
pub fn build(data: &Data) -> Option<Section> {
    let claims = declared::conclusions(data);
    let study = ALL.iter().find(|s| Some(s.id()) == data.run.plan.study);
    let mut section = match study {
        Some(study) => study.section(data),
        None if claims.is_empty() => return None,
        None => Section {
            name: "claims".into(),
            title: "Claims".into(),
            about: "What the plan claims of the layers, and whether it holds here.".into(),
            ..Section::default()
        },
    };
    // What a run was stopped before.
    section.tables.retain(|table| !table.rows.is_empty());
    section.conclusions.splice(0..0, claims);
    section.remarks.extend(declared::sources(data));
    section.headline = match study {
        Some(study) => study.headline(data, &section),
        None => by_claim(&section.conclusions),
    };
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
