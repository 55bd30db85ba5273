//! What is lost of sequences of operations?

use layermark_model::witness::{
    SequenceCut,
    sequence::{Basis, LostThing},
};

use crate::{
    code_span::code,
    statements::sequences::{SequenceAnswer, answers},
    types::{Cell, Conclusion, DataTable, Holds, Report, Section},
    words::{Words, captions},
};

use super::durability::NotJudged;

impl Report {
    /// What each layer lost of sequences of operations.
    pub(crate) fn sequence_section(&self) -> Option<Section> {
        let cuts = &self.sequence_cuts;
        if cuts.is_empty() {
            return None;
        }
        let answers = answers(cuts);
        Some(Section {
            name: "sequences".into(),
            title: captions::SEQUENCES.title.into(),
            about: captions::SEQUENCES.about.into(),
            is_answer: true,
            tables: [Some(sums(cuts)), losses(cuts)]
                .into_iter()
                .flatten()
                .collect(),
            conclusions: answers
                .iter()
                .map(|a| self.sequence_conclusion(a))
                .collect(),
            ..Section::default()
        })
    }

    fn sequence_conclusion(&self, answer: &SequenceAnswer<'_>) -> Conclusion {
        let holds = match (answer.lied(), answer.open) {
            (true, _) => Holds::No,
            (false, None) => Holds::Yes,
            (false, Some(_)) => Holds::Open,
        };
        Conclusion {
            text: answer.words(&self.names()).into(),
            claim: captions::SEQUENCES_CLAIM.into(),
            layer: answer.layer.into(),
            holds,
            evidence: Vec::new(),
        }
    }

    /// Whether a layer lost what POSIX or fsync(2) promises after a sequence of operations, and is not only there to lie.
    pub fn sequences_lost_data(&self) -> bool {
        answers(&self.sequence_cuts)
            .iter()
            .any(SequenceAnswer::lied)
    }
}

fn sums(cuts: &[SequenceCut]) -> DataTable {
    let not_judged = NotJudged::of(cuts.iter().map(|c| c.unseen.unjudged));
    let row = |cut: &SequenceCut| {
        let [posix, beyond] = [Basis::Posix, Basis::Linux].map(|basis| cut.losing(basis));
        let mut row = vec![Cell::text(code(&cut.layer))];
        let counts = [cut.sequences, cut.left_out, cut.unfinished, cut.cuts];
        row.extend(counts.into_iter().chain([posix, beyond]).map(Cell::count));
        row.push(match cut.elapsed_ns {
            0 => Cell::text(""),
            ns => Cell::count((cut.cuts as f64 / (ns as f64 / 60e9)) as u64),
        });
        row.push(Cell::count(cut.unseen.unrecovered));
        row.extend(not_judged.cell(cut.unseen.unjudged));
        let why = [
            &cut.uncut,
            &cut.unseen.unrecovered_why,
            &cut.unseen.unjudged_why,
            &cut.left_out_why,
        ];
        let why = why.into_iter().flatten().next().cloned();
        row.push(Cell::text(why.unwrap_or_default()));
        row
    };
    let head = [
        "layer",
        "sequences",
        "left out",
        "unfinished",
        "cuts",
        "lost what POSIX or fsync(2) promises",
        "lost only more than that",
        "cuts a minute",
        "not set up again",
    ];
    let head = head.into_iter().chain(not_judged.head()).chain(["remark"]);
    DataTable {
        title: captions::SEQUENCE_SUMS.title.into(),
        note: not_judged.noted(captions::SEQUENCE_SUMS.about),
        head: head.map(str::to_owned).collect(),
        rows: cuts.iter().map(row).collect(),
    }
}

/// Everything that was lost, the smallest sequence of each layer first.
fn losses(cuts: &[SequenceCut]) -> Option<DataTable> {
    let rows: Vec<Vec<Cell>> = cuts.iter().flat_map(lost).collect();
    let head = [
        "layer",
        "sequence",
        "acknowledged",
        "survived of the rest",
        "name",
        "what",
        "promised by",
        "expected",
        "found",
    ];
    (!rows.is_empty()).then(|| DataTable {
        title: captions::SEQUENCE_LOSSES.title.into(),
        note: captions::SEQUENCE_LOSSES.about.into(),
        head: head.map(str::to_owned).to_vec(),
        rows,
    })
}

fn lost(cut: &SequenceCut) -> Vec<Vec<Cell>> {
    let known = |l: &&_| cut.smallest.as_ref() != Some(*l);
    let all = cut.smallest.iter().chain(cut.lost.iter().filter(known));
    let rows = all.flat_map(|lost| {
        let row = |thing: &LostThing| {
            vec![
                Cell::text(code(&cut.layer)),
                Cell::text(code(&lost.sequence)),
                Cell::count(lost.state.acknowledged),
                Cell::text(lost.state.survives.clone()),
                Cell::text(code(&thing.path)),
                Cell::text(thing.kind.words()),
                Cell::text(match thing.basis {
                    Basis::Posix => "POSIX or fsync(2)",
                    Basis::Linux => "ext4, XFS, btrfs",
                }),
                Cell::text(thing.expected.clone()),
                Cell::text(thing.found.clone()),
            ]
        };
        lost.things.iter().map(row).collect::<Vec<_>>()
    });
    rows.collect()
}
