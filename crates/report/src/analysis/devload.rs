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
    let mut rows: Vec<DevLoadRow> = scripts.filter_map(|r| row(run, index, r)).collect();
    let family = |a: &DevLoadRow, b: &DevLoadRow| (&a.layer, &a.what) == (&b.layer, &b.what);
    let marks: Vec<(bool, bool)> = rows
        .iter()
        .map(|row| {
            let others = || rows.iter().filter(|other| family(row, other));
            let more = others().any(|o| o.scripts_per_hour > row.scripts_per_hour);
            (!more, others().all(|o| o.users <= row.users))
        })
        .collect();
    for (row, (peak, last)) in rows.iter_mut().zip(marks) {
        (row.peak, row.last) = (peak, last);
    }
    rows
}

fn row(run: &Run, index: &Index, result: &ResultRow) -> Option<DevLoadRow> {
    let layer = run.layers.iter().position(|l| l.name == result.layer)?;
    let at = run.points.iter().position(|p| p.label == result.label)?;
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
        in_commands: commands / (commands + own).max(1.0),
        ratio: result.ratio,
        peak: false,
        last: false,
    })
}
