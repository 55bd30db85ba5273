//! Tests wait for events and not for a time, and assert no times: beside other tests anything may take long. This one
//! reads the sources for tests that sleep or look at the clock; each has a line and a reason here.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// A file with tests, how often they sleep and read the clock, and why these may.
type Allowed = (&'static str, usize, usize, &'static str);

/// Waits for an event, with a deadline of minutes.
const WAITS: &str = "waits for an event, with a long deadline";
/// A lower bound always holds: no load of the machine makes anything quicker.
const AT_LEAST: &str = "asserts only that something took at least its time";
/// What a slow device or peer takes is the input of the test, and no time is asserted that it could exceed.
const INPUT: &str = "what the other side takes is the test's input";
/// A signal at a random moment, an outage of two seconds.
const MOMENT: &str = "the moment of a blow is the test's input";
/// A process that ends while another one wants what it has.
const MOMENT_OF_END: &str = "the moment at which the other one ends is the test's input";
/// The code gets moments as values; the clock only gives a first one.
const GIVEN: &str = "times are values that are passed in";

const ALLOWED: &[Allowed] = &[
    (
        "cli/src/commands/serve/live/tests.rs",
        1,
        0,
        "how long a disk is busy is the input",
    ),
    ("cli/src/progress.rs", 0, 2, GIVEN),
    (
        "cli/tests/e2e/budget.rs",
        0,
        1,
        "the promise is a time: thirty times the budget is the limit",
    ),
    (
        "cli/tests/e2e/causes.rs",
        1,
        0,
        "the rate of another program's writes is the input",
    ),
    ("cli/tests/e2e/common/machine.rs", 1, 1, WAITS),
    (
        "cli/tests/e2e/durability.rs",
        0,
        1,
        "how long another program flushes is the input",
    ),
    ("cli/tests/e2e/durability_sequences.rs", 1, 0, MOMENT),
    (
        "cli/tests/e2e/fleet.rs",
        0,
        1,
        "a lost host ends before its patience",
    ),
    (
        "cli/tests/e2e/fleet_days.rs",
        1,
        0,
        "how long a database is gone is the input",
    ),
    (
        "cli/tests/e2e/hanging.rs",
        3,
        2,
        "waits, and cleans up after its deadline; two signals at once would be one",
    ),
    ("cli/tests/e2e/hostile.rs", 3, 0, MOMENT),
    ("cli/tests/e2e/kill_matrix.rs", 4, 6, MOMENT),
    (
        "cli/tests/e2e/real_bad_days.rs",
        0,
        2,
        "looks without a pause for a moment that is short, with a long deadline",
    ),
    ("cli/tests/e2e/signals.rs", 3, 0, MOMENT),
    ("cli/tests/e2e/stopped_guests.rs", 0, 1, WAITS),
    ("cli/tests/e2e/team.rs", 1, 0, MOMENT),
    ("cli/tests/planted/fs.rs", 2, 0, INPUT),
    (
        "fleet/src/link.rs",
        0,
        1,
        "the promise is a time: a hundred times the limit is given",
    ),
    ("fleet/src/task.rs", 0, 3, WAITS),
    (
        "fuzz/tests/stable.rs",
        0,
        2,
        "the budget of the fuzzer, and what it calls a hang",
    ),
    ("lab/src/execute/cpu.rs", 0, 4, GIVEN),
    ("lab/src/execute/outcome.rs", 0, 1, GIVEN),
    (
        "lab/src/execute/watch.rs",
        2,
        0,
        "that a call is not given up shows only after the time in which it would be",
    ),
    ("lab/tests/lab/common/mod.rs", 1, 0, INPUT),
    ("lab/tests/lab/resume.rs", 1, 0, MOMENT),
    ("layers/src/fuse/requests.rs", 0, 1, AT_LEAST),
    ("layers/src/net/relay.rs", 0, 4, AT_LEAST),
    ("layers/src/removal.rs", 0, 1, INPUT),
    ("layers/tests/conformance/driver.rs", 1, 4, WAITS),
    (
        "layers/tests/conformance/inside.rs",
        1,
        1,
        "a check that hangs until it is killed; and a time that is printed",
    ),
    (
        "layers/tests/conformance/power_cut.rs",
        0,
        1,
        "a check that hangs until it is killed",
    ),
    ("layers/tests/conformance/state.rs", 1, 1, WAITS),
    (
        "layers/tests/conformance/traps.rs",
        0,
        3,
        "delays are at least as asked; and the quickest of 400 is not much longer",
    ),
    (
        "layers/tests/conformance/virtual_machine.rs",
        0,
        1,
        "a time that is printed",
    ),
    (
        "probe/src/clock.rs",
        1,
        2,
        "compares two clocks over a time, the best of five",
    ),
    ("probe/src/motion.rs", 1, 1, WAITS),
    (
        "probe/src/programs/apart.rs",
        4,
        1,
        "waits for an event; then what ended must stay silent for a while",
    ),
    ("probe/src/queue/tests.rs", 1, 1, AT_LEAST),
    (
        "probe/src/programs/spawn.rs",
        0,
        2,
        "a moment lies between two others",
    ),
    ("probe/src/run/drive.rs", 4, 2, INPUT),
    ("probe/src/run/team.rs", 0, 1, GIVEN),
    (
        "probe/src/run/tests.rs",
        0,
        2,
        "the best of 200, with a wide limit",
    ),
    ("probe/src/run/waiting.rs", 0, 1, GIVEN),
    ("probe/src/selftest.rs", 0, 2, INPUT),
    ("probe/src/serve/tests.rs", 1, 0, INPUT),
    (
        "probe/src/usage.rs",
        0,
        2,
        "waits for 5 ms of CPU time, with a long deadline",
    ),
    ("probe/src/workloads/ftp/tests.rs", 0, 1, AT_LEAST),
    ("probe/src/workloads/http/tests.rs", 3, 1, INPUT),
    ("probe/src/workloads/iops/worker.rs", 2, 0, INPUT),
    ("probe/src/workloads/net/tests.rs", 4, 2, INPUT),
    ("probe/src/workloads/net/traffic.rs", 1, 0, INPUT),
    ("probe/src/workloads/net/transactions.rs", 1, 1, AT_LEAST),
    ("probe/src/workloads/work_dir.rs", 0, 1, INPUT),
    (
        "probe/tests/probe/serve.rs",
        0,
        1,
        "a rate: the bound grows with the time that passed",
    ),
    (
        "probe/tests/probe/turns.rs",
        0,
        1,
        "the best of 300, with a wide limit",
    ),
    ("store/src/lib.rs", 0, 2, GIVEN),
    ("store/tests/store/files.rs", 1, 0, MOMENT_OF_END),
    (
        "store/tests/store/server.rs",
        1,
        1,
        "an outage of two seconds; and a time that is at least as asked",
    ),
];

