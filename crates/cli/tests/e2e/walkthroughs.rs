//! The pages that go through a commit show code that is there, and README's commands measure.

use std::fs;

use crate::common::{Lm, root, skipped};

#[test]
fn code_in_the_pages_is_the_codes() {
    for page in ["add-a-layer", "add-an-exporter", "add-a-workload"] {
        let text = fs::read_to_string(root().join(format!("docs/src/{page}.md"))).unwrap();
        let mut shown = 0;
        for block in text.split("```rust\n").skip(1) {
            let (code, _) = block.split_once("```").expect("an end");
            let (file, code) = code.split_once('\n').expect("code");
            let path = file.strip_prefix("// ").expect("a path");
            let source = fs::read_to_string(root().join(path)).expect(path);
            let known: Vec<&str> = source.lines().map(str::trim).collect();
            let lines = code.lines().map(str::trim);
            for line in lines.filter(|l| !l.is_empty() && *l != "...") {
                assert!(
                    known.contains(&line),
                    "{page}.md shows what {path} has not: {line}"
                );
                shown += 1;
            }
        }
        assert!((10..60).contains(&shown), "{page}.md shows {shown} lines");
    }
}

#[test]
fn commands_that_replace_other_programs_measure() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, table) = text
        .split_once("| instead of | layermark |\n")
        .expect("the table");
    let rows = table.lines().skip(1).take_while(|l| l.starts_with('|'));
    let mut measured = 0;
    for row in rows {
        let (_, command) = row.split_once("`layermark ").expect(row);
        let (command, _) = command.split_once('`').expect(row);
        let words = shell_words::split(command).expect(command);
        let lm = Lm::new();
        let work = lm.work();
        let said = lm
            .args(&words[..1])
            .args(["--blocks", "2", "--no-control", "--json", "--dir"])
            .args([work])
            .args(&words[1..])
            .run();
        if said.code == Some(3) {
            skipped(&format!("{command}: {}", said.stderr));
            continue;
        }
        let report = said.code(0).left_nothing().json();
        let results = report["results"].as_array().expect(command);
        assert!(!results.is_empty(), "{command}: {report:#}");
        measured += 1;
    }
    assert!(measured > 0, "none of the commands could be tried");
}
