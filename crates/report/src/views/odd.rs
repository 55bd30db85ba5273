//! Several runs against each other, as a section: the answer, the results that differ, and a line for each run.

use crate::{
    types::{Cell, DataTable, ManyRuns, ResultAmong, RunAmong, Section, Standing, ValueAmong},
    words::{captions, odd as words},
};

/// The section.
pub fn section(of: &ManyRuns) -> Section {
    let line = |run: &RunAmong| words::line(run).into();
    Section {
        name: "odd".into(),
        title: words::title(&of.answer).into(),
        tables: table(of).into_iter().collect(),
        remarks: of.runs.iter().map(line).chain(of.unlike.clone()).collect(),
        ..Section::default()
    }
}

/// Results in which runs differ, a column for each run. `None` if there are none.
fn table(of: &ManyRuns) -> Option<DataTable> {
    let differ = |result: &&ResultAmong| {
        let mut runs = result.runs.iter();
        runs.any(|value| matches!(value.standing, Standing::Odd | Standing::Split))
    };
    let rows = of.results.iter().filter(differ).map(row);
    let rows: Vec<Vec<Cell>> = rows.collect();
    let heads = ["operation", "layer"].map(str::to_owned).into_iter();
    let runs = of.runs.iter().map(|run| run.name.clone());
    (!rows.is_empty()).then(|| DataTable {
        title: captions::ODD.title.into(),
        note: captions::ODD.about.into(),
        head: heads.chain(runs).collect(),
        rows,
    })
}

fn row(result: &ResultAmong) -> Vec<Cell> {
    let place = [&result.point, &result.layer].map(|text| Cell::text(text.clone()));
    let runs = result.runs.iter().map(cell);
    place.into_iter().chain(runs).collect()
}

fn cell(value: &ValueAmong) -> Cell {
    let Some(ratio) = &value.ratio else {
        return Cell::text("-");
    };
    let word = match value.standing {
        Standing::Like => return Cell::text("="),
        Standing::Odd => "odd",
        Standing::Split => "split",
        Standing::Unknown | Standing::NotCompared => "not decided",
    };
    Cell::text(words::ratio_and_word(ratio, word))
}
