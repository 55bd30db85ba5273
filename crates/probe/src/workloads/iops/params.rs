//! Parameters of the workload `iops`.

use layermark_model::{PointError, Quantity, format_milliseconds, format_size};
use serde::{Deserialize, Serialize};

use super::spec::{AccessSpec, PRESETS, SpecLine};
use crate::{
    buffer::ALIGN,
    engines, limits,
    param::{self, Params, Values, scaled},
};

type Row = param::Row<IopsParams>;

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IopsParams {
    /// The full access specification. The six fields below summarise it: its only line, or the
    /// means of the mix and the longest delay.
    pub spec: String,
    pub size: u64,
    pub read: u64,
    pub random: u64,
    pub burst: u64,
    /// Delay after a burst, ms.
    pub delay: u64,
    pub align: u64,
    pub engine: String,
    pub iodepth: u64,
    /// Largest number of I/Os submitted in one call.
    #[serde(default = "batch")]
    pub batch: u64,
    pub workers: u64,
    pub direct: bool,
    pub file_size: u64,
    /// Duration in one stretch, ms; 0: in turns, whose duration the lab chooses.
    pub time: u64,
    /// Duration of the ramp, ms.
    pub ramp: u64,
    /// I/Os per second of all workers together; 0: as many as possible.
    pub rate: u64,
    /// Whether the kernel gets no advice. Points stored before the parameter existed had none.
    #[serde(default = "yes")]
    pub no_advice: bool,
    /// `read`, `write` or `read-write`, derived from the specification.
    #[serde(default)]
    pub op: String,
}

/// Default for points stored before the parameter existed.
fn batch() -> u64 {
    4
}

fn yes() -> bool {
    true
}

/// The word for a specification given by the parameters of one line.
const OWN: &str = "own";

