//! A budget that is too small for all layers: what is said, and the command that it names.

use crate::common::{Lm, MOCK, READ};
use serde_json::Value;

fn left_out(report: &Value) -> Vec<&str> {
    let left = report["left_out"].as_array().expect("a list").iter();
    left.filter_map(|l| l["layer"].as_str()).collect()
}

#[test]
fn layers_that_do_not_fit_are_named_first_and_the_command_measures_them_all() {
    let read = [READ, &["--json", "--budget", "600ms"]].concat();
    let third = "mock:ns=7000";
    let layers = [MOCK, &[third]].concat();
    // Nothing proves where a mock runs, so the code is 4. By the plan eight blocks of a layer take 0.4 s: three do not fit into 0.9 s.
    let said = Lm::new().work_with(&read, &layers).run().code(4);
    let warning = format!("of all layers would take about 10 s: {third}");
    assert!(said.stderr.contains(&warning), "{}", said.stderr);
    let hint = said
        .stderr
        .lines()
        .find_map(|l| l.strip_prefix("hint: for all of them: layermark "));
    let command: Vec<String> = hint
        .expect("a command")
        .split(' ')
        .map(str::to_owned)
        .collect();
    let report = said.json();
    assert_eq!(left_out(&report), [third]);
    let of_it = report["layers"]
        .as_array()
        .expect("layers")
        .iter()
        .find(|l| l["name"] == third);
    assert_eq!(of_it.expect("the layer")["status"], "left-out");

    // The same again leaves out the same; the command that was named does not.
    let again = said
        .then()
        .args(["run", "--replay", "last", "--json"])
        .run()
        .code(4);
    assert_eq!(left_out(&again.json()), [third]);
    let again = again
        .then()
        .args(["run", "--replay", "last", "--budget", "soon"])
        .run();
    let again = again.fails(2, &["budget", "soon"]);
    let all = again
        .then()
        .args(command)
        .args(["--json"])
        .run()
        .code(4)
        .json();
    assert_eq!(left_out(&all), [""; 0]);
    let rows = all["results"].as_array().expect("results");
    assert!(
        rows.iter()
            .any(|r| r["layer"] == third && r["trials"].as_u64() >= Some(8))
    );
}
