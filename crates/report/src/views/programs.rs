//! Does the user's program keep what it acknowledged?

use layermark_model::witness::ProgramCut;

use crate::{
    code_span::code,
    number,
    statements::programs::{ProgramAnswer, answers},
    types::{Cell, Conclusion, DataTable, Holds, Report, Section},
    words::{Words, captions, power_cuts::time, programs as words},
};

use super::durability::{CUTS_A_MINUTE, NotJudged, cuts_a_minute};

impl Report {
    /// What each program lost in each layer.
    pub(crate) fn program_section(&self) -> Option<Section> {
        let cuts = &self.program_cuts;
        if cuts.is_empty() {
            return None;
        }
        let answers = answers(cuts);
        Some(Section {
            name: "programs".into(),
            title: captions::PROGRAMS.title.into(),
            about: captions::PROGRAMS.about.into(),
            is_answer: true,
            tables: [Some(losses(cuts)), firsts(cuts)]
                .into_iter()
                .flatten()
                .collect(),
            conclusions: answers
                .iter()
                .map(|answer| self.program_conclusion(answer))
                .collect(),
            ..Section::default()
        })
    }

    fn program_conclusion(&self, answer: &ProgramAnswer<'_>) -> Conclusion {
        let holds = if !answer.lost.is_empty() {
            Holds::No
        } else if answer.open.is_empty() {
            Holds::Yes
        } else {
            Holds::Open
        };
        let layer = answer.lost.first().or(answer.kept.first()).copied();
        let layer = layer.or(answer.open.first().map(|(cut, _)| *cut));
        Conclusion {
            text: answer.words(&self.names()).into(),
            claim: captions::PROGRAMS_CLAIM.into(),
            layer: layer.map(|cut| cut.layer.clone()).unwrap_or_default(),
            holds,
            evidence: Vec::new(),
        }
    }

    /// Whether a program lost what it had promised to keep, in a layer that is not only there to lie.
    pub fn program_lost_data(&self) -> bool {
        answers(&self.program_cuts)
            .iter()
            .any(ProgramAnswer::is_broken)
    }
}

fn losses(cuts: &[ProgramCut]) -> DataTable {
    let not_judged = NotJudged::of(cuts.iter().map(|c| c.unseen.unjudged));
    let row = |cut: &ProgramCut| {
        let mut row = vec![Cell::text(code(&cut.layer)), Cell::text(code(&cut.program))];
        row.extend([cut.items, cut.cuts, cut.losing, cut.most_lost, cut.torn].map(Cell::count));
        row.push(Cell::text(words::orders(cut)));
        row.push(match cut.window_ns {
            0 => Cell::text(""),
            ns => Cell::number(number::time(ns as f64 / 1e3), ns as f64 / 1e9),
        });
        row.push(cuts_a_minute(cut.cuts, cut.cuts_ns.unwrap_or(0)));
        row.push(Cell::count(cut.unseen.unrecovered));
        row.extend(not_judged.cell(cut.unseen.unjudged));
        row.extend([cut.unchecked, cut.lost_when_killed].map(Cell::count));
        let why = [
            &cut.uncut,
            &cut.unseen.unrecovered_why,
            &cut.unseen.unjudged_why,
            &cut.unchecked_why,
            &cut.ended,
        ];
        let why = why.into_iter().flatten().next().cloned();
        row.push(Cell::text(why.unwrap_or_default()));
        row
    };
    let head = [
        "layer",
        "program",
        "items",
        "cuts",
        "cuts with loss",
        "most items lost",
        "damaged",
        "which were lost",
        "longest time lost",
        CUTS_A_MINUTE,
        "not set up again",
    ];
    let after = ["check failed", "missing when killed", "remark"];
    let head = head.into_iter().chain(not_judged.head()).chain(after);
    DataTable {
        title: captions::PROGRAM_ITEMS.title.into(),
        note: not_judged.noted(captions::PROGRAM_ITEMS.about),
        head: head.map(str::to_owned).collect(),
        rows: cuts.iter().map(row).collect(),
    }
}

/// The earliest item that each program lost.
fn firsts(cuts: &[ProgramCut]) -> Option<DataTable> {
    let row = |cut: &ProgramCut| {
        let first = cut.first.as_ref()?;
        Some(vec![
            Cell::text(code(&cut.layer)),
            Cell::text(code(&cut.program)),
            Cell::text(code(&first.name)),
            Cell::count(first.number),
            Cell::count(first.acknowledged),
            Cell::text(time(first.at_ms).to_string()),
            Cell::text(first.said.clone()),
        ])
    };
    let rows: Vec<_> = cuts.iter().filter_map(row).collect();
    let head = [
        "layer",
        "program",
        "item",
        "number",
        "acknowledged before the cut",
        "at",
        "the check said",
    ];
    (!rows.is_empty()).then(|| DataTable {
        title: captions::PROGRAM_FIRSTS.into(),
        note: String::new(),
        head: head.map(str::to_owned).to_vec(),
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They were recorded for sequences alone.
    #[test]
    fn cuts_a_minute_are_those_with_recovery_and_check() {
        let cut = |cuts_ns| ProgramCut {
            layer: "native".into(),
            cuts: 38,
            elapsed_ns: 3_000_000_000,
            cuts_ns,
            ..ProgramCut::default()
        };
        // The second is of an earlier version.
        let table = losses(&[cut(Some(1_900_000_000)), cut(None)]);
        let at = table.head.iter().position(|head| head == CUTS_A_MINUTE);
        let at = at.expect("a column");
        let cells: Vec<&str> = table.rows.iter().map(|row| &*row[at].text).collect();
        assert_eq!(cells, ["1200", ""]);
    }
}
