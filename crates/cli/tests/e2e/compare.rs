//! `compare` and `--fail-if`: what became slower is told and fails a build; what did not, does not.

use std::{fs, path::Path};

use serde_json::Value;

use crate::common::{self, Lm, MOCK, READ, Said, result};

/// The layer of the fixture `gate-held`: every read is a request to its process.
const LAYER: &str = "fuse:cache=none";
/// The layer of `gate-broken`, which waits in every request: what a slower release of it would be.
const SLOWER: &str = "fuse:cache=none,delay=2ms";
/// The layer of `compare-old` and `compare-new`: the first and the second of these by one name.
const SHARE: &str = "share";

/// A stored run, as a file too.
fn stored(lm: Lm, fixture: &str, file: &str) -> Said {
    let lm = lm.keeping(&[fixture]);
    lm.args(["report", "-o", file]).run().code(0)
}

fn json(dir: &Path, file: &str) -> Value {
    let text = fs::read_to_string(dir.join(file)).expect(file);
    serde_json::from_str(&text).expect(file)
}

fn write(dir: &Path, file: &str, json: &Value) {
    fs::write(dir.join(file), json.to_string()).expect(file);
}

/// `old.json`, and `new.json`, where a read takes 2 ms more.
fn two_runs() -> Said {
    let said = stored(Lm::new(), "compare-old", "old.json");
    stored(said.then(), "compare-new", "new.json")
}

fn label(report: &Value) -> String {
    report["results"][0]["label"]
        .as_str()
        .expect("a label")
        .to_owned()
}

#[test]
fn a_layer_that_became_slower_fails_the_gate_and_one_that_did_not_passes() {
    let said = two_runs();
    let outputs = [
        "-o",
        "c.json",
        "-o",
        "c.junit.xml",
        "-o",
        "c.md",
        "-o",
        "c.csv",
        "-o",
        "c.html",
    ];
    let compare = ["compare", "old.json", "new.json", "--fail-if", "slower=10%"];
    let said = said.then().args(compare).args(outputs).run().code(1);
    let said = said
        .says(&format!("gate failed: {SHARE} at "))
        .says("gates: 0 passed, 1 failed, 0 cannot be told")
        .prints("is slower than in the old run")
        .prints("layermark compare old.json new.json --full");
    let dir = said.dir.path();
    let report = json(dir, "c.json");
    let label = label(&report);
    let (slower, native) = (
        result(&report, &label, SHARE),
        result(&report, &label, "native"),
    );
    assert_eq!(slower["verdict"], "slower");
    let estimate = slower["ratio"]["estimate"].as_f64().unwrap();
    assert!(estimate > 1.5, "{slower:#}");
    // Two milliseconds and little more: a read is one request.
    let extra = slower["extra_us"]["estimate"].as_f64().unwrap();
    assert!((2000.0..2400.0).contains(&extra), "{extra}");
    assert!(slower["old_us"].as_f64() < slower["op_us"].as_f64());
    assert_ne!(native["verdict"], "baseline");
    assert_eq!(report["compared"]["baseline"], "native");
    assert_eq!(report["gates"][0]["state"], "failed");
    let text = |file: &str| fs::read_to_string(dir.join(file)).expect(file);
    let junit = text("c.junit.xml");
    assert!(
        junit.contains("failures=\"1\"") && junit.contains("<failure type=\"gate\""),
        "{junit}"
    );
    assert!(
        text("c.md").contains("1 of 1 gated result fails"),
        "{}",
        text("c.md")
    );
    let page = text("c.html");
    assert!(
        page.contains("time now / in the old run")
            && !page.contains("time in the layer / natively"),
        "{page}"
    );
    assert!(page.contains(&format!("href=\"#{}\"", slower["id"].as_str().unwrap())));
    // The other way round it became faster, and the machine's own change fails nothing.
    let back = ["compare", "new.json", "old.json", "--fail-if", "slower=10%"];
    let said = said
        .then()
        .args(back)
        .run()
        .code(0)
        .prints("faster than in the old run");
    said.says("gates: 1 passed, 0 failed, 0 cannot be told");
}

