use layermark_model::{PackagedFile, Point, Settings};
use serde_json::{Value, json};

use super::*;
use crate::{Workload, workloads::tests::assert_pays_for_its_own_files};

fn points(params: &Value, scale: f64) -> Result<Vec<Point>, PointError> {
    let params = params.as_object().cloned().unwrap_or_default();
    WORKLOAD.points(
        &Settings {
            workload: "meta".into(),
            label: None,
            params,
        },
        scale,
    )
}

#[test]
fn operations_make_points_with_labels() {
    let labels: Vec<String> = points(
        &json!({"op": "open-stat,create", "cache": "warm,cold", "sync": "none,fsync"}),
        1.0,
    )
    .unwrap()
    .into_iter()
    .map(|p| p.label)
    .collect();
    let expected = [
        "open-stat 200 files of 16K, warm",
        "open-stat 200 files of 16K, cold",
        "create 200 files",
        "create 200 files, fsync",
    ];
    assert_eq!(labels, expected);
}

#[test]
fn impossible_points_are_refused_with_what_would_be_right() {
    for (params, says) in [
        (json!({"files": 0}), "between 1 and 1000000"),
        (json!({"files": -1}), "whole number"),
        (json!({"file_size": "1G"}), "at most 16M"),
        (
            json!({"op": "small-read", "file_size": 0}),
            "nothing to read",
        ),
        (json!({"op": "unlink", "sync": "fsync"}), "no effect"),
        (json!({"op": "create", "cache": "cold"}), "no effect"),
        (
            json!({"op": "open-stat", "cache": "cold", "passes": 3}),
            "one pass",
        ),
        (
            json!({"op": "first-chmod", "passes": 2}),
            "once to each file",
        ),
        (json!({"op": "first-chmod", "cache": "cold"}), "no effect"),
        (json!({"flies": 3}), "`flies` is not a parameter"),
    ] {
        let e = points(&params, 1.0).expect_err(&params.to_string());
        assert!(e.message.contains(says), "{params}: {e}");
    }
}

#[test]
fn packaged_files_are_spread_over_directories() {
    let p = &points(
        &json!({"op": "small-read", "files": 250, "file_size": "2K"}),
        1.0,
    )
    .unwrap()[0];
    let files: Vec<_> = p.needs.packaged_files().collect();
    assert_eq!(
        (files.len(), files[249].path.as_str(), files[249].size),
        (250, "small-2048-250-100/d2/f249", 2048)
    );
    assert_eq!((p.meaning.changes, p.needs.space), (false, 0));
    let p = &points(&json!({"op": "unlink", "files": 10, "file_size": 1}), 1.0).unwrap()[0];
    assert_eq!(
        (
            p.meaning.changes,
            p.needs.space,
            p.needs.packaged_files().count()
        ),
        (true, 81_920, 0)
    );
}

#[test]
fn a_scale_makes_fewer_files() {
    let files = |scale| points(&json!({"op": "create"}), scale).unwrap()[0].number("files");
    assert_eq!((files(1.0), files(0.1), files(1e-6)), (200, 20, 1));
}

#[test]
fn a_layer_pays_for_its_own_files_alone() {
    let params = json!({"op": "small-write", "files": 40});
    let point = points(&params, 1.0).unwrap().remove(0);
    let ready = |dir: &Path| WORKLOAD.prepare(dir, &point, &Context::least()).unwrap();
    let dirty = |dir: &Path| -> Option<u64> {
        let all = std::fs::read_dir(dir).unwrap();
        let mut files = all.map(|work| work.unwrap().path().join("d0"));
        let made = std::fs::read_dir(files.find(|d| d.exists())?).unwrap();
        let unwritten = |path| crate::resident::unwritten(&std::fs::File::open(path).unwrap());
        made.map(|entry| unwritten(entry.unwrap().path())).sum()
    };
    assert_pays_for_its_own_files(ready, 1, dirty);
}

