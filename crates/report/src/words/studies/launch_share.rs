//! What the study of launch time says.

use crate::words::{Text, text};

/// Of a program without a time.
pub const NOT_LAUNCHED: &str = "not launched";

/// The title of a state's table.
pub fn title(state: &str, in_guests: bool) -> Text {
    let guests = if in_guests { " in guests" } else { "" };
    text!("{} launches{guests}", Text::from(state).capitalised())
}

/// Its heads; the last one is that of the ratio to a layer.
pub fn head(first: &Text) -> Vec<String> {
    let head = ["program", "layer", "launches", "mean", "range"].map(str::to_owned);
    let last = text!("time over {first}").into();
    head.into_iter().chain([last]).collect()
}

/// Why a program has no time in a layer.
pub fn failed(program: &str, layer: &str, why: &str) -> Text {
    text!("{program} from {layer}: {why}")
}
