//! Figures of the workload `iops` besides ratios: those of Iometer, and the queue depth beyond
//! which throughput hardly grows.
//!
//! A table of figures that the workload declares cannot hold them yet: percentiles have a second
//! table with their intervals, and the knee is found in each block, across several points.

use layermark_model::{Point, Quantity, Run, Trial};

use crate::{
    facts::{index::Index, latency, sweep},
    statements::depth::{Bend, DepthBend},
    types::{DepthCurve, DepthPoint, IopsRow, Knee, LatencyUs, ResultRow},
    words::{NO_NAMES, Words},
};

const MIB: f64 = 1_048_576.0;

/// One row for each result of the workload, in the order of the results.
pub fn rows(run: &Run, index: &Index, results: &[ResultRow]) -> Vec<IopsRow> {
    results
        .iter()
        .filter_map(|result| row(run, index, result))
        .collect()
}

/// Indexes of a result's layer and point in the run, if it counts requests of a queue.
fn place(run: &Run, result: &ResultRow) -> Option<(usize, usize)> {
    let site = run.site(&result.layer, &result.label);
    site.filter(|_| result.meaning.is_of_requests())
}

fn row(run: &Run, index: &Index, result: &ResultRow) -> Option<IopsRow> {
    let (layer, at) = place(run, result)?;
    let (point, iops) = (&run.points[at], result.average_value()?);
    let said = &point.meaning;
    let quantity = |q| said.value(q).unwrap_or(0);
    let records = index.trials(layer, at);
    let trials: Vec<&Trial> = records.iter().filter_map(|r| r.trial.as_ref()).collect();
    let ops: u64 = trials.iter().map(|t| t.ops()).sum();
    let bytes: u64 = trials.iter().map(|t| t.bytes()).sum();
    let per_second = iops * bytes as f64 / (ops as f64).max(1.0);
    let busy: Vec<f64> = trials.iter().filter_map(|t| t.busy).collect();
    let cpu_percent =
        (!busy.is_empty()).then(|| 100.0 * busy.iter().sum::<f64>() / busy.len() as f64);
    let served = records
        .iter()
        .filter_map(|r| Some((r.cell.session, r.trial.as_ref()?.service.as_ref()?)));
    let service = latency::of(served, run.seed);
    let response: LatencyUs = result.latency_us?;
    Some(IopsRow {
        result: result.id.clone(),
        layer: result.layer.clone(),
        label: result.label.clone(),
        what: said.describe(&[Quantity::QueueDepth]),
        spec: point.text("spec").to_owned(),
        engine: said.engine.clone().unwrap_or_default(),
        iodepth: quantity(Quantity::QueueDepth),
        workers: quantity(Quantity::Threads),
        rate: said.value(Quantity::OfferedRate),
        iops,
        mib_s: per_second / MIB,
        mb_s: per_second / 1e6,
        response_ms: response.mean / 1e3,
        response_interval_ms: response.mean_interval.map(span_ms),
        response_max_ms: response.max / 1e3,
        p50_ms: response.p50 / 1e3,
        p50_interval_ms: response.p50_interval.map(span_ms),
        p99_ms: response.p99.map(|us| us / 1e3),
        p99_interval_ms: response.p99_interval.map(span_ms),
        p999_ms: response.p999.map(|us| us / 1e3),
        p999_interval_ms: response.p999_interval.map(span_ms),
        p9999_ms: response.p9999.map(|us| us / 1e3),
        p9999_interval_ms: response.p9999_interval.map(span_ms),
        service_ms: service.map(|s| s.mean / 1e3),
        service_max_ms: service.map(|s| s.max / 1e3),
        cpu_percent,
        iops_per_cpu: cpu_percent.filter(|c| *c > 0.0).map(|c| iops / c),
    })
}

fn span_ms(us: [f64; 2]) -> [f64; 2] {
    us.map(|us| us / 1e3)
}

/// A row with the indexes of its layer and its point in the run.
type Member<'a> = (&'a IopsRow, usize, usize);

/// A curve for each layer and each set of points that differ only in their queue depth, with at
/// least two depths. There is none at a fixed pace, where a deeper queue makes nothing faster.
pub fn curves(
    run: &Run,
    index: &Index,
    rows: &[IopsRow],
    results: &[ResultRow],
) -> Vec<DepthCurve> {
    let mut free: Vec<(&Point, Member)> = Vec::new();
    for row in rows {
        let result = results.iter().find(|r| r.id == row.result);
        let Some((layer, at)) = result.and_then(|r| place(run, r)) else {
            continue;
        };
        let point = &run.points[at];
        if !point.meaning.paced {
            free.push((point, (row, layer, at)));
        }
    }
    let of_layer = |layer: usize| {
        let own = free.iter().filter(move |(_, m)| m.1 == layer).copied();
        sweep::over(own, [Quantity::QueueDepth])
    };
    let sweeps = (0..run.layers.len()).flat_map(of_layer);
    let mut members: Vec<Vec<Member>> = sweeps
        .map(|s| s.steps.into_iter().map(|(_, member)| member).collect())
        .collect();
    members.retain(|m| m.len() > 1);
    members.sort_by_key(|m| m.iter().map(|(_, layer, at)| (*at, *layer)).min());
    members.iter().map(|m| curve(index, m)).collect()
}

