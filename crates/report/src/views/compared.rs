//! Gates and their outcomes, and two runs side by side, as sections.

use crate::{
    facts::machine::{FactValue, LISTED, MachineFact, RanOn},
    types::{Cell, Compared, DataTable, GateRow, GateState, Report, Section},
    words::{captions, gate as words, machine},
};

/// Every gate with its outcome, failed ones first. `None` without gates.
pub fn gates(report: &Report) -> Option<Section> {
    let in_state = |state| report.gates.iter().filter(move |gate| gate.state == state);
    let order = [GateState::Failed, GateState::Undecided, GateState::Passed];
    let rows: Vec<Vec<Cell>> = order.into_iter().flat_map(in_state).map(gate).collect();
    let counts = order.map(|state| (in_state(state).count(), state));
    let counts = counts.into_iter().filter(|(n, _)| *n > 0);
    let counts: Vec<(usize, GateState)> = counts.collect();
    let heads = ["gate", "layer", "operation", "outcome", "measured"];
    (!rows.is_empty()).then(|| Section {
        name: "gates".into(),
        title: words::counted(&counts).into(),
        tables: vec![DataTable {
            title: captions::GATES.title.into(),
            note: String::new(),
            head: heads.map(str::to_owned).to_vec(),
            rows,
        }],
        ..Section::default()
    })
}

fn gate(gate: &GateRow) -> Vec<Cell> {
    let texts = [
        gate.gate.as_str(),
        &gate.layer,
        &gate.point,
        words::state(gate.state),
        &gate.text,
    ];
    texts.map(Cell::text).to_vec()
}

/// The older and the newer run, and what they ran on. `None` for one run.
pub fn runs(report: &Report) -> Option<Section> {
    let old = report.compared.as_ref()?;
    let heads = ["", "old run", "new run"];
    let table = DataTable {
        title: captions::BOTH_RUNS.title.into(),
        note: String::new(),
        head: heads.map(str::to_owned).to_vec(),
        rows: rows(old, report),
    };
    Some(Section {
        name: "both-runs".into(),
        title: captions::BOTH_RUNS.title.into(),
        tables: vec![table],
        ..Section::default()
    })
}

/// Facts of both runs and of their machines, a line each. Those of the machine that neither has are left out.
fn rows(old: &Compared, new: &Report) -> Vec<Vec<Cell>> {
    let mut rows = vec![
        ["run".to_owned(), old.run.clone(), new.run.clone()],
        ["started".into(), old.started.clone(), new.started.clone()],
        ["plan".into(), old.label.clone(), new.label.clone()],
    ];
    // A comparison that an earlier version wrote does not have the older one's.
    if let Some(then) = &old.machine {
        let both = [then, &new.machine].map(|machine| RanOn {
            machine,
            version: "",
        });
        let values = |fact: MachineFact| (fact, both.map(|run| fact.of(run)));
        let known = LISTED.map(values).into_iter();
        let known = known.filter(|(_, values)| values.iter().any(|v| *v != FactValue::Name("")));
        rows.extend(known.map(|(fact, values)| {
            let [then, now] = values.map(|value| machine::cell(value).into());
            [machine::name(fact).to_owned(), then, now]
        }));
    }
    let cells = |row: [String; 3]| row.map(Cell::text).to_vec();
    rows.into_iter().map(cells).collect()
}
