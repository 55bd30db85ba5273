//! Checks whether a guest's clock runs as fast as this host's.
//!
//! The clocks are never compared directly. Only the time that has passed on each is compared.

use std::time::Duration;

/// Largest tolerated drift: 0.1 %. Beyond it the times of a trial are wrong.
pub(crate) const LIMIT: f64 = 0.001;

/// Both clocks at almost the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// This host's clock in the middle of the request, since any fixed moment.
    pub(crate) host: Duration,
    /// The guest's clock.
    pub(crate) guest: Duration,
    /// Duration of the request: the guest's clock was read at some time within it.
    pub(crate) took: Duration,
}

/// How much faster the guest's clock ran between two readings (0.001: 0.1 %). The part that the
/// requests' durations may explain is subtracted.
pub(crate) fn drift(from: Reading, to: Reading) -> f64 {
    let host = to.host.saturating_sub(from.host).as_secs_f64();
    if host <= 0.0 {
        return 0.0;
    }
    let guest = to.guest.as_secs_f64() - from.guest.as_secs_f64();
    let unknown = (from.took + to.took).as_secs_f64() / 2.0;
    let off = guest - host;
    off.signum() * (off.abs() - unknown).max(0.0) / host
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host_ms: u64, guest_us: u64, took_us: u64) -> Reading {
        Reading {
            host: Duration::from_millis(host_ms),
            guest: Duration::from_micros(guest_us),
            took: Duration::from_micros(took_us),
        }
    }

    #[test]
    fn only_what_is_proved_is_blamed() {
        let start = at(1000, 500_000, 200);
        assert!(drift(start, at(11_000, 10_500_000, 200)).abs() < 1e-12);
        // 20 ms in 10 s, of which 0.2 ms may be due to the requests.
        let fast = drift(start, at(11_000, 10_520_000, 200));
        assert!((fast - 0.00198).abs() < 1e-6 && fast > LIMIT, "{fast}");
        let slow = drift(start, at(11_000, 10_480_000, 200));
        assert!((slow + fast).abs() < 1e-9, "{slow}");
        // 0.15 ms in 50 ms is 0.3 %, but the requests took 0.2 ms each.
        assert!(drift(start, at(1050, 550_150, 200)).abs() < 1e-12);
        assert!(drift(start, start).abs() < 1e-12);
    }
}
