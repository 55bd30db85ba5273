//! `matrix = "iozone"`: file sizes by record sizes, each with a row of tests.

use layermark_model::{IOZONE_TESTS, PointError, Settings, format_size};
use serde_json::{Map, Value};

use super::{
    iozone_args,
    params::{FileParams, PARAMS, expand},
};
use crate::params::{self, Values};

/// Parameters that say which points there are, and are not part of one.
pub const KEYS: [&str; 7] = [
    "matrix",
    "tests",
    "min_file_size",
    "max_file_size",
    "no_cut_off",
    "no_retest",
    "like",
];

/// Tests with a number below this are made when nothing else is asked for.
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

/// The word for a number of iozone's `-i`.
pub fn word(number: u64) -> Option<&'static str> {
    let test = IOZONE_TESTS.iter().find(|t| t.number == number);
    test.map(|t| t.id)
}

/// Smallest and largest record, bytes. Those of files are the defaults of their parameters.
const RECORD: (u64, u64) = (4 << 10, 16 << 20);
/// Milliseconds of a trial: a matrix has so many of them that each has to be short.
const MIN_MS: u64 = 1;
/// Files larger than this have no records below the second figure.
const CUT_OFF: (u64, u64) = (16 << 20, 64 << 10);

/// The settings as they are without a matrix, with what iozone's letters stand for, and the
/// matrix if one is asked for.
pub fn read(settings: &Settings) -> Result<(Settings, Option<Matrix>), PointError> {
    let mut settings = settings.clone();
    if let Some(like) = settings.params.remove("like") {
        let meant = iozone_args::read(&like)?;
        for (key, value) in meant {
            // What is written out beside it wins.
            settings.params.entry(key).or_insert(value);
        }
    }
    let own: Map<String, Value> = KEYS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), settings.params.remove(*key)?)))
        .collect();
    let given: Vec<String> = own.keys().filter(|k| *k != "matrix").cloned().collect();
    let values = params::read(
        PARAMS,
        &Settings {
            params: own,
            ..settings.clone()
        },
    )?;
    if !values.words("matrix").contains(&"iozone") {
        if let Some(key) = given.first() {
            return Err(
                PointError::new(format!("file: `{key}` has no effect without `matrix`"))
                    .hint(format!("leave `{key}` out, or add matrix = iozone")),
            );
        }
        return Ok((settings, None));
    }
    if settings.params.contains_key("op") {
        return Err(PointError::new(
            "file: a matrix has its own operations, so `op` means nothing in it",
        )
        .hint("choose with `tests`: write, read, random, backward, ..."));
    }
    Ok((settings, Some(Matrix { own: values })))
}

/// What the matrix is made of.
pub struct Matrix {
    own: Values,
}

impl Matrix {
    /// Every cell, by file size, then record size, then test.
    pub fn expand(&self, values: &Values, scale: f64) -> Result<Vec<FileParams>, PointError> {
        let (smallest, largest) = (self.size("min_file_size"), self.size("max_file_size"));
        if smallest == 0 {
            return Err(PointError::new(
                "file: `min_file_size` = 0: a file has at least 1 byte",
            ));
        }
        if smallest > largest {
            return Err(PointError::new(format!(
                "file: `min_file_size` = {} is above `max_file_size` = {}",
                format_size(smallest),
                format_size(largest)
            ))
            .hint("swap them, or leave one out"));
        }
        let files = given(values, "file_size").unwrap_or_else(|| doubling((smallest, largest)));
        let records = given(values, "record");
        let cut_off =
            records.is_none() && !values.given("file_size") && !self.own.flag("no_cut_off");
        let records = records.unwrap_or_else(|| doubling(RECORD));
        let tests = self.tests(values)?;
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
                    // What is left to write depends on the size of the file, not on the record.
                    if !values.given("no_debt") {
                        let rest = Some(record) != largest;
                        cell = cell.with("no_debt", vec![rest.into()]);
                    }
                    for p in expand(&cell, scale)? {
                        match all.iter_mut().find(|known| known.is_like(&p)) {
                            Some(known) => known.no_debt &= p.no_debt,
                            None => all.push(p),
                        }
                    }
                }
            }
        }
        if all.is_empty() {
            return Err(
                PointError::new("file: every record is larger than every file")
                    .hint("add a larger `file_size` or a smaller `record`"),
            );
        }
        Ok(all)
    }

    /// Operations and engines of the tests asked for.
    fn tests(
        &self,
        values: &Values,
    ) -> Result<Vec<(&'static str, Option<&'static str>)>, PointError> {
        let asked: Vec<&str> = self.own.words("tests");
        let retest = !self.own.flag("no_retest");
        let mut tests = Vec::new();
        for test in &IOZONE_TESTS {
            let usual = test.number < USUAL && asked.contains(&"usual");
            if usual || asked.contains(&test.id) {
                let steps = test.steps.iter().filter(|s| retest || !s.again);
                tests.extend(steps.map(|s| (s.op, test.engine)));
            }
        }
        let threads = given(values, "threads").unwrap_or_default();
        if tests.iter().any(|(op, _)| *op == "mix") && threads.iter().all(|t| *t < 2) {
            return Err(
                PointError::new("file: the test `mix` needs at least 2 threads")
                    .hint("add threads = 2, or leave `mix` out of `tests`"),
            );
        }
        Ok(tests)
    }

    fn size(&self, name: &str) -> u64 {
        self.own
            .all(name)
            .first()
            .and_then(Value::as_u64)
            .unwrap_or_default()
    }
}

/// The settings of one cell and test.
fn cell(values: &Values, (file, record): (u64, u64), op: &str, engine: Option<&str>) -> Values {
    let mut cell = values.with("op", vec![op.into()]);
    cell = cell.with("file_size", vec![file.into()]);
    cell = cell.with("record", vec![record.into()]);
    match engine {
        Some(engine) => cell = cell.with("engine", vec![engine.into()]),
        None if !values.given("engine") => cell = cell.with("engine", vec!["sync".into()]),
        None => {}
    }
    if !values.given("min_ms") {
        cell = cell.with("min_ms", vec![MIN_MS.into()]);
    }
    if !values.given("keep") {
        cell = cell.with("keep", vec![true.into()]);
    }
    if !values.given("no_advice") {
        cell = cell.with("no_advice", vec![true.into()]);
    }
    if !values.given("latency") {
        cell = cell.with("latency", vec![false.into()]);
    }
    // As in iozone, -I is not for the stdio tests.
    if engine == Some("stdio") {
        cell = cell.with("direct", vec![false.into()]);
    }
    cell
}

fn given(values: &Values, name: &str) -> Option<Vec<u64>> {
    let list = values.all(name).iter().filter_map(Value::as_u64);
    values.given(name).then(|| list.collect())
}

/// `from`, twice that, and so on up to `to`.
fn doubling((from, to): (u64, u64)) -> Vec<u64> {
    std::iter::successors(Some(from), |size| size.checked_mul(2))
        .take_while(|size| *size <= to)
        .collect()
}
