//! Power cuts below guests. A guest boots four times for two cuts: to write, after it was killed, and after
//! each cut; so few modes of QEMU's cache are cut here. `layermark selftest durability` cuts all of them.

use serde_json::Value;

use crate::common::{Lm, is_root, skipped};

/// The rows of the selftest of these layers, by name.
fn selftest(names: &[&str]) -> Vec<Value> {
    let lm = Lm::new();
    let work = lm.work();
    let only = names.iter().flat_map(|name| ["--only", name]);
    let said = lm
        .args([
            "selftest",
            "durability",
            "--seed",
            "5",
            "--cuts",
            "2",
            "--records",
            "4",
            "--json",
        ])
        .args(only)
        .args(["--dir"])
        .args([work])
        .run()
        .code(0)
        .left_nothing();
    let report = said.json();
    let rows = report["layers"].as_array().expect("layers").clone();
    assert_eq!(rows.len(), names.len(), "{report:#}");
    rows
}

fn lacks(row: &Value) -> Option<&str> {
    row["trials"][0]["uncut"].as_str()
}

#[test]
fn a_cut_of_the_host_convicts_cache_unsafe_alone_and_a_killed_guest_loses_nothing() {
    if !is_root() {
        return skipped("power cuts need root");
    }
    let modes = ["unsafe", "directsync"];
    let names = modes.map(|mode| format!("vm:cache={mode}"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for row in selftest(&names) {
        if let Some(why) = lacks(&row) {
            skipped(&format!("{}: {why}", row["name"]));
            continue;
        }
        assert_eq!(row["as_expected"], true, "{row:#}");
        let liar = row["name"] == "vm:cache=unsafe";
        assert_eq!(row["known"], if liar { "liar" } else { "honest" });
        let trials = row["trials"].as_array().expect("trials");
        for trial in trials {
            assert_eq!(trial["guest_killed"]["lost"], 0, "{trial:#}");
        }
        // The guest's fsyncs, its disk, the host's file system and the disk that is cut.
        let storeys = trials[0]["storeys"].as_array().expect("a stack");
        assert_eq!(
            storeys[0]["name"], "fsync(2) that returned 0",
            "{storeys:#?}"
        );
        let last = storeys.last().expect("a disk");
        assert_eq!(last["name"], "the disk that is cut", "{storeys:#?}");
        let [inside, below] = [&storeys[0], last].map(|s| s["flushes"].as_u64().expect("counted"));
        assert_eq!(below < inside, liar, "{storeys:#?}");
        assert!(
            storeys.iter().any(|s| s["name"] == "vda of the guest"),
            "{storeys:#?}"
        );
    }
}
