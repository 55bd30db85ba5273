//! CPU time of the engines `stdio` and `mmap`, compared with equivalent C loops.

use std::path::Path;

use anyhow::Result;
use layermark_stats::Pair;

use crate::{
    overhead::{build_bare, cpu_per_op, pin, ratio, run_bare, start},
    results::Claim,
};

const ROUNDS: u32 = 25;

/// CPU time per operation, ns, in turn, by round.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    pin()?;
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in("/dev/shm")?;
    let bare = build_bare(dir.path())?;
    let mut claims = Vec::new();
    for engine in ["stdio", "mmap"] {
        for record in [4096, 65536] {
            let mut probe = start(binary, dir.path(), record, engine)?;
            let file = probe.file.clone();
            let mut pairs = Vec::new();
            for block in 0..ROUNDS {
                // The order alternates, so that a drift of the machine's clock favours neither.
                let (native, layer) = if block % 2 == 0 {
                    let c = run_bare(&bare, &file, record, Some(engine))?;
                    (c, cpu_per_op(&probe.trial()?))
                } else {
                    let us = cpu_per_op(&probe.trial()?);
                    (run_bare(&bare, &file, record, Some(engine))?, us)
                };
                pairs.push(Pair::new((0, block), layer, native));
            }
            let (value, interval) = ratio(&pairs)?;
            claims.push(Claim {
                what: format!("CPU of a recorded {engine} read of {record} B / the same loop in C"),
                value,
                interval,
                at_most: Some(1.05),
            });
        }
    }
    Ok(claims)
}
