//! Causes of being faster or slower than the baseline, and reasons not to trust a number.

use std::path::PathBuf;

use layermark_model::Limit;

use super::ServedBy;

/// A cause of a difference from the baseline, with its figures. `facts/causes.rs` finds the causes.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// A lower file is copied before it is changed.
    CopyUp,
    /// The data is on a server; holds the mount's file system and source.
    NetworkFileSystem {
        /// File system, such as `nfs4` or `fuse.sshfs`.
        fs: String,
        /// Source, such as `box:/srv`.
        source: String,
    },
    /// Kernel threads that carried out requests of `io_uring` which would have blocked.
    KernelWorkers(u64),
    /// The guest's instructions are emulated.
    EmulatedCpu,
    /// Each call goes through a program in user space.
    UserSpace,
    /// CPU time of the layer's program per operation, microseconds.
    HelperCpu(f64),
    /// Seccomp filters that each system call passes.
    SeccompFilters(Sides<u32>),
    /// A CPU quota that stopped its program, and how often.
    CpuLimit(Limit, u64),
    /// A setting of what lies below.
    Setting(Setting),
    /// Its data is in memory.
    Memory,
    /// Flushes did not reach the device.
    SkippedFlush {
        /// Flushes that the device counted.
        flushes: u64,
        /// Flushes that the application requested; 0 for a program, whose own are not counted.
        syncs: u64,
        /// For a program: flushes that the device counted in the baseline.
        natively: Option<u64>,
    },
    /// Flushes come after the answer.
    LateFlush,
    /// Flushes are too fast to have reached the device; holds how fast.
    SuspectedFlush(String),
    /// The compression method.
    Compression(String),
    /// The data is on other devices.
    OtherDevice(Sides<Vec<String>>),
    /// The data came from another place.
    OtherSource(Sides<ServedBy>),
    /// Another file system, without another cause in the data.
    OtherFileSystem(Sides<String>),
    /// Microseconds an operation for writing what was left when the clock stopped.
    WriteBackDebt(Sides<f64>),
    /// Bytes written to the device per byte of the application.
    WriteAmplification(Sides<f64>),
    /// Flushes of the device per flush of the application.
    FlushesPerSync(Sides<f64>),
    /// Microseconds of an operation, and those of them that wait for a CPU, on a busy machine.
    WaitsForCpu {
        /// All of it.
        whole_us: f64,
        /// What waits.
        waits_us: f64,
    },
    /// What makes the baseline slow, and not the layer.
    OfBaseline(Box<Cause>),
    /// Nothing in the data explains it, and it is too small to count: holds the least share of the baseline's
    /// time that does.
    Small(f64),
    /// Nothing in the data explains it.
    Unexplained,
}

/// Which mount of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountPlace {
    /// The one that the probe worked on.
    Own,
    /// One below it.
    Below(PathBuf),
}

/// A setting that costs something, of what lies below a layer.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// A mount option, and which mount has it.
    MountOption(&'static str, MountPlace),
    /// How far the kernel reads ahead, KiB.
    ReadAhead(Sides<u64>),
    /// The method by which what is read is compressed.
    Decompresses(String),
    /// The method by which what is written is compressed.
    Compresses(String),
    /// What encrypts the data.
    Encrypts(String),
}

/// Bytes that devices wrote per byte of the application, over trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WrittenBytes {
    /// Median.
    pub typical: f64,
    /// Lower and upper quartile. A burst of other programs is in a few trials.
    pub quartiles: [f64; 2],
}

/// A value of the layer and of the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sides<T> {
    /// In the layer.
    pub here: T,
    /// In the baseline.
    pub native: T,
}

impl Cause {
    /// Adds the flushes that another result counted. Other figures stay.
    pub fn count(&mut self, more: &Self) {
        if let (
            Self::SkippedFlush {
                flushes,
                syncs,
                natively,
            },
            Self::SkippedFlush {
                flushes: others,
                syncs: asked,
                natively: reference,
            },
        ) = (self, more)
        {
            *flushes += others;
            *syncs += asked;
            *natively = natively.zip(*reference).map(|(a, b)| a + b);
        }
    }

    /// Whether both are the same cause, apart from figures, which differ between results.
    pub fn is_like(&self, other: &Self) -> bool {
        match self {
            Self::HelperCpu(_)
            | Self::CpuLimit(..)
            | Self::KernelWorkers(_)
            | Self::SkippedFlush { .. }
            | Self::SuspectedFlush(_)
            | Self::WriteBackDebt(_)
            | Self::WriteAmplification(_)
            | Self::FlushesPerSync(_)
            | Self::WaitsForCpu { .. } => {
                std::mem::discriminant(self) == std::mem::discriminant(other)
            }
            _ => self == other,
        }
    }
}

/// Why nothing proves where data came from, in the order in which a sentence lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unproved {
    /// No counter below the layer counts reads.
    NothingCounts,
    /// Other programs may have read from the device.
    Others,
    /// The kernel's caches of names could not be emptied.
    NamesStayed,
    /// A program or another machine may have answered from its memory.
    Served,
    /// The same as `NamesStayed`, because the run had no privilege.
    WithoutRoot,
}

/// Why a number is real but does not show what it claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distrust {
    /// After a trial the layer was gone.
    LayerLost,
    /// Records that differed from what was written.
    WrongData(u64),
    /// It is unknown where the probe ran.
    UnknownPlace,
    /// The cache was not in the requested state in most trials.
    Cache(InTrials),
    /// In most trials nothing proves that the cache was cold; holds why.
    CacheUnproved(InTrials, Unproved),
    /// `O_DIRECT` had no effect in most trials.
    DirectIgnored(InTrials),
    /// The programs of user scripts differed between trials: a list of them.
    UnlikePrograms(String),
    /// The baseline skips flushes and the layer does not.
    BaselineSkipsFlush,
    /// Why the baseline's number is not trusted.
    OfBaseline(Box<Distrust>),
}

impl Distrust {
    /// The reason, whichever side it is about.
    pub fn reason(&self) -> &Self {
        match self {
            Self::OfBaseline(why) => why.reason(),
            own => own,
        }
    }
}

/// Trials with a remark, of all trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InTrials {
    /// With the remark.
    pub with: usize,
    /// All trials.
    pub all: usize,
}