#[test]
fn runs_of_the_store_are_compared_by_their_names() {
    let said = stored(Lm::new(), "gate-held", "a.json");
    let id = common::history(said.dir.path())[0]["run"]
        .as_str()
        .unwrap()
        .to_owned();
    for names in [
        ["last", "last"],
        ["#1", "last"],
        ["1", id.as_str()],
        ["a.json", "last~0"],
    ] {
        let compare = Lm::with(said.dir.path()).args(["compare"]).args(names);
        let compare = compare
            .args(["--fail-if", "slower", "--json"])
            .run()
            .code(0);
        let report = compare.json();
        let rows = report["results"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "{names:?}");
        for row in rows {
            let ratio = row["ratio"]["estimate"].as_f64().unwrap();
            assert!((ratio - 1.0).abs() < 1e-9, "{names:?}: {row:#}");
        }
    }
    let itself = Lm::with(said.dir.path()).args(["compare", "last"]).run();
    itself.fails(2, &["`last` is the last run itself", "compare last~1 last"]);
    let help = Lm::new().args(["compare", "--help"]).run().code(0).stdout;
    assert!(
        help.contains("junit.xml") && !help.contains("xlsx"),
        "{help}"
    );
    let missing = ["last~1", "#2", "99999999999999999999", "#0", "last~", "zz"];
    for name in missing {
        let compare = Lm::with(said.dir.path())
            .args(["compare", name, "last"])
            .run();
        compare.fails(2, &[&format!("no run `{name}`"), "layermark history"]);
    }
}

#[test]
fn what_differs_between_the_runs_is_said_and_can_be_refused() {
    let said = stored(Lm::new(), "gate-held", "old.json");
    let dir = said.dir.path();
    let mut new = json(dir, "old.json");
    new["machine"]["kernel"] = "9.9.9-other".into();
    new["machine"]["cpu"] = "Another CPU\u{1b}[2J".into();
    new["run_version"] = "9.0.0".into();
    write(dir, "new.json", &new);
    let compare = ["compare", "old.json", "new.json", "--full"];
    let said = said.then().args(compare).run().code(0);
    let said = said
        .prints("9.9.9-other now")
        .prints("Another CPU")
        .prints("9.0.0 now")
        .prints("The runs are not alike");
    assert!(!said.stdout.contains('\u{1b}'));
    let strict = ["compare", "old.json", "new.json", "--same-machine"];
    let refused = said.then().args(strict).run();
    let refused = refused.fails(2, &["unlike machines", "9.9.9-other", "--same-machine"]);
    let alike = ["compare", "old.json", "old.json", "--same-machine"];
    refused.then().args(alike).run().code(0);
}

#[test]
fn what_is_no_run_is_refused() {
    let said = stored(Lm::new(), "gate-held", "a.json");
    let dir = said.dir.path().to_owned();
    let refused = |lm: Lm, words: &[&str]| drop(lm.run().fails(2, words));
    let compare = |old: &str| Lm::with(&dir).args(["compare", old, "a.json"]);
    for (name, text, why) in [
        ("empty.json", "", "the file is empty"),
        ("blank.json", " \n", "the file is empty"),
        ("text.json", "these are my memoirs", "not JSON"),
        (
            "other.json",
            "{\"results\": []}",
            "not a report of layermark",
        ),
        ("list.json", "[1]", "not a report of layermark"),
        (
            "half.json",
            "{\"schema\": \"layermark.report/1\"}",
            "not a complete report",
        ),
    ] {
        fs::write(dir.join(name), text).unwrap();
        refused(compare(name), &[name, why, "layermark report RUN -o x.lm"]);
    }
    refused(compare("gone.json"), &["gone.json", "No such file"]);
    refused(compare("./work"), &["work", "directory"]);
    // What lies here hides no run.
    refused(compare("work"), &["no run `work`"]);
    refused(compare("nobody"), &["no run `nobody`", "layermark history"]);
    // A comparison is no run, and of a run of an older layermark too little is known.
    let both = ["compare", "a.json", "a.json", "-o", "both.json"];
    Lm::with(&dir).args(both).run().code(0);
    refused(compare("both.json"), &["comparison of two runs"]);
    let mut old = json(&dir, "a.json");
    for row in old["results"].as_array_mut().unwrap() {
        row.as_object_mut().unwrap().remove("block_ratios");
    }
    write(&dir, "old.json", &old);
    refused(compare("old.json"), &["older layermark"]);
    // Nothing in common.
    let mut other = json(&dir, "a.json");
    for row in other["results"].as_array_mut().unwrap() {
        row["label"] = "another point".into();
        row["point"]["record"] = 8192.into();
    }
    write(&dir, "b.json", &other);
    refused(
        compare("b.json"),
        &["no point in common", "another point", "--replay"],
    );
    let book = ["compare", "a.json", "a.json", "-o", "x.xlsx"];
    refused(
        Lm::with(&dir).args(book),
        &["no report in the format xlsx", "x.md"],
    );
    assert!(!dir.join("x.xlsx").exists());
}

