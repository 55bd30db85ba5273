//! Costs of the invented layers and operations.

/// Effect of an invented layer on an operation.
pub struct Shape {
    pub name: &'static str,
    pub fs: &'static str,
    /// Additional time of each call, microseconds, and a factor of its time.
    pub extra_us: f64,
    pub factor: f64,
    /// Time to copy a packaged file before it is changed, microseconds.
    pub copy_up_us: f64,
    pub honest: bool,
    pub memory: bool,
    pub fails: bool,
}

pub const PLAIN: Shape = Shape {
    name: "native",
    fs: "ext4",
    extra_us: 0.0,
    factor: 1.0,
    copy_up_us: 0.0,
    honest: true,
    memory: false,
    fails: false,
};
pub const SHAPES: &[Shape] = &[
    PLAIN,
    Shape {
        name: "overlay:upper",
        fs: "overlay",
        copy_up_us: 41_000.0,
        ..PLAIN
    },
    Shape {
        name: "overlay:volatile",
        fs: "overlay",
        copy_up_us: 38_000.0,
        honest: false,
        ..PLAIN
    },
    Shape {
        name: "fuse",
        fs: "fuse.layermark",
        extra_us: 12.0,
        factor: 1.02,
        ..PLAIN
    },
    Shape {
        name: "loop:xfs",
        fs: "xfs",
        extra_us: 1.2,
        factor: 1.18,
        ..PLAIN
    },
    Shape {
        name: "tmpfs",
        fs: "tmpfs",
        factor: 0.8,
        memory: true,
        ..PLAIN
    },
    Shape {
        name: "image:erofs",
        fs: "erofs",
        fails: true,
        ..PLAIN
    },
];

/// Native cost of an invented point.
pub struct SampleWork {
    pub label: &'static str,
    pub workload: &'static str,
    pub op: &'static str,
    pub record: u64,
    pub cache: &'static str,
    pub sync: &'static str,
    /// Time of an operation, microseconds, and operations per trial.
    pub us: f64,
    pub ops: u64,
}

pub const NONE: SampleWork = SampleWork {
    label: "",
    workload: "file",
    op: "read",
    record: 0,
    cache: "",
    sync: "none",
    us: 1.0,
    ops: 200,
};
pub const WORKS: &[SampleWork] = &[
    SampleWork {
        label: "open and stat",
        workload: "meta",
        op: "open-stat",
        cache: "warm",
        us: 1.9,
        ops: 2_000,
        ..NONE
    },
    SampleWork {
        label: "small read, cold",
        workload: "meta",
        op: "small-read",
        cache: "cold",
        us: 95.0,
        ..NONE
    },
    SampleWork {
        label: "large read, warm",
        record: 1 << 20,
        cache: "warm",
        us: 110.0,
        ops: 500,
        ..NONE
    },
    SampleWork {
        label: "read 4K",
        record: 4 << 10,
        cache: "warm",
        us: 1.1,
        ops: 4_000,
        ..NONE
    },
    SampleWork {
        label: "read 64K",
        record: 64 << 10,
        cache: "warm",
        us: 7.6,
        ops: 2_000,
        ..NONE
    },
    SampleWork {
        label: "small write",
        workload: "meta",
        op: "small-write",
        us: 14.0,
        ops: 1_000,
        ..NONE
    },
    SampleWork {
        label: "large write",
        op: "write",
        record: 1 << 20,
        us: 190.0,
        ..NONE
    },
    SampleWork {
        label: "random write, fsync each",
        op: "rand-write",
        record: 4 << 10,
        sync: "each",
        us: 310.0,
        ..NONE
    },
    SampleWork {
        label: "first write to a packaged file",
        op: "first-write",
        record: 4 << 10,
        us: 48.0,
        ops: 20,
        ..NONE
    },
];