/// Where many files are created, the directory was tested: its tests are beside it.
#[test]
fn files_are_created_in_a_directory_that_was_tested() {
    for (op, tested) in [("create", true), ("small-write", true), ("unlink", false)] {
        let params = json!({"op": op, "files": 5});
        let dir = tempfile::tempdir().unwrap();
        let point = points(&params, 1.0).unwrap().remove(0);
        let _work = WORKLOAD.prepare(dir.path(), &point, &Context::least());
        let made = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(made > 1, tested, "{op}: {made}");
    }
}

#[test]
fn names_are_looked_up_listed_and_changed() {
    for (op, params) in [
        ("stat", json!({"op": "stat", "files": 30})),
        ("rest", json!({"op": "stat", "files": 30, "rest": "1ms"})),
        ("list", json!({"op": "list", "files": 30})),
        ("set-attr", json!({"op": "set-attr", "files": 30})),
    ] {
        let p = &points(&params, 1.0).unwrap()[0];
        let dir = tempfile::tempdir().unwrap();
        let packaged: Vec<_> = p.needs.packaged_files().collect();
        for file in &packaged {
            let at = dir.path().join("packaged").join(&file.path);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, vec![0; file.size as usize]).unwrap();
        }
        assert_eq!(packaged.is_empty(), op == "set-attr");
        let mut work = WORKLOAD.prepare(dir.path(), p, &Context::least()).unwrap();
        let (mut trial, mut more, mut round) = (layermark_model::Trial::default(), true, 0);
        while more && round < 50 {
            let ask = crate::TurnRequest {
                round,
                ns: 1_000_000,
                lead_in_ns: 0,
            };
            let turned = work.turn(&ask, &mut trial, &mut |_, _| {}).unwrap();
            (more, round) = (turned.more, round + 1);
        }
        // Names that have rested are looked up once.
        assert_eq!(
            trial.ops() == 30 && !more,
            op == "rest",
            "{op}: {}",
            trial.ops()
        );
        assert!(
            p.meaning.group() == layermark_model::WorkGroup::Names,
            "{op}"
        );
        // It is one whole pass in every layer.
        assert_eq!(p.meaning.divided.is_none(), op == "rest", "{op}");
    }
    for (rest, says) in [("1x", "not a duration"), ("31s", "at most 30s")] {
        let e = points(&json!({"op": "stat", "rest": rest}), 1.0).unwrap_err();
        assert!(e.message.contains(says), "{e}");
    }
    assert!(points(&json!({"op": "create", "rest": "1s"}), 1.0).is_err());
}

/// `list --files 20000` listed directories of 100 files, and was called "list 20000 files".
#[test]
fn a_label_of_list_says_how_many_names_a_directory_has() {
    let listed = |more: serde_json::Value| {
        let mut params = json!({"op": "list"});
        let more = more.as_object().unwrap().clone();
        params.as_object_mut().unwrap().extend(more);
        let point = points(&params, 1.0).unwrap().remove(0);
        let packaged: Vec<_> = point.needs.packaged_files().collect();
        let directory = |f: &PackagedFile| Path::new(&f.path).parent().unwrap().to_owned();
        let first = directory(&packaged[0]);
        let together = packaged.iter().filter(|f| directory(f) == first).count();
        (point.label, together)
    };
    for (params, label, together) in [
        (
            json!({"files": 20000}),
            "list directories of 100 files, 20000 files of 16K, warm",
            100,
        ),
        (
            json!({"files": 20000, "per_directory": 20000}),
            "list a directory of 20000 files of 16K, warm",
            20000,
        ),
        (
            json!({"files": 250}),
            "list directories of up to 100 files, 250 files of 16K, warm",
            100,
        ),
        (
            json!({"files": 30, "cache": "cold"}),
            "list a directory of 30 files of 16K, cold",
            30,
        ),
    ] {
        assert_eq!(listed(params), (label.into(), together));
    }
    let of = |params| points(&params, 1.0).unwrap().remove(0);
    let other = of(json!({"op": "stat", "files": 500, "per_directory": 500}));
    assert_eq!(
        other.label,
        "stat 500 files of 16K, warm, 500 in a directory"
    );
    // Points of older runs keep their key.
    assert!(
        !of(json!({"op": "stat"}))
            .params
            .contains_key("per_directory")
    );
    assert!(points(&json!({"op": "list", "per_directory": 0}), 1.0).is_err());
}
