//! Ctrl-C and SIGTERM: the first finishes the current round, the second ends at once.

use std::{io, thread};

use layermark_lab::Stop;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::say::say;

/// Connects signals to `stop`. The thread lives as long as the process.
pub fn connect(stop: &Stop) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let stop = stop.clone();
    thread::spawn(move || {
        for _ in signals.forever() {
            if !stop.asked() {
                say("\nstopping after this round; press Ctrl-C again to stop at once");
            }
            stop.ask();
        }
    });
    Ok(())
}
