//! What is said is decided in `statements/`, which writes no text, and worded in `words/`, whose texts nobody searches.

use std::{fs, path::Path};

/// The product's code of a file, without comments and inline tests.
fn product(source: &str) -> Vec<String> {
    let lines = source.lines().take_while(|l| *l != "#[cfg(test)]");
    let lines = lines.map(str::trim).filter(|l| !l.starts_with("//"));
    lines.map(str::to_owned).collect()
}

/// String literals of a line.
fn literals(line: &str) -> Vec<&str> {
    line.split('"').skip(1).step_by(2).collect()
}

/// A literal with a blank between two letters, or what makes a text.
fn writes_text(line: &str) -> bool {
    let makes = [
        "format!",
        "text!",
        "to_string()",
        "String::from",
        "write!",
        "concat!",
    ];
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    let is_sentence = |text: &&str| {
        let mut blanks = text.match_indices(' ');
        blanks.any(|(at, _)| {
            is_letter(text[..at].chars().next_back()) && is_letter(text[at + 1..].chars().next())
        })
    };
    makes.iter().any(|way| line.contains(way)) || literals(line).iter().any(is_sentence)
}

/// All files of a folder and of those below it, but for files of tests.
fn files(folder: &str) -> Vec<(String, Vec<String>)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut all) = (vec![src.join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("tests.rs") {
                let source = fs::read_to_string(&path).unwrap();
                let name = path.strip_prefix(&src).unwrap().display().to_string();
                all.push((name, product(&source)));
            }
        }
    }
    all
}

#[test]
fn statements_write_no_text() {
    assert!(writes_text(r#"let x = "is slower";"#) && writes_text("format!(x)"));
    assert!(!writes_text(r#"x.starts_with("git "), ("a", b)"#));
    let all = files("statements");
    assert!(all.len() > 5, "{}", all.len());
    for (file, lines) in all {
        let bad: Vec<&String> = lines.iter().filter(|l| writes_text(l)).collect();
        assert!(bad.is_empty(), "{file}: {bad:#?}");
    }
}

/// Facts and studies have the words of statements, and fixed notes, but format no text of their own.
#[test]
fn facts_and_studies_write_no_text() {
    let makes = [
        "format!", "text!", "write!", "writeln!", "concat!", "push_str",
    ];
    for folder in ["facts", "statements", "studies"] {
        let all = files(folder);
        assert!(all.len() > 5, "{folder}: {}", all.len());
        for (file, lines) in all {
            let makes = |l: &&String| makes.iter().any(|way| l.contains(way));
            let bad: Vec<&String> = lines.iter().filter(makes).collect();
            assert!(bad.is_empty(), "{file}: {bad:#?}");
        }
    }
}

#[test]
fn a_text_cannot_be_searched() {
    let words = files("words");
    let (_, lines) = words
        .iter()
        .find(|(file, _)| file.ends_with("marked.rs"))
        .unwrap();
    let public = lines.iter().filter_map(|l| l.strip_prefix("pub fn "));
    let public: Vec<&str> = public.filter_map(|l| l.split('(').next()).collect();
    assert!(public.contains(&"joined"), "{public:?}");
    let searches = [
        "contains",
        "find",
        "split",
        "starts_with",
        "ends_with",
        "as_str",
        "strip",
    ];
    for method in public {
        let bad = searches.iter().any(|s| method.starts_with(s));
        assert!(!bad, "`Text::{method}` looks for meaning in a text");
    }
    for name in ["Deref", "AsRef", "Borrow", "PartialEq<"] {
        assert!(
            !lines.iter().any(|l| l.contains(name)),
            "`Text` is a `{name}`"
        );
    }
    for (file, lines) in words {
        let own = file.ends_with("marked.rs");
        let bad = |l: &&String| l.contains("to_string().") && !own;
        assert_eq!(lines.iter().find(bad), None, "{file}");
    }
}
