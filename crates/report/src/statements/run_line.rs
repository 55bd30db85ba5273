//! The run, and whether to believe it, in a line each.

use layermark_model::{LayerStatus, RunStatus};

use crate::types::{LayerReport, Report, TrustState, TrustWord, Trusted};

/// Which run, or which two.
#[derive(Debug, Clone, PartialEq)]
pub enum RunLine<'a> {
    /// A run.
    One {
        /// Its id.
        run: &'a str,
        /// Its plan.
        plan: &'a str,
        /// How it ended.
        status: RunStatus,
        /// Layers that were compared with the baseline.
        layers: usize,
        /// Trials.
        trials: usize,
        /// Its seed.
        seed: u64,
    },
    /// Two runs of a plan, each with its id and the time at which it started.
    Two {
        /// The newer one.
        new: [&'a str; 2],
        /// The older one.
        old: [&'a str; 2],
        /// The plan.
        plan: &'a str,
    },
}

impl<'a> RunLine<'a> {
    /// The line of a report.
    pub fn of(report: &'a Report) -> Self {
        if let Some(old) = &report.compared {
            return Self::Two {
                new: [&report.run, &report.started],
                old: [&old.run, &old.started],
                plan: &report.label,
            };
        }
        let measured =
            |l: &&LayerReport| !l.control && !l.baseline && l.status == LayerStatus::Ready;
        Self::One {
            run: &report.run,
            plan: &report.label,
            status: report.status,
            layers: report.layers.iter().filter(measured).count(),
            trials: report.trials.len(),
            seed: report.seed,
        }
    }
}

/// Whether to believe it, or why not, how many checks passed, and which did not.
#[derive(Debug, Clone, PartialEq)]
pub struct TrustLine<'a> {
    /// The answer; `None` where each of two runs has its own.
    pub believed: Option<&'a Trusted>,
    /// Checks that passed.
    pub passed: usize,
    /// Names of those that warn.
    pub warnings: Vec<&'a str>,
}

impl<'a> TrustLine<'a> {
    /// The line of a report.
    pub fn of(report: &'a Report) -> Self {
        let having = |state| report.trust.iter().filter(move |t| t.state == state);
        let warned = having(TrustState::Warn);
        Self {
            believed: report.trusted.as_ref(),
            passed: having(TrustState::Ok).count(),
            warnings: warned.map(|t| t.title.as_str()).collect(),
        }
    }

    /// The mark before it.
    pub fn mark(&self) -> TrustState {
        match self.believed.map(|trusted| trusted.word) {
            Some(TrustWord::Yes) => TrustState::Ok,
            None if self.warnings.is_empty() => TrustState::Ok,
            Some(TrustWord::WithCare | TrustWord::No) | None => TrustState::Warn,
        }
    }
}
