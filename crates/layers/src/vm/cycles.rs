//! Rate of this host's cycle counter, which a guest with an emulated CPU uses too.
#![allow(unsafe_code)]

use std::{
    thread,
    time::{Duration, Instant},
};

/// Time between two readings: long enough that they are exact to some millionths.
const APART: Duration = Duration::from_millis(50);
/// A reading that took longer than this was interrupted, and is repeated.
const EXACT: Duration = Duration::from_micros(2);
/// Maximum number of readings.
const READINGS: u32 = 1000;

/// Cycles per millisecond. A guest measures them by timers, which are late when this host is busy:
/// a guest's clock has run 60 times as fast. `None` if the counter cannot be read exactly.
pub(crate) fn khz() -> Option<u64> {
    let (start, first) = reading()?;
    thread::sleep(APART);
    let (end, last) = reading()?;
    let cycles = last.checked_sub(first)? as f64;
    let khz = (cycles / (end - start).as_secs_f64() / 1e3).round() as u64;
    (khz > 0).then_some(khz)
}

/// The counter and the time at one moment.
fn reading() -> Option<(Instant, u64)> {
    (0..READINGS).find_map(|_| {
        let before = Instant::now();
        let count = counter();
        (before.elapsed() < EXACT).then_some((before, count))
    })
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every x86-64 has this instruction, which reads a register and touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// On other machines the guest's counter is not this host's: its CPU is an x86-64.
#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_measurements_agree() {
        let (Some(a), Some(b)) = (khz(), khz()) else {
            return eprintln!("skipped: the cycle counter cannot be read exactly here");
        };
        assert!(a > 100_000, "{a}");
        assert!(a.abs_diff(b) * 1000 < a, "{a} {b}");
    }
}
