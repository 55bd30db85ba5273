//! A recommended record size.

use layermark_model::format_size;

use crate::{
    number::{percent, sig3},
    types::Pick,
    words::{Names, Text, Words, text},
};

/// What nearly as good is, as a share, and the level of ranges.
pub fn about_sizes(nearly: f64, level: f64) -> Text {
    text!(
        "The smallest record with at least {} of the best throughput, and the smallest with at most {} of the least CPU time of the program. In brackets: its range in {} of the resamples of the repeats, from six repeats on.",
        percent(1.0 - nearly),
        percent(1.0 + nearly),
        percent(level)
    )
}

/// Seconds of CPU: `0.42 s`.
pub fn seconds(value: f64) -> Text {
    text!("{} s", sig3(value))
}

/// `1K (512 to 2K)`.
impl Words for Pick {
    fn words(&self, _: &Names) -> Text {
        let size = format_size(self.record);
        match self.between {
            Some([low, high]) if low != high => {
                text!("{size} ({} to {})", format_size(low), format_size(high))
            }
            Some(_) => text!("{size} (in every resample)"),
            None => size.into(),
        }
    }
}
