//! `matrix = "iozone"`: file sizes by record sizes, each with several tests.

use layermark_model::{
    IOZONE_TESTS, Param, ParamKind, PointError, Settings, format_size, is_like_fio,
};

use super::params::FileParams;
use crate::param::{Applied, MAX_POINTS, Values, expand, too_many_points};

/// Parameters that select points and are not part of one.
pub const PARAMS: &[Param] = &[
    Param::new(
        "matrix",
        ParamKind::Word(&["none", "iozone"]),
        "none",
        false,
        "iozone: every file size with every record size and test, as `iozone -a`; on the command line 3 blocks of it, unless --blocks, --budget, --precision or --profile is given",
    ),
    Param::new(
        "tests",
        ParamKind::Word(IDS),
        "usual",
        true,
        "matrix: its tests; usual is write to fread, tests 0 to 7 of iozone",
    ),
    Param::new(
        "min_file_size",
        ParamKind::Size,
        "64K",
        false,
        "matrix: smallest file",
    ),
    Param::new(
        "max_file_size",
        ParamKind::Size,
        "512M",
        false,
        "matrix: largest file",
    ),
    Param::new(
        "no_cut_off",
        ParamKind::Switch,
        "false",
        false,
        "matrix: records below 64K also for files above 16M",
    ),
    Param::new(
        "no_retest",
        ParamKind::Switch,
        "false",
        false,
        "matrix: no rewrite and no reread",
    ),
    Param::new(
        "like",
        ParamKind::Text,
        "",
        false,
        "arguments of iozone, such as \"-Racb -g 64M\" (docs/src/iozone.md lists them), or of fio, such as \"--rw=randread --bs=4k --size=64m\"",
    ),
];

/// Tests with a number below this run by default.
const USUAL: u64 = 8;

/// Words of the parameter `tests`.
pub const IDS: &[&str] = &{
    let mut ids = ["usual"; 1 + IOZONE_TESTS.len()];
    let mut at = 0;
    while at < IOZONE_TESTS.len() {
        ids[1 + at] = IOZONE_TESTS[at].id;
        at += 1;
    }
    ids
};

/// Smallest and largest record, bytes. For files, the defaults of the parameters apply.
const RECORD: (u64, u64) = (4 << 10, 16 << 20);
/// Minimum duration of a trial, ms. A matrix has so many trials that each has to be short.
const MIN_MS: u64 = 1;
/// Files larger than the first number have no records smaller than the second, bytes.
const CUT_OFF: (u64, u64) = (16 << 20, 64 << 10);

/// Whether the settings request a matrix.
pub fn is_asked(settings: &Settings) -> bool {
    let params = &settings.params;
    let like_iozone = params.get("like").is_some_and(|like| !is_like_fio(like));
    like_iozone || params.get("matrix").is_some_and(|m| m == "iozone")
}

/// A matrix of points.
pub struct Matrix<'a>(&'a Values);

impl<'a> Matrix<'a> {
    /// `None` when the settings request no matrix.
    pub fn of(values: &'a Values) -> Result<Option<Self>, PointError> {
        if !values.words("matrix").contains(&"iozone") {
            let names = PARAMS.iter().map(|p| p.name).filter(|n| *n != "matrix");
            return match names.into_iter().find(|name| values.given(name)) {
                None => Ok(None),
                Some(name) => Err(
                    PointError::of("file", name, " has no effect without `matrix`")
                        .hint(format!("leave `{name}` out, or add matrix = iozone")),
                ),
            };
        }
        if values.given("op") {
            return Err(PointError::of(
                "file",
                "op",
                " has no effect in a matrix, which has its own operations",
            )
            .hint("choose with `tests`: write, read, random, backward, ..."));
        }
        Ok(Some(Self(values)))
    }

