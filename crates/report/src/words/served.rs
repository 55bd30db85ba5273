//! Evidence of where the data of a read came from.

use crate::{
    number,
    statements::served::ServedBecause,
    words::{Names, Text, Words, text},
};

impl Words for ServedBecause {
    fn words(&self, _: &Names) -> Text {
        let Self::Counted {
            device,
            guest,
            resident,
            behind,
            in_image,
        } = self
        else {
            return "its files live in memory".into();
        };
        // Three digits at most, and three decimals.
        let per_byte = |share: f64| match (share * 1e3).round() / 1e3 {
            small if small < 0.1 => small.to_string(),
            share => number::sig3(share),
        };
        let place = if *in_image {
            "its place in the image"
        } else {
            "the file behind it"
        };
        let found = [
            device.map(|s| text!("device bytes / bytes read {}", per_byte(s))),
            guest.map(|s| text!("bytes from the guest's disk / bytes read {}", per_byte(s))),
            resident.map(|s| text!("file {} cached before the clock", number::percent(s))),
            behind.map(|s| text!("{place} {} in host memory", number::percent(s))),
        ];
        if found.iter().all(Option::is_none) {
            return "nothing here counts device bytes or cached pages".into();
        }
        Text::joined(found.into_iter().flatten(), "; ")
    }
}
