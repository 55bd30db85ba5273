//! What the workload `devload` tells beside a ratio: scripts an hour by the number of users, and
//! their peak.

use layermark_model::{Quantity, Run, Trial, Unit};

use crate::{
    analysis::index::Index,
    types::{DevLoadRow, ResultRow},
};

/// One row for each result of the workload, in the order of the results.
pub fn rows(run: &Run, index: &Index, results: &[ResultRow]) -> Vec<DevLoadRow> {
    let scripts = results.iter().filter(|r| r.meaning.unit == Unit::Script);
    let (trusted, mut rows): (Vec<bool>, Vec<DevLoadRow>) = scripts
        .filter_map(|r| Some((r.untrusted.is_none(), row(run, index, r)?)))
        .unzip();
    let all = rows.clone();
    for (row, _) in rows
        .iter_mut()
        .zip(&trusted)
        .filter(|(_, trusted)| **trusted)
    {
        let its = |other: &&DevLoadRow| (&other.layer, &other.what) == (&row.layer, &row.what);
        let others = all.iter().zip(&trusted).filter(|(_, trusted)| **trusted);
        let others: Vec<&DevLoadRow> = others.map(|(other, _)| other).filter(its).collect();
        mark(row, &others);
    }
    rows
}

/// Says where the row stands among those of the same work with other numbers of users.
fn mark(row: &mut DevLoadRow, others: &[&DevLoadRow]) {
    let larger = others.iter().filter(|o| o.users > row.users);
    let next = larger.min_by_key(|o| o.users);
    let more = |o: &&DevLoadRow| o.scripts_per_hour > row.scripts_per_hour;
    row.highest = !others.iter().any(more);
    let decided = row.interval.zip(next.and_then(|n| n.interval));
    row.peak = row.highest && decided.is_some_and(|([low, _], [_, high])| low > high);
    row.next_users = next.map(|n| n.users);
}

fn row(run: &Run, index: &Index, result: &ResultRow) -> Option<DevLoadRow> {
    let (layer, at) = run.site(&result.layer, &result.label)?;
    let records = index.trials(layer, at);
    let trials: Vec<&Trial> = records.iter().filter_map(|r| r.trial.as_ref()).collect();
    let sum = |of: &dyn Fn(&Trial) -> u64| trials.iter().map(|t| of(t)).sum::<u64>() as f64;
    let commands = sum(&|t| t.cpu.user_ns + t.cpu.sys_ns);
    let own = sum(&|t| t.scripts.as_ref().map_or(0, |s| s.own_ns));
    let scripts = sum(&Trial::ops);
    Some(DevLoadRow {
        result: result.id.clone(),
        layer: result.layer.clone(),
        what: result.meaning.describe(&[Quantity::Users]),
        users: result.meaning.value(Quantity::Users)?,
        scripts_per_hour: result.value?,
        interval: result.interval,
        seconds: result.op_us? / 1e6,
        cpu_s: commands / 1e9 / scripts.max(1.0),
        cpu_in_commands: commands / (commands + own).max(1.0),
        ratio: result.ratio,
        highest: false,
        peak: false,
        next_users: None,
    })
}
