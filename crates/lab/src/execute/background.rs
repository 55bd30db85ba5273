//! What other programs do at the devices: counted in pauses in which no layer works.
//!
//! A device's counters include the bytes and flushes of every program, and the layers of a block use
//! it in each other's turns. Only while none of them works does everything belong to other programs.
//! Their load changes within milliseconds, so the pauses lie between the rounds of a block.

use std::{
    thread,
    time::{Duration, Instant},
};

use layermark_model::{DeviceBackground, DeviceBytes};
use layermark_probe::counters::{self, Devices};

/// The window after a round lasts this part of the round.
const PART: u32 = 20;
/// The same where only bytes are counted. They matter less, and these rounds decide more with their time.
const SMALL_PART: u32 = 50;
/// Shortest window: a few flushes of a busy disk take this long.
const SHORTEST: Duration = Duration::from_micros(500);
/// Longest window: a user would notice a longer one.
const LONGEST: Duration = Duration::from_millis(20);
/// What the last turn has read ahead may still be under way. It is waited for as long as this.
const UNDER_WAY: Duration = Duration::from_millis(1);

/// A layer's late flushes are looked for in this time after its turn.
pub(crate) const REST: Duration = Duration::from_millis(300);

/// The control windows of a block.
#[derive(Default)]
pub(crate) struct ControlWindows {
    watched: Vec<Watched>,
    /// Whether there is one after each round, or only once the rounds are long enough for one.
    each_round: bool,
    /// Duration of the rounds since the last window; `None` before the first one.
    unwatched: Option<Duration>,
}

/// The devices below one or more layers, and what they did in all windows.
struct Watched {
    numbers: Vec<String>,
    devices: Devices,
    counted: DeviceBytes,
    ns: u64,
}

impl ControlWindows {
    /// Watches these sets of devices, `major:minor` each. Devices without counters are left out.
    pub(crate) fn over(sets: impl Iterator<Item = Vec<String>>, each_round: bool) -> Self {
        let mut watched: Vec<Watched> = Vec::new();
        for numbers in sets {
            let devices = Devices::open(&numbers);
            if devices.sum().is_some() && watched.iter().all(|w| w.numbers != numbers) {
                watched.push(Watched {
                    numbers,
                    devices,
                    counted: DeviceBytes::default(),
                    ns: 0,
                });
            }
        }
        Self {
            watched,
            each_round,
            unwatched: None,
        }
    }

    /// Length of the window after a round of this duration, if there is one.
    fn due(&mut self, round: Duration) -> Option<Duration> {
        if self.watched.is_empty() {
            return None;
        }
        let worked = self.unwatched.map(|before| before + round);
        let part = if self.each_round { PART } else { SMALL_PART };
        let length = worked.map_or(SHORTEST, |worked| worked / part);
        if length < SHORTEST && !self.each_round {
            self.unwatched = worked;
            return None;
        }
        self.unwatched = Some(Duration::ZERO);
        Some(length.clamp(SHORTEST, LONGEST))
    }

    /// The window after a round of this duration. No layer may be at work. Returns how long it took;
    /// zero without one.
    pub(crate) fn watch(&mut self, round: Duration) -> Duration {
        let Some(length) = self.due(round) else {
            return Duration::ZERO;
        };
        let begun = Instant::now();
        // What was flushed is not under way any more.
        let under_way = || !self.each_round && self.watched.iter().any(|w| !w.devices.are_idle());
        while begun.elapsed() < UNDER_WAY && under_way() {
            thread::sleep(UNDER_WAY / 10);
        }
        let opened = Instant::now();
        let read = |w: &Watched| w.devices.sum().unwrap_or_default();
        let before: Vec<DeviceBytes> = self.watched.iter().map(read).collect();
        thread::sleep(length);
        for (watched, before) in self.watched.iter_mut().zip(before) {
            watched.counted += counters::between(before, read(watched));
            watched.ns += opened.elapsed().as_nanos() as u64;
        }
        begun.elapsed()
    }

    /// Whether a device flushed in a window: other programs did it, or a layer late.
    pub(crate) fn saw_flushes(&self) -> bool {
        self.watched.iter().any(|w| w.counted.flushes > 0)
    }

    /// Flushes of these devices from now on, while all layers rest, and the length of the pause, ns. It
    /// belongs to no window.
    pub(crate) fn rest(&self, numbers: &[String]) -> Option<(u64, u64)> {
        let watched = self.watched.iter().find(|w| w.numbers == numbers);
        let flushes = || Some(watched?.devices.sum()?.flushes);
        let (begun, before) = (Instant::now(), flushes());
        thread::sleep(REST);
        let counted = flushes()?.saturating_sub(before?);
        Some((counted, begun.elapsed().as_nanos() as u64))
    }

    /// What these devices did in all windows.
    pub(crate) fn of(&self, numbers: &[String]) -> Option<DeviceBackground> {
        let watched = self.watched.iter().find(|w| w.numbers == numbers)?;
        Some(DeviceBackground {
            flushes: watched.counted.flushes,
            read: Some(watched.counted.read),
            written: Some(watched.counted.written),
            ns: watched.ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_devices_there_is_no_window_and_nothing_to_report() {
        let sets = [Vec::new(), vec!["999999:0".into()]];
        let mut none = ControlWindows::over(sets.into_iter(), true);
        assert_eq!(none.watch(Duration::from_secs(9)), Duration::ZERO);
        assert_eq!(none.of(&[]), None);
    }

    #[test]
    fn short_rounds_share_a_window_where_only_bytes_are_counted() {
        let windows = |each_round| ControlWindows {
            watched: vec![Watched {
                numbers: Vec::new(),
                devices: Devices::open(&[]),
                counted: DeviceBytes::default(),
                ns: 0,
            }],
            each_round,
            unwatched: None,
        };
        let ms = Duration::from_millis;
        let lengths = |each_round, rounds: [u64; 4]| {
            let mut windows = windows(each_round);
            rounds.map(|round| windows.due(ms(round)))
        };
        let shortest = Some(SHORTEST);
        assert_eq!(
            lengths(true, [0, 5, 100, 9000]),
            [shortest, shortest, Some(ms(5)), Some(LONGEST)]
        );
        assert_eq!(
            lengths(false, [0, 20, 5, 50]),
            [shortest, None, shortest, Some(ms(1))]
        );
    }
}
