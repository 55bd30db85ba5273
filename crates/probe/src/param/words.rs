//! Words that several workloads take.

use layermark_model::words;

words! {
    /// State of the cache before the clock starts.
    pub enum Cache {
        /// Every file was read or opened once before.
        Warm = "warm",
        /// Dropped as far as the layer allows. The state is proved afterwards.
        Cold = "cold",
    }
}
