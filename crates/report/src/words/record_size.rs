//! A recommended record size.

use layermark_model::format_size;

use crate::{
    types::Pick,
    words::{Names, Text, Words, text},
};

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
