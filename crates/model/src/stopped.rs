//! How a program was stopped.

use serde::{Deserialize, Serialize};

/// How a program was stopped.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// It had ended by itself.
    #[default]
    Itself,
    /// `SIGTERM` ended it.
    Term,
    /// Something was still running after the grace time and was killed.
    Kill,
}
