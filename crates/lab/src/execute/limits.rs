//! Limits of control groups that hold for a layer's probe and programs.

use layermark_model::{Device, Limit, Limited};
use layermark_sys::cgroup::{self, GroupLimit, Throttles};

/// The limits of the probe's groups and of those that only the helpers are in, the lowest of each kind; and
/// the counters of the CPU quotas among them. A rate for a device that is not one of `devices` is left out.
pub(crate) fn of(
    probe: Option<u32>,
    helpers: &[u32],
    devices: &[Device],
) -> (Vec<Limit>, Throttles) {
    let of_probe: Vec<GroupLimit> = probe.map(cgroup::limits).unwrap_or_default();
    let mut all: Vec<(bool, GroupLimit)> = of_probe.into_iter().map(|l| (false, l)).collect();
    for limit in helpers.iter().flat_map(|pid| cgroup::limits(*pid)) {
        if all.iter().all(|(_, known)| *known != limit) {
            all.push((true, limit));
        }
    }
    let throttles = Throttles::of(all.iter().map(|(_, limit)| limit));
    (lowest(all, devices), throttles)
}

/// Adds the quota that a probe found itself, if it is in a control group that is not seen from here.
pub(crate) fn add_quota(limits: &mut Vec<Limit>, quota: Option<f64>) {
    let known = limits.iter().any(|l| l.of == Limited::Cpu && !l.helper);
    limits.extend(quota.filter(|_| !known).map(Limit::of_probe));
}

fn lowest(all: Vec<(bool, GroupLimit)>, devices: &[Device]) -> Vec<Limit> {
    let mut found: Vec<Limit> = Vec::new();
    for (helper, limit) in all {
        let named = |number: &String| devices.iter().find(|d| d.number == *number);
        let device = limit.device.as_ref().map(named);
        // The limit of a device that the layer does not use.
        if device.is_some_and(|d| d.is_none()) {
            continue;
        }
        let limit = Limit {
            helper,
            of: limit.of,
            rate: limit.rate,
            device: device.flatten().map(|d| d.name.clone()),
            file: limit.file.to_owned(),
            uncounted: false,
        };
        let alike =
            |l: &&mut Limit| (l.helper, l.of, &l.device) == (limit.helper, limit.of, &limit.device);
        match found.iter_mut().find(alike) {
            Some(known) if known.rate <= limit.rate => {}
            Some(known) => *known = limit,
            None => found.push(limit),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_of_each_kind_holds() {
        let limit = |of, rate, device: Option<&str>| GroupLimit {
            of,
            rate,
            device: device.map(str::to_owned),
            file: "io.max",
            group: "/cg".into(),
        };
        let devices = [Device {
            name: "vda".into(),
            number: "254:0".into(),
            ..Device::default()
        }];
        let disk = Some("254:0");
        let all = vec![
            (false, limit(Limited::Cpu, 0.5, None)),
            (false, limit(Limited::Cpu, 0.2, None)),
            (false, limit(Limited::WrittenBytes, 9.0, disk)),
            (false, limit(Limited::ReadBytes, 9.0, Some("8:0"))),
            (true, limit(Limited::Cpu, 0.05, None)),
        ];
        let found = lowest(all, &devices);
        let found: Vec<_> = found
            .iter()
            .map(|l| (l.helper, l.of, l.rate, l.device.as_deref()))
            .collect();
        assert_eq!(
            found,
            [
                (false, Limited::Cpu, 0.2, None),
                (false, Limited::WrittenBytes, 9.0, Some("vda")),
                (true, Limited::Cpu, 0.05, None),
            ]
        );
    }

    #[test]
    fn a_quota_that_only_the_probe_sees_is_a_limit() {
        let mut limits = Vec::new();
        add_quota(&mut limits, None);
        assert_eq!(limits, []);
        for quota in [0.2, 0.1] {
            add_quota(&mut limits, Some(quota));
        }
        let rates: Vec<_> = limits.iter().map(|l| (l.of, l.helper, l.rate)).collect();
        assert_eq!(rates, [(Limited::Cpu, false, 0.2)], "one that is known");
    }

    #[test]
    fn a_process_without_a_quota_has_no_counters() {
        let (limits, throttles) = of(None, &[], &[]);
        assert!(limits.is_empty() && throttles.sum().is_none());
    }
}
