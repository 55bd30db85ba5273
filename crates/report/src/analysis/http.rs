//! What requests to a web server tell beside a ratio: the figures of ab.

use hdrhistogram::Histogram;
use layermark_model::{HttpTrial, Run, Trial};

use crate::{
    analysis::{index::Index, latency::Histograms},
    types::{HttpPercentile, HttpRow, ResultRow},
};

/// Those of ab.
const PERCENTS: [u32; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// One row for each result whose trials asked a web server, in the order of the results.
pub fn rows(run: &Run, index: &Index, results: &[ResultRow]) -> Vec<HttpRow> {
    results
        .iter()
        .filter_map(|result| row(run, index, result))
        .collect()
}

fn row(run: &Run, index: &Index, result: &ResultRow) -> Option<HttpRow> {
    let value = result.value?;
    let (layer, at) = run.site(&result.layer, &result.label)?;
    let records = index.trials(layer, at);
    let trials = records.iter().filter_map(|r| r.trial.as_ref());
    let trials: Vec<&Trial> = trials.filter(|t| t.http.is_some()).collect();
    let https: Vec<&HttpTrial> = trials.iter().filter_map(|t| t.http.as_deref()).collect();
    let last = *https.last()?;
    let sum = |of: &dyn Fn(&Trial) -> u64| trials.iter().map(|t| of(t)).sum::<u64>();
    let requests = sum(&Trial::ops);
    let seconds = (sum(&Trial::elapsed_ns) as f64 / 1e9).max(1e-9);
    let done_s = requests as f64 / seconds;
    // At a rate the result is a time, and the rate is what was answered.
    let requests_s = if last.rate > 0 { done_s } else { value };
    let each = |ns: f64| ns / 1e3 / (requests as f64).max(1.0);
    let far_ns: Option<u64> = https.iter().map(|h| h.far_cpu_ns).sum();
    let ceilings: Vec<f64> = https.iter().filter_map(|h| h.ceiling).collect();
    let ceiling = layermark_stats::median(&ceilings);
    Some(HttpRow {
        result: result.id.clone(),
        layer: result.layer.clone(),
        label: result.label.clone(),
        what: result.meaning.describe(&[]),
        server: last.server.clone(),
        requests,
        concurrency: last.concurrency,
        requests_s,
        rate: (last.rate > 0).then_some(last.rate),
        unsent: https.iter().map(|h| h.unsent).sum(),
        request_us: result.latency_us.map(|l| l.mean),
        across_us: 1e6 / requests_s,
        body_bytes_s: sum(&Trial::bytes) as f64 / seconds,
        percentiles: percentiles(&trials),
        connections: https.iter().map(|h| h.connections).sum(),
        checked: https.iter().all(|h| h.checked),
        near_cpu_us: each(sum(&|t| t.cpu.user_ns + t.cpu.sys_ns) as f64),
        far_cpu_us: far_ns.map(|ns| each(ns as f64)),
        host_cpu_us: busy_ns(&trials).map(each),
        one_host: last.one_host,
        ceiling_percent: ceiling.map(|most| 100.0 * done_s / most),
    })
}

/// Of all requests of all trials together.
fn percentiles(trials: &[&Trial]) -> Vec<HttpPercentile> {
    let mut histograms = Histograms::default();
    let mut all: Option<Histogram<u64>> = None;
    for latency in trials.iter().filter_map(|t| t.latency.as_ref()) {
        let Some(one) = histograms.read(latency) else {
            continue;
        };
        match &mut all {
            // All probes have the same bounds.
            Some(all) => drop(all.add(one)),
            None => all = Some(one),
        }
    }
    let at = |all: &Histogram<u64>| {
        PERCENTS.map(|percent| HttpPercentile {
            percent,
            us: all.value_at_quantile(f64::from(percent) / 100.0) as f64 / 1e3,
        })
    };
    all.as_ref().map_or_else(Vec::new, |all| at(all).to_vec())
}

/// All CPUs of this machine in the turns; `None` where a trial does not tell.
fn busy_ns(trials: &[&Trial]) -> Option<f64> {
    let busy = |t: &&Trial| Some(t.busy_ns? as f64);
    trials.iter().map(busy).sum()
}
