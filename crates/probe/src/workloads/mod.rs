//! Kinds of work. To add one, write `workloads/NAME.rs` and add its two lines
//! here. In the name of the file `_` stands for the `-` of an id.

use layermark_model::{
    CPUS, Meaning, ONE_PACKAGE, Param, ParamKind, Point, PointError, Quantity, Reached, Settings,
};
use serde_json::{Map, Value};

use crate::{Purpose, Workload, param::Values};

pub mod coherence;
pub mod db;
pub mod devload;
mod ends;
pub mod file;
pub mod fio_job;
pub mod ftp;
pub mod http;
pub mod iops;
pub mod launch;
pub mod lock;
pub mod meta;
pub mod mmap_fault;
pub mod net;
pub mod replay;
pub mod steps;
mod work_dir;

/// Every workload.
pub const ALL: &[&dyn Workload] = &[
    &file::WORKLOAD,
    &iops::WORKLOAD,
    &meta::WORKLOAD,
    &mmap_fault::WORKLOAD,
    &lock::WORKLOAD,
    &db::WORKLOAD,
    &coherence::WORKLOAD,
    &net::WORKLOAD,
    &ftp::WORKLOAD,
    &http::WORKLOAD,
    &launch::WORKLOAD,
    &steps::WORKLOAD,
    &replay::WORKLOAD,
    &devload::WORKLOAD,
];

/// The workload of that name.
pub fn find(id: &str) -> Option<&'static dyn Workload> {
    ALL.iter().copied().find(|w| w.id() == id)
}

/// The meaning of a point that was stored without one. Empty for a workload that this version does
/// not have.
pub fn meaning(at: &Point) -> Meaning {
    let read = find(&at.workload).and_then(|w| w.read(at, Purpose::Report).ok());
    read.map(|at| at.meaning).unwrap_or_default()
}

