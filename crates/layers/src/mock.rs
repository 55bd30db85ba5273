//! A scripted probe without a file system, for tests of the lab, the store and the reports. It
//! answers at once with exact values, so that the expected results are known.

use std::{
    io,
    path::{Path, PathBuf},
};

use layermark_model::{CpuTime, DroppedCaches, Facts, Missing, Spec, parse_duration};

use crate::{
    Base, Group, KernelCaches, Layer, LayerError, LayerOption, Place, Storage, Undo, Wire,
    mock_probe::{self, Script},
    options::{bad, on, value},
    scripted,
};

/// The scripted layer.
pub(crate) struct Mock;

const fn number(name: &'static str, default: &'static str, help: &'static str) -> LayerOption {
    LayerOption {
        name,
        values: &[],
        default,
        help,
    }
}

const fn switch(name: &'static str, help: &'static str) -> LayerOption {
    LayerOption {
        name,
        values: &["off", "on"],
        default: "off",
        help,
    }
}

const OPTIONS: &[LayerOption] = &[
    number("ns", "1000", "nanoseconds an operation"),
    number(
        "noise",
        "0",
        "standard deviation of the logarithm of a trial's value",
    ),
    number(
        "step",
        "",
        "AT:FACTOR, from trial AT on (from 0) times FACTOR",
    ),
    number("take", "0", "real time a trial takes, such as 200ms"),
    number(
        "die-after",
        "",
        "the probe dies in the trial after this many",
    ),
    number(
        "rubbish-after",
        "",
        "the probe answers rubbish after this many trials",
    ),
    number(
        "silent-after",
        "",
        "the probe falls silent after this many trials",
    ),
    number(
        "error-after",
        "",
        "the probe reports an error in the trial after this many",
    ),
    number(
        "protocol",
        "",
        "version of the protocol that the probe says it speaks",
    ),
    switch("fail-open", "cannot be set up"),
    switch("fail-mount", "fails half-way through setting up"),
    switch("fail-start", "the probe cannot be started"),
    switch(
        "fail-facts",
        "the layer is gone when its facts are asked for",
    ),
    switch("read-only", "nothing can be written"),
];

impl Layer for Mock {
    fn id(&self) -> &'static str {
        "mock"
    }

    fn group(&self, _: &str) -> Group {
        Group::UserSpace
    }

    fn about(&self, _: &str) -> &'static str {
        "a scripted probe without a file system, for tests"
    }

    fn options(&self) -> &'static [LayerOption] {
        OPTIONS
    }

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
        script(spec).map(drop)
    }

    fn storage(&self, _: &Spec) -> Storage {
        Storage::Nowhere
    }

    fn missing(&self, _: &Spec) -> Vec<Missing> {
        Vec::new()
    }

    fn open(
        &self,
        base: &Base,
        spec: &Spec,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let script = script(spec)?;
        let fail = |what| {
            let e = io::Error::other("the mock was asked to");
            Err(LayerError::io(&spec.to_string(), what, &base.dir)(e))
        };
        if on(spec, OPTIONS, "fail-open") {
            return fail("open");
        }
        let trace = base.dir.join("mock");
        std::fs::create_dir(&trace).map_err(LayerError::io(&spec.to_string(), "make", &trace))?;
        let made = trace.clone();
        undo.push(format!("remove {}", made.display()), move || {
            std::fs::remove_dir(made)
        });
        if on(spec, OPTIONS, "fail-mount") {
            return fail("mount");
        }
        Ok(Box::new(MockPlace {
            spec: spec.clone(),
            dir: trace,
            script,
        }))
    }
}

fn script(spec: &Spec) -> Result<Script, LayerError> {
    let take = value(spec, OPTIONS, "take");
    let take = parse_duration(take)
        .map_err(|e| bad(spec, "take", take, format!("cannot be read: {e}")))?;
    Ok(Script {
        ns: positive(spec, "ns")?.unwrap_or(1000.0),
        noise: positive(spec, "noise")?.unwrap_or(0.0),
        step: step(spec)?,
        take,
        die_after: count(spec, "die-after")?,
        rubbish_after: count(spec, "rubbish-after")?,
        silent_after: count(spec, "silent-after")?,
        error_after: count(spec, "error-after")?,
        protocol: count(spec, "protocol")?,
    })
}

fn positive(spec: &Spec, name: &str) -> Result<Option<f64>, LayerError> {
    let text = value(spec, OPTIONS, name);
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

fn count(spec: &Spec, name: &str) -> Result<Option<u64>, LayerError> {
    let text = value(spec, OPTIONS, name);
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().map(Some);
    number.map_err(|_| bad(spec, name, text, "is not a whole number".into()))
}

fn step(spec: &Spec) -> Result<Option<(u64, f64)>, LayerError> {
    let text = value(spec, OPTIONS, "step");
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
    dir: PathBuf,
    script: Script,
}

impl MockPlace {
    fn fail_if(&self, option: &str, what: &str) -> Result<(), LayerError> {
        if on(&self.spec, OPTIONS, option) {
            let e = io::Error::other("the mock was asked to");
            return Err(LayerError::io(&self.spec.to_string(), what, &self.dir)(e));
        }
        Ok(())
    }
}

impl Place for MockPlace {
    fn dir(&self) -> &Path {
        &self.dir
    }

    fn read_only(&self) -> bool {
        on(&self.spec, OPTIONS, "read-only")
    }

    fn start(&mut self) -> Result<Wire, LayerError> {
        self.fail_if("fail-start", "start the probe in")?;
        let script = self.script.clone();
        let serve = move |input, output| mock_probe::serve(&script, input, output);
        let (wire, _) = scripted::connect(&["mock: last words"], serve).map_err(LayerError::io(
            &self.spec.to_string(),
            "start the mock probe in",
            &self.dir,
        ))?;
        Ok(wire)
    }

    fn facts(&self) -> Result<Facts, LayerError> {
        if on(&self.spec, OPTIONS, "fail-facts") {
            return Err(LayerError::NotMounted {
                layer: self.spec.to_string(),
                path: self.dir.clone(),
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
