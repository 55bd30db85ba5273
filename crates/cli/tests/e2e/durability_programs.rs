//! The user's own program on a disk that loses power: whose loss is it, and what is not proved.

use serde_json::Value;

use crate::common::{Lm, Said, needs_root, skipped};

/// Writes, flushes and names an item, then acknowledges it. Slowly, so that each is read at once on a busy machine too.
const HONEST: &str = "i=0; while i=$((i+1)); do
    echo $i > item-$i; sync item-$i .; echo ack $i; sleep 0.03
done";
/// The same without a flush.
const CARELESS: &str = "i=0; while i=$((i+1)); do echo $i > item-$i; echo ack $i; done";
const CHECK: &str = "while read -r i; do [ \"$(cat item-$i 2>&1)\" = $i ] || echo lost $i; done";

/// Cuts the power of these layers, in which only flushes were measured before.
fn durability(program: &[&str], layers: &[&str]) -> Said {
    let lm = Lm::new();
    let work = lm.work();
    let small = "--records 4 --seed 3 --blocks 8 --sessions 1 --no-control --json --dir";
    lm.args(["durability"])
        .args(program)
        .args(layers.iter().flat_map(|layer| ["-l", layer]))
        .args(small.split(' '))
        .args([work])
        .run()
        .left_nothing()
}

fn cut(run: &str, check: &str, layers: &[&str]) -> Said {
    let six = ["--time", "600ms", "--cuts", "6"];
    durability(
        &[&["--run", run, "--check", check], &six[..]].concat(),
        layers,
    )
}

fn of<'a>(report: &'a Value, layer: &str) -> &'a Value {
    let cuts = report["program_cuts"].as_array().expect("cuts of programs");
    let found = cuts.iter().find(|c| c["layer"] == layer);
    found.unwrap_or_else(|| panic!("{layer}: {report:#}"))
}

