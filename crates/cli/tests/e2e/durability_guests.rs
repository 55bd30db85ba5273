//! Power cuts below guests and below the servers of their shares. What a guest has left is read without a guest, so a
//! guest boots once, whatever the number of cuts. It cannot be shared: the disk below each is cut, and each is killed.

use serde_json::Value;

use crate::common::{Lm, all_guests, is_root, skipped};

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
            "6",
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
        assert_eq!(storeys[0]["name"], "records acknowledged", "{storeys:#?}");
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

/// The disk below the server is cut: what the guest synced has to be on it. Other tests always boot guests with virtiofs.
#[test]
fn shares_over_virtiofs_and_9p_keep_what_was_synced() {
    if !is_root() {
        return skipped("power cuts need root");
    }
    let shares = ["vm:share=9p", "vm:share=virtiofs"];
    for row in selftest(&shares[..if all_guests() { 2 } else { 1 }]) {
        if let Some(why) = lacks(&row) {
            skipped(&format!("{}: {why}", row["name"]));
            continue;
        }
        assert_eq!(row["as_expected"], true, "{row:#}");
        let trials = row["trials"].as_array().expect("trials");
        for trial in trials {
            // 9p without a cache has no shared mappings, which a write-ahead log of SQLite needs too.
            if trial["error"].is_string() {
                let mapped = trial["writer"] == "mmap" || trial["writer"] == "sqlite-wal";
                assert!(mapped && row["name"] == "vm:share=9p", "{trial:#}");
                continue;
            }
            assert_eq!(trial["guest_killed"]["lost"], 0, "{trial:#}");
        }
        let storeys = trials[0]["storeys"].as_array().expect("a stack");
        let below = storeys.last().expect("a disk")["flushes"].as_u64();
        assert!(below > Some(0), "{storeys:#?}");
    }
}

/// They are cut and not measured.
const SHARES: &str = r#"
name = "names"
layers = ["native"]
control = false
blocks = 1
sessions = 1
seed = 3

[[work]]
workload = "meta"
op = "open-stat"
files = 20

[power_cuts]
cuts = 5
records = 3
also = [LAYERS]
"#;

/// A client of NFS or SMB cannot ask for a sync of a directory, and nfs-ganesha and Samba do not do one by
/// themselves. The second cut is just after the last commit of `SQLite`, the fourth just after the last rename.
#[test]
fn shares_over_nfs_and_smb_lose_names_alone() {
    if !is_root() {
        return skipped("power cuts need root");
    }
    // Another test always boots a guest with NFS.
    let shares = ["vm:share=smb", "vm:share=nfs"];
    let shares = &shares[..if all_guests() { 2 } else { 1 }];
    let quoted: Vec<String> = shares.iter().map(|share| format!("{share:?}")).collect();
    let plan = SHARES.replace("LAYERS", &quoted.join(", "));
    let said = Lm::new().plan(&plan).args(["--json"]).run().left_nothing();
    let report = said.json();
    let mut cut = 0;
    for layer in shares {
        let all = report["power_cuts"].as_array().expect("power cuts");
        let trials: Vec<&Value> = all.iter().filter(|t| t["layer"] == *layer).collect();
        if let Some(why) = trials[0]["uncut"].as_str() {
            skipped(&format!("{layer}: {why}"));
            continue;
        }
        cut += 1;
        for trial in trials {
            let writer = trial["writer"].as_str().expect("a name");
            let lost = trial["losing"].as_u64() > Some(0);
            assert!(
                !lost || ["create", "rename", "sqlite"].contains(&writer),
                "{trial:#}"
            );
            assert_eq!(lost && writer != "sqlite", writer == "rename", "{trial:#}");
        }
    }
    let headline = report["headline"].as_str().expect("a headline");
    let names_alone = headline.contains("only writers that sync a directory lost data");
    assert!(names_alone || cut == 0, "{headline}");
}
