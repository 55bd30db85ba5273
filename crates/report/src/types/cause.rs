//! Why a layer is faster or slower than native, and why a number is not trusted.

use super::ServedBy;

/// A cause of a difference from native, with its figures. `analysis/causes.rs` decides which there
/// are and writes their sentences.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// A lower file is copied before it is changed.
    CopyUp,
    /// The data lies on a server; holds the mount's file system and source.
    NetworkFileSystem {
        /// Such as `nfs4` or `fuse.sshfs`.
        fs: String,
        /// Such as `box:/srv`.
        source: String,
    },
    /// Kernel threads that carried out requests which `io_uring` could not start without waiting.
    KernelWorkers(u64),
    /// The guest's instructions are run by a program.
    EmulatedCpu,
    /// Each call goes through a program in user space.
    UserSpace,
    /// Microseconds of CPU that the layer's program uses for an operation.
    HelperCpu(f64),
    /// Its data lies in memory.
    Memory,
    /// Flushes did not reach the device.
    SkippedFlush {
        /// Flushes that the device counted.
        flushes: u64,
        /// Flushes that the application asked for; 0 for a program, whose own are not counted.
        syncs: u64,
        /// Of a program: flushes that the device counted natively.
        natively: Option<u64>,
    },
    /// Flushes are too fast to have reached the device; holds how fast.
    SuspectedFlush(String),
    /// What the layer compresses with.
    Compression(String),
    /// The data lies on other devices.
    OtherDevice(Sides<Vec<String>>),
    /// The data came from another place.
    OtherSource(Sides<ServedBy>),
    /// Another file system, and nothing else in the data.
    OtherFileSystem(Sides<String>),
    /// Bytes left to write when the clock stopped.
    WriteBackDebt(Sides<f64>),
    /// Bytes written to the device for each byte of the application.
    WriteAmplification(Sides<f64>),
    /// Flushes of the device for each flush of the application.
    FlushesPerSync(Sides<f64>),
    /// Nothing in the data explains it.
    Unexplained,
}

/// The same of the layer and of native.
#[derive(Debug, Clone, PartialEq)]
pub struct Sides<T> {
    /// In the layer.
    pub here: T,
    /// Natively.
    pub native: T,
}

impl Cause {
    /// Whether both say the same but for figures, which differ from result to result.
    pub fn is_like(&self, other: &Self) -> bool {
        match self {
            Self::HelperCpu(_)
            | Self::KernelWorkers(_)
            | Self::SkippedFlush { .. }
            | Self::SuspectedFlush(_)
            | Self::WriteBackDebt(_)
            | Self::WriteAmplification(_)
            | Self::FlushesPerSync(_) => {
                std::mem::discriminant(self) == std::mem::discriminant(other)
            }
            _ => self == other,
        }
    }
}

/// Why a number is real but not what it claims to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// After a trial the layer was no longer there.
    LayerLost,
    /// Records that were not what had been written.
    WrongData(u64),
    /// Nothing says where it ran.
    UnknownPlace,
    /// The cache was not as asked in most trials.
    Cache(InTrials),
    /// Nothing proves for most trials that the cache was cold.
    CacheUnproved(InTrials),
    /// `O_DIRECT` had no effect in most trials.
    DirectIgnored(InTrials),
    /// The programs of users' scripts were not the same in all trials.
    UnlikePrograms,
    /// Native skips flushes and the layer does not.
    BaselineSkipsFlush,
}

/// Trials that carry a remark, of all trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InTrials {
    /// With the remark.
    pub with: usize,
    /// All of them.
    pub all: usize,
}
