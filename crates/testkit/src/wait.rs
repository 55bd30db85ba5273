//! Waiting for events. The deadlines are long, since a test may share two cores with three others.

use std::{
    io::Read,
    thread,
    time::{Duration, Instant},
};

/// Far longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_mins(3);

/// Waits until `wanted` gives a value. Looking takes at most half of the time: what is waited for needs the CPU too.
///
/// # Panics
/// If it gives none in three minutes.
#[track_caller]
pub fn wait_for<T>(what: &str, mut wanted: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        let looked = Instant::now();
        if let Some(value) = wanted() {
            return value;
        }
        assert!(start.elapsed() < LIMIT, "waited in vain for {what}");
        thread::sleep(looked.elapsed().max(Duration::from_millis(5)));
    }
}

/// Reads until these words have been written; all that was read.
///
/// # Panics
/// If it ends before.
#[track_caller]
pub fn heard(from: &mut impl Read, words: &str) -> String {
    let mut heard = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&heard);
        if text.contains(words) {
            return text.into_owned();
        }
        let mut some = [0; 256];
        let count = from.read(&mut some).unwrap_or_else(|e| panic!("{e}"));
        assert!(count > 0, "`{words}` was not said: {text}");
        heard.extend(&some[..count]);
    }
}
