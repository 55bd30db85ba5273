//! Every command that advice, a hint or a finding can print exists, with the options it names.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use crate::common::{binary, root};

/// Words that follow `layermark` in a sentence, and are not a command.
const PROSE: [&str; 14] = [
    "as",
    "did",
    "guest",
    "has",
    "is",
    "itself",
    "layermark",
    "on",
    "place",
    "runs",
    "takes",
    "talks",
    "there",
    "wrote",
];

/// Source text that is compiled into the program: no comment, no test, strings on one line.
fn texts(path: &Path) -> String {
    let source = fs::read_to_string(path).unwrap();
    let shipped = source.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = shipped.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|l| !l.starts_with("//")).collect();
    lines.join("\n").replace("\\\n", "")
}

fn sources(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(texts(&path));
        }
    }
}

/// Commands in these texts, each with the options that stand behind it.
fn commands(texts: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rest in texts.iter().flat_map(|t| t.split("layermark ").skip(1)) {
        let is_letter = |c: char| c.is_ascii_lowercase() || c == '-';
        let word = rest.split(|c| !is_letter(c)).next().unwrap_or_default();
        if word.is_empty() || word.starts_with('-') {
            continue;
        }
        let line = rest.split(['"', '`', ';', ',', '(', ')', '\n']).next();
        let tokens = line.unwrap_or_default().split_whitespace();
        let options = tokens.filter_map(|token| {
            let name = token.strip_prefix("--")?;
            let name = name.split(|c| !is_letter(c)).next()?;
            (!name.is_empty()).then(|| format!("--{name}"))
        });
        found.entry(word.into()).or_default().extend(options);
    }
    found
}

fn help(words: &[&str]) -> String {
    let help = Command::new(binary()).args(words).arg("--help").output();
    let help = help.unwrap();
    assert!(
        help.status.success(),
        "a message names `layermark {}`, which does not exist",
        words.join(" ")
    );
    String::from_utf8(help.stdout).unwrap()
}

#[test]
fn every_command_that_is_printed_exists() {
    let mut all = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.as_ref().unwrap().file_name();
        // Development dependencies print nothing.
        if name != "testkit" && name != "fuzz" {
            sources(&entry.unwrap().path().join("src"), &mut all);
        }
    }
    let mut found = commands(&all);
    found.retain(|word, _| !PROSE.contains(&word.as_str()));
    assert!(found.len() > 8 && found.contains_key("report"), "{found:?}");
    for (command, options) in found {
        let mut text = help(&[&command]);
        // Its parts have options of their own.
        let parts: &[&str] = match command.as_str() {
            "durability" => &["record", "check", "reproducer"],
            "fleet" => &["check", "run", "script"],
            _ => &[],
        };
        for part in parts {
            text += &help(&[&command, part]);
        }
        for option in options {
            assert!(text.contains(&option), "layermark {command} {option}");
        }
    }
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    let text =
        ["Look with: layermark durability -l LAYER\", layermark run --resumed ID".to_owned()];
    let found = commands(&text);
    assert!(found.contains_key("durability"));
    assert!(found["run"].contains("--resumed"));
}
