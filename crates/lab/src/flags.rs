//! What is wrong with a trial, in words that the report knows.

use layermark_model::{
    DirectIo, Facts, Point, Trial,
    flags::{CACHE, DIRECT_IGNORED, VERIFY},
};

/// From this share of cached pages on, or of bytes from a device, a cache is not what was asked.
const SLACK: f64 = 0.05;

/// Everything the trial itself proves. `reads`: the point only reads, so that device bytes can be
/// set against application bytes.
pub(crate) fn of(
    point: &Point,
    reads: bool,
    facts: &Facts,
    backing: Option<f64>,
    trial: &Trial,
) -> Vec<String> {
    let mut flags = Vec::new();
    if !cache_as_asked(point, reads, facts, backing, trial) {
        flags.push(CACHE.to_owned());
    }
    if trial.direct == Some(DirectIo::Ignored) {
        flags.push(DIRECT_IGNORED.to_owned());
    }
    if trial.verified.is_some_and(|v| v.bad > 0) {
        flags.push(VERIFY.to_owned());
    }
    flags
}

fn cache_as_asked(
    point: &Point,
    reads: bool,
    facts: &Facts,
    backing: Option<f64>,
    trial: &Trial,
) -> bool {
    let from_device = device_share(reads, facts, trial);
    match point.text("cache") {
        "cold" => {
            let cached = trial.resident.unwrap_or(0.0).max(backing.unwrap_or(0.0));
            cached <= SLACK && from_device.is_none_or(|share| share >= 1.0 - SLACK)
        }
        // Past the cache there is nothing warm to prove.
        // What lay in the page cache is not read from a device: bytes that crossed it are others'.
        "warm" if trial.direct != Some(DirectIo::Honoured) => {
            trial.resident.is_some_and(|share| share >= 1.0 - SLACK)
                || from_device.is_none_or(|share| share <= SLACK)
        }
        _ => true,
    }
}

/// Bytes read from devices over bytes read by the application, where both mean something.
fn device_share(reads: bool, facts: &Facts, trial: &Trial) -> Option<f64> {
    let device = trial.device?;
    let known = reads && trial.bytes() > 0 && facts.devices.iter().any(|d| d.physical);
    known.then(|| device.read as f64 / trial.bytes() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::{Device, DeviceBytes, Pass, Verified};

    fn point(cache: &str) -> Point {
        let params = serde_json::json!({ "cache": cache });
        Point::new("file", "x".into(), &params).unwrap()
    }

    fn disk() -> Facts {
        Facts {
            devices: vec![Device {
                physical: true,
                ..Device::default()
            }],
            ..Facts::default()
        }
    }

    fn trial(read: u64, resident: f64) -> Trial {
        Trial {
            passes: vec![Pass {
                elapsed_ns: 1,
                ops: 1,
                bytes: 1000,
            }],
            device: Some(DeviceBytes {
                read,
                ..DeviceBytes::default()
            }),
            resident: Some(resident),
            ..Trial::default()
        }
    }

    #[test]
    fn cold_must_be_proved_by_pages_backing_and_device() {
        let cold = point("cold");
        let flagged = |t: &Trial, backing| !of(&cold, true, &disk(), backing, t).is_empty();
        assert!(!flagged(&trial(1000, 0.0), None));
        assert!(
            !flagged(&trial(2000, 0.05), Some(0.05)),
            "read-ahead is no sin"
        );
        assert!(flagged(&trial(1000, 0.2), None));
        assert!(flagged(&trial(1000, 0.0), Some(0.2)));
        assert!(flagged(&trial(900, 0.0), None));
        assert!(
            of(&cold, true, &Facts::default(), None, &trial(0, 0.0)).is_empty(),
            "no disk below"
        );
        assert!(
            of(&cold, false, &disk(), None, &trial(0, 0.0)).is_empty(),
            "a write"
        );
    }

    #[test]
    fn warm_must_not_come_from_a_device() {
        let warm = point("warm");
        assert!(of(&warm, true, &disk(), Some(1.0), &trial(50, 0.5)).is_empty());
        assert_eq!(of(&warm, true, &disk(), None, &trial(51, 0.5)), [CACHE]);
        assert!(
            of(&warm, true, &disk(), None, &trial(51, 1.0)).is_empty(),
            "somebody else's bytes"
        );
        assert!(of(&point(""), true, &disk(), None, &trial(51, 0.5)).is_empty());
        let direct = Trial {
            direct: Some(DirectIo::Honoured),
            ..trial(1000, 0.0)
        };
        assert!(of(&warm, true, &disk(), None, &direct).is_empty());
    }

    #[test]
    fn says_what_became_of_o_direct_and_of_the_data() {
        let with = |direct, bad| Trial {
            direct: Some(direct),
            verified: Some(Verified { records: 9, bad }),
            ..Trial::default()
        };
        let flags = |t: &Trial| of(&point(""), true, &disk(), None, t);
        assert_eq!(flags(&with(DirectIo::Ignored, 1)), [DIRECT_IGNORED, VERIFY]);
        assert!(flags(&with(DirectIo::Honoured, 0)).is_empty());
    }
}
