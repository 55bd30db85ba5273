//! What made-up points mean: as their workloads would say it, of the few parameters they have.

use layermark_model::{CacheState, Direction, Meaning, Quantity, Target, Unit, format_size};

use super::shapes::SampleWork;

/// Of a point of `file` or `meta`. `file_size` and the record are 0 where there are none.
pub fn of(work: &SampleWork, file_size: u64, engine: &str) -> Meaning {
    let (writes, reads) = (work.op.contains("write"), work.op.contains("read"));
    let cache = match work.cache {
        "cold" => Some(CacheState::Cold),
        "warm" => Some(CacheState::Warm),
        _ => None,
    };
    let makes = matches!(work.op, "write" | "small-write");
    let size = |bytes: u64, what: &str| match bytes {
        0 => String::new(),
        _ => format!("{} {what}", format_size(bytes)),
    };
    let said = Meaning {
        operation: work.op.into(),
        target: match work.op {
            "first-write" => Target::PackagedFile,
            _ if writes || reads => Target::Data,
            _ => Target::Names,
        },
        direction: match (reads, writes) {
            (_, true) => Direction::Writes,
            (true, _) => Direction::Reads,
            _ => Direction::Neither,
        },
        changes: writes,
        in_order: work.op == "read",
        unit: match (work.workload, work.op) {
            ("file", op) if op != "first-write" => Unit::Byte,
            _ => Unit::Operation,
        },
        flushes: work.sync != "none",
        sync: (writes && work.workload == "file").then(|| work.sync.into()),
        cache: cache.filter(|_| !makes),
        engine: Some(engine.into()),
        ..Meaning::default()
    };
    said.axis(Quantity::DataSize, "file_size", file_size)
        .axis(Quantity::RequestSize, "record", work.record)
        .axis(Quantity::Threads, "threads", 1)
        .part("op", work.op)
        .part("file_size", size(file_size, "file"))
        .part("record", size(work.record, "records"))
        .part_if(!writes, "cache", cache.map_or("", CacheState::word))
        .part_if(work.sync != "none", "sync", work.sync)
        .part("engine", engine)
}
