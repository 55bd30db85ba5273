//! Remarks on trials and results, as they are stored. The lab writes them and the report looks for
//! them, so they are defined here once.

/// Foreign CPU or steal took more than a tenth of the machine.
pub const CONTAMINATED: &str = "contaminated";
/// `cold` was not cold, or `warm` not warm.
pub const CACHE: &str = "cache not as asked";
/// Nothing proves that `cold` was cold.
pub const CACHE_UNPROVED: &str = "cache not proved";
/// A read from memory, or a user script, had major page faults: something it needs had been
/// evicted.
pub const MAJOR_FAULTS: &str = "major faults";
/// In more than a fifth of the turns a device wrote data that the layer cannot have written.
pub const WRITE_BACK: &str = "write-back of others";
/// After the trial the layer's mount was gone or had changed.
pub const LAYER_LOST: &str = "layer lost";
/// The run was interrupted in this block, and the block was repeated later. Of a trial in a list of
/// trials.
pub const MADE_AGAIN: &str = "made again";
/// The run was interrupted in this block, so the baseline or all other layers lack a trial. Of a
/// trial in a list of trials.
pub const CUT_OFF: &str = "block cut off";
/// `O_DIRECT` was accepted, but the data came from a cache.
pub const DIRECT_IGNORED: &str = "O_DIRECT ignored";
/// A record differed from what had been written.
pub const VERIFY: &str = "verify failed";
/// Nothing that was waited for came in time: its time is at least what is shown.
pub const NOT_SEEN: &str = "not seen in time";
/// The ratio changed late in the run, so no single number describes it. Of a result, not a trial.
pub const UNSTEADY: &str = "no steady state";
/// A few operations take so long that the average is not the typical time. Of a result, not a trial.
pub const STALLS: &str = "stalls";
/// The probe's instructions were emulated. Of a result, not a trial.
pub const EMULATED_CPU: &str = "emulated CPU";
