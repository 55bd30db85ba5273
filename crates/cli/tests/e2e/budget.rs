//! A budget that is too short: what is said, what is refused, and the command that it names.

use crate::common::{Lm, MOCK, Said};
use serde_json::Value;

fn left_out(report: &Value) -> Vec<&str> {
    let left = report["left_out"].as_array().expect("a list").iter();
    left.filter_map(|l| l["layer"].as_str()).collect()
}

/// Three layers at seven points: by the plan eight blocks of each take 2.8 s, and its set-up 0.15.
fn three(budget: &str, more: &[&str]) -> Said {
    let read = [
        "file",
        "--op",
        "read",
        "--record",
        "512..32K",
        "--file-size",
        "64K",
        "--json",
        "--budget",
        budget,
    ];
    let read = [&read, more].concat();
    Lm::new()
        .work_with(&read, &[MOCK, &["mock:ns=7000"]].concat())
        .run()
}

#[test]
fn layers_that_may_be_dropped_are_named_first_and_the_command_measures_them_all() {
    let third = "mock:ns=7000";
    // Other tests may make the machine so slow for a moment that even two layers do not fit.
    let mut said = three("6500ms", &["--drop"]);
    for _ in 0..9 {
        if said.code == Some(2) {
            said = three("6500ms", &["--drop"]);
        }
    }
    // Nothing proves where a mock runs, so the code is 4.
    let said = said.code(4);
    let told = said.stderr.contains(" of all layers would take about ");
    assert!(told && said.stderr.contains(third), "{}", said.stderr);
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
    assert!(left_out(&report).contains(&third));
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
    assert!(left_out(&again.json()).contains(&third));
    let again = again
        .then()
        .args(["run", "--replay", "last", "--budget", "soon"])
        .run();
    let again = again.fails(2, &["budget", "soon"]);
    // Other tests may make the machine slower than it was when the budget was named.
    let seconds = |word: &String| word.strip_suffix('s')?.parse::<u64>().ok();
    let four_times = |word: String| seconds(&word).map_or(word, |s| format!("{}s", 4 * s));
    let all = again
        .then()
        .args(command.into_iter().map(four_times))
        .args(["--json"])
        .run()
        .code(4)
        .json();
    assert_eq!(left_out(&all), [""; 0]);
    let rows = all["results"].as_array().expect("results");
    assert!(
        rows.iter()
            .any(|r| r["layer"] == third && r["trials"].as_u64() >= Some(3))
    );
}

#[test]
fn what_cannot_fit_is_refused_with_the_command_that_can() {
    let said = three("50ms", &[]).fails(2, &["the budget of 50ms is too small", "--drop"]);
    let hint = said.stderr.lines().find_map(|l| {
        let command = l.strip_prefix("hint: give it more time: layermark ")?;
        command.split_once("; or let it")
    });
    let (command, _) = hint.expect("a command");
    assert!(
        !command.contains("50ms") && command.contains(" --budget "),
        "{command}"
    );
    let mut command = shell_words::split(command).expect("a command");
    let at = command.iter().position(|word| word == "--budget");
    let budget = &mut command[at.expect("a budget") + 1];
    let seconds: u32 = budget
        .strip_suffix('s')
        .and_then(|number| number.parse().ok())
        .expect("seconds");
    // Other tests may begin meanwhile. How near forecasts are is measured by `benches/budgets.sh`.
    *budget = format!("{}s", 3 * seconds);
    let report = said.then().args(command).run().code(4).json();
    assert_eq!(left_out(&report), [""; 0]);
}

/// 20,000 files in each layer were made outside any limit.
#[test]
fn a_budget_bounds_the_making_of_files() {
    let begun = std::time::Instant::now();
    let many = [
        "meta", "--op", "unlink", "--files", "20000", "--budget", "2s",
    ];
    let said = Lm::new().work_with(&many, &["tmpfs"]).run();
    // Refused, or cut with what was made; on a fast machine even done.
    let took = begun.elapsed();
    assert!(took.as_secs() < 60, "{took:?}: {}", said.stderr);
    if said.code == Some(2) {
        assert!(
            said.stderr.contains("the budget of 2s is too small"),
            "{}",
            said.stderr
        );
    }
}
