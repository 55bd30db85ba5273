//! The pages that go through a commit show code that is there.

use std::fs;

use crate::common::root;

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
