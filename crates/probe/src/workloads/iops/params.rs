//! Parameters of the workload `iops`.

use layermark_model::{Param, ParamKind, Point, PointError, Settings, format_size};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::spec::{AccessSpec, PRESETS, SpecLine};
use crate::{buffer::ALIGN, engines, limits, params};

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IopsParams {
    /// The access specification in full. The six below it sum it up: its only line, or means of
    /// the mix and the longest delay.
    pub spec: String,
    pub size: u64,
    pub read: u64,
    pub random: u64,
    pub burst: u64,
    /// Milliseconds.
    pub delay: u64,
    pub align: u64,
    pub engine: String,
    pub iodepth: u64,
    /// I/Os handed over in one call, at most.
    #[serde(default = "batch")]
    pub batch: u64,
    pub workers: u64,
    pub direct: bool,
    pub file_size: u64,
    /// Milliseconds in one stretch; 0: turns, as long as the lab says.
    pub time: u64,
    /// Milliseconds.
    pub ramp: u64,
    /// I/Os a second of all workers together; 0 is as many as there can be.
    pub rate: u64,
    /// The kernel is not told of the order. Points that were stored before it could be, were not.
    #[serde(default = "yes")]
    pub no_advice: bool,
    /// `read`, `write` or `read-write`, for the words of reports.
    pub op: String,
}

/// Of points stored before there was a choice.
fn batch() -> u64 {
    4
}

fn yes() -> bool {
    true
}

/// The word for a specification that the other parameters say.
const OWN: &str = "own";

const LINE: [&str; 6] = ["size", "read", "random", "burst", "delay", "align"];

pub const PARAMS: &[Param] = &[
    Param::new(
        "spec",
        ParamKind::Text,
        OWN,
        true,
        "access specification, such as \"4K 67% read 100% random; 64K 100% read 0% random @20%\", or a preset: iometer-default, 4k-read, 4k-write, 4k-rand-read, 4k-rand-write, database, workstation, fileserver, webserver; own: one line, made of size, read, random, burst, delay and align",
    ),
    Param::new("size", ParamKind::Size, "4K", true, "bytes of one I/O"),
    Param::new(
        "read",
        ParamKind::Count,
        "100",
        true,
        "percent of the I/Os that read; the others write",
    ),
    Param::new(
        "random",
        ParamKind::Count,
        "100",
        true,
        "percent of the I/Os that go to a random place; the others go on behind the last one",
    ),
    Param::new(
        "burst",
        ParamKind::Count,
        "1",
        false,
        "I/Os before each delay",
    ),
    Param::new(
        "delay",
        ParamKind::Duration,
        "0ms",
        false,
        "time in which nothing is begun, after all I/Os of a burst have ended",
    ),
    Param::new(
        "align",
        ParamKind::Size,
        "0",
        false,
        "places in the file are multiples of this; 0 is the I/O's own size",
    ),
    Param::new(
        "engine",
        ParamKind::Word(&["uring", "pread"]),
        "uring",
        false,
        "how I/Os are made; pread has one under way in each worker",
    ),
    Param::new(
        "iodepth",
        ParamKind::Count,
        "1,4,16,64",
        true,
        "I/Os under way at once in each worker [with pread: 1]",
    ),
    Param::new(
        "batch",
        ParamKind::Count,
        "4",
        false,
        "I/Os handed over in one call; the device works on them while the next are prepared",
    ),
    Param::new(
        "workers",
        ParamKind::Count,
        "1",
        true,
        "threads, all on the same file",
    ),
    Param::new(
        "direct",
        ParamKind::Switch,
        "false",
        false,
        "O_DIRECT: past the page cache, tried and proved; without it I/Os are served from memory",
    ),
    Param::new(
        "file_size",
        ParamKind::Size,
        "64M",
        true,
        "bytes of the file, laid out before the clock",
    ),
    Param::new(
        "time",
        ParamKind::Duration,
        "0ms",
        false,
        "length of a trial in one stretch; 0 is in turns with the other layers, or 300ms at a rate and with delays",
    ),
    Param::new(
        "ramp",
        ParamKind::Duration,
        "50ms",
        false,
        "work before one stretch that is not counted; all workers are at work when it ends",
    ),
    Param::new(
        "rate",
        ParamKind::Count,
        "0",
        true,
        "I/Os a second that are begun, whatever the layer can do; their response time counts from the moment each was due; 0 is as many as there can be",
    ),
    Param::new(
        "no_advice",
        ParamKind::Switch,
        "false",
        false,
        "do not tell the kernel whether I/Os go in order or to random places, as fio does (fadvise)",
    ),
];