    /// Every cell, by file size, then record size, then test.
    pub fn expand(&self, scale: f64, applied: &mut Applied) -> Result<Vec<FileParams>, PointError> {
        let values = self.0;
        let (smallest, largest) = (self.size("min_file_size"), self.size("max_file_size"));
        if smallest == 0 {
            return Err(PointError::of(
                "file",
                "min_file_size",
                " = 0: a file has at least 1 byte",
            ));
        }
        if smallest > largest {
            return Err(PointError::of(
                "file",
                "min_file_size",
                format!(
                    " = {} is above `max_file_size` = {}",
                    format_size(smallest),
                    format_size(largest)
                ),
            )
            .hint("swap them, or leave one out"));
        }
        let files = given(values, "file_size").unwrap_or_else(|| doubling((smallest, largest)));
        let records = given(values, "record");
        let cut_off = records.is_none() && !values.given("file_size") && !values.flag("no_cut_off");
        let records = records.unwrap_or_else(|| doubling(RECORD));
        let tests = self.tests()?;
        let mut all: Vec<FileParams> = Vec::new();
        for file in files {
            let least = if cut_off && file > CUT_OFF.0 {
                CUT_OFF.1
            } else {
                0
            };
            let fits = |r: &&u64| **r <= file && **r >= least;
            let largest = records.iter().filter(fits).max();
            for record in records.iter().filter(fits) {
                for (op, engine) in &tests {
                    let mut cell = cell(values, (file, *record), op, *engine);
                    // The debt depends on the size of the file, not on the record.
                    if !values.given("no_debt") {
                        let rest = Some(record) != largest;
                        cell = cell.with("no_debt", vec![rest.into()]);
                    }
                    for p in expand::<FileParams>(&cell, scale, applied)? {
                        match all.iter_mut().find(|known| known.is_like(&p)) {
                            Some(known) => known.no_debt &= p.no_debt,
                            None => all.push(p),
                        }
                        if all.len() > MAX_POINTS {
                            return Err(too_many_points("file"));
                        }
                    }
                }
            }
        }
        if all.is_empty() {
            return Err(PointError::of(
                "file",
                "record",
                ": every record is larger than every file",
            )
            .hint("add a larger `file_size` or a smaller `record`"));
        }
        Ok(all)
    }

    /// Operations and engines of the requested tests.
    fn tests(&self) -> Result<Vec<(&'static str, Option<&'static str>)>, PointError> {
        let asked = self.0.words("tests");
        let retest = !self.0.flag("no_retest");
        let mut tests = Vec::new();
        for test in &IOZONE_TESTS {
            let usual = test.number < USUAL && asked.contains(&"usual");
            if usual || asked.contains(&test.id) {
                let steps = test.steps.iter().filter(|s| retest || !s.again);
                tests.extend(steps.map(|s| (s.op, test.engine)));
            }
        }
        let threads = given(self.0, "threads").unwrap_or_default();
        if tests.iter().any(|(op, _)| *op == "mix") && threads.iter().all(|t| *t < 2) {
            return Err(PointError::of(
                "file",
                "threads",
                ": the test `mix` needs at least 2 threads",
            )
            .hint("add threads = 2, or leave `mix` out of `tests`"));
        }
        Ok(tests)
    }

    fn size(&self, name: &str) -> u64 {
        self.0.numbers(name).first().copied().unwrap_or_default()
    }
}

/// The settings of one cell and test.
fn cell(values: &Values, (file, record): (u64, u64), op: &str, engine: Option<&str>) -> Values {
    let mut cell = values
        .with("op", vec![op.into()])
        .with("file_size", vec![file.into()])
        .with("record", vec![record.into()]);
    if let Some(engine) = engine {
        cell = cell.with("engine", vec![engine.into()]);
    }
    let defaults = [
        ("engine", engine.unwrap_or("sync").into()),
        ("min_ms", MIN_MS.into()),
        ("keep", true.into()),
        ("no_advice", true.into()),
        ("latency", false.into()),
    ];
    for (name, value) in defaults {
        if !values.given(name) {
            cell = cell.with(name, vec![value]);
        }
    }
    // As in iozone, -I is not for the stdio tests.
    if engine == Some("stdio") {
        cell = cell.with("direct", vec![false.into()]);
    }
    cell
}

fn given(values: &Values, name: &str) -> Option<Vec<u64>> {
    values.given(name).then(|| values.numbers(name))
}

/// `from`, twice that, and so on up to `to`.
fn doubling((from, to): (u64, u64)) -> Vec<u64> {
    std::iter::successors(Some(from), |size| size.checked_mul(2))
        .take_while(|size| *size <= to)
        .collect()
}

#[cfg(test)]
mod tests;
