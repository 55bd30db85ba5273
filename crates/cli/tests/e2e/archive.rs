//! A run in a file of its own, `x.lm`: sent to somebody who has neither its store nor, perhaps, its layers.

use std::fs;

use crate::common::{Lm, MOCK, Said, history};

/// A directory with this file of a stored run, and nothing else of it.
fn sent(fixture: &str) -> Lm {
    let here = Lm::stored(&[fixture]).args(["report", "-o", "x.lm"]);
    let here = here.run().code(0);
    let there = Lm::new();
    fs::copy(here.dir.path().join("x.lm"), there.dir.path().join("x.lm")).expect("x.lm");
    there
}

#[test]
fn a_report_of_the_file_is_that_of_the_run_and_names_the_file() {
    let here = Lm::stored(&["compare-old"]).args(["report", "--json"]);
    let (here, there) = (here.run().code(0), sent("compare-old"));
    let there = there.args(["report", "x.lm", "--json"]).run().code(0);
    let (mut of_run, mut of_file) = (here.json(), there.json());
    assert_eq!(
        of_file["reproduce"]["replay"],
        "layermark run --replay x.lm"
    );
    for report in [&mut of_run, &mut of_file] {
        report["reproduce"]["replay"] = "".into();
    }
    assert_eq!(of_run, of_file);
    let text = there.then().args(["report", "x.lm"]).run().code(0);
    assert!(
        text.stdout.contains("More: layermark report x.lm --full"),
        "{}",
        text.stdout
    );
    assert!(
        !text.dir.path().join("data/layermark/layermark.db").exists(),
        "a store was made"
    );
}

#[test]
fn two_files_are_compared_and_one_is_kept_in_the_own_store() {
    let new = Lm::stored(&["compare-new"])
        .args(["report", "-o", "new.lm"])
        .run()
        .code(0);
    let there = sent("compare-old");
    fs::copy(
        new.dir.path().join("new.lm"),
        there.dir.path().join("new.lm"),
    )
    .expect("new.lm");
    let gate = ["--fail-if", "slower=10%"];
    let compared = there
        .args(["compare", "x.lm", "new.lm"])
        .args(gate)
        .run()
        .code(1);
    let with_store = |said: Said, words: &[&str]| said.then().args(words).run();
    let kept = with_store(compared, &["import", "x.lm"]).code(0);
    assert!(kept.stderr.contains("import: "), "{}", kept.stderr);
    assert_eq!(history(kept.dir.path()).len(), 1);
    let again = with_store(kept, &["import", "x.lm"]);
    let again = again.fails(2, &["is in the store already", "layermark report"]);
    // A file beside a run of the store.
    with_store(again, &["compare", "last", "new.lm"]).code(0);
}

#[test]
fn a_run_writes_the_file_and_another_machine_makes_the_run_again_where_it_stands() {
    let run = Lm::new().measure(MOCK).args(["-o", "x.lm"]).run().code(4);
    let there = Lm::new();
    fs::copy(run.dir.path().join("x.lm"), there.dir.path().join("x.lm")).expect("x.lm");
    let again = there
        .args(["run", "--replay", "x.lm", "--json"])
        .run()
        .code(4);
    let (first, second) = (
        run.then().args(["report", "--json"]).run().json(),
        again.json(),
    );
    assert_eq!(first["seed"], second["seed"]);
    assert_ne!(first["dir"], second["dir"]);
    let points = |report: &serde_json::Value| {
        let rows = report["results"].as_array().expect("results").clone();
        rows.into_iter()
            .map(|row| row["label"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(points(&first), points(&second));
}

/// Nobody reads what is packed in a file, so it is the file of somebody else, whoever owns it.
#[test]
fn what_a_sent_run_reaches_is_allowed_or_refused_and_it_is_not_continued() {
    let words = ["was made by somebody else", "program", "--allow-programs"];
    let said = sent("steps").args(["run", "--replay", "x.lm"]).run();
    let said = said.fails(2, &words);
    // A store of one's own does not make it one's own.
    let kept = said.then().args(["import", "x.lm"]).run().code(0);
    let again = kept.then().args(["run", "--replay", "last"]).run();
    let again = again.fails(2, &words);
    let resume = again.then().args(["run", "--resume", "last"]).run();
    let said = resume.fails(2, &["in the store where it was begun", "run --replay last"]);
    let resume = said.then().args(["run", "--resume", "x.lm"]).run();
    let resume = resume.fails(2, &["in the store where it was begun", "run --replay x.lm"]);
    let path = resume.dir.path().join("x.lm");
    let bytes = fs::read(&path).expect("x.lm");
    fs::write(&path, &bytes[..bytes.len() / 2]).expect("half of it");
    for command in [
        "report x.lm",
        "compare x.lm x.lm",
        "import x.lm",
        "run --replay x.lm",
    ] {
        let said = Lm::with(resume.dir.path()).args(command.split(' ')).run();
        said.fails(2, &["x.lm is no run of layermark, or damaged", "-o x.lm"]);
    }
}
