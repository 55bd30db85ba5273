//! `compare` of three or more runs: the odd one is named.

use serde_json::Value;

use crate::common::{Lm, disk_dir, five_runs};

/// The layer of the five runs.
const SHARE: &str = "share";

#[test]
fn the_odd_one_of_five_files_is_named_as_text_and_as_json() {
    let dir = disk_dir();
    five_runs(dir.path());
    let all = ["compare", "a.lm", "b.lm", "c.lm", "d.lm", "e.lm"];
    let said = Lm::with(dir.path()).args(all).run().code(0);
    said.prints("c.lm is the odd one, most at ")
        .prints(&format!(" in {SHARE} ("))
        .prints("c.lm: odd at ");
    let said = Lm::with(dir.path()).args(all).args(["--json"]).run();
    let told = said.code(0).json();
    assert_eq!(told["schema"], "layermark.odd/1");
    assert_eq!(told["baseline"], "native");
    let standings: Vec<&Value> = told["results"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["layer"] == SHARE)
        .flat_map(|r| r["runs"].as_array().unwrap())
        .map(|value| &value["standing"])
        .collect();
    // A request to a process is too noisy for 5 % in eight blocks, and 2 ms are not.
    for (run, standing) in standings.iter().enumerate() {
        assert_eq!(*standing == "odd", run == 2, "{told:#}");
    }
    assert_eq!(standings.len(), 5);
    assert_eq!(told["runs"][2]["name"], "c.lm");
    assert_eq!(told["runs"][2]["standings"]["odd"], 1);
    // Three of one kind have no odd one.
    let alike = ["compare", "a.lm", "b.lm", "d.lm", "--json"];
    let told = Lm::with(dir.path()).args(alike).run().code(0).json();
    for run in told["runs"].as_array().unwrap() {
        assert_eq!(run["standings"]["odd"], 0, "{told:#}");
    }
}

#[test]
fn what_is_for_two_runs_or_names_one_twice_is_refused() {
    let dir = disk_dir();
    five_runs(dir.path());
    let compare = |more: &[&str]| {
        let lm = Lm::with(dir.path()).args(["compare", "a.lm", "b.lm", "c.lm"]);
        lm.args(more).run()
    };
    for (more, flag) in [
        (&["--fail-if", "slower"][..], "--fail-if is for two runs"),
        (&["--same-machine"], "--same-machine is for two runs"),
        (&["-o", "x.html"], "-o is for two runs"),
    ] {
        compare(more).fails(2, &[flag, "compare a.lm b.lm c.lm --json"]);
    }
    assert!(!dir.path().join("x.html").exists());
    compare(&["a.lm"]).fails(2, &["`a.lm` and `a.lm` are one run"]);
    compare(&["gone.lm"]).fails(2, &["gone.lm"]);
    // With no layer in common, no point is in three of them.
    let net = Lm::with(dir.path()).keeping(&["net"]);
    net.args(["report", "-o", "net.lm"]).run().code(0);
    let other = ["compare", "a.lm", "b.lm", "net.lm"];
    let said = Lm::with(dir.path()).args(other).run();
    said.fails(2, &["no point of a layer is in three", "--replay"]);
}
