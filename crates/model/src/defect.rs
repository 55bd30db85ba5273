use serde::{Deserialize, Serialize};

/// What an error shows about the layer, where it shows more than that the work failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Defect {
    /// The layer says that it lacks the operation. Once it has worked, a table may have been full instead.
    Lacks,
    /// The operation is there and does not do what it is for: updates under a lock were lost.
    Breaks,
}
