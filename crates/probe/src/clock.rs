//! The clock of the probe.
//!
//! It is read in one of two ways, depending on this machine:
//!
//! * the CPU's time stamp counter, if the CPU guarantees that it never stops or changes its rate
//!   (invariant TSC, CPUID `8000_0007h` EDX bit 8), the kernel uses it as its own clock source, and
//!   two calibrations against `CLOCK_MONOTONIC` agree;
//! * otherwise `CLOCK_MONOTONIC`, through the vDSO.
//!
//! Measured on an AMD EPYC guest (kernel 6.18): 10 ns for the counter, 25 ns for the vDSO, compared
//! with 530 ns for a cached `pread` of 32 bytes. The elapsed time of a pass always comes from
//! `CLOCK_MONOTONIC`; the counter only times single operations, and is compared with it after each
//! pass.

use std::time::Duration;

/// The source of an operation's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Time stamp counter; nanoseconds a tick, times 2^32.
    Tsc {
        /// Fixed-point factor: `ns = ticks * mult >> 32`.
        mult: u64,
    },
    /// `CLOCK_MONOTONIC`.
    Monotonic,
}

/// Reads the time in the hot loop. Each implementation gets its own copy of the loop.
pub trait Clock: Copy + Send + Sync {
    /// A reading, in ticks.
    fn now(&self) -> u64;
    /// Ticks as nanoseconds.
    fn ns(&self, ticks: u64) -> u64;
    /// Nanoseconds as ticks, saturating.
    fn ticks(&self, ns: u64) -> u64;
}

/// `CLOCK_MONOTONIC`, nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> u64 {
        monotonic_ns()
    }
    #[inline]
    fn ns(&self, ticks: u64) -> u64 {
        ticks
    }
    fn ticks(&self, ns: u64) -> u64 {
        ns
    }
}

/// The CPU's time stamp counter.
#[derive(Debug, Clone, Copy)]
pub struct Tsc {
    /// Nanoseconds a tick, times 2^32.
    pub mult: u64,
}

impl Clock for Tsc {
    #[inline]
    fn now(&self) -> u64 {
        counter::read()
    }
    #[inline]
    fn ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.mult)) >> 32) as u64
    }
    fn ticks(&self, ns: u64) -> u64 {
        let ticks = (u128::from(ns) << 32) / u128::from(self.mult.max(1));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

/// `CLOCK_MONOTONIC`, nanoseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (t.tv_sec as u64) * 1_000_000_000 + t.tv_nsec as u64
}

impl Source {
    /// The best clock that is reliable here. Takes about 4 ms.
    pub fn detect() -> Self {
        let kernels = layermark_sys::clocksource();
        if !counter::invariant() || !trusted_by_kernel(kernels.ok().as_deref()) {
            return Self::Monotonic;
        }
        // A counter that a hypervisor emulates badly shows two different rates.
        let (first, second) = (calibrate(1_000_000), calibrate(3_000_000));
        if first > 0 && first.abs_diff(second) * 1000 <= first {
            Self::Tsc { mult: second }
        } else {
            Self::Monotonic
        }
    }

    /// Its name in notes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tsc { .. } => "tsc",
            Self::Monotonic => "CLOCK_MONOTONIC",
        }
    }
}

/// `kvm-clock` is the same counter scaled by the hypervisor; older kernels choose it in guests.
fn trusted_by_kernel(clocksource: Option<&str>) -> bool {
    matches!(clocksource, Some("tsc" | "kvm-clock"))
}

/// Nanoseconds per tick times 2^32, over `window` nanoseconds; 0 when unknown.
fn calibrate(window: u64) -> u64 {
    let (first_tick, first_ns) = pair();
    // Asleep: a probe that starts takes no CPU from others for it.
    std::thread::sleep(Duration::from_nanos(window));
    let (last_tick, last_ns) = pair();
    let ticks = last_tick.saturating_sub(first_tick);
    if ticks == 0 {
        return 0;
    }
    ((u128::from(last_ns - first_ns) << 32) / u128::from(ticks)) as u64
}

/// Both clocks at the same moment. The tightest of several attempts counts, so that an interrupt
/// between the two readings does not falsify the rate.
fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..16 {
        let before = counter::read();
        let ns = monotonic_ns();
        let width = counter::read().saturating_sub(before);
        if width < best.0 {
            best = (width, before + width / 2, ns);
        }
    }
    (best.1, best.2)
}

#[cfg(target_arch = "x86_64")]
mod counter {
    //! The counter's instruction is an intrinsic.
    #![allow(unsafe_code)]
    use std::arch::x86_64::{__cpuid, _rdtsc};

    #[inline]
    pub fn read() -> u64 {
        // SAFETY: RDTSC reads a register; every x86-64 CPU has it. The kernel may forbid it to
        // programs (PR_SET_TSC), so it is called only after `invariant` was checked.
        unsafe { _rdtsc() }
    }

    /// CPUID `8000_0007h` EDX bit 8.
    pub fn invariant() -> bool {
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub fn read() -> u64 {
        super::monotonic_ns()
    }
    pub fn invariant() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_source_the_kernel_does_not_trust_is_not_used() {
        assert!(trusted_by_kernel(Some("tsc")));
        assert!(trusted_by_kernel(Some("kvm-clock")));
        for other in [Some("hpet"), Some("acpi_pm"), Some("xen"), None] {
            assert!(!trusted_by_kernel(other), "{other:?}");
        }
    }

    #[test]
    fn the_counter_agrees_with_the_monotonic_clock() {
        let Source::Tsc { mult } = Source::detect() else {
            eprintln!("skipped: this machine has no time stamp counter to trust");
            return;
        };
        let clock = Tsc { mult };
        // The best of several: on a busy machine much time can pass between the two readings.
        let off = || {
            let (tick, ns) = (clock.now(), monotonic_ns());
            std::thread::sleep(std::time::Duration::from_millis(20));
            let (ticks, elapsed) = (clock.now() - tick, monotonic_ns() - ns);
            clock.ns(ticks).abs_diff(elapsed) as f64 / elapsed as f64
        };
        let best = (0..5).map(|_| off()).fold(f64::MAX, f64::min);
        assert!(best < 0.002, "off by {best}");
    }
}
