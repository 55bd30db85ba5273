//! Evidence of where the data of a read came from.

/// Why a read is taken to have been served from a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServedBecause {
    /// Its files live in memory.
    FilesInMemory,
    /// What was counted, each if it was: shares of the application's bytes, and of pages in caches.
    Counted {
        /// Device bytes per byte read.
        device: Option<f64>,
        /// Bytes from the guest's own disk per byte read.
        guest: Option<f64>,
        /// Share of the file in the page cache before the clock started.
        resident: Option<f64>,
        /// Share of what is behind it in this host's page cache.
        behind: Option<f64>,
        /// Whether that is its place in an image.
        in_image: bool,
    },
}
