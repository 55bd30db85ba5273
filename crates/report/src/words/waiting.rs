//! Waiting for a CPU.

use crate::{
    number,
    types::{WaitedIn, Withheld},
    words::{Names, Text, Words, text},
};

/// `of 3.10 ms, 2.90 ms wait for a CPU: the machine is busy`. The whole time first, and what of it waits, microseconds.
pub fn waits([whole_us, waits_us]: [f64; 2], busy: bool) -> Text {
    let (whole, part) = (number::time(whole_us), number::time(waits_us));
    let why = if busy { ": the machine is busy" } else { "" };
    // Threads of a server may wait at the same time.
    let most = if waits_us < whole_us { "" } else { "up to " };
    text!("of {whole}, {most}{part} wait for a CPU{why}")
}

impl Words for Withheld {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Waits {
                place,
                whole_us,
                waits_us,
                busy,
            } => {
                let waits = waits([*whole_us, *waits_us], *busy);
                match place {
                    WaitedIn::Layer => waits,
                    WaitedIn::Baseline => text!("{}, {waits}", names.natively()),
                    WaitedIn::OldRun => text!("in the old run, {waits}"),
                    WaitedIn::NewRun => text!("in the new run, {waits}"),
                }
            }
            Self::Without(ratio) => text!(
                "without what it waited for a CPU: {}",
                number::ratio_with(ratio)
            ),
        }
    }
}