fn curve(index: &Index, members: &[Member]) -> DepthCurve {
    let first =
        |of: fn(&IopsRow) -> &String| members.first().map(|m| of(m.0).clone()).unwrap_or_default();
    let (layer, what) = (first(|r| &r.layer), first(|r| &r.what));
    let drawn: Vec<DepthPoint> = members
        .iter()
        .map(|(row, ..)| DepthPoint {
            iodepth: row.iodepth,
            iops: row.iops,
            response_ms: row.response_ms,
            result: row.result.clone(),
        })
        .collect();
    let blocks = by_block(index, members);
    DepthCurve {
        knee: knee(&drawn, &blocks),
        layer,
        what,
        points: drawn,
    }
}

/// For each block in which every depth was measured, the depth with the greatest power.
fn by_block(index: &Index, members: &[Member]) -> Vec<u64> {
    let of_depth: Vec<_> = members
        .iter()
        .map(|(row, layer, at)| (row.iodepth, index.trials(*layer, *at)))
        .collect();
    let Some((_, first)) = of_depth.first() else {
        return Vec::new();
    };
    first
        .iter()
        .filter_map(|record| {
            let mut best: Option<(f64, u64)> = None;
            for (depth, trials) in &of_depth {
                let same = |t: &&&layermark_model::TrialRecord| {
                    (t.cell.session, t.cell.block) == (record.cell.session, record.cell.block)
                };
                let ns = trials.iter().find(same)?.trial.as_ref()?.ns_per_op()?;
                // IOPS over response time, which is the queue's length over IOPS.
                let power = 1.0 / (ns * ns * *depth as f64);
                if best.is_none_or(|(most, _)| power > most) {
                    best = Some((power, *depth));
                }
            }
            best.map(|(_, depth)| depth)
        })
        .collect()
}

/// The knee as defined by Kleinrock: where power, throughput over response time, is greatest. It
/// needs no parameter and no fit. At least three depths.
///
/// Source: "Power and deterministic rules of thumb for probabilistic problems in computer
/// communications", ICC 1979.
fn knee(points: &[DepthPoint], blocks: &[u64]) -> Option<Knee> {
    if points.len() < 3 {
        return None;
    }
    // The response time from the queue's length and throughput (Little's law) is not affected by
    // the few I/Os that took very long.
    let power = |p: &DepthPoint| p.iops * p.iops / p.iodepth as f64;
    let at = (0..points.len()).max_by(|a, b| power(&points[*a]).total_cmp(&power(&points[*b])))?;
    let (knee, last) = (&points[at], points.last()?);
    let agree = blocks.iter().filter(|d| **d == knee.iodepth).count();
    let bend = points.get(at + 1).map_or(Bend::Beyond(last), |next| {
        let at_next = next.iodepth == last.iodepth;
        Bend::At {
            knee,
            is_least: at == 0,
            next,
            last: (!at_next).then_some(last),
        }
    });
    let found = DepthBend {
        bend,
        agree,
        blocks: blocks.len(),
    };
    Some(Knee {
        iodepth: (at + 1 < points.len()).then_some(knee.iodepth),
        agree,
        blocks: blocks.len(),
        text: found.words(&NO_NAMES).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device with `parallel` servers of 100 us each: IOPS grow in proportion up to that depth.
    fn device(parallel: f64, depths: &[u64]) -> Vec<DepthPoint> {
        let point = |depth: &u64| {
            let busy = (*depth as f64).min(parallel);
            let iops = busy * 10_000.0;
            DepthPoint {
                iodepth: *depth,
                iops,
                response_ms: *depth as f64 / iops * 1e3,
                result: String::new(),
            }
        };
        depths.iter().map(point).collect()
    }

    #[test]
    fn the_knee_is_where_the_servers_are_all_busy() {
        let depths = [1, 2, 4, 8, 16, 32];
        let found = knee(&device(8.0, &depths), &[8, 8, 4]).unwrap();
        assert_eq!((found.iodepth, found.agree, found.blocks), (Some(8), 2, 3));
        assert_eq!(
            found.text,
            "the knee is at queue depth 8: at 16 IOPS are 0 % more and a response takes 2.00 times as long; \
             at 32 IOPS are 0 % more and a response takes 4.00 times as long (in 2 of 3 repeats)"
        );
        let none = knee(&device(100.0, &depths), &[32]).unwrap();
        assert_eq!(none.iodepth, None);
        assert!(
            none.text.contains("no knee up to queue depth 32"),
            "{}",
            none.text
        );
        let first = knee(&device(1.0, &depths), &[1]).unwrap();
        assert!(
            first.text.contains("queue depth 1, the least"),
            "{}",
            first.text
        );
        assert_eq!(
            knee(&device(8.0, &[1, 8]), &[8]),
            None,
            "two depths show no bend"
        );
    }
}