impl Params for IopsParams {
    const ID: &'static str = "iops";
    const DESCRIPTION: &'static [&'static str] = &[
        "spec",
        "file_size",
        "engine",
        "workers",
        "iodepth",
        "rate",
        "direct",
    ];
    const TABLE: &'static [Row] = &[
        Row::text("spec", OWN)
            .list()
            .help("access specification, such as \"4K 67% read 100% random; 64K 100% read 0% random @20%\", or a preset: iometer-default, 4k-read, 4k-write, 4k-rand-read, 4k-rand-write, database, workstation, fileserver, webserver; own: one line, made of size, read, random, burst, delay and align")
            .label(|p| Some(p.spec_label()))
            .part(|p| Some(p.spec.clone())),
        Row::size("size", "4K").list().only(ITS_LINE, is_own).help("bytes of one I/O")
            .axis(Quantity::RequestSize, |p| p.size),
        Row::count("read", "100")
            .list()
            .range(0, 100)
            .only(ITS_LINE, is_own)
            .help("percent of the I/Os that read; the others write"),
        Row::count("random", "100")
            .list()
            .range(0, 100)
            .only(ITS_LINE, is_own)
            .help("percent of the I/Os that go to a random offset; the others continue after the last one"),
        Row::count("burst", "1")
            .range(1, u64::MAX)
            .only("`delay` and `spec` = own", |p| is_own(p) && p.delay > 0)
            .help("I/Os before each delay"),
        Row::duration("delay", "0ms")
            .range(0, LONGEST)
            .only(ITS_LINE, is_own)
            .help("pause after all I/Os of a burst have completed"),
        Row::size("align", "0")
            .only(ITS_LINE, is_own)
            .help("offsets are multiples of this; 0: of the size of the I/O"),
        Row::count("iodepth", "1,4,16,64")
            .list()
            .range(1, limits::DEPTH)
            .help("I/Os in flight in each worker [with pread: 1]")
            .label(|p| Some(format!("iodepth {}", p.iodepth)))
            .part(|p| (p.iodepth > 1).then(|| format!("iodepth {}", p.iodepth)))
            .axis(Quantity::QueueDepth, |p| p.iodepth),
        Row::count("batch", "4")
            .range(1, limits::DEPTH)
            .help("I/Os submitted in one call; the device works on them while the next are prepared"),
        Row::count("workers", "1")
            .list()
            .range(1, limits::THREADS)
            .help("threads, all on the same file")
            .says(|p| (p.workers > 1).then(|| format!("{} workers", p.workers)))
            .axis(Quantity::Threads, |p| p.workers),
        Row::count("rate", "0")
            .list()
            .range(0, FASTEST)
            .help("I/Os a second to start, however fast the layer is; the response time counts from the moment an I/O was due; 0: as many as possible")
            .says(|p| (p.rate > 0).then(|| format!("{} a second", p.rate)))
            .axis(Quantity::OfferedRate, |p| p.rate),
        Row::switch("direct", "false")
            .help("O_DIRECT: bypass the page cache, tried and proved; without it I/Os are served from memory")
            .says(|p| p.direct.then(|| "O_DIRECT".into())),
        Row::word("engine", &["uring", "pread"], "uring")
            .help("how I/Os are made; pread has one in flight in each worker")
            .label(|p| (p.engine != "uring").then(|| format!("engine {}", p.engine)))
            .part(|p| Some(p.engine.clone())),
        Row::switch("no_advice", "false")
            .help("do not tell the kernel whether I/Os are sequential or random, as fio does with fadvise")
            .label(|p| p.no_advice.then(|| "no advice".into())),
        Row::size("file_size", "64M")
            .list()
            .range(1, limits::FILE_SIZE)
            .help("bytes of the file, which is laid out before the clock starts")
            .label(|p| (p.file_size != 64 << 20).then(|| format!("file {}", format_size(p.file_size))))
            .part(|p| Some(format!("{} file", format_size(p.file_size))))
            .axis(Quantity::DataSize, |p| p.file_size),
        Row::duration("time", "0ms")
            .range(0, LONGEST)
            .help("length of a trial in one stretch; 0: in turns with the other layers, or 300ms with a rate or a delay"),
        Row::duration("ramp", "50ms")
            .range(0, LONGEST)
            .help("uncounted work before a stretch; all workers are running when it ends"),
    ];

    /// Makes the specification and its summary agree.
    fn derive(mut self, values: &Values) -> Result<Vec<Self>, PointError> {
        if values.words("engine").contains(&"pread") && !values.given("iodepth") {
            self.iodepth = 1;
        }
        let spec = if self.spec == OWN {
            AccessSpec(vec![SpecLine {
                size: self.size,
                read: self.read,
                random: self.random,
                burst: self.burst.max(1),
                delay_ms: self.delay,
                align: self.align,
                share: 100,
            }])
        } else {
            read_spec(&self.spec)?
        };
        self.size = spec.mean(|l| l.size);
        self.read = spec.mean(|l| l.read);
        self.random = spec.mean(|l| l.random);
        self.burst = spec.mean(|l| l.burst);
        self.delay = spec.0.iter().map(|l| l.delay_ms).max().unwrap_or(0);
        self.align = spec.0.iter().map(SpecLine::step).min().unwrap_or(0);
        self.op = match (spec.reads(), spec.writes()) {
            (true, true) => "read-write",
            (true, false) => "read",
            _ => "write",
        }
        .into();
        self.spec = spec.to_string();
        Ok(vec![self])
    }

    /// Scales the file's size and the duration.
    fn scale(&mut self, scale: f64, _: &Values) {
        // Four times the largest transfer of the presets.
        let least = (2 << 20).min(self.file_size);
        let align = ALIGN as u64;
        self.file_size = (scaled(self.file_size, scale) / align * align).max(least);
        // `time` = 0 and `ramp` = 0 mean "none", so they are not scaled.
        if self.time > 0 {
            self.time = scaled(self.time, scale).max(50.min(self.time));
        }
        if self.ramp > 0 {
            self.ramp = scaled(self.ramp, scale).max(10.min(self.ramp));
        }
    }

    fn check(&self) -> Result<(), PointError> {
        let spec = read_spec(&self.spec)?;
        check_lines(self, &spec)?;
        let queues = engines::find(&self.engine).is_some_and(engines::Engine::queues);
        if self.iodepth > 1 && !queues {
            let must = format!("engine {} has one I/O in flight at a time", self.engine);
            return Err(error("iodepth", &self.iodepth.to_string(), &must)
                .hint("use engine uring, or more `workers`"));
        }
        if self.rate > 0 && spec.pauses() {
            return Err(error(
                "rate",
                &self.rate.to_string(),
                "a delay and a rate contradict each other",
            )
            .hint("leave one of them out"));
        }
        let buffers = spec.largest().next_multiple_of(ALIGN as u64) * self.iodepth * self.workers;
        if buffers > limits::BUFFERS {
            let must = "up to 1G for all workers together, with all I/Os in flight";
            return Err(error("size", &format_size(spec.largest()), must)
                .hint("use a smaller size, `iodepth` or fewer `workers`"));
        }
        Ok(())
    }
}

/// Condition of the parameters of one line, for messages.
const ITS_LINE: &str = "`spec` = own";

fn is_own(p: &IopsParams) -> bool {
    p.spec == OWN
}

/// Reads the specification of a point or of a setting.
pub fn read_spec(text: &str) -> Result<AccessSpec, PointError> {
    AccessSpec::parse(text).map_err(|why| {
        let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
        let error = PointError::of("iops", "spec", format!(" = \"{text}\": {why}"));
        match layermark_model::nearest(text, names.iter().copied()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!(
                "write \"4K 67% read 100% random\", several of these between semicolons, or one of {}",
                names.join(", ")
            )),
        }
    })
}

