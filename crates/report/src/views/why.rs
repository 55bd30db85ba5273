//! Why a command is slow in layers, as a section: the answer, and a table of its calls.

use crate::{
    number,
    types::{Cell, DataTable, ForecastCall, Section, Why},
    words::{Names, captions, why as words},
};

/// The section.
pub fn section(why: &Why) -> Section {
    let names = Names {
        baseline: &why.baseline,
    };
    let natively = String::from(names.natively());
    let texts = why.layers.iter().map(|layer| layer.text.clone());
    let answer = std::iter::once(why.answer.clone());
    Section {
        name: "why".into(),
        title: words::title(why).into(),
        tables: table(why, &natively).into_iter().collect(),
        remarks: texts
            .chain(why.lacks.iter().cloned())
            .chain(why.caveats.iter().cloned())
            .chain(answer)
            .collect(),
        ..Section::default()
    }
}

/// A row for each kind of call, a column for each layer. `None` if no costs are known.
fn table(why: &Why, natively: &str) -> Option<DataTable> {
    let known: Vec<_> = why.layers.iter().filter(|l| !l.calls.is_empty()).collect();
    let most = known.first()?;
    let kinds = most.calls.iter().map(|call| {
        let of = |calls: &[ForecastCall]| {
            let found = calls.iter().find(|c| c.kind == call.kind);
            found.map_or_else(Cell::default, cost)
        };
        let costs = known.iter().map(|layer| of(&layer.calls));
        let made = Cell::bare(number::thousands(call.calls), call.calls);
        let kind = Cell::text(words::calls(&call.kind));
        [kind, made].into_iter().chain(costs).collect()
    });
    let names = known.iter().map(|layer| layer.layer.clone());
    let head = ["calls", "number"].map(str::to_owned).into_iter();
    Some(DataTable {
        title: captions::CALLS.title.into(),
        note: words::more_than(natively).into(),
        head: head.chain(names).collect(),
        rows: kinds.collect(),
    })
}

fn cost(call: &ForecastCall) -> Cell {
    Cell::number(words::each_and_all(call), call.sum_us)
}