#[test]
fn a_gate_that_says_nothing_is_refused_before_anything_is_measured() {
    for (gate, words) in [
        (
            "faster=10%",
            vec!["`slower` is missing", "--fail-if slower=10%"],
        ),
        ("slower=10", vec!["10% or 3x"]),
        ("slower=0.5x", vec!["1x at least"]),
        (
            "fuze:cache=none slower",
            vec![
                "no layer `fuze:cache=none`",
                "did you mean `fuse:cache=none`?",
            ],
        ),
        ("native slower", vec!["no layer `native` is compared"]),
        ("slower at \"raed\"", vec!["no point `raed` is compared"]),
    ] {
        let lm = Lm::new().measure(&[LAYER]).args(["--fail-if", gate]);
        let said = lm.run().fails(2, &words).left_nothing();
        assert!(
            common::history(said.dir.path()).is_empty(),
            "{gate}: it was measured all the same"
        );
    }
    let alone = Lm::new()
        .measure(&["native"])
        .args(["--fail-if", "slower"])
        .run();
    let said = alone.fails(2, &["no layer to compare"]).left_nothing();
    assert!(common::history(said.dir.path()).is_empty());
    // Of two runs, and of one that is continued, the names are known as well.
    let said = stored(said.then(), "gate-held", "a.json");
    let compare = ["compare", "a.json", "a.json", "--fail-if", "bind slower"];
    let said = said
        .then()
        .args(compare)
        .run()
        .fails(2, &["no layer `bind`", LAYER]);
    let resume = [
        "run",
        "--resume",
        "last",
        "--budget",
        "1m",
        "--fail-if",
        "bind slower",
    ];
    said.then()
        .args(resume)
        .run()
        .fails(2, &["no layer `bind`"]);
}

/// That the exit code is 1 where the figures can be trusted, which those of a script cannot, is tested beside
/// `commands::measure::ended`.
#[test]
fn a_run_is_held_to_its_baseline() {
    let layer = MOCK[1];
    let gates = [
        "--fail-if",
        "slower=1.4x",
        "--fail-if",
        "slower=100000x",
        "-o",
        "g.junit.xml",
    ];
    let said = Lm::new().mock().args(gates).run().code(4);
    let said = said
        .says(&format!("gate failed: {layer} at "))
        .says("at most 1.40x is allowed")
        .says("gates: 1 passed, 1 failed, 0 cannot be told");
    let junit = fs::read_to_string(said.dir.path().join("g.junit.xml")).unwrap();
    assert!(
        junit.contains("failures=\"1\"") && junit.contains("slower=1.4x: "),
        "{junit}"
    );
    // With two blocks nothing is known, which fails only where it is asked for.
    let few = |more: &[&str]| {
        let lm = Lm::new().work_with(READ, MOCK).args(["--blocks", "2"]);
        let lm = lm.args(["--fail-if", "slower=100000x"]);
        lm.args(more).run().code(4)
    };
    few(&[]).says("gates: 0 passed, 0 failed, 1 cannot be told");
    few(&["--fail-undecided"]).says("gates: 0 passed, 1 failed");
}

