//! The work of a trial, and why it can fail.

use std::borrow::Cow;

use layermark_model::{Defect, Environment, Point};

use crate::{
    Stop,
    decide::guess::MIN_MS,
    execute::{layer_failure::LayerFailure, session::End},
};

/// The work of a trial.
pub(crate) struct TrialRequest<'a> {
    pub id: u64,
    /// Index of the layer.
    pub layer: usize,
    /// Whether it is the control, which shows what the baseline does.
    pub control: bool,
    /// The point as it is run in the layer.
    pub point: Point,
    /// Whether the extra trial of its needs is run after it.
    pub traces: bool,
    /// Number of CPUs of the layer; `None`: all.
    pub cpus: Option<u32>,
    pub seed: u64,
    /// The least work of a trial in one stretch.
    pub least: Least,
    /// Directory of the file system over which every layer is built.
    pub base: String,
    /// Values of the variables that points name.
    pub env: Environment,
    pub stop: &'a Stop,
}

/// The least work of a trial in one stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Least {
    /// Milliseconds.
    pub ms: u64,
    /// Operations.
    pub ops: u64,
}

impl Least {
    /// That of a run.
    pub(crate) const USUAL: Self = Self {
        ms: MIN_MS,
        ops: 200,
    };
}

impl TrialRequest<'_> {
    /// The end whose probe takes the turns.
    pub(crate) fn end(&self) -> End {
        if self.point.needs.near.has_two() {
            End::Near
        } else {
            End::Far
        }
    }
}

/// Why a trial failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The probe could not do the work. It waits for the next job.
    Work {
        message: String,
        hint: Option<String>,
        errno: Option<i32>,
        defect: Option<Defect>,
    },
    /// The probe or the layer is in an unknown state.
    Broken(String),
    /// The layer has been lost, so it is not known what was measured.
    Lost(LayerFailure),
    /// The user asked to stop at once.
    CutOff,
}

impl Failure {
    /// Work that could not be done, without an error of the kernel.
    pub(crate) fn work(message: impl Into<String>) -> Self {
        Self::Work {
            message: message.into(),
            hint: None,
            errno: None,
            defect: None,
        }
    }

    /// What it shows about the layer.
    pub(crate) fn defect(&self) -> Option<Defect> {
        match self {
            Self::Work { defect, .. } => *defect,
            Self::Broken(_) | Self::Lost(_) | Self::CutOff => None,
        }
    }

    /// Text as stored with the trial.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Work {
                message,
                hint: Some(hint),
                ..
            } => format!("{message}; hint: {hint}").into(),
            Self::Work { message, .. } | Self::Broken(message) => message.into(),
            Self::Lost(lost) => (&lost.reason).into(),
            Self::CutOff => "cut off by the user".into(),
        }
    }
}
