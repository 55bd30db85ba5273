//! What the study of emulated and paravirtual devices says.

use crate::words::{Text, text};

/// A table of the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackTable {
    /// Throughputs.
    Throughput,
    /// The same as bars.
    Bars,
    /// Over that of the first emulated layer.
    OfEmulated,
    /// Over that of the native layer.
    OfNative,
    /// CPU time of this machine.
    HostCpu,
}

/// Its title, of one guest or of paths from guest to guest.
pub fn title(of: StackTable, paths: bool) -> Text {
    let place = if paths { "guest to guest" } else { "one guest" };
    let what = match of {
        StackTable::Throughput => "throughput",
        StackTable::Bars => "bars",
        StackTable::OfEmulated => "throughput, of that of the first emulated",
        StackTable::OfNative => "throughput, of native's",
        StackTable::HostCpu => "CPU of this host",
    };
    text!("The three stacks, {place}: {what}")
}

/// Its note.
pub fn note(of: StackTable) -> &'static str {
    match of {
        StackTable::Bars => {
            "The length of a bar is its throughput relative to the highest of the same work."
        }
        StackTable::HostCpu => "All of it, QEMU and interrupts included.",
        _ => "",
    }
}

/// The head of a layer's column, with the kind of its devices.
pub fn head(stack: &str, layer: &Text) -> Text {
    text!("{stack} {layer}")
}

/// Length of the longest bar, characters.
const BAR: f64 = 12.0;

/// A bar with a resolution of an eighth of a character.
pub fn bar(value: f64, most: f64) -> Text {
    const EIGHTHS: [&str; 8] = [
        "", "\u{258f}", "\u{258e}", "\u{258d}", "\u{258c}", "\u{258b}", "\u{258a}", "\u{2589}",
    ];
    if most <= 0.0 {
        return Text::default();
    }
    let eighths = (8.0 * BAR * value / most).round().max(1.0) as usize;
    text!("{}{}", "\u{2588}".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_a_fiftieth() {
        let bars = [100.0, 50.0, 2.0, 0.01].map(|v| String::from(bar(v, 100.0)));
        let full = "\u{2588}";
        assert_eq!(
            bars,
            [
                full.repeat(12),
                full.repeat(6),
                "\u{258e}".into(),
                "\u{258f}".into()
            ]
        );
        assert_eq!(bar(1.0, 0.0), Text::default());
    }
}