#[test]
fn history_tells_verdicts_and_trends() {
    let said = stored(Lm::new(), "gate-broken", "a.json");
    let label = label(&json(said.dir.path(), "a.json"));
    let said = said.then().mock().run().code(4);
    let listed = said
        .then()
        .args(["history"])
        .run()
        .code(0)
        .prints("1/1: 1 slower");
    let listed = listed.prints("verdicts");
    // The headline of a run is below it, where it was kept when the run ended.
    let (heads, lines): (Vec<&str>, Vec<&str>) =
        listed.stdout.lines().partition(|l| l.starts_with("      "));
    let [head] = heads[..] else {
        panic!("{heads:?}: {}", listed.stdout)
    };
    let lines = lines.into_iter();
    let column: Vec<_> = lines.map(|l| l.split_whitespace().next()).collect();
    assert_eq!(
        column,
        [Some("#"), Some("2"), Some("1")],
        "{}",
        listed.stdout
    );
    let only = |args: &[&str], runs: usize| {
        let said = Lm::with(listed.dir.path())
            .args(["history", "--json"])
            .args(args)
            .run()
            .code(0);
        let all = said.json();
        let all = all["runs"].as_array().unwrap().clone();
        assert_eq!(all.len(), runs, "{args:?}");
        all
    };
    let fuse = only(&["--layer", "fuse"], 1);
    assert_eq!(fuse[0]["number"], 1);
    assert_eq!(fuse[0]["verdicts"]["slower"], 1);
    assert!(fuse[0]["headline"].is_null());
    let mock = only(&["--layer", MOCK[1]], 1);
    assert_eq!(mock[0]["headline"].as_str(), Some(head.trim()));
    assert!(head.contains(MOCK[1]), "{head}");
    only(&["--layer", SLOWER], 1);
    only(&["--layer", "fuse:delay=2ms"], 1);
    only(&["--layer", "fuse:delay=2ms,cache=none"], 1);
    only(&["--layer", "fuse:delay=2"], 0);
    only(&["--layer", "fus"], 0);
    only(&["--plan", "file"], 2);
    only(&["--plan", "card"], 0);
    only(&["--since", "1h", "--layer", MOCK[1]], 1);
    only(&["--since", "2026-11-02"], 2);
    only(&["--since", "2199-01-01"], 0);
    only(&["--limit", "1"], 1);
    let said = Lm::with(listed.dir.path())
        .args(["history", "--plan", "card"])
        .run();
    let said = said.code(0).says("no such run");
    let said = said.then().args(["history", "--since", "yesterday"]).run();
    let said = said.fails(2, &["2026-11-02"]);
    for (flag, value) in [("--limit", "0"), ("--layer", "a=1"), ("--since", "7d ago")] {
        let refused = Lm::with(said.dir.path()).args(["history", flag, value]);
        refused.run().fails(2, &[flag, value]);
    }
    // Options in another order name the same layer.
    let trend = ["history", "--trend", &label, "fuse:delay=2ms,cache=none"];
    let said = said.then().args(trend).run().code(0);
    let said = said
        .prints("1 run\n")
        .prints("ten are needed")
        .prints("x (");
    let said = said.then().args(trend).args(["--json"]).run().code(0);
    let told = said.json();
    assert_eq!(
        (&told["schema"], &told["unit"]),
        (&"layermark.trend/1".into(), &"ratio".into())
    );
    assert!(told["runs"][0]["value"].as_f64().unwrap() > 1.5);
    let said = said
        .then()
        .args(["history", "--trend", &label, "native"])
        .run()
        .code(0);
    let said = said.prints("time an operation").prints("s (");
    let page = ["history", "--trend", &label, SLOWER, "-o", "trend.html"];
    let said = said.then().args(page).run().code(0).says("trend.html");
    let text = fs::read_to_string(said.dir.path().join("trend.html")).unwrap();
    assert!(
        text.contains("<svg") && text.contains("ten are needed"),
        "{text}"
    );
    // It may be written again, and nothing else may be.
    let said = said.then().args(page).run().code(0);
    fs::write(said.dir.path().join("trend.html"), "mine").unwrap();
    let said = said.then().args(page).run();
    let said = said.fails(2, &["no record that layermark wrote", "--force"]);
    let other = ["history", "--trend", &label, SLOWER, "-o", "trend.csv"];
    let said = said.then().args(other).run();
    let said = said.fails(2, &["trend.csv", "--json"]);
    let wrong = ["history", "--trend", &label, "fuze:cache=none,delay=100us"];
    said.then()
        .args(wrong)
        .run()
        .fails(2, &["no run has measured", SLOWER]);
}
