//! `layermark import`: what other programs wrote, kept, listed, and set beside ours.

use std::path::PathBuf;

use crate::common::{Lm, root};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    root().join("crates/import/tests/fixtures").join(name)
}

#[test]
fn an_import_is_kept_listed_and_set_beside_a_run() {
    // 64 KiB records of a 64 KiB file, as the iozone file has them.
    let said = Lm::new().mock().run();
    let said = said
        .then()
        .args(["import"])
        .args([fixture("iozone-3.489-R.txt")])
        .run()
        .code(0);
    assert!(
        said.stderr.contains("iozone 3.489, 108 points"),
        "{}",
        said.stderr
    );
    assert!(said.stdout.contains("rand-write"));
    let said = said.then().args(["history"]).run().code(0);
    assert!(said.stdout.contains("import ") && said.stdout.contains("iozone-3.489-R.txt"));
    let said = said.then().args(["history", "--json"]).run().code(0);
    let listed = said.json();
    assert_eq!(listed["imports"][0]["points"], 108);
    let id = listed["imports"][0]["import"]
        .as_str()
        .expect("an id")
        .to_owned();
    let said = said
        .then()
        .args(["report", "last", "--beside", &id, "--json"])
        .run()
        .code(0);
    let report = said.json();
    let beside = &report["beside"][0];
    assert_eq!(beside["tool"], "iozone 3.489");
    let rows = beside["rows"].as_array().expect("rows");
    let layers = report["layers"].as_array().expect("layers").len();
    assert_eq!(rows.len(), layers, "4K records of a 64K file: {beside}");
    assert!(
        rows.iter()
            .all(|r| r["name"] == "reader" && r["ratio"].as_f64() > Some(0.0))
    );
    let said = said
        .then()
        .args(["report", "--beside", "last"])
        .run()
        .code(0);
    assert!(said.stdout.contains("Beside iozone 3.489") && said.stdout.contains("no verdict"));
    let said = said.then().args(["report", &id]).run();
    let said = said.fails(2, &["is an import, and not a run", "--beside"]);
    said.then()
        .args(["report", "--beside", "nope"])
        .run()
        .code(2)
        .says("no import `nope`");
}

#[test]
fn an_import_can_make_the_report_itself() {
    let said = Lm::new().mock().run();
    let said = said
        .then()
        .args(["import"])
        .args([fixture("fio-3.33.json")])
        .args(["--beside", "last", "-o", "r.html"])
        .run()
        .code(0);
    assert!(
        said.stdout.contains("Beside fio-3.33")
            && said.stdout.contains("Without one of ours: 1 operation")
    );
    let page = std::fs::read_to_string(said.dir.path().join("r.html")).expect("a page");
    assert!(page.contains("Beside fio-3.33"));
    let said = said
        .then()
        .args(["import"])
        .args([fixture("hyperfine-1.15.json")])
        .args(["--json"])
        .run()
        .code(0);
    let import = said.json();
    assert_eq!(
        (&import["format"], &import["points"][1]["name"]),
        (&"hyperfine".into(), &"ls /".into())
    );
}

#[test]
fn bad_files_are_refused_with_code_2_and_nothing_is_kept() {
    let cut = std::fs::read_to_string(fixture("fio-3.33.json")).expect("a fixture");
    let mut said = Lm::new()
        .file("cut.json", &cut[..cut.len() / 2])
        .file("old.json", cut.replace("fio-3.33", "fio-1.59"))
        .file("latin.csv", b"'Test Type,\xe9\n")
        .file("words.txt", "hello\n")
        .args(["import", "cut.json"])
        .run();
    for (args, words) in [
        (&["import", "cut.json"][..], "cut off"),
        (&["import", "old.json"], "only the output of fio 2 and 3"),
        (&["import", "latin.csv"], "not UTF-8"),
        (&["import", "words.txt"], "none of the formats known"),
        (&["import", "words.txt", "--format", "fio"], "no JSON"),
        (
            &["import", "words.txt", "--format", "bonnie"],
            "known are fio, iozone",
        ),
        (&["import", "/dev/zero"], "more than 64 MiB"),
        (&["import", "gone.json"], "gone.json cannot be read"),
        (
            &["import", "cut.json", "-o", "r.html"],
            "which an import alone is not",
        ),
        (&["import", "cut.json", "--beside", "last"], "no run `last`"),
    ] {
        said = said.then().args(args).run().code(2).says(words);
        assert!(said.stderr.contains("hint: "), "{args:?}: {}", said.stderr);
    }
    let said = said.then().args(["history", "--json"]).run().code(0);
    assert_eq!(said.json()["imports"], Value::Array(Vec::new()));
}

/// What `report -o x.iozone.txt` writes is read like iozone's own.
#[test]
fn our_own_iozone_text_comes_back() {
    let said = Lm::new().mock().args(["-o", "iozone.txt"]).run();
    let said = said
        .then()
        .args(["import", "iozone.txt", "--beside", "last", "--json"])
        .run()
        .code(0);
    let report = said.json();
    let rows = report["beside"][0]["rows"].as_array().expect("rows");
    assert!(!rows.is_empty(), "{}", report["beside"]);
    // The file is of the first layer; whole KiB/s are written.
    let ratio = rows[0]["ratio"].as_f64().expect("a ratio");
    assert!((ratio - 1.0).abs() < 0.01, "{rows:?}");
}

/// Of two imports neither has a verdict, so no gate can hold, and there is no report to write.
#[test]
fn two_imports_are_set_next_to_each_other() {
    let slow = std::fs::read_to_string(fixture("wrk-4.1.txt")).expect("a fixture");
    let fast = slow.replace("Requests/sec:   1032.70", "Requests/sec:   2065.40");
    let mut said = Lm::new()
        .file("slow.txt", &slow)
        .file("fast.txt", &fast)
        .args(["import", "slow.txt"])
        .run()
        .code(0);
    said = said.then().args(["import", "fast.txt"]).run().code(0);
    said = said.then().args(["history", "--json"]).run().code(0);
    let listed = said.json();
    let id = |at: usize| {
        listed["imports"][at]["import"]
            .as_str()
            .expect("an id")
            .to_owned()
    };
    let (new, old) = (id(0), id(1));
    let said = said
        .then()
        .args(["compare", &old, &new, "--json"])
        .run()
        .code(0);
    let both = said.json();
    assert_eq!(both["schema"], "layermark.imports/1");
    assert_eq!(both["rows"][0]["ratio"], 0.5);
    let said = said.then().args(["compare", &old, &new]).run().code(0);
    assert!(
        said.stdout.contains("GET /f") && said.stdout.contains("no verdict"),
        "{}",
        said.stdout
    );
    let said = said
        .then()
        .args(["compare", &old, &new, "--fail-if", "slower"])
        .run();
    let said = said.fails(
        2,
        &[
            "no verdict for a gate",
            "hint: layermark compare OLD NEW --json",
        ],
    );
    said.then()
        .args(["compare", &old, &new, "-o", "x.html"])
        .run()
        .code(2)
        .says("no report for -o");
}
