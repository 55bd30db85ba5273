//! What is shown besides the results: tables and charts as sections, and the notes of a row.

use crate::types::{Report, Section};

pub mod alternatives;
mod buffer;
mod compared;
mod cost;
mod durability;
mod estimate_checks;
pub mod external;
mod figures;
pub mod fleet;
pub mod forecast;
mod iops;
pub mod iozone;
mod launches;
mod locks;
pub mod odd;
mod programs;
mod scaling;
mod seek;
mod sequences;
pub mod why;

impl Report {
    /// The sections besides the results, in order; the study comes first.
    pub fn sections(&self) -> Vec<Section> {
        // In a study with few repeats, a model of its noise would only distract.
        let sections = self.sections_with(self.study.is_none());
        sections.into_iter().map(Section::without_empty).collect()
    }

    /// All sections, including models based on little data, for programs that process the numbers.
    pub fn all_sections(&self) -> Vec<Section> {
        self.sections_with(true)
    }

    fn sections_with(&self, uncertain: bool) -> Vec<Section> {
        let told = |known: bool| known || uncertain;
        let cost = self
            .cost
            .iter()
            .any(|c| c.fixed_us.is_some_and(|e| e.interval.is_some()));
        let buffer = self.buffer.iter().any(|b| b.wall.between.is_some());
        let others = [
            Some(alternatives::section(self)),
            told(cost).then(|| cost::section(self)),
            told(buffer).then(|| buffer::section(&self.buffer, self.level)),
            Some(seek::section(&self.results)),
            Some(iops::section(self)),
            Some(launches::section(self)),
            Some(forecast::section(self)),
        ];
        let others = others.into_iter().flatten().flatten();
        let others = others.chain(self.figure_sections());
        let others = others.chain(scaling::section(self));
        let others = others.chain(compared::gates(self));
        let others = others.chain(compared::runs(self));
        let beside = self.beside.iter().map(external::section);
        let study = self.study.iter().cloned();
        let study = study.chain(self.fleet.iter().map(fleet::run));
        let study = study.chain(self.program_section());
        let study = study.chain(self.sequence_section());
        let study = study.chain(self.durability_section());
        let study = study.chain(locks::section(self));
        let study = study.chain(estimate_checks::section(self));
        study.chain(others).chain(beside).collect()
    }
}
