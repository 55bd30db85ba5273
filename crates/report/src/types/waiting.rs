//! Waiting for a CPU, in the report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Estimate;

/// How long a point waited for a CPU in a layer: ready to run, while other threads had all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingRow {
    /// Share of the time on the clock (0..=1) in which the one thread that works waited, with `kernel_us`. Absent with
    /// several threads, and where the kernel does not count it.
    pub share: Option<f64>,
    /// The same in microseconds an operation.
    pub us: Option<f64>,
    /// The part of it in which the thread had nothing to do, and threads of the kernel that work for file systems and
    /// devices waited beside other programs. Absent where it is not left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_us: Option<f64>,
    /// Microseconds an operation for which threads of the processes that serve the layer waited, over
    /// all threads. Absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helpers_us: Option<f64>,
    /// Microseconds an operation on the clock, with all waiting.
    pub whole_us: f64,
    /// Whether the row's times, its ratio and its verdict are without it. Latencies of single
    /// operations never are.
    #[serde(default)]
    pub left_out: bool,
    /// The ratio of all time on the clock. Absent unless it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_with: Option<Estimate>,
}

/// Why a verdict is withheld because of waiting for a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Withheld {
    /// Too much of the time of an operation waited.
    Waits {
        /// Whose time it is.
        place: WaitedIn,
        /// The time, microseconds.
        whole_us: f64,
        /// What of it waited.
        waits_us: f64,
        /// Whether other programs used the CPUs.
        busy: bool,
    },
    /// The word does not hold for the ratio without what waited.
    Without(Estimate),
}

/// Whose time waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitedIn {
    /// The layer's.
    Layer,
    /// The baseline's.
    Baseline,
    /// That of the older of two runs.
    OldRun,
    /// That of the newer one.
    NewRun,
}

impl WaitingRow {
    /// Microseconds an operation for which the thread or one that serves it waited, at most all of its
    /// time.
    pub fn all_us(&self) -> f64 {
        let all = self.us.unwrap_or(0.0) + self.helpers_us.unwrap_or(0.0);
        all.min(self.whole_us)
    }

    /// [`Self::all_us`] as a share of the time on the clock.
    pub fn all_share(&self) -> f64 {
        self.all_us() / self.whole_us
    }
}
