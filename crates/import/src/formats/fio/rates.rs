//! Rates and latencies of a job, in the units of its version.

use super::{Side, Syncs};
use crate::values;

/// The units of a version's numbers.
pub struct Units {
    /// Of times: nanoseconds since fio 3, microseconds before.
    ns: f64,
    /// Whether `io_bytes` are bytes: in fio 2 they are KiB.
    bytes: bool,
}

impl Units {
    /// Of the semicolon format: microseconds; the sizes were made bytes.
    pub const TERSE: Self = Self {
        ns: 1e3,
        bytes: true,
    };

    /// # Errors The version is not one whose units are known.
    pub fn of(version: &str) -> Result<Self, String> {
        let major = version
            .strip_prefix("fio-")
            .and_then(|v| v.split('.').next());
        match major {
            Some("3") => Ok(Self {
                ns: 1.0,
                bytes: true,
            }),
            Some("2") => Ok(Self {
                ns: 1e3,
                bytes: false,
            }),
            _ => {
                let name = if version.is_empty() {
                    "it names no version"
                } else {
                    version
                };
                Err(format!(
                    "{name}: only the output of fio 2 and 3 is understood, whose units are known"
                ))
            }
        }
    }

    /// Bytes of an operation on the average, where the file tells.
    pub fn record(&self, side: &Side) -> Option<f64> {
        let bytes = side.io_bytes / side.total_ios;
        (self.bytes && bytes.is_finite() && bytes > 0.0).then_some(bytes)
    }
}

/// Rates and latencies, checked.
pub struct Rates {
    pub bytes_per_s: f64,
    pub ops_per_s: f64,
    pub mean_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub max_us: Option<f64>,
}

impl Rates {
    /// Of one direction. If the syncs of its writes are told `apart`, an operation is a write with its
    /// share of them: the file does not say which sync follows which write, so only the mean can be
    /// added.
    ///
    /// # Errors A number that cannot have been measured, after `at`, its place.
    pub fn of(
        side: &Side,
        (apart, syncs): (bool, Option<&Syncs>),
        units: &Units,
        at: &str,
    ) -> Result<Self, String> {
        values::rate(&format!("{at}.io_bytes"), side.io_bytes)?;
        let bytes = side
            .bw_bytes
            .or_else(|| Some(side.bw? * 1024.0))
            .ok_or_else(|| format!("{at}: missing field `bw_bytes`"))?;
        // A job that was asked for no latencies (gtod_reduce, disable_lat) has zeros.
        let micros = |what: &str, ns: f64| {
            let us = values::micros(&format!("{at}.{what}"), ns * units.ns / 1e3)?;
            Ok::<_, String>(Some(us).filter(|us| *us > 0.0))
        };
        let mean = micros("lat_ns.mean", side.lat_ns.mean)?;
        let (mean_us, p99_us, max_us) = if apart {
            let each = syncs.map(|s| s.lat_ns.mean * s.total_ios / side.total_ios);
            let each = each.filter(|ns| *ns > 0.0 && ns.is_finite());
            let each = each.map(|ns| micros("sync.lat_ns.mean", ns)).transpose()?;
            (mean.zip(each.flatten()).map(|(a, b)| a + b), None, None)
        } else {
            let percentile = |times: &super::Times| times.percentile.get("99.000000").copied();
            // Of the whole operation if it was asked for, else of its completion.
            let p99 = percentile(&side.lat_ns).or_else(|| percentile(&side.clat_ns));
            let p99 = p99.map(|ns| micros("clat_ns.percentile", ns)).transpose()?;
            (mean, p99.flatten(), micros("lat_ns.max", side.lat_ns.max)?)
        };
        Ok(Self {
            bytes_per_s: values::rate(&format!("{at}.bw_bytes"), bytes)?,
            ops_per_s: values::rate(&format!("{at}.iops"), side.iops)?,
            mean_us,
            p99_us,
            max_us,
        })
    }

    /// Of two directions together. Percentiles cannot be added.
    pub fn with(&self, other: &Self) -> Self {
        let ops = self.ops_per_s + other.ops_per_s;
        let means = self.mean_us.zip(other.mean_us);
        let mean = means.map(|(a, b)| (a * self.ops_per_s + b * other.ops_per_s) / ops);
        Self {
            bytes_per_s: self.bytes_per_s + other.bytes_per_s,
            ops_per_s: ops,
            mean_us: mean.filter(|us| us.is_finite()),
            p99_us: None,
            max_us: self.max_us.zip(other.max_us).map(|(a, b)| a.max(b)),
        }
    }

    /// Drops times that do not fit the rate, and says so. On the average as many operations are in
    /// flight as rate times latency (Little 1961), and there are at most depth times threads. With
    /// `ramp_time`, some versions keep the time of the ramp and not its operations.
    pub fn without_absurd_times(&mut self, in_flight: Option<(u64, u64)>) -> Option<String> {
        let (depth, threads) = in_flight?;
        let us = self.mean_us?;
        let most = depth.max(1) as f64 * threads.max(1) as f64;
        if self.ops_per_s * us / 1e6 <= 2.0 * most {
            return None;
        }
        (self.mean_us, self.p99_us, self.max_us) = (None, None, None);
        Some(format!(
            "{us:.0} us an operation do not fit {:.0} operations a second: the time was left out",
            self.ops_per_s
        ))
    }
}
