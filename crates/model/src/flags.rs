//! Remarks on trials and results, in the words in which they are stored. The lab writes them and
//! the report looks for them, so they stand here once.

/// Foreign CPU or steal took more than a tenth of the machine.
pub const CONTAMINATED: &str = "contaminated";
/// `cold` was not cold, or `warm` not warm.
pub const CACHE: &str = "cache not as asked";
/// Nothing proves that `cold` was cold.
pub const CACHE_UNPROVED: &str = "cache not proved";
/// A read from memory, or users' scripts, had major page faults: something they need had to be
/// brought back.
pub const MAJOR_FAULTS: &str = "major faults";
/// In more than a fifth of the turns a device wrote what the layer cannot have written.
pub const WRITE_BACK: &str = "write-back of others";
/// After the trial the layer was no longer where it had been: its mount had gone or changed.
pub const LAYER_LOST: &str = "layer lost";
/// The run was cut off in this block, and the block was made again later. Of a trial in a list of trials.
pub const MADE_AGAIN: &str = "made again";
/// The run was cut off in this block, so that the baseline or all other layers lack a trial. Of a trial in a
/// list of trials.
pub const CUT_OFF: &str = "block cut off";
/// `O_DIRECT` was accepted, and the data came from a cache all the same.
pub const DIRECT_IGNORED: &str = "O_DIRECT ignored";
/// A record was not what had been written.
pub const VERIFY: &str = "verify failed";
/// The ratio changed late in the run, so no single number describes it. Of a result, not a trial.
pub const UNSTEADY: &str = "no steady state";
/// A few operations take so long that the average is not the typical time. Of a result, not a trial.
pub const STALLS: &str = "stalls";
/// The probe's instructions were emulated. Of a result, not a trial.
pub const EMULATED_CPU: &str = "emulated CPU";
