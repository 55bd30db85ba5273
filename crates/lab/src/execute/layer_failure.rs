//! Why a layer failed.

use layermark_layers::{LayerError, in_words};

/// Why a layer failed, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayerFailure {
    pub reason: String,
    pub hint: Option<String>,
    /// The user stopped the run.
    pub cut_off: bool,
}

impl LayerFailure {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: in_words(&reason.into()),
            hint: None,
            cut_off: false,
        }
    }

    /// Adds the end of the path to the reason.
    pub(crate) fn at(self, end: &str) -> Self {
        let reason = format!("{end}: {}", self.reason);
        Self { reason, ..self }
    }
}

impl From<LayerError> for LayerFailure {
    fn from(e: LayerError) -> Self {
        Self {
            hint: e.hint().map(|hint| in_words(&hint)),
            ..Self::new(e.reason())
        }
    }
}
