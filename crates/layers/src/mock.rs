//! A scripted probe without a file system, for tests of the lab, the store and the reports. It
//! answers at once with exact values, so that the expected results are known.

use std::io;

use layermark_model::{CpuTime, DroppedCaches, Facts, Missing, Spec, parse_duration};

use crate::{
    Base, End, Group, KernelCaches, LayerError, LayerInfo, Place, PlaceInfo, Storage, Undo, Wire,
    kind::LayerKind,
    mock_probe::MockScript,
    options::{bad, layer_options},
    scripted,
};

/// The scripted layer.
pub(crate) struct Mock;

layer_options! {
    pub(crate) struct MockOptions {
        /// nanoseconds an operation
        ns: String = "1000",
        /// standard deviation of the logarithm of a trial's value
        noise: String = "0",
        /// AT:FACTOR, from trial AT on (from 0) times FACTOR
        step: String = "",
        /// real time a trial takes, such as 200ms
        take: String = "0",
        /// the probe dies in the trial after this many
        die_after as "die-after": String = "",
        /// the probe answers rubbish after this many trials
        rubbish_after as "rubbish-after": String = "",
        /// the probe falls silent after this many trials
        silent_after as "silent-after": String = "",
        /// the probe reports an error in the trial after this many
        error_after as "error-after": String = "",
        /// version of the protocol that the probe says it speaks
        protocol: String = "",
        /// cannot be set up
        fail_open as "fail-open": bool = "off",
        /// fails half-way through setting up
        fail_mount as "fail-mount": bool = "off",
        /// the probe cannot be started
        fail_start as "fail-start": bool = "off",
        /// the layer is gone when its facts are asked for
        fail_facts as "fail-facts": bool = "off",
        /// nothing can be written
        read_only as "read-only": bool = "off",
    }
}

impl LayerKind for Mock {
    const ID: &'static str = "mock";
    type Options = MockOptions;

    fn describe(_: &Spec, _: &MockOptions) -> LayerInfo {
        LayerInfo {
            storage: Storage::Nowhere,
            ..LayerInfo::new(
                Group::UserSpace,
                "a scripted probe without a file system, for tests",
            )
        }
    }

    fn check(spec: &Spec, options: &MockOptions) -> Result<(), LayerError> {
        script(spec, options).map(drop)
    }

    fn missing(_: &Spec, _: &MockOptions) -> Vec<Missing> {
        Vec::new()
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let script = script(spec, &options)?;
        let fail = |what| {
            let e = io::Error::other("the mock was asked to");
            Err(LayerError::io(&spec.to_string(), what, &base.dir)(e))
        };
        if options.fail_open {
            return fail("open");
        }
        let trace = base.dir.join("mock");
        std::fs::create_dir(&trace).map_err(LayerError::io(&spec.to_string(), "make", &trace))?;
        let made = trace.clone();
        undo.push(format!("remove {}", made.display()), move || {
            std::fs::remove_dir(made)
        });
        if options.fail_mount {
            return fail("mount");
        }
        Ok(Box::new(MockPlace {
            spec: spec.clone(),
            info: PlaceInfo {
                read_only: options.read_only,
                ..PlaceInfo::of_dir(trace)
            },
            options,
            script,
        }))
    }
}

fn script(spec: &Spec, options: &MockOptions) -> Result<MockScript, LayerError> {
    let take = parse_duration(&options.take)
        .map_err(|e| bad(spec, "take", &options.take, format!("cannot be read: {e}")))?;
    let count = |name, text| count(spec, name, text);
    Ok(MockScript {
        ns: positive(spec, "ns", &options.ns)?.unwrap_or(1000.0),
        noise: positive(spec, "noise", &options.noise)?.unwrap_or(0.0),
        step: step(spec, &options.step)?,
        take,
        die_after: count("die-after", &options.die_after)?,
        rubbish_after: count("rubbish-after", &options.rubbish_after)?,
        silent_after: count("silent-after", &options.silent_after)?,
        error_after: count("error-after", &options.error_after)?,
        protocol: count("protocol", &options.protocol)?,
        done: 0,
    })
}

fn positive(spec: &Spec, name: &str, text: &str) -> Result<Option<f64>, LayerError> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && n >= 0.0 => Ok(Some(n)),
        _ => Err(bad(
            spec,
            name,
            text,
            "is not a number of at least 0".into(),
        )),
    }
}

fn count(spec: &Spec, name: &str, text: &str) -> Result<Option<u64>, LayerError> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().map(Some);
    number.map_err(|_| bad(spec, name, text, "is not a whole number".into()))
}

fn step(spec: &Spec, text: &str) -> Result<Option<(u64, f64)>, LayerError> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = text
        .split_once(':')
        .and_then(|(at, factor)| Some((at.parse().ok()?, factor.parse::<f64>().ok()?)))
        .filter(|(_, factor)| factor.is_finite() && *factor > 0.0);
    match parsed {
        Some(step) => Ok(Some(step)),
        None => Err(bad(
            spec,
            "step",
            text,
            "is not AT:FACTOR, such as 20:1.5".into(),
        )),
    }
}

struct MockPlace {
    spec: Spec,
    options: MockOptions,
    info: PlaceInfo,
    script: MockScript,
}

impl Place for MockPlace {
    fn info(&self) -> &PlaceInfo {
        &self.info
    }

    fn start(&mut self, end: End) -> Result<Wire, LayerError> {
        if end == End::Near {
            let no = io::ErrorKind::Unsupported.into();
            return Err(LayerError::io(
                "",
                "start a second probe for",
                &self.info.dir,
            )(no));
        }
        let name = self.spec.to_string();
        if self.options.fail_start {
            let e = io::Error::other("the mock was asked to");
            return Err(LayerError::io(&name, "start the probe in", &self.info.dir)(
                e,
            ));
        }
        let connected = scripted::connect(&["mock: last words"], self.script.clone());
        let failed = LayerError::io(&name, "start the mock probe in", &self.info.dir);
        Ok(connected.map_err(failed)?.0)
    }

    fn facts(&self) -> Result<Facts, LayerError> {
        if self.options.fail_facts {
            return Err(LayerError::NotMounted {
                layer: self.spec.to_string(),
                path: self.info.dir.clone(),
                expected: "mock".into(),
                found: "gone, as the mock was asked to".into(),
            });
        }
        let mut facts = Facts::default();
        facts
            .notes
            .insert("mock".into(), "nothing is measured".into());
        Ok(facts)
    }

    fn drop_caches(&mut self, _: KernelCaches) -> Result<DroppedCaches, LayerError> {
        Ok(DroppedCaches {
            how: vec!["mock".into()],
            complete: true,
        })
    }

    fn helper_cpu(&self) -> Result<CpuTime, LayerError> {
        Ok(CpuTime::default())
    }
}