fn number(cut: &Value, key: &str) -> u64 {
    cut[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key}: {cut:#}"))
}

/// What the report says of the program, in one line.
fn answer(said: Said) -> String {
    let report = said.then().args(["report", "last"]).run().stdout;
    let words: Vec<&str> = report.split_whitespace().collect();
    words.join(" ")
}

#[test]
fn an_honest_program_is_kept_by_honest_layers_and_a_liar_is_caught() {
    if !needs_root() {
        return;
    }
    let said = cut(HONEST, CHECK, &["overlay:upper", "overlay:volatile"]).code(1);
    let report = said.json();
    for layer in ["native", "overlay:upper"] {
        let cut = of(&report, layer);
        assert!(number(cut, "items") > 3, "{cut:#}");
        let seen = ["cuts", "losing", "lost_when_killed", "unchecked"].map(|key| number(cut, key));
        assert_eq!(seen, [6, 0, 0, 0], "{cut:#}");
    }
    assert!(
        number(of(&report, "overlay:volatile"), "losing") > 0,
        "{report:#}"
    );
    let told = answer(said);
    assert!(
        told.contains("in overlay:volatile, and natively none"),
        "{told}"
    );
    assert!(
        told.contains("it kept all in native and overlay:upper"),
        "{told}"
    );
}

#[test]
fn a_program_that_flushes_nothing_is_no_fault_of_the_layer() {
    if !needs_root() {
        return;
    }
    let said = cut(CARELESS, CHECK, &["overlay:upper"]).code(1);
    let report = said.json();
    for layer in ["native", "overlay:upper"] {
        assert!(number(of(&report, layer), "losing") > 0, "{report:#}");
    }
    let told = answer(said);
    assert!(
        told.contains("natively too, so the program does not flush"),
        "{told}"
    );
    let trials = report["power_cuts"].as_array().expect("power cuts");
    let ours = trials.iter().filter(|t| t["layer"] == "overlay:upper");
    assert!(
        ours.clone().count() > 4 && ours.clone().all(|t| t["losing"] == 0),
        "{trials:#?}"
    );
}

/// Each says nothing, and why.
#[test]
fn what_cannot_be_believed_is_not_proved() {
    if !needs_root() {
        return;
    }
    let said = cut(HONEST, "cat > /dev/null", &["overlay:upper"]);
    let blind = said.json();
    assert!(
        of(&blind, "overlay:upper")["blind"]
            .as_bool()
            .unwrap_or(false),
        "{blind:#}"
    );
    let told = answer(said);
    assert!(
        told.contains("not proved") && told.contains("empty directory"),
        "{told}"
    );
    let crash = cut(HONEST, "kill -SEGV $$", &["overlay:upper"]).json();
    let why = of(&crash, "overlay:upper")["uncut"].to_string();
    assert!(
        why.contains("its check failed before any power cut"),
        "{why}"
    );
    let silent = cut("echo starting; exit 3", CHECK, &["overlay:upper"]).json();
    let why = of(&silent, "native")["uncut"].to_string();
    assert!(
        why.contains("it acknowledged nothing: it ended with exit code 3"),
        "{why}"
    );
    let said = cut(HONEST, "echo lost 1; cat > /dev/null", &["overlay:upper"]);
    let liar = said.json();
    assert!(
        number(of(&liar, "native"), "lost_when_killed") > 0,
        "{liar:#}"
    );
    let told = answer(said);
    assert!(
        told.contains("acknowledges before it writes, or its check is wrong"),
        "{told}"
    );
}

#[test]
fn what_is_asked_for_wrongly_is_refused() {
    let refused = |args: &[&str]| {
        let said = Lm::new()
            .args([&["durability", "-l", "overlay:upper"], args].concat())
            .run();
        said.code(2).stderr
    };
    assert!(refused(&["--run", "true"]).contains("--check"));
    assert!(refused(&["--run", " ", "--check", "x"]).contains("need a command"));
    let ack = refused(&["--run", "x", "--check", "x", "--ack", "("]);
    assert!(
        ack.contains("`--ack` = (") && ack.contains("hint:"),
        "{ack}"
    );
    assert!(refused(&["--time", "1s"]).contains("`--time` is for a program"));
    assert!(refused(&["--preset", "nothing"]).contains("sqlite"));
    let none = refused(&["--cuts", "0", "--run", "x", "--check", "x"]);
    assert!(none.contains("`--cuts 0`"), "{none}");
}

/// Runs a preset in an honest layer and, as its control, a lying one.
fn preset(names: &[&str]) {
    if !needs_root() {
        return;
    }
    let flags = names.iter().flat_map(|name| ["--preset", name]);
    let four = ["--time", "600ms", "--cuts", "4"];
    let program: Vec<&str> = flags.chain(four).collect();
    let said = durability(&program, &["overlay:upper"]);
    if said.code == Some(2) && said.stderr.contains("is not installed") {
        return skipped(&said.stderr);
    }
    let report = said.code(0).json();
    let cuts = report["program_cuts"].as_array().expect("cuts of programs");
    assert!(cuts.len() >= 6, "{cuts:#?}");
    for cut in cuts {
        assert!(
            number(cut, "items") > 1 && number(cut, "cuts") == 4,
            "{cut:#}"
        );
        if cut["promises"] == "kept" {
            assert_eq!(number(cut, "lost_when_killed"), 0, "{cut:#}");
        }
        let is_liar = cut["layer"] == "overlay:volatile";
        if is_liar || cut["promises"] == "kept" {
            assert_eq!(number(cut, "losing") > 0, is_liar, "{cut:#}");
        }
    }
}

#[test]
fn sqlite_keeps_what_its_makers_promise() {
    preset(&["sqlite"]);
}

#[test]
fn postgres_keeps_what_its_makers_promise() {
    preset(&["postgres"]);
}

#[test]
fn redis_keeps_what_its_makers_promise() {
    preset(&["redis"]);
}

#[test]
fn files_are_kept_where_they_are_flushed() {
    preset(&["git", "rename", "copy"]);
}
