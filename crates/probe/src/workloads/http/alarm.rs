//! A timer with a resolution of nanoseconds. That of the runtime has milliseconds.
#![allow(unsafe_code)] // tokio cannot know that a descriptor stays what it is

use std::{io, os::fd::OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// A timerfd(2).
pub struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: an `OwnedFd` returns the same open descriptor until it is dropped.
        let timer = unsafe { AsyncFd::register(timer) };
        Ok(Self(timer?))
    }

    /// Waits until that moment of `CLOCK_MONOTONIC`.
    pub async fn wait(&self, at_ns: u64) -> io::Result<()> {
        let time = |ns: u64| Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        };
        let once = Itimerspec {
            it_interval: time(0),
            it_value: time(at_ns),
        };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::ABSTIME, &once)?;
        loop {
            let mut ready = self.0.readable().await?;
            match rustix::io::read(self.0.get_ref(), &mut [0; 8]) {
                Ok(_) => return Ok(()),
                // It was ready for an earlier moment.
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(e) => return Err(e.into()),
            }
        }
    }
}