/// Settings expanded to points, in the order of the parameters.
pub fn points(settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
    let values = params::read(PARAMS, settings)?;
    let specs = values.all("spec");
    let own = specs.iter().any(|s| s.as_str() == Some(OWN));
    if let Some(name) = LINE.iter().find(|n| values.given(n) && !own) {
        return Err(
            PointError::new(format!("iops: `{name}` has no effect beside `spec`"))
                .hint("write it into the specification, or leave `spec` out"),
        );
    }
    if values.given("burst") && !values.given("delay") {
        return Err(
            PointError::new("iops: `burst` has no effect without `delay`")
                .hint("say how long nothing is begun after each burst: delay = \"5ms\""),
        );
    }
    let pread = values.all("engine").iter().any(|e| e == "pread");
    let mut all: Vec<IopsParams> = Vec::new();
    for mut map in values.combinations(PARAMS)? {
        map.insert("op".into(), Value::String(String::new()));
        let mut p: IopsParams = serde_json::from_value(Value::Object(map))
            .map_err(|e| PointError::new(format!("iops: {e}")))?;
        if pread && !values.given("iodepth") {
            p.iodepth = 1;
        }
        settle_spec(&mut p)?;
        scale_down(&mut p, scale);
        check(&p)?;
        if !all.contains(&p) {
            all.push(p);
        }
    }
    let labels = params::labels(settings, &all, full_label, parts);
    labels
        .into_iter()
        .zip(&all)
        .map(|(label, p)| Point::new("iops", label, p))
        .collect()
}

/// Makes the specification and its summary say the same.
fn settle_spec(p: &mut IopsParams) -> Result<(), PointError> {
    let spec = if p.spec == OWN {
        for (name, percent) in [("read", p.read), ("random", p.random)] {
            if percent > 100 {
                let value = percent.to_string();
                return Err(error(name, &value, "a percentage between 0 and 100"));
            }
        }
        AccessSpec(vec![SpecLine {
            size: p.size,
            read: p.read,
            random: p.random,
            burst: p.burst,
            delay_ms: p.delay,
            align: p.align,
            share: 100,
        }])
    } else {
        read_spec(&p.spec)?
    };
    p.size = spec.mean(|l| l.size);
    p.read = spec.mean(|l| l.read);
    p.random = spec.mean(|l| l.random);
    p.burst = spec.mean(|l| l.burst);
    p.delay = spec.0.iter().map(|l| l.delay_ms).max().unwrap_or(0);
    p.align = spec.0.iter().map(SpecLine::step).min().unwrap_or(0);
    p.op = match (spec.reads(), spec.writes()) {
        (true, true) => "read-write",
        (true, false) => "read",
        _ => "write",
    }
    .into();
    p.spec = spec.to_string();
    Ok(())
}

/// The specification of a point or of a setting.
pub fn read_spec(text: &str) -> Result<AccessSpec, PointError> {
    AccessSpec::parse(text).map_err(|why| {
        let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
        let error = PointError::new(format!("iops: `spec` = \"{text}\": {why}"));
        match layermark_model::nearest(text, names.iter().copied()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!(
                "write \"4K 67% read 100% random\", several of these between semicolons, or one of {}",
                names.join(", ")
            )),
        }
    })
}

/// A small run of a large plan: a smaller file and less time.
fn scale_down(p: &mut IopsParams, scale: f64) {
    if (scale - 1.0).abs() <= f64::EPSILON {
        return;
    }
    // Four of the largest transfers that presets have.
    let least = (2 << 20).min(p.file_size);
    p.file_size = (params::scaled(p.file_size, scale) / ALIGN as u64 * ALIGN as u64).max(least);
    p.time = params::scaled(p.time, scale).max(50.min(p.time));
    p.ramp = params::scaled(p.ramp, scale).max(10.min(p.ramp));
}