fn error(name: &str, value: &str, must: &str) -> PointError {
    PointError::of("iops", name, format!(" = {value}: {must}"))
}

/// Longest trial and ramp, milliseconds.
const LONGEST: u64 = 3_600_000;
/// Highest rate: beyond it the moments are less than 100 ns apart.
const FASTEST: u64 = 10_000_000;

/// Duration of a stretch if no time was given, ms.
const STRETCH: u64 = 300;

impl IopsParams {
    /// The specification, or the name of a preset with several lines.
    fn spec_label(&self) -> String {
        let same = |text: &str| AccessSpec::parse(text).is_ok_and(|s| s.to_string() == self.spec);
        let preset = PRESETS.iter().find(|(_, text)| same(text));
        match preset {
            Some((name, _)) if self.spec.contains(';') => (*name).to_owned(),
            _ => self.spec.clone(),
        }
    }

    /// Whether it can be interrupted. I/Os at a fixed rate, and bursts with delays between them,
    /// cannot wait for other layers.
    pub fn divides(&self, spec: &AccessSpec) -> bool {
        self.time == 0 && self.rate == 0 && !spec.pauses()
    }

    /// Duration of one stretch, ms.
    pub fn stretch(&self) -> u64 {
        if self.time == 0 { STRETCH } else { self.time }
    }
}

fn check_lines(p: &IopsParams, spec: &AccessSpec) -> Result<(), PointError> {
    for line in &spec.0 {
        let size = format_size(line.size);
        if line.size == 0 || line.size > limits::RECORD {
            return Err(error("size", &size, "an I/O has between 1 byte and 256M"));
        }
        if line.size > p.file_size {
            let must = format!("larger than the file ({})", format_size(p.file_size));
            return Err(error("size", &size, &must).hint("make `file_size` larger"));
        }
        if line.burst == 0 {
            return Err(error("burst", "0", "it must be at least 1"));
        }
        if line.delay_ms > LONGEST {
            let must = format!("it must be at most {}", format_milliseconds(LONGEST));
            return Err(error("delay", &format_milliseconds(line.delay_ms), &must));
        }
        if line.step() > p.file_size {
            return Err(error(
                "align",
                &format_size(line.align),
                "larger than the file",
            ));
        }
        if p.direct && !(line.size.is_multiple_of(512) && line.step().is_multiple_of(512)) {
            let text = spec.to_string();
            return Err(error("spec", &text, "O_DIRECT needs multiples of the device's block")
                .hint("use sizes and alignments that are multiples of 4K, or of 512 where the device takes it"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::Settings;
    use serde_json::{Value, json};

    #[test]
    fn a_scale_shortens_a_time_and_makes_none() {
        let scaled_to = |params: Value, scale: f64| {
            let Value::Object(params) = params else {
                panic!("not a table")
            };
            let settings = Settings {
                workload: "iops".into(),
                label: None,
                params,
            };
            let points = param::points::<IopsParams>(&settings, scale).unwrap();
            let point = param::read::<IopsParams>(&points[0]).unwrap();
            (point.time, point.ramp, point.stretch())
        };
        assert_eq!(
            scaled_to(json!({"rate": 500, "ramp": "0ms"}), 0.001),
            (0, 0, STRETCH)
        );
        assert_eq!(
            scaled_to(json!({"time": "2s", "ramp": "100ms"}), 0.1),
            (200, 10, 200)
        );
        assert_eq!(scaled_to(json!({"time": "2s"}), 0.001), (50, 10, 50));
        assert_eq!(scaled_to(json!({"time": "20ms"}), 0.001), (20, 10, 20));
    }

    #[test]
    fn pauses_are_refused_with_the_parameter_that_is_wrong() {
        for (params, says) in [
            (
                json!({"delay": "2h"}),
                "`delay` = 2h: it must be at most 1h",
            ),
            (
                json!({"spec": "4K delay 2h"}),
                "`delay` = 2h: it must be at most 1h",
            ),
            (
                json!({"delay": "5ms", "burst": 0}),
                "`burst` = 0: it must be at least 1",
            ),
            (
                json!({"spec": "4K burst 0 delay 5ms"}),
                "`burst` = 0: it must be at least 1",
            ),
            (json!({"delay": "0.5ms"}), "`0.5ms` is shorter than 1ms"),
            (json!({"time": "0.9ms"}), "`0.9ms` is shorter than 1ms"),
        ] {
            let Value::Object(map) = params else {
                panic!("not a table")
            };
            let settings = Settings {
                workload: "iops".into(),
                label: None,
                params: map,
            };
            let e = param::points::<IopsParams>(&settings, 1.0).unwrap_err();
            assert!(e.message.contains(says), "{e}");
        }
    }
}
