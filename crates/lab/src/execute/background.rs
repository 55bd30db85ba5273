//! What other programs flush: counted in pauses in which no layer works.
//!
//! A flush counter includes the flushes of every program, and the layers of a block flush in each
//! other's turns. Only while none of them works do all flushes belong to other programs. Their load
//! changes within milliseconds, so the pauses lie between all the rounds of a block.

use std::{
    thread,
    time::{Duration, Instant},
};

use layermark_model::BackgroundFlushes;
use layermark_probe::counters::Devices;

/// The window after a round lasts this part of the round.
const PART: u32 = 20;
/// Shortest window: a few flushes of a busy disk take this long.
const SHORTEST: Duration = Duration::from_micros(500);
/// Longest window: a user would notice a longer one.
const LONGEST: Duration = Duration::from_millis(20);

/// The control windows of a block.
#[derive(Default)]
pub(crate) struct ControlWindows(Vec<Watched>);

/// The devices below one or more layers, and their flushes in all windows.
struct Watched {
    numbers: Vec<String>,
    devices: Devices,
    counted: BackgroundFlushes,
}

impl ControlWindows {
    /// Watches these sets of devices, `major:minor` each. Devices without a flush counter are left
    /// out.
    pub(crate) fn over(sets: impl Iterator<Item = Vec<String>>) -> Self {
        let mut all: Vec<Watched> = Vec::new();
        for numbers in sets {
            let devices = Devices::open(&numbers);
            if devices.sum().is_some() && all.iter().all(|w| w.numbers != numbers) {
                all.push(Watched {
                    numbers,
                    devices,
                    counted: BackgroundFlushes::default(),
                });
            }
        }
        Self(all)
    }

    /// One window after a round of this duration. No layer may be at work. Returns the window's
    /// length; zero when no device is watched.
    pub(crate) fn watch(&mut self, round: Duration) -> Duration {
        if self.0.is_empty() {
            return Duration::ZERO;
        }
        let begun = Instant::now();
        let flushes = |w: &Watched| w.devices.sum().map_or(0, |sum| sum.flushes);
        let before: Vec<u64> = self.0.iter().map(flushes).collect();
        thread::sleep((round / PART).clamp(SHORTEST, LONGEST));
        for (watched, before) in self.0.iter_mut().zip(before) {
            watched.counted.flushes += flushes(watched).saturating_sub(before);
            watched.counted.ns += begun.elapsed().as_nanos() as u64;
        }
        begun.elapsed()
    }

    /// Flushes of these devices in all windows.
    pub(crate) fn of(&self, numbers: &[String]) -> Option<BackgroundFlushes> {
        let watched = self.0.iter().find(|w| w.numbers == numbers)?;
        Some(watched.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_devices_there_is_no_window_and_nothing_to_report() {
        let mut none = ControlWindows::over([Vec::new(), vec!["999999:0".into()]].into_iter());
        assert_eq!(none.watch(Duration::from_secs(9)), Duration::ZERO);
        assert_eq!(none.of(&[]), None);
    }
}
