//! What is lost of sequences of operations?

use layermark_model::witness::{
    SequenceCut,
    sequence::{Basis, LostThing},
};

use crate::{
    code_span::code,
    number,
    statements::sequences::{SequenceAnswer, answers},
    types::{Cell, Conclusion, DataTable, Holds, Report, Section},
    words::{Words, captions, sequences as words},
};

use super::durability::{CUTS_A_MINUTE, NotJudged, cuts_a_minute};

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
            tables: [Some(self.sequence_sums()), losses(cuts)]
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

    /// How many were cut in each layer, and how long that took.
    fn sequence_sums(&self) -> DataTable {
        let cuts = &self.sequence_cuts;
        let not_judged = NotJudged::of(cuts.iter().map(|c| c.unseen.unjudged));
        let about = words::about_sums(self.sequence_sample.as_ref(), self.seed);
        let row = |cut: &SequenceCut| {
            let [posix, beyond] = [Basis::Posix, Basis::Linux].map(|basis| cut.losing(basis));
            let mut row = vec![Cell::text(code(&cut.layer))];
            let counts = [cut.sequences, cut.left_out, cut.unfinished, cut.cuts];
            row.extend(counts.into_iter().chain([posix, beyond]).map(Cell::count));
            row.push(match cut.elapsed_ns {
                0 => Cell::text(""),
                ns => Cell::number(number::time(ns as f64 / 1e3), ns as f64 / 1e9),
            });
            row.push(cuts_a_minute(cut.cuts, cut.elapsed_ns));
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
            "time of the cuts",
            CUTS_A_MINUTE,
            "not set up again",
        ];
        let head = head.into_iter().chain(not_judged.head()).chain(["remark"]);
        DataTable {
            title: captions::SEQUENCE_SUMS.title.into(),
            note: not_judged.noted(&about.to_string()),
            head: head.map(str::to_owned).collect(),
            rows: cuts.iter().map(row).collect(),
        }
    }

    /// Whether a layer lost what POSIX or fsync(2) promises after a sequence of operations, and is not only there to lie.
    pub fn sequences_lost_data(&self) -> bool {
        answers(&self.sequence_cuts)
            .iter()
            .any(SequenceAnswer::lied)
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

#[cfg(test)]
mod tests {
    use layermark_model::{PlanCuts, PlanSequences};
    use layermark_testkit::sample::Sample;

    use super::*;

    /// How long each layer took, and of how many the sequences are a sample, was in no report.
    #[test]
    fn each_layer_has_its_time_and_the_sample_its_size() {
        let (mut run, _) = Sample::default().build();
        run.seed = 7;
        let mut report = |operations| {
            run.plan.power_cuts = Some(PlanCuts {
                cuts: 2,
                records: 1,
                also: Vec::new(),
                programs: Vec::new(),
                sequences: Some(PlanSequences {
                    operations,
                    sample: 200,
                    only: Vec::new(),
                }),
            });
            run.layers[0].facts.sequence_cuts = vec![SequenceCut {
                layer: "native".into(),
                cuts: 716,
                elapsed_ns: 6_600_000_000,
                ..SequenceCut::default()
            }];
            Report::build(&run, &[])
        };
        let two = report(2);
        let table = two.sequence_sums();
        let asked = "Asked for: all 179 sequences of one operation, and a sample of 200 of 39,908 of two, drawn from seed 7.";
        assert!(table.note.starts_with(asked), "{}", table.note);
        let column = |name: &str| {
            let at = table.head.iter().position(|head| head == name);
            table.rows[0][at.expect("a column")].text.clone()
        };
        assert_eq!(column("time of the cuts"), "6.60 s");
        assert_eq!(column(CUTS_A_MINUTE), "6509");
        let sample = report(1).sequence_sample.expect("all of one");
        assert_eq!((sample.of_one, sample.of_two), (179, 0));
    }
}
