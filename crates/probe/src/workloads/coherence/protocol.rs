//! Questions of the near end, which takes the turns, to the far end in the layer.

use serde::{Deserialize, Serialize};

/// A question. Changes are numbered from 0. What is answered is in [`super::far`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Ask {
    /// Answered at once.
    Ping,
    /// Makes a directory of this name and works in it from now on.
    Enter { name: String },
    /// Makes what the change is made to.
    Make { n: u64 },
    /// Whether the state before the change is seen in time.
    Before { n: u64 },
    /// Makes the change. The answer is how long that took, ns.
    Change { n: u64 },
    /// Answers `true` at once, then whether the change is seen in time.
    Watch { n: u64 },
}
