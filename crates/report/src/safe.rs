//! Answers whether a directory can be relied on, from the report of a run.

use crate::{
    Report, plain,
    statements::safe::{asked_dir, lines},
    types::{SafeAnswer, SafeTopic, Safety},
    words::{NO_NAMES, Words},
};

impl Safety {
    /// The answers about the baseline of a run.
    pub fn of(report: &Report, asked: &[SafeTopic]) -> Self {
        let layer = report.layers.iter().find(|l| l.baseline);
        let mounts = layer.iter().flat_map(|l| &l.facts.mounts);
        let file_system = mounts.map(|m| m.fs.clone()).next();
        let dir = layer.and_then(asked_dir).unwrap_or_default();
        let answers = lines(report, &dir, asked)
            .into_iter()
            .map(|line| SafeAnswer {
                question: line.question,
                answer: line.answer,
                because: line.because.words(&NO_NAMES).into(),
                advice: line.advice.map(|advice| advice.words(&NO_NAMES).into()),
                evidence: line.evidence.into_iter().map(str::to_owned).collect(),
            });
        plain::texts(Self {
            schema: Self::SCHEMA.into(),
            run: report.run.clone(),
            file_system: file_system.unwrap_or_default(),
            answers: answers.collect(),
            dir,
        })
    }
}
