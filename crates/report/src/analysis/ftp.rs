//! What transfers over FTP tell beside a ratio: their phases, and CPU at both ends.

use layermark_model::{FtpTrial, Quantity, Run, Trial};
use layermark_stats::median;

use crate::{
    analysis::index::Index,
    types::{FtpRow, ResultRow},
};

/// Bytes of a KB, as netperf counts them.
const KB: f64 = 1024.0;

/// One row for each result of the workload, in the order of the results.
pub fn rows(run: &Run, index: &Index, results: &[ResultRow]) -> Vec<FtpRow> {
    results
        .iter()
        .filter_map(|result| row(run, index, result))
        .collect()
}

fn row(run: &Run, index: &Index, result: &ResultRow) -> Option<FtpRow> {
    let (layer, at) = run.site(&result.layer, &result.label)?;
    let records = index.trials(layer, at);
    let trials = records.iter().filter_map(|r| r.trial.as_ref());
    let trials: Vec<&Trial> = trials.filter(|t| t.ftp.is_some()).collect();
    let each: Vec<&FtpTrial> = trials.iter().filter_map(|t| t.ftp.as_deref()).collect();
    let said = &result.meaning;
    let kb = trials.iter().map(|t| t.bytes()).sum::<u64>() as f64 / KB;
    let near_ns = trials.iter().map(|t| t.cpu.user_ns + t.cpu.sys_ns);
    let far_ns = each.iter().map(|f| f.far_cpu_ns);
    let us = |part: fn(&FtpTrial) -> u64| {
        let all: Vec<f64> = each.iter().map(|f| part(f) as f64 / 1e3).collect();
        median(&all).unwrap_or_default()
    };
    let ceilings: Vec<f64> = each
        .iter()
        .filter_map(|f| f.ceiling.map(|c| c as f64))
        .collect();
    let value = result.value?;
    Some(FtpRow {
        result: result.id.clone(),
        layer: result.layer.clone(),
        label: result.label.clone(),
        what: said.describe(&[Quantity::DataSize]),
        file_size: said.value(Quantity::DataSize)?,
        clients: said.value(Quantity::Threads)?,
        server: each.last()?.server.clone(),
        mib_s: value / f64::from(1 << 20),
        p50_us: result.latency_us.map(|l| l.p50),
        p99_us: result.latency_us.and_then(|l| l.p99),
        connect_us: us(|f| f.connect_ns),
        login_us: us(|f| f.login_ns),
        passive_us: us(|f| f.passive_ns),
        first_byte_us: us(|f| f.first_byte_ns),
        data_us: us(|f| f.data_ns),
        complete_us: us(|f| f.complete_ns),
        near_cpu_us: near_ns.sum::<u64>() as f64 / 1e3 / kb,
        far_cpu_us: far_ns.sum::<u64>() as f64 / 1e3 / kb,
        ceiling_percent: median(&ceilings).map(|most| 100.0 * value / most),
    })
}
