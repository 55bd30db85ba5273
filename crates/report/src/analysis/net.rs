//! What both ends of a path tell beside a ratio: the figures of netperf.

use layermark_model::{NetTrial, Quantity, Run, Trial, Unit};

use crate::{
    analysis::index::Index,
    types::{NetRow, ResultRow},
};

/// Bytes of a KB, as netperf counts them in its service demand.
const KB: f64 = 1024.0;

/// One row for each result whose trials have two ends, in the order of the results.
pub fn rows(run: &Run, index: &Index, results: &[ResultRow]) -> Vec<NetRow> {
    results
        .iter()
        .filter_map(|result| row(run, index, result))
        .collect()
}

fn row(run: &Run, index: &Index, result: &ResultRow) -> Option<NetRow> {
    let value = result.value?;
    let (layer, at) = run.site(&result.layer, &result.label)?;
    let records = index.trials(layer, at);
    let trials = records.iter().filter_map(|r| r.trial.as_ref());
    let trials: Vec<&Trial> = trials.filter(|t| t.net.is_some()).collect();
    let nets: Vec<&NetTrial> = trials.iter().filter_map(|t| t.net.as_deref()).collect();
    let last = *nets.last()?;
    let said = &result.meaning;
    let transacts = said.unit == Unit::Transaction;
    let sum = |of: &dyn Fn(&Trial) -> u64| trials.iter().map(|t| of(t)).sum::<u64>() as f64;
    let ops = sum(&Trial::ops);
    let units = if transacts {
        ops
    } else {
        sum(&Trial::bytes) / KB
    };
    let far_ns = |n: &&NetTrial| n.far_cpu.user_ns + n.far_cpu.sys_ns;
    let ceilings: Vec<f64> = nets.iter().filter_map(|n| n.ceiling).collect();
    let ceiling = layermark_stats::median(&ceilings);
    let rate = ops * 1e9 / sum(&Trial::elapsed_ns).max(1.0);
    Some(NetRow {
        result: result.id.clone(),
        layer: result.layer.clone(),
        label: result.label.clone(),
        what: said.describe(&[Quantity::SocketBuffer]),
        socket_buffer: said.value(Quantity::SocketBuffer),
        near: last.near.clone(),
        far: last.far.clone(),
        one_host: last.one_host,
        mbit_s: (!transacts).then_some(value * 8.0 / 1e6),
        trans_s: transacts.then_some(value),
        p50_us: result.latency_us.map(|l| l.p50),
        p99_us: result.latency_us.and_then(|l| l.p99),
        near_cpu_us: sum(&|t| t.cpu.user_ns + t.cpu.sys_ns) / 1e3 / units,
        far_cpu_us: nets.iter().map(far_ns).sum::<u64>() as f64 / 1e3 / units,
        service_demand_us: busy_ns(&trials).map(|ns| ns / 1e3 / units),
        sent: nets.iter().map(|n| n.sent).sum(),
        lost: nets.iter().map(|n| n.lost).sum(),
        ceiling_percent: ceiling.map(|most| 100.0 * rate / most),
    })
}

/// All CPUs of this machine in the turns; `None` where a trial does not tell.
pub fn busy_ns(trials: &[&Trial]) -> Option<f64> {
    let busy = |t: &&Trial| Some(t.busy_ns? as f64);
    trials.iter().map(busy).sum()
}