/// The part of a file that is tests.
fn tests_of<'a>(path: &Path, text: &'a str) -> &'a str {
    let all = ["tests.rs", "testing.rs"]
        .iter()
        .any(|name| path.ends_with(name))
        || path.iter().any(|part| part == "tests");
    match text.find("#[cfg(test)]\nmod ") {
        _ if all => text,
        Some(at) => &text[at..],
        None => "",
    }
}

/// How often it sleeps, and how often it reads the clock.
fn counted(tests: &str) -> (usize, usize) {
    let count = |words: &str| tests.matches(words).count();
    let bare = count("sleep(Duration") - count("thread::sleep(Duration");
    let clock = count("Instant::now()") + count("Instant::now)") + count("monotonic_ns()");
    (count("thread::sleep(") + bare, clock)
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn tests_that_sleep_or_read_the_clock_say_why() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    sources(&crates, &mut files);
    assert!(files.len() > 500, "{} files", files.len());
    let mut found = BTreeMap::new();
    for path in files {
        let name = path.strip_prefix(&crates).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let counted = counted(tests_of(name, &text));
        if counted != (0, 0) && name != Path::new("testkit/tests/time.rs") {
            found.insert(name.to_str().unwrap().to_owned(), counted);
        }
    }
    let listed = ALLOWED
        .iter()
        .map(|(name, sleeps, looks, _)| ((*name).to_owned(), (*sleeps, *looks)));
    let listed: BTreeMap<_, _> = listed.collect();
    let differ = |name: &&String| found.get(*name) != listed.get(*name);
    let names = found
        .keys()
        .chain(listed.keys().filter(|name| !found.contains_key(*name)));
    let wrong: Vec<String> = names
        .filter(differ)
        .map(|name| {
            let (now, then) = (found.get(name), listed.get(name));
            format!("{name}: sleeps and looks at the clock are {now:?}, and {then:?} in the list")
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "wait for an event (layermark_testkit::wait_for), or count ticks or operations; if neither can be, list it with \
         its reason in {}:\n{}",
        file!(),
        wrong.join("\n")
    );
}
