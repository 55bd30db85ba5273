//! Power cuts of file systems of the user's whose server takes a call and never answers it. Layermark waited for them for ever,
//! in calls of its own.

use std::{fs, path::Path};

use serde_json::Value;

use crate::common::{Lm, binary, machine, needs_root};

/// A server that does not answer `call` while it is mounted at a path like `at`.
fn holding(dir: &Path, call: &str, at: &str) -> String {
    let holds = dir.join(format!("{call}-{}", at.len()));
    fs::write(&holds, call).expect("a file");
    let holds = holds.display();
    served(&format!(
        "case $1 in {at}) export LAYERMARK_FUSE_HOLDS={holds};; esac"
    ))
}

/// A server that is stopped once it is mounted: it answers nothing at all.
fn stopped() -> String {
    let mounted = "grep -qF \" $1 \" /proc/self/mountinfo";
    served(&format!("(until {mounted}; do :; done; kill -STOP $$) & :"))
}

/// Our own file system, after `first`. The directory that it serves and the mount point come after its words.
fn served(first: &str) -> String {
    let own = binary();
    let own = own.display();
    format!("sh -c '{first}; exec {own} fuse-serve \"$0\" \"$1\" fuse'")
}

/// The rows of the layer with these words in its name.
fn rows<'a>(report: &'a Value, words: &str) -> Vec<&'a Value> {
    let all = report["power_cuts"].as_array().expect("power cuts").iter();
    let is_its = |row: &&Value| {
        row["layer"]
            .as_str()
            .is_some_and(|name| name.contains(words))
    };
    all.filter(is_its).collect()
}

const SILENT: &str = "did not answer for 3 s";

#[test]
fn a_server_that_never_answers_ends_the_cuts_of_its_layer_alone() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let dir = lm.dir.path().to_owned();
    let never = [
        stopped(),
        holding(&dir, "getattr", "*"),
        holding(&dir, "mkdir", "*"),
        // That of the directory that the layer's is made in.
        holding(&dir, "fsyncdir", "*"),
    ];
    // Only when it is mounted again, after a cut.
    let later = holding(&dir, "getattr", "*/server-*");
    let servers = never.iter().chain([&later]);
    let work = lm.work();
    let said = lm
        .args(["durability", "--no-control", "--seed", "3", "--blocks", "8"])
        .args(["--sessions", "1", "--records", "4", "--cuts", "2", "--json"])
        .args(["--silence", "3s", "--dir"])
        .args([work])
        .args(servers.flat_map(|server| ["--server", server]))
        .run()
        .left_nothing()
        .says(SILENT)
        .says("hint: see whether its server is alive, or wait longer: --silence 5m");
    let report = said.json();
    assert_eq!(said.code, Some(3), "{report:#}\n{}", said.stderr);
    for words in ["kill -STOP", "getattr-1;", "mkdir-1;", "fsyncdir-1;"] {
        let rows = rows(&report, words);
        let why = rows[0]["uncut"].as_str().unwrap_or_default();
        assert!(rows.len() == 1 && why.contains(SILENT), "{rows:#?}");
    }
    for row in rows(&report, "*/server-*") {
        let counts = ["cuts", "losing", "unrecovered"].map(|key| &row[key]);
        assert_eq!(counts, [0, 0, 2], "{row:#}");
        let why = row["unrecovered_why"].as_str().unwrap_or_default();
        assert!(why.contains(SILENT), "{row:#}");
    }
    // The others are cut.
    for (layer, loses) in [("native", false), ("overlay:volatile", true)] {
        let losing = |row: &&Value| row["losing"].as_u64() > Some(0);
        let rows = rows(&report, layer);
        assert!(
            rows.len() == 8 && rows.iter().any(losing) == loses,
            "{rows:#?}"
        );
    }
    machine::nothing_left(&dir, &[]);
}
