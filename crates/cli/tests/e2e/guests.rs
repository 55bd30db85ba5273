//! What programs do in guests: one guest with a disk, and one with a shared folder. Each is booted once, by a plan
//! whose works are what the tests are about.

use serde_json::Value;

use crate::{
    common::{Lm, Said, all_guests, figures, found, is_root, skipped},
    devload,
};

const DISK: &str = "vm:root=host";
/// The first is the one that README names for changes seen from both sides.
const SHARES: [&str; 2] = ["vm:root=host,share=virtiofs", "vm:root=host,share=nfs"];

const ONCE: &str = "control = false\nblocks = 1\nsessions = 1\n";

const ON_CPUS: &str = r#"
[[work]]
workload = "file"
op = "read"
record = "4K"
file_size = "64K"
cpus = [1, 2]
"#;

/// A cold launch of a program of this host. The package came with its links.
const LAUNCH: &str = r#"
[[work]]
label = "launch"
workload = "launch"
command = "sh -c 'exec 3</etc/passwd; [ -L /bin ] && echo ready; exec sleep 60'"
ready = "stdout=^ready$"
cache = "cold"
package = true
timeout = "3m"
grace = "1m"
trace = true
"#;

/// The compiler is in every directory of `devload.rs`. In a guest it takes minutes of both CPUs.
const ON_BOTH_SIDES: &str = r#"
[[work]]
label = "users"
workload = "devload"
users = 1
jobs = 14
job_set = "no-cc"

[[work]]
label = "rename"
workload = "coherence"
op = "rename"
wait = "30s"
"#;

/// Runs works in a guest. `None` where none can be made.
fn run(layer: &str, works: &[&str]) -> Option<(Said, Value)> {
    if !is_root() {
        skipped("servers of shared folders, and a guest with this host's programs, are for root");
        return None;
    }
    let plan = format!(
        "name = 'guest'\nlayers = ['{layer}']\n{ONCE}{}",
        works.concat()
    );
    let said = Lm::new().plan(&plan).args(["--json"]).run().left_nothing();
    if said.code == Some(3) && said.stderr.contains("hint: ") {
        skipped(&said.stderr);
        return None;
    }
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.stderr);
    let report = said.json();
    for row in report["results"].as_array().expect("results") {
        assert_eq!(row["failed_trials"], 0, "{row:#}\n{}", said.stderr);
    }
    let its = found(&report["layers"], "name", layer);
    assert_eq!(its["status"], "ready", "{its:#}");
    assert!(its["facts"]["guest"]["kernel"].is_string(), "{its:#}");
    Some((said, report))
}

/// The launches of a packaged program.
fn launches<'a>(report: &'a Value, layer: &str) -> &'a Value {
    let series = found(&report["series"], "layer", layer);
    let runs = series["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 1, "{series:#}");
    for run in runs {
        assert_eq!(run["state"], "cold", "{run:#}");
        assert!(run["major_faults"].as_u64() > Some(2), "{run:#}");
        assert_eq!(run["stopped"], "term", "{run:#}");
        assert!(run["started"].as_u64() >= Some(1), "{run:#}");
    }
    assert!(series["trace"]["lookups"].as_u64() > Some(0), "{series:#}");
    series
}

/// Virtual CPUs are taken from the guest's kernel: those that were measured, and whether they are compared.
fn cpus(report: &Value, layer: &str) -> Vec<(u64, bool)> {
    let rows = report["scaling"].as_array().expect("scaling").iter();
    rows.filter(|r| r["layer"] == layer)
        .map(|r| (r["cpus"].as_u64().expect("CPUs"), r["speed_up"].is_number()))
        .collect()
}

#[test]
fn a_guest_has_the_cpus_it_was_given_and_launches_programs_from_its_disk() {
    let Some((_, report)) = run(DISK, &[ON_CPUS, LAUNCH]) else {
        return;
    };
    assert_eq!(cpus(&report, DISK), [(1, true), (2, true)]);
    // The guest's kernel keeps control groups of the second version: what the tree of processes read
    // from the guest's disk is counted there.
    let series = launches(&report, DISK);
    assert!(
        series["counted_by"].to_string().contains("io.stat"),
        "{series:#}"
    );
    for run in series["runs"].as_array().expect("runs") {
        let (bytes, blocks) = (run["device_bytes"].as_u64(), run["input_blocks"].as_u64());
        assert!(bytes >= Some(64 << 10) && blocks > Some(64), "{run:#}");
    }
}

/// The results of users' jobs are those of other layers, and each side sees what the other has renamed.
#[test]
fn a_guest_works_and_launches_in_a_shared_folder_and_this_host_sees_it() {
    let shares = if all_guests() { 2 } else { 1 };
    for share in &SHARES[..shares] {
        let Some((said, report)) = run(share, &[LAUNCH, ON_BOTH_SIDES]) else {
            return;
        };
        launches(&report, share);
        assert_eq!(devload::all_right(&said, "users", &[share]), 1);
        for side in ["in the layer", "on the host"] {
            let its = figures(&report, &format!("rename (seen {side})"), share);
            assert!(its["seen"].as_u64() > Some(0), "{its:#}");
            assert!(its["message_us"].as_f64() > Some(0.0), "{its:#}");
        }
    }
}
