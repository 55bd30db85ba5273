//! `layermark launch` in guests: programs of this host, put on the guest's disk and into a folder that is
//! shared into it.

use crate::common::{Lm, is_root, skipped};
use serde_json::Value;

const DISK: &str = "vm:root=host";
const SHARE: &str = "vm:root=host,share=virtiofs";

#[test]
fn a_packaged_program_is_launched_cold_from_a_guests_disk_and_from_a_share() {
    if !is_root() {
        return skipped("virtiofsd is for root");
    }
    let lm = Lm::new();
    let work = lm.work();
    // The package came with its links.
    let script = "exec 3</etc/passwd; [ -L /bin ] && echo ready; exec sleep 60";
    let said = lm
        .args([
            "launch",
            "--runs",
            "2",
            "--package",
            "--cache",
            "cold",
            "--ready",
            "stdout=^ready$",
        ])
        .args([
            "--trace",
            "--no-control",
            "--json",
            "-l",
            "native",
            "-l",
            DISK,
            "-l",
            SHARE,
            "--dir",
        ])
        .args([work])
        .args(["--", "sh", "-c", script])
        .run()
        .left_nothing();
    if said.code == Some(3) && said.stderr.contains("hint: ") {
        return skipped(&said.stderr);
    }
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.stderr);
    let report = said.json();
    for row in report["results"].as_array().expect("results") {
        assert_eq!(row["failed_trials"], 0, "{row:#}\n{}", said.stderr);
    }
    for layer in [DISK, SHARE] {
        let its = found(&report["layers"], "name", layer);
        assert_eq!(its["status"], "ready", "{its:#}");
        assert!(its["facts"]["guest"]["kernel"].is_string(), "{its:#}");
        let series = found(&report["series"], "layer", layer);
        println!("{series:#}");
        let runs = series["runs"].as_array().expect("runs");
        assert_eq!(runs.len(), 2);
        for run in runs {
            assert_eq!(run["state"], "cold", "{run:#}");
            assert!(run["major_faults"].as_u64() > Some(2), "{run:#}");
            assert_eq!(run["stopped"], "term", "{run:#}");
            assert!(run["started"].as_u64() >= Some(1), "{run:#}");
        }
        assert!(series["trace"]["lookups"].as_u64() > Some(0), "{series:#}");
    }
    // The guest's kernel keeps control groups of the second version: what the tree of processes read
    // from the guest's disk is counted there.
    let series = found(&report["series"], "layer", DISK);
    assert!(
        series["counted_by"].to_string().contains("io.stat"),
        "{series:#}"
    );
    for run in series["runs"].as_array().expect("runs") {
        let (bytes, blocks) = (run["device_bytes"].as_u64(), run["input_blocks"].as_u64());
        assert!(bytes >= Some(64 << 10) && blocks > Some(64), "{run:#}");
    }
}

#[track_caller]
fn found<'a>(all: &'a Value, key: &str, name: &str) -> &'a Value {
    let list = all.as_array().expect("a list");
    let one = list.iter().find(|v| v[key] == name);
    one.unwrap_or_else(|| panic!("no {name}: {all:#}"))
}