fn error(name: &str, value: &str, must: &str) -> PointError {
    PointError::new(format!("iops: `{name}` = {value}: {must}"))
}

/// Longest trial and ramp, milliseconds.
const LONGEST: u64 = 3_600_000;
/// Highest rate: beyond it the moments are less than 100 ns apart.
const FASTEST: u64 = 10_000_000;

/// One stretch where no time was given, milliseconds.
const STRETCH: u64 = 300;

impl IopsParams {
    /// Whether it can be interrupted: the moments of a rate, and bursts with delays between them,
    /// go on whatever others do.
    pub fn divides(&self, spec: &AccessSpec) -> bool {
        self.time == 0 && self.rate == 0 && !spec.pauses()
    }

    /// Milliseconds of one stretch.
    pub fn stretch(&self) -> u64 {
        if self.time == 0 { STRETCH } else { self.time }
    }
}

/// What a point may be. Asked when a plan is read, and again in the probe.
pub fn check(p: &IopsParams) -> Result<(), PointError> {
    let spec = read_spec(&p.spec)?;
    check_lines(p, &spec)?;
    let range = |name, value: u64, low, high| {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        let must = format!("between {low} and {high}");
        Err(error(name, &value.to_string(), &must))
    };
    range("iodepth", p.iodepth, 1, limits::DEPTH)?;
    range("batch", p.batch, 1, limits::DEPTH)?;
    range("workers", p.workers, 1, limits::THREADS)?;
    range("time", p.time, 0, LONGEST)?;
    range("ramp", p.ramp, 0, LONGEST)?;
    range("rate", p.rate, 0, FASTEST)?;
    if p.file_size > limits::FILE_SIZE {
        return Err(error(
            "file_size",
            &format_size(p.file_size),
            "a file may have up to 16T",
        ));
    }
    let queues = engines::find(&p.engine).is_some_and(engines::Engine::queues);
    if p.iodepth > 1 && !queues {
        let must = format!("engine {} has one I/O under way at a time", p.engine);
        return Err(error("iodepth", &p.iodepth.to_string(), &must)
            .hint("use engine uring, or more `workers`"));
    }
    if p.rate > 0 && spec.pauses() {
        return Err(error(
            "rate",
            &p.rate.to_string(),
            "a delay and a rate contradict each other",
        )
        .hint("leave one of them out"));
    }
    let buffers = spec.largest().next_multiple_of(ALIGN as u64) * p.iodepth * p.workers;
    if buffers > limits::BUFFERS {
        let must = "up to 1G for all workers together, with all that they have under way";
        return Err(error("size", &format_size(spec.largest()), must)
            .hint("use a smaller size, `iodepth` or fewer `workers`"));
    }
    Ok(())
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
        if line.burst == 0 || line.delay_ms > LONGEST {
            return Err(error(
                "burst",
                &line.burst.to_string(),
                "at least 1, with a delay of up to 1h",
            ));
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

fn full_label(p: &IopsParams) -> String {
    let parts = parts(p);
    let mut label = parts[0].clone();
    for part in parts[1..].iter().filter(|p| !p.is_empty()) {
        label.push_str(", ");
        label.push_str(part);
    }
    label
}

/// One text for each parameter; empty where it is the default and need not be said.
fn parts(p: &IopsParams) -> Vec<String> {
    let when = |on: bool, text: String| if on { text } else { String::new() };
    let preset = PRESETS
        .iter()
        .find(|(_, text)| AccessSpec::parse(text).is_ok_and(|s| s.to_string() == p.spec));
    // Several lines are long; a preset's name is what people know.
    let mix = p.spec.contains(';');
    let spec = preset
        .filter(|_| mix)
        .map_or(p.spec.as_str(), |(name, _)| *name);
    vec![
        spec.to_owned(),
        format!("iodepth {}", p.iodepth),
        when(p.workers > 1, format!("{} workers", p.workers)),
        when(p.rate > 0, format!("{} a second", p.rate)),
        when(p.direct, "O_DIRECT".into()),
        when(p.engine != "uring", format!("engine {}", p.engine)),
        when(p.no_advice, "no advice".into()),
        when(
            p.file_size != 64 << 20,
            format!("file {}", format_size(p.file_size)),
        ),
    ]
}
