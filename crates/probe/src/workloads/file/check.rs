//! Checks that the ranges of the parameters' table cannot express.

use layermark_model::{PointError, format_size};

use super::params::{Cache, FileParams, Op, Sync};
use crate::{data::HEADER, engines, limits};

fn error(p: &FileParams, name: &str, value: &str, must: &str) -> PointError {
    PointError::of_operation("file", p.op.id(), name, format!(" = {value}: {must}"))
}

/// Checks parameters that depend on each other, when a plan is read and again in the probe.
pub fn check(p: &FileParams) -> Result<(), PointError> {
    let size = |name, bytes, must: &str| Err(error(p, name, &format_size(bytes), must));
    if p.record > p.file_size {
        let must = format!(
            "a record cannot be larger than its file ({})",
            format_size(p.file_size)
        );
        return size("record", p.record, &must)
            .map_err(|e| e.hint("make `record` smaller or `file_size` larger"));
    }
    check_depth(p)?;
    let under_way = p.files_in_all().saturating_mul(p.iodepth);
    if p.unit().saturating_mul(under_way) > limits::BUFFERS {
        let must = "up to 1G for all threads together, with all operations in flight";
        return size("record", p.record, must)
            .map_err(|e| e.hint("use a smaller `record`, `iodepth` or fewer `threads`"));
    }
    check_mixed(p)?;
    check_own(p)
}

/// Checks that the engine and the operation can have several operations in flight.
fn check_depth(p: &FileParams) -> Result<(), PointError> {
    let wrong = |must: &str| Err(error(p, "iodepth", &p.iodepth.to_string(), must));
    if p.iodepth == 1 {
        return Ok(());
    }
    if !engines::find(&p.engine).is_some_and(engines::Engine::queues) {
        let must = format!("engine {} has one operation in flight at a time", p.engine);
        return wrong(&must).map_err(|e| e.hint("use engine uring, or `threads`"));
    }
    if matches!(p.sync, Sync::Each | Sync::EachData) || p.op == Op::FirstWrite {
        return wrong(
            "a flush after every record, or a single write, leaves one operation in flight",
        );
    }
    if p.verify {
        return wrong("`verify` checks each record between two operations")
            .map_err(|e| e.hint("verify at iodepth 1"));
    }
    Ok(())
}

/// Checks parameters of a single operation.
fn check_own(p: &FileParams) -> Result<(), PointError> {
    let number = |name, value: u64, must: &str| error(p, name, &value.to_string(), must);
    if p.fill_record > p.file_size.min(limits::RECORD) {
        let must = "a file is made with records of up to its own size and 256M";
        return Err(error(p, "fill_record", &format_size(p.fill_record), must));
    }
    let calls = if p.engine == "preadv" {
        1..=p.file_size / p.record
    } else {
        0..=0
    };
    if !calls.contains(&p.vectors) {
        let must = "up to as many records as the file has, and only with engine preadv";
        return Err(number("vectors", p.vectors, must));
    }
    match p.op {
        Op::SeekRead if !p.distance.is_multiple_of(p.unit()) || p.distance == 0 => {
            let unit = format_size(p.unit());
            let must = format!("a whole number of operations of {unit}, at least 1");
            return Err(error(p, "distance", &format_size(p.distance), &must)
                .hint(format!("use a multiple of {unit}, or a smaller `record`")));
        }
        Op::SeekRead if p.distance > p.file_size / 2 => {
            let half = format_size(p.file_size / 2);
            return Err(error(
                p,
                "distance",
                &format_size(p.distance),
                &format!(
                    "up to half of the file ({half}): consecutive reads go to different records"
                ),
            )
            .hint("use a larger `file_size` or a smaller `distance`"));
        }
        Op::Mix if p.threads < 2 => {
            return Err(
                number("threads", p.threads, "a mix needs at least 2 threads")
                    .hint("add threads = 2, or use rand-read and rand-write"),
            );
        }
        Op::Mix if p.writers() == 0 || p.writers() == p.threads => {
            return Err(number(
                "read_share",
                p.read_share,
                "some of the threads have to read and some to write",
            )
            .hint("use a share between 1 and 99 percent, or more threads"));
        }
        _ => {}
    }
    check_engine(p)
}

/// Checks the limits of an engine.
fn check_engine(p: &FileParams) -> Result<(), PointError> {
    let cannot = |why: &str, hint: &str| Err(error(p, "engine", &p.engine, why).hint(hint));
    let (stdio, mmap) = (p.engine == "stdio", p.engine == "mmap");
    if p.direct && (stdio || mmap) {
        let why = if stdio {
            "its buffer is not aligned for O_DIRECT"
        } else {
            "a mapping is the page cache, which O_DIRECT bypasses"
        };
        return cannot(
            why,
            "leave `direct` out, or use engine pread, sync or preadv",
        );
    }
    if mmap && p.op == Op::Append {
        return cannot(
            "a mapping does not grow with what is written",
            "use engine pread, sync, preadv or stdio",
        );
    }
    if mmap && p.sync == Sync::EachData {
        return cannot(
            "an msync flushes what an fsync does",
            "use sync = each, which is an msync of each record",
        );
    }
    if mmap && matches!(p.sync, Sync::Osync | Sync::Odsync) {
        return cannot(
            "O_SYNC and O_DSYNC do not apply to writes through a mapping",
            "use sync = each, which is an msync of each record, or fsync",
        );
    }
    if p.op == Op::FirstWrite && !matches!(p.engine.as_str(), "pread" | "sync") {
        return cannot(
            "a first write is one open(2) and one pwrite(2)",
            "use engine pread",
        );
    }
    Ok(())
}

/// Checks parameters that cannot be combined.
fn check_mixed(p: &FileParams) -> Result<(), PointError> {
    let record = format_size(p.record);
    if p.direct && !p.record.is_multiple_of(512) {
        return Err(error(
            p,
            "record",
            &record,
            "O_DIRECT needs a multiple of the device's block",
        )
        .hint("use a multiple of 4K, or 512 where the device takes it"));
    }
    if p.verify && p.record < HEADER as u64 {
        return Err(error(
            p,
            "record",
            &record,
            "`verify` needs at least 32 bytes for its header",
        ));
    }
    let null = engines::find(&p.engine).is_some_and(|e| !e.needs_file());
    if null && (p.verify || p.direct || p.op == Op::FirstWrite || p.cache == Cache::Cold) {
        return Err(error(
            p,
            "engine",
            &p.engine,
            "it touches no file, so there is nothing to verify, open or drop from a cache",
        )
        .hint("use engine pread or sync"));
    }
    if engines::find(&p.engine).is_none() {
        return Err(error(p, "engine", &p.engine, "no such engine"));
    }
    let once = p.once();
    let in_order = once && p.op.packaged() && p.op != Op::RandRead;
    if p.files > 1 && (!in_order || p.threads > 1) {
        let must = "1, or up to 256 for one thread that writes for the first time, or reads in order with a cold cache";
        return Err(error(p, "files", &p.files.to_string(), must).hint("leave `files` out"));
    }
    if once && p.passes > 1 {
        return Err(error(
            p,
            "passes",
            &p.passes.to_string(),
            "a cold point or a first write is made in one pass",
        )
        .hint(
            "leave `passes` out: a second pass would be warm, and the lab repeats trials anyway",
        ));
    }
    Ok(())
}
