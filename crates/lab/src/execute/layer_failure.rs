//! Why a layer failed.

use layermark_layers::{LayerError, in_words, is_of_hosts};

/// Why a layer failed, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayerFailure {
    pub reason: String,
    pub hint: Option<String>,
    /// The user stopped the run.
    pub cut_off: bool,
    /// This host could not do it, which says nothing of the layer.
    pub of_host: bool,
}

impl LayerFailure {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: in_words(&reason.into()),
            hint: None,
            cut_off: false,
            of_host: false,
        }
    }

    /// An error of a probe, with its `errno` if the kernel returned one.
    pub(crate) fn of_probe(message: impl Into<String>, errno: Option<i32>) -> Self {
        Self {
            of_host: errno.is_some_and(is_of_hosts),
            ..Self::new(message)
        }
    }

    /// It is this host's, whatever the error is.
    pub(crate) fn of_host(self) -> Self {
        Self {
            of_host: true,
            ..self
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
            of_host: e.is_of_host(),
            ..Self::new(e.reason())
        }
    }
}
