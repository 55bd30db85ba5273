//! fio's options, engines and operations, and what each becomes here.

/// What an option becomes.
#[derive(Clone, Copy, PartialEq)]
pub enum Becomes {
    /// Parameters: it is read below.
    Ours,
    /// Nothing, for a reason.
    Other(&'static str),
    /// An error, because it makes another kind of work.
    Refused(&'static str),
}

use Becomes::{Other, Ours, Refused};

const PLACE: Becomes = Other("--dir and -l say where");
const OUTPUT: Becomes = Other("-o and --json say what is written");
const LENGTH: Becomes = Other("--budget and --precision say how long it is measured");

/// fio's options (HOWTO, "Job file parameters"). One that is not here is named as unknown.
pub const OPTIONS: &[(&str, Becomes)] = &[
    ("rw", Ours),
    ("readwrite", Ours),
    ("bs", Ours),
    ("blocksize", Ours),
    ("size", Ours),
    ("filesize", Ours),
    ("ioengine", Ours),
    ("iodepth", Ours),
    ("direct", Ours),
    ("buffered", Ours),
    ("numjobs", Ours),
    ("fsync", Ours),
    ("fdatasync", Ours),
    ("end_fsync", Ours),
    ("fsync_on_close", Ours),
    ("sync", Ours),
    ("rwmixread", Ours),
    ("rwmixwrite", Ours),
    ("percentage_random", Ours),
    ("rate_iops", Ours),
    ("thinktime", Ours),
    ("thinktime_blocks", Ours),
    ("loops", Ours),
    ("invalidate", Ours),
    ("fadvise_hint", Ours),
    ("zero_buffers", Ours),
    ("verify", Ours),
    ("stonewall", Ours),
    ("wait_for_previous", Ours),
    (
        "group_reporting",
        Other("threads of a point are always added up"),
    ),
    ("new_group", Other("threads of a point are always added up")),
    ("thread", Other("threads are always threads")),
    ("name", Ours),
    ("description", Other("it has no effect")),
    ("directory", PLACE),
    ("filename", PLACE),
    ("filename_format", PLACE),
    ("opendir", PLACE),
    (
        "create_on_open",
        Other("files are made before the clock starts"),
    ),
    ("unlink", Other("files are always removed at the end")),
    (
        "overwrite",
        Other("`rewrite` of `file` overwrites, `write` makes a new file"),
    ),
    (
        "fallocate",
        Other("files are written, and not only allocated"),
    ),
    ("runtime", LENGTH),
    ("timeout", LENGTH),
    ("time_based", LENGTH),
    ("ramp_time", Other("turns have a lead-in of their own")),
    ("startdelay", Other("jobs are measured one at a time")),
    ("wait_for", Other("jobs are measured one at a time")),
    ("randseed", Other("--seed has the same effect")),
    (
        "randrepeat",
        Other("offsets are the same in every layer; --seed changes them"),
    ),
    (
        "norandommap",
        Other("`file` covers each record once, `iops` draws for each I/O"),
    ),
    (
        "refill_buffers",
        Other("data is random and differs in each block; --pattern changes it"),
    ),
    (
        "scramble_buffers",
        Other("data is random and differs in each block; --pattern changes it"),
    ),
    (
        "gtod_reduce",
        Other("--latency false leaves the clock out of the loop"),
    ),
    (
        "disable_lat",
        Other("--latency false leaves the clock out of the loop"),
    ),
    (
        "disable_clat",
        Other("--latency false leaves the clock out of the loop"),
    ),
    (
        "disable_slat",
        Other("--latency false leaves the clock out of the loop"),
    ),
    ("lat_percentiles", OUTPUT),
    ("clat_percentiles", OUTPUT),
    ("percentile_list", OUTPUT),
    ("output", OUTPUT),
    ("output-format", OUTPUT),
    ("minimal", OUTPUT),
    ("eta", OUTPUT),
    ("status-interval", OUTPUT),
    ("write_lat_log", OUTPUT),
    ("write_bw_log", OUTPUT),
    ("write_iops_log", OUTPUT),
    ("log_avg_msec", OUTPUT),
    (
        "bsrange",
        Refused("record sizes are drawn from a range: a point here has one size"),
    ),
    (
        "blocksize_range",
        Refused("record sizes are drawn from a range: a point here has one size"),
    ),
    (
        "bssplit",
        Refused(
            "records of several sizes: write it as `iops --spec '4K random @60%; 64K random @40%'`",
        ),
    ),
    (
        "nrfiles",
        Refused("it works on several files at once: here each thread has one"),
    ),
    ("read_iolog", Refused("it replays a recording")),
    ("zonemode", Refused("it works in zones")),
    (
        "include",
        Refused("another file is part of it: write its lines into this one"),
    ),
];

/// fio's engines, and ours. With `libaio` and its kin only the queue is the same.
pub const ENGINES: &[(&str, &str, bool)] = &[
    ("psync", "pread", false),
    ("sync", "sync", false),
    ("pvsync", "preadv", false),
    ("pvsync2", "preadv", false),
    ("mmap", "mmap", false),
    ("io_uring", "uring", true),
    ("libaio", "uring", true),
    ("posixaio", "uring", true),
];

/// Values of `rw`: percentage of reads, and whether offsets are random. `None`: of `rwmixread`.
pub const PATTERNS: &[(&str, Option<u64>, bool)] = &[
    ("read", Some(100), false),
    ("write", Some(0), false),
    ("randread", Some(100), true),
    ("randwrite", Some(0), true),
    ("rw", None, false),
    ("readwrite", None, false),
    ("randrw", None, true),
];
