//! Ctrl-C and SIGTERM: the first finishes the current round, the second ends at once.

use std::{io, thread};

use layermark_lab::Stop;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::{Handle, Signals},
};

use crate::say::say;

/// Connects signals to `stop`, until the handle is closed.
pub fn connect(stop: &Stop) -> io::Result<Handle> {
    let mut signals = caught()?;
    let handle = signals.handle();
    let stop = stop.clone();
    thread::Builder::new().spawn(move || {
        for _ in signals.forever() {
            if !stop.asked() {
                say("\nstopping after this round; press Ctrl-C again to stop at once");
            }
            stop.ask();
        }
    })?;
    Ok(handle)
}

/// Signals that arrive from now on.
pub fn caught() -> io::Result<Signals> {
    Signals::new([SIGINT, SIGTERM, SIGHUP])
}
