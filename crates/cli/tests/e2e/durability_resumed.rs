//! A run that was stopped during its power cuts, and goes on with those that were not begun.

use std::fs;

use rustix::process::Pid;
use serde_json::Value;

use crate::common::{self, Lm, Said, needs_root, wait_for};

/// Flushes one item and ends.
const RUN: &str = "echo x > a; sync a .; echo ack a";
const CHECK: &str = "while read -r i; do [ -e $i ] || echo lost $i; done";

fn rows<'a>(report: &'a Value, kind: &str) -> Vec<&'a Value> {
    report[kind].as_array().expect("rows").iter().collect()
}

fn program<'a>(report: &'a Value, layer: &str, name: &str) -> &'a Value {
    let mut all = rows(report, "program_cuts").into_iter();
    let found = all.find(|c| c["layer"] == layer && c["program"] == name);
    found.unwrap_or_else(|| panic!("{layer}, {name}: {report:#}"))
}

fn not_begun(report: &Value) -> usize {
    let kinds = ["power_cuts", "program_cuts"];
    let all = kinds.iter().flat_map(|kind| rows(report, kind));
    all.filter(|row| row["not_begun"] == true).count()
}

/// Its measurement had ended, so "there is nothing to resume" was said of it; and what a Ctrl-C between two programs left was
/// never cut, since their layer had results.
#[test]
fn a_run_that_is_stopped_within_a_program_goes_on_with_it() {
    if !needs_root() {
        return;
    }
    let lm = Lm::new();
    let checks = lm.dir.path().join("checks");
    // After the program was killed, in an empty directory, and after the first cut.
    let counted = format!("{CHECK}; echo x >> {}; sleep 1", checks.display());
    let plan = format!(
        "name = \"two\"\nlayers = [\"native\"]\nblocks = 8\nsessions = 1\nseed = 3\ncontrol = false\n\n\
         [power_cuts]\ncuts = 2\nrecords = 1\n\n\
         [[power_cuts.programs]]\nname = \"first\"\nrun = '''{RUN}'''\ncheck = '''{counted}'''\ntime_ms = 500\n\n\
         [[power_cuts.programs]]\nname = \"second\"\nrun = '''{RUN}'''\ncheck = '''{CHECK}'''\ntime_ms = 500\n\n\
         [[work]]\nworkload = \"file\"\nop = \"append\"\nrecord = \"4K\"\nsync = \"each\"\n"
    );
    let (mut child, dir) = lm.plan(&plan).args(["--allow-programs", "--json"]).start();
    let pid = Pid::from_child(&child);
    wait_for("a cut under a program", || {
        let checked = fs::read_to_string(&checks).ok()?;
        (checked.lines().count() >= 3).then_some(())
    });
    common::interrupt(&mut child, pid);
    let said = Said::from(common::output(child), dir)
        .left_nothing()
        .code(130)
        .says("stopped; continue: layermark run --resume ");
    let stopped = said.json();
    let native = program(&stopped, "native", "second");
    assert_eq!(
        native["uncut"], "not done before the run ended",
        "{native:#}"
    );
    // Both programs, since the first one lost nothing in one cut of two, and all of the liar.
    assert_eq!(not_begun(&stopped), 5, "{stopped:#}");
    let first = program(&stopped, "native", "first");
    assert_eq!(
        (&first["cuts"], &first["not_begun"]),
        (&0.into(), &true.into()),
        "{first:#}"
    );
    let own = |report: &Value| -> Vec<Value> {
        let all = rows(report, "power_cuts").into_iter();
        all.filter(|row| row["layer"] == "native")
            .cloned()
            .collect()
    };

    let resumed = said
        .then()
        .args(["run", "--resume", "last", "--json"])
        .run();
    let resumed = resumed.left_nothing();
    let whole = resumed.json();
    assert!(matches!(resumed.code, Some(0 | 1)), "{}", resumed.stderr);
    assert_eq!(not_begun(&whole), 0, "{whole:#}");
    for name in ["first", "second"] {
        assert_eq!(program(&whole, "native", name)["cuts"], 2, "{whole:#}");
        let liar = program(&whole, "overlay:volatile", name);
        assert_eq!(liar["cuts"], 2, "{liar:#}");
    }
    // What was done is as it was, and is there once.
    assert_eq!(own(&whole), own(&stopped));
    assert_eq!(rows(&whole, "program_cuts").len(), 4, "{whole:#}");
    // The measurement is as it was.
    assert_eq!(whole["results"], stopped["results"]);
    resumed
        .then()
        .args(["run", "--resume", "last"])
        .run()
        .fails(2, &["is finished: there is nothing to resume"]);
}
