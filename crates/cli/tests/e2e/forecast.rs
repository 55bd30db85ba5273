//! Forecasts of steps: calls counted natively, costs measured in each layer of the same run.

use serde_json::Value;

use crate::common::{Lm, is_root, result, skipped};

/// Small steps and the costs of their calls.
const PLAN: &str = r#"
name = "forecast"
blocks = 2
sessions = 1
control = false
layers = ["overlay:upper", "fuse"]

[[work]]
workload = "steps"
preset = "untar,rm"
files = 60
trace = true

[[work]]
workload = "meta"
op = "stat,open-stat,list,small-read,small-write,create,set-attr,unlink"
files = 20
file_size = "4K"
"#;

/// The forecast of a step in a layer. `None` where the machine was too busy for a cost to be trusted.
#[track_caller]
fn forecast<'a>(report: &'a Value, step: &str, layer: &str) -> Option<&'a Value> {
    let rows = report["forecast"]["rows"].as_array().expect("forecasts");
    let found = rows
        .iter()
        .find(|row| row["label"] == step && row["layer"] == layer);
    if found.is_none() {
        let lacks = report["forecast"]["lacks"].as_array();
        let mut lacks = lacks.into_iter().flatten().filter_map(Value::as_str);
        let told = lacks.find(|l| l.contains("no trusted result") && l.contains(layer));
        let Some(told) = told else {
            panic!("no {step} in {layer}: {}", report["forecast"])
        };
        skipped(told);
    }
    found
}

/// How many calls of a kind were counted.
fn calls(row: &Value, kind: &str) -> u64 {
    let mut all = row["calls"].as_array().expect("calls").iter();
    let of = all.find(|call| call["kind"] == kind);
    of.map_or(0, |call| call["calls"].as_f64().expect("a number") as u64)
}

#[test]
fn a_step_is_forecast_from_calls_that_were_counted_natively() {
    if !is_root() {
        return skipped("needs root for an overlay");
    }
    let said = Lm::new().plan(PLAN).args(["--json"]).run().left_nothing();
    let report = said.json();
    for layer in ["overlay:upper", "fuse"] {
        let [untar, rm] = ["untar", "rm -rf"].map(|step| forecast(&report, step, layer));
        // 60 files in two directories, and `small` itself.
        if let Some(untar) = untar {
            assert_eq!(calls(untar, "create"), 63, "{untar:#}");
            assert_eq!(calls(untar, "set-attr"), 180, "{untar:#}");
            assert!(calls(untar, "write") >= 60, "{untar:#}");
        }
        if let Some(rm) = rm {
            assert_eq!(calls(rm, "unlink"), 63, "{rm:#}");
            assert_eq!(calls(rm, "create"), 0, "{rm:#}");
        }
        for row in [untar, rm].into_iter().flatten() {
            let step = result(&report, row["label"].as_str().expect("a step"), layer);
            assert_eq!(row["result"], step["id"]);
            assert_eq!(row["measured_us"], step["op_us"]);
        }
    }
    said.then()
        .args(["report", "last", "--full"])
        .run()
        .prints("What the system calls of a step cost");
}

#[test]
fn a_missing_strace_is_named_with_the_command_that_installs_it() {
    let few = [
        ("layers = [\"overlay:upper\", \"fuse\"]", "layers = []"),
        ("blocks = 2", "blocks = 1"),
        (
            ",open-stat,list,small-read,small-write,create,set-attr,unlink",
            "",
        ),
    ];
    let plan = few.iter().fold(PLAN.to_owned(), |plan, (from, to)| {
        assert!(plan.contains(from), "{from}");
        plan.replace(from, to)
    });
    let hidden =
        "for f in /usr/bin/strace /bin/strace; do test ! -e $f || mount --bind /dev/null $f; done";
    let Some(lm) = Lm::new()
        .plan(&plan)
        .args(["--json"])
        .around(hidden, "true")
    else {
        return;
    };
    let report = lm.run().json();
    assert_eq!(
        report["forecast"]["lacks"][0],
        "The system calls of `untar` and `rm -rf` were not counted: `strace` is not installed: apt-get install strace"
    );
    assert!(result(&report, "untar", "native")["trials"].as_u64() > Some(0));
}