/// What a point reaches beyond the run's directory, as stored, even if the point is invalid.
pub fn reaches(at: &Point) -> Vec<Reached> {
    let params = find(&at.workload).map_or_else(Vec::new, <dyn Workload>::params);
    let mut reached = Vec::new();
    for param in params {
        let (Some(what), Some(value)) = (param.reach, at.params.get(param.name)) else {
            continue;
        };
        let texts: Vec<&str> = match value {
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        let others = texts
            .into_iter()
            .filter(|t| !["", param.default].contains(t));
        reached.extend(others.map(|text| Reached {
            what,
            by: format!("{}: {} = {text}", at.workload, param.name),
        }));
    }
    reached
}

/// Completes points that an earlier version stored without a meaning, or without its figures.
pub fn complete(points: &mut [Point]) {
    for at in points.iter_mut().filter(|at| at.meaning.figures.is_none()) {
        let own = meaning(at);
        if at.meaning == Meaning::default() {
            at.meaning = own;
        } else {
            at.meaning.figures = own.figures;
        }
    }
}

/// Parameters of every workload, in addition to its own.
pub const COMMON: &[Param] = &[Param::new(
    CPUS,
    ParamKind::Count,
    "auto",
    true,
    "CPUs that each layer has; several, such as 1,2,4, show how it scales",
)];

/// Maximum number of CPUs that can be requested.
const MOST_CPUS: u64 = 64;

/// The points of a workload's settings: each once for each number of CPUs, and with the packaged files of all hosts where
/// that is asked for.
pub fn points(
    workload: &dyn Workload,
    settings: &Settings,
    scale: f64,
) -> Result<Vec<Point>, PointError> {
    let mut own = settings.clone();
    let one_package = match own.params.remove(ONE_PACKAGE) {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(other) => {
            let what = format!(" = {other}: it must be true or false");
            return Err(PointError::of(workload.id(), ONE_PACKAGE, what));
        }
    };
    let mut points = on_cpus(workload, &own, scale)?;
    for point in points.iter_mut().filter(|_| one_package) {
        share_package(point)?;
    }
    Ok(points)
}

/// The same work on the packaged files of all hosts.
fn share_package(point: &mut Point) -> Result<(), PointError> {
    if let Some(why) = point.needs.not_one_package() {
        let what = format!(" = true at `{}`: {why}", point.label);
        let error = PointError::of(&point.workload, ONE_PACKAGE, what);
        return Err(error.hint("leave it out: each host of a fleet then has files of its own"));
    }
    point.params.insert(ONE_PACKAGE.into(), true.into());
    let said = std::mem::take(&mut point.meaning);
    point.meaning = said.part(ONE_PACKAGE, "one package of all hosts");
    Ok(())
}

fn on_cpus(
    workload: &dyn Workload,
    settings: &Settings,
    scale: f64,
) -> Result<Vec<Point>, PointError> {
    let mut own = settings.clone();
    let Some(asked) = own.params.remove(CPUS) else {
        return workload.points(settings, scale);
    };
    let common = Settings {
        params: Map::from_iter([(CPUS.to_owned(), asked)]),
        ..settings.clone()
    };
    let counts = Values::read(COMMON, &common)?.numbers(CPUS);
    if let Some(count) = counts.iter().find(|n| **n > MOST_CPUS) {
        let id = workload.id();
        return Err(PointError::of(
            id,
            CPUS,
            format!(" = {count}: it must be between 1 and {MOST_CPUS}"),
        ));
    }
    let points = workload.points(&own, scale)?;
    let named = settings.label.as_deref().filter(|_| counts.len() > 1);
    let each = points.iter().flat_map(|point| {
        let with = |count: &u64| with_cpus(point, *count, named);
        counts.iter().map(with)
    });
    Ok(each.collect())
}

/// The same work with this many CPUs; 0: all. If several points have the user's label, what differs
/// is appended.
fn with_cpus(point: &Point, count: u64, named: Option<&str>) -> Point {
    let mut point = point.clone();
    if count == 0 {
        return point;
    }
    let text = format!("{count} CPU{}", if count == 1 { "" } else { "s" });
    point.label = match (named, point.label.strip_suffix(')')) {
        (Some(name), Some(open)) if point.label != name => format!("{open}, {text})"),
        (Some(_), _) => format!("{} ({text})", point.label),
        (None, _) => format!("{}, {text}", point.label),
    };
    point.params.insert(CPUS.into(), count.into());
    let said = std::mem::take(&mut point.meaning);
    point.meaning = said.axis(Quantity::Cpus, CPUS, count).part(CPUS, text);
    point
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Context, TurnRequest, Work};
    use layermark_model::{ParamKind, Trial};
    use std::{fs, path::Path};

    /// Helper modules in these folders.
    const HELPERS: [&str; 9] = [
        "ends", "fio_job", "mapping", "mod", "order", "steps", "stream", "tests", "work_dir",
    ];

    /// Fails with the line to add when a file in `src/FOLDER` is not among `known`.
    pub fn assert_listed(folder: &str, known: &[&str], line: &str) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src")
            .join(folder);
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let id = name.replace('_', "-");
            assert!(
                HELPERS.contains(&name.as_str()) || known.contains(&id.as_str()),
                "{folder}/{name} is not listed: add `{}` to ALL in {folder}/mod.rs",
                line.replace("NAME", &name),
            );
        }
    }

    /// What names take must not depend on how deep the layer's directory is.
    #[test]
    fn names_inside_the_clock_are_looked_up_in_the_process_s_directory() {
        let home = tempfile::tempdir().unwrap();
        std::env::set_current_dir(home.path()).unwrap();
        let context = Context {
            inside: true,
            ..Context::least()
        };
        for (id, op) in [
            ("file", "read"),
            ("file", "rewrite"),
            ("meta", "stat"),
            ("meta", "create"),
        ] {
            let workload = find(id).unwrap();
            let settings = serde_json::json!({"workload": id, "op": op});
            let settings = serde_json::from_value(settings).unwrap();
            let at = workload.points(&settings, 0.1).unwrap().remove(0);
            let files: Vec<_> = at.needs.packaged_files().collect();
            crate::packaged::write(Path::new("packaged"), &files, 3, &|| true).unwrap();
            // Nothing is there.
            let work = workload.prepare(Path::new("/nowhere"), &at, &context);
            let mut work = work.unwrap_or_else(|e| panic!("{id} {op}: {e}"));
            let (ask, mut trial) = (TurnRequest::default(), Trial::default());
            work.turn(&ask, &mut trial, &mut |_, _| {}).unwrap();
            work.settle(&mut trial).unwrap();
            work.end(&mut trial).unwrap();
        }
    }

    /// Maximum number of attempts, in case another program flushes the file system during a test.
    const ATTEMPTS: usize = 10;

    /// Checks that a layer's debt covers only its own files. Two layers share a file system, where
    /// a flush of all of it would pay for both. Each does a turn of `ns`; `dirty` counts the pages
    /// of the work in a directory that are not on the disk.
    pub fn assert_pays_for_its_own_files(
        ready: impl Fn(&Path) -> Box<dyn Work>,
        ns: u64,
        dirty: impl Fn(&Path) -> Option<u64>,
    ) {
        let mut tries = (0..ATTEMPTS).map(|_| pays_for_its_own_files(&ready, ns, &dirty));
        match tries.find(|own| *own != Some(false)) {
            Some(None) => eprintln!(
                "skipped: needs cachestat(2) of Linux 6.5 and a file system that writes back"
            ),
            own => assert_eq!(own, Some(Some(true)), "the other's debt is still its own"),
        }
    }

    /// Whether the other's files are still dirty when the first layer has paid; `None` if that
    /// cannot be seen.
    fn pays_for_its_own_files(
        ready: impl Fn(&Path) -> Box<dyn Work>,
        ns: u64,
        dirty: impl Fn(&Path) -> Option<u64>,
    ) -> Option<bool> {
        let dirs = [(); 2].map(|()| tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap());
        let mut trials = [Trial::default(), Trial::default()];
        let ask = TurnRequest {
            round: 0,
            ns,
            lead_in_ns: 0,
        };
        let mut works = [0, 1].map(|i| {
            let mut work = ready(dirs[i].path());
            work.turn(&ask, &mut trials[i], &mut |_, _| {}).unwrap();
            work
        });
        let dirty = |i: usize| dirty(dirs[i].path());
        dirty(1).filter(|pages| *pages > 0)?;
        works[0].settle(&mut trials[0]).unwrap();
        assert_eq!(dirty(0), Some(0));
        let own = dirty(1) > Some(0);
        works[1].settle(&mut trials[1]).unwrap();
        assert_eq!(dirty(1), Some(0));
        for (work, trial) in works.iter_mut().zip(&mut trials) {
            work.end(trial).unwrap();
            assert!(trial.debt.unwrap().seconds > 0.0);
        }
        Some(own)
    }

    #[test]
    fn every_workload_file_is_listed() {
        let known: Vec<&str> = ALL.iter().map(|w| w.id()).collect();
        assert_listed("workloads", &known, "&NAME::WORKLOAD");
        assert!(known.iter().all(|id| find(id).is_some()));
        assert!(find("flie").is_none());
    }

    /// Sentences without the name of the workload, or without something to do, were 26.
    #[test]
    fn each_error_of_settings_names_workload_and_parameter_and_has_a_command() {
        for workload in ALL {
            let id = workload.id();
            let refused = |name: &str, value: serde_json::Value| {
                let settings = Settings {
                    workload: id.into(),
                    label: None,
                    params: serde_json::Map::from_iter([(name.to_owned(), value)]),
                };
                let e = points(*workload, &settings, 1.0).unwrap_err();
                let hint = e.hint.clone().unwrap_or_default();
                assert!(
                    hint.contains(&format!("layermark {id} --help")),
                    "{e}: {hint}"
                );
                e
            };
            let unknown = refused("no_such_name", 1.into());
            let param = unknown
                .param
                .as_ref()
                .map(|p| (p.workload.as_str(), p.name.as_str()));
            assert_eq!(param, Some((id, "no_such_name")));
            assert_eq!(
                unknown.message,
                format!("{id}: `no_such_name` is not a parameter")
            );
            for param in workload
                .params()
                .into_iter()
                .filter(|p| p.kind == ParamKind::Count)
            {
                let wrong = refused(param.name, serde_json::json!({"a": 1}));
                assert_eq!(wrong.param.map(|p| p.workload).as_deref(), Some(id));
                assert!(wrong.message.starts_with(&format!("{id}: `")));
            }
        }
    }

    #[test]
    fn every_default_makes_points() {
        for workload in ALL {
            let settings = layermark_model::Settings {
                workload: workload.id().into(),
                label: None,
                params: serde_json::Map::new(),
            };
            let points = workload.points(&settings, 1.0).unwrap();
            assert!(!points.is_empty());
            for point in &points {
                assert_ne!(point.meaning, Meaning::default(), "{}", point.label);
                assert_eq!(meaning(point), point.meaning, "{}", point.label);
            }
            // It may add points of another workload.
            let own = || points.iter().filter(|p| p.workload == workload.id());
            for param in workload.params() {
                if file::MATRIX_PARAMS.contains(&param) {
                    // They select points.
                    continue;
                }
                assert!(
                    !param.help.is_empty()
                        && (!param.default.is_empty()
                            || matches!(
                                param.kind,
                                ParamKind::Text | ParamKind::Texts | ParamKind::Env
                            )),
                    "{}",
                    param.name
                );
                // Absent where nothing is asked for: points of older runs keep their key.
                assert!(
                    own().all(|p| p.params.contains_key(param.name))
                        || ["", "false"].contains(&param.default)
                        || ["per_directory", "copy"].contains(&param.name),
                    "{}",
                    param.name
                );
            }
        }
    }

    #[test]
    fn hosts_can_use_one_package_where_it_is_only_read() {
        let made = |workload: &str, params: serde_json::Value| {
            let settings = Settings {
                workload: workload.into(),
                label: Some("x".into()),
                params: params.as_object().cloned().unwrap(),
            };
            points(find(workload).unwrap(), &settings, 1.0)
        };
        let file = |op: &str, one: serde_json::Value| {
            let params = serde_json::json!({"op": op, "one_package": one});
            made("file", params)
        };
        let own = file("read", false.into()).unwrap().remove(0);
        let one = file("read", true.into()).unwrap().remove(0);
        assert!(one.flag(ONE_PACKAGE) && !own.flag(ONE_PACKAGE));
        assert_ne!(one.key(), own.key(), "it is a point of its own");
        let texts: Vec<&str> = one.meaning.parts.iter().map(|p| p.text.as_str()).collect();
        assert!(texts.contains(&"one package of all hosts"), "{texts:?}");
        // What the workload itself reads has no such parameter.
        find("file").unwrap().read(&one, Purpose::Run).unwrap();
        let launched = serde_json::json!({"command": "true", "package": true, "one_package": true});
        made("launch", launched).unwrap();
        for (e, says) in [
            (file("write", true.into()), "it has no packaged files"),
            (
                file("first-write", true.into()),
                "it changes its packaged files",
            ),
            (file("read", "yes".into()), "it must be true or false"),
            (
                made(
                    "launch",
                    serde_json::json!({"command": "true", "one_package": true}),
                ),
                "it has no packaged files",
            ),
        ] {
            let e = e.unwrap_err().to_string();
            assert!(e.contains("`one_package` = ") && e.contains(says), "{e}");
        }
    }

    #[test]
    fn every_workload_takes_numbers_of_cpus() {
        let labels = |label: Option<&str>, op: serde_json::Value, cpus: &str| {
            let params = serde_json::json!({"op": op, "cpus": cpus});
            let settings = Settings {
                workload: "meta".into(),
                label: label.map(str::to_owned),
                params: params.as_object().cloned().unwrap(),
            };
            let made = points(find("meta").unwrap(), &settings, 1.0)?;
            let keys: std::collections::BTreeSet<String> = made.iter().map(Point::key).collect();
            assert_eq!(keys.len(), made.len(), "each is a point of its own");
            for point in &made {
                assert_eq!(
                    point.number(CPUS),
                    point.meaning.cpus().map_or(0, u64::from)
                );
                // What the workload itself reads has no such parameter.
                find("meta").unwrap().read(point, Purpose::Report)?;
            }
            Ok::<_, PointError>(made.into_iter().map(|p| p.label).collect::<Vec<_>>())
        };
        let one = || serde_json::json!("create");
        let two = || serde_json::json!(["create", "unlink"]);
        assert_eq!(
            labels(Some("x"), one(), "1,4").unwrap(),
            ["x (1 CPU)", "x (4 CPUs)"]
        );
        assert_eq!(labels(Some("x"), one(), "2").unwrap(), ["x, 2 CPUs"]);
        assert_eq!(labels(Some("x"), one(), "auto").unwrap(), ["x"]);
        let both = labels(Some("x"), two(), "1..2").unwrap();
        assert_eq!(both.len(), 4);
        assert!(
            both.iter()
                .all(|l| l.starts_with("x (") && l.contains(", ")),
            "{both:?}"
        );
        let full = labels(None, one(), "3").unwrap();
        assert!(full[0].ends_with(", 3 CPUs"), "{full:?}");
        for (wrong, says) in [("65", "between 1 and 64"), ("x", "cpus"), ("", "cpus")] {
            let e = labels(None, one(), wrong).unwrap_err();
            assert!(e.message.contains(says), "{wrong}: {e}");
        }
    }
}
