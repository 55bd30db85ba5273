//! Limits of control groups.

use layermark_model::{Limit, Limited};

use crate::{
    number::{self, sig3},
    words::{Text, text},
};

/// `it may use 0.05 CPUs (cpu.max)`.
pub fn limit(limit: &Limit, who: &str) -> Text {
    let device = limit.device.as_deref().unwrap_or("the device");
    let may = match limit.of {
        Limited::Cpu => format!("use {} CPUs", (limit.rate * 1e3).round() / 1e3),
        Limited::ReadBytes => format!("read {}/s from {device}", number::bytes(limit.rate)),
        Limited::WrittenBytes => format!("write {}/s to {device}", number::bytes(limit.rate)),
        Limited::Reads => format!("make {} reads a second of {device}", sig3(limit.rate)),
        Limited::Writes => format!("make {} writes a second to {device}", sig3(limit.rate)),
    };
    text!("{who} may {may} ({})", limit.file)
}

/// A limit of the layer that the sentence is about.
pub fn of_layer(limit: &Limit) -> Text {
    let who = if limit.helper { "its program" } else { "it" };
    self::limit(limit, who)
}
